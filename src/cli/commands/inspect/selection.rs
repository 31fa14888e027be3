//! Which rows are shown, and in which order: states, a column to sort by.
//! `--alert-below`: activities that have too few units left.

use std::str::FromStr;

use clap::builder::PossibleValuesParser;

use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::output::{Warnings, counted};
use crate::model::number::whole;
use crate::model::{State, Status};
use crate::names;

names! {
    /// What rows are sorted by.
    #[derive(clap::ValueEnum)]
    pub enum SortBy {
        /// Units a second, the most first
        Rate = "rate",
        /// Units left, the fewest first
        Stock = "stock",
        /// Units sold, the most first
        Sold = "sold",
    }
}

/// Which rows are shown, and in which order.
#[derive(Debug, clap::Args)]
pub(super) struct Selection {
    /// Show only activities in these states
    ///
    /// upcoming, live, sold_out, paused, ended, archived, not_preheated or corrupt. Those that are not shown are exit 3 too if
    /// they are not_preheated or corrupt, but `--alert-below` marks only what is shown.
    #[arg(long, value_name = "STATE", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::from(state_names()), conflicts_with_all = ["user", "all"])]
    pub state: Vec<String>,
    /// Sort by rate, stock or sold
    ///
    /// The highest rate, the most sold or the fewest left come first; what is not known comes last. Rates need two
    /// readings, so `rate` is for --watch.
    #[arg(long, value_name = "COLUMN", value_enum, hide_possible_values = true, conflicts_with_all = ["user", "all"])]
    pub sort: Option<SortBy>,
    /// Mark stocks below N units, or P% of the total
    ///
    /// A marked row is exit 3, for cron; with -q only marked rows and those not_preheated or corrupt are printed. An activity
    /// that sold out is a success, and not marked, nor is one that ended, nor, with P%, one whose total nobody knows. With --watch
    /// the mark is all.
    #[arg(long, value_name = "N|P%", conflicts_with_all = ["user", "all"])]
    pub alert_below: Option<AlertBelow>,
}

/// The words that `state` of a row may have.
pub(super) fn state_names() -> impl Iterator<Item = &'static str> {
    let wrong = [Status::NotPreheated, Status::Corrupt].map(Status::name);
    State::ALL.iter().map(|state| state.name()).chain(wrong)
}

impl Selection {
    /// Keeps the rows that are wanted, in the order that is wanted; `row` and `rate` are of an item.
    pub(super) fn apply<T>(
        &self,
        items: &mut Vec<T>,
        row: impl Fn(&T) -> &ActivityRow,
        rate: impl Fn(&T) -> Option<f64>,
    ) {
        if !self.state.is_empty() {
            items.retain(|item| self.state.iter().any(|state| state == row(item).state));
        }
        // The sort is stable: of equal rows the first by id stays first.
        match self.sort {
            None => {}
            Some(SortBy::Stock) => {
                items.sort_by_key(|item| (row(item).stock.is_none(), row(item).stock));
            }
            Some(SortBy::Sold) => {
                items.sort_by_key(|item| (row(item).sold.is_none(), row(item).sold.map(std::cmp::Reverse)));
            }
            Some(SortBy::Rate) => {
                let rate = |item: &T| rate(item).unwrap_or(f64::NEG_INFINITY);
                items.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
            }
        }
    }

    /// Marks rows as `--alert-below` asks, warns of those that are marked, and returns whether any is.
    pub(super) fn mark<'a>(&self, rows: impl Iterator<Item = &'a mut ActivityRow>, warnings: &mut Warnings) -> bool {
        let Some(below) = self.alert_below else { return false };
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
}

/// Percentages are kept in parts of the whole: thousandths of a percent.
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
        let is = |state: State| row.state == state.name();
        // A pause hides that it sold out.
        if [State::SoldOut, State::Ended, State::Archived].into_iter().any(is)
            || is(State::Paused) && row.stock == Some(0)
        {
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
