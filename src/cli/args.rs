//! The options that every command takes, those of commands that change something, and the variables of the environment that stand for
//! them: an empty one counts as unset, and none is misread.

use std::env;
use std::ops::RangeBounds;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::cli::failure::{Failure, Result};
use crate::cli::input::yaml::layouts::LayoutParser;
use crate::cli::output::{ColorChoice, Format};
use crate::model::number::between;
use crate::model::order;
use crate::model::time::{UnknownZone, Zone};

/// Options that every command takes. Each has one line of help, with its default and its environment variable if
/// they fit.
#[derive(Debug, Args)]
pub struct Global {
    /// Server URL or host:port [env: SECKILL_URL]
    #[arg(short, long, global = true, value_name = "URL")]
    pub url: Option<String>,

    /// Server by name: see `seckill context`
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Start a private server; its data stays only in DIR
    #[arg(long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub embedded: Option<PathBuf>,

    /// With --embedded: a cluster of N nodes, -l cluster
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,

    /// File that holds the password
    #[arg(long, global = true, value_name = "FILE")]
    pub password_file: Option<PathBuf>,

    /// CA to trust for rediss:// [default: the system's]
    #[arg(long, global = true, value_name = "FILE")]
    pub cacert: Option<PathBuf>,

    /// Client certificate for rediss://, with --key
    #[arg(long, global = true, value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// Private key of --cert
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// seckill, sku, coupon, product, cluster, FILE.yaml
    #[arg(short, long, global = true, value_name = "NAME", value_parser = LayoutParser)]
    pub layout: Option<String>,

    /// table, json[l], csv, tsv, yaml, name or prometheus
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
    pub fn complete(&mut self) -> Result<()> {
        self.check_embedded()?;
        if self.output.is_none() {
            let expected = "expected table, json, jsonl, csv, tsv, yaml, name or prometheus";
            self.output = parsed("SECKILL_OUTPUT", Format::named, expected)?;
        }
        if self.timeout.is_none() {
            self.timeout = parsed("SECKILL_TIMEOUT", |text| timeout(text).ok(), TIMEOUT)?;
        }
        if self.timezone.is_none() {
            self.zone_of_environment = parsed("TZ", Zone::of_environment, UnknownZone::EXPECTED)?;
        }
        Ok(())
    }

    /// An option may be on either side of the command's name, and clap compares those of one side alone.
    fn check_embedded(&self) -> Result<()> {
        if self.embedded.is_none() {
            return match self.nodes {
                Some(_) => Err(Failure::usage("`--nodes` is for a server that `--embedded` starts")
                    .hint("give `--embedded` too, or leave `--nodes` out")),
                None => Ok(()),
            };
        }
        let of_another = [
            ("--url", self.url.is_some()),
            ("--context", self.context.is_some()),
            ("--password-file", self.password_file.is_some()),
            ("--cacert", self.cacert.is_some()),
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
        ];
        match of_another.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::usage(format!("`--embedded` cannot be used with `{flag}`"))
                .hint("`--embedded` starts a private server; leave one of them out")),
            None => Ok(()),
        }
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

/// Flags of every command that changes something.
#[derive(Debug, Args)]
pub struct Mutating {
    /// Reason, stored with the change
    #[arg(long, value_name = "TEXT", value_parser = order::given_reason)]
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

/// The longest duration: the sum of a time and far longer ones is more than a clock can hold.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What `--timeout` must be, for errors.
const TIMEOUT: &str = "expected a duration above zero, up to 365 days, such as 500ms or 5s";

fn timeout(text: &str) -> Result<Duration, String> {
    duration_in(Duration::from_nanos(1)..=YEAR, text, TIMEOUT)
}

/// A duration in a range; else `expected` says what it must be.
pub fn duration_in(range: impl RangeBounds<Duration>, text: &str, expected: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).ok().filter(|duration| range.contains(duration)).ok_or_else(|| expected.to_owned())
}

/// A duration, which may be 0.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration_in(..=YEAR, text, "expected a duration up to 365 days, such as 500ms or 5s")
}

/// The text of a variable; `None` if it is unset or empty.
///
/// # Errors
/// Usage, if it is not UTF-8: half a password or a mangled URL must not be used.
pub fn variable(name: &str) -> Result<Option<String>> {
    match env::var_os(name).map(std::ffi::OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(_)) => Err(Failure::usage(format!("the environment variable `{name}` is not UTF-8"))
            .hint(format!("unset `{name}`, or set it to a valid text"))),
    }
}

