//! Where a server is: URL, password, timeouts. Our own handshake, so that it is bounded in time and nothing is sent
//! that was not asked for.

pub(crate) mod address;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisError};

use crate::error::{CertificateFault, Result, StoreError};
use crate::redis::connect::address::SentinelUrl;
use crate::redis::system::{Endpoint, RealSystem, Socket, System};
pub(crate) use crate::redis::tls::{Certificates, Pem};
use crate::redis::tls::{Tls, fault, is_spoken_on};

/// How long a server that speaks TLS may take to answer a greeting, at least: it decides between two exit codes.
const GREETING: Duration = Duration::from_secs(2);

/// Where the server is and how to log in.
#[derive(Debug, Clone)]
pub struct Target {
    address: ConnectionInfo,
    /// The other servers that the URL names: nodes of the same cluster.
    others: Vec<ConnectionInfo>,
    username: Option<String>,
    password: Option<String>,
    database: i64,
    /// If the server is whatever sentinels name.
    sentinels: Option<Arc<Sentinels>>,
    /// Of a server with TLS.
    tls: Option<Arc<Tls>>,
    /// As it may be shown: without the password.
    pub shown: String,
    /// How long to wait for a connection, and for each reply.
    pub timeout: Duration,
    /// The machine that opens its sockets and has the clocks.
    system: Arc<dyn System>,
}

/// Who knows where a primary is.
#[derive(Debug, Clone)]
struct Sentinels {
    addresses: Vec<ConnectionInfo>,
    primary: String,
    /// Their own password, if it is not that of the servers.
    password: Option<String>,
}

impl Target {
    /// Reads a URL or `host:port`. `source` says where the URL is from: what
    /// cannot be read is not shown, as any part of it may be a password.
    ///
    /// # Errors
    /// It is no URL of a server.
    pub fn new(url: &str, source: &str, timeout: Duration) -> Result<Self> {
        let invalid = || StoreError::Url { origin: source.to_owned() };
        if !address::names_sentinels(url) {
            return Ok(Self::of(address::read(url).ok_or_else(invalid)?, timeout));
        }
        let read = address::read_sentinels(url).ok_or_else(invalid)?;
        let shown = address::shown_sentinels(&read);
        let addresses = read.sentinels.iter().cloned().map(bare).collect();
        let sentinels = Sentinels { addresses, primary: read.primary, password: None };
        Ok(Self { shown, sentinels: Some(Arc::new(sentinels)), ..Self::of(read.sentinels, timeout) })
    }

