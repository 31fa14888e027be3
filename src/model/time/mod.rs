//! Instants: stored in Unix milliseconds, read with an offset, shown in the time zone of the process. What
//! somebody types without an offset is of that zone, too.

mod ticks;
mod zone;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, Serializer};

use crate::model::id::InvalidText;
pub(crate) use crate::model::time::ticks::{DAY, HOUR, MINUTE, SECOND, Tick};
pub(crate) use crate::model::time::zone::{UnknownZone, Zone};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// An instant, in milliseconds since 1970-01-01T00:00:00Z; negative before.
///
/// As JSON and the like it is UTC with milliseconds. `Display`, for messages and tables, has the process's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(i64);

impl Millis {
    /// What a text must be, for errors.
    pub const EXPECTED: &'static str = "a time with an offset, such as 2026-11-11T00:00:00+08:00";

    /// The instant that many milliseconds after 1970, as servers and scripts count.
    pub fn new(millis: u64) -> Self {
        Self(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    /// Milliseconds since 1970, as servers and scripts count: 0 for all that was before.
    pub fn get(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// To the second, for tables: the id beside it has the milliseconds.
    pub(crate) fn to_second(self) -> Self {
        Self(self.0 - self.0.rem_euclid(1000))
    }

    /// `in 16 h`, `3 min ago`, `now`: at most [`RELATIVE_WIDTH`] characters in the years 0 to 9999.
    pub(crate) fn relative_to(self, now: Self) -> String {
        const YEAR: u64 = 365 * DAY;
        let apart = (self.0.abs_diff(now.0) + SECOND / 2) / SECOND * SECOND;
        let (step, unit) = match apart {
            0 => return "now".to_owned(),
            _ if apart < 2 * MINUTE => (SECOND, "s"),
            _ if apart < 2 * HOUR => (MINUTE, "min"),
            _ if apart < 2 * DAY => (HOUR, "h"),
            _ if apart < 2 * YEAR => (DAY, "d"),
            _ => (YEAR, "y"),
        };
        let count = (apart + step / 2) / step;
        if self > now { format!("in {count} {unit}") } else { format!("{count} {unit} ago") }
    }

    /// The instant at which a clock shows this, that many seconds east of Greenwich.
    fn at_offset(civil: DateTime, seconds: i32) -> Self {
        let since = civil.duration_since(EPOCH).as_millis() - i128::from(seconds) * 1000;
        Self(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// What a clock shows that many seconds east of Greenwich; `None` outside the years 0 to 9999.
    fn civil(self, seconds: i32) -> Option<DateTime> {
        let since = self.0.checked_add(i64::from(seconds) * 1000)?;
        EPOCH.checked_add(SignedDuration::from_millis(since)).ok().filter(|civil| civil.year() >= 0)
    }

    /// The instant as jiff has it, which lacks the last hours of the year 9999.
    fn timestamp(self) -> Timestamp {
        let bound = if self.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_millisecond(self.0).unwrap_or(bound)
    }

    /// As a time zone's clock shows it, with the offset.
    fn in_zone(self, zone: &Zone) -> String {
        let seconds = zone.offset_at(self.timestamp());
        // An offset of odd seconds, as before 1900, cannot be written: UTC is as true.
        let seconds = if seconds % 60 == 0 { seconds } else { 0 };
        let Some(civil) = self.civil(seconds) else { return OUTSIDE.to_owned() };
        let minutes = seconds.abs() / 60;
        let sign = if seconds < 0 { '-' } else { '+' };
        let fraction = if self.0 % 1000 == 0 { "" } else { "%.3f" };
        let clock = civil.strftime(&format!("%Y-%m-%dT%H:%M:%S{fraction}")).to_string();
        format!("{clock}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Characters of the longest time relative to now, `120 min ago`.
pub(crate) const RELATIVE_WIDTH: usize = 11;

/// A stored number that is no time.
const OUTSIDE: &str = "after the year 9999";

impl FromStr for Millis {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidText::new(text, Self::EXPECTED);
        let pieces = Pieces::parse(text).map_err(|_| invalid())?;
        let (Some(time), Some(offset)) = (pieces.time(), pieces.offset()) else { return Err(invalid()) };
        let seconds = match offset {
            PiecesOffset::Numeric(offset) => offset.offset().seconds(),
            // `Z`.
            _ => 0,
        };
        let at = Self::at_offset(pieces.date().to_datetime(time), seconds);
        // RFC 3339 can write no other years, and the offset may lead out of them.
        at.civil(0).map(|_| at).ok_or_else(invalid)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.in_zone(Zone::of_process()))
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.civil(0) {
            Some(civil) => serializer.collect_str(&civil.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")),
            None => serializer.serialize_str(OUTSIDE),
        }
    }
}

/// Midnight, if only a date is given.
const MIDNIGHT: Time = Time::constant(0, 0, 0, 0);

/// A time of the command line. Only [`GivenTime::at`] makes an instant of it: zone and clock are known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenTime {
    /// With an offset.
    Instant(Millis),
    /// A date, or a date and time, of the zone's clocks.
    Clock(DateTime),
    /// The last midnight.
    Today,
    /// That long before now.
    Ago(Duration),
    /// That long after now.
    FromNow(Duration),
}

/// How far from now a sale may be: a hundred years.
const FARTHEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl GivenTime {
    /// What a text must be, for errors.
    pub(crate) const EXPECTED: &'static str = "a time, such as 2026-11-21T10:00:00+08:00, 2026-11-21, \"2026-11-21 10:00\", today, 1h (ago) or +1h (from now)";

    /// The instant. `now` is asked for only if the time is relative to it.
    ///
    /// # Errors
    /// Whatever `now` fails with.
    pub(crate) fn at<E>(self, now: impl FnOnce() -> Result<Millis, E>) -> Result<Millis, E> {
        self.in_zone(Zone::of_process(), now)
    }

    fn in_zone<E>(self, zone: &Zone, now: impl FnOnce() -> Result<Millis, E>) -> Result<Millis, E> {
        Ok(match self {
            Self::Instant(at) => at,
            Self::Clock(clock) => zone.instant(clock),
            Self::Today => zone.instant(zone.civil(now()?).date().to_datetime(MIDNIGHT)),
            Self::Ago(duration) => Millis(now()?.0.saturating_sub(millis(duration))),
            Self::FromNow(duration) => Millis(now()?.0.saturating_add(millis(duration))),
        })
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl FromStr for GivenTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(at) = text.parse() {
            return Ok(Self::Instant(at));
        }
        if text == "today" {
            return Ok(Self::Today);
        }
        if let Ok(duration) = humantime::parse_duration(text) {
            return Ok(Self::Ago(duration));
        }
        let from_now = text.strip_prefix('+').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(duration) =
            from_now.and_then(|rest| humantime::parse_duration(rest).ok()).filter(|it| *it <= FARTHEST)
        {
            return Ok(Self::FromNow(duration));
        }
        let clock = Pieces::parse(text)
            .ok()
            .filter(|pieces| pieces.offset().is_none() && pieces.time_zone_annotation().is_none());
        clock
            .map(|pieces| pieces.date().to_datetime(pieces.time().unwrap_or(MIDNIGHT)))
            .filter(|civil| civil.year() >= 0)
            .map(Self::Clock)
            .ok_or_else(|| format!("`{}` is not {}", text.escape_debug(), Self::EXPECTED))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn shown(text: &str, zone: &str) -> String {
        text.parse::<Millis>().unwrap().in_zone(&zone.parse().unwrap())
    }

    #[test]
    fn a_time_needs_an_offset() {
        assert_eq!(shown("2026-11-11T00:00:00+08:00", "UTC"), "2026-11-10T16:00:00+00:00");
        for text in ["2026-11-11T00:00:00", "2026-11-11", "yesterday", "", "1794326400000", "-000001-01-01T00:00:00Z"] {
            assert!(text.parse::<Millis>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_time_relative_to_now_is_rounded_to_a_unit() {
        let now = Millis::new(10_000_000_000_000);
        let ahead = |seconds: i64| Millis(now.0 + seconds * 1000 - 20).relative_to(now);
        assert_eq!([0, 1, 119, 120].map(ahead), ["now", "in 1 s", "in 119 s", "in 2 min"]);
        assert_eq!([15 * 60, 16 * 3600, 3 * 86_400].map(ahead), ["in 15 min", "in 16 h", "in 3 d"]);
        assert_eq!([-59, -209, -5400, -900 * 86_400].map(ahead), ["59 s ago", "3 min ago", "90 min ago", "2 y ago"]);
        for seconds in (0..200_000).step_by(7) {
            assert!(ahead(-seconds).len() <= RELATIVE_WIDTH && ahead(seconds).len() <= RELATIVE_WIDTH, "{seconds}");
        }
    }

    #[test]
    fn a_time_is_shown_with_the_offset_of_that_day() {
        assert_eq!(shown("2026-11-10T16:00:00Z", "Asia/Shanghai"), "2026-11-11T00:00:00+08:00");
        assert_eq!(shown("2026-07-01T12:00:00Z", "Europe/Berlin"), "2026-07-01T14:00:00+02:00");
        assert_eq!(shown("2026-12-01T12:00:00.250Z", "America/St_Johns"), "2026-12-01T08:30:00.250-03:30");
        assert_eq!(shown("2026-11-10T16:00:00Z", "CST-8"), "2026-11-11T00:00:00+08:00");
        assert_eq!(
            shown("1880-01-01T00:00:00Z", "Asia/Shanghai"),
            "1880-01-01T00:00:00+00:00",
            "8:05:43 has no offset"
        );
    }

    #[test]
    fn a_second_is_the_one_that_began() {
        let second = |millis| Millis(millis).to_second().0;
        assert_eq!([second(1999), second(2000), second(0), second(-1)], [1000, 2000, 0, -1000]);
    }

    #[test]
    fn years_from_0_to_9999_are_times() {
        for (text, millis) in [
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
            ("9999-12-31T23:59:59+08:00", 253_402_271_999_000),
            ("1969-12-31T23:59:59Z", -1000),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ] {
            assert_eq!(text.parse::<Millis>().unwrap().0, millis);
        }
        for outside in ["9999-12-31T23:59:59.999-10:00", "0000-01-01T00:00:00+08:00"] {
            assert!(outside.parse::<Millis>().is_err() && outside.parse::<GivenTime>().is_err(), "{outside}");
        }
        assert_eq!(shown("9999-12-31T23:59:59Z", "UTC"), "9999-12-31T23:59:59+00:00");
        assert_eq!(serde_json::to_string(&Millis::new(253_402_300_799_999)).unwrap(), r#""9999-12-31T23:59:59.999Z""#);
        assert_eq!(serde_json::to_string(&Millis(-1)).unwrap(), r#""1969-12-31T23:59:59.999Z""#);
        assert_eq!(Millis::new(u64::MAX).to_string(), "after the year 9999", "never raw milliseconds");
        assert_eq!(Millis(-1).get(), 0, "scripts know no time before 1970");
    }

    #[test]
    fn an_instant_outside_the_calendar_is_at_its_nearer_end() {
        assert_eq!([i64::MIN, i64::MAX].map(|at| Millis(at).timestamp()), [Timestamp::MIN, Timestamp::MAX]);
        assert_eq!(Millis(-1).timestamp().as_millisecond(), -1);
    }

    fn instant(text: &str, zone: &str) -> String {
        let zone: Zone = zone.parse().unwrap();
        let now = || Ok::<_, Infallible>("2026-11-21T20:30:00Z".parse().unwrap());
        text.parse::<GivenTime>().unwrap().in_zone(&zone, now).unwrap().in_zone(&zone)
    }

    #[test]
    fn a_time_without_an_offset_is_of_the_zone() {
        for (text, at) in [
            ("2026-11-21T10:00:00Z", "2026-11-21T18:00:00+08:00"),
            ("2026-11-21", "2026-11-21T00:00:00+08:00"),
            ("2026-11-21 10:00", "2026-11-21T10:00:00+08:00"),
            ("2026-11-21T10:00:30.5", "2026-11-21T10:00:30.500+08:00"),
            ("today", "2026-11-22T00:00:00+08:00"),
            ("1h", "2026-11-22T03:30:00+08:00"),
            ("1h30m", "2026-11-22T03:00:00+08:00"),
            ("2days", "2026-11-20T04:30:00+08:00"),
            ("+90m", "2026-11-22T06:00:00+08:00"),
            ("+0s", "2026-11-22T04:30:00+08:00"),
            ("9999-12-31 23:59", "9999-12-31T23:59:00+08:00"),
        ] {
            assert_eq!(instant(text, "Asia/Shanghai"), at, "{text}");
        }
        assert_eq!(instant("2026-03-29 02:30", "Europe/Berlin"), "2026-03-29T03:30:00+02:00", "skipped in spring");
        assert_eq!(instant("2026-10-25 02:30", "Europe/Berlin"), "2026-10-25T02:30:00+02:00", "twice in autumn");
        let no_times = "|tomorrow|-1h|10:00|2026-11-31|1794326400000|1h ago|+|+ 1h|+-1h|+101years|12026-01-01|\
                        2026-11-21T10:00[Asia/Tokyo]";
        for text in no_times.split('|') {
            assert!(text.parse::<GivenTime>().is_err(), "{text}");
        }
    }
}
