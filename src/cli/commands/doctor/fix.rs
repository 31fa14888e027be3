//! Commands that correct what was found, as they can be pasted into a shell.

use crate::cli::args::Global;
use crate::cli::failure::shell_quoted;
use crate::cli::shared::target;
use crate::model::id::ActivityId;

/// How commands for one server begin.
#[derive(Debug, Clone)]
pub(super) struct Fixes {
    /// `redis-cli -h … -p …`.
    redis_cli: String,
    /// The same without the user who asks: settings and rights are changed by somebody else.
    administrator: String,
    /// Options of `seckill` for the same server and layout.
    seckill: String,
}

/// What command lines for the same server and layout need besides the server's address.
pub(super) struct Options {
    /// Of `redis-cli`, for TLS.
    pub certificates: Vec<String>,
    /// Of `seckill`.
    pub seckill: String,
}

impl Options {
    /// As they were given here.
    pub(super) fn of(global: &Global) -> Self {
        let Global { cacert, cert, key, .. } = global;
        let files = [("--cacert", cacert), ("--cert", cert), ("--key", key)];
        let given =
            files.into_iter().filter_map(|(flag, file)| Some([flag.to_owned(), file.as_ref()?.display().to_string()]));
        let certificates: Vec<String> = given.flatten().collect();
        Self { certificates, seckill: target::options(global) }
    }
}

impl Fixes {
    /// Of the program's family, such as `redis`; `place` is how it gets there, `user` who logs in.
    pub(super) fn new(family: &str, place: &[String], user: Option<&str>, options: &Options) -> Self {
        let place: Vec<String> = place.iter().chain(&options.certificates).map(|word| shell_quoted(word)).collect();
        let administrator = format!("{family}-cli {}", place.join(" "));
        let redis_cli = match user {
            Some(user) => format!("{administrator} --user {}", shell_quoted(user)),
            None => administrator.clone(),
        };
        Self { redis_cli, administrator, seckill: options.seckill.clone() }
    }

    /// A command of the server, such as `["CONFIG", "GET", "dir"]`.
    pub(super) fn command(&self, words: &[&str]) -> String {
        format!("{} {}", self.redis_cli, joined(words))
    }

    /// A setting that holds until the next restart. Users of a sale may not change it.
    pub(super) fn set(&self, name: &str, value: &str) -> String {
        format!("{} {}", self.administrator, joined(&["CONFIG", "SET", name, value]))
    }

    /// Rights for a user.
    pub(super) fn grant(&self, user: &str, rules: &[String]) -> String {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        format!("{} {}", self.administrator, joined(&[&["ACL", "SETUSER", user], &rules[..]].concat()))
    }

    /// A command of this tool about one activity: `before` and `after` its id.
    pub(super) fn seckill(&self, before: &str, activity: &ActivityId, after: &str) -> String {
        let line = format!("seckill {before} {}{}", shell_quoted(activity.as_str()), self.seckill);
        if after.is_empty() { line } else { format!("{line} {after}") }
    }

    /// Puts a key out of the way, then runs another command.
    pub(super) fn after_renaming(&self, key: &str, then: &str) -> String {
        format!("{} && {then}", self.command(&["RENAME", key, &format!("corrupt:{key}")]))
    }
}

fn joined(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_granted_by_another_user_than_the_one_who_lacks_them() {
        let place = ["-h", "10.0.0.5", "-p", "6379"].map(str::to_owned);
        let fixes = Fixes::new(
            "redis",
            &place,
            Some("clerk"),
            &Options { certificates: Vec::new(), seckill: " -l sku".to_owned() },
        );
        assert_eq!(fixes.set("save", ""), "redis-cli -h 10.0.0.5 -p 6379 CONFIG SET save ''");
        assert_eq!(fixes.command(&["PING"]), "redis-cli -h 10.0.0.5 -p 6379 --user clerk PING");
        let grant = fixes.grant("clerk", &["+xinfo|groups".into(), "~seckill:*".into()]);
        assert_eq!(grant, "redis-cli -h 10.0.0.5 -p 6379 ACL SETUSER clerk '+xinfo|groups' '~seckill:*'");
        let activity = "a b".replace(' ', "_").parse().unwrap();
        assert_eq!(fixes.seckill("reconcile", &activity, "--fix"), "seckill reconcile a_b -l sku --fix");
    }
}
