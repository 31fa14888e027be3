//! A private, real server for one command, or a cluster of them: in a directory of its own, stopped at exit. What commands that
//! were killed left behind is swept: servers that nobody stops, and their directories.

#![allow(
    clippy::disallowed_methods,
    clippy::iter_over_hash_type,
    reason = "it starts real servers, and is not simulated"
)]

mod cluster;
mod directory;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use crate::error::cause;
use crate::redis::connect::Target;
use crate::redis::connection::Connection;
use crate::redis::embedded::cluster::Cluster;
use crate::redis::embedded::directory::Directory;
use crate::script::reply::Reply;

/// The socket's name within a server's folder.
const SOCKET: &str = "server.sock";
/// What a server writes of itself, in its folder. It is locked for as long as the server lives.
const LOG: &str = "server.log";
/// Held for as long as a command uses the directory.
const LOCK: &str = "seckill.lock";
/// The same of a discarded directory: only what has it is ever removed.
const DISCARDED_LOCK: &str = "discarded.lock";
/// How the names of discarded directories begin.
const PREFIX: &str = "seckill-";
/// How often a cluster's start is tried, each time with other ports.
const MAX_TRIES: usize = 5;

/// Servers that live as long as this value.
pub(crate) struct Embedded {
    // Dropped in this order: servers end before their directory goes.
    _servers: Vec<Server>,
    /// How to reach it.
    pub(crate) target: Target,
    _directory: Directory,
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
    /// Whether a directory that an earlier command kept is of a cluster.
    pub(crate) fn is_cluster(directory: &Path) -> bool {
        Cluster::size(directory).is_some()
    }

    /// Starts a server, or with `nodes` a cluster. Without `kept` its data is discarded. With it, data stays there for
    /// the next command, as does the number of nodes; `wait` says how to wait for another command that uses it.
    ///
    /// # Errors
    /// No server on this machine, a directory that cannot be used, or a server that does not start.
    pub(crate) fn start(kept: Option<&Path>, nodes: Option<usize>, wait: &Wait<'_>) -> Result<Self, EmbeddedError> {
        let program = program()?;
        sweep();
        let directory = match kept {
            Some(path) => Directory::kept(path, wait)?,
            None => Directory::discarded()?,
        };
        let (servers, target) = match directory.nodes(nodes)? {
            None => start_one(&program, &directory)?,
            Some(nodes) => start_cluster(&program, &directory, nodes)?,
        };
        Ok(Self { _servers: servers, target, _directory: directory })
    }
}

fn start_one(program: &Path, directory: &Directory) -> Result<(Vec<Server>, Target), EmbeddedError> {
    let arguments = ["--port".to_owned(), "0".to_owned()];
    let mut server = Server::spawn(program, &directory.path, directory.kept, &arguments)?;
    server.wait_until(answers)?;
    let target = Target::of_socket(&server.folder.join(SOCKET), END);
    Ok((vec![server], target))
}

fn start_cluster(program: &Path, directory: &Directory, nodes: usize) -> Result<(Vec<Server>, Target), EmbeddedError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let cluster = Cluster::prepare(&directory.path, nodes)?;
        match start_nodes(program, directory, &cluster) {
            Ok(servers) => return Ok((servers, cluster.target())),
            // Somebody else may have taken a port since it was found free.
            Err(EmbeddedError::NotReady { .. }) if tries < MAX_TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

fn start_nodes(program: &Path, directory: &Directory, cluster: &Cluster) -> Result<Vec<Server>, EmbeddedError> {
    let folders = cluster.folders.iter().enumerate();
    let servers =
        folders.map(|(node, folder)| Server::spawn(program, folder, directory.kept, &cluster.arguments(node)));
    let mut servers = servers.collect::<Result<Vec<_>, _>>()?;
    for ready in [answers, cluster::is_up] {
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

/// Why a private server did not start.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum EmbeddedError {
    /// Its directory cannot be made or used.
    #[error("cannot use the directory `{}`: {why}", path.display())]
    Directory { path: PathBuf, why: String },
    /// The directory has files, and none of a private server.
    #[error("`{}` has files of something else: `--embedded` needs a directory of its own", path.display())]
    Foreign { path: PathBuf },
    /// Another command used the directory for longer than the caller waits.
    #[error("`{}` is in use by {holder}", path.display())]
    InUse { path: PathBuf, holder: String },
    /// The caller asked to stop while the directory was in use.
    #[error("interrupted while `{}` was in use", path.display())]
    Stopped { path: PathBuf },
    /// The directory has another number of nodes.
    #[error("the directory of `--embedded` has the data of {found}, and `--nodes` is {wanted}")]
    Nodes { found: String, wanted: usize },
    /// `SECKILL_SERVER` names no file.
    #[error("`SECKILL_SERVER` names `{name}`, which is no file")]
    NamedServer { name: String },
    /// This machine has no server.
    #[error("no valkey-server or redis-server was found on PATH, and `--embedded` needs one")]
    NoServer,
    /// The server's program, or its log, cannot be opened.
    #[error("cannot start `{}`: {why}", server.display())]
    Spawn { server: PathBuf, why: String },
    /// The server ended, or did not answer in time.
    #[error("the private server {what}; its log ends: {}", if log.is_empty() { "(nothing: is the disk full?)" } else { log })]
    NotReady { what: &'static str, log: String },
}

/// A directory younger than this may be about to get its lock.
const YOUNG: Duration = Duration::from_secs(10);

/// Ends servers and removes directories whose command is gone. Errors are left alone: the next sweep sees them.
fn sweep() {
    for parent in [std::env::temp_dir(), "/tmp".into()] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                remove_if_stale(&entry.path());
            }
        }
    }
}

