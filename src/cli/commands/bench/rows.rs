//! One strategy's row: how fast, how good, and whether it sold what was not there.

use serde::Serialize;

use crate::bench::{Measured, StrategyName};
use crate::cli::commands::bench::judge::{Judge, Verdict, millis};
use crate::cli::output::columns;
use crate::cli::output::{Cell, Tone};

#[derive(Debug, Serialize)]
pub struct BenchRow {
    pub strategy: StrategyName,
    /// Orders that were answered, a second.
    pub qps: u64,
    /// Milliseconds; none if nothing was answered.
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    pub errors: u64,
    pub retries: u64,
    pub oversold: u64,
    pub verdict: Verdict,
    /// Its place among those that sold no more than there was.
    #[serde(skip)]
    rank: Option<usize>,
}

columns!(row: BenchRow {
    table "" => row.rank.map_or_else(|| Cell::number("-").tone(Tone::Bad), Cell::number);
    strategy => Cell::text(row.strategy.name()).tone(if row.rank.is_some() { Tone::Strong } else { Tone::Dim });
    qps;
    mean => time(row.mean).minor();
    p50 => time(row.p50);
    p90 => time(row.p90);
    p99 => time(row.p99);
    p99_9 as "p99.9" => time(row.p99_9);
    errors => bad(row.errors);
    retries => Cell::number(row.retries).minor();
    oversold => bad(row.oversold);
    verdict => Cell::text(row.verdict.name()).tone(match row.verdict {
        Verdict::Ok => Tone::Good,
        Verdict::Warn => Tone::Warn,
        Verdict::Fail => Tone::Bad,
    });
});

impl BenchRow {
    pub fn new(strategy: StrategyName, measured: &Measured, oversold: u64, judges: &[Judge]) -> Self {
        let percentile = |percent| measured.percentile(percent).map(millis).map(rounded);
        let judged = judges.iter().map(|judge| judge.verdict(measured)).max().unwrap_or(Verdict::Ok);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of orders fits")]
        let qps = measured.per_second().round() as u64;
        Self {
            strategy,
            qps,
            mean: measured.mean().map(millis).map(rounded),
            p50: percentile(50.0),
            p90: percentile(90.0),
            p99: percentile(99.0),
            p99_9: percentile(99.9),
            errors: measured.errors + measured.dropped,
            retries: measured.retries,
            oversold,
            verdict: if oversold > 0 { Verdict::Fail } else { judged },
            rank: None,
        }
    }
}

/// Puts the fastest first. Who sold what was not there comes last, without a place.
pub fn rank(rows: &mut [BenchRow]) {
    rows.sort_by_key(|row| (row.oversold > 0, std::cmp::Reverse(row.qps)));
    for (nth, row) in rows.iter_mut().enumerate() {
        row.rank = (row.oversold == 0).then_some(nth + 1);
    }
}

/// Microseconds are as fine as it gets.
fn rounded(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

/// Three digits or so, which is what the histogram keeps.
fn time(millis: Option<f64>) -> Cell {
    let digits = |millis: f64| match millis {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    Cell::known(millis.map(|millis| format!("{millis:.*}", digits(millis))))
}

fn bad(count: u64) -> Cell {
    let cell = Cell::number(count);
    if count > 0 { cell.tone(Tone::Bad) } else { cell }
}
