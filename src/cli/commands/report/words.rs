//! Numbers and times in words, for the terminal and for the picture.

use indicatif::HumanCount;

use crate::cli::output::plural;
use crate::model::time::Millis;

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `1 unit`, `12,345 units`.
pub(super) fn units(number: u64) -> String {
    counted(number, "unit")
}

pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number, noun))
}

/// A share that reads 100% only if it is, and 0% only if it is nothing.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    match share {
        0.0 => "0%".to_owned(),
        share if share < 0.1 => "<0.1%".to_owned(),
        share if share >= 100.0 => format!("{share:.0}%"),
        share => format!("{:.1}%", (share * 10.0).floor() / 10.0),
    }
}

/// A rate in three digits or so.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 0.1 => format!("{rate:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// The time between two instants: `3.412s`, or in two units, `1h 2m`.
pub(super) fn between(from: Millis, to: Millis) -> String {
    let millis = to.get().saturating_sub(from.get());
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}s", millis as f64 / 1000.0),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{}d {}h", count(days), hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let shares = [(0, 9), (1, 100_000), (999_999, 1_000_000), (5, 5), (7, 5), (1, 3), (0, 0)];
        let shown = shares.map(|(part, whole)| percent(part, whole));
        assert_eq!(shown, ["0%", "<0.1%", "99.9%", "100%", "140%", "33.3%", "0%"]);
    }

    #[test]
    fn times_and_rates_have_the_digits_that_are_needed() {
        let took = |millis: u64| between(Millis::new(5), Millis::new(5 + millis));
        assert_eq!([0, 412, 3000, 59_999, 61_999].map(took), ["0s", "0.412s", "3s", "59.999s", "1m 1s"]);
        assert_eq!([3_600_000, 86_399_999, 730_800_000].map(took), ["1h 0m", "23h 59m", "8d 11h"]);
        assert_eq!([0.002_91, 0.05, 0.000_001].map(rate), ["0.0029", "0.05", "0"]);
        assert_eq!([0.0, 0.25, 9.94, 9.96, 12_345.6].map(rate), ["0", "0.2", "9.9", "10", "12,346"]);
        assert_eq!((units(1), units(12_345)), ("1 unit".to_owned(), "12,345 units".to_owned()));
    }
}
