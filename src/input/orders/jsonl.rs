//! Rows of jsonl: one JSON object a line. Ids keep the text they are written in: `7` and `"7"` are one user, `07`
//! another.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::lines::{Lines, column_of, utf8};
use super::mapping::Mapping;
use super::row::{Column, OrderRow, Shape, expected};
use super::{Next, RowError};
use crate::inventory::failure::Failure;

/// The objects of one input.
pub(super) struct JsonLines {
    /// Our columns by the input's names.
    columns: Vec<(String, Column)>,
    /// What each of them must hold, for errors.
    shape: Shape,
}

impl JsonLines {
    pub(super) fn new(mapping: &Mapping, shape: &Shape) -> Self {
        let columns = shape.columns().map(|column| (mapping.name(column).to_owned(), column)).collect();
        Self { columns, shape: *shape }
    }

    /// Reads the next object into a row.
    pub(super) fn next(&mut self, lines: &mut Lines, row: &mut OrderRow) -> Result<Next, RowError> {
        let next = line(lines)?;
        if next != Next::Row {
            return Ok(next);
        }
        row.set_line(lines.line());
        let text = utf8(lines, lines.raw())?;
        let mut json = serde_json::Deserializer::from_str(text);
        let seed = Object { columns: &self.columns, shape: &self.shape, row };
        seed.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| wrong(lines, &error))?;
        Ok(Next::Row)
    }
}

/// Passes to the next line that holds something.
pub(super) fn line(lines: &mut Lines) -> Result<Next, Failure> {
    loop {
        if lines.skip_empty() {
            match memchr::memchr(b'\n', lines.rest()) {
                Some(end) => {
                    lines.take(end + 1);
                    if !lines.raw().trim_ascii().is_empty() {
                        return Ok(Next::Row);
                    }
                    continue;
                }
                None => match lines.fill()? {
                    Next::End => {
                        let rest = lines.rest().len();
                        lines.take(rest);
                        return Ok(if lines.raw().trim_ascii().is_empty() { Next::End } else { Next::Row });
                    }
                    Next::NotYet => return Ok(Next::NotYet),
                    Next::Row => continue,
                },
            }
        }
        let next = lines.fill()?;
        if next != Next::Row {
            return Ok(next);
        }
    }
}

/// What serde_json says, without its own count of lines.
pub(super) fn wrong(lines: &Lines, error: &serde_json::Error) -> RowError {
    let text = error.to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    let message = match error.classify() {
        serde_json::error::Category::Data => message.to_owned(),
        _ => format!("not a JSON object: {message}"),
    };
    lines.bad(error.column().saturating_sub(1), message)
}

/// The column where the value of a field stands, counted in characters.
pub(super) fn place(raw: &[u8], name: &str) -> usize {
    let text = String::from_utf8_lossy(raw);
    let found = text.find(&format!("\"{name}\"")).map_or(0, |at| at + name.len() + 2);
    let value = text[found..].find(|c: char| c != ':' && !c.is_whitespace()).unwrap_or(0);
    column_of(text.as_bytes(), if found == 0 { 0 } else { found + value })
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

/// Reads one object into a row.
struct Object<'a> {
    columns: &'a [(String, Column)],
    shape: &'a Shape,
    row: &'a mut OrderRow,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Key<'de>>()? {
            let Some((_, column)) = self.columns.iter().find(|(known, _)| *known == name.0) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let raw = map.next_value::<&RawValue>()?.get();
            if self.row.get(*column).is_some() {
                return Err(A::Error::custom(format!("`{}` is given twice", name.0)));
            }
            if raw == "null" {
                continue;
            }
            if *column == Column::Items {
                self.row.set(*column, raw);
                continue;
            }
            let text = text_of(raw).ok_or_else(|| {
                let expected = expected(*column, self.shape.quantities);
                A::Error::custom(format!(
                    "{}: `{}` is not a string or an integer, expected {expected}",
                    name.0,
                    shortened(raw)
                ))
            })?;
            self.row.set(*column, &text);
        }
        Ok(())
    }
}

fn shortened(raw: &str) -> String {
    raw.chars().take(40).collect()
}

/// A key, borrowed where it has no escapes.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
