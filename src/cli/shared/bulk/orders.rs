//! Files of orders of one activity each: `deduct --from`, `refund --from`, and those of holds.
//! Files of orders of several activities each: `multi-deduct --from`.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{Column, Dialect, FileOrder, Mapping, RowFormat};
use crate::cli::output::{Format, Output};
use crate::cli::shared::bulk::driver::Kind;
use crate::cli::shared::bulk::input::Input;
use crate::cli::shared::bulk::report::{Report, shows_rows};
use crate::cli::shared::bulk::{BulkArgs, MultiBulkArgs, driver};
use crate::cli::shared::outcome::{ItemRow, MultiDocument, OutcomeRow};
use crate::model::id::RequestId;
use crate::model::number::Limit;
use crate::model::order::MultiOrder;
use crate::model::order::hold::HoldFor;
use crate::sell::bulk::{
    BulkMultiOrder, BulkOrder, MultiOrderRun, MultiOrders, Operation, OrderOptions, OrderRun, SingleOrders,
};
use crate::store::Store;

/// What the command adds to its file.
pub struct Task<'a> {
    /// What is done with each row.
    pub operation: Operation,
    /// Why, for the ledger.
    pub reason: Option<&'a str>,
    /// The caller's limit, for activities that another system preheated.
    pub limit: Option<Limit>,
    /// Of holds: for how long.
    pub hold_for: Option<HoldFor>,
    /// Only check the file.
    pub dry_run: bool,
}

/// Applies a file of orders, or only checks it.
pub fn run(from: &str, args: &BulkArgs, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Exit> {
    crate::cli::interrupt::stop_gracefully();
    let input = Input::open(from, args.format(), args.mapping()?, task.operation, store.layout())?;
    let has_rows = shows_rows(out.format());
    out.choose(OutcomeRow::columns_of_file(task.operation));
    driver::run(input, &args.run, task.operation, task.dry_run, store, out, |store, job, names| {
        let single = Single { operation: task.operation, job: job.name.clone(), request: String::new() };
        let options = OrderOptions {
            operation: task.operation,
            job,
            reason: task.reason.map(str::to_owned),
            limit: task.limit,
            hold_for: task.hold_for,
            has_rows,
            limits: args.run.limits(),
            retry_for: args.run.retry_for(),
        };
        Ok((single, OrderRun::new(store, options, names)?))
    })
}

/// Orders of one activity each.
struct Single {
    operation: Operation,
    job: String,
    /// The name of an order without a request id.
    request: String,
}

impl Kind for Single {
    type Orders = SingleOrders;
    type Row = OutcomeRow<'static>;

    fn push(&self, run: &mut OrderRun, order: &FileOrder) -> Result<()> {
        let row = &order.row;
        run.push(&BulkOrder {
            line: row.line(),
            activity: row.text(Column::Activity),
            user: row.text(Column::User),
            // The reader has checked it against the bounds of an order.
            quantity: u32::try_from(row.quantity()).unwrap_or_default(),
            request: row.text(Column::Request),
            reason: row.text(Column::Reason),
        })?;
        Ok(())
    }

    fn report(&mut self, run: &OrderRun, report: &mut Report<'_, Self::Row>) -> Result<bool> {
        let Some(decided) = run.front() else { return Ok(false) };
        let order = &decided.order;
        if !report.lines.record(order.line, decided.status) {
            return Ok(true);
        }
        report.tallies.add(decided.nth, Some(decided.status), order.quantity);
        let Some(rows) = &mut report.rows else { return Ok(true) };
        self.request.clear();
        if order.request.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(self.request, "{}:{}", self.job, order.line);
        } else {
            self.request.push_str(order.request);
        }
        rows.push_borrowed(&OutcomeRow::of_file(&decided, &self.request, self.operation))?;
        Ok(true)
    }
}

/// Applies a file of multi-orders, or only checks it.
pub fn run_multi(
    from: &str,
    args: &MultiBulkArgs,
    reason: Option<&str>,
    dry_run: bool,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    crate::cli::interrupt::stop_gracefully();
    let format = RowFormat { dialect: Some(Dialect::Jsonl), delimiter: None };
    let input = Input::open(from, format, Mapping::default(), Operation::MultiDeduct, store.layout())?;
    out.choose(ItemRow::OF_FILE);
    let (is_nested, has_rows) = (out.format() == Format::Jsonl, shows_rows(out.format()));
    driver::run(input, &args.run, Operation::MultiDeduct, dry_run, store, out, |store, job, names| {
        let multi = Multi { job: job.name.clone(), reason, is_nested };
        Ok((multi, MultiOrderRun::new(store, job, args.run.limits(), args.run.retry_for(), has_rows, names)?))
    })
}

/// Orders of several activities each.
struct Multi<'r> {
    job: String,
    /// Of orders that give none.
    reason: Option<&'r str>,
    /// A row an order, with its items in it, or else a row an item.
    is_nested: bool,
}

impl Kind for Multi<'_> {
    type Orders = MultiOrders;
    type Row = ItemRow<'static>;

    fn push(&self, run: &mut MultiOrderRun, order: &FileOrder) -> Result<()> {
        let row = &order.row;
        let own = row.get(Column::Request);
        let request = own.map_or_else(|| format!("{}:{}", self.job, row.line()), str::to_owned);
        // The reader has checked it against the rule, and a job's name leaves room for a line.
        let request = RequestId::try_from(request).map_err(|error| Failure::usage(error.to_string()))?;
        let order = MultiOrder {
            user: row.get(Column::User).and_then(|user| user.parse().ok()),
            items: order.items.clone(),
            request,
            reason: row.get(Column::Reason).or(self.reason).map(str::to_owned),
        };
        run.push(BulkMultiOrder { line: row.line(), order, has_request: own.is_some(), activities: Arc::default() });
        Ok(())
    }

    fn report(&mut self, run: &MultiOrderRun, report: &mut Report<'_, Self::Row>) -> Result<bool> {
        let Some(decided) = run.front() else { return Ok(false) };
        let BulkMultiOrder { line, order, activities, .. } = decided.order;
        let outcome = decided.outcome;
        if !report.lines.record(*line, outcome.status) {
            return Ok(true);
        }
        for ((activity, (_, quantity)), item) in activities.iter().zip(order.items.iter()).zip(&outcome.items) {
            // At most a thousand million.
            report.tallies.add(
                *activity as usize,
                Some(item.status),
                u32::try_from(quantity.get()).unwrap_or(u32::MAX),
            );
        }
        let Some(rows) = &mut report.rows else { return Ok(true) };
        if self.is_nested {
            rows.push_borrowed(&MultiDocument::new(Some(*line), order, Some(&order.request), outcome))?;
        } else {
            ItemRow::of(Some(*line), order, Some(&order.request), outcome)
                .try_for_each(|row| rows.push_borrowed(&row))?;
        }
        Ok(true)
    }
}
