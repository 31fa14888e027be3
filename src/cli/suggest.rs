//! What somebody meant who gave an option or argument that a command does not have.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::cli::help;

/// Names that other tools, or people in a hurry, use for ours.
const ALIASES: [(&str, &[&str]); 9] = [
    ("--quantity", &["--qty", "--count", "--amount", "--num", "--units", "-n", "-q"]),
    ("--user", &["--uid", "--user-id", "--userid", "--buyer", "--customer"]),
    ("--request", &["--request-id", "--requestid", "--order-id", "--idempotency-key", "--key"]),
    ("--per-user-limit", &["--limit", "--max-per-user"]),
    ("--stock", &["--units", "--quantity"]),
    ("--from", &["--file", "--input", "-f"]),
    ("--id", &["--activity-id"]),
    ("--url", &["--host", "--server", "-h", "--uri"]),
    ("--password-file", &["--password", "--pass", "-a"]),
];

/// The hint for an argument that the command line's command does not have.
pub(crate) fn correction(error: &clap::Error, arguments: impl Iterator<Item = OsString>) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return None };
    let root = help::command();
    let command = named(&root, arguments);
    let has = |option: &str| options(&root, command).any(|arg| option.strip_prefix("--") == arg.get_long());
    let name = given.split('=').next().unwrap_or(given);
    if name.starts_with('-') {
        let (option, _) = ALIASES.iter().find(|(option, aliases)| aliases.contains(&name) && has(option))?;
        return Some(match *option {
            "--password-file" => {
                "a password is given by `--password-file FILE` or the variable SECKILL_PASSWORD".to_owned()
            }
            option => format!("did you mean `{option}`?"),
        });
    }
    has("--user").then(|| format!("did you mean `--user {given}`?"))
}

/// The options that a command takes: its own and the global ones.
fn options<'a>(root: &'a Command, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
    command.get_arguments().chain(root.get_arguments())
}

/// The command that the arguments name. Values of options before it may be taken for it only if they equal a
/// command's name, and then only the hint is worse.
fn named(root: &Command, arguments: impl Iterator<Item = OsString>) -> &Command {
    arguments.fold(root, |command, argument| {
        argument.to_str().and_then(|name| command.find_subcommand(name)).unwrap_or(command)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = help::command().try_get_matches_from(&words).unwrap_err();
        correction(&error, words.into_iter().skip(1))
    }

    #[test]
    fn an_option_by_another_name_is_recognized() {
        for (line, option) in [
            ("seckill deduct 1001 --user 7 --qty 2", "`--quantity`"),
            ("seckill deduct 1001 --uid=7", "`--user`"),
            ("seckill preheat --id 1 --units 5", "`--stock`"),
            ("seckill inspect --host x", "`--url`"),
            ("seckill inspect --password x", "SECKILL_PASSWORD"),
            ("seckill deduct 1001 12345", "`--user 12345`"),
        ] {
            assert!(hint(line).unwrap().contains(option), "{line}: {:?}", hint(line));
        }
        assert_eq!(hint("seckill script list extra"), None);
        assert_eq!(hint("seckill inspect --usr 7"), None, "clap has a suggestion of its own");
    }
}
