//! The window of a sale, as files and flags give it: instants with an offset, or from now on.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::{GivenTime, Millis};

/// A time in a file: the same wherever it is read, so a time without an offset is none.
#[derive(Debug)]
pub struct WindowTime(pub Millis);

impl WindowTime {
    /// What a text must be, for errors.
    pub const EXPECTED: &'static str = "a time with an offset, such as 2026-11-11T00:00:00+08:00, or +2h (from now)";
}

impl FromStr for WindowTime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at = match text.starts_with('+') {
            true => text.parse().ok().map(instant),
            false => text.parse().ok(),
        };
        at.map(Self).ok_or(Self::EXPECTED)
    }
}

/// The instant, by this machine's clock.
pub fn instant(time: GivenTime) -> Millis {
    match time.at(|| Ok::<_, Infallible>(now())) {
        Ok(at) => at,
    }
}

/// This machine's clock.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_times_with_an_offset_or_from_now() {
        let at = |text: &str| text.parse::<WindowTime>().map(|time| time.0).ok();
        assert_eq!(at("1970-01-01T08:00:01+08:00"), Some(Millis::new(1000)));
        let before = now();
        let (start, end) = (at("+0s").unwrap(), at("+2h30m").unwrap());
        assert!(before <= start && start <= now());
        assert!(end >= Millis::new(before.get() + 9_000_000) && end <= Millis::new(now().get() + 9_000_000));
        for text in ["", "+", "+-1h", "+ 1h", "++1h", "2h", "+2", "today", "+today", "2026-11-11", "+101years"] {
            assert!(text.parse::<WindowTime>().is_err(), "{text:?}");
        }
    }
}
