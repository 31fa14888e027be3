//! What the stock of a sale moved with, if its counters differ from its ledger.

use crate::inventory::evidence::{Facts, Finding, Holding, signed};

/// What explains the stock while counters differ from the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explained {
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
pub fn explained(facts: &Facts) -> Explained {
    let drifting: Vec<&Finding> =
        facts.findings.iter().filter(|finding| finding.ledger.is_some() && finding.drift() != Some(0)).collect();
    let Some((total, stock)) = facts.total().zip(facts.stock()) else { return Explained::Unclear };
    let sold = signed(total).saturating_sub(signed(stock));
    let drifts = |of: &dyn Fn(&Finding) -> bool| {
        let drift = drifting.iter().filter(|finding| of(finding)).map(|finding| finding.drift());
        drift.sum::<Option<i64>>().map(|drift| facts.book.sum.saturating_add(drift))
    };
    let has_records = facts.book.lists_users();
    let is_known = drifting.iter().all(|finding| finding.drift().is_some());
    if drifting.is_empty() || drifts(&|_| true) == Some(sold) {
        Explained::ByCounters
    } else if facts.book.sum == sold && (is_known || has_records) {
        Explained::ByLedger
    } else if has_records {
        Explained::ByCounters
    } else if drifting.iter().any(|finding| is_evicted(finding))
        && drifts(&|finding| !is_evicted(finding)) == Some(sold)
    {
        Explained::ByEviction
    } else {
        Explained::Unclear
    }
}

/// Whether the ledger knows the user, and the participants don't.
pub fn is_evicted(finding: &Finding) -> bool {
    finding.holds == Holding::Units(0) && finding.ledger.is_some_and(|ledger| ledger > 0)
}
