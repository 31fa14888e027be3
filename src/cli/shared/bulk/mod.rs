//! `--from FILE` and its flags: many orders as fast as the server accepts them, each applied exactly once.

mod driver;
mod input;
mod report;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::args;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{self, Dialect, Mapping, RowFormat};
use crate::cli::interrupt;
use crate::cli::output::Output;
use crate::cli::shared::bulk::input::Input;
use crate::model::number::between;
use crate::sell::bulk::Limits;
use crate::store::Store;

pub use crate::cli::shared::bulk::driver::Task;

/// Flags of a file of orders.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Files of orders")]
pub struct BulkArgs {
    /// File of orders to apply; - is standard input
    ///
    /// Each order is applied exactly once; the same command resumes. Columns: activity, user, quantity (default 1) and,
    /// if wanted, request and reason.
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// csv, tsv, jsonl, mysql [default: by name, content]
    ///
    /// mysql is what `mysql --batch` prints: tabs, backslash escapes, NULL.
    #[arg(long, value_name = "FORM", value_enum, hide_possible_values = true)]
    format: Option<Dialect>,
    /// Column names, such as user=buyer_id,activity=sku
    ///
    /// `quantity=` ignores a column that looks like one.
    #[arg(long, value_name = "OURS=THEIRS")]
    map: Vec<Mapping>,
    /// Separator of csv values, such as ;
    #[arg(long, value_name = "C", value_parser = orders::delimiter)]
    delimiter: Option<u8>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Flags of a file of orders of several activities.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Files of orders")]
pub struct MultiBulkArgs {
    /// jsonl file of orders to apply; - is standard input
    ///
    /// Each order is applied exactly once; the same command resumes. A line is
    /// {"user":"7","items":{"1001":2,"1002":1},"request":"…"}, the request id if wanted.
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// How a file is applied, whatever is in it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Files of orders")]
pub(crate) struct RunArgs {
    /// Job name [default: made from the content]
    ///
    /// A line of a job is never applied twice. The default name is made from operation, format, mapping and content; a name of
    /// your own must be new for each input.
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    pub(crate) job: Option<String>,
    /// Most orders per second
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = between::<u32>(1, 1_000_000_000))]
    rate: Option<u32>,
    /// Skip invalid lines
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Write invalid lines to a file to correct them
    #[arg(long, value_name = "FILE", requires = "keep_going")]
    pub(crate) rejects: Option<PathBuf>,
    /// Faster, but other clients wait longer
    #[arg(long)]
    fast: bool,
    /// Longest outage to wait out [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    retry_for: Option<Duration>,
}

impl BulkArgs {
    /// Applies a file of orders, or only checks it; `None` if none is given, and no flag of one.
    pub fn apply(&self, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Option<Exit>> {
        let Some(from) = &self.from else {
            let own = [
                ("--format", self.format.is_some()),
                ("--map", !self.map.is_empty()),
                ("--delimiter", self.delimiter.is_some()),
            ];
            return self.run.refuse_without_file(&own).map(|()| None);
        };
        interrupt::stop_gracefully();
        let mapping = Mapping::joined(&self.map).map_err(|why| Failure::usage(format!("`--map`: {why}")))?;
        let format = RowFormat { dialect: self.format, delimiter: self.delimiter };
        out.protect("read", [from]);
        let input = Input::open(from, format, mapping, task.operation, store.layout())?;
        driver::run(input, &self.run, task, store, out).map(Some)
    }
}

impl MultiBulkArgs {
    /// Applies a file of multi-orders, or only checks it; `None` if none is given, and no flag of one.
    pub fn apply(&self, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Option<Exit>> {
        let Some(from) = &self.from else { return self.run.refuse_without_file(&[]).map(|()| None) };
        interrupt::stop_gracefully();
        let format = RowFormat { dialect: Some(Dialect::Jsonl), delimiter: None };
        out.protect("read", [from]);
        let input = Input::open(from, format, Mapping::default(), task.operation, store.layout())?;
        driver::run(input, &self.run, task, store, out).map(Some)
    }
}

impl RunArgs {
    /// Refuses flags of a file if there is none: `own` ones of the command, each with whether it is given, and these. clap's own
    /// `requires` gives way to the conflict with ACTIVITY. `--rejects` needs `--keep-going`.
    fn refuse_without_file(&self, own: &[(&str, bool)]) -> Result<()> {
        let shared = [
            ("--job", self.job.is_some()),
            ("--rate", self.rate.is_some()),
            ("--keep-going", self.keep_going),
            ("--fast", self.fast),
            ("--retry-for", self.retry_for.is_some()),
        ];
        match own.iter().chain(&shared).find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                Err(Failure::usage(format!("`{flag}` is for a file of orders")).hint("give the file by `--from FILE`"))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn retry_for(&self) -> Duration {
        self.retry_for.unwrap_or(Duration::from_secs(30))
    }

    pub(crate) fn limits(&self) -> Limits {
        let limits = if self.fast { Limits::fast() } else { Limits::shared() };
        match self.rate.and_then(NonZeroU32::new) {
            Some(rate) => limits.with_rate(rate),
            None => limits,
        }
    }
}

/// Reads the name of a job.
fn job_name(text: &str) -> Result<String, String> {
    let fits = (1..=96).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("expected 1 to 96 printable ASCII characters without white space".to_owned())
    }
}
