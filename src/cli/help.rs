//! The help: `-h` and `--help` end with one line per global option; `--help` also shows examples, and `seckill --help`
//! groups the commands.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::cli::output::text::{filled, width, wrapped};
use crate::cli::{Cli, GROUPS};
use crate::model::Layout;

pub(crate) const ENVIRONMENT: &str = "
SECKILL_URL, REDIS_URL           Server [default: redis://127.0.0.1:6379]
SECKILL_CONTEXT                  Context [default: the one of `context use`]
XDG_CONFIG_HOME                  Folder of seckill/config.yaml [default: ~/.config]
SECKILL_PASSWORD, REDISCLI_AUTH  Password of the server
SECKILL_SENTINEL_PASSWORD        Password of the sentinels [default: the server's]
SECKILL_LAYOUT                   Layout [default: the fixture's, else seckill]
SECKILL_OUTPUT                   Output format [default: table]
SECKILL_TIMEOUT                  Timeout [default: 5s]
TZ                               Time zone [default: the system's]
SECKILL_OPERATOR                 Your name in the ledger [default: user@host]
SECKILL_SERVER                   Server program of --embedded
NO_COLOR, CLICOLOR_FORCE         Never or always use colors
";

pub(crate) const EXIT_CODES: &str = "
0    done
1    failed: server error, output that cannot be written, unmet expectation
2    usage, or invalid input
3    refused by a rule, such as out_of_stock
4    authentication or permission refused
5    server unreachable
6    outcome of a write unknown: the hint has the command that settles it; or applied, but
     fewer replicas than --wait-replicas have it
7    reconcile found drift, or could not prove a match
130  interrupted
";

/// The command tree with its help.
pub(crate) fn command() -> Command {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .global(true)
        .help("Print help; -h prints a summary");
    let root = Cli::command().disable_help_flag(true).arg(help).mut_args(|arg| {
        // They are printed below, one line each: clap would print some of them with a paragraph for every value.
        let is_global = arg.is_global_set();
        arg.hide_short_help(is_global).hide_long_help(is_global)
    });
    let globals: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    let globals = with_options("", &globals);
    let version = Arg::new("version").short('V').long("version").action(ArgAction::Version).help("Print version");
    let listed = format!("{}{}", commands(&root), section(&root, "Options", &with_options(&globals, &[&version])));
    let detailed = [
        listed.clone(),
        section(&root, "Layouts", &layouts()),
        section(&root, "Environment", &indented(ENVIRONMENT)),
        section(&root, "Exit codes", &indented(EXIT_CODES)),
        section(&root, "Examples", &indented(&to_paste(&examples(&root)))),
    ];
    let template = "{about-with-newline}\n{usage-heading} {usage}{after-help}";
    let end = "Use `seckill COMMAND --help` for the options and examples of a command.\n";
    root.clone()
        .help_template(template)
        .after_help(StyledStr::from(format!("{listed}{end}")))
        .after_long_help(StyledStr::from(format!("{}{end}", detailed.concat())))
        .mut_subcommands(|command| page(command, &globals))
}

/// Ends the help of a command, and of those below it, with the global options and, if long, with examples.
fn page(command: Command, globals: &str) -> Command {
    let options = section(&command, "Global options", globals);
    let examples = section(&command, "Examples", &indented(&to_paste(&examples(&command))));
    command
        .after_help(StyledStr::from(options.clone()))
        .after_long_help(StyledStr::from(options + &examples))
        .mut_subcommands(|below| page(below, globals))
}

/// A heading and its lines, as clap prints them.
fn section(command: &Command, heading: &str, lines: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{heading}:{style:#}\n{lines}\n")
}

/// The commands in their groups. `help` is clap's own.
fn commands(root: &Command) -> String {
    let line = |name: &str, about: &dyn std::fmt::Display| format!("  {name:<14}{about}\n");
    let mut groups: Vec<(&str, String)> = Vec::new();
    for (group, command) in GROUPS.iter().zip(root.get_subcommands()) {
        let line = line(command.get_name(), &command.get_about().cloned().unwrap_or_default());
        match groups.iter_mut().find(|(known, _)| known == group) {
            Some((_, lines)) => lines.push_str(&line),
            None => groups.push((group, line)),
        }
    }
    let help = line("help", &"Print the help of a command");
    groups.last_mut().into_iter().for_each(|(_, lines)| lines.push_str(&help));
    groups.iter().map(|(group, lines)| section(root, group, lines)).collect()
}

/// The examples of a command; they are beside its arguments. A line that begins with `#` says what the next one does.
pub(crate) fn examples(command: &Command) -> String {
    command.get_after_long_help().map(ToString::to_string).unwrap_or_default()
}

/// Lines, and below them one for each of these options.
fn with_options(lines: &str, more: &[&Arg]) -> String {
    let mut lines = lines.to_owned();
    for arg in more {
        let short = arg.get_short().map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        // Writing to a text cannot fail.
        let _ = writeln!(lines, "  {short}{:<24}{help}", long(arg));
    }
    lines
}

/// `--output <FORMAT>`, as clap writes it.
fn long(arg: &Arg) -> String {
    let name = arg.get_long().unwrap_or_default();
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
    match arg.get_action() {
        ArgAction::Set if arg.is_require_equals_set() => format!("--{name}[=<{value}>]"),
        ArgAction::Set => format!("--{name} <{value}>"),
        _ => format!("--{name}"),
    }
}

pub(crate) fn layouts() -> String {
    let named = Layout::NAMED.iter().map(|layout| format!("  {:<11}{}\n", layout.name(), layout.purpose()));
    named.chain(["  FILE.yaml  The keys that a shop has, see docs/layouts.md\n".to_owned()]).collect()
}

/// The columns of a terminal that is not wide, without the indent.
const COLUMNS: usize = 78;

/// Examples that fit on such a terminal and can be pasted: a command continues after a `\`, a comment after another `#`.
fn to_paste(examples: &str) -> String {
    let fits = |line: &str| width(line) <= COLUMNS;
    let broken = |line: &str| match line.strip_prefix("# ") {
        _ if fits(line) => line.to_owned(),
        Some(comment) => format!("# {}", wrapped(comment, COLUMNS - 2).join("\n# ")),
        None => filled(options_with_values(line), COLUMNS - 4).join(" \\\n  "),
    };
    examples.trim().lines().map(|line| broken(line) + "\n").collect()
}

/// A command line broken before each option that is not in quotes.
fn options_with_values(line: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match parts.last_mut() {
            Some(part) if !word.starts_with('-') || part.matches('\'').count() % 2 == 1 => part.extend([" ", word]),
            _ => parts.push(word.to_owned()),
        }
    }
    parts
}

fn indented(lines: &str) -> String {
    lines.trim().lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    /// What follows `seckill`, and the examples of each command.
    fn all_examples(command: &Command, path: &str) -> Vec<(String, String)> {
        let mut all = vec![(path.to_owned(), examples(command))];
        for below in command.get_subcommands() {
            all.extend(all_examples(below, format!("{path} {}", below.get_name()).trim()));
        }
        all
    }

    /// The words of a line as a shell reads them, up to a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let line = line.trim().trim_start_matches("source <(").trim_end_matches(')');
        for (index, part) in line.split('\'').enumerate() {
            match index % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words.into_iter().take_while(|word| word != ">" && word != "|").collect()
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        for (path, examples) in all_examples(&Cli::command(), "") {
            let lines: Vec<&str> = examples.trim().lines().filter(|line| !line.starts_with('#')).collect();
            assert!(lines.iter().any(|line| line.contains(format!("seckill {path}").trim())), "`{path}`: {examples}");
            for line in lines {
                let pasted = to_paste(line).replace(" \\\n", "");
                assert_eq!(words(&pasted), words(line));
                let matches = command().try_get_matches_from(words(line));
                let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
                assert!(cli.is_ok(), "{line}: {}", cli.unwrap_err());
            }
        }
    }
}
