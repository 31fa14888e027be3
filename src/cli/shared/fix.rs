//! Commands that correct what was found, or remove what is left, as they can be pasted into a shell.

use crate::cli::args::Global;
use crate::cli::failure::Result;
use crate::cli::shared::target::{self, InUse, PasswordSource};
use crate::model::{ActivityId, Kind, Meta, Millis, option, shell_quoted};

/// How commands for one server begin.
#[derive(Debug, Clone)]
pub struct Fixes {
    /// `redis-cli -h … -p …`, as the user who asks.
    redis_cli: String,
    /// The same as a user who may change settings and rights.
    administrator: String,
    /// The same at the server that `-h` and `-p` name next.
    elsewhere: String,
    options: Options,
    /// `user@` in a URL.
    user: String,
    /// `/3` in a URL, of another database than the first.
    database: String,
}

/// What command lines for the same server and layout need besides the server's address.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Of `redis-cli`, for TLS.
    pub certificates: Vec<String>,
    pub password: PasswordSource,
    /// Of `seckill` for the same server.
    pub seckill: String,
    /// Of `seckill` for another one with the same login.
    pub other_server: String,
}

impl Options {
    /// As they were given here, by options, the environment or a context.
    ///
    /// # Errors
    /// The URL cannot be read.
    pub fn of(global: &Global, in_use: Option<&InUse>) -> Result<Self> {
        let (password, certificates) = target::login(global, in_use)?;
        let mut other: Vec<String> = Vec::new();
        other.extend(global.layout.iter().flat_map(|layout| ["-l".to_owned(), layout.clone()]));
        if let PasswordSource::File(path) = &password {
            other.extend(["--password-file".to_owned(), path.display().to_string()]);
        }
        other.extend(certificates.iter().cloned());
        let other_server = other.iter().map(|word| format!(" {}", shell_quoted(word))).collect();
        Ok(Self { certificates, password, seckill: target::options(global), other_server })
    }

    /// The user whom a command logs in as, if the URL names one with a password: without one it may be a password in the wrong place.
    pub fn login_name<'a>(&self, user: Option<&'a str>) -> Option<&'a str> {
        user.filter(|_| self.password != PasswordSource::Absent)
    }

    /// Whether a command of `seckill` that names its server needs a password that cannot be printed.
    pub fn hides_password(&self, global: &Global) -> bool {
        self.password == PasswordSource::Url && global.url.is_some()
    }

    /// How `redis-cli` gets the password: what comes before it, and an option.
    fn login(&self) -> (String, &'static str) {
        match &self.password {
            PasswordSource::Absent | PasswordSource::Variable("REDISCLI_AUTH") => (String::new(), ""),
            PasswordSource::Variable(name) => (format!("REDISCLI_AUTH=\"${name}\" "), ""),
            PasswordSource::File(path) if path.as_os_str() != "-" => {
                (format!("REDISCLI_AUTH=\"$(cat {})\" ", shell_quoted(&path.display().to_string())), "")
            }
            PasswordSource::File(_) | PasswordSource::Url | PasswordSource::Command(_) => (String::new(), ASKS),
        }
    }
}

/// Without a place that the shell could read the password from, `redis-cli` asks for it.
const ASKS: &str = " --askpass";

impl Fixes {
    /// Of the program's family, such as `redis`; `place` is how it gets there. `user` is the one who asks, if the URL names one;
    /// settings and rights may be changed as an administrator.
    pub fn new(family: &str, place: &[String], user: Option<&str>, is_administrator: bool, options: &Options) -> Self {
        let quoted = |words: &[String]| words.iter().map(|word| format!(" {}", shell_quoted(word))).collect::<String>();
        let certificates = quoted(&options.certificates);
        let tls: Vec<String> = place.iter().filter(|word| word.starts_with("--")).cloned().collect();
        let (password, asks) = options.login();
        let own = user.map(|user| format!(" --user {}", shell_quoted(user))).unwrap_or_default() + asks;
        let redis_cli = |place: &[String], password: &str, login: &str| {
            format!("{password}{family}-cli{}{certificates}{login}", quoted(place))
        };
        let number = place.iter().skip_while(|word| *word != "-n").skip(1).take(1);
        let database = number.map(|number| format!("/{number}")).collect();
        let (of_others, login) = if is_administrator { (&*password, &*own) } else { ("", ASKS) };
        Self {
            redis_cli: redis_cli(place, &password, &own),
            administrator: redis_cli(place, of_others, login),
            elsewhere: redis_cli(&tls, of_others, login),
            options: options.clone(),
            user: user.map(|user| format!("{user}@")).unwrap_or_default(),
            database,
        }
    }

