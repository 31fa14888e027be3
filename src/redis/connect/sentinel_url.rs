//! URLs of sentinels: `redis+sentinel://[user:pass@]h1:26379,h2:26379/primary[/db]`, and as lettuce writes them
//! `redis-sentinel://[user:pass@]h1,h2[/db]?sentinelMasterId=primary`. The login is that of the servers.

use redis::ConnectionInfo;

use crate::redis::connect::address;

/// The port of a sentinel if the URL has none.
const PORT: u16 = 26379;

/// The sentinels of a primary.
pub(crate) struct SentinelUrl {
    /// Their addresses, each with the login and the database of the servers.
    pub(crate) sentinels: Vec<ConnectionInfo>,
    /// The name by which they know the primary.
    pub(crate) primary: String,
}

/// Whether a URL names sentinels, be it valid or not.
pub(crate) fn names_sentinels(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.contains("sentinel"))
}

/// Reads such a URL.
pub(crate) fn read(url: &str) -> Option<SentinelUrl> {
    let (scheme, rest) = url.split_once("://")?;
    let (server_scheme, is_lettuce) = match scheme.split_once('+') {
        Some((server, "sentinel")) => (server, false),
        Some(_) => return None,
        None => (scheme.strip_suffix("-sentinel")?, true),
    };
    if !["redis", "rediss", "valkey", "valkeys"].contains(&server_scheme) {
        return None;
    }
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
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
    let sentinels: Option<Vec<_>> = hosts.split(',').map(|host| address::read_one(&url_of(host)?)).collect();
    is_name.then_some(SentinelUrl { sentinels: sentinels?, primary: primary.to_owned() })
}

/// As it may be shown: without the password, in the first of the two forms.
pub(crate) fn shown(url: &SentinelUrl) -> String {
    let shown = address::shown(&url.sentinels);
    let Some((scheme, rest)) = shown.split_once("://") else { return shown };
    let (hosts, database) = rest.split_at(rest.rfind('/').unwrap_or(rest.len()));
    format!("{scheme}+sentinel://{hosts}/{}{database}", url.primary)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let read = read(url).map(|url| shown(&url)).unwrap_or_default();
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
            assert!(names_sentinels(url) && read(url).is_none(), "{url}");
        }
    }
}
