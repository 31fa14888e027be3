//! Where a server is: URL, password, timeouts. Our own handshake, so that it is bounded in time and nothing is sent
//! that was not asked for.

pub(crate) mod address;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, RedisConnectionInfo, RedisError};

use crate::error::{CertificateFault, Result, StoreError, cause};
use crate::redis::connect::address::Address;
use crate::redis::system::{Endpoint, RealSystem, Socket, System};
pub(crate) use crate::redis::tls::{Certificates, Pem};
use crate::redis::tls::{Tls, fault, is_spoken_on};

/// How long a server that speaks TLS may take to answer a greeting, at least: it decides between two exit codes.
const GREETING: Duration = Duration::from_secs(2);

/// A host and a port.
pub(crate) type Place = (String, u16);

/// Where the server is and how to log in.
#[derive(Debug, Clone)]
pub struct Target {
    address: Address,
    /// The sentinels' own password, if it is not that of the servers.
    sentinel_password: Option<String>,
    /// Of a server with TLS.
    tls: Option<Arc<Tls>>,
    /// As it may be shown: without the password.
    pub shown: String,
    /// How long to wait for a connection, and for each reply.
    pub timeout: Duration,
    /// The machine that opens its sockets and has the clocks.
    system: Arc<dyn System>,
}

impl Target {
    /// Reads a URL or `host:port`. `source` says where the URL is from: what
    /// cannot be read is not shown, as any part of it may be a password.
    ///
    /// # Errors
    /// It is no URL of a server.
    pub fn new(url: &str, source: &str, timeout: Duration) -> Result<Self> {
        let address = Address::read(url).ok_or_else(|| StoreError::Url { origin: source.to_owned() })?;
        Ok(Self::of(address, timeout))
    }

    fn of(address: Address, timeout: Duration) -> Self {
        Self {
            sentinel_password: None,
            tls: match &address.hosts[0] {
                ConnectionAddr::TcpTls { insecure, .. } => Some(Arc::new(Tls::new(*insecure))),
                _ => None,
            },
            shown: address.shown(),
            timeout,
            system: RealSystem::shared(),
            address,
        }
    }

    /// Whether the URL has a password.
    pub fn has_password(&self) -> bool {
        self.address.login.password().is_some()
    }

    /// The password to log in with.
    pub fn set_password(&mut self, password: String) {
        self.address.login = self.address.login.clone().set_password(password);
    }

    /// The name by which sentinels know the primary, if the URL names sentinels.
    pub fn primary_name(&self) -> Option<&str> {
        self.address.primary.as_deref()
    }

    /// The password of the sentinels, if it is not that of the servers.
    pub fn set_sentinel_password(&mut self, password: String) {
        self.sentinel_password = Some(password);
    }

    /// A target for each sentinel, without a login.
    pub(crate) fn each_sentinel(&self) -> Vec<Self> {
        self.address.hosts.iter().map(|host| self.at(host.clone(), RedisConnectionInfo::default())).collect()
    }

    /// A sentinel that wants a login: with the sentinels' own password, else as to the servers; `None` without a password.
    pub(crate) fn with_login(&self, sentinel: &Self) -> Option<Self> {
        let login = match &self.sentinel_password {
            Some(own) => RedisConnectionInfo::default().set_password(own),
            None => self.address.login.clone().set_db(0),
        };
        login.password()?;
        Some(Self { shown: sentinel.shown.clone(), ..sentinel.at(sentinel.address.hosts[0].clone(), login) })
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
    pub fn of_socket(path: &Path, timeout: Duration) -> Self {
        Self::of_hosts(vec![ConnectionAddr::Unix(path.to_owned())], timeout)
    }

    /// Servers without a login: at least one.
    pub(crate) fn of_hosts(hosts: Vec<ConnectionAddr>, timeout: Duration) -> Self {
        Self::of(Address { hosts, login: RedisConnectionInfo::default(), primary: None }, timeout)
    }

    /// A target for each server that the URL names: one, or the nodes of a cluster to begin with.
    pub(crate) fn seeds(&self) -> Vec<Self> {
        if self.address.primary.is_some() {
            return vec![self.clone()];
        }
        self.address.hosts.iter().map(|host| self.at(host.clone(), self.address.login.clone())).collect()
    }

    /// Another node of the same cluster, with the same login. Without a host, another port of the same host.
    pub(crate) fn node(&self, host: &str, port: u16) -> Self {
        let same = |own: &str| if host.is_empty() { own.to_owned() } else { host.to_owned() };
        let address = match &self.address.hosts[0] {
            ConnectionAddr::TcpTls { host, insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: same(host), port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            ConnectionAddr::Tcp(own, _) => ConnectionAddr::Tcp(same(own), port),
            // A node that was reached by its socket is on this machine.
            _ => ConnectionAddr::Tcp(same("127.0.0.1"), port),
        };
        self.at(address, self.address.login.clone())
    }

    fn at(&self, host: ConnectionAddr, login: RedisConnectionInfo) -> Self {
        let address = Address { hosts: vec![host], login, primary: None };
        Self { shown: address.shown(), address, ..self.clone() }
    }

    /// The server in a few words, without scheme and login: `host:port`, or the path of a socket.
    pub(crate) fn place(&self) -> String {
        match &self.address.hosts[0] {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port}"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => self.shown.clone(),
        }
    }

    /// What metrics call the server: where it is, and which database, without user and password.
    pub(crate) fn label(&self) -> String {
        let login = RedisConnectionInfo::default().set_db(self.address.login.db());
        Address { login, ..self.address.clone() }.shown()
    }

    /// The same without the database: what metrics call a server that has others too.
    pub(crate) fn node_label(&self) -> String {
        Address { login: RedisConnectionInfo::default(), ..self.address.clone() }.shown()
    }

    /// The arguments by which `redis-cli` gets there; without the login.
    pub(crate) fn redis_cli(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut arguments = match &self.address.hosts[0] {
            ConnectionAddr::Tcp(host, port) => words(&["-h", host, "-p", &port.to_string()]),
            ConnectionAddr::TcpTls { host, port, insecure, .. } => {
                let more: &[&str] = if *insecure { &["--tls", "--insecure"] } else { &["--tls"] };
                [words(&["-h", host, "-p", &port.to_string()]), words(more)].concat()
            }
            ConnectionAddr::Unix(path) => vec!["-s".to_owned(), path.display().to_string()],
            _ => Vec::new(),
        };
        if self.address.login.db() != 0 {
            arguments.extend(["-n".to_owned(), self.address.login.db().to_string()]);
        }
        arguments
    }

    /// The user who logs in, if the URL names one.
    pub(crate) fn username(&self) -> Option<&str> {
        self.address.login.username()
    }

    /// Whether two targets are the same server by the same name.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.address.hosts == other.address.hosts
    }

