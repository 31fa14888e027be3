//! What can go wrong between us and the server, by kind. The command line adds exit codes and hints (`cli/error.rs`).

use std::fmt;

use redis::RedisError;

use crate::model::names::names;
use crate::model::slot::SLOTS;

/// What a server did, or why it did not.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why the server did not do what was asked. Nothing was changed if it [is a refusal](StoreError::is_refusal); of others a part may
/// be done.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum StoreError {
    /// The URL cannot be read.
    #[error("{origin} is not a server URL; it is not shown, as it may hold a password")]
    Url { origin: String },
    /// No connection.
    #[error("cannot reach the server at `{server}`: {why}")]
    Unreachable { server: String, why: String },
    /// The server did not answer in time, and nothing was asked that changes anything.
    #[error("the server at `{server}` did not answer within {waited}")]
    Timeout { server: String, waited: String },
    /// TLS could not be agreed on.
    #[error("no TLS connection to `{server}`: {why}")]
    Tls { server: String, fault: TlsFault, why: String },
    /// A certificate or a key that was given is of no use.
    #[error("cannot use {origin}: {fault}")]
    Certificate { origin: String, fault: CertificateFault },
    /// The sentinels of the URL led to no primary.
    #[error(transparent)]
    Sentinel(#[from] SentinelFault),
    /// Wrong or missing password.
    #[error("the server at `{server}` refused the login: {why}")]
    Login { server: String, why: String },
    /// The user lacks a permission. `may_be_cut`: a script that writes ended at it, perhaps behind other writes.
    #[error("the server refused permission: {why}")]
    Permission { why: String, may_be_cut: bool },
    /// A node of a cluster serves other slots. The sender of the call follows it.
    #[error("the nodes of the cluster do not agree who serves slot {}", .0.slot)]
    Redirected(Redirection),
    /// The layout has several slots for an activity, and the servers are a cluster.
    #[error("layout `{layout}` spreads an activity over {slots} slots of the cluster, which no script can serve")]
    SpreadLayout { layout: &'static str, slots: usize },
    /// The activities of one order are in several slots of a cluster.
    #[error("the activities of this order are in several slots of the cluster: {}", slots_in_words(slots))]
    SpreadOrder { slots: Vec<(String, u16)> },
    /// The server answered with an error of a known kind.
    #[error("the server {kind}: {why}")]
    Server { kind: ServerKind, why: String },
    /// A write was sent, and whether it happened could not be settled.
    #[error(
        "the connection to `{server}` broke after the write was sent, and it could not be settled whether it happened: {why}"
    )]
    Unknown { server: String, why: String, recovery: Option<Recovery> },
    /// Some items of an order of several slots are decided, and others cannot be now.
    #[error("the order is not settled: {why}")]
    Unsettled { request: String, why: String },
    /// The caller's limit is not the activity's own. The activity is named if it is one of a file.
    #[error("the given limit per user is not {}, which is {limit}", own_limit(activity.as_deref()))]
    OtherLimit { activity: Option<String>, limit: String },
    /// A request id of a sharded activity says nothing without its user.
    #[error("{}`{activity}` is sharded, where a request id belongs to its user, and no user is given", at_line(line))]
    NoUser { activity: String, line: Option<u64> },
    /// The activity was reset while a job was being applied to it.
    #[error("activity `{activity}` was reset after this run began, so the run stopped")]
    Reset { activity: String },
    /// The name of a job is that of another input.
    #[error("the job `{job}` was another input for activity `{activity}`")]
    OtherJob { job: String, activity: String },
    /// The server has forgotten what it had decided, and the input cannot be read again.
    #[error(
        "the server lost what it had decided of `{activity}` after line {line}, and this input cannot be read again"
    )]
    Lost { activity: String, line: u64 },
    /// A reply that is longer than any of a sale.
    #[error("the server at `{server}` sent a reply that is larger than any of a sale")]
    Oversized { server: String },
    /// A reply that no script's header names.
    #[error("`{what}` replied with something that this version does not understand: {reply}")]
    Reply { what: String, reply: String },
    /// The home of an order was out of stock, and no units came to it in time.
    #[error("no units of `{activity}` came to the user's shard within {waited}: {why}")]
    NoUnits { activity: String, waited: String, why: String },
    /// The preheat of a sharded activity cannot continue now.
    #[error("the preheat of `{activity}` is unfinished: {why}")]
    Unfinished { activity: String, why: String },
    /// Others were faster each time: at what.
    #[error("gave up: {0}")]
    GaveUp(String),
}

