//! Orders of units of an activity, and how they ended.

pub(crate) mod hold;

use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::model::id::{ActivityId, RequestId, StoredUser, UserId};
use crate::model::number::{Limit, Quantity};
use crate::model::order::hold::HoldFor;
use crate::model::status::Status;
use crate::model::time::Millis;

/// What is wanted of one activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What is sold.
    pub activity: ActivityId,
    /// Who buys, holds or gives back, in whatever encoding another system recorded it. The layout `product` knows no users, and a
    /// hold that ends needs none, unless its activity is sharded.
    pub user: Option<StoredUser>,
    /// What is wanted.
    pub wish: Wish,
    /// Names the order, so that sending it again changes nothing. A hold is confirmed or released by it.
    pub request: RequestId,
    /// Why, for the ledger.
    pub reason: Option<String>,
}

/// What an order wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Units to buy.
    Buy {
        /// How many.
        quantity: Quantity,
        /// The caller's own limit; holds only for activities that another system preheated.
        per_user_limit: Option<Limit>,
    },
    /// Units until a deadline, for an order that is not paid yet.
    Hold {
        /// How many.
        quantity: Quantity,
        /// How long, from the server's instant on.
        hold_for: HoldFor,
    },
    /// A hold is paid: its units are bought.
    Confirm,
    /// A hold will not be paid: its units return.
    Release,
    /// Units go back.
    Refund(RefundOf),
}

impl Wish {
    /// As fixtures and the ledger name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Buy { .. } => "deduct",
            Self::Hold { .. } => "hold",
            Self::Confirm => "confirm",
            Self::Release => "release",
            Self::Refund(_) => "refund",
        }
    }
}

/// How many units a refund gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefundOf {
    /// That many.
    Quantity(Quantity),
    /// One, because nobody said how many: of an unknown number of units nothing is refunded.
    Default,
    /// All the user holds.
    All,
}

impl RefundOf {
    /// How many; `None` if the user's record says it.
    pub(crate) fn units(self) -> Option<Quantity> {
        match self {
            Self::Quantity(quantity) => Some(quantity),
            Self::Default => Some(Quantity::ONE),
            Self::All => None,
        }
    }
}

/// Each activity once, with the sum of what was asked of it. Orders of the same items share them.
pub(crate) type Items = Arc<[(ActivityId, Quantity)]>;

/// One wish for units of several activities: all of them or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiOrder {
    /// Who buys.
    pub user: Option<UserId>,
    /// What is asked for.
    pub items: Items,
    /// Names the wish.
    pub request: RequestId,
    /// Why, for the ledger.
    pub reason: Option<String>,
}

impl MultiOrder {
    /// The most activities of one order: a bound of the script, far below what Lua could unpack.
    pub(crate) const MAX_ITEMS: usize = 512;
}

/// A key that holds what it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// The key.
    pub key: String,
    /// What it holds, and what it should.
    pub what: String,
}

/// Units that a user holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bought {
    /// This many units.
    Units(u64),
    /// A script of another system recorded the user in the layout `sku`, and no units.
    Unknown,
}

impl Bought {
    /// The units, if they are known.
    pub fn units(self) -> Option<u64> {
        match self {
            Self::Units(units) => Some(units),
            Self::Unknown => None,
        }
    }
}

impl Serialize for Bought {
    /// Null if they are unknown.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.units().serialize(serializer)
    }
}

/// How an order of one activity ended, or an item of one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Units that moved, or would have: what was asked, or all the user held.
    pub quantity: Option<u64>,
    /// Units left after it; `None` if the key is absent.
    pub stock: Option<u64>,
    /// Units the user holds after it; `None` if nothing records it.
    pub bought: Option<Bought>,
    /// Which key is corrupt.
    pub corrupt: Option<Corrupt>,
    /// When the units of a hold return; `None` if nothing is held.
    pub deadline: Option<Millis>,
    /// Whose hold was ended; `None` if there is none of that id.
    pub user: Option<StoredUser>,
}

impl Outcome {
    /// How it ended, and no more.
    pub(crate) fn of(status: Status) -> Self {
        Self { status, quantity: None, stock: None, bought: None, corrupt: None, deadline: None, user: None }
    }

    /// That of an order that found invalid data.
    pub(crate) fn corrupt(corrupt: Corrupt) -> Self {
        Self { corrupt: Some(corrupt), ..Self::of(Status::Corrupt) }
    }
}

/// How one order of several activities ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiOutcome {
    /// `ok`, `replayed` or `refused`.
    pub status: Status,
    /// One for each item, in the order given.
    pub items: Vec<Outcome>,
}

impl MultiOutcome {
    /// The status of the order as a whole, or of the item for which it was refused; and what is corrupt of it.
    pub(crate) fn decisive(&self) -> (Status, Option<Corrupt>) {
        let short = self.items.iter().find(|item| !item.status.is_done() && item.status != Status::Refused);
        let status = short.filter(|_| !self.status.is_done()).map_or(self.status, |item| item.status);
        (status, self.items.iter().find_map(|item| item.corrupt.clone()))
    }
}

/// The longest reason, in bytes: each order of a file may have its own.
pub(crate) const MAX_REASON: usize = 1024;

/// The reason for a change: free text of at most [`MAX_REASON`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason(String);

impl Reason {
    /// What a text must be, for errors.
    pub(crate) const EXPECTED: &'static str = "a reason of 1 to 1,024 bytes";

    /// The text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl FromStr for Reason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.len() {
            0 => Err(format!("it is empty, expected {}", Self::EXPECTED)),
            1..=MAX_REASON => Ok(Self(text.to_owned())),
            length => Err(format!("it has {length} bytes, expected {}", Self::EXPECTED)),
        }
    }
}

/// A reason of the command line.
///
/// # Errors
/// It is empty or too long.
pub(crate) fn given_reason(text: &str) -> Result<String, String> {
    text.parse().map(Reason::into_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_nobody_recorded_are_null() {
        let json = |bought| serde_json::to_string(&bought).unwrap();
        assert_eq!((json(Bought::Units(3)), json(Bought::Unknown)), ("3".to_owned(), "null".to_owned()));
        assert_eq!((Bought::Units(3).units(), Bought::Unknown.units()), (Some(3), None));
    }
}
