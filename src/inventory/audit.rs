//! What an audit says: whether stock, participants, ledger and order records agree, and what differs if not.

use serde::{Deserialize, Serialize};

use super::id::{ActivityId, StoredUser};
use super::plan::Plan;

/// The outcome of an audit, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything agrees, and something proves it.
    Match,
    /// There is no such activity.
    NotPreheated,
    /// Nothing differs, but nothing proves that all is well: no whole ledger, no order records, no conclusive total.
    Unproven,
    /// It has no ledger and changed during the audit, or its ledger lost its beginning.
    Unsettled,
    /// Something differs.
    Drift,
}

impl Verdict {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::NotPreheated => "not_preheated",
            Self::Unproven => "unproven",
            Self::Unsettled => "unsettled",
            Self::Drift => "drift",
        }
    }

    /// The verdict about several activities: drift, unsettled, unproven and not_preheated each outweigh what comes
    /// after them.
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::Match)
    }
}

/// What a verdict rests on, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The ledger of this sale, without a gap from its beginning on.
    Ledger,
    /// Order records.
    Orders,
    /// The total: every user's units are known, and with the stock they make it.
    Total,
    /// Nothing.
    None,
}

impl Proof {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Orders => "orders",
            Self::Total => "total",
            Self::None => "none",
        }
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
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

/// What one side says: units, or a text that is no number.
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
    pub user: Option<StoredUser>,
    /// What it means.
    pub class: Class,
    /// Units that Redis holds: of a user, or, for the whole, the stock.
    pub redis: Option<Held>,
    /// Units that the ledger says: of a user, or, for the whole, what the stock should be.
    pub ledger: Option<Held>,
    /// Units that the order records say.
    pub orders: Option<Held>,
    /// How many users it stands for, if they are not named one by one.
    pub count: Option<u64>,
}

/// Units that a user took and that no order record has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingOrder {
    /// Who took them; `None` if the layout records nobody.
    pub user: Option<StoredUser>,
    /// How many the records lack.
    pub quantity: u64,
}

/// The audit of one activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The activity.
    pub activity: ActivityId,
    /// The outcome.
    pub verdict: Verdict,
    /// What it rests on.
    pub proof: Proof,
    /// Units it was preheated with, or that the caller says.
    pub total: Option<u64>,
    /// Units left.
    pub stock: Option<u64>,
    /// Units that participants hold.
    pub bought: Option<i64>,
    /// What the stock should be: the total less what was bought.
    pub expected_stock: Option<i64>,
    /// How far the stock is from that: above zero if too many are for sale.
    pub drift: Option<i64>,
    /// Everything that differs, sorted by class and user.
    pub differences: Vec<Difference>,
    /// Warnings.
    pub notes: Vec<String>,
    /// What would set it right.
    pub plan: Plan,
    /// The order rows that would complete the order records, in no order. Of a user who has rows already, the rest.
    pub missing_orders: Vec<MissingOrder>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_verdict_counts() {
        use Verdict::{Drift, Match, NotPreheated, Unproven, Unsettled};
        let falling = [Drift, Unsettled, Unproven, NotPreheated, Match];
        for (at, worst) in falling.into_iter().enumerate() {
            assert_eq!(Verdict::worst(falling[at..].iter().copied()), worst);
        }
        assert_eq!(Verdict::worst([]), Match);
        assert_eq!(falling.map(Verdict::name), ["drift", "unsettled", "unproven", "not_preheated", "match"]);
        let proofs = [Proof::Ledger, Proof::Orders, Proof::Total, Proof::None];
        assert_eq!(serde_json::json!(proofs), serde_json::json!(proofs.map(Proof::name)));
    }
}
