//! One strategy's row: how fast, how good, and whether it sold what was not there. Its verdict is by thresholds: `p99<300ms:800ms` is
//! `ok` below 300 ms, `warn` below 800 ms, else `fail`.

use std::str::FromStr;
use std::time::Duration;

use crate::bench::{self, Measured, StrategyName};
use crate::cli::commands::bench::BenchArgs;
use crate::cli::commands::bench::scenario::Terms;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Cell, Output, Tone, row};
use crate::model::Limit;
use crate::model::names::names;
use crate::store::Store;

row! {
    pub(super) struct BenchRow as row from (
        strategy: StrategyName, measured: &Measured, oversold: u64, thresholds: &[Threshold]
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
        let judged = thresholds.iter().map(|threshold| threshold.verdict(measured)).max().unwrap_or(Verdict::Ok);
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

// A rate of orders fits.
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
    pub(super) struct BenchPlan as row from (of: StrategyName, args: &BenchArgs, terms: &Terms, nodes: usize) {
        strategy: &'static str = of.name();
        activities: usize = terms.items * nodes;
        stock: u64 = terms.stock.get();
        per_user_limit: Option<u64> as "limit" = terms.limit.map(Limit::get);
        orders: Option<u64> = args.until().orders();
        clients: usize = args.clients;
    }
}

/// Shows it, after a look at the server: on a cluster each primary gets activities.
pub(super) fn show(args: &BenchArgs, terms: &Terms, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let nodes = bench::primary_count(store)?.unwrap_or(1);
    let plan = |strategy| BenchPlan::new(strategy, args, terms, nodes);
    let plans: Vec<BenchPlan> = args.strategies().into_iter().map(plan).collect();
    out.array(&plans)?;
    Ok(Exit::Done)
}

names! {
    /// What a run is worth.
    #[derive(PartialOrd, Ord)]
    pub enum Verdict {
        Ok = "ok",
        Warn = "warn",
        Fail = "fail",
    }
}

names! {
    /// What a threshold is for.
    pub enum Metric {
        Qps = "qps",
        Mean = "mean",
        P50 = "p50",
        P90 = "p90",
        P99 = "p99",
        P999 = "p99.9",
        Errors = "errors",
        Retries = "retries",
    }
}

/// One threshold; times are in milliseconds, errors and retries in percent of the orders.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Threshold {
    pub metric: Metric,
    /// Whether less is better.
    is_below: bool,
    good: f64,
    bad: f64,
}

/// What a text should be that is no threshold.
const EXPECTED: &str = "expected METRIC<GOOD:BAD such as `p99<300ms:800ms` or `errors<0.5%:2%`, or `qps>500:200`; metrics are qps, \
                        mean, p50, p90, p99, p99.9, errors and retries";

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or(EXPECTED)?;
        let (name, is_below) = (text[..at].trim(), text[at..].starts_with('<'));
        // As the column is called.
        let name = if name == "p99_9" { "p99.9" } else { name };
        let metric = Metric::named(name).ok_or(EXPECTED)?;
        let values = &text[at + 1..];
        let (good, bad) = values.split_once(':').unwrap_or((values, values));
        let [good, bad] = [good, bad].map(|value| metric.read(value.trim()));
        let (good, bad) = (good?, bad?);
        if is_below != (metric != Metric::Qps) {
            let wanted = if is_below { "more is better, so write `>`" } else { "less is better, so write `<`" };
            return Err(format!("of {metric} {wanted}; {EXPECTED}"));
        }
        if if is_below { bad < good } else { bad > good } {
            return Err(format!("the first value is the good one, and the second no better; {EXPECTED}"));
        }
        Ok(Self { metric, is_below, good, bad })
    }
}

impl Metric {
    /// A value with its unit.
    fn read(self, text: &str) -> Result<f64, String> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let expected = match self {
            Self::Qps => match number(text) {
                Some(number) => return Ok(number),
                None => "a number such as 500",
            },
            Self::Errors | Self::Retries => match text.strip_suffix('%').and_then(number) {
                Some(percent) => return Ok(percent),
                None => "a percentage of the orders such as 0.5%",
            },
            _ => match humantime::parse_duration(text) {
                Ok(duration) => return Ok(millis(duration)),
                Err(_) => "a duration such as 300ms",
            },
        };
        Err(format!("`{}` is no value of {self}: expected {expected}", text.escape_debug()))
    }

    /// What was measured; `None` if nothing was answered.
    // A share is compared, not counted with.
    fn of(self, measured: &Measured) -> Option<f64> {
        let orders = measured.answers() + measured.errors + measured.dropped;
        let share = |count: u64| 100.0 * count as f64 / orders.max(1) as f64;
        match self {
            Self::Qps => Some(measured.per_second()),
            Self::Mean => measured.mean().map(millis),
            Self::P50 => measured.percentile(50.0).map(millis),
            Self::P90 => measured.percentile(90.0).map(millis),
            Self::P99 => measured.percentile(99.0).map(millis),
            Self::P999 => measured.percentile(99.9).map(millis),
            Self::Errors => Some(share(measured.errors + measured.dropped)),
            Self::Retries => Some(share(measured.retries)),
        }
    }
}

impl Threshold {
    /// What a run is worth by this threshold.
    pub(super) fn verdict(&self, measured: &Measured) -> Verdict {
        self.metric.of(measured).map_or(Verdict::Fail, |value| self.verdict_of(value))
    }

    fn verdict_of(&self, value: f64) -> Verdict {
        let keeps = |bound: f64| if self.is_below { value < bound } else { value > bound };
        match (keeps(self.good), keeps(self.bad)) {
            (true, _) => Verdict::Ok,
            (false, true) => Verdict::Warn,
            (false, false) => Verdict::Fail,
        }
    }
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts<const N: usize>(threshold: &str, values: [f64; N]) -> [Verdict; N] {
        let threshold: Threshold = threshold.parse().unwrap();
        values.map(|value| threshold.verdict_of(value))
    }

    #[test]
    fn a_threshold_has_a_good_and_a_bad_value() {
        use Verdict::{Fail, Ok, Warn};
        assert_eq!(verdicts("p99<300ms:800ms", [0.0, 299.9, 300.0, 799.0, 800.0]), [Ok, Ok, Warn, Warn, Fail]);
        assert_eq!(verdicts("errors < 0.5% : 2%", [0.4, 0.5, 2.0]), [Ok, Warn, Fail]);
        assert_eq!(verdicts("qps>500:200", [501.0, 500.0, 200.0]), [Ok, Warn, Fail]);
        assert_eq!(verdicts("p99_9<1s", [999.0, 1000.0]), [Ok, Fail]);
        assert_eq!(verdicts("mean<250us:1ms", [0.2, 0.5, 1.0]), [Ok, Warn, Fail]);
    }

    #[test]
    fn what_is_no_threshold_says_what_one_is() {
        for (text, says) in [
            ("p99", "expected METRIC<GOOD:BAD"),
            ("p42<1ms:2ms", "metrics are qps,"),
            ("p99<1:2", "`1` is no value of p99: expected a duration such as 300ms"),
            ("errors<1:2", "`1` is no value of errors: expected a percentage"),
            ("errors<-1%:2%", "`-1%` is no value"),
            ("qps>nan:1", "`nan` is no value of qps"),
            ("qps<500:200", "of qps more is better, so write `>`"),
            ("p99>1ms:2ms", "of p99 less is better, so write `<`"),
            ("p99<800ms:300ms", "the first value is the good one"),
        ] {
            let error = text.parse::<Threshold>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
