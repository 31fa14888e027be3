//! What the stock of a sale moved with, if its counters differ from its ledger.

use crate::audit::evidence::Evidence;
use crate::audit::evidence::mismatch::{Holding, Mismatch};
use crate::model::number::signed;

/// What explains the stock while counters differ from the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explained {
    /// It moved with every counter: the ledger is behind.
    ByCounters,
    /// It moved with the ledger alone: the counters are off.
    ByLedger,
    /// It moved with the ledger for users whose records are gone, and with the counters of the others.
    ByEviction,
    /// None of these.
    Unclear,
}

/// What explains the stock of a sale whose counters differ from its ledger.
pub(super) fn explained(evidence: &Evidence) -> Explained {
    let drifting: Vec<&Mismatch> = evidence
        .mismatches
        .iter()
        .filter(|mismatch| mismatch.ledger.is_some() && mismatch.drift() != Some(0))
        .collect();
    let Some((total, stock)) = evidence.total().zip(evidence.stock()) else { return Explained::Unclear };
    let sold = signed(total).saturating_sub(signed(stock));
    let drifts = |of: &dyn Fn(&Mismatch) -> bool| {
        let drift = drifting.iter().filter(|mismatch| of(mismatch)).map(|mismatch| mismatch.drift());
        drift.sum::<Option<i64>>().map(|drift| evidence.ledger.sum.saturating_add(drift))
    };
    let has_records = evidence.ledger.lists_users();
    let is_known = drifting.iter().all(|mismatch| mismatch.drift().is_some());
    if drifting.is_empty() || drifts(&|_| true) == Some(sold) {
        Explained::ByCounters
    } else if evidence.ledger.sum == sold && (is_known || has_records) {
        Explained::ByLedger
    } else if has_records {
        Explained::ByCounters
    } else if drifting.iter().any(|mismatch| is_evicted(mismatch))
        && drifts(&|mismatch| !is_evicted(mismatch)) == Some(sold)
    {
        Explained::ByEviction
    } else {
        Explained::Unclear
    }
}

/// Whether the ledger knows the user, and the participants don't.
pub(super) fn is_evicted(mismatch: &Mismatch) -> bool {
    mismatch.holds == Holding::Units(0) && mismatch.ledger.is_some_and(|ledger| ledger > 0)
}
