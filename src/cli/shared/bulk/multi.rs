//! Files of orders of several activities each: `multi-deduct --from`.

use std::sync::Arc;

use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::input::orders::{Column, FileOrder};
use crate::cli::output::{Format, Output};
use crate::cli::shared::bulk::args::MultiBulkArgs;
use crate::cli::shared::bulk::driver::{self, Kind};
use crate::cli::shared::bulk::input::Input;
use crate::cli::shared::bulk::report::{Report, shows_rows};
use crate::cli::shared::outcome::{ItemRow, MultiDocument};
use crate::model::id::RequestId;
use crate::model::order::MultiOrder;
use crate::sell::bulk::{BulkMultiOrder, MultiOrderRun, MultiOrders, Operation};
use crate::store::Store;

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
