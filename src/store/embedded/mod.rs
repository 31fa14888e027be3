//! A private, real server for one command: on a unix socket in a directory of its own, stopped at exit.

mod directory;
mod error;
mod stale;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::error::cause;
use directory::Directory;
pub use error::EmbeddedError;

/// The socket's name within the directory.
const SOCKET: &str = "server.sock";
/// Held for as long as a command uses the directory.
const LOCK: &str = "seckill.lock";
/// How the names of discarded directories begin.
const PREFIX: &str = "seckill-";
/// How long a server may take to start; with much data it takes longer, and says so in its log.
const START: Duration = Duration::from_secs(60);

/// A server that lives as long as this value.
pub struct Embedded {
    child: Child,
    directory: Directory,
}

/// How to wait for another command that uses the same directory.
pub struct Wait<'a> {
    /// Longest wait.
    pub at_most: Duration,
    /// Asked every few milliseconds: true ends the wait.
    pub stop: &'a dyn Fn() -> bool,
    /// Gets one sentence when the wait begins.
    pub note: &'a dyn Fn(&str),
}

impl Embedded {
    /// Starts a server. Without `kept` its data is discarded. With it, data stays there for the next command, and
    /// `wait` says how to wait for another command that uses it.
    ///
    /// # Errors
    /// No server on this machine, a directory that cannot be used, or a server that does not start.
    pub fn start(kept: Option<&Path>, wait: &Wait<'_>) -> Result<Self, EmbeddedError> {
        let server = binary()?;
        stale::sweep();
        let directory = match kept {
            Some(path) => Directory::kept(path, wait)?,
            None => Directory::discarded()?,
        };
        let mut child = spawn(&server, &directory)?;
        match ready(&mut child, &directory) {
            Ok(()) => Ok(Self { child, directory }),
            Err(failure) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> PathBuf {
        self.directory.socket().to_owned()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        stale::shut_down(self.directory.socket());
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server to start: `$SECKILL_SERVER`, else valkey-server, else redis-server.
fn binary() -> Result<PathBuf, EmbeddedError> {
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

fn spawn(server: &Path, directory: &Directory) -> Result<Child, EmbeddedError> {
    let cannot = |error: std::io::Error| EmbeddedError::Spawn { server: server.to_owned(), why: cause(&error) };
    let log = File::create(directory.data().join("server.log")).map_err(cannot)?;
    let mut command = Command::new(server);
    // A relative socket: its path may be longer than the 108 bytes that a socket address holds.
    command.current_dir(directory.data()).args(["--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700"]);
    command.args(["--dir", ".", "--save", "", "--daemonize", "no", "--maxmemory-policy", "noeviction"]);
    if directory.is_kept() {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    } else {
        command.args(["--appendonly", "no"]);
    }
    // Ctrl-C is ours to handle: the server must outlive it until we have said what was done.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let errors = log.try_clone().map_err(cannot)?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().map_err(cannot)
}

/// Waits until the server answers.
fn ready(child: &mut Child, directory: &Directory) -> Result<(), EmbeddedError> {
    let deadline = Instant::now() + START;
    loop {
        if stale::answers(directory.socket()) {
            return Ok(());
        }
        let ended = !matches!(child.try_wait(), Ok(None));
        if ended || Instant::now() > deadline {
            let log = std::fs::read_to_string(directory.data().join("server.log")).unwrap_or_default();
            let mut lines: Vec<&str> = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
            lines.reverse();
            let what = if ended { "ended at once" } else { "did not answer within a minute" };
            return Err(EmbeddedError::NotReady { what, log: lines.join(" / ") });
        }
        sleep(Duration::from_millis(1));
    }
}