    /// The servers at these addresses, of which there is one at least.
    fn of(mut all: Vec<ConnectionInfo>, timeout: Duration) -> Self {
        let shown = address::shown(&all);
        let others = all.split_off(1).into_iter().map(bare).collect();
        let info = all.remove(0);
        let settings = info.redis_settings();
        Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
            sentinels: None,
            tls: encryption(info.addr()),
            shown,
            timeout,
            system: RealSystem::shared(),
            address: bare(info),
            others,
        }
    }

    /// Whether the URL has a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The password to log in with.
    pub fn set_password(&mut self, password: String) {
        self.password = Some(password);
    }

    /// The name by which sentinels know the primary, if the URL names sentinels.
    pub fn primary_name(&self) -> Option<&str> {
        self.sentinels.as_deref().map(|sentinels| sentinels.primary.as_str())
    }

    /// The password of the sentinels, if it is not that of the servers.
    pub fn set_sentinel_password(&mut self, password: String) {
        if let Some(sentinels) = &mut self.sentinels {
            Arc::make_mut(sentinels).password = Some(password);
        }
    }

    /// A target for each sentinel, without a login.
    pub(crate) fn each_sentinel(&self) -> Vec<Self> {
        let addresses = self.sentinels.iter().flat_map(|sentinels| sentinels.addresses.clone());
        let nobody = Self { username: None, password: None, database: 0, ..self.clone() };
        addresses.map(|address| nobody.at(address)).collect()
    }

    /// How to log in to a sentinel that wants it: with the sentinels' own password, else as to the servers.
    pub(crate) fn sentinel_login(&self) -> Option<redis::Cmd> {
        let own = self.sentinels.as_ref().and_then(|sentinels| sentinels.password.clone());
        let username = if own.is_some() { None } else { self.username.clone() };
        let password = own.or_else(|| self.password.clone())?;
        Self { username, password: Some(password), ..self.clone() }.login()
    }

    /// Whether the server is spoken to over TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The CAs to trust instead of the system's, and the client's own certificate.
    ///
    /// # Errors
    /// One of them is of no use, or the URL is without TLS. Nothing is connected yet.
    pub fn set_certificates(&mut self, certificates: &Certificates) -> Result<()> {
        let given = certificates.ca.as_ref().or(certificates.client.as_ref().map(|(certificate, _)| certificate));
        match (&self.tls, given) {
            (_, None) => {}
            (Some(tls), Some(_)) => self.tls = Some(Arc::new(tls.with(certificates)?)),
            (None, Some(pem)) => {
                return Err(StoreError::Certificate { origin: pem.origin.clone(), fault: CertificateFault::NoTls });
            }
        }
        Ok(())
    }

    /// A server at a unix socket. The path is no URL: it may hold any character.
    ///
    /// # Errors
    /// None on a system that has unix sockets.
    pub fn of_socket(path: &Path, timeout: Duration) -> Result<Self> {
        let info = ConnectionAddr::Unix(path.to_owned()).into_connection_info();
        let info = info.map_err(|_| StoreError::Url { origin: "the socket".to_owned() })?;
        Ok(Self::of(vec![info], timeout))
    }

    /// A target for each server that the URL names: one, or the nodes of a cluster to begin with.
    pub(crate) fn seeds(&self) -> Vec<Self> {
        if self.sentinels.is_some() {
            return vec![self.clone()];
        }
        std::iter::once(&self.address).chain(&self.others).map(|address| self.at(address.clone())).collect()
    }

    /// Another node of the same cluster, with the same login. Without a host, another port of the same host.
    pub(crate) fn node(&self, host: &str, port: u16) -> Self {
        let same = |own: &str| if host.is_empty() { own.to_owned() } else { host.to_owned() };
        let address = match self.address.addr() {
            ConnectionAddr::TcpTls { host, insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: same(host), port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            ConnectionAddr::Tcp(own, _) => ConnectionAddr::Tcp(same(own), port),
            // A node that was reached by its socket is on this machine.
            _ => ConnectionAddr::Tcp(same("127.0.0.1"), port),
        };
        self.at(self.address.clone().set_addr(address))
    }

    fn at(&self, address: ConnectionInfo) -> Self {
        let login = RedisConnectionInfo::default().set_db(self.database);
        let login = self.username.iter().fold(login, |login, user| login.set_username(user));
        let login = self.password.iter().fold(login, |login, password| login.set_password(password));
        let shown = address::shown(&[address.clone().set_redis_settings(login)]);
        Self { address, others: Vec::new(), sentinels: None, shown, ..self.clone() }
    }

    /// The server in a few words, without scheme and login: `host:port`, or the path of a socket.
    pub(crate) fn place(&self) -> String {
        match self.address.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port}"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => self.shown.clone(),
        }
    }

    /// What metrics call the server: where it is, and which database, without user and password.
    pub(crate) fn label(&self) -> String {
        let database = RedisConnectionInfo::default().set_db(self.database);
        let bare = |address: &ConnectionInfo| address.clone().set_redis_settings(database.clone());
        match self.sentinels.as_deref() {
            Some(Sentinels { addresses, primary, .. }) => address::shown_sentinels(&SentinelUrl {
                sentinels: addresses.iter().map(bare).collect(),
                primary: primary.clone(),
            }),
            None => address::shown(&std::iter::once(&self.address).chain(&self.others).map(bare).collect::<Vec<_>>()),
        }
    }

    /// The same without the database: what metrics call a server that has others too.
    pub(crate) fn node_label(&self) -> String {
        Self { database: 0, ..self.clone() }.label()
    }

    /// The arguments by which `redis-cli` gets there; without the login.
    pub(crate) fn redis_cli(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut arguments = match self.address.addr() {
            ConnectionAddr::Tcp(host, port) => words(&["-h", host, "-p", &port.to_string()]),
            ConnectionAddr::TcpTls { host, port, insecure, .. } => {
                let more: &[&str] = if *insecure { &["--tls", "--insecure"] } else { &["--tls"] };
                [words(&["-h", host, "-p", &port.to_string()]), words(more)].concat()
            }
            ConnectionAddr::Unix(path) => vec!["-s".to_owned(), path.display().to_string()],
            _ => Vec::new(),
        };
        if self.database != 0 {
            arguments.extend(["-n".to_owned(), self.database.to_string()]);
        }
        arguments
    }

    /// The user who logs in, if the URL names one.
    pub(crate) fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// Whether two targets are the same server by the same name.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.address.addr() == other.address.addr()
    }

    /// Whether two URLs name the same data: a server in common, and the same database and primary. Login and TLS do not matter.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let servers = |target: &Self| -> Vec<Place> {
            std::iter::once(&target.address).chain(&target.others).map(|address| Place::of(address.addr())).collect()
        };
        let (own, others) = (servers(self), servers(other));
        (self.database, self.primary_name()) == (other.database, other.primary_name())
            && own.iter().any(|place| others.contains(place))
    }

    /// The same server as another machine reaches it: a simulated one.
    #[doc(hidden)]
    #[must_use]
    pub fn on(self, system: Arc<dyn System>) -> Self {
        Self { system, ..self }
    }

    /// The machine that everything made of this target runs on.
    pub(crate) fn system(&self) -> &Arc<dyn System> {
        &self.system
    }

    /// Opens a socket, each step within the timeout.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Socket>> {
        self.open_within(self.timeout)
    }

    fn open_within(&self, timeout: Duration) -> io::Result<Box<dyn Socket>> {
        self.system.connect(&Endpoint { address: self.address.addr().clone(), tls: self.tls.clone(), timeout })
    }

    /// Whether the server speaks TLS, and the URL is without.
    pub(crate) fn lacks_tls(&self) -> bool {
        matches!(self.address.addr(), ConnectionAddr::Tcp(..))
            && self.open_within(self.timeout.max(GREETING)).is_ok_and(|mut socket| is_spoken_on(&mut *socket))
    }

    /// The first commands: login and database, if the URL has them.
    pub(crate) fn handshake(&self) -> Vec<redis::Cmd> {
        let mut commands: Vec<redis::Cmd> = self.login().into_iter().collect();
        // TLS shakes hands with the first bytes: a certificate that is refused must not look like an order in doubt.
        if commands.is_empty() && self.has_tls() {
            commands.push(redis::cmd("PING"));
        }
        if self.database != 0 {
            commands.push(redis::cmd("SELECT").arg(self.database).to_owned());
        }
        commands
    }

    fn login(&self) -> Option<redis::Cmd> {
        let password = self.password.as_ref()?;
        let mut auth = redis::cmd("AUTH");
        if let Some(username) = &self.username {
            auth.arg(username);
        }
        auth.arg(password);
        Some(auth)
    }

    /// A socket that failed, in words.
    pub(crate) fn failed(&self, error: io::Error) -> StoreError {
        match fault(&error) {
            Some((fault, why)) => StoreError::Tls { server: self.shown.clone(), fault, why },
            None => self.unreachable(&RedisError::from(error)),
        }
    }

    /// A connection that failed, in words.
    pub fn unreachable(&self, error: &RedisError) -> StoreError {
        if error.is_timeout() {
            let waited = humantime::format_duration(self.timeout).to_string();
            return StoreError::Timeout { server: self.shown.clone(), waited };
        }
        StoreError::Unreachable { server: self.shown.clone(), why: why(error) }
    }
}

