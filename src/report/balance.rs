//! Whether a sale adds up: total, stock, ledger and participants compared by their sums. An audit compares each user.

use crate::audit::result::Verdict;
use crate::model::names::names;
use crate::model::number::signed;
use crate::model::time::Millis;
use crate::report::Sales;

names! {
    /// What sums say against a sale; the first that applies.
    pub enum Objection {
        /// The ledger does not begin with the preheat or the checkpoint.
        NoBeginning = "no_beginning",
        /// An entry cannot be read.
        Unreadable = "unreadable",
        /// The total is not the one of the ledger.
        Total = "total",
        /// The stock key is gone.
        NoStock = "no_stock",
        /// The stock is not what the ledger leaves.
        Stock = "stock",
        /// Participants hold other units than the ledger says.
        Participants = "participants",
    }
}

/// The sums, at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balance {
    /// The total of the activity.
    pub total: u64,
    /// Units left.
    pub stock: Option<u64>,
    /// Units that users hold by the ledger.
    pub sold: i64,
    /// The sum of the participants' counters; `None` if it was not compared.
    pub counters: Option<u64>,
    /// What does not add up.
    pub objection: Option<Objection>,
    /// When it was first seen that the stock differs.
    pub since: Option<Millis>,
}

impl Balance {
    /// Compares what the ledger says with the stock of the same instant. `counters` is the sum of the participants' counters,
    /// if all of them are known and nothing changed meanwhile.
    pub(crate) fn new(sales: &Sales, epoch: u64, total: u64, stock: Option<u64>, counters: Option<u64>) -> Self {
        let left = |stock| signed(total) - signed(stock);
        let objection = match stock {
            _ if sales.unreadable.is_some() => Some(Objection::Unreadable),
            _ if !sales.is_whole(epoch) => Some(Objection::NoBeginning),
            _ if sales.total != Some(total) => Some(Objection::Total),
            None => Some(Objection::NoStock),
            Some(stock) if left(stock) != sales.sold => Some(Objection::Stock),
            Some(_) if counters.is_some_and(|units| signed(units) != sales.sold) => Some(Objection::Participants),
            Some(_) => None,
        };
        let since = sales.differs_at.filter(|_| objection == Some(Objection::Stock));
        Self { total, stock, sold: sales.sold, counters, objection, since }
    }

    /// The verdict, in the words of an audit.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.objection {
            None => Verdict::Match,
            Some(Objection::NoBeginning | Objection::Unreadable) => Verdict::Unsettled,
            Some(_) => Verdict::Drift,
        }
    }
}
