//! The command tree and the options that every command takes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::inventory::layout::Layout;
use crate::output::ColorChoice;
use crate::output::Format;

/// Run a flash sale on Redis or Valkey: preheat it, take and give back units, prove that the numbers add up
#[derive(Debug, Parser)]
#[command(name = "seckill", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options every command takes")]
pub struct Global {
    /// Server: redis://, rediss:// or unix:///path.sock, with user, password and database as in redis-rs
    /// [env: SECKILL_URL, then REDIS_URL] [default: redis://127.0.0.1:6379]
    #[arg(short, long, global = true, value_name = "URL", conflicts_with = "embedded")]
    pub url: Option<String>,

    /// Start a private server for this command; with DIR its data stays there for the next one
    #[arg(long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub embedded: Option<PathBuf>,

    /// Read the password from a file [env: SECKILL_PASSWORD, then REDISCLI_AUTH hold the password itself]
    #[arg(long, global = true, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// Which keys hold the sale [env: SECKILL_LAYOUT] [default: the fixture's, else seckill]
    #[arg(short, long, global = true, value_name = "NAME", value_enum, hide_possible_values = false)]
    pub layout: Option<Layout>,

    /// How to print results
    #[arg(
        short,
        long,
        global = true,
        env = "SECKILL_OUTPUT",
        value_name = "FORMAT",
        value_enum,
        default_value = "table",
        hide_env_values = true
    )]
    pub output: Format,

    /// How long to wait for the server, as in 500ms or 5s
    #[arg(long, global = true, env = "SECKILL_TIMEOUT", value_name = "DURATION", value_parser = timeout, default_value = "5s", hide_env_values = true)]
    pub timeout: Duration,

    /// When to colour [env: NO_COLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto")]
    pub color: ColorChoice,

    /// No progress, no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more: which server, which scripts
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The format and colour that a command line asks for which could not be parsed as a whole: its error should be
/// in that format too.
pub fn asked_for(arguments: impl Iterator<Item = OsString>) -> (Format, ColorChoice) {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
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
        format.and_then(|name| Format::from_str(&name, false).ok()).unwrap_or(Format::Table),
        value("--color", None).and_then(|name| ColorChoice::from_str(&name, false).ok()).unwrap_or_default(),
    )
}

/// Flags of every command that changes something.
#[derive(Debug, Args, Clone, Copy, Default)]
pub struct Mutating {
    /// Print what would happen and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// Reads a duration above zero.
fn timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        Ok(_) => Err("expected a duration above zero, such as 500ms or 5s".to_owned()),
        Err(error) => Err(format!("{error}; expected a duration such as 500ms or 5s")),
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Preheat(commands::preheat::PreheatArgs),
    Deduct(commands::deduct::DeductArgs),
    MultiDeduct(commands::multi_deduct::MultiDeductArgs),
    Refund(commands::refund::RefundArgs),
    Inspect(commands::inspect::InspectArgs),
    Reconcile(commands::reconcile::ReconcileArgs),
    Repair(commands::repair::RepairArgs),
    Ledger(commands::ledger::LedgerArgs),
    Run(commands::run::RunArgs),
    Pause(commands::pause::PauseArgs),
    Resume(commands::pause::ResumeArgs),
    #[command(subcommand)]
    Script(commands::script::ScriptCommand),
}
