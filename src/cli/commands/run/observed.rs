//! How a step ended, in the words that `expect` and the table use.

use crate::model::order::Corrupt;

#[derive(Debug, Default)]
pub struct Observed {
    /// The name of its status, or of its verdict.
    pub word: &'static str,
    /// Counts that can be expected; those of absent keys are not among them.
    pub counts: Vec<(&'static str, u64)>,
    /// Which items of a multi-deduct fell short, in words.
    pub short: String,
    pub corrupt: Option<Corrupt>,
    /// Whether Ctrl-C ended it before it was done.
    pub cut_short: bool,
}

/// The counts that are there.
pub fn known<const N: usize>(counts: [(&'static str, Option<u64>); N]) -> Vec<(&'static str, u64)> {
    counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect()
}

/// `stock 48, bought 2`: some counts in words.
pub fn in_words(counts: &[(&str, u64)]) -> String {
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}
