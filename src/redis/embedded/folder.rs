//! The server of a folder, reached by the socket in it: what it replies, its password, its end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use crate::redis::embedded::SOCKET;

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