/// Whether a text has the command AUTH, and not a user or a key with such a name.
fn is_about_auth(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | ':' | '_' | '.')).any(|word| word == "AUTH")
}

/// Why a handshake of TLS failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFault {
    /// Nobody vouches for the server's certificate.
    UnknownCa,
    /// The server's certificate is another host's.
    OtherHost,
    /// The server's certificate is invalid, or not now.
    Certificate,
    /// The server demands a certificate of the client, and got none.
    WantsCertificate,
    /// The server does not accept the client's certificate.
    RefusesCertificate,
    /// What answers there does not speak TLS.
    NoTls,
    /// What answers there speaks TLS, and the URL is without.
    OnlyTls,
    /// Anything else.
    Other,
}

/// Why sentinels led to no primary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's text names its fields")]
pub enum SentinelFault {
    /// None of them answered.
    #[error("no sentinel of `{primary}` can be reached: {tried}")]
    Unreachable { primary: String, tried: String },
    /// They have other names.
    #[error("the sentinels know no primary `{primary}`")]
    UnknownPrimary { primary: String, known: Vec<String> },
    /// They want a password, or another one.
    #[error("the sentinel at `{sentinel}` refused the login: {why}")]
    Login { sentinel: String, why: String },
    /// The primary that they name does not accept commands, and they have not named another one yet.
    #[error("the primary `{primary}` cannot be used: {why}")]
    Failover { primary: String, why: String },
}

/// Why a certificate or a key is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// No certificate is in it.
    #[error("it has no certificate in PEM form")]
    NoCertificate,
    /// No private key is in it.
    #[error("it has no private key in PEM form")]
    NoKey,
    /// The private key is encrypted.
    #[error("its private key is encrypted")]
    EncryptedKey,
    /// It is not what its form promises.
    #[error("{0}")]
    Damaged(String),
    /// The key is of another certificate.
    #[error("it is not the key of the client's certificate")]
    Mismatch,
    /// The URL accepts any certificate.
    #[error("`#insecure` in the URL accepts any certificate, so no CA is asked")]
    Insecure,
    /// The URL is not one of TLS.
    #[error("the URL is without TLS")]
    NoTls,
}

/// How to find out whether a write whose reply was lost was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovery {
    /// Send the same order with this request id: it is applied at most once.
    SameRequest(String),
    /// Make the same call: what was applied is not applied twice.
    SameCall,
    /// Look at this activity first: the same call could change it a second time.
    Inspect(String),
}

names! {
    /// Errors that a server is known to answer with, by what messages say of the server.
    pub enum ServerKind {
        /// Still reading its data.
        Loading = "is still loading its data",
        /// A replica without a link to its primary, which shows nothing old (`replica-serve-stale-data no`).
        PrimaryDown = "is a replica that is not connected to its primary",
        /// A replica, or set to read only.
        ReadOnly = "is read-only",
        /// Out of memory.
        OutOfMemory = "is out of memory",
        /// Another script runs.
        Busy = "is busy with a script",
        /// Cannot write its data to disk.
        Misconfigured = "cannot save its data and refuses writes",
        /// Too few replicas are connected.
        NoReplicas = "has too few replicas and refuses writes",
        /// A node of a cluster was asked for keys of several slots.
        CrossSlot = "serves the keys of one slot in a call",
        /// No node of the cluster serves any slot.
        NoSlots = "is a node of a cluster in which nobody serves any slot",
        /// A slot is being moved to another node, and only some keys of the activity are there.
        Moving = "is moving these keys to another node of the cluster",
        /// The cluster does not serve the slot.
        ClusterDown = "belongs to a cluster that does not serve these keys",
        /// A key of the wrong type.
        WrongType = "found a key of the wrong type",
        /// What was given does not fit together, as only the script could find out.
        Usage = "refused what was given",
        /// Anything else.
        Other = "answered with an error",
    }
}

impl ServerKind {
    /// Whether nothing ran and somebody may be about to correct it: a run that can wait sends again.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::ReadOnly | Self::OutOfMemory | Self::Misconfigured | Self::NoReplicas)
            || self.is_transient()
    }

    /// Whether nothing ran, so that waiting and sending again is safe and may help.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Loading | Self::PrimaryDown | Self::Busy | Self::Moving | Self::ClusterDown)
    }
}

