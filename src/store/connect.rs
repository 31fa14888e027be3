//! One connection: URL, password, timeouts. Our own handshake, so that it is bounded in time and nothing is
//! sent that was not asked for.

use std::time::Duration;

use redis::{
    Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, IntoConnectionInfo, RedisConnectionInfo, RedisError,
};

use super::error::StoreError;

/// Where the server is and how to log in.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) address: ConnectionInfo,
    username: Option<String>,
    password: Option<String>,
    database: i64,
    /// As it may be shown: without the password.
    pub shown: String,
    /// How long to wait for a connection, and for each reply.
    pub timeout: Duration,
}

impl Target {
    /// Reads a URL. A password of its own beats `password`.
    pub fn new(url: &str, password: Option<String>, timeout: Duration) -> Result<Self, StoreError> {
        let shown = without_password(url);
        let info = url
            .into_connection_info()
            .map_err(|error| StoreError::Url { url: shown.clone(), why: error.to_string() })?;
        let settings = info.redis_settings();
        let (username, in_url, database) = (settings.username(), settings.password(), settings.db());
        Ok(Self {
            username: username.map(str::to_owned),
            password: in_url.map(str::to_owned).or(password),
            database,
            shown,
            timeout,
            address: info.clone().set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name()),
        })
    }

    /// Connects, logs in and chooses the database, each within the timeout.
    pub fn connect(&self) -> Result<Connection, StoreError> {
        if self.is_tls() {
            // Fails only where a provider is installed already, which serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let mut connection = redis::Client::open(self.address.clone())
            .and_then(|client| client.get_connection_with_timeout(self.timeout))
            .map_err(|error| self.unreachable(&error))?;
        connection
            .set_read_timeout(Some(self.timeout))
            .and_then(|()| connection.set_write_timeout(Some(self.timeout)))
            .map_err(|error| self.unreachable(&error))?;
        for command in self.handshake() {
            self.shake(&mut connection, &command)?;
        }
        Ok(connection)
    }

    fn is_tls(&self) -> bool {
        matches!(self.address.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// What to say first: the login and the database, where the URL has them.
    pub(super) fn handshake(&self) -> Vec<redis::Cmd> {
        let mut commands = Vec::new();
        if let Some(password) = &self.password {
            let mut auth = redis::cmd("AUTH");
            if let Some(username) = &self.username {
                auth.arg(username);
            }
            auth.arg(password);
            commands.push(auth);
        }
        // TLS shakes hands with the first bytes: a certificate that is refused must not look like an order in doubt.
        if commands.is_empty() && self.is_tls() {
            commands.push(redis::cmd("PING"));
        }
        if self.database != 0 {
            commands.push(redis::cmd("SELECT").arg(self.database).to_owned());
        }
        commands
    }

    fn shake(&self, connection: &mut Connection, command: &redis::Cmd) -> Result<(), StoreError> {
        match connection.req_command(command) {
            Ok(redis::Value::ServerError(error)) => {
                let error = RedisError::from(error);
                Err(StoreError::of_reply(&error, &self.shown).unwrap_or_else(|| self.unreachable(&error)))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::of_reply(&error, &self.shown).unwrap_or_else(|| self.unreachable(&error))),
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
pub fn why(error: &RedisError) -> String {
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

/// The URL with its password masked; the part before `@` can hold anything, so nothing is parsed.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may hold `@` and `/`: the host comes after the last `@`.
    match rest.rsplit_once('@') {
        Some((login, host)) => match login.split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***@{host}"),
            None => url.to_owned(),
        },
        None => match rest.split_once("pass=") {
            Some((path, _)) => format!("{scheme}://{path}pass=***"),
            None => url.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://10.0.0.5:6379", "redis://10.0.0.5:6379"),
            ("redis://me:se@cret@10.0.0.5", "redis://me:***@10.0.0.5"),
            ("redis://:secret@10.0.0.5/1", "redis://:***@10.0.0.5/1"),
            ("unix:///run/r.sock?db=1&pass=secret", "unix:///run/r.sock?db=1&pass=***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
