//! Files of orders of several activities each: `multi-deduct --from`.

use super::args::MultiBulkArgs;
use super::check::check;
use super::course::Course;
use super::input::Input;
use super::report::shows_rows;
use super::run::{Manner, apply, job};
use super::summary::{Summary, Tallies};
use super::told::Told;
use crate::cli::commands::multi_rows::{LineDocument, LineItemRow};
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::input::orders::{Column, MultiRow};
use crate::cli::output::{Format, Output, OutputError, RowStream};
use seckill::inventory::id::InvalidId;
use seckill::inventory::order::MultiOrder;
use seckill::inventory::status::Status;
use seckill::store::bulk::{MultiBulk, MultiDecided, MultiEntry, Step};
use seckill::store::{Store, StoreError};

/// Applies a file of multi-orders, or only checks it.
pub fn run(
    from: &str,
    args: &MultiBulkArgs,
    reason: Option<&str>,
    dry_run: bool,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    crate::cli::interrupt::stop_gracefully();
    let input = Input::of_multi_orders(from, store.layout())?;
    let Some(mut checked) = check::<MultiRow>(input, &args.run, dry_run, out)? else { return Ok(Exit::Interrupted) };
    if dry_run {
        return checked.show(out);
    }
    let job = job(&checked, &args.run, "multi_deduct");
    let manner = Manner::new(&checked, &job, &args.run, out);
    let name = job.name.clone();
    let mut bulk = MultiBulk::new(store, job, args.run.pace(), args.run.retry_for(), checked.take_names())?;
    if checked.content.is_some() {
        bulk.meet()?;
    }
    let orders = Orders { bulk, job: name, reason, told: Told::default(), applied: 0, report: Report::new(out)? };
    apply(checked, orders, manner)?.show(store, out)
}

/// Orders of several activities each.
struct Orders<'r, 'o> {
    bulk: MultiBulk<'r>,
    job: String,
    /// Of orders that give none.
    reason: Option<&'r str>,
    told: Told,
    applied: u64,
    report: Report<'o>,
}

impl Course for Orders<'_, '_> {
    type Line = MultiRow;

    fn takes_more(&self) -> bool {
        self.bulk.takes_more()
    }

    fn push(&mut self, row: &MultiRow) -> Result<()> {
        if self.told.is_refused(row.order.line()) {
            return Ok(());
        }
        let own = row.order.get(Column::Request);
        let request = own.map_or_else(|| format!("{}:{}", self.job, row.order.line()), str::to_owned);
        let order = MultiOrder {
            user: row.order.get(Column::User).and_then(|user| user.parse().ok()),
            items: row.items.clone(),
            // The reader has held it against the rule, and a job's name leaves room for a line.
            request: request.parse().map_err(|error: InvalidId| Failure::usage(error.to_string()))?,
            reason: row.order.get(Column::Reason).or(self.reason).map(str::to_owned),
        };
        self.bulk.push(MultiEntry {
            line: row.order.line(),
            order,
            keeps_refusals: own.is_none(),
            activities: Vec::new(),
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        // What is decided is told of at once, so that its rows never fill up.
        false
    }

    fn is_empty(&self) -> bool {
        self.bulk.is_empty()
    }

    fn is_waiting(&self) -> bool {
        self.bulk.is_waiting()
    }

    fn advance(&mut self, pressing: bool) -> Result<Step, StoreError> {
        self.bulk.advance(pressing)
    }

    fn drain(&mut self) -> Result<(), StoreError> {
        self.bulk.drain()
    }

    fn doubt(&self) -> Option<StoreError> {
        self.bulk.doubt()
    }

    fn start_over(&mut self) {
        self.bulk.start_over();
    }

    fn tell(&mut self) -> Result<u64> {
        let mut told = 0;
        while let Some(decided) = self.bulk.front() {
            let is_done = decided.outcome.status.is_done() && !decided.is_refused_before;
            if self.told.note(decided.entry.line, is_done) {
                self.report.tell(&decided)?;
                told += 1;
                self.applied += u64::from(decided.outcome.status == Status::Ok);
            }
            self.bulk.pop();
        }
        Ok(told)
    }

    fn applied(&self) -> u64 {
        self.applied
    }

    fn refused_again(&self) -> u64 {
        self.told.refused_again
    }

    fn skip_undecided(&mut self) -> bool {
        self.bulk.skip_undecided()
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.report.rows.as_mut().map_or(Ok(()), RowStream::flush)
    }

    fn finish(self) -> Result<Summary> {
        let tallies = self.report.finish()?;
        Ok(Summary { names: self.bulk.into_names(), tallies })
    }
}

/// Counts of a run, and its rows.
struct Report<'o> {
    rows: Option<RowStream<'o, LineItemRow<'static>>>,
    /// A row an order, with its items in it, or else a row an item.
    is_nested: bool,
    tallies: Tallies,
}

impl<'o> Report<'o> {
    fn new(out: &'o mut Output) -> Result<Self> {
        let is_nested = out.format() == Format::Jsonl;
        let rows = if shows_rows(out.format()) { Some(out.stream()?.strict()) } else { None };
        Ok(Self { rows, is_nested, tallies: Tallies::default() })
    }

    /// Tells of one order.
    fn tell(&mut self, decided: &MultiDecided<'_>) -> Result<(), OutputError> {
        let MultiDecided { entry: MultiEntry { line, order, activities, .. }, outcome, is_refused_before } = decided;
        for ((nth, (_, quantity)), item) in activities.iter().zip(&order.items).zip(&outcome.items) {
            let counted = Some(item.status).filter(|_| !is_refused_before);
            // At most a thousand million.
            self.tallies.add(*nth as usize, counted, u32::try_from(quantity.get()).unwrap_or(u32::MAX));
        }
        let Some(rows) = &mut self.rows else { return Ok(()) };
        if self.is_nested {
            return rows.push_borrowed(&LineDocument::new(*line, order, outcome));
        }
        LineItemRow::of(*line, order, outcome).try_for_each(|row| rows.push_borrowed(&row))
    }

    /// Ends the rows; gives the counts.
    fn finish(self) -> Result<Tallies> {
        if let Some(rows) = self.rows {
            rows.finish()?;
        }
        Ok(self.tallies)
    }
}