/// An error reply's first word and the kind it means.
const SERVER_KINDS: [(&str, ServerKind); 12] = [
    ("LOADING", ServerKind::Loading),
    ("READONLY", ServerKind::ReadOnly),
    ("OOM", ServerKind::OutOfMemory),
    ("BUSY", ServerKind::Busy),
    ("MISCONF", ServerKind::Misconfigured),
    ("NOREPLICAS", ServerKind::NoReplicas),
    ("CROSSSLOT", ServerKind::CrossSlot),
    ("CLUSTERDOWN", ServerKind::ClusterDown),
    ("TRYAGAIN", ServerKind::Moving),
    ("WRONGTYPE", ServerKind::WrongType),
    ("USAGE", ServerKind::Usage),
    ("MASTERDOWN", ServerKind::PrimaryDown),
];

/// Whether a server's text says that it does not have a command.
pub(crate) fn names_unknown_command(why: &str) -> bool {
    // A script that asks for a right names the command to `acl_check_cmd`, which refuses names it does not know.
    let words = ["unknown command", "unknown subcommand", "unknown redis command", "acl_check_cmd"];
    words.iter().any(|words| why.to_lowercase().contains(words))
}

impl StoreError {
    /// Whether a consumer group is gone, or the stream it reads: a reset removes both.
    pub fn is_no_group(&self) -> bool {
        matches!(self, Self::Server { why, .. } if why.contains("NOGROUP") || why.contains("UNBLOCKED")
            || why.contains("consumer group") || why.contains("no longer exists"))
    }

    /// Whether a key has another type than the command is for.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Server { kind: ServerKind::WrongType, .. })
    }

    /// Names the key if it has another type, which the server does not.
    pub(crate) fn of_key(self, key: &str) -> Self {
        match self {
            Self::Server { kind: kind @ ServerKind::WrongType, .. } => Self::Server { kind, why: format!("`{key}`") },
            other => other,
        }
    }

    /// What an error reply of the server means.
    pub fn of_reply(error: &RedisError, server: &str) -> Self {
        let code = error.code().unwrap_or_default();
        let detail = error.detail().unwrap_or_default();
        let why = if detail.is_empty() { error.to_string() } else { detail.to_owned() };
        // A call of more than ten arguments, or of a long one, is refused before NOAUTH would be, as a `Protocol error:
        // unauthenticated multibulk length` or `bulk length`.
        let is_missing = code == "NOAUTH" || why.contains("unauthenticated");
        if is_missing || code == "WRONGPASS" || is_about_auth(&why) {
            let why = if is_missing { "a password is required".to_owned() } else { why };
            return Self::Login { server: server.to_owned(), why };
        }
        // A script's own call that is refused says so in its text: the code is then ERR.
        let refused = ["NOPERM", "ACL failure", "The user executing the script"];
        if code == "NOPERM" || refused.iter().any(|words| why.contains(words)) {
            // On Redis 6.2 a script cannot ask for its rights. Only that version writes the number of a line in front.
            let may_be_cut = why.contains(": The user executing the script");
            return Self::Permission { why, may_be_cut };
        }
        if let Some(redirection) = Redirection::read(code, &why) {
            return Self::Redirected(redirection);
        }
        let kind = SERVER_KINDS
            .iter()
            .find(|(word, _)| {
                *word == code || why.starts_with(&format!("{word} ")) || why.contains(&format!("-{word} "))
            })
            .map_or(ServerKind::Other, |(_, kind)| *kind);
        if kind == ServerKind::Usage
            && let Some((_, limit)) = why.split_once("is not the limit of the activity, which is ")
        {
            return Self::OtherLimit { activity: None, limit: limit.to_owned() };
        }
        let why = if kind == ServerKind::Other && !code.is_empty() { format!("{code} {why}") } else { why };
        Self::Server { kind, why }
    }

    /// Why a connection failed, in a few words.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Unreachable { why, .. } | Self::Tls { why, .. } => why.clone(),
            Self::Timeout { .. } => "no reply in time".to_owned(),
            other => other.to_string(),
        }
    }

    /// Whether there is no connection, or it broke.
    pub fn is_connection(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Timeout { .. })
    }

    /// Whether the server is there but cannot serve right now, and nothing ran.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Server { kind, .. } => kind.is_transient(),
            Self::Sentinel(fault) => matches!(fault, SentinelFault::Failover { .. }),
            _ => false,
        }
    }

    /// The same for a call that was not sent because of it: what became of another one is not known.
    pub(crate) fn of_unsent(self) -> Self {
        match self {
            Self::Unknown { server, why, .. } => Self::Unreachable { server, why },
            error => error,
        }
    }

    /// Whether the server is gone, or is there but cannot serve right now: later it may.
    pub(crate) fn is_outage(&self) -> bool {
        self.is_connection() || self.is_transient()
    }

    /// The same, or it refused what was sent, nothing of it ran, and an operator may be about to correct that.
    pub(crate) fn is_retryable(&self) -> bool {
        self.is_outage() || matches!(self, Self::Server { kind, .. } if kind.is_retryable())
    }

    /// Whether the server refused one call for good, so that others may well be served.
    pub(crate) fn is_of_call(&self) -> bool {
        matches!(self, Self::Server { .. } | Self::Permission { .. } | Self::OtherLimit { .. }) && !self.is_transient()
    }

    /// Whether the server does not have the command: a managed one, or one that renamed it.
    pub(crate) fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Server { why, .. } if names_unknown_command(why))
    }

    /// Whether the server refused it before anything was changed.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Server { kind, .. } => {
                !matches!(kind, ServerKind::Loading | ServerKind::PrimaryDown | ServerKind::Other)
            }
            Self::Permission { may_be_cut, .. } => !may_be_cut,
            Self::OtherLimit { .. } => true,
            _ => false,
        }
    }
}

