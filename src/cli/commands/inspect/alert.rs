//! `--alert-below`: activities that have too few units left.

use std::str::FromStr;

use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::output::Warnings;
use crate::cli::output::text::counted;
use crate::model::activity::State;
use crate::model::number::whole;

/// What percentages are kept in: thousandths of a percent.
const PARTS: u128 = 100_000;

/// The stock below which an activity is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AlertBelow {
    /// Units.
    Units(u64),
    /// Thousandths of a percent of the total.
    Share(u32),
}

impl AlertBelow {
    const EXPECTED: &'static str =
        "expected a number of units from 1, such as 100, or a percentage of the total up to 100%, such as 10%";

    /// Whether an activity has fewer units left; `None` if that cannot be known: its stock is gone, or nobody knows its
    /// total. One that is sold out, ended or archived is never marked: a sale that sells out is a success.
    pub(super) fn marks(self, row: &ActivityRow) -> Option<bool> {
        if [State::SoldOut, State::Ended, State::Archived].iter().any(|state| row.state == state.name()) {
            return Some(false);
        }
        let stock = row.stock?;
        Some(match self {
            Self::Units(units) => stock < units,
            Self::Share(share) => u128::from(stock) * PARTS < u128::from(row.total?) * u128::from(share),
        })
    }
}

impl FromStr for AlertBelow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(percent) = text.strip_suffix('%') else {
            return whole(text).filter(|units| *units > 0).map(Self::Units).ok_or(Self::EXPECTED);
        };
        let (whole_part, fraction) = percent.split_once('.').unwrap_or((percent, "0"));
        let is_fraction = (1..=3).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let thousandths = format!("{fraction:0<3}").parse::<u32>().ok().filter(|_| is_fraction);
        let share = whole(whole_part)
            .filter(|percent| *percent <= 100)
            .and_then(|percent| Some(u32::try_from(percent).ok()? * 1000 + thousandths?));
        share.filter(|share| (1..=100_000).contains(share)).map(Self::Share).ok_or(Self::EXPECTED)
    }
}

impl std::fmt::Display for AlertBelow {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Units(units) => write!(formatter, "{units}"),
            Self::Share(share) => write!(formatter, "{}%", f64::from(*share) / 1000.0),
        }
    }
}

/// Marks rows, warns of those that are marked, and returns whether any is.
pub(super) fn mark(rows: &mut [&mut ActivityRow], below: AlertBelow, warnings: &mut Warnings) -> bool {
    let mut any = false;
    for row in rows {
        row.alert = below.marks(row);
        any |= row.alert == Some(true);
        match (row.alert, row.stock) {
            (Some(true), Some(stock)) => {
                let left = match row.total {
                    Some(total) => format!("{stock} of {}", counted(total, "unit")),
                    None => counted(stock, "unit"),
                };
                warnings.warn(format!("`{}` has {left} left, below {below}", row.name()));
            }
            (None, Some(_)) => warnings.warn(format!(
                "`{}`: no total is known, so nobody can say whether its stock is below {below}",
                row.name()
            )),
            _ => {}
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_percentages_are_read_and_nothing_else() {
        let read = |text: &str| text.parse::<AlertBelow>();
        assert_eq!(read("100"), Ok(AlertBelow::Units(100)));
        assert_eq!(read("10%"), Ok(AlertBelow::Share(10_000)));
        assert_eq!(read("0.5%"), Ok(AlertBelow::Share(500)));
        assert_eq!(read("100%").unwrap().to_string(), "100%");
        assert_eq!(read("2.5%").unwrap().to_string(), "2.5%");
        for text in ["", "0", "-1", "1.5", "%", "0%", "101%", "1.2345%", "1e3", " 5", "x%", "5.%", "100.001%"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
