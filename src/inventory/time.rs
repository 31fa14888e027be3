//! Instants in Unix milliseconds, read and shown with an offset.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// An instant, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(u64);

/// A text that is no instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {}", .0.escape_debug(), Millis::EXPECTED)]
pub struct InvalidTime(String);

impl Millis {
    /// What a text must be, for errors.
    pub const EXPECTED: &'static str = "a time with an offset, such as 2026-11-11T00:00:00+08:00";

    /// The instant that many milliseconds after 1970.
    pub fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Millis {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Timestamp>()
            .ok()
            .and_then(|time| u64::try_from(time.as_millisecond()).ok())
            .map(Self)
            .ok_or_else(|| InvalidTime(text.to_owned()))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = i64::try_from(self.0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
        match shown {
            Some(time) => formatter.pad(&time.to_string()),
            None => write!(formatter, "{} ms", self.0),
        }
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_needs_an_offset() {
        let noon: Millis = "2026-11-11T00:00:00+08:00".parse().unwrap();
        assert_eq!(noon.to_string(), "2026-11-10T16:00:00Z");
        for text in ["2026-11-11T00:00:00", "2026-11-11", "yesterday", ""] {
            assert!(text.parse::<Millis>().is_err(), "{text:?}");
        }
    }
}
