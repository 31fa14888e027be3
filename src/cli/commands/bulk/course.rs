//! What differs between files of orders: what a line is, and how lines are applied and told of.

use crate::cli::error::Result;
use crate::cli::output::OutputError;

use super::summary::Summary;
use crate::cli::input::orders::{Column, MultiRow, Next, OrderReader, OrderRow, RowError};
use seckill::store::StoreError;
use seckill::store::bulk::Step;

/// One line of a file, in buffers that are used again for the next.
pub(super) trait Line: Default {
    /// Reads the next one.
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError>;

    /// Visits each activity that it names, with its units.
    fn each(&self, visit: impl FnMut(&str, u64));
}

impl Line for OrderRow {
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError> {
        reader.next(self)
    }

    fn each(&self, mut visit: impl FnMut(&str, u64)) {
        visit(self.text(Column::Activity), self.quantity().unsigned_abs());
    }
}

impl Line for MultiRow {
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError> {
        self.read(reader)
    }

    fn each(&self, mut visit: impl FnMut(&str, u64)) {
        for (activity, quantity) in &self.items {
            visit(activity.as_str(), quantity.get());
        }
    }
}

/// Lines being applied, and told of in their order.
pub(super) trait Course {
    /// What it applies.
    type Line: Line;

    /// Whether another line is of use now.
    fn takes_more(&self) -> bool;

    /// Takes a line.
    fn push(&mut self, line: &Self::Line) -> Result<()>;

    /// Whether no more lines fit in before some are told of.
    fn is_full(&self) -> bool;

    /// Whether nothing is left to do.
    fn is_empty(&self) -> bool;

    /// Whether anything is in flight.
    fn is_waiting(&self) -> bool;

    /// Sends or receives; `pressing` sends what is not a full batch too.
    fn advance(&mut self, pressing: bool) -> Result<Step, StoreError>;

    /// Receives what is in flight.
    fn drain(&mut self) -> Result<(), StoreError>;

    /// What cannot be said of orders that were in flight when the connection broke, and were not sent again.
    fn doubt(&self) -> Option<StoreError>;

    /// Forgets all lines, because they are read again after [`Step::Rewind`].
    fn start_over(&mut self);

    /// Tells of the lines at the front that are decided; gives how many.
    fn tell(&mut self) -> Result<u64>;

    /// Forgets the lines before the first decided one; false where none is.
    fn skip_undecided(&mut self) -> bool;

    /// Shows what was told, before a wait that may be long.
    fn flush(&mut self) -> Result<(), OutputError>;

    /// Orders that were told to be `ok`.
    fn applied(&self) -> u64;

    /// Orders that were told of before, and that a second time are refused.
    fn refused_again(&self) -> u64 {
        0
    }

    /// Ends the rows; gives the summary.
    fn finish(self) -> Result<Summary>;
}
