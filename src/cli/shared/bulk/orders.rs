//! Files of orders of one activity each: `deduct --from`, `refund --from`, and those of holds.
//! Files of orders of several activities each: `multi-deduct --from`.

use crate::cli::failure::{Exit, Result};
use crate::cli::input::orders::{Column, Dialect, FileOrder, Mapping, RowFormat};
use crate::cli::output::{Format, Output};
use crate::cli::shared::bulk::driver::{Kind, Task};
use crate::cli::shared::bulk::input::Input;
use crate::cli::shared::bulk::report::Report;
use crate::cli::shared::bulk::{BulkArgs, MultiBulkArgs, driver, none_given};
use crate::cli::shared::outcome::{ItemRow, MultiDocument, OutcomeRow};
use crate::sell::bulk::{BulkOrder, DecidedOrder, Operation, Run, status_of_items};
use crate::store::Store;

impl BulkArgs {
    /// Applies a file of orders, or only checks it; `None` if none is given, and no flag of one.
    pub fn apply(&self, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Option<Exit>> {
        let Some(from) = &self.from else { return none_given(self.given()).map(|()| None) };
        crate::cli::interrupt::stop_gracefully();
        let input = Input::open(from, self.format(), self.mapping()?, task.operation, store.layout())?;
        out.choose(OutcomeRow::columns_of_file(task.operation));
        driver::run(input, &self.run, task, Single { operation: task.operation }, store, out).map(Some)
    }
}

/// Orders of one activity each.
struct Single {
    operation: Operation,
}

impl Kind for Single {
    type Row = OutcomeRow<'static>;

    fn push(&self, run: &mut Run, order: &FileOrder) -> Result<()> {
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

    fn report(&self, run: &Run, report: &mut Report<'_>) -> Result<bool> {
        let Some(decided) = run.front() else { return Ok(false) };
        let order = &decided.order;
        if !report.lines.record(order.line, decided.status) {
            return Ok(true);
        }
        report.tallies.add(decided.index, Some(decided.status), order.quantity);
        let Some(rows) = &mut report.rows else { return Ok(true) };
        rows.push(&OutcomeRow::of_file(&decided, &run.request_of(&decided.order), self.operation))?;
        Ok(true)
    }
}

impl MultiBulkArgs {
    /// Applies a file of multi-orders, or only checks it; `None` if none is given, and no flag of one.
    pub fn apply(&self, task: &Task<'_>, store: &mut Store, out: &mut Output) -> Result<Option<Exit>> {
        let Some(from) = &self.from else { return none_given(self.run.given()).map(|()| None) };
        crate::cli::interrupt::stop_gracefully();
        let format = RowFormat { dialect: Some(Dialect::Jsonl), delimiter: None };
        let input = Input::open(from, format, Mapping::default(), task.operation, store.layout())?;
        out.choose(ItemRow::OF_FILE);
        let kind = Multi { is_nested: out.format() == Format::Jsonl };
        driver::run(input, &self.run, task, kind, store, out).map(Some)
    }
}

/// Orders of several activities each.
struct Multi {
    /// A row an order, with its items in it, or else a row an item.
    is_nested: bool,
}

impl Kind for Multi {
    type Row = ItemRow<'static>;

    fn push(&self, run: &mut Run, order: &FileOrder) -> Result<()> {
        let row = &order.row;
        let texts = [Column::User, Column::Request, Column::Reason].map(|column| row.text(column));
        run.push_multi(row.line(), &order.items, texts);
        Ok(())
    }

    fn report(&self, run: &Run, report: &mut Report<'_>) -> Result<bool> {
        let items: Vec<DecidedOrder<'_>> = run.front_items().collect();
        let Some(first) = items.first() else { return Ok(false) };
        let status = status_of_items(items.iter().map(|item| item.status));
        if !report.lines.record(first.order.line, status) {
            return Ok(true);
        }
        for item in &items {
            report.tallies.add(item.index, Some(item.status), item.order.quantity);
        }
        let Some(rows) = &mut report.rows else { return Ok(true) };
        let request = run.request_of(&first.order);
        if self.is_nested {
            rows.push(&MultiDocument::of_file(&items, status, &request))?;
        } else {
            items.iter().try_for_each(|item| rows.push(&ItemRow::of_file(item, &request)))?;
        }
        Ok(true)
    }
}
