//! What was meant by an option, argument or command that does not exist.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::cli::help;

/// Names that other tools, or people in a hurry, use for our options.
const OPTIONS: [(&str, &[&str]); 22] = [
    ("--quantity", &["--qty", "--count", "--amount", "--num", "--units", "-n"]),
    ("--user", &["--uid", "--user-id", "--userid", "--buyer", "--customer"]),
    ("--request", &["--request-id", "--requestid", "--order-id", "--order", "--idempotency-key"]),
    ("--per-user-limit", &["--limit", "--max-per-user"]),
    ("--stock", &["--units", "--quantity"]),
    ("--from", &["--file", "--input", "-f"]),
    ("--id", &["--activity-id"]),
    ("--url", &["--host", "--server", "--uri"]),
    ("--password-file", &["--password", "--pass", "-a"]),
    ("--for", &["--ttl", "--duration", "--expires", "--deadline"]),
    ("--every", &["--interval", "--watch"]),
    ("--watch", &["--follow", "--interval", "--every", "-w", "-f"]),
    ("--follow", &["--tail", "--watch", "-w", "-f"]),
    ("--top", &["--limit", "--last", "--head", "-n"]),
    ("--yes", &["--force", "--no-confirm", "--assume-yes", "-f"]),
    ("--reason", &["--comment", "--message", "--note", "-m"]),
    ("-o json", &["--json", "--as-json", "-j"]),
    ("-o csv", &["--csv"]),
    ("-o yaml", &["--yaml", "--yml"]),
    ("--output", &["--format", "--out", "--output-format"]),
    ("--dry-run", &["--check", "--simulate", "--plan"]),
    ("--to", &["--dir", "--directory", "--output-dir"]),
];

/// What other tools call our commands.
const COMMANDS: [(&str, &[&str]); 12] = [
    ("inspect", &["status", "list", "ls", "show", "get", "stock", "info"]),
    ("inspect --watch", &["watch", "top", "monitor", "dashboard"]),
    ("deduct", &["buy", "sell", "order", "purchase"]),
    ("refund", &["return", "cancel"]),
    ("hold", &["reserve", "lock"]),
    ("pause", &["stop", "halt", "disable"]),
    ("resume", &["start", "unpause", "continue", "enable"]),
    ("preheat", &["create", "add", "load", "warmup", "set", "update"]),
    ("archive", &["delete", "remove", "rm", "del"]),
    ("reconcile", &["audit", "check", "verify", "diff"]),
    ("ledger", &["log", "logs", "history", "events"]),
    ("context", &["config", "servers", "login"]),
];

/// A hint that is better than clap's.
pub(crate) fn correction(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let root = help::command();
    let line = Line::read(&root, arguments);
    let given = match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::ArgumentConflict => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(given)) = error.get(given) else { return None };
    if !given.starts_with('-')
        && let Some(folder) = line.folder_apart()
    {
        return Some(format!("did you mean `--embedded={folder}`? a directory is given after `=`"));
    }
    let has_similar =
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand].map(|kind| error.get(kind).is_some());
    let fallback = |hint: String| (!has_similar.contains(&true)).then_some(hint);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let known = COMMANDS.iter().find(|(_, theirs)| line.path.is_empty() && theirs.contains(&given.as_str()));
            known
                .map(|(command, _)| format!("did you mean `seckill {command}`?"))
                .or_else(|| fallback(line.help("commands")))
        }
        ErrorKind::UnknownArgument if given.starts_with('-') => {
            line.option(given).or_else(|| fallback(line.help("options")))
        }
        ErrorKind::UnknownArgument => line.option_of_value(given),
        _ => None,
    }
}

/// A command line that cannot be parsed, as far as it names a command.
struct Line<'a> {
    root: &'a Command,
    command: &'a Command,
    /// The names of the command.
    path: Vec<&'a str>,
    arguments: &'a [String],
}

impl<'a> Line<'a> {
    /// Values of options before it may be taken for the command only if they equal its name, and then only the hint is
    /// worse.
    fn read(root: &'a Command, arguments: &'a [String]) -> Self {
        let mut line = Self { root, command: root, path: Vec::new(), arguments };
        for argument in arguments {
            if let Some(below) = line.command.find_subcommand(argument) {
                line.command = below;
                line.path.push(below.get_name());
            }
        }
        line
    }

    fn help(&self, what: &str) -> String {
        let path: String = self.path.iter().map(|name| format!("{name} ")).collect();
        format!("`seckill {path}--help` lists the {what}")
    }