    /// The same for keys of a cluster: `redis-cli` follows them to their node.
    #[must_use]
    pub fn following_slots(&self) -> Self {
        let [redis_cli, administrator] = [&self.redis_cli, &self.administrator].map(|line| format!("{line} -c"));
        Self { redis_cli, administrator, ..self.clone() }
    }

    /// A command of the server that the asking user may run, such as `["INFO", "keyspace"]`.
    pub fn command(&self, words: &[&str]) -> String {
        format!("{} {}", self.redis_cli, joined(words))
    }

    /// A command of the server that users of a sale may not run, such as `["CONFIG", "GET", "dir"]`.
    pub fn administer(&self, words: &[&str]) -> String {
        format!("{} {}", self.administrator, joined(words))
    }

    /// Whether the server wants a password, of its replicas too.
    pub fn has_password(&self) -> bool {
        self.options.password != PasswordSource::Absent
    }

    /// The same at another server.
    pub fn elsewhere(&self, host: &str, port: &str, words: &[&str]) -> String {
        format!("{} {}", self.elsewhere, joined(&[&["-h", host, "-p", port], words].concat()))
    }

    /// A setting that holds until the next restart.
    pub fn set(&self, name: &str, value: &str) -> String {
        self.administer(&["CONFIG", "SET", name, value])
    }

    /// Rights for a user.
    pub fn grant(&self, user: &str, rules: &[String]) -> String {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        self.administer(&[&["ACL", "SETUSER", user], &rules[..]].concat())
    }

    /// A command of this tool about one activity: `before` and `after` its id.
    pub fn seckill(&self, before: &str, activity: &ActivityId, after: &str) -> String {
        let after = if after.is_empty() { String::new() } else { format!(" {after}") };
        // Other commands read an id as a pattern.
        let line = match before.strip_suffix("--id") {
            Some(before) => format!("{before}{}", option("--id", activity)),
            None => format!("{before} {activity:#}"),
        };
        format!("{SECKILL}{line}{}{after}", self.options.seckill)
    }

    /// A command of this tool about all activities.
    pub fn seckill_all(&self, command: &str) -> String {
        format!("{SECKILL}{command}{}", self.options.seckill)
    }

    /// `seckill doctor` of another server with the same login.
    pub fn doctor_at(&self, scheme: &str, place: &str) -> String {
        let url = format!("{scheme}://{}{place}{}", self.user, self.database);
        format!("{SECKILL}doctor --url {}{}", shell_quoted(&url), self.options.other_server)
    }

    /// Puts a key out of the way, then runs another command.
    pub fn after_renaming(&self, key: &str, then: &str) -> String {
        format!("{} && {then}", self.administer(&["RENAME", key, &format!("corrupt:{key}")]))
    }
}

/// The flags of a `preheat` that makes a sale like one that there was.
pub struct PreheatFlags {
    /// Limit and title.
    pub rules: String,
    pub starts: Option<String>,
    pub ends: Option<String>,
}

impl PreheatFlags {
    /// As what a preheat wrote says it, in a layout of that kind.
    pub fn of(meta: &Meta, kind: Kind) -> Self {
        let limit =
            meta.per_user_limit.filter(|_| kind == Kind::Hash).map(|limit| format!(" --per-user-limit {limit}"));
        let title = Some(&meta.title).filter(|title| !title.is_empty());
        let title = title.map(|title| format!(" --title={}", shell_quoted(title)));
        let at = |flag, at: Option<Millis>| Some(format!(" {flag} {}", serde_json::to_value(at?).ok()?.as_str()?));
        Self {
            rules: [limit, title].into_iter().flatten().collect(),
            starts: at("--starts-at", meta.starts_at),
            ends: at("--ends-at", meta.ends_at),
        }
    }

