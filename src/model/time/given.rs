//! A time as somebody types it: without an offset it is of the process's time zone.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;

use crate::model::time::{MIDNIGHT, Millis, Zone, in_years};

/// A time of the command line. Only [`GivenTime::at`] makes an instant of it: zone and clock are known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenTime(Form);

/// How far from now a sale may be: a hundred years.
const FARTHEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
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
        Ok(match self.0 {
            Form::Instant(at) => at,
            Form::Clock(clock) => zone.instant(clock),
            Form::Today => zone.instant(zone.civil(now()?).date().to_datetime(MIDNIGHT)),
            Form::Ago(duration) => Millis(now()?.0.saturating_sub(millis(duration))),
            Form::FromNow(duration) => Millis(now()?.0.saturating_add(millis(duration))),
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
            return Ok(Self(Form::Instant(at)));
        }
        if text == "today" {
            return Ok(Self(Form::Today));
        }
        if let Ok(duration) = humantime::parse_duration(text) {
            return Ok(Self(Form::Ago(duration)));
        }
        let from_now = text.strip_prefix('+').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(duration) =
            from_now.and_then(|rest| humantime::parse_duration(rest).ok()).filter(|it| *it <= FARTHEST)
        {
            return Ok(Self(Form::FromNow(duration)));
        }
        let clock = Pieces::parse(text)
            .ok()
            .filter(|pieces| pieces.offset().is_none() && pieces.time_zone_annotation().is_none());
        clock
            .and_then(|pieces| in_years(pieces.date().to_datetime(pieces.time().unwrap_or(MIDNIGHT))))
            .map(|clock| Self(Form::Clock(clock)))
            .ok_or_else(|| format!("`{}` is not {}", text.escape_debug(), Self::EXPECTED))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn shown(text: &str, zone: &str) -> String {
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
            assert_eq!(shown(text, "Asia/Shanghai"), at, "{text}");
        }
        assert_eq!(shown("2026-03-29 02:30", "Europe/Berlin"), "2026-03-29T03:30:00+02:00", "skipped in spring");
        assert_eq!(shown("2026-10-25 02:30", "Europe/Berlin"), "2026-10-25T02:30:00+02:00", "twice in autumn");
        for text in [
            "",
            "tomorrow",
            "-1h",
            "10:00",
            "2026-11-31",
            "1794326400000",
            "1h ago",
            "+",
            "+ 1h",
            "+-1h",
            "+101years",
            "12026-01-01",
            "2026-11-21T10:00[Asia/Tokyo]",
        ] {
            assert!(text.parse::<GivenTime>().is_err(), "{text}");
        }
    }
}
