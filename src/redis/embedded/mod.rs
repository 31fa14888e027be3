//! A private, real server for one command, or a cluster of them: in a directory of its own, stopped at exit.

#![allow(
    clippy::disallowed_methods,
    clippy::iter_over_hash_type,
    reason = "it starts real servers, and is not simulated"
)]

mod cluster;
mod directory;
mod error;
mod folder;
mod server;
mod stale;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::redis::embedded::cluster::Cluster;
use crate::redis::embedded::directory::Directory;
pub(crate) use crate::redis::embedded::error::EmbeddedError;
use crate::redis::embedded::server::Server;

/// The socket's name within a server's folder.
const SOCKET: &str = "server.sock";
/// What a server writes of itself, in its folder.
const LOG: &str = "server.log";
/// Held for as long as a command uses the directory.
const LOCK: &str = "seckill.lock";
/// How the names of discarded directories begin.
const PREFIX: &str = "seckill-";
/// How often a cluster's start is tried, each time with other ports.
const MAX_TRIES: usize = 5;

/// Servers that live as long as this value.
pub(crate) struct Embedded {
    // Dropped in this order: servers end before their directory goes.
    _servers: Vec<Server>,
    address: Address,
    _directory: Directory,
}

/// How to reach what was started.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    /// One server, on a unix socket.
    Socket(PathBuf),
    /// A cluster.
    Cluster {
        /// Names all nodes.
        url: String,
        /// Nobody else on this machine knows it.
        password: String,
    },
}

/// How to wait for another command that uses the same directory.
pub(crate) struct Wait<'a> {
    /// Longest wait.
    pub at_most: Duration,
    /// Asked every few milliseconds: true ends the wait.
    pub stop: &'a dyn Fn() -> bool,
    /// Gets one sentence when the wait begins.
    pub note: &'a dyn Fn(&str),
}

impl Embedded {
    /// Starts a server, or with `nodes` a cluster. Without `kept` its data is discarded. With it, data stays there for
    /// the next command, as does the number of nodes; `wait` says how to wait for another command that uses it.
    ///
    /// # Errors
    /// No server on this machine, a directory that cannot be used, or a server that does not start.
    pub(crate) fn start(kept: Option<&Path>, nodes: Option<usize>, wait: &Wait<'_>) -> Result<Self, EmbeddedError> {
        let program = program()?;
        stale::sweep();
        let directory = match kept {
            Some(path) => Directory::kept(path, wait)?,
            None => Directory::discarded()?,
        };
        let (servers, address) = match directory.nodes(nodes)? {
            None => start_one(&program, &directory)?,
            Some(nodes) => start_cluster(&program, &directory, nodes)?,
        };
        Ok(Self { _servers: servers, address, _directory: directory })
    }

    /// How to reach it.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

fn start_one(program: &Path, directory: &Directory) -> Result<(Vec<Server>, Address), EmbeddedError> {
    let arguments = ["--port".to_owned(), "0".to_owned()];
    let mut server = Server::spawn(program, directory.path(), directory.is_kept(), &arguments)?;
    server.wait_until(folder::answers)?;
    let address = Address::Socket(server.socket());
    Ok((vec![server], address))
}

fn start_cluster(program: &Path, directory: &Directory, nodes: usize) -> Result<(Vec<Server>, Address), EmbeddedError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let cluster = Cluster::prepare(directory.path(), nodes)?;
        match start_nodes(program, directory, &cluster) {
            Ok(servers) => return Ok((servers, Address::Cluster { url: cluster.url(), password: cluster.password })),
            // Somebody else may have taken a port since it was found free.
            Err(EmbeddedError::NotReady { .. }) if tries < MAX_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

fn start_nodes(program: &Path, directory: &Directory, cluster: &Cluster) -> Result<Vec<Server>, EmbeddedError> {
    let folders = cluster.folders.iter().enumerate();
    let servers =
        folders.map(|(node, folder)| Server::spawn(program, folder, directory.is_kept(), &cluster.arguments(node)));
    let mut servers = servers.collect::<Result<Vec<_>, _>>()?;
    for ready in [folder::answers, cluster::is_up] {
        servers.iter_mut().try_for_each(|server| server.wait_until(ready))?;
    }
    Ok(servers)
}

/// The server to start: `$SECKILL_SERVER`, else valkey-server, else redis-server.
fn program() -> Result<PathBuf, EmbeddedError> {
    if let Some(named) = std::env::var_os("SECKILL_SERVER").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(&named);
        let found = if path.components().count() > 1 { path.is_file().then_some(path) } else { on_path(&path) };
        return found.ok_or_else(|| EmbeddedError::NamedServer { name: named.to_string_lossy().into_owned() });
    }
    ["valkey-server", "redis-server"].iter().find_map(|name| on_path(Path::new(name))).ok_or(EmbeddedError::NoServer)
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
