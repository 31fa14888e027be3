//! The preheat of a sharded activity, which is several calls: what is unfinished is kept in the parent's meta, so that the same
//! command resumes it after a cut. And how units are spread over shards.

use std::fmt;
use std::str::FromStr;

use crate::model::activity::rules::PackedRules;

/// What is unfinished of a sharded activity's preheat: the field `plan` of its parent. Its words are separated by single spaces,
/// lists by commas, `-` for none; the title is all the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardPlan {
    /// `start <shards> <old shards>`: the old shards are removed, then the shards become new, with the epoch of the parent's rules,
    /// which are those of the new sale already. Without shards it becomes an activity that has none.
    Start {
        /// The numbers of the shards.
        shards: Vec<u32>,
        /// Numbers of shards of an earlier sale that are not among them.
        old: Vec<u32>,
    },
    /// `update <id> <done> <changes> <rules> <title>`: the total of each shard changes, then the parent says so.
    Update {
        /// Names it in the records of the shards.
        id: String,
        /// By how much the total changed already, by earlier plans of the same update.
        done: i64,
        /// By how much the total of each shard changes.
        changes: Vec<i64>,
        /// The rules of the parent when it is finished, but for the state.
        rules: PackedRules,
        /// Its title then; empty for none.
        title: String,
    },
}

/// The numbers of a list.
fn numbers<T: FromStr + ToString>(text: &str) -> Option<Vec<T>> {
    if text == "-" {
        return Some(Vec::new());
    }
    let number = |word: &str| word.parse::<T>().ok().filter(|number| number.to_string() == word);
    text.split(',').map(number).collect()
}

/// A list of numbers.
fn list<T: ToString>(numbers: &[T]) -> String {
    if numbers.is_empty() {
        return "-".to_owned();
    }
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

impl ShardPlan {
    /// Reads the field; `None` if it is damaged.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.splitn(12, ' ').collect();
        match &words[..] {
            ["start", shards, old] => Some(Self::Start { shards: numbers(shards)?, old: numbers(old)? }),
            ["update", id, done, changes, rules @ .., title] if rules.len() == 7 && !id.is_empty() => {
                Some(Self::Update {
                    id: (*id).to_owned(),
                    done: match &numbers(done)?[..] {
                        [done] => *done,
                        _ => return None,
                    },
                    changes: numbers(changes)?,
                    rules: rules.join(" ").parse().ok()?,
                    title: (*title).to_owned(),
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for ShardPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { shards, old } => write!(formatter, "start {} {}", list(shards), list(old)),
            Self::Update { id, done, changes, rules, title } => {
                write!(formatter, "update {id} {done} {} {rules} {title}", list(changes))
            }
        }
    }
}

/// A number of units spread over shards: as many for each, and one more for the first ones if they cannot all have as many.
pub(crate) fn spread(units: u64, count: usize) -> Vec<u64> {
    let shards = count.max(1) as u64;
    let (each, more) = (units / shards, units % shards);
    (0..shards).map(|shard| each + u64::from(shard < more)).collect()
}

/// How many units each shard gives, so that those who have most give first and what is left is as even as can be; `None` if all of
/// them together have too few.
pub(crate) fn taken(stocks: &[u64], units: u64) -> Option<Vec<u64>> {
    let all: u128 = stocks.iter().map(|stock| u128::from(*stock)).sum();
    let leave = all.checked_sub(u128::from(units))?;
    // The most that every shard may keep: with one unit more each, more than enough would be left.
    let kept = |level: u64| stocks.iter().map(|stock| u128::from((*stock).min(level))).sum::<u128>();
    let (mut level, mut above) = (0, stocks.iter().copied().max().unwrap_or_default() + 1);
    while above - level > 1 {
        let middle = level + (above - level) / 2;
        if kept(middle) <= leave { level = middle } else { above = middle }
    }
    let mut spare = leave - kept(level);
    Some(
        stocks
            .iter()
            .map(|stock| {
                let keeps_more = *stock > level && spare > 0;
                spare -= u128::from(keeps_more);
                stock - (*stock).min(level) - u64::from(keeps_more)
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_as_it_is_written() {
        for text in [
            "start 3,17,29 -",
            "start - 3,17",
            "start 4,5 3,17,29",
            "update 0193a 0 5,5,4 live 1 1 2 14 - - ",
            "update x -7 -5,0 paused 1 3 - 0 5 9 Phone  17, blue",
        ] {
            assert_eq!(ShardPlan::read(text).unwrap().to_string(), text, "{text}");
        }
        let titled = ShardPlan::read("update x 0 1,1 live 1 1 - 2 - - a b").unwrap();
        assert!(matches!(titled, ShardPlan::Update { title, changes, .. } if title == "a b" && changes == [1, 1]));
        for text in [
            "",
            "start",
            "start 3",
            "start 03 -",
            "start 3,x -",
            "start 3 - ",
            "update  0 1 live 1 1 - 2 - - ",
            "update x 0,0 1 live 1 1 - 2 - - ",
            "update x 0 1 live 1 1 - 2 - -",
            "update x 0 1 open 1 1 - 2 - - ",
            "update x +1 1 live 1 1 - 2 - - ",
            "stop 3 -",
        ] {
            assert_eq!(ShardPlan::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn units_are_spread_evenly_and_the_first_get_one_more() {
        assert_eq!(spread(10, 4), [3, 3, 2, 2]);
        assert_eq!(spread(2, 4), [1, 1, 0, 0]);
        assert_eq!(spread(0, 2), [0, 0]);
        assert_eq!(spread(9_007_199_254_740_991, 2), [4_503_599_627_370_496, 4_503_599_627_370_495]);
    }

    #[test]
    fn those_who_have_most_give_first() {
        assert_eq!(taken(&[10, 0, 4], 0), Some(vec![0, 0, 0]));
        assert_eq!(taken(&[10, 0, 4], 3), Some(vec![3, 0, 0]));
        assert_eq!(taken(&[10, 0, 4], 9), Some(vec![7, 0, 2]));
        assert_eq!(taken(&[10, 0, 4], 8), Some(vec![7, 0, 1]));
        assert_eq!(taken(&[10, 0, 4], 14), Some(vec![10, 0, 4]));
        assert_eq!(taken(&[10, 0, 4], 15), None);
        assert_eq!(taken(&[], 0), Some(vec![]));
        for units in 0..=21 {
            let stocks = [7, 1, 0, 9, 4];
            let taken = taken(&stocks, units).unwrap();
            assert_eq!(taken.iter().sum::<u64>(), units);
            let left: Vec<u64> = stocks.iter().zip(&taken).map(|(stock, taken)| stock - taken).collect();
            let given: Vec<u64> =
                left.iter().zip(&taken).filter(|(_, taken)| **taken > 0).map(|(left, _)| *left).collect();
            let most = left.iter().max().unwrap();
            assert!(given.iter().all(|left| left + 1 >= *most), "{units}: {left:?}");
        }
    }
}
