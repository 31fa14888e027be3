//! The command tree and the options that every command takes.

// Doc comments of arguments are their help.
#![allow(rustdoc::invalid_html_tags)]

pub mod commands;
pub mod environment;
pub mod error;
mod examples;
pub mod failure;
mod help;
pub mod input;
pub mod interrupt;
pub mod output;
mod quick;
mod suggest;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cli::failure::Failure;
use crate::cli::input::layouts::LayoutParser;
use crate::cli::output::ColorChoice;
use crate::cli::output::Format;
use crate::model::number::between;
use crate::model::order::reason;
use crate::model::time::{UnknownZone, Zone};

/// Run a flash sale on Redis or Valkey: preheat, sell, audit and repair it
#[derive(Debug, Parser)]
#[command(name = "seckill", version, long_version = include_str!(concat!(env!("OUT_DIR"), "/version.txt")), max_term_width = 100)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Why there is nothing to do.
#[derive(Debug)]
pub enum Unread {
    /// The arguments cannot be read, or ask for help or the version.
    Arguments(clap::Error),
    Environment(Failure),
}

impl Cli {
    /// Reads the command line of the process; what it leaves open, the environment may say.
    ///
    /// # Errors
    /// One of them cannot be read, or help is wanted.
    pub fn read() -> Result<Self, Unread> {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let mut cli = match quick::read(&arguments) {
            Some(cli) => cli,
            None => Self::read_any(arguments).map_err(Unread::Arguments)?,
        };
        cli.global.complete().map_err(Unread::Environment)?;
        Ok(cli)
    }

    fn read_any(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut command = help::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Options that every command takes. Each has one line of help, with its default and its environment variable if
/// they fit: see `help`.
#[derive(Debug, Args)]
pub struct Global {
    /// Server URL or host:port [env: SECKILL_URL]
    #[arg(short, long, global = true, value_name = "URL", conflicts_with = "embedded")]
    pub url: Option<String>,

    /// Server by name: see `seckill context`
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "embedded")]
    pub context: Option<String>,

    /// Start a private server; its data stays only in DIR
    #[arg(long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub embedded: Option<PathBuf>,

    /// Start a private cluster of N nodes; with --embedded
    #[arg(long, global = true, value_name = "N", requires = "embedded", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,

    /// File that holds the password
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "embedded")]
    pub password_file: Option<PathBuf>,

    /// CA to trust for rediss:// [default: the system's]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "embedded")]
    pub cacert: Option<PathBuf>,

    /// Client certificate for rediss://, with --key
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "embedded")]
    pub cert: Option<PathBuf>,

    /// Private key of --cert
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "embedded")]
    pub key: Option<PathBuf>,

    /// seckill, sku, coupon, product, cluster, or FILE.yaml
    #[arg(short, long, global = true, value_name = "NAME", value_parser = LayoutParser)]
    pub layout: Option<String>,

    /// table, json, jsonl, csv, tsv, yaml or prometheus
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum)]
    output: Option<Format>,

    /// Time zone of tables and given times [env: TZ]
    #[arg(long, global = true, value_name = "ZONE")]
    pub timezone: Option<Zone>,

    /// The zone of `TZ`.
    #[arg(skip)]
    pub zone_of_environment: Option<Zone>,

    /// Begin csv with a byte order mark, for spreadsheets
    #[arg(long, global = true)]
    pub bom: bool,

    /// Longest wait for the server's reply [default: 5s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,

    /// When to use colors: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value = "auto")]
    pub color: ColorChoice,

    /// Print no progress and no notes
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print details, such as the server that is used
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl Global {
    /// Takes what was not given from the environment.
    fn complete(&mut self) -> Result<(), Failure> {
        if self.output.is_none() {
            let expected = "expected table, json, jsonl, csv, tsv, yaml or prometheus";
            self.output = environment::parsed("SECKILL_OUTPUT", Format::named, expected)?;
        }
        if self.timeout.is_none() {
            let expected = "expected a duration above zero, such as 500ms or 5s";
            self.timeout = environment::parsed("SECKILL_TIMEOUT", |text| timeout(text).ok(), expected)?;
        }
        if self.timezone.is_none() {
            self.zone_of_environment = environment::parsed("TZ", |name| name.parse().ok(), UnknownZone::EXPECTED)?;
        }
        Ok(())
    }

    pub fn output(&self) -> Format {
        self.output.unwrap_or_default()
    }

    /// Waits no longer than that for anything, whatever was given.
    pub fn wait_at_most(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(5))
    }
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
        format.and_then(|name| Format::named(&name)).unwrap_or_default(),
        value("--color", None).and_then(|name| ColorChoice::from_str(&name, false).ok()).unwrap_or_default(),
    )
}

/// The command tree without its help.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Answers a shell that asks for completions: true if one did. Anything that fails is silence.
pub fn complete() -> bool {
    std::env::var_os(commands::completions::VARIABLE).is_some() && commands::completions::complete(help::command)
}

/// A usage error's correction, if we know a better one than clap.
pub fn correction(error: &clap::Error) -> Option<String> {
    suggest::correction(error, std::env::args_os().skip(1))
}

/// Flags of every command that changes something.
#[derive(Debug, Args)]
pub struct Mutating {
    /// Reason, kept in the ledger
    #[arg(long, value_name = "TEXT", value_parser = reason::given)]
    pub reason: Option<String>,

    /// Print what would happen; change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,

    /// Name of the protected context that is changed
    ///
    /// It answers for scripts; `--yes` alone does not. If the server is of no context, or of another, nothing is changed.
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,

    /// Wait until N replicas have it; fewer is exit 6
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = replicas())]
    pub wait_replicas: Option<u32>,
}

/// How many replicas may be waited for.
pub fn replicas() -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    between(1, 1000)
}

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
    Hold(commands::hold::HoldArgs),
    Confirm(commands::settle::ConfirmArgs),
    Release(commands::settle::ReleaseArgs),
    Expire(commands::expire::ExpireArgs),
    Inspect(commands::inspect::InspectArgs),
    Reconcile(commands::reconcile::ReconcileArgs),
    Repair(commands::repair::RepairArgs),
    Ledger(commands::ledger::LedgerArgs),
    Doctor(commands::doctor::DoctorArgs),
    Report(commands::report::ReportArgs),
    Run(commands::run::RunArgs),
    Pause(commands::pause::PauseArgs),
    Resume(commands::pause::ResumeArgs),
    Archive(commands::archive::ArchiveArgs),
    #[command(subcommand)]
    Script(commands::script::ScriptCommand),
    #[command(subcommand)]
    Context(commands::context::ContextCommand),
    Bench(commands::bench::BenchArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
}
