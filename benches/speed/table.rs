//! Pairs of runs, and the line of the table that each becomes.

use std::fmt;

use super::server::Run;

/// What is measured, and what is wanted.
pub struct Figure {
    pub what: &'static str,
    pub wanted: &'static str,
}

/// What our run and the baseline's gave, one after the other.
pub struct Pair<T> {
    pub ours: T,
    pub baseline: T,
}

/// Runs both in turn: the second first in every other pair, so that none always has the warmer caches.
pub fn pairs<T>(mut ours: impl FnMut() -> T, mut baseline: impl FnMut() -> T) -> Vec<Pair<T>> {
    (0..super::pairs())
        .map(|index| {
            if index % 2 == 0 {
                let ours = ours();
                Pair { ours, baseline: baseline() }
            } else {
                let baseline = baseline();
                Pair { ours: ours(), baseline }
            }
        })
        .collect()
}

/// The headings of the table.
pub fn headings() {
    line("", "ours", "baseline", "ratio", "(min-max)", "wanted");
}

/// Prints the ratio of each pair, ours to the baseline: both are shown by `unit`.
pub fn print(figure: &Figure, pairs: &[Pair<f64>], unit: impl Fn(f64) -> String) {
    let ratios = Spread::of(pairs.iter().map(|pair| pair.ours / pair.baseline));
    let middle = |side: fn(&Pair<f64>) -> f64| unit(Spread::of(pairs.iter().map(side)).median);
    let Figure { what, wanted } = figure;
    let (ours, baseline) = (middle(|pair| pair.ours), middle(|pair| pair.baseline));
    line(
        what,
        &ours,
        &baseline,
        &format!("{:.2}", ratios.median),
        &ratios.range(|ratio| format!("{ratio:.2}")),
        wanted,
    );
}

/// Prints orders a second, by the clock and, in a second line, by the server's processor time.
pub fn print_rates(figure: &Figure, orders: usize, pairs: &[Pair<Run>]) {
    let rates = |cost: fn(&Run) -> f64| -> Vec<Pair<f64>> {
        let rate = |run: &Run| orders as f64 / cost(run);
        pairs.iter().map(|pair| Pair { ours: rate(&pair.ours), baseline: rate(&pair.baseline) }).collect()
    };
    let unit = |rate: f64| format!("{:.0}k/s", rate / 1e3);
    print(figure, &rates(|run| run.seconds), unit);
    print(&Figure { what: "  by the server's time", wanted: figure.wanted }, &rates(|run| run.busy), unit);
}

/// Prints our own values if no ratio is asked for, with the median of the baseline, if there is one.
pub fn print_values(figure: &Figure, ours: &[f64], baseline: &[f64], unit: impl Fn(f64) -> String) {
    let spread = Spread::of(ours.iter().copied());
    let beside = if baseline.is_empty() { String::new() } else { unit(Spread::of(baseline.iter().copied()).median) };
    let Figure { what, wanted } = figure;
    line(what, &unit(spread.median), &beside, "", &spread.range(&unit), wanted);
}

/// Prints that something was not measured, and why.
pub fn skipped(figure: &Figure, why: &str) {
    println!("{:<52} not measured: {why}", figure.what);
}

fn line(what: &str, ours: &str, baseline: &str, ratio: &str, range: &str, wanted: &str) {
    println!("{what:<52} {ours:>10} {baseline:>10} {ratio:>6} {range:>20} {wanted:>9}");
}

/// The middle and the ends of some values.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self { least: values[0], median: values[values.len() / 2], most: values[values.len() - 1] }
    }

    fn range<T: fmt::Display>(&self, unit: impl Fn(f64) -> T) -> String {
        format!("({}-{})", unit(self.least), unit(self.most))
    }
}
