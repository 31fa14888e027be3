//! Rows of jsonl: one JSON object a line. Ids keep the text they are written in: `7` and `"7"` are one user, `07`
//! another.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::cli::failure::{Failure, Result};
use crate::cli::input::columns::{Columns, Named, WantedColumn};
use crate::cli::input::error::json_message;
use crate::cli::input::orders::blocks::{Lines, utf8};
use crate::cli::input::orders::row::{Column, OrderRow, Quantities, Shape, expected};
use crate::cli::input::orders::{Next, RowError};

/// Names of fields that are remembered, of those that are not ours as they are: an object rarely has more.
const MAX_KNOWN: usize = 64;

/// The objects of one input, and what their fields are.
pub(crate) struct JsonLines {
    columns: Columns<Column>,
    shape: Shape,
    /// What was found out about names that are not exactly those of our columns.
    known: Vec<(String, Named<Column>)>,
    /// Those of them that are ignored.
    pub(crate) ignored: Vec<String>,
    /// Which columns were in any object.
    seen: [bool; Column::ALL.len()],
    has_rows: bool,
    /// A field that is nearly one of ours, in the object being read.
    near: Option<(Column, String)>,
}

impl JsonLines {
    pub(crate) fn new(columns: Columns<Column>, shape: &Shape) -> Self {
        let (known, ignored, seen) = (Vec::new(), Vec::new(), Default::default());
        Self { columns, shape: *shape, known, ignored, seen, has_rows: false, near: None }
    }

