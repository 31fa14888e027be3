//! When an activity will be sold out, if it sells on as it does.

use std::time::Duration;

/// Further ahead nothing is said.
const MAX_SECONDS: f64 = 24.0 * 3600.0;

/// What comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Forecast {
    /// It is sold out then.
    SoldOutIn(Duration),
    /// Its window ends before; the units that are left then.
    EndsWith(u64),
}

impl Forecast {
    /// The forecast of a stock that falls by `rate` units a second, in a window that ends in `ends_in`.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn of(stock: u64, rate: Option<f64>, ends_in: Option<Duration>) -> Option<Self> {
        let rate = rate.filter(|rate| *rate > 0.0 && stock > 0)?;
        let seconds = stock as f64 / rate;
        match ends_in {
            Some(end) if end.as_secs_f64() < seconds => {
                let left = stock as f64 - rate * end.as_secs_f64();
                Some(Self::EndsWith(left.max(1.0) as u64))
            }
            _ => (seconds <= MAX_SECONDS).then(|| Self::SoldOutIn(Duration::from_secs_f64(seconds))),
        }
    }

    /// Seconds until it is sold out.
    pub(super) fn seconds(self) -> Option<u64> {
        match self {
            Self::SoldOutIn(time) => Some(time.as_secs()),
            Self::EndsWith(_) => None,
        }
    }
}

impl std::fmt::Display for Forecast {
    /// No more exact than it can be: `~3 m 20 s`, `~45 left at end`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SoldOutIn(time) => formatter.write_str(&in_words(time.as_secs())),
            Self::EndsWith(left) => write!(formatter, "~{} left", rounded(*left)),
        }
    }
}

fn in_words(seconds: u64) -> String {
    let to = |step: u64| (seconds + step / 2) / step * step;
    match seconds {
        0..=4 => "now".to_owned(),
        5..=57 => format!("~{} s", to(5)),
        58..=594 => match (to(10) / 60, to(10) % 60) {
            (minutes, 0) => format!("~{minutes} m"),
            (minutes, seconds) => format!("~{minutes} m {seconds} s"),
        },
        595..=3569 => format!("~{} m", to(60) / 60),
        _ => match (to(600) / 3600, to(600) % 3600 / 60) {
            (hours, 0) => format!("~{hours} h"),
            (hours, minutes) => format!("~{hours} h {minutes} m"),
        },
    }
}

/// To two digits.
fn rounded(count: u64) -> u64 {
    let step = 10_u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(1));
    count / step * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_needs_a_rate_and_something_to_sell() {
        let soon = Some(Forecast::SoldOutIn(Duration::from_secs(200)));
        assert_eq!(Forecast::of(2000, Some(10.0), None), soon);
        assert_eq!(Forecast::of(2000, Some(10.0), Some(Duration::from_secs(300))), soon);
        for (stock, rate) in [(2000, None), (0, Some(10.0)), (10, Some(0.0)), (10, Some(-3.0)), (100_000, Some(1.0))] {
            assert_eq!(Forecast::of(stock, rate, None), None, "{stock} {rate:?}");
        }
    }

    #[test]
    fn a_window_that_ends_before_leaves_units() {
        let end = Forecast::of(2000, Some(10.0), Some(Duration::from_secs(60))).unwrap();
        assert_eq!((end, end.seconds(), end.to_string()), (Forecast::EndsWith(1400), None, "~1400 left".to_owned()));
        assert_eq!(Forecast::of(100_000, Some(1.0), Some(Duration::from_secs(1))), Some(Forecast::EndsWith(99_999)));
        assert_eq!(Forecast::EndsWith(99_999).to_string(), "~99000 left");
    }

    #[test]
    fn a_time_is_said_no_more_exactly_than_it_is_known() {
        for (seconds, words) in [
            (3, "now"),
            (6, "~5 s"),
            (43, "~45 s"),
            (57, "~55 s"),
            (58, "~1 m"),
            (202, "~3 m 20 s"),
            (594, "~9 m 50 s"),
            (595, "~10 m"),
            (3569, "~59 m"),
            (3570, "~1 h"),
            (12_000, "~3 h 20 m"),
            (86_400, "~24 h"),
        ] {
            assert_eq!(in_words(seconds), words, "{seconds}");
        }
    }
}
