//! The columns of an entry, decoded from JSON into the texts of each order.

use std::borrow::Cow;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::model::number::whole;

/// One order of an entry, as texts. They are bytes: a backend may name its users in another encoding than UTF-8.
#[derive(Debug, Clone)]
pub(crate) struct OrderTexts<'a>(pub [Option<Cow<'a, [u8]>>; 4]);

impl OrderTexts<'_> {
    /// The user; empty if none is recorded.
    pub(crate) fn user(&self) -> &[u8] {
        self.0[0].as_deref().unwrap_or_default()
    }

    /// The count at an index.
    pub(crate) fn count(&self, at: usize) -> Option<i64> {
        whole(self.text(at)?).and_then(|count| i64::try_from(count).ok())
    }

    /// The text at an index; `None` if it is empty, missing or not UTF-8.
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        std::str::from_utf8(self.0.get(at)?.as_deref()?).ok().filter(|text| !text.is_empty())
    }
}

/// A text that is borrowed if JSON has it as it is.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, [u8]>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(bytes.to_owned())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// The texts of a column.
pub(crate) fn column<'a>(name: &str, json: &'a [u8]) -> Result<Vec<Text<'a>>, String> {
    serde_json::from_slice(json).map_err(|error| format!("{name}: {error}"))
}

/// Puts the texts of a column, if there is one, into each row at an index.
pub(crate) fn fill<'a>(
    rows: &mut [OrderTexts<'a>],
    at: usize,
    name: &str,
    json: Option<&'a [u8]>,
) -> Result<(), String> {
    let Some(json) = json else { return Ok(()) };
    let texts = column(name, json)?;
    if texts.len() != rows.len() {
        return Err(format!("{name}: {} texts for {} users", texts.len(), rows.len()));
    }
    rows.iter_mut().zip(texts).for_each(|(row, Text(text))| row.0[at] = Some(text));
    Ok(())
}