/// The first of some variables that is set, and its text.
///
/// # Errors
/// As [`variable`].
pub fn first_variable(names: &[&'static str]) -> Result<Option<(&'static str, String)>> {
    let set = |name: &&'static str| variable(name).map(|text| Some((*name, text?))).transpose();
    names.iter().find_map(set).transpose()
}

/// What a variable means; `None` if it is unset or empty.
///
/// # Errors
/// Usage, if it is not UTF-8 or means nothing. `expected` says what it must be.
pub(crate) fn parsed<T>(name: &str, parse: impl FnOnce(&str) -> Option<T>, expected: &str) -> Result<Option<T>> {
    let Some(value) = variable(name)? else { return Ok(None) };
    let wrong = || Failure::usage(format!("the environment variable `{name}` is `{}`", value.escape_debug()));
    parse(&value).map(Some).ok_or_else(|| wrong().hint(expected.to_owned()))
}

/// The file of contexts: `seckill/config.yaml` in `XDG_CONFIG_HOME`, else in `~/.config`. `None` without a home.
pub fn config_file() -> Option<PathBuf> {
    let directory = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))?;
    Some(folder.join("seckill").join("config.yaml"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use clap::{Arg, ArgAction, Command, CommandFactory};

    use crate::cli::Cli;

    /// What a command line says of an argument, if a text is one of its values.
    fn words(arg: &Arg, value: &str) -> Vec<String> {
        let value = arg.get_action().takes_values().then(|| value.to_owned());
        match arg.get_long() {
            None => value.into_iter().collect(),
            Some(long) if arg.is_require_equals_set() => vec![format!("--{long}={}", value.unwrap_or_default())],
            Some(long) => [format!("--{long}")].into_iter().chain(value).collect(),
        }
    }

    /// An argument as an error names it, in part.
    fn named(arg: &Arg) -> String {
        let value = || arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        arg.get_long().map(|long| format!("--{long}")).or_else(value).unwrap_or_default()
    }

    /// Why a command line is not read.
    fn refusal(command: &Command, words: &[String]) -> Option<clap::Error> {
        let line = std::iter::once("x".to_owned()).chain(words.iter().cloned());
        command.clone().try_get_matches_from(line).err()
    }

    /// The arguments that a line lacks, as help names them; none if anything else is wrong with it, or nothing is.
    fn lacks(command: &Command, words: &[String]) -> BTreeSet<String> {
        let Some(error) = refusal(command, words) else { return BTreeSet::new() };
        match (error.kind(), error.get(ContextKind::InvalidArg)) {
            (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(names))) => names.iter().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Whether a value is refused by itself.
    fn is_invalid(command: &Command, words: &[String]) -> bool {
        let kind = refusal(command, words).map(|error| error.kind());
        matches!(kind, Some(ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::UnknownArgument))
    }

    #[test]
    fn what_an_argument_requires_is_missed_whatever_else_is_given() {
        let (mut required, mut ignored) = (0, Vec::new());
        let mut root = Cli::command();
        root.build();
        for command in root.get_subcommands() {
            let values = ["1", "1s", "x=1", "csv", "sold", "match", "live", "unproven", "missing_order", "lua", "f"];
            let given: Vec<(&Arg, Vec<String>)> = command
                .get_arguments()
                .filter(|arg| !matches!(arg.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::Version))
                .filter_map(|arg| {
                    let words = values.iter().map(|value| words(arg, value)).find(|it| !is_invalid(command, it))?;
                    Some((arg, words))
                })
                .collect();
            let always = lacks(command, &[]);
            for (arg, words) in &given {
                let missing = lacks(command, words);
                if missing.is_subset(&always) {
                    continue;
                }
                required += 1;
                for (other, more) in given.iter().filter(|(other, _)| other.get_id() != arg.get_id()) {
                    let both = [&words[..], more].concat();
                    let is_one = missing.iter().any(|name| name.contains(&named(other)));
                    let is_read = refusal(command, &both).is_none();
                    if is_read && !is_one {
                        ignored.push(format!("{} {}", command.get_name(), both.join(" ")));
                    }
                }
            }
        }
        assert_eq!(ignored, Vec::<String>::new());
        assert!(required > 20, "only {required} arguments require another one");
    }
}
