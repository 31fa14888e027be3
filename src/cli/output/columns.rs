//! The columns of a row, declared once for all formats.

use crate::cli::output::cell::{Cell, Tone};
use crate::model::ledger::EntryId;
use crate::model::order::Bought;
use crate::model::status::Status;
use crate::model::time::Millis;

/// A field that a table shows as its type is shown everywhere.
pub trait Field {
    /// The cell of a table for people.
    fn cell(&self) -> Cell;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn cell(&self) -> Cell {
                Cell::number(self)
            }
        }

        impl Field for Option<$type> {
            fn cell(&self) -> Cell {
                Cell::known(self.as_ref())
            }
        }
    )*};
}

numbers! { u32 u64 usize i64 EntryId Millis }

impl Field for &str {
    fn cell(&self) -> Cell {
        Cell::text(*self)
    }
}

impl Field for Option<&str> {
    fn cell(&self) -> Cell {
        self.map_or_else(Cell::unknown, Cell::text)
    }
}

impl Field for Status {
    fn cell(&self) -> Cell {
        Cell::status(*self)
    }
}

/// A question mark if the units are unknown.
impl Field for Bought {
    fn cell(&self) -> Cell {
        match self {
            Self::Units(units) => Cell::number(units),
            Self::Unknown => Cell::number("?").tone(Tone::Warn),
        }
    }
}

/// A dash if nobody records who holds what.
impl Field for Option<Bought> {
    fn cell(&self) -> Cell {
        self.as_ref().map_or_else(|| Cell::known(None::<u64>), Field::cell)
    }
}

/// Implements [`Row`](crate::cli::output::Row) by a list of columns, in the order in which `Serialize` writes the fields.
///
/// ```text
/// columns!(row: OrderRow<'_> {
///     quantity;                                           a field, shown as its type is
///     per_user_limit as "limit";                          the same under another heading
///     activity => Cell::text(row.activity).flexible();    a field with a cell of its own
///     data user_hex;                                      a field that tables do not show
///     table "" => Cell::bar(row.share);                   a column that only tables have
/// }, changed if row.status == Status::Ok);                what `Row::is_change` answers; `sparse = true`: `IS_SPARSE`
/// ```
macro_rules! columns {
    ($row:ident: $type:ty { $($columns:tt)* } $($rest:tt)*) => {
        columns!(@ $row [$type] [$($rest)*] [] [] [] $($columns)*);
    };
    (@ $row:ident $type:tt $rest:tt [$($f:tt)*] $headings:tt $cells:tt data $field:ident; $($more:tt)*) => {
        columns!(@ $row $type $rest [$($f)* stringify!($field),] $headings $cells $($more)*);
    };
    (@ $row:ident $type:tt $rest:tt $fields:tt [$($h:tt)*] [$($c:tt)*] table $heading:literal => $cell:expr; $($more:tt)*) => {
        columns!(@ $row $type $rest $fields [$($h)* $heading,] [$($c)* $cell,] $($more)*);
    };
    (@ $row:ident $type:tt $rest:tt [$($f:tt)*] [$($h:tt)*] [$($c:tt)*] $field:ident as $heading:literal => $cell:expr; $($more:tt)*) => {
        columns!(@ $row $type $rest [$($f)* stringify!($field),] [$($h)* $heading,] [$($c)* $cell,] $($more)*);
    };
    (@ $row:ident $type:tt $rest:tt $fields:tt $headings:tt $cells:tt $field:ident as $heading:literal; $($more:tt)*) => {
        columns!(@ $row $type $rest $fields $headings $cells
            $field as $heading => $crate::cli::output::Field::cell(&$row.$field); $($more)*);
    };
    (@ $row:ident $type:tt $rest:tt [$($f:tt)*] [$($h:tt)*] [$($c:tt)*] $field:ident => $cell:expr; $($more:tt)*) => {
        columns!(@ $row $type $rest [$($f)* stringify!($field),] [$($h)* stringify!($field),] [$($c)* $cell,] $($more)*);
    };
    (@ $row:ident $type:tt $rest:tt $fields:tt $headings:tt $cells:tt $field:ident; $($more:tt)*) => {
        columns!(@ $row $type $rest $fields $headings $cells
            $field => $crate::cli::output::Field::cell(&$row.$field); $($more)*);
    };
    (@ $row:ident [$type:ty] [$(, sparse = $sparse:literal)? $(, changed if $changed:expr)?] [$($f:tt)*] [$($h:tt)*] [$($c:tt)*]) => {
        impl $crate::cli::output::Row for $type {
            const FIELDS: &'static [&'static str] = &[$($f)*];
            const HEADINGS: &'static [&'static str] = &[$($h)*];
            $(const IS_SPARSE: bool = $sparse;)?

            fn cells(&self) -> Vec<$crate::cli::output::Cell> {
                let $row = self;
                vec![$($c)*]
            }

            $(fn is_change(&self) -> bool {
                let $row = self;
                $changed
            })?
        }
    };
}

pub(crate) use columns;
