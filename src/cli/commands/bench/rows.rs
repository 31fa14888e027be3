//! One strategy's row: how fast, how good, and whether it sold what was not there.

use crate::bench::{self, Measured, StrategyName, Until};
use crate::cli::commands::bench::BenchArgs;
use crate::cli::commands::bench::judge::{Judge, Verdict, millis};
use crate::cli::commands::bench::scenario::Terms;
use crate::cli::error::Result;
use crate::cli::failure::Exit;
use crate::cli::output::{Cell, Output, Tone, row};
use crate::model::number::Limit;
use crate::store::Store;

row! {
    pub(super) struct BenchRow as row from (
        strategy: StrategyName, measured: &Measured, oversold: u64, judges: &[Judge]
    ) {
        table "" => row.rank.map_or_else(|| Cell::number("-").tone(Tone::Bad), Cell::number);
        pub strategy: StrategyName = strategy
            => Cell::text(row.strategy.name()).tone(if row.rank.is_some() { Tone::Strong } else { Tone::Dim });
        /// Orders that were answered, a second.
        pub qps: u64 = rate(measured);
        /// Milliseconds; none if nothing was answered.
        pub mean: Option<f64> = measured.mean().map(millis).map(rounded) => time(row.mean), minor;
        pub p50: Option<f64> = percentile(50.0) => time(row.p50);
        pub p90: Option<f64> = percentile(90.0) => time(row.p90);
        pub p99: Option<f64> = percentile(99.0) => time(row.p99);
        pub p99_9: Option<f64> as "p99.9" = percentile(99.9) => time(row.p99_9);
        pub errors: u64 = measured.errors + measured.dropped => bad(row.errors);
        pub retries: u64 = measured.retries => Cell::number(row.retries), minor;
        pub oversold: u64 = oversold => bad(row.oversold);
        pub verdict: Verdict = verdict => Cell::text(row.verdict.name()).tone(match row.verdict {
            Verdict::Ok => Tone::Good,
            Verdict::Warn => Tone::Warn,
            Verdict::Fail => Tone::Bad,
        });
        /// Its place among those that sold no more than there was.
        hidden rank: Option<usize> = None;
    }
    where {
        let percentile = |percent| measured.percentile(percent).map(millis).map(rounded);
        let judged = judges.iter().map(|judge| judge.verdict(measured)).max().unwrap_or(Verdict::Ok);
        let verdict = if oversold > 0 { Verdict::Fail } else { judged };
    }
}

/// Puts the fastest first. Who sold what was not there comes last, without a place.
pub(super) fn rank(rows: &mut [BenchRow]) {
    rows.sort_by_key(|row| (row.oversold > 0, std::cmp::Reverse(row.qps)));
    for (index, row) in rows.iter_mut().enumerate() {
        row.rank = (row.oversold == 0).then_some(index + 1);
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of orders fits")]
fn rate(measured: &Measured) -> u64 {
    measured.per_second().round() as u64
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

row! {
    /// What one strategy would sell.
    pub(super) struct BenchPlan as row {
        strategy: &'static str;
        activities: usize;
        stock: u64;
        per_user_limit: Option<u64> as "limit";
        orders: Option<u64>;
        clients: usize;
    }
}

/// Shows it, after a look at the server: on a cluster each primary gets activities.
pub(super) fn show(args: &BenchArgs, terms: &Terms, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let nodes = bench::primary_count(store)?.unwrap_or(1);
    let orders = match args.until() {
        Until::Orders(orders) => Some(orders),
        Until::Elapsed(_) => None,
    };
    let plans = args.strategies().into_iter().map(|strategy| BenchPlan {
        strategy: strategy.name(),
        activities: terms.items * nodes,
        stock: terms.stock.get(),
        per_user_limit: terms.limit.map(Limit::get),
        orders,
        clients: args.clients,
    });
    let plans: Vec<BenchPlan> = plans.collect();
    out.array(&plans)?;
    Ok(Exit::Done)
}
