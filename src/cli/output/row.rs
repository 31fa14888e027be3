//! A row of a result, declared once for all formats.

use serde::Serialize;
use serde::ser::SerializeTuple;

use crate::cli::output::table::cell::{Cell, Tone};
use crate::model::{Bought, EntryId, Millis, Status, StoredUser};

/// One row of a result; [`row!`] declares them. `Serialize` gives its fields to json, jsonl and yaml.
pub trait Row: Serialize {
    /// The columns of csv and tsv.
    const FIELDS: &'static [Column];
    /// The columns of the table for people, shown in capitals.
    const HEADINGS: &'static [Column];
    /// What `-o name` prints of it; `None` if it has no name.
    const NAME: Option<fn(&Self) -> &str> = None;
    /// Its cells in the table: one for each heading.
    fn cells(&self, chosen: Chosen) -> Vec<Cell>;
    /// Writes its values in csv: one for each field.
    fn record<S: SerializeTuple>(&self, chosen: Chosen, record: &mut S) -> Result<(), S::Error>;
    /// Whether it reports a change: if standard output cannot be written, standard error names it.
    /// A dry run's rows never count.
    fn is_change(&self) -> bool {
        false
    }
}

/// The optional columns that a command chose for its rows.
pub type Chosen = &'static [&'static str];