/// The limit of an activity, as errors call it.
pub(crate) fn own_limit(activity: Option<&str>) -> String {
    activity.map_or_else(|| "the activity's own".to_owned(), |activity| format!("that of `{activity}`"))
}

/// What an error of one line of a file begins with.
fn at_line(line: &Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

/// `1001` in 5649, `1002` in 1234.
fn slots_in_words(slots: &[(String, u16)]) -> String {
    let words: Vec<String> = slots.iter().map(|(activity, slot)| format!("`{activity}` in {slot}")).collect();
    words.join(", ")
}

/// The cause of an I/O error in words, without the raw `(os error 2)`; redis-rs writes `Io:` before one.
pub(crate) fn cause(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].trim_start_matches("Io: ").to_lowercase(),
        None => text,
    }
}

/// Where to send a call that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirection {
    /// Whether only this call goes there, after `ASKING`, because the slot is moving; else the whole slot is there.
    pub is_ask: bool,
    /// The slot of the call's keys.
    pub slot: u16,
    /// The node's host; empty if it is that of the node that replied.
    pub host: String,
    /// The node's port.
    pub port: u16,
}

impl Redirection {
    /// The error of a call that would have to follow it, while the slot is moving.
    pub(crate) fn moving_error(&self) -> StoreError {
        let why = format!("slot {} is on its way to `{self}`", self.slot);
        StoreError::Server { kind: ServerKind::Moving, why }
    }

    /// Reads the code and the text of an error reply: `MOVED 3999 127.0.0.1:6381`.
    pub fn read(code: &str, text: &str) -> Option<Self> {
        let is_ask = match code {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let mut words = text.split(' ');
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        // An IPv6 address has colons, and no brackets.
        let (host, port) = words.next()?.rsplit_once(':')?;
        // `?` means an endpoint that the node does not know.
        let host = if host == "?" { "" } else { host };
        Some(Self { is_ask, slot, host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for Redirection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_a_slot_and_a_node() {
        let read = |code, text| Redirection::read(code, text).map(|it| (it.is_ask, it.slot, it.host, it.port));
        let to = |is_ask, host: &str| Some((is_ask, 3999, host.to_owned(), 6381));
        assert_eq!(read("MOVED", "3999 127.0.0.1:6381"), to(false, "127.0.0.1"));
        assert_eq!(read("ASK", "3999 ::1:6381"), to(true, "::1"));
        assert_eq!(read("MOVED", "3999 node.example:6381 more"), to(false, "node.example"));
        assert_eq!(read("MOVED", "3999 :6381"), to(false, ""));
        assert_eq!(read("MOVED", "3999 ?:6381"), to(false, ""));
        for (code, text) in
            [("MOVED", "16384 h:1"), ("MOVED", "1 h"), ("MOVED", "1 h:99999"), ("ASK", ""), ("ERR", "1 h:1")]
        {
            assert_eq!(read(code, text), None, "{code} {text}");
        }
    }

    #[test]
    fn a_login_is_missing_only_if_the_command_is_named() {
        for text in ["Client sent AUTH, but no password is set", "unknown command 'AUTH'", "AUTH failed"] {
            assert!(is_about_auth(text), "{text}");
        }
        for text in ["User OAUTH-x has no permissions", "unknown command, with args beginning with: 'stock:AUTH-1'"] {
            assert!(!is_about_auth(text), "{text}");
        }
    }
}
