//! The command line: parsed, completed from the environment, with its help and corrections.

#![allow(
    clippy::disallowed_methods,
    clippy::iter_over_hash_type,
    reason = "it is the process itself, and is not simulated"
)]
// Of the crate alone as a whole: only `start` leaves it.
#![allow(unreachable_pub)]
// Doc comments of arguments are their help.
#![allow(rustdoc::invalid_html_tags)]

pub mod args;
pub mod commands;
pub mod error;
pub mod failure;
mod fast_path;
mod help;
pub mod input;
pub mod interrupt;
pub mod output;
pub mod shared;
mod suggest;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::cli::args::Global;
pub use crate::cli::commands::{Command, GROUPS};

use crate::cli::output::{ColorChoice, Format};

/// Run a flash sale on Redis or Valkey: preheat, sell, audit and repair it
#[derive(Debug, Parser)]
#[command(name = "seckill", version, long_version = commands::version::TEXT, max_term_width = 100)]
#[command(after_long_help = "
seckill preheat --id 1001 --stock 50 --per-user-limit 2
seckill deduct 1001 --user 12345
seckill inspect 1001
seckill reconcile
# Try it without a server of your own
seckill run fixtures/seckill.yaml --embedded
")]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The command line of this process: parses, runs and reports.
pub fn start() -> ExitCode {
    interrupt::survive_file_limit();
    // Anything that fails when a shell asks for completions is silence.
    if std::env::var_os(commands::completions::VARIABLE).is_some() && commands::completions::complete(help::command) {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut cli = match fast_path::read(&arguments).map_or_else(|| read(&arguments), Ok) {
        Ok(cli) => cli,
        Err(error) => {
            let words = arguments.iter().skip(1).map(|argument| argument.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            let (format, color) = asked_for(&words);
            let exit = output::report_usage(&error, suggest::correction(&error, &words), format, color);
            return ExitCode::from(exit as u8);
        }
    };
    let completed = cli.global.complete();
    let (format, color) = (cli.global.output(), cli.global.color);
    let exit = match completed.and_then(|()| commands::run(cli)) {
        Ok(exit) => exit,
        Err(failure) => output::report(&failure, format, color),
    };
    interrupt::clean_up();
    ExitCode::from(exit as u8)
}

/// Reads a command line with the whole tree.
fn read(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The format and colour that arguments ask for which could not be parsed as a whole: their error should be in that format
/// too.
fn asked_for(arguments: &[String]) -> (Format, ColorChoice) {
    let value = |long: &str, short: Option<&str>| {
        arguments.iter().enumerate().find_map(|(at, argument)| {
            if argument == long || Some(argument.as_str()) == short {
                return arguments.get(at + 1).cloned();
            }
            let joined = argument.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            let glued = short.and_then(|short| argument.strip_prefix(short)).filter(|_| !argument.starts_with("--"));
            joined.or(glued.map(|value| value.trim_start_matches('='))).map(str::to_owned)
        })
    };
    let format = value("--output", Some("-o")).or_else(|| std::env::var("SECKILL_OUTPUT").ok());
    (
        format.and_then(|name| Format::named(&name)).unwrap_or_default(),
        value("--color", None).and_then(|name| ColorChoice::from_str(&name, false).ok()).unwrap_or_default(),
    )
}

/// The command tree without its help.
pub fn command_line() -> clap::Command {
    Cli::command()
}
