//! `reconcile -o prometheus`: each verdict, and how far things differ. Never a user.

use std::time::Duration;

use crate::audit::class::Class;
use crate::audit::result::{Audit, Difference, RecordedUnits, Verdict};
use crate::cli::output::format::prometheus::{Exposition, families};

families! {
    MATCH: Gauge "seckill_reconcile_match", "1 if nothing differs and something proves it.";
    VERDICT: Gauge "seckill_reconcile_verdict", "1 for the verdict of the audit, 0 for the others.";
    STOCK: Gauge "seckill_stock_drift_units", "Units that are for sale beyond what should be; below zero if some are missing.";
    DIFFERENCES: Gauge "seckill_drift_differences", "Differences that the audit found, by class.";
    UNITS: Gauge "seckill_drift_units", "Units by which both sides differ, summed up by class; left out where one side is no number.";
    DURATION: Gauge "seckill_reconcile_duration_seconds", "How long the audit took.";
}

/// Adds everything of these audits.
pub(super) fn add(audits: &[Audit], took: Duration, metrics: &mut Exposition) {
    let of = |audit: &Audit| ("activity", audit.activity.to_string().into());
    metrics.each(MATCH, audits, |audit| ([of(audit)], Some(u8::from(audit.verdict == Verdict::Match))));
    let verdicts = audits.iter().flat_map(|audit| Verdict::ALL.iter().map(move |verdict| (audit, *verdict)));
    metrics.each(VERDICT, verdicts, |(audit, verdict)| {
        ([of(audit), ("verdict", verdict.name().into())], Some(u8::from(audit.verdict == verdict)))
    });
    metrics.each(STOCK, audits, |audit| ([of(audit)], audit.drift));
    let mut by_class = |family, value: fn(&[&Difference]) -> Option<u64>| {
        let classes = audits.iter().flat_map(|audit| Class::ALL.iter().map(move |class| (audit, *class)));
        metrics.each(family, classes, |(audit, class)| {
            let same: Vec<&Difference> = audit.differences.iter().filter(|one| one.class == class).collect();
            ([of(audit), ("class", class.name().into())], value(&same))
        });
    };
    by_class(DIFFERENCES, |same| Some(same.iter().map(|one| one.count.unwrap_or(1)).sum()));
    by_class(UNITS, |same| same.iter().map(|one| units(one)).sum());
    metrics.family(DURATION).add(&[], Some(format!("{:.3}", took.as_secs_f64())));
}

/// By how many units Redis differs from the order records, or else from the ledger.
fn units(difference: &Difference) -> Option<u64> {
    let number = |held: &Option<RecordedUnits>| match held {
        Some(RecordedUnits::Units(units)) => Some(*units),
        _ => None,
    };
    // Its other side would be the limit, which it does not have.
    if difference.class == Class::OverLimit {
        return None;
    }
    let other = number(&difference.orders).or_else(|| number(&difference.ledger))?;
    Some(number(&difference.redis)?.abs_diff(other))
}