    /// Whether two URLs name the same data: a server in common, and the same database and primary. Login and TLS do not matter.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let servers = |target: &Self| target.address.hosts.iter().map(identity).collect::<Vec<_>>();
        let (own, others) = (servers(self), servers(other));
        let data = |target: &Self| (target.address.login.db(), target.address.primary.clone());
        data(self) == data(other) && own.iter().any(|place| others.contains(place))
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
    pub(crate) fn open(&self, timeout: Duration) -> io::Result<Box<dyn Socket>> {
        self.system.connect(&Endpoint { address: self.address.hosts[0].clone(), tls: self.tls.clone(), timeout })
    }

    /// Whether the server speaks TLS, and the URL is without.
    pub(crate) fn lacks_tls(&self) -> bool {
        matches!(self.address.hosts[0], ConnectionAddr::Tcp(..))
            && self.open(self.timeout.max(GREETING)).is_ok_and(|mut socket| is_spoken_on(&mut *socket))
    }

    /// The first commands: login and database, if the URL has them.
    pub(crate) fn handshake(&self) -> Vec<redis::Cmd> {
        let login = &self.address.login;
        let auth = |password| redis::cmd("AUTH").arg(login.username()).arg(password).to_owned();
        // Without AUTH a user would be the default one; one with `nopass` accepts any password.
        let password = login.password().or(login.username().map(|_| ""));
        let mut commands: Vec<redis::Cmd> = password.map(auth).into_iter().collect();
        // TLS shakes hands with the first bytes: a certificate that is refused must not look like an order in doubt.
        if commands.is_empty() && self.has_tls() {
            commands.push(redis::cmd("PING"));
        }
        if login.db() != 0 {
            commands.push(redis::cmd("SELECT").arg(login.db()).to_owned());
        }
        commands
    }

    /// An error that the server replied to the [handshake](Self::handshake).
    pub(crate) fn refused(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Login { server, why } if self.username().is_some() && !self.has_password() => {
                StoreError::Login { server, why: format!("the URL names a user, and no password is given ({why})") }
            }
            error => error,
        }
    }

    /// A socket that failed, in words.
    pub(crate) fn failed(&self, error: io::Error) -> StoreError {
        let server = self.shown.clone();
        if let Some((fault, why)) = fault(&error) {
            return StoreError::Tls { server, fault, why };
        }
        let error = RedisError::from(error);
        if error.is_timeout() {
            return StoreError::Timeout { server, waited: humantime::format_duration(self.timeout).to_string() };
        }
        StoreError::Unreachable { server, why: why(&error) }
    }
}

/// The cause of a broken connection, without the raw `(os error 11)`.
fn why(error: &RedisError) -> String {
    // A socket whose file is missing counts as both.
    if error.is_connection_dropped() && !error.is_connection_refusal() {
        return "the connection was closed".to_owned();
    }
    cause(error)
}

/// Where a server is, whichever way that is written.
fn identity(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let host = host.trim_end_matches('.').to_lowercase();
            let is_own = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
            format!("{}:{port}", if is_own { "localhost" } else { &host })
        }
        ConnectionAddr::Unix(path) => path.canonicalize().as_ref().unwrap_or(path).display().to_string(),
        // redis-rs may learn to reach servers in other ways.
        other => other.to_string(),
    }
}