    /// Reads the next object into a row.
    pub(crate) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = lines.read_line()?;
        if next == Next::End {
            self.check_mapped(lines.name())?;
        }
        if next != Next::Row {
            return Ok(next);
        }
        let text = utf8(lines, lines.raw())?;
        let mut json = serde_json::Deserializer::from_str(text);
        self.near = None;
        let fields = Fields("an object", |name: &str, value: &str| self.set(name, value, row));
        let read = json.deserialize_map(fields).and_then(|()| json.end());
        read.map_err(|error| wrong(lines, &error))?;
        if !std::mem::replace(&mut self.has_rows, true) {
            self.check_first(lines)?;
        }
        self.check(lines, row)?;
        Ok(Next::Row)
    }

    /// Refuses an input if a mapped column is in none of its objects: the name is misspelt.
    fn check_mapped(&self, input: &str) -> Result<()> {
        let is_unseen = |wanted: &&WantedColumn<Column>| wanted.is_mapped && !self.seen[wanted.column as usize];
        match self.columns.iter().find(is_unseen) {
            Some(wanted) if self.has_rows => {
                let name = wanted.name();
                Err(Failure::usage(format!("{input}: no object has `{name}`, and `--map` says that it is there")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an input whose first object has none of our fields, or lacks an id that was mapped where rows are applied as they
    /// arrive: at its end they are applied, and with the right name they would be applied again.
    fn check_first(&self, lines: &Lines) -> Result<()> {
        let applies = lines.is_stream() && self.shape.quantities == Quantities::Orders;
        let lacks = |wanted: &&WantedColumn<Column>| {
            let is_checked = wanted.is_required || wanted.column == Column::Quantity;
            applies && !is_checked && wanted.is_mapped && !self.seen[wanted.column as usize]
        };
        let place = format!("{}:{}:1", lines.name(), lines.line);
        if let Some(wanted) = self.columns.iter().find(lacks) {
            let name = wanted.name();
            return Err(Failure::usage(format!("{place}: no `{name}` here, and `--map` says that it is there"))
                .hint("in a pipe the first object must have it, if need be as null"));
        }
        let has_quantity = self.columns.get(Column::Quantity).is_some_and(|wanted| wanted.theirs.is_some());
        if has_quantity && self.shape.required.is_empty() && self.seen == [false; Column::ALL.len()] {
            return Err(Failure::usage(format!("{place}: no field is one of ours"))
                .hint("name the quantity by `--map quantity=ITS_NAME`; if each row is one unit, `--map quantity=`"));
        }
        Ok(())
    }

    /// Sets the column that a field is, if it is one.
    fn set(&mut self, name: &str, value: &str, row: &mut OrderRow) -> Result<(), String> {
        let Some(column) = self.find(name) else { return Ok(()) };
        self.seen[column as usize] = true;
        if row.get(column).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
        match value {
            "null" => row.set_null(column, value),
            _ if column == Column::Items => row.set(column, value),
            _ => match text_of(value) {
                Some(text) => row.set(column, &text),
                None => {
                    let expected = expected(column, self.shape.quantities);
                    let shown: String = value.chars().take(40).collect();
                    return Err(format!("{name}: `{shown}` is not a string or an integer, expected {expected}"));
                }
            },
        }
        Ok(())
    }

    /// The column that a field is; `None` if it is ignored.
    fn find(&mut self, name: &str) -> Option<Column> {
        if let Some(exact) = self.columns.iter().find(|wanted| wanted.theirs.as_deref() == Some(name)) {
            return Some(exact.column);
        }
        let named = match self.known.iter().find(|(known, _)| known == name) {
            Some((_, named)) => *named,
            None => self.learn(name),
        };
        match named {
            Named::Ours(column) => return Some(column),
            Named::Nearly(column) if self.near.is_none() => self.near = Some((column, name.to_owned())),
            Named::Nearly(_) | Named::Other => (),
        }
        None
    }

    fn learn(&mut self, name: &str) -> Named<Column> {
        let named = self.columns.classify(name);
        if self.known.len() < MAX_KNOWN {
            self.known.push((name.to_owned(), named));
            if !matches!(named, Named::Ours(_)) {
                self.ignored.push(name.to_owned());
            }
        }
        named
    }

    /// Refuses an object that has a field which is nearly ours and lacks ours, or lacks the quantity that was mapped.
    fn check(&mut self, lines: &Lines, row: &OrderRow) -> Result<(), RowError> {
        if let Some((column, name)) = self.near.take()
            && let Some(wanted) = self.columns.get(column).filter(|_| row.get(column).is_none())
        {
            // Orders of several activities come from backends, and have no `--map`.
            let has_map = self.columns.get(Column::Items).is_none();
            let (message, hint) = wanted.refusal_of(&name, has_map);
            return Err(RowError::Bad(lines.problem(value_start(lines.raw(), &name), message, Some(hint))));
        }
        if let Some(quantity) = self.columns.get(Column::Quantity).filter(|wanted| wanted.is_mapped)
            && row.get(Column::Quantity).is_none()
        {
            let message = format!("`{}` is missing, and `--map` says that it is there", quantity.name());
            return Err(lines.bad(0, message));
        }
        Ok(())
    }
}

/// The error of a line that serde_json cannot read.
pub(crate) fn wrong(lines: &Lines, error: &serde_json::Error) -> RowError {
    let message = json_message(error);
    let message = if error.is_data() { message } else { format!("not a JSON object: {message}") };
    lines.bad(error.column().saturating_sub(1), message)
}

/// The byte at which the value of a field begins; 0 if it is not found.
pub(super) fn value_start(raw: &[u8], name: &str) -> usize {
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let quoted = format!("\"{name}\"");
    let after_name = |(at, _): (usize, &str)| {
        let rest = text[at + quoted.len()..].trim_start().strip_prefix(':')?;
        Some(text.len() - rest.trim_start().len())
    };
    text.match_indices(&quoted).find_map(after_name).unwrap_or_default()
}

/// The text of a string or of an integer; `None` for anything else.
pub(super) fn text_of(raw: &str) -> Option<Cow<'_, str>> {
    if raw.starts_with('"') {
        // Most strings have no escapes and need no copy.
        return match raw[1..raw.len() - 1].contains('\\') {
            false => Some(Cow::Borrowed(&raw[1..raw.len() - 1])),
            true => serde_json::from_str(raw).ok().map(Cow::Owned),
        };
    }
    let digits = raw.strip_prefix('-').unwrap_or(raw);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(Cow::Borrowed(raw))
}

/// Hands over the fields of an object, each with its value as it is written. The text says what is expected.
pub(super) struct Fields<F>(pub(super) &'static str, pub(super) F);

impl<'de, F: FnMut(&str, &str) -> Result<(), String>> Visitor<'de> for Fields<F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry::<Key<'de>, &RawValue>()? {
            self.1(&name.0, value.get()).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// The name of a field, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
