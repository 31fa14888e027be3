//! Reads the command line of a single order without the help and without the other commands: to compose that tree
//! takes longer than everything else that such a command does.

use std::ffi::OsString;

use clap::{Args, Command, FromArgMatches};

use crate::cli::args::Global;
use crate::cli::{Cli, commands};

/// Reads a valid command line of the commands that backends and people call one at a time. Anything else is `None`: the
/// whole tree reads it then, and has the help and the errors.
///
/// Another command may be meant (`--url deduct inspect 1`). Then a word is left that this tree has no place for.
pub(crate) fn read(arguments: &[OsString]) -> Option<Cli> {
    let command = arguments.iter().skip(1).find_map(|argument| command(argument.to_str()?))?;
    let root = Global::augment_args(Command::new("seckill")).subcommand_required(true).subcommand(command);
    let matches = root.try_get_matches_from(arguments).ok()?;
    Cli::from_arg_matches(&matches).ok()
}

fn command(name: &str) -> Option<Command> {
    Some(match name {
        "deduct" => commands::deduct::DeductArgs::augment_args(Command::new("deduct")),
        "multi-deduct" => commands::multi_deduct::MultiDeductArgs::augment_args(Command::new("multi-deduct")),
        "refund" => commands::refund::RefundArgs::augment_args(Command::new("refund")),
        "inspect" => commands::inspect::InspectArgs::augment_args(Command::new("inspect")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command_line;
    use crate::cli::help;

    /// What this reads, and what the whole tree reads.
    fn both(line: &str) -> (Option<Cli>, Option<Cli>) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let matches = help::command().try_get_matches_from(&words).ok();
        (read(&words), matches.and_then(|matches| Cli::from_arg_matches(&matches).ok()))
    }

    #[test]
    fn examples_are_read_as_the_whole_tree_reads_them() {
        let mut compared = 0;
        for name in ["deduct", "multi-deduct", "refund", "inspect"] {
            let examples = help::examples(command_line().find_subcommand(name).unwrap());
            for line in examples.lines().filter(|line| line.starts_with("seckill") && !line.contains(['\'', '>'])) {
                let (fast, whole) = both(line);
                assert_eq!(format!("{fast:?}"), format!("{whole:?}"), "{line}");
                assert!(fast.is_some(), "{line}");
                compared += 1;
            }
        }
        assert!(compared > 10, "only {compared} examples");
    }

    #[test]
    fn the_same_options_stand_on_either_side_of_the_command() {
        for line in [
            "seckill -o json -u 1.2.3.4:6379 deduct 1 --user 7",
            "seckill deduct 1 --user 7 -o json -u 1.2.3.4:6379 --timeout 1s -q",
            "seckill --layout sku inspect --all",
            "seckill inspect deduct refund",
            "seckill --embedded inspect --nodes 3",
            "seckill --embedded=deduct multi-deduct --user 7 1=1 2=2 --dry-run",
        ] {
            let (fast, whole) = both(line);
            assert_eq!(format!("{fast:?}"), format!("{whole:?}"), "{line}");
            assert!(whole.is_some(), "{line}");
        }
    }

    #[test]
    fn what_is_no_such_command_is_left_to_the_whole_tree() {
        for line in [
            "seckill",
            "seckill --help",
            "seckill -V",
            "seckill help deduct",
            "seckill deduct --help",
            "seckill deduct 1 -h",
            "seckill deduct 1 --usr 7",
            "seckill deduct",
            "seckill -q -v deduct 1 --user 7",
            "seckill --url deduct refund 1 --user deduct",
            "seckill --url deduct script list",
            "seckill reconcile inspect",
            "seckill deduct 1 --user 7 --layout none",
        ] {
            assert!(both(line).0.is_none(), "{line}");
        }
    }
}
