//! Reads a server's URL, and shows where a server is without any secret. `redis://n1,n2,n3` names nodes of one cluster.
//!
//! URLs of sentinels are `redis+sentinel://[user:pass@]h1:26379,h2:26379/primary[/db]`, and as lettuce writes them
//! `redis-sentinel://[user:pass@]h1,h2[/db]?sentinelMasterId=primary`. The login is that of the servers.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

/// Where servers are, and how to log in there.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The server, nodes of one cluster, or the sentinels of a primary: at least one.
    pub(crate) hosts: Vec<ConnectionAddr>,
    /// Login and database of the servers; sentinels have their own.
    pub(crate) login: RedisConnectionInfo,
    /// The name by which sentinels know the primary; `None` if the hosts are no sentinels.
    pub(crate) primary: Option<String>,
}

impl Address {
    /// Reads a URL, or `host:port`.
    pub(crate) fn read(url: &str) -> Option<Self> {
        if url.split_once("://").is_some_and(|(scheme, _)| scheme.contains("sentinel")) {
            return read_sentinels(url);
        }
        Self::of(each_host(url)?.iter().map(|url| read_one(url)).collect::<Option<_>>()?, None)
    }

    /// Servers that have one login; `None` without any server.
    pub(crate) fn of(all: Vec<ConnectionInfo>, primary: Option<String>) -> Option<Self> {
        let login = all.first()?.redis_settings().clone();
        Some(Self { hosts: all.into_iter().map(|info| info.addr().clone()).collect(), login, primary })
    }

    /// As it may be shown: made of what was understood, never of the URL's text. Sentinels are shown in the first of the two forms.
    pub(crate) fn shown(&self) -> String {
        let (user, password) = (self.login.username(), self.login.password());
        let login = match (user, password) {
            (Some(user), Some(_)) => format!("{user}:***@"),
            // A user alone may be a password in the wrong place.
            (Some(_), None) => "***@".to_owned(),
            (None, Some(_)) => ":***@".to_owned(),
            (None, None) => String::new(),
        };
        let database = Some(self.login.db()).filter(|database| *database != 0);
        let hosts: Vec<String> = self.hosts.iter().filter_map(host_and_port).collect();
        let path = self.primary.iter().cloned().chain(database.map(|database| database.to_string()));
        let rest: String = path.map(|part| format!("/{part}")).collect();
        let rest =
            format!("{}://{login}{}{rest}", if self.primary.is_some() { "+sentinel" } else { "" }, hosts.join(","));
        match &self.hosts[0] {
            ConnectionAddr::Tcp(..) => format!("redis{rest}"),
            ConnectionAddr::TcpTls { .. } => format!("rediss{rest}"),
            ConnectionAddr::Unix(path) => {
                let database = database.map(|database| format!("db={database}"));
                let user = user.map(|user| format!("user={user}"));
                let password = password.map(|_| "pass=***".to_owned());
                let query: Vec<String> = [database, user, password].into_iter().flatten().collect();
                let mark = if query.is_empty() { "" } else { "?" };
                format!("unix://{}{mark}{}", path.display(), query.join("&"))
            }
            // redis-rs may learn to reach servers in other ways.
            _ => "the given address".to_owned(),
        }
    }
}

/// A URL behind its scheme: the login with its `@`, the hosts, and what follows them.
fn split(rest: &str) -> (&str, &str, &str) {
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    (login, hosts, after)
}

/// A URL for each host of one that lists them, with what they have in common.
fn each_host(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    // The path of a socket may have commas.
    if scheme.contains("unix") || !rest.contains(',') {
        return Some(vec![url.to_owned()]);
    }
    let (login, hosts, after) = split(rest);
    // An empty host would be some default.
    let fits = |host: &&str| !host.is_empty() && !host.starts_with(':');
    hosts.split(',').map(|host| Some(host).filter(fits).map(|host| format!("{scheme}{login}{host}{after}"))).collect()
}

/// Where one server is, and the login in its URL.
fn read_one(url: &str) -> Option<ConnectionInfo> {
    if let Some((scheme, rest)) = url.split_once("://") {
        // `unix:///a?b` would be cut at the `?`, and a password in a query of another name would be ignored.
        let known: &[&str] = if scheme.contains("unix") { &["db", "user", "pass", "protocol"] } else { &["protocol"] };
        let query = rest.split_once('#').map_or(rest, |(before, _)| before).split_once('?').map(|(_, query)| query);
        let keys =
            query.into_iter().flat_map(|query| query.split('&')).map(|pair| pair.split('=').next().unwrap_or(pair));
        if !keys.into_iter().all(|key| known.contains(&key)) {
            return None;
        }
        return match scheme {
            "rediss" => encrypted("redis", rest),
            "valkeys" => encrypted("valkey", rest),
            _ => url.into_connection_info().ok(),
        };
    }
    // `localhost:6379`: what looks like a login or a path is none.
    let (host, port) = url.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_host = is_name || host.parse::<std::net::Ipv6Addr>().is_ok();
    let port =
        port.parse::<u16>().ok().filter(|number| *number != 0 && port.bytes().all(|byte| byte.is_ascii_digit()))?;
    is_host.then(|| ConnectionAddr::Tcp(host.to_owned(), port).into_connection_info().ok()).flatten()
}

