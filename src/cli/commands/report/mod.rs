//! `seckill report`: a sale after it is over, from its ledger.

mod facts;
mod figure;
mod read;
mod row;
mod series;
mod text;

use std::path::PathBuf;

use crate::cli::commands::inspect::MAX_TOP;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Format, Output};
use crate::cli::shared::hints;
use crate::model::ActivityId;
use crate::model::number::between;
use crate::read::snapshot;
use crate::store::Store;

/// Report on a sale: how it went, over time
///
/// Units sold over time, units a second, when it sold out, refunds, units a user, the largest buyers, and what an operator did
/// meanwhile: from the ledger, in constant memory, also during the sale.
///
/// The verdict compares sums: total, stock and ledger at one instant, and, if nothing changed meanwhile, what participants
/// hold. Only `seckill reconcile` compares each user. An activity without a ledger has no report (exit 3).
///
/// Of a sharded activity it is the sum of all shards, each at its own instant; what is in transit between them counts as `stock`.
///
/// csv and tsv have the figures alone; json, jsonl and yaml also the timeline, the events and the buyers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# How the sale went: sell-through, pace, refunds, buyers
seckill report 1001
# The same, and as a picture
seckill report 1001 --svg sale.svg
# The three largest buyers
seckill report 1001 --top 3 -o json | jq '.[0].top_buyers'
# A row for a spreadsheet
seckill report 1001 -o csv
")]
pub struct ReportArgs {
    /// Activity to report on
    #[arg(value_name = "ACTIVITY")]
    activity: ActivityId,
    /// Show this many of the largest buyers
    #[arg(long, value_name = "N", default_value = "10", allow_hyphen_values = true, value_parser = between::<usize>(0, MAX_TOP))]
    top: usize,
    /// Draw the report as a picture into FILE
    ///
    /// One SVG for light and dark surroundings, with details of what is pointed at. It is written beside its place and
    /// renamed.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Reads, then shows.
pub fn run(args: &ReportArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    // What cannot be written is said before anything is read.
    let file = args.svg.as_ref().map(|path| out.create("--svg", path)).transpose()?;
    let found = snapshot::snapshot(store, &args.activity)?;
    let report = read::read(found, args.top, store, out)?;
    if let Some(corrupt) = hints::corrupt(&report.snapshot) {
        out.warn(corrupt);
    }
    if let Some(mut file) = file {
        file.append(figure::draw(&report).as_bytes())?;
        file.commit()?;
    }
    match out.format() {
        Format::Table => text::show(&report, out)?,
        Format::Csv | Format::Tsv => out.array(&[row::Figures::new(&report)])?,
        _ => out.array(&[row::ReportRow::new(&report)])?,
    }
    Ok(Exit::Done)
}
