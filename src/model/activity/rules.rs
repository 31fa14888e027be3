//! The field `rules` of an activity's meta: all that a purchase reads, packed in one text.

use std::fmt;
use std::str::FromStr;

use crate::model::names::names;
use crate::model::number::{MAX_UNITS, whole};
use crate::model::time::Millis;

names! {
    /// Whether an activity sells, as it is stored.
    #[derive(Default)]
    pub enum StoredState {
        /// It sells within its window.
        #[default]
        Live = "live",
        /// The operator paused it.
        Paused = "paused",
        /// Its keys were written to files and removed; only its meta is left.
        Archived = "archived",
    }
}

/// `state ledger epoch limit total starts ends`, separated by single spaces, `-` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedRules {
    /// Whether it sells.
    pub state: StoredState,
    /// Whether changes are written to the ledger.
    pub ledger: bool,
    /// One higher with each reset.
    pub epoch: u64,
    /// The most units a user may hold.
    pub per_user_limit: Option<u64>,
    /// Units it was preheated with, updates included.
    pub total: u64,
    /// Purchases are refused before this instant.
    pub starts_at: Option<Millis>,
    /// Purchases are refused from this instant on.
    pub ends_at: Option<Millis>,
}

/// A text that is no packed rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `state ledger epoch limit total starts ends`")]
pub(crate) struct InvalidRules;

impl FromStr for PackedRules {
    type Err = InvalidRules;

    /// As strict as `lua/lib/meta.lua`: a text that either of them accepts, the other accepts.
    fn from_str(text: &str) -> Result<Self, InvalidRules> {
        let number = |text: &str| whole(text).filter(|number| *number <= MAX_UNITS).ok_or(InvalidRules);
        let optional = |text: &str| if text == "-" { Ok(None) } else { number(text).map(Some) };
        let words: Vec<&str> = text.split(' ').collect();
        let &[name, ledger, epoch, limit, total, starts, ends] = &words[..] else { return Err(InvalidRules) };
        Ok(Self {
            state: StoredState::named(name).ok_or(InvalidRules)?,
            ledger: match ledger {
                "0" => false,
                "1" => true,
                _ => return Err(InvalidRules),
            },
            epoch: number(epoch)?,
            per_user_limit: optional(limit)?,
            total: number(total)?,
            starts_at: optional(starts)?.map(Millis::new),
            ends_at: optional(ends)?.map(Millis::new),
        })
    }
}

impl fmt::Display for PackedRules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (ledger, limit) = (u8::from(self.ledger), optional(self.per_user_limit));
        let (starts, ends) = (optional(self.starts_at.map(Millis::get)), optional(self.ends_at.map(Millis::get)));
        write!(formatter, "{} {ledger} {} {limit} {} {starts} {ends}", self.state, self.epoch, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_back_as_they_were_written() {
        for text in ["live 1 3 2 500 - -", "paused 0 1 - 0 0 1794326400000", "archived 1 7 1 9007199254740991 5 -"] {
            assert_eq!(text.parse::<PackedRules>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_but_exactly_seven_words_is_refused() {
        let texts = [
            "|live 1 3 2 500 -|live 1 3 2 500 - - -|live 1 3 2 500 -  -| live 1 3 2 500 - -|live 1 3 2 500 - - ",
            "open 1 3 2 500 - -|live yes 3 2 500 - -|live 1 - 2 500 - -|live 1 03 2 500 - -|live 1 3 1e3 500 - -",
            "live 1 3 2 - - -|live 1 3 2 9007199254740992 - -|live 1 3 2 500 -5 -|live\t1 3 2 500 - -",
        ];
        for text in texts.into_iter().flat_map(|texts| texts.split('|')) {
            assert_eq!(text.parse::<PackedRules>(), Err(InvalidRules), "{text:?}");
        }
    }
}
