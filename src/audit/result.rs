//! What an audit says: whether stock, participants, ledger and order records agree, and what differs if not.

use serde::Serialize;

use crate::audit::class::Class;
use crate::audit::plan::RepairPlan;
use crate::model::id::{ActivityId, StoredUser};
use crate::model::names::names;

names! {
    /// The outcome of an audit, the best first.
    #[derive(PartialOrd, Ord)]
    pub enum Verdict {
        /// Everything agrees, and something proves it.
        Match = "match",
        /// There is no such activity.
        NotPreheated = "not_preheated",
        /// Nothing differs, but nothing proves that all is well: no whole ledger, no order records, no conclusive total.
        Unproven = "unproven",
        /// It has no ledger and changed during the audit, or its ledger lost its beginning.
        Unsettled = "unsettled",
        /// Something differs.
        Drift = "drift",
    }
}

impl Verdict {
    /// The verdict about several activities: drift, unsettled, unproven and not_preheated each outweigh what comes
    /// after them.
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().max().unwrap_or(Self::Match)
    }
}

names! {
    /// What a verdict rests on, the strongest first.
    pub enum Proof {
        /// The ledger of this sale, without a gap from its beginning on.
        Ledger = "ledger",
        /// Order records.
        Orders = "orders",
        /// The total: every user's units are known, and with the stock they make it.
        Total = "total",
        /// Nothing.
        None = "none",
    }
}

/// What one side of a comparison holds: units, or a text that is no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RecordedUnits {
    /// Units.
    Units(i64),
    /// Something else.
    Text(String),
}

impl std::fmt::Display for RecordedUnits {
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
    pub redis: Option<RecordedUnits>,
    /// Units that the ledger says: of a user, or, for the whole, what the stock should be.
    pub ledger: Option<RecordedUnits>,
    /// Units that the order records say.
    pub orders: Option<RecordedUnits>,
    /// How many users it counts, if they are not named one by one.
    pub count: Option<u64>,
    /// The shard that it concerns, if it is none of a user of a sharded activity, nor of all its shards.
    pub shard: Option<ActivityId>,
}

impl Difference {
    /// What Redis and the ledger have of the activity as a whole.
    pub(crate) fn of(class: Class, redis: Option<RecordedUnits>, ledger: Option<RecordedUnits>) -> Self {
        Self { user: None, class, redis, ledger, orders: None, count: None, shard: None }
    }
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
    /// Of a sharded activity, the units that one shard lent and another has not got yet: they are in no stock. Below zero if units
    /// that are sold in one shard were given back, lent and sold again in another one between the instants of the two.
    pub in_transit: Option<i64>,
    /// Everything that differs, sorted by class and user.
    pub differences: Vec<Difference>,
    /// Warnings.
    pub notes: Vec<String>,
    /// Whether the order records are older than the sale that they mention, and so perhaps of the one before.
    pub records_are_older: bool,
    /// What would set it right.
    pub plan: RepairPlan,
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