/// The cause of a broken connection, without the raw `(os error 11)`.
fn why(error: &RedisError) -> String {
    if error.is_timeout() {
        return "no reply in time".to_owned();
    }
    if error.is_connection_refusal() {
        return "connection refused".to_owned();
    }
    if error.is_connection_dropped() {
        return "the connection was closed".to_owned();
    }
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].trim_start_matches("Io: ").to_lowercase(),
        None => text,
    }
}

/// Where a server is, whichever way that is written.
#[derive(PartialEq)]
enum Place {
    Host(String, u16),
    Socket(PathBuf),
    Other(String),
}

impl Place {
    fn of(address: &ConnectionAddr) -> Self {
        match address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let host = host.trim_end_matches('.').to_lowercase();
                let is_own = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
                Self::Host(if is_own { "localhost".to_owned() } else { host }, *port)
            }
            ConnectionAddr::Unix(path) => Self::Socket(path.canonicalize().unwrap_or_else(|_| path.clone())),
            // redis-rs may learn to reach servers in other ways.
            other => Self::Other(other.to_string()),
        }
    }
}

/// How TLS is spoken with a server, if it is.
fn encryption(address: &ConnectionAddr) -> Option<Arc<Tls>> {
    match address {
        ConnectionAddr::TcpTls { insecure, .. } => Some(Arc::new(Tls::new(*insecure))),
        _ => None,
    }
}

/// Only the address: the login is sent by our own handshake.
fn bare(info: ConnectionInfo) -> ConnectionInfo {
    info.set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name())
}