/// The name of one column, or of several.
#[derive(Debug)]
pub enum Column {
    Always(&'static str),
    /// Only if the command chose it.
    Optional(&'static str),
    /// Those of a row within the row.
    Nested(&'static [Self]),
}

impl Column {
    /// The names of the columns that there are.
    pub fn names(columns: &'static [Self], chosen: Chosen) -> Vec<&'static str> {
        let names = |column: &'static Self| match column {
            Self::Always(name) => vec![*name],
            Self::Optional(name) if chosen.contains(name) => vec![*name],
            Self::Optional(_) => Vec::new(),
            Self::Nested(columns) => Self::names(columns, chosen),
        };
        columns.iter().flat_map(names).collect()
    }
}

/// A field that a table shows as its type is shown everywhere.
pub trait Field {
    /// The cell of a table for people.
    fn cell(&self) -> Cell;

    /// The cell of a field that has no value: a dash.
    fn absent() -> Cell {
        Cell::unknown()
    }
}

impl<T: Field> Field for Option<T> {
    fn cell(&self) -> Cell {
        self.as_ref().map_or_else(T::absent, Field::cell)
    }
}

macro_rules! fields {
    ($($type:ty: |$value:ident| $cell:expr $(, or $absent:expr)?;)*) => {$(
        impl Field for $type {
            fn cell(&self) -> Cell {
                let $value = self;
                $cell
            }

            $(fn absent() -> Cell {
                $absent
            })?
        }
    )*};
}

fields! {
    u32: |number| Cell::number(number), or Cell::known(None::<u64>);
    u64: |number| Cell::number(number), or Cell::known(None::<u64>);
    usize: |number| Cell::number(number), or Cell::known(None::<u64>);
    i64: |number| Cell::number(number), or Cell::known(None::<u64>);
    EntryId: |id| Cell::number(id), or Cell::known(None::<u64>);
    &str: |text| Cell::text(*text);
    String: |text| Cell::text(text), or Cell::text("");
    StoredUser: |user| Cell::text(user.to_string());
    &StoredUser: |user| Cell::text(user.to_string());
    Millis: |at| Cell::time(*at);
    Status: |status| Cell::status(*status);
    Bought: |bought| match bought {
        Bought::Units(units) => Cell::number(units),
        Bought::Unknown => Cell::number("?").tone(Tone::Warn),
    }, or Cell::known(None::<u64>);
}

/// Declares a row: its fields in the order in which they are printed, and how each format shows them.
///
/// ```text
/// row! {
///     /// What was sold of an activity.
///     pub struct SaleRow<'a> as row from (sale: &'a Sale) {    `SaleRow::new(&sale)` makes one, if each field has its value
///         activity: &'a str = sale.id.as_str(), flexible;     a field of all formats; a narrow table cuts it, or drops a `minor` one
///         quantity: u64;                                      shown in a table as its type is shown
///         per_user_limit: Option<u64> as "limit";             with another heading
///         status: Status => row.status_cell();                with a cell of its own
///         data starts_at: Option<Millis>;                     not in tables
///         sparse user_hex: Option<String>;                    not in tables; json and yaml leave it out if it is `None`
///         nested in_transit: Option<i64>;                     only json and yaml, which leave it out if it is `None`
///         document items: Vec<ItemRow>;                       only json and yaml
///         optional deadline: Option<Option<Millis>>;          a field that `Output::choose` chooses; json and yaml leave `None` out
///         optional data shard: Option<u64>;                   the same, and not in tables
///         flat sale: Sale;                                    the fields of another row; tables show none of them
///         table "sold" => Cell::bar(row.share);               a column that only tables have; `optional table` is chosen
///         csv alert => row.sale.alert;                        a column that only csv and tsv have
///         hidden share: f64;                                  for cells
///     }
///     where { let total = sale.total(); }                     what the values share
///     named activity                                          what `-o name` prints; a field that is a text
///     changed if row.status == Status::Ok                     what `Row::is_change` answers
/// }
/// ```
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(<$life:lifetime>)? as $row:ident $(from $from:tt)? { $($body:tt)* }
        $(where $shared:tt)? $(named $named:ident)? $(changed if $changed:expr)?) => {
        row!(@ ($(#[$meta])* $vis struct $name ($(<$life>)?) $row [$($from)? $($shared)?] ($($named)?) ($($changed)?))
            [] [] [] [] [] $($body)*);
    };

    // Each kind of column, as: fields of the struct, columns of csv, of tables, cells, values of csv.
    (@ $head:tt [$($s:tt)*] $f:tt $h:tt $c:tt $v:tt $(#[$m:meta])* hidden $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(skip)] $vis $field: $type $(= $init)?)] $f $h $c $v $($more)*);
    };
    (@ $head:tt [$($s:tt)*] $f:tt $h:tt $c:tt $v:tt $(#[$m:meta])* document $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* $vis $field: $type $(= $init)?)] $f $h $c $v $($more)*);
    };
    (@ $head:tt [$($s:tt)*] $f:tt $h:tt $c:tt $v:tt $(#[$m:meta])* nested $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(skip_serializing_if = "Option::is_none")] $vis $field: $type $(= $init)?)] $f $h $c $v $($more)*);
    };
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] $h:tt $c:tt [$($v:tt)*] $(#[$m:meta])* flat $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(flatten)] $vis $field: $type $(= $init)?)]
            [$($f)* Nested(<$type as $crate::cli::output::Row>::FIELDS),] $h $c [$($v)* (flat $field)] $($more)*);
    };
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] $h:tt $c:tt [$($v:tt)*] $(#[$m:meta])* sparse $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(skip_serializing_if = "Option::is_none")] $vis $field: $type $(= $init)?)]
            [$($f)* Always(stringify!($field)),] $h $c [$($v)* (value $field)] $($more)*);
    };
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] $h:tt $c:tt [$($v:tt)*] $(#[$m:meta])* data $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* $vis $field: $type $(= $init)?)] [$($f)* Always(stringify!($field)),] $h $c [$($v)* (value $field)] $($more)*);
    };
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] $h:tt $c:tt [$($v:tt)*] $(#[$m:meta])* optional data $vis:vis $field:ident: $type:ty $(= $init:expr)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(skip_serializing_if = "Option::is_none")] $vis $field: $type $(= $init)?)]
            [$($f)* Optional(stringify!($field)),] $h $c [$($v)* (optional $field)] $($more)*);
    };
    (@ $head:tt $s:tt $f:tt [$($h:tt)*] [$($c:tt)*] $v:tt optional table $heading:literal => $cell:expr; $($more:tt)*) => {
        row!(@ $head $s $f [$($h)* Optional($heading),] [$($c)* (optional $heading, $cell)] $v $($more)*);
    };
    (@ $head:tt $s:tt $f:tt [$($h:tt)*] [$($c:tt)*] $v:tt table $heading:literal => $cell:expr; $($more:tt)*) => {
        row!(@ $head $s $f [$($h)* Always($heading),] [$($c)* (always $cell)] $v $($more)*);
    };
    (@ $head:tt $s:tt [$($f:tt)*] $h:tt $c:tt [$($v:tt)*] csv $field:ident => $value:expr; $($more:tt)*) => {
        row!(@ $head $s [$($f)* Always(stringify!($field)),] $h $c [$($v)* (expression $value)] $($more)*);
    };

    // A field of all formats: the heading, then the cell, then how a narrow table treats it.
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] [$($h:tt)*] [$($c:tt)*] [$($v:tt)*]
        $(#[$m:meta])* optional $vis:vis $field:ident: $type:ty $(= $init:expr)? => $cell:expr; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* #[serde(skip_serializing_if = "Option::is_none")] $vis $field: $type $(= $init)?)]
            [$($f)* Optional(stringify!($field)),] [$($h)* Optional(stringify!($field)),]
            [$($c)* (optional stringify!($field), $cell)] [$($v)* (optional $field)] $($more)*);
    };
    (@ $head:tt [$($s:tt)*] [$($f:tt)*] [$($h:tt)*] [$($c:tt)*] [$($v:tt)*]
        $(#[$m:meta])* $vis:vis $field:ident: $type:ty $(as $heading:literal)? $(= $init:expr)? $(=> $cell:expr)? $(, $narrow:ident)?; $($more:tt)*) => {
        row!(@ $head [$($s)* ($(#[$m])* $vis $field: $type $(= $init)?)] [$($f)* Always(stringify!($field)),]
            [$($h)* Always(row!(@heading $field $($heading)?)),] [$($c)* (field $field [$($cell)?] [$($narrow)?])]
            [$($v)* (value $field)] $($more)*);
    };
    (@heading $field:ident) => { stringify!($field) };
    (@heading $field:ident $heading:literal) => { $heading };

    // All columns are read.
    (@ ($(#[$meta:meta])* $vis:vis struct $name:ident ($(<$life:lifetime>)?) $row:ident $from:tt ($($named:ident)?) ($($changed:expr)?))
        [$(($(#[$m:meta])* $field_vis:vis $field:ident: $type:ty $(= $init:expr)?))*] [$($of:ident($name_of:expr),)*] [$($heading_of:ident($heading:expr),)*] [$($cell:tt)*] [$($value:tt)*]) => {
        $(#[$meta])*
        #[derive(Debug, serde::Serialize)]
        $vis struct $name $(<$life>)? {
            $($(#[$m])* $field_vis $field: $type,)*
        }

        row!(@new $from $vis $name ($(<$life>)?) [$($($field = $init)?),*]);

        impl $(<$life>)? $crate::cli::output::Row for $name $(<$life>)? {
            const FIELDS: &'static [$crate::cli::output::Column] = &[$($crate::cli::output::Column::$of($name_of)),*];
            const HEADINGS: &'static [$crate::cli::output::Column] =
                &[$($crate::cli::output::Column::$heading_of($heading)),*];

            $(const NAME: Option<fn(&Self) -> &str> = Some(|row| row.$named.as_ref());)?

            fn cells(&self, _chosen: $crate::cli::output::Chosen) -> Vec<$crate::cli::output::Cell> {
                let $row = self;
                let cells: Vec<Option<$crate::cli::output::Cell>> = vec![$(row!(@cell $row _chosen $cell)),*];
                cells.into_iter().flatten().collect()
            }

            fn record<S: serde::ser::SerializeTuple>(
                &self,
                _chosen: $crate::cli::output::Chosen,
                _record: &mut S,
            ) -> Result<(), S::Error> {
                let $row = self;
                $(row!(@value $row _chosen _record $value);)*
                Ok(())
            }

            $(fn is_change(&self) -> bool {
                let $row = self;
                $changed
            })?
        }
    };
    (@new [] $($rest:tt)*) => {};
    (@new [($($from:tt)*) $({ $($shared:tt)* })?] $vis:vis $name:ident ($(<$life:lifetime>)?) [$($field:ident = $init:expr),*]) => {
        impl $(<$life>)? $name $(<$life>)? {
            $vis fn new($($from)*) -> Self {
                $($($shared)*)?
                Self { $($field: $init),* }
            }
        }
    };
    (@cell $row:ident $chosen:ident (always $cell:expr)) => { Some($cell) };
    (@cell $row:ident $chosen:ident (optional $name:expr, $cell:expr)) => { $chosen.contains(&$name).then(|| $cell) };
    (@cell $row:ident $chosen:ident (field $field:ident [] [$($narrow:ident)?])) => {
        Some($crate::cli::output::Field::cell(&$row.$field)$(.$narrow())?)
    };
    (@cell $row:ident $chosen:ident (field $field:ident [$cell:expr] [$($narrow:ident)?])) => { Some($cell$(.$narrow())?) };
    (@value $row:ident $chosen:ident $record:ident (value $field:ident)) => { $record.serialize_element(&$row.$field)? };
    (@value $row:ident $chosen:ident $record:ident (expression $value:expr)) => { $record.serialize_element(&$value)? };
    (@value $row:ident $chosen:ident $record:ident (flat $field:ident)) => {
        $crate::cli::output::Row::record(&$row.$field, $chosen, $record)?
    };
    (@value $row:ident $chosen:ident $record:ident (optional $field:ident)) => {
        if $chosen.contains(&stringify!($field)) {
            $record.serialize_element(&$row.$field)?;
        }
    };
}

pub(crate) use row;
