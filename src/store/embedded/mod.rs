//! A private, real server for one command: on a unix socket in a directory of its own, stopped at exit.

mod directory;
mod stale;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::inventory::failure::{Exit, Failure};
use directory::Directory;

/// How long a server may take to start; with much data it takes longer, and says so in its log.
const START: Duration = Duration::from_secs(60);

/// A server that lives as long as this value.
pub struct Embedded {
    child: Child,
    directory: Directory,
}

impl Embedded {
    /// Starts a server. Without `kept` its data is discarded; with it, data stays there for the next command, and
    /// `wait` bounds how long we wait for another command that uses it. `note` is told what takes time.
    ///
    /// # Errors
    /// No server on this machine, a directory that cannot be used, or a server that does not start.
    pub fn start(kept: Option<&Path>, wait: Duration, note: impl Fn(&str)) -> Result<Self, Failure> {
        let server = binary()?;
        stale::sweep();
        let directory = match kept {
            Some(path) => Directory::kept(path, wait, &note)?,
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
fn binary() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os("SECKILL_SERVER").filter(|named| !named.is_empty()) {
        let path = PathBuf::from(&named);
        let found = if path.components().count() > 1 { path.is_file().then_some(path) } else { on_path(&path) };
        return found.ok_or_else(|| {
            Failure::failed(format!("`SECKILL_SERVER` names `{}`, which is no file", named.to_string_lossy()))
                .hint("give the path of a valkey-server or redis-server")
        });
    }
    ["valkey-server", "redis-server"].iter().find_map(|name| on_path(Path::new(name))).ok_or_else(|| {
        Failure::failed("no valkey-server or redis-server was found on PATH, and `--embedded` needs one")
            .hint("install one: `apt install redis-server`, `dnf install valkey`, `apk add valkey`, `brew install valkey`; or name one by `SECKILL_SERVER`")
    })
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn spawn(server: &Path, directory: &Directory) -> Result<Child, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("cannot start `{}`: {}", server.display(), crate::inventory::failure::cause(&error)))
    };
    let log = File::create(directory.data().join("server.log")).map_err(cannot)?;
    let mut command = Command::new(server);
    // A relative socket: its path may be longer than the 108 bytes that a socket address holds.
    command.current_dir(directory.data()).args([
        "--port",
        "0",
        "--unixsocket",
        directory::SOCKET,
        "--unixsocketperm",
        "700",
    ]);
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
fn ready(child: &mut Child, directory: &Directory) -> Result<(), Failure> {
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
            return Err(Failure::new(
                Exit::Failed,
                format!("the private server {what}; its log ends: {}", lines.join(" / ")),
            ));
        }
        sleep(Duration::from_millis(1));
    }
}
