//! `--from FILE`: many orders at the server's own speed, each applied exactly once.

mod check;
mod input;
pub mod multi;
mod report;
mod run;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::input::orders::{Dialect, Mapping};
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::layout::Layout;
use crate::inventory::number::Limit;
use crate::output::Output;
use crate::store::Store;
use crate::store::bulk::Operation;
use input::Input;

/// Flags of a file of orders.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Many orders from a file")]
pub struct BulkArgs {
    /// Apply a file of orders, each exactly once: columns activity, user, quantity (else 1) and, where wanted, request
    /// and reason. `-` is standard input. The same command again goes on where it stopped
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// Form of the file [default: by its extension, else by its first line]
    #[arg(long, value_name = "FORM", value_enum)]
    format: Option<Dialect>,
    /// What the file calls a column, as in `user=buyer_id,activity=sku`
    #[arg(long, value_name = "OURS=THEIRS")]
    map: Vec<Mapping>,
    /// Name of the job; the same name is never applied twice [default: made from the file's content]
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    job: Option<String>,
    /// Most orders a second
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU32>,
    /// Go on past lines that are not valid
    #[arg(long)]
    keep_going: bool,
    /// Write the lines that are not valid to a file, for mending
    #[arg(long, value_name = "FILE", requires = "keep_going")]
    rejects: Option<PathBuf>,
    /// Be as fast as the server can, though others wait a few milliseconds
    #[arg(long)]
    fast: bool,
    /// How long to try when the server is gone or refuses writes [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    retry_for: Option<Duration>,
}

impl BulkArgs {
    /// Refuses flags of a file where there is none. clap's own `requires` gives way to the conflict with ACTIVITY.
    pub fn all_fit(&self) -> Result<()> {
        let given = [
            ("--format", self.format.is_some()),
            ("--map", !self.map.is_empty()),
            ("--job", self.job.is_some()),
            ("--rate", self.rate.is_some()),
            ("--keep-going", self.keep_going),
            ("--fast", self.fast),
            ("--retry-for", self.retry_for.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if self.from.is_none() => Err(Failure::usage(format!("`{flag}` is for a file of orders"))
                .hint("give the file by `--from FILE`")
                .into()),
            _ => Ok(()),
        }
    }

    fn retry_for(&self) -> Duration {
        self.retry_for.unwrap_or(Duration::from_secs(30))
    }
}

/// What the command adds to its file.
pub struct Task<'a> {
    /// What is done.
    pub operation: Operation,
    /// Why, for the ledger.
    pub reason: Option<&'a str>,
    /// The caller's limit, for activities that another system preheated.
    pub limit: Option<Limit>,
    /// Only check the file.
    pub dry_run: bool,
}

/// Applies a file of orders, or only checks it.
pub fn run(from: &str, args: &BulkArgs, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Exit> {
    crate::interrupt::stop_gracefully();
    let input = Input::new(from, args, store.layout())?;
    let Some(checked) = check::check(input, args, task, out)? else { return Ok(Exit::Interrupted) };
    if task.dry_run {
        return checked.tell(out);
    }
    run::apply(checked, args, task, store, out)
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

/// All mappings as one, of columns that are read.
fn mapping(args: &BulkArgs, known: &[crate::input::orders::Column]) -> Result<Mapping> {
    let mapping = Mapping::joined(&args.map).map_err(|why| Failure::usage(format!("`--map`: {why}")))?;
    for column in mapping.columns() {
        if !known.contains(&column) {
            return Err(Failure::usage(format!("`--map`: no column `{}` is read here", column.name())).into());
        }
    }
    Ok(mapping)
}

/// Whether users are named in the file.
fn has_users(layout: Layout) -> bool {
    layout.kind().has_users()
}