    /// The options that the command takes: its own and the global ones.
    fn options(&self) -> impl Iterator<Item = &'a Arg> {
        self.command.get_arguments().chain(self.root.get_arguments())
    }

    /// Whether the command has an option, which may have a value behind it.
    fn has(&self, option: &str) -> bool {
        let name = option.split(' ').next().unwrap_or(option);
        self.options().any(|arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4]))),
        })
    }

    /// Whether the option is given already.
    fn gives(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('=').next() == Some(option))
    }

    /// The argument after `--embedded`, which takes a value only after `=`.
    fn folder_apart(&self) -> Option<&'a str> {
        let mut pairs = self.arguments.windows(2);
        let folder = pairs.find_map(|pair| (pair[0] == "--embedded").then_some(pair[1].as_str()))?;
        (!folder.starts_with('-') && !self.path.contains(&folder)).then_some(folder)
    }

    /// The option by another name.
    fn option(&self, given: &str) -> Option<String> {
        let name = given.split('=').next().unwrap_or(given);
        let has_activity = self.command.get_positionals().any(|arg| arg.get_id().as_str().starts_with("activit"));
        if ["--id", "--activity", "--activity-id"].contains(&name) && has_activity {
            return Some(format!("an activity is given without an option: `seckill {} 1001`", self.path.join(" ")));
        }
        let preheats = self.has("--stock");
        match name {
            "--restore" if !preheats => {
                return Some("`seckill preheat --restore DIR` brings an activity back".to_owned());
            }
            "--ledger" if preheats => {
                return Some("an activity has a ledger unless its fixture says `ledger: false`".to_owned());
            }
            _ => {}
        }
        let ours =
            |(ours, theirs): &(&'static str, &[&str])| (theirs.contains(&name) && self.has(ours)).then_some(*ours);
        match OPTIONS.iter().find_map(ours)? {
            "--password-file" => {
                Some("a password is given by `--password-file FILE` or the variable SECKILL_PASSWORD".to_owned())
            }
            option => Some(format!("did you mean `{option}`?")),
        }
    }

    /// The option whose value was given without it.
    fn option_of_value(&self, given: &str) -> Option<String> {
        let is_number = given.bytes().all(|byte| byte.is_ascii_digit());
        let is_url = given.contains("://");
        let ends_holds = self.path.iter().any(|name| ["confirm", "release"].contains(name));
        let candidates = [("--url", is_url), ("--request", ends_holds), ("--user", !is_url), ("--quantity", is_number)];
        let fits = |(option, fits): &(&str, bool)| *fits && self.has(option) && !self.gives(option);
        let (option, _) = candidates.iter().find(|candidate| fits(candidate))?;
        // What is an URL may hold a password.
        let value = if is_url { "URL" } else { given };
        Some(format!("did you mean `{option} {value}`?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = help::command().try_get_matches_from(&words).unwrap_err();
        correction(&error, &words[1..])
    }

    #[test]
    fn what_other_tools_call_it_is_recognized() {
        for (line, expected) in [
            ("seckill deduct 1001 --uid=7", "did you mean `--user`?"),
            ("seckill preheat --id 1 --units 5", "did you mean `--stock`?"),
            ("seckill archive 1001 --restore a", "`seckill preheat --restore DIR` brings an activity back"),
            ("seckill preheat --id 1 --ledger", "an activity has a ledger unless its fixture says `ledger: false`"),
            ("seckill inspect --host x", "did you mean `--url`?"),
            ("seckill inspect --follow", "did you mean `--watch`?"),
            ("seckill hold 1001 --user 7 --ttl 15m", "did you mean `--for`?"),
            ("seckill reconcile --fix --force", "did you mean `--yes`?"),
            ("seckill inspect --json", "did you mean `-o json`?"),
            ("seckill deduct 1001 --user 7 2", "did you mean `--quantity 2`?"),
            ("seckill context add sale redis://:secret@h", "did you mean `--url URL`?"),
            ("seckill status", "did you mean `seckill inspect`?"),
            ("seckill deduct 1001 --embedded data --user 7", "`--embedded=data`"),
            ("seckill preheat --embedded data --id 1 --stock 2", "`--embedded=data`"),
            ("seckill --embedded inspect --host x", "`--url`"),
            ("seckill context add x --bogus", "`seckill context add --help` lists the options"),
            ("seckill frobnicate", "`seckill --help` lists the commands"),
            ("seckill script frobnicate", "`seckill script --help` lists the commands"),
        ] {
            assert!(hint(line).is_some_and(|hint| hint.contains(expected)), "{line}: {:?}", hint(line));
        }
    }

    #[test]
    fn what_clap_explains_itself_gets_no_other_hint() {
        for line in ["seckill inspect --usr 7", "seckill refnd 1001", "seckill script list extra"] {
            assert_eq!(hint(line), None, "{line}");
        }
    }

    #[test]
    fn every_name_that_a_hint_gives_is_there() {
        let root = help::command();
        for (ours, _) in COMMANDS {
            assert!(root.find_subcommand(ours.split(' ').next().unwrap()).is_some(), "{ours}");
        }
        for (ours, _) in OPTIONS {
            let commands = root.get_subcommands().map(|command| command.get_name().to_owned());
            let has = |name: String| Line::read(&root, &[name]).has(ours);
            assert!(commands.into_iter().any(has), "{ours}");
        }
    }
}