    /// All of them.
    pub fn all(self) -> String {
        [Some(self.rules), self.starts, self.ends].into_iter().flatten().collect()
    }
}

/// How a line of this tool begins.
pub const SECKILL: &str = "seckill ";

fn joined(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixes(name: Option<&str>, is_administrator: bool, password: PasswordSource) -> Fixes {
        let options = Options { password, seckill: " -l sku".to_owned(), ..Options::default() };
        let place = ["-h", "10.0.0.5", "-p", "6379", "--tls"].map(str::to_owned);
        Fixes::new("redis", &place, name, is_administrator, &options)
    }

    #[test]
    fn rights_are_granted_by_another_user_than_the_one_who_lacks_them() {
        let fixes = fixes(Some("clerk"), false, PasswordSource::File("pw".into()));
        assert_eq!(fixes.set("save", ""), "redis-cli -h 10.0.0.5 -p 6379 --tls --askpass CONFIG SET save ''");
        let ping = "REDISCLI_AUTH=\"$(cat pw)\" redis-cli -h 10.0.0.5 -p 6379 --tls --user clerk PING";
        assert_eq!(fixes.command(&["PING"]), ping);
        let grant = fixes.grant("clerk", &["+xinfo|groups".into(), "~seckill:*".into()]);
        assert!(grant.ends_with(" --askpass ACL SETUSER clerk '+xinfo|groups' '~seckill:*'"), "{grant}");
        let activity = "a b".replace(' ', "_").parse().unwrap();
        assert_eq!(fixes.seckill("reconcile", &activity, "--fix"), "seckill reconcile a_b -l sku --fix");
        for (id, reconcile, preheat) in [
            ("-x", "reconcile '[-]x' -l sku --fix", "preheat --id=-x -l sku --adopt"),
            ("a*[b]", "reconcile 'a[*][[]b]' -l sku --fix", "preheat --id 'a*[b]' -l sku --adopt"),
        ] {
            let id = id.parse().unwrap();
            assert_eq!(fixes.seckill("reconcile", &id, "--fix"), format!("seckill {reconcile}"));
            assert_eq!(fixes.seckill("preheat --id", &id, "--adopt"), format!("seckill {preheat}"));
        }
    }

    #[test]
    fn a_password_is_read_from_where_it_is_and_asked_for_if_it_is_nowhere() {
        let set = |password| fixes(Some("ann"), true, password).set("save", "");
        let line = "redis-cli -h 10.0.0.5 -p 6379 --tls --user ann";
        for (password, before, asks) in [
            (PasswordSource::Absent, "", ""),
            (PasswordSource::File("my pw".into()), "REDISCLI_AUTH=\"$(cat 'my pw')\" ", ""),
            (PasswordSource::File("-".into()), "", " --askpass"),
            (PasswordSource::Variable("SECKILL_PASSWORD"), "REDISCLI_AUTH=\"$SECKILL_PASSWORD\" ", ""),
            (PasswordSource::Variable("REDISCLI_AUTH"), "", ""),
            (PasswordSource::Url, "", " --askpass"),
            (PasswordSource::Command("echo secret".to_owned()), "", " --askpass"),
        ] {
            assert_eq!(set(password), format!("{before}{line}{asks} CONFIG SET save ''"));
        }
    }

    #[test]
    fn another_server_is_reached_with_the_same_login() {
        let fixes = fixes(Some("ann"), true, PasswordSource::Variable("SECKILL_PASSWORD"));
        let line = fixes.elsewhere("OTHER-HOST", "7000", &["REPLICAOF", "10.0.0.5", "6379"]);
        let expected = "redis-cli --tls --user ann -h OTHER-HOST -p 7000 REPLICAOF 10.0.0.5 6379";
        assert_eq!(line, format!("REDISCLI_AUTH=\"$SECKILL_PASSWORD\" {expected}"));
        assert_eq!(fixes.doctor_at("rediss", "10.0.0.6:6379"), "seckill doctor --url rediss://ann@10.0.0.6:6379");
    }
}