fn remove_if_stale(directory: &Path) {
    let Ok(about) = fs::symlink_metadata(directory) else { return };
    let age = about.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
    if !about.is_dir() || age.is_none_or(|age| age < YOUNG) {
        return;
    }
    let lock = File::open(directory.join(DISCARDED_LOCK));
    if let Ok(lock) = &lock
        && lock.try_lock().is_err()
    {
        return;
    }
    // Only what looks like ours: a lock, or the short way to a directory that stays.
    if lock.is_err() && !directory.join("data").is_symlink() {
        return;
    }
    if lock.is_ok() {
        Cluster::folders(directory).iter().map(PathBuf::as_path).chain([directory]).for_each(|folder| {
            shut_down(folder, REPLY);
        });
        let _ = fs::remove_dir_all(directory);
    } else if fs::read_link(directory.join("data")).is_ok_and(|data| !in_use(&data)) {
        let _ = fs::remove_file(directory.join("data")).and_then(|()| fs::remove_dir(directory));
    }
}

fn in_use(data: &Path) -> bool {
    File::open(data.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err())
}

/// How long a server may take to start; with much data it takes longer, and says so in its log.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);
/// How long a server that its command left may take to reply.
const REPLY: Duration = Duration::from_secs(1);

/// A server that lives as long as this value.
struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts a program that works in `folder`, a path short enough for a socket in it. With `kept`, all that is
    /// acknowledged is on the disk. `more` are further arguments, first of all a file of settings.
    fn spawn(program: &Path, folder: &Path, kept: bool, more: &[String]) -> Result<Self, EmbeddedError> {
        let cannot = |error: std::io::Error| EmbeddedError::Spawn { server: program.to_owned(), why: cause(&error) };
        let log = File::create(folder.join(LOG)).map_err(cannot)?;
        // Its output is this open file: the lock is the server's, from here to its end. Who has it already is no server of ours.
        let _ = log.try_lock();
        let mut command = Command::new(program);
        // A relative socket: its path may be longer than the 108 bytes that a socket address holds.
        command.current_dir(folder).args(more).args(["--unixsocket", SOCKET, "--unixsocketperm", "700"]);
        command.args(["--dir", ".", "--save", "", "--daemonize", "no", "--maxmemory-policy", "noeviction"]);
        if kept {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        } else {
            command.args(["--appendonly", "no"]);
        }
        // Ctrl-C is ours to handle: the server must outlive it until we have said what was done.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let errors = log.try_clone().map_err(cannot)?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().map_err(cannot)?;
        Ok(Self { child, folder: folder.to_owned() })
    }

    /// Waits until it is as `ready` asks of its folder.
    fn wait_until(&mut self, ready: impl Fn(&Path) -> bool) -> Result<(), EmbeddedError> {
        let deadline = Instant::now() + START;
        loop {
            if ready(&self.folder) {
                return Ok(());
            }
            let ended = !matches!(self.child.try_wait(), Ok(None));
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
                let mut lines: Vec<&str> = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
                lines.reverse();
                let what = if ended { "ended at once" } else { "did not answer within a minute" };
                return Err(EmbeddedError::NotReady { what, log: lines.join(" / ") });
            }
            sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            ask_to_end(&self.folder, END);
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node's password, in the servers' own form.
const SETTINGS: &str = "server.conf";

/// Ends the server of a folder, if there is one, and waits until it is gone. One that is still starting has no socket yet, and
/// is asked again. False if it is there after `at_most`.
fn shut_down(folder: &Path, at_most: Duration) -> bool {
    // NFS locks only what may be written.
    let Ok(log) = File::options().write(true).open(folder.join(LOG)) else { return true };
    let (deadline, mut was_asked) = (Instant::now() + at_most, false);
    loop {
        if ask_to_end(folder, REPLY) {
            was_asked = true;
        } else if was_asked || !matches!(log.try_lock(), Err(TryLockError::WouldBlock)) {
            // Its socket is the last that goes. Something that it started may still have the lock.
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Whether a server was there to be asked. What was acknowledged is in the append-only file, if there is one. It closes without a reply.
fn ask_to_end(folder: &Path, patience: Duration) -> bool {
    let Some(mut connection) = connect(folder, patience) else { return false };
    let _ = connection.request(redis::cmd("SHUTDOWN").arg("NOSAVE"));
    true
}

/// Whether a server answers there.
fn answers(folder: &Path) -> bool {
    request(folder, &redis::cmd("PING")).as_deref() == Some("PONG")
}

/// The text that a server of a folder replies with.
fn request(folder: &Path, command: &redis::Cmd) -> Option<String> {
    let reply = connect(folder, END)?.request(command).ok()?;
    Reply::of_command("redis-server").text(Some(&reply)).ok()?
}

/// A connection to the server of a folder, if there is one.
fn connect(folder: &Path, patience: Duration) -> Option<Connection> {
    let socket = folder.join(SOCKET);
    if !socket.exists() {
        return None;
    }
    let mut target = Target::of_socket(&socket, patience);
    password(folder).into_iter().for_each(|password| target.set_password(password));
    Connection::open(&target).ok()
}

/// The password of the server of a folder, if it has one.
fn password(folder: &Path) -> Option<String> {
    let settings = fs::read_to_string(folder.join(SETTINGS)).ok()?;
    settings.lines().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned)
}
