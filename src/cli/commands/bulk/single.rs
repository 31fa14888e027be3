//! Files of orders of one activity each: `deduct --from`, `refund --from`.

use super::args::BulkArgs;
use super::check::check;
use super::course::Course;
use super::input::Input;
use super::report::{Report, shows_rows};
use super::run::{Manner, apply, job};
use super::summary::Summary;
use crate::cli::error::Result;
use crate::cli::failure::Exit;
use crate::cli::input::orders::{Column, OrderRow};
use crate::cli::output::{Output, OutputError};
use seckill::inventory::number::Limit;
use seckill::store::bulk::{Bulk, Entry, Operation, Step, Terms};
use seckill::store::{Store, StoreError};

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
    crate::cli::interrupt::stop_gracefully();
    let input = Input::of_orders(from, args, store.layout())?;
    let Some(mut checked) = check::<OrderRow>(input, &args.run, task.dry_run, out)? else {
        return Ok(Exit::Interrupted);
    };
    if task.dry_run {
        return checked.show(out);
    }
    let name = match task.operation {
        Operation::Deduct => "deduct",
        Operation::Refund => "refund",
    };
    let job = job(&checked, &args.run, name);
    let manner = Manner::new(&checked, &job, &args.run, out);
    let terms = Terms {
        operation: task.operation,
        job,
        reason: task.reason.map(str::to_owned),
        limit: task.limit,
        rows: shows_rows(out.format()),
        pace: args.run.pace(),
        retry_for: args.run.retry_for(),
    };
    let report_job = terms.job.name.clone();
    let names = checked.take_names();
    let activities = names.count();
    let mut bulk = Bulk::new(store, terms, names)?;
    if checked.content.is_some() {
        bulk.meet()?;
    }
    let orders = Orders { bulk, report: Report::new(out, &report_job, activities)? };
    apply(checked, orders, manner)?.show(store, out)
}

/// Orders of one activity each.
struct Orders<'r, 'o> {
    bulk: Bulk<'r>,
    report: Report<'o>,
}

impl Course for Orders<'_, '_> {
    type Line = OrderRow;

    fn takes_more(&self) -> bool {
        self.bulk.takes_more()
    }

    fn push(&mut self, row: &OrderRow) -> Result<()> {
        if !self.report.told.is_refused(row.line()) {
            self.bulk.push(&entry(row));
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bulk.is_full()
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
        let before = self.report.done;
        while let Some(decided) = self.bulk.front() {
            self.report.tell(&decided)?;
            self.bulk.pop();
        }
        Ok(self.report.done - before)
    }

    fn skip_undecided(&mut self) -> bool {
        self.bulk.skip_undecided()
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.report.flush()
    }

    fn applied(&self) -> u64 {
        self.report.applied
    }

    fn refused_again(&self) -> u64 {
        self.report.told.refused_again
    }

    fn finish(self) -> Result<Summary> {
        self.report.finish(self.bulk)
    }
}

fn entry(row: &OrderRow) -> Entry<'_> {
    Entry {
        line: row.line(),
        activity: row.text(Column::Activity),
        user: row.text(Column::User),
        // The reader has held it against the bounds of an order.
        quantity: u32::try_from(row.quantity()).unwrap_or_default(),
        request: row.text(Column::Request),
        reason: row.text(Column::Reason),
    }
}