/// A URL with TLS, whose fragment `#insecure` accepts any certificate. redis-rs reads it if it speaks TLS itself.
fn encrypted(scheme: &str, rest: &str) -> Option<ConnectionInfo> {
    let (rest, insecure) = match rest.split_once('#') {
        Some((rest, "insecure")) => (rest, true),
        Some(_) => return None,
        None => (rest, false),
    };
    let info = format!("{scheme}://{rest}").into_connection_info().ok()?;
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else { return None };
    Some(info.set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params: None }))
}

/// A URL without the password that it may have. A user alone may be a password in the wrong place: then it is `None`, unless the
/// password is known to be elsewhere.
pub(crate) fn without_password(url: &str, is_elsewhere: bool) -> Option<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return Some(url.to_owned()) };
    if scheme.contains("unix") {
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let kept = query.iter().flat_map(|query| query.split('&')).filter(|pair| !pair.starts_with("pass="));
        let kept = kept.collect::<Vec<_>>().join("&");
        return Some(format!("{scheme}://{path}{}{kept}", if kept.is_empty() { "" } else { "?" }));
    }
    let (login, hosts, after) = split(rest);
    let Some(login) = login.strip_suffix('@') else { return Some(url.to_owned()) };
    let user = match login.split_once(':') {
        Some((user, _)) => user,
        None if is_elsewhere => login,
        None => return None,
    };
    Some(format!("{scheme}://{user}{}{hosts}{after}", if user.is_empty() { "" } else { "@" }))
}

fn host_and_port(address: &ConnectionAddr) -> Option<String> {
    let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) = address else { return None };
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The port of a sentinel if the URL has none.
const PORT: u16 = 26379;

