//! What differs between files of orders: what a line is, and how it is applied and reported.

use crate::cli::error::Result;
use crate::cli::input::orders::{Column, MultiRow, Next, OrderReader, OrderRow, RowError};
use crate::cli::output::Row;
use crate::cli::shared::bulk::report::Report;
use crate::sell::bulk::{Orders, Run};

/// One line of a file, in buffers that are reused for the next.
pub(crate) trait Line: Default {
    /// Reads the next one.
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError>;

    /// Its number.
    fn number(&self) -> u64;

    /// Whether it names a user.
    fn has_user(&self) -> bool;

    /// Visits each activity that it names, with its units.
    fn each(&self, visit: impl FnMut(&str, u64));
}

impl Line for OrderRow {
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError> {
        reader.next(self)
    }

    fn number(&self) -> u64 {
        self.line()
    }

    fn has_user(&self) -> bool {
        !self.text(Column::User).is_empty()
    }

    fn each(&self, mut visit: impl FnMut(&str, u64)) {
        visit(self.text(Column::Activity), self.quantity().unsigned_abs());
    }
}

impl Line for MultiRow {
    fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError> {
        self.read(reader)
    }

    fn number(&self) -> u64 {
        self.order.line()
    }

    fn has_user(&self) -> bool {
        self.order.has_user()
    }

    fn each(&self, mut visit: impl FnMut(&str, u64)) {
        for (activity, quantity) in self.items.iter() {
            visit(activity.as_str(), quantity.get());
        }
    }
}

/// A kind of files of orders.
pub(crate) trait Kind {
    /// What it consists of.
    type Line: Line;
    /// What its lines become.
    type Orders: Orders;
    /// What is shown of an order.
    type Row: Row;

    /// Refuses a file before anything of it is applied: of some activities a line has no user.
    fn check_nameless(&self, _run: &mut Run<Self::Orders>, _lines: &[(String, u64)]) -> Result<()> {
        Ok(())
    }

    /// Adds a line to the run.
    fn push(&self, run: &mut Run<Self::Orders>, line: &Self::Line) -> Result<()>;

    /// Decides an order that no call of the run can have, once those before it are decided; false if there is none.
    fn decide_alone(&mut self, _run: &mut Run<Self::Orders>) -> Result<bool> {
        Ok(false)
    }

    /// Reports the first order of the run; false if it is not decided.
    fn report(&mut self, run: &Run<Self::Orders>, report: &mut Report<'_, Self::Row>) -> Result<bool>;
}
