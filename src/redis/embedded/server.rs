//! One server process in a folder of its own, reached by the socket in it: what it replies, its password, its end.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use crate::error::cause;
use crate::redis::embedded::{EmbeddedError, LOG, SOCKET};

/// How long a server may take to start; with much data it takes longer, and says so in its log.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);

/// A server that lives as long as this value.
pub(super) struct Server {
    child: Child,
    folder: PathBuf,
}

impl Server {
    /// Starts a program that works in `folder`, a path short enough for a socket in it. With `kept`, all that is
    /// acknowledged is on the disk. `more` are further arguments, first of all a file of settings.
    pub(super) fn spawn(program: &Path, folder: &Path, kept: bool, more: &[String]) -> Result<Self, EmbeddedError> {
        let cannot = |error: std::io::Error| EmbeddedError::Spawn { server: program.to_owned(), why: cause(&error) };
        let log = File::create(folder.join(LOG)).map_err(cannot)?;
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
    pub(super) fn wait_until(&mut self, ready: impl Fn(&Path) -> bool) -> Result<(), EmbeddedError> {
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

    /// The socket that it listens on.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        shut_down(&self.folder);
        let deadline = Instant::now() + END;
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

/// A node's password, in the servers' own form.
pub(super) const SETTINGS: &str = "server.conf";

/// Ends the server of a folder, if there is one, and waits until it is gone.
pub(super) fn shut_down(folder: &Path) {
    // What was acknowledged is in the append-only file, if there is one. The server closes without a reply.
    let _ = request(folder, redis::cmd("SHUTDOWN").arg("NOSAVE"));
}

/// Whether a server answers there.
pub(super) fn answers(folder: &Path) -> bool {
    request(folder, &redis::cmd("PING")).as_deref() == Some("PONG")
}

/// The text that a server of a folder replies with.
pub(super) fn request(folder: &Path, command: &redis::Cmd) -> Option<String> {
    let socket = folder.join(SOCKET);
    if !socket.exists() {
        return None;
    }
    let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(password) = password(folder) {
        login = login.set_password(password);
    }
    // Not as a URL: in that, `%41`, `?` and `#` of a path mean something else.
    let address = ConnectionAddr::Unix(socket).into_connection_info().ok()?.set_redis_settings(login);
    let mut connection = Client::open(address).ok()?.get_connection().ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    command.query(&mut connection).ok()
}

/// The password of the server of a folder, if it has one.
pub(super) fn password(folder: &Path) -> Option<String> {
    let settings = fs::read_to_string(folder.join(SETTINGS)).ok()?;
    settings.lines().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned)
}
