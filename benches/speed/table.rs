//! The table of what was measured.

/// One line: both sides with their units, and what was wanted of their ratio.
pub struct Line {
    pub what: &'static str,
    pub ours: String,
    pub baseline: String,
    pub ratio: String,
    pub wanted: &'static str,
}

/// Prints lines under headings, in columns.
pub fn print(lines: &[Line]) {
    println!("{:<52} {:>12} {:>12} {:>7}  wanted", "what", "ours", "baseline", "ratio");
    for line in lines {
        println!("{:<52} {:>12} {:>12} {:>7}  {}", line.what, line.ours, line.baseline, line.ratio, line.wanted);
    }
}

/// The middle one of some values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A line from pairs of (ours, baseline), shown by `unit`: the median of each side and of the pairs' ratios.
pub fn paired(what: &'static str, pairs: &[(f64, f64)], unit: impl Fn(f64) -> String, wanted: &'static str) -> Line {
    Line {
        what,
        ours: unit(median(pairs.iter().map(|pair| pair.0))),
        baseline: unit(median(pairs.iter().map(|pair| pair.1))),
        ratio: format!("{:.2}", median(pairs.iter().map(|pair| pair.0 / pair.1))),
        wanted,
    }
}
