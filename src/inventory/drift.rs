//! What an audit says: whether stock, participants, ledger and order records agree, and where they do not.

use serde::{Deserialize, Serialize};

use super::id::ActivityId;
use super::repair::Plan;

/// The outcome of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything agrees.
    Match,
    /// It cannot be told: the activity sells and has no ledger that would settle it, or its ledger lost its beginning.
    Unsettled,
    /// Something differs.
    Drift,
    /// There is no such activity.
    NotPreheated,
}

impl Verdict {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Unsettled => "unsettled",
            Self::Drift => "drift",
            Self::NotPreheated => "not_preheated",
        }
    }
}

/// What a difference means, in the order in which differences are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The total is not stock plus what participants hold.
    Conservation,
    /// A user's counter and the ledger differ.
    CounterDrift,
    /// Units were taken, and no order record has them.
    MissingOrder,
    /// An order record, and Redis does not know it.
    MissingPurchase,
    /// Both know the user, the numbers differ.
    QuantityMismatch,
    /// A user holds more than the limit allows.
    OverLimit,
    /// Order records name ledger entries newer than the ledger's last.
    LostTail,
    /// A key or field holds what it must not.
    Corrupt,
    /// Newer than the order records: no drift.
    Timing,
}

impl Class {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conservation => "conservation",
            Self::CounterDrift => "counter_drift",
            Self::MissingOrder => "missing_order",
            Self::MissingPurchase => "missing_purchase",
            Self::QuantityMismatch => "quantity_mismatch",
            Self::OverLimit => "over_limit",
            Self::LostTail => "lost_tail",
            Self::Corrupt => "corrupt",
            Self::Timing => "timing",
        }
    }

    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Conservation => "stock and what participants hold do not make the total",
            Self::CounterDrift => "a user's units are not what the ledger says",
            Self::MissingOrder => "units were taken, and no order record has them",
            Self::MissingPurchase => "an order record that Redis does not know: oversell ahead",
            Self::QuantityMismatch => "Redis and the order records both know the user, with other numbers",
            Self::OverLimit => "a user holds more than the limit allows",
            Self::LostTail => "order records name ledger entries that are gone",
            Self::Corrupt => "a key or field holds what it must not",
            Self::Timing => "newer than the order records: no drift",
        }
    }
}

/// What one side says: units, or, where it is no number, a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Held {
    /// Units.
    Units(i64),
    /// Something else.
    Text(String),
}

impl std::fmt::Display for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Units(units) => units.fmt(formatter),
            Self::Text(text) => formatter.pad(text),
        }
    }
}

/// One thing that differs, with what each side says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Whom it concerns; `None` for the activity as a whole.
    pub user: Option<String>,
    /// What it means.
    pub class: Class,
    /// Units that Redis holds: of a user, or, for the whole, the stock.
    pub redis: Option<Held>,
    /// Units that the ledger says: of a user, or, for the whole, what the stock should be.
    pub ledger: Option<Held>,
    /// Units that the order records say.
    pub orders: Option<Held>,
}

/// The audit of one activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The activity.
    pub activity: ActivityId,
    /// The outcome.
    pub verdict: Verdict,
    /// Units it was preheated with, or that the caller says.
    pub total: Option<u64>,
    /// Units left.
    pub stock: Option<u64>,
    /// Units that participants hold.
    pub bought: Option<i64>,
    /// What the stock should be: the total less what was bought.
    pub expected_stock: Option<i64>,
    /// How far the stock is from that: above zero where too many are for sale.
    pub drift: Option<i64>,
    /// Everything that differs, sorted by class and user.
    pub differences: Vec<Difference>,
    /// What people should know beside it.
    pub notes: Vec<String>,
    /// What would set it right.
    pub plan: Plan,
}
