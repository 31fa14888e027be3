//! `reconcile -o prometheus`: each verdict, and how far things differ. Never a user.

use std::time::Duration;

use crate::audit::class::Class;
use crate::audit::result::{Audit, Difference, RecordedUnits, Verdict};
use crate::cli::output::format::prometheus::{Exposition, Family, Kind};

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: Kind::Gauge }
}

const MATCH: Family = gauge("seckill_reconcile_match", "1 if nothing differs and something proves it.");
const VERDICT: Family = gauge("seckill_reconcile_verdict", "1 for the verdict of the audit, 0 for the others.");
const STOCK: Family = gauge(
    "seckill_stock_drift_units",
    "Units that are for sale beyond what should be; below zero if some are missing.",
);
const DIFFERENCES: Family = gauge("seckill_drift_differences", "Differences that the audit found, by class.");
const UNITS: Family = gauge(
    "seckill_drift_units",
    "Units by which both sides differ, summed up by class; left out where one side is no number.",
);
const DURATION: Family = gauge("seckill_reconcile_duration_seconds", "How long the audit took.");

/// Adds everything of these audits.
pub(super) fn add(audits: &[Audit], took: Duration, metrics: &mut Exposition) {
    let mut samples = metrics.family(MATCH);
    for audit in audits {
        samples.add(&[("activity", audit.activity.as_str())], Some(u8::from(audit.verdict == Verdict::Match)));
    }
    let mut samples = metrics.family(VERDICT);
    for audit in audits {
        for verdict in Verdict::ALL {
            let labels = [("activity", audit.activity.as_str()), ("verdict", verdict.name())];
            samples.add(&labels, Some(u8::from(audit.verdict == *verdict)));
        }
    }
    let mut samples = metrics.family(STOCK);
    for audit in audits {
        samples.add(&[("activity", audit.activity.as_str())], audit.drift);
    }
    by_class(audits, DIFFERENCES, metrics, |same| Some(same.iter().map(|one| one.count.unwrap_or(1)).sum()));
    by_class(audits, UNITS, metrics, |same| same.iter().map(|one| units(one)).sum());
    metrics.family(DURATION).add(&[], Some(format!("{:.3}", took.as_secs_f64())));
}

fn by_class(audits: &[Audit], family: Family, metrics: &mut Exposition, value: impl Fn(&[&Difference]) -> Option<u64>) {
    let mut samples = metrics.family(family);
    for audit in audits {
        for class in Class::ALL {
            let same: Vec<&Difference> = audit.differences.iter().filter(|one| one.class == *class).collect();
            samples.add(&[("activity", audit.activity.as_str()), ("class", class.name())], value(&same));
        }
    }
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
