//! What each error of servers means to the user: its exit code and the next step.

use crate::cli::failure::{Cause, Exit, Failure};
use crate::error::{
    CertificateFault, Recovery, SentinelFault, ServerKind, StoreError, TlsFault, names_unknown_command, own_limit,
};
use crate::model::{option, shell_quoted};
use crate::redis::embedded::EmbeddedError;

impl From<EmbeddedError> for Failure {
    fn from(error: EmbeddedError) -> Self {
        let exit = match error {
            EmbeddedError::Stopped { .. } => Exit::Interrupted,
            EmbeddedError::Nodes { .. } | EmbeddedError::Foreign { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        let failure = Self::new(exit, error.to_string());
        match error {
            EmbeddedError::Foreign { .. } => failure.hint("give another one, which it makes if it is not there"),
            EmbeddedError::Directory { .. } => failure.hint("give a directory that you may write to"),
            EmbeddedError::InUse { .. } => failure.hint("wait until it has ended, or wait longer with `--timeout 60s`"),
            EmbeddedError::Nodes { .. } => failure.hint("leave `--nodes` out, or take another directory"),
            EmbeddedError::NamedServer { .. } => failure.hint("give the path of a valkey-server or redis-server"),
            EmbeddedError::NoServer => failure.hint(
                "install one: `apt install redis-server`, `dnf install valkey`, `apk add valkey`, \
                 `brew install valkey`; or name one by `SECKILL_SERVER`",
            ),
            EmbeddedError::Spawn { .. } | EmbeddedError::NotReady { .. } | EmbeddedError::Stopped { .. } => failure,
        }
    }
}

impl Failure {
    /// The same where a part was done: without a word that nothing was changed. A hint that a command gave stays.
    pub fn in_part(self) -> Self {
        match self.store() {
            Some(error) if self.hint == hint_of(error) => Self { hint: advice(error), ..self },
            _ => self,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (exit, hint) = (meaning(&error).0, hint_of(&error));
        let message = match &error {
            StoreError::OtherLimit { activity, limit } => {
                format!("`--per-user-limit` is not {}, which is {limit}", own_limit(activity.as_deref()))
            }
            other => other.to_string(),
        };
        Self { hint, cause: Cause::Store(Box::new(error)), ..Self::new(exit, message) }
    }
}

/// What was done before an error of the store, and the next step.
fn hint_of(error: &StoreError) -> Option<String> {
    let advice = advice(error)?;
    Some(match error {
        StoreError::NoUnits { .. } => format!("nothing was taken; {advice}"),
        StoreError::Server { kind: ServerKind::OutOfMemory | ServerKind::Busy, .. } => {
            format!("nothing was changed; {advice}, then send it again")
        }
        error if error.is_refusal() => format!("nothing was changed; {advice}"),
        StoreError::Permission { .. } => format!("a part may be done, which `seckill reconcile` shows; {advice}"),
        _ => advice,
    })
}

/// The next step after an error of the store, without a word on what was done before.
pub fn advice(error: &StoreError) -> Option<String> {
    meaning(error).1
}

/// What an error of the store means to the user: the exit code, and the next step.
fn meaning(error: &StoreError) -> (Exit, Option<String>) {
    let (exit, advice) = match error {
        StoreError::Url { .. } => (
            Exit::Usage,
            "expected redis://, rediss:// or unix:///path.sock, such as redis://user@10.0.0.5:6379/0, or host:port, or \
             redis+sentinel://h1:26379,h2:26379/primary; give the password by `--password-file` or `SECKILL_PASSWORD`",
        ),
        StoreError::Unreachable { .. } => (
            Exit::Unreachable,
            "is the server up? set `--url` or `SECKILL_URL`, or try a private server with `--embedded`",
        ),
        StoreError::Timeout { server, .. } if server.starts_with("rediss:") => (
            Exit::Unreachable,
            "is it paused, or busy? give it longer with `--timeout 30s`; if the port has no TLS, the URL begins with redis://",
        ),
        StoreError::Timeout { .. } => (Exit::Unreachable, "is it paused, or busy? give it longer with `--timeout 30s`"),
        StoreError::Sentinel(fault) => return meaning_of_sentinel(fault),
        StoreError::Tls { fault, .. } => return (Exit::Unreachable, advice_of_tls(*fault).map(str::to_owned)),
        StoreError::Certificate { fault, .. } => (Exit::Usage, advice_of_certificate(fault)),
        StoreError::Login { .. } => {
            (Exit::Denied, "give the password by `--password-file` or `SECKILL_PASSWORD`, and the user in the URL")
        }
        StoreError::Permission { .. } => {
            (Exit::Denied, "grant the user these commands: ACL SETUSER, or ask who administers the server")
        }
        StoreError::Server { why, kind } => return meaning_of_server(*kind, why),
        StoreError::Redirected(_) => (
            Exit::Failed,
            "is a failover going on? see `redis-cli --cluster check HOST:PORT`, then the same command again",
        ),
        StoreError::SpreadLayout { .. } => (
            Exit::Usage,
            "use the layout `cluster`, with all keys of an activity in one slot: `--layout cluster`, or \
             `SECKILL_LAYOUT=cluster`; or name keys with a tag in a layout of your own, such as `shop:{<id>}:left`",
        ),
        StoreError::SpreadOrder { .. } => (
            Exit::Usage,
            "the activities of a rush, and those without users, must be in one slot of a cluster: send an order for each of them",
        ),
        StoreError::Unsettled { request, .. } => {
            let advice = format!(
                "send the same command again with `{}`: it settles what can be settled, and buys nothing twice",
                option("--request", request)
            );
            return (Exit::Unknown, Some(advice));
        }
        StoreError::Unknown { recovery, .. } => return (Exit::Unknown, recovery.as_ref().map(advice_to_recover)),
        StoreError::OtherLimit { .. } => {
            (Exit::Usage, "leave `--per-user-limit` out, or change the limit by `preheat --update`")
        }
        StoreError::NoUser { .. } => {
            (Exit::Usage, "give `--user USER`, in a file the column `user`, in a fixture the field `user`")
        }
        StoreError::Reset { .. } => (
            Exit::Failed,
            "the rest was not applied; the same command again would apply the whole input to the new sale",
        ),
        StoreError::OtherJob { .. } => (
            Exit::Usage,
            "new input needs another `--job`; what was applied before needs the `--map` and `--format` of then: under another `--job` it is applied again",
        ),
        StoreError::Lost { .. } => {
            (Exit::Unknown, "give the whole input again with the same `--job`: what is stored is not applied twice")
        }
        StoreError::Oversized { .. } => (Exit::Failed, "is it the right server? its reply was not read to the end"),
        StoreError::Reply { .. } => (Exit::Failed, "does another version of the scripts run there?"),
        StoreError::NoUnits { .. } => (
            Exit::Failed,
            "send it again, or give it longer with `--timeout 30s`; `seckill reconcile` names transfers that somebody left",
        ),
        StoreError::Unfinished { .. } => (Exit::Failed, "the same command continues: nothing is done twice"),
        StoreError::GaveUp(_) => {
            (Exit::Failed, "try again; fewer clients at once get in each other's way less (`--clients` of a load test)")
        }
    };
    (exit, Some(advice.to_owned()))
}

/// What settles a call whose outcome is not known.
pub(crate) fn advice_to_recover(recovery: &Recovery) -> String {
    match recovery {
        Recovery::SameRequest(id) => {
            format!(
                "send the same command again with `{}`: it changes nothing if it was applied",
                option("--request", id)
            )
        }
        Recovery::SameCall => "send the same command again: what was applied is not applied twice".to_owned(),
        Recovery::Inspect(activity) => {
            format!(
                "look at it with `seckill inspect {}`; give the same command again only if it is not as wanted",
                shell_quoted(activity)
            )
        }
    }
}

fn meaning_of_sentinel(fault: &SentinelFault) -> (Exit, Option<String>) {
    let (exit, advice) = match fault {
        SentinelFault::Unreachable { .. } => (
            Exit::Unreachable,
            "are these sentinels (port 26379)? the URL is redis+sentinel://h1:26379,h2:26379/primary",
        ),
        SentinelFault::UnknownPrimary { known, .. } if known.is_empty() => {
            (Exit::Usage, "they know none: see `sentinel monitor` in sentinel.conf")
        }
        SentinelFault::UnknownPrimary { known, .. } => {
            return (Exit::Usage, Some(format!("they know `{}`", known.join("`, `"))));
        }
        SentinelFault::Login { .. } => (
            Exit::Denied,
            "give the sentinels' password by `SECKILL_SENTINEL_PASSWORD` if it is not that of the servers",
        ),
        SentinelFault::Failover { .. } => (
            Exit::Unreachable,
            "a failover may be under way, which takes as long as the sentinels' `down-after-milliseconds` and some \
             seconds: give it longer with `--timeout 60s`, or `--retry-for 2m` for a file",
        ),
    };
    (exit, Some(advice.to_owned()))
}

fn advice_of_tls(fault: TlsFault) -> Option<&'static str> {
    Some(match fault {
        TlsFault::UnknownCa => {
            "give the CA that signed it by `--cacert FILE`; `#insecure` at the end of the URL accepts any certificate"
        }
        TlsFault::OtherHost => {
            "use a name of the certificate in the URL, or a certificate that names the host as subjectAltName; \
             `#insecure` at the end of the URL accepts any certificate"
        }
        TlsFault::Certificate => "look at it: openssl s_client -connect HOST:PORT; the server needs another one",
        TlsFault::WantsCertificate => {
            "give one by `--cert FILE` and `--key FILE`, signed by a CA that the server trusts (tls-ca-cert-file)"
        }
        TlsFault::RefusesCertificate => {
            "give `--cert` a certificate that is valid now and signed by a CA that the server trusts (tls-ca-cert-file)"
        }
        TlsFault::NoTls => "is it the port for TLS (tls-port)? without TLS, the URL begins with redis://",
        TlsFault::OnlyTls => "for TLS the URL begins with rediss://",
        TlsFault::Other => return None,
    })
}

fn advice_of_certificate(fault: &CertificateFault) -> &'static str {
    match fault {
        CertificateFault::NoCertificate => {
            "expected a file with -----BEGIN CERTIFICATE-----; other forms: openssl x509 -inform DER -in FILE"
        }
        CertificateFault::NoKey => {
            "expected a file with -----BEGIN PRIVATE KEY-----, as `openssl genpkey` and `openssl req -nodes` write it"
        }
        CertificateFault::EncryptedKey => "decrypt it: openssl pkey -in FILE -out FILE.key, readable by you alone",
        CertificateFault::Damaged(why) if why.contains("UnsupportedCertVersion") => {
            "it is of version 1 of X.509: `openssl x509 -req … -extfile FILE`, with basicConstraints=CA:FALSE in FILE, issues one of version 3"
        }
        CertificateFault::Damaged(_) => "expected PEM, as openssl writes it",
        CertificateFault::Mismatch => {
            "give the pair: openssl x509 -noout -pubkey -in CERT and openssl pkey -pubout -in KEY print the same"
        }
        CertificateFault::Insecure => "leave `#insecure` or `--cacert` out",
        CertificateFault::NoTls => "write rediss:// for TLS",
    }
}

/// `why` is the server's own text.
fn meaning_of_server(kind: ServerKind, why: &str) -> (Exit, Option<String>) {
    let exit = if kind == ServerKind::Usage { Exit::Usage } else { Exit::Failed };
    let advice = match kind {
        _ if why.contains("max number of clients") => {
            "connect fewer clients, or raise `maxclients` on the server (CONFIG SET maxclients)"
        }
        _ if why.contains("protected mode") => {
            "without a password it serves its own machine alone: set `requirepass` there, or `CONFIG SET protected-mode no`"
        }
        _ if why.contains("SELECT is not allowed") => "a cluster has one database: leave its number out of the URL",
        _ if why.contains("DB index is out of range") => {
            "the server has no database of this number: leave it out of the URL, or name another"
        }
        ServerKind::Loading => "wait until it has loaded, or give it longer with `--timeout 60s`",
        ServerKind::PrimaryDown | ServerKind::ReadOnly => "give the primary's address to `--url`",
        ServerKind::OutOfMemory => "raise `maxmemory` (policy `noeviction`) or free memory",
        ServerKind::Busy => "wait for that script, or end it with SCRIPT KILL",
        ServerKind::Misconfigured => "look at the server's log: the disk may be full",
        ServerKind::NoReplicas => "see `min-replicas-to-write` on the server",
        ServerKind::CrossSlot => "use the layout `cluster`, with all keys of an activity in one slot",
        ServerKind::Moving => {
            "wait until the slot is moved; if nobody moves it any more, `redis-cli --cluster fix HOST:PORT` ends it"
        }
        ServerKind::NoSlots => {
            "make a cluster of the nodes with `redis-cli --cluster create`; or was this one reset, or never joined? then \
             name another one by `--url`"
        }
        ServerKind::ClusterDown => {
            "is a primary down that no replica replaced? see `redis-cli --cluster check HOST:PORT`"
        }
        ServerKind::WrongType => "see `TYPE` of the key, which another system may use",
        ServerKind::Usage => "see what is stored with `seckill inspect`",
        ServerKind::Other if names_unknown_command(why) => {
            "the server lacks this command, which is needed: `seckill doctor` finds others that scripts call; if it is a sentinel, \
             the URL is redis+sentinel://h1:26379,h2:26379/primary"
        }
        ServerKind::Other => return (exit, None),
    };
    (exit, Some(advice.to_owned()))
}
