//! Which rows are shown, and in which order: states, a column to sort by.

use std::cmp::Ordering;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::cli::commands::inspect::rows::ActivityRow;
use crate::model::activity::State;
use crate::model::status::Status;
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
    /// upcoming, live, sold_out, paused, ended, not_preheated or corrupt. The exit code covers all activities that were
    /// read, also those that are not shown.
    #[arg(long, value_name = "STATE", value_delimiter = ',', hide_possible_values = true, value_parser = states(), conflicts_with_all = ["user", "all"])]
    pub state: Vec<&'static str>,
    /// Sort by rate, stock or sold
    ///
    /// The highest rate, the most sold or the fewest left come first; what is not known comes last. Rates need two
    /// readings, so `rate` is for --watch.
    #[arg(long, value_name = "COLUMN", value_enum, hide_possible_values = true, conflicts_with_all = ["user", "all"])]
    pub sort: Option<SortBy>,
}

/// The words that `state` of a row may have.
fn states() -> impl TypedValueParser<Value = &'static str> {
    let wrong = [Status::NotPreheated, Status::Corrupt].map(Status::name);
    let names: Vec<&'static str> = State::ALL.iter().map(|state| state.name()).chain(wrong).collect();
    let name = {
        let names = names.clone();
        move |text: String| names.iter().copied().find(|name| *name == text).ok_or("unknown state")
    };
    PossibleValuesParser::new(names).try_map(name)
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
            items.retain(|item| self.state.contains(&row(item).state));
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
            Some(SortBy::Rate) => items.sort_by(|one, other| match (rate(one), rate(other)) {
                (Some(one), Some(other)) => other.total_cmp(&one),
                (one, other) => {
                    if one.is_some() == other.is_some() {
                        Ordering::Equal
                    } else {
                        other.is_some().cmp(&one.is_some())
                    }
                }
            }),
        }
    }
}
