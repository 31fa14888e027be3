//! The name of a key, with `<id>` in the place of the activity's id.

use std::fmt;
use std::str::FromStr;

use crate::model::id::ActivityId;

const ID: &str = "<id>";
/// The longest pattern, in bytes: far below what a server takes, and short enough for a message.
const LONGEST: usize = 256;

/// The name of a key, with `<id>` in the place of the activity's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    /// Where `<id>` begins.
    id: usize,
}

impl Pattern {
    /// What a pattern must be, for errors.
    pub const EXPECTED: &'static str = "the name of a key of 5 to 256 printable characters without spaces, with `<id>` once, such as \"shop:{<id>}:left\"";

    /// The key of an activity.
    pub fn key(&self, activity: &ActivityId) -> String {
        let (before, after) = self.parts();
        format!("{before}{activity}{after}")
    }

    /// The text before the id and the text after it.
    pub fn parts(&self) -> (&str, &str) {
        (&self.text[..self.id], &self.text[self.id + ID.len()..])
    }

    /// The id in a key of this pattern.
    pub fn id_in<'k>(&self, key: &'k str) -> Option<&'k str> {
        let (before, after) = self.parts();
        key.strip_prefix(before)?.strip_suffix(after).filter(|id| !id.is_empty())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern of keys that are named from the keys of this one.
    pub fn with(&self, part: &str) -> Self {
        Self { text: format!("{}:{part}", self.text), id: self.id }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_bad = |c: char| c.is_whitespace() || c.is_control();
        let mut at = text.match_indices(ID).map(|(at, _)| at);
        match (at.next(), at.next()) {
            (Some(id), None) if text.len() > ID.len() && text.len() <= LONGEST && !text.contains(is_bad) => {
                Ok(Self { text: text.to_owned(), id })
            }
            _ => Err(format!("expected {}", Self::EXPECTED)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
