//! Pairs of runs, and the line of the table that each becomes.

use std::fmt;

/// What is measured, what version 0.1 reached, and what is wanted.
pub struct Figure {
    pub what: &'static str,
    pub before: &'static str,
    pub wanted: &'static str,
}

/// Our figure and the baseline's, of runs one after the other.
pub struct Pair {
    pub ours: f64,
    pub baseline: f64,
}

/// Runs both in turn: the second first in every other pair, so that none always has the warmer caches.
pub fn pairs(mut ours: impl FnMut() -> f64, mut baseline: impl FnMut() -> f64) -> Vec<Pair> {
    (0..super::pairs())
        .map(|nth| {
            if nth % 2 == 0 {
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
    line("", "ours", "baseline", "ratio", "(min-max)", "0.1", "wanted");
}

/// Prints the ratio of each pair, ours to the baseline: both are shown by `unit`.
pub fn print(figure: &Figure, pairs: &[Pair], unit: impl Fn(f64) -> String) {
    let ratios = Spread::of(pairs.iter().map(|pair| pair.ours / pair.baseline));
    let middle = |side: fn(&Pair) -> f64| unit(Spread::of(pairs.iter().map(side)).median);
    let Figure { what, before, wanted } = figure;
    let (ours, baseline) = (middle(|pair| pair.ours), middle(|pair| pair.baseline));
    line(
        what,
        &ours,
        &baseline,
        &format!("{:.2}", ratios.median),
        &ratios.range(|ratio| format!("{ratio:.2}")),
        before,
        wanted,
    );
}

/// Prints our own values if no ratio is asked for, with the median of the baseline, if there is one.
pub fn print_values(figure: &Figure, ours: &[f64], baseline: &[f64], unit: impl Fn(f64) -> String) {
    let spread = Spread::of(ours.iter().copied());
    let beside = if baseline.is_empty() { String::new() } else { unit(Spread::of(baseline.iter().copied()).median) };
    let Figure { what, before, wanted } = figure;
    line(what, &unit(spread.median), &beside, "", &spread.range(&unit), before, wanted);
}

/// Prints that something was not measured, and why.
pub fn skipped(figure: &Figure, why: &str) {
    println!("{:<52} not measured: {why}", figure.what);
}

fn line(what: &str, ours: &str, baseline: &str, ratio: &str, range: &str, before: &str, wanted: &str) {
    println!("{what:<52} {ours:>10} {baseline:>10} {ratio:>6} {range:>20} {before:>12} {wanted:>9}");
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