/// Reads a URL of sentinels.
fn read_sentinels(url: &str) -> Option<Address> {
    let (scheme, rest) = url.split_once("://")?;
    let (server_scheme, is_lettuce) = match scheme.split_once('+') {
        Some((server, "sentinel")) => (server, false),
        Some(_) => return None,
        None => (scheme.strip_suffix("-sentinel")?, true),
    };
    if !["redis", "rediss", "valkey", "valkeys"].contains(&server_scheme) {
        return None;
    }
    let (login, hosts, after) = split(rest);
    let (before, fragment) = after.split_once('#').map_or((after, None), |(before, text)| (before, Some(text)));
    let (path, query) = before.split_once('?').map_or((before, None), |(path, query)| (path, Some(query)));
    let path = path.strip_prefix('/').unwrap_or(path);
    let (primary, database, insecure, login) = if is_lettuce {
        let named = match query {
            Some(query) => Some(query.strip_prefix("sentinelMasterId=")?),
            None => None,
        };
        // Lettuce had the name behind a `#` once.
        let (primary, insecure) = match (named, fragment) {
            (Some(named), fragment) => (named, fragment),
            (None, Some(name)) => (name, None),
            (None, None) => return None,
        };
        // A login without a colon is a password there.
        let login = if login.is_empty() || login.contains(':') { login.to_owned() } else { format!(":{login}") };
        (primary, path, insecure, login)
    } else {
        let (primary, database) = path.split_once('/').unwrap_or((path, ""));
        if query.is_some() {
            return None;
        }
        (primary, database, fragment, login.to_owned())
    };
    // What sentinels accept as a name.
    let is_name =
        !primary.is_empty() && primary.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let insecure = match insecure {
        Some("insecure") if ["rediss", "valkeys"].contains(&server_scheme) => "#insecure",
        Some(_) => return None,
        None => "",
    };
    let url_of = |host: &str| {
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if has_port { String::new() } else { format!(":{PORT}") };
        let is_host = !host.is_empty() && !host.starts_with(':');
        is_host.then(|| format!("{server_scheme}://{login}{host}{port}/{database}{insecure}"))
    };
    let sentinels = hosts.split(',').map(|host| read_one(&url_of(host)?)).collect::<Option<_>>()?;
    is_name.then(|| Address::of(sentinels, Some(primary.to_owned()))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("redis://10.0.0.5:6379", "redis://10.0.0.5:6379"),
            ("redis://10.0.0.5", "redis://10.0.0.5:6379"),
            ("localhost:7000", "redis://localhost:7000"),
            ("[::1]:7000", "redis://[::1]:7000"),
            ("redis://[::1]:7000/2", "redis://[::1]:7000/2"),
            ("rediss://me:secret@10.0.0.5:1/#insecure", "rediss://me:***@10.0.0.5:1"),
            ("unix:///run/r.sock?db=1&pass=secret", "unix:///run/r.sock?db=1&pass=***"),
            ("redis://n1,n2:7001,[::1]:7002", "redis://n1:6379,n2:7001,[::1]:7002"),
            ("rediss://me:a,b@n1,n2/#insecure", "rediss://me:***@n1:6379,n2:6379"),
            ("n1:1,n2:2", "redis://n1:1,n2:2"),
            ("unix:///a,b", "unix:///a,b"),
        ] {
            assert_eq!(Address::read(url).map(|it| it.shown()).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn a_url_without_its_password_names_the_same_server_and_user() {
        for (url, expected) in [
            ("redis://10.0.0.5:6379/1", Some("redis://10.0.0.5:6379/1")),
            ("redis://me:se@cret@n1,n2:7001/1", Some("redis://me@n1,n2:7001/1")),
            ("rediss://:secret@10.0.0.5/#insecure", Some("rediss://10.0.0.5/#insecure")),
            ("redis+sentinel://me:secret@s1,s2/main", Some("redis+sentinel://me@s1,s2/main")),
            ("unix:///run/r.sock?user=me&pass=secret&db=1", Some("unix:///run/r.sock?user=me&db=1")),
            ("unix:///run/r.sock?pass=secret", Some("unix:///run/r.sock")),
            ("localhost:7000", Some("localhost:7000")),
            ("redis://secret@10.0.0.5", None),
        ] {
            assert_eq!(without_password(url, false).as_deref(), expected, "{url}");
        }
        assert_eq!(without_password("redis://me@n1", true).as_deref(), Some("redis://me@n1"));
    }

    #[test]
    fn what_is_no_url_is_refused_as_a_whole() {
        let no_urls = "|localhost|localhost:0|localhost:65536|localhost:+1|:6379|a b:6379|redis://n1,|redis://,n1|\
                       redis://n1,:7000|n1,n2";
        for url in no_urls.split('|').chain(["redis://me:pw@n1,http://n2"]) {
            assert!(Address::read(url).is_none(), "{url}");
        }
    }

    #[test]
    fn both_forms_are_shown_as_one_without_a_password() {
        for (url, expected) in [
            ("redis+sentinel://h1:1,h2/shop", "redis+sentinel://h1:1,h2:26379/shop"),
            ("redis+sentinel://me:se/cret@h1/shop", ""),
            ("redis+sentinel://me:a,b@h1,[::1]:7/shop/2", "redis+sentinel://me:***@h1:26379,[::1]:7/shop/2"),
            ("rediss+sentinel://:secret@h1/my.shop-1_a#insecure", "rediss+sentinel://:***@h1:26379/my.shop-1_a"),
            ("redis-sentinel://h1,h2:2/1?sentinelMasterId=shop", "redis+sentinel://h1:26379,h2:2/shop/1"),
            ("redis-sentinel://secret@h1?sentinelMasterId=shop", "redis+sentinel://:***@h1:26379/shop"),
            ("redis-sentinel://h1/0#shop", "redis+sentinel://h1:26379/shop"),
            ("rediss-sentinel://h1?sentinelMasterId=shop#insecure", "rediss+sentinel://h1:26379/shop"),
        ] {
            let read = Address::read(url).map(|it| it.shown()).unwrap_or_default();
            assert_eq!(read, expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_url_of_sentinels_is_refused_as_a_whole() {
        for url in [
            "redis+sentinel://h1",
            "redis+sentinel://h1/",
            "redis+sentinel://h1,/shop",
            "redis+sentinel://,h1/shop",
            "redis+sentinel:///shop",
            "redis+sentinel://h1/shop/db",
            "redis+sentinel://h1/shop/0/1",
            "redis+sentinel://h1/shop?password=pw",
            "redis+sentinel://h1/shop#insecure",
            "redis+sentinel://h1/sh op",
            "redis-sentinel://h1",
            "redis-sentinel://h1/0",
            "redis-sentinel://h1?password=pw&sentinelMasterId=shop",
            "redis-sentinel://h1?sentinelMasterId=shop&timeout=1s",
            "http+sentinel://h1/shop",
            "sentinel://h1/shop",
        ] {
            assert!(Address::read(url).is_none(), "{url}");
        }
    }
}
