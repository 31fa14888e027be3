//! The activities that a command is for: by name, by pattern, or all that were preheated; and which of them are sharded, with the shards
//! that they have.

use std::collections::{HashSet, VecDeque};
use std::fmt::Display;

use glob::Pattern;

use crate::admin::activities;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::records::Sharded;
use crate::cli::output::{Warnings, named};
use crate::model::{ActivityId, Entry, EntryId, Layout, Shards, Status};
use crate::read::{ledger, snapshot};
use crate::store::Store;

/// Activities that a question names; the others are counted.
pub const MAX_NAMED: usize = 10;

/// The activities that a command line names, each once, with those that match a pattern in its place.
///
/// # Errors
/// A pattern that cannot be read, or that no preheated activity matches.
pub fn resolve(named: &[ActivityId], store: &mut Store) -> Result<Vec<ActivityId>> {
    ActivitySelector::new(named)?.activities(store)
}

/// Whether an argument is the name of one of these activities, or a pattern that one matches.
///
/// # Errors
/// A pattern that cannot be read.
pub fn matches_any(argument: &ActivityId, activities: &[ActivityId]) -> Result<bool> {
    let selector = ActivitySelector::new(std::slice::from_ref(argument))?;
    Ok(selector.among(activities).iter().any(|found| activities.contains(found)))
}

/// Activities as a question names them: one by its name, several with their number.
pub fn in_words<T: Display>(activities: &[T]) -> String {
    let named = named(activities, MAX_NAMED);
    match activities.len() {
        1 => named,
        count => format!("{count} activities ({named})"),
    }
}

/// Whether an argument is a pattern rather than an id. An id may hold these characters too: then `[*]` in a pattern
/// means `*`, and a pattern that is exactly the id of an activity finds that one as well.
pub fn is_pattern(argument: &ActivityId) -> bool {
    argument.as_str().contains(['*', '?', '['])
}

/// Selects named activities in their order, and preheated ones that match a pattern.
#[derive(Debug)]
pub struct ActivitySelector {
    arguments: Vec<(ActivityId, Option<Pattern>)>,
}

impl ActivitySelector {
    /// # Errors
    /// A pattern that cannot be read.
    pub fn new(arguments: &[ActivityId]) -> Result<Self> {
        let read = |argument: &ActivityId| {
            let pattern = is_pattern(argument).then(|| Pattern::new(argument.as_str())).transpose();
            pattern.map(|pattern| (argument.clone(), pattern)).map_err(|error| {
                Failure::usage(format!("`{argument}` is no pattern: {}", error.msg))
                    .hint("`*` means any text, `?` for one character, `[ab]` for one of them, `[*]` for `*` itself, `[[]` for `[`")
            })
        };
        Ok(Self { arguments: arguments.iter().map(read).collect::<Result<_>>()? })
    }

    /// Whether the index has to be asked.
    pub fn needs_index(&self) -> bool {
        self.arguments.is_empty() || self.arguments.iter().any(|(_, pattern)| pattern.is_some())
    }

    /// The activities, each once, out of those that were preheated.
    ///
    /// # Errors
    /// A pattern that nothing fits.
    pub fn activities(&self, store: &mut Store) -> Result<Vec<ActivityId>> {
        let preheated = if self.needs_index() { activities::preheated(store)? } else { Vec::new() };
        if self.arguments.is_empty() {
            return Ok(preheated);
        }
        let mut found = self.among(&preheated);
        for (argument, pattern) in &self.arguments {
            if pattern.is_none() || found.iter().any(|id| fits(id, argument, pattern.as_ref())) {
                continue;
            }
            // Another system may have created one of that very name.
            let names = [Some(argument.clone()), ActivityId::of_pattern(argument)];
            let there = names.into_iter().flatten().find_map(|name| match snapshot::snapshot(store, &name) {
                Ok(found) => (found.status != Status::NotPreheated).then_some(Ok(name)),
                Err(error) => Some(Err(error)),
            });
            found.push(there.transpose()?.ok_or_else(|| nothing_fits(argument, &preheated, store))?);
        }
        Ok(found)
    }

    /// The same for a service, which says what nothing fits, and waits for it: it may be preheated later.
    pub fn fitting(&self, store: &mut Store, warnings: &mut Warnings) -> Result<Vec<ActivityId>> {
        match self.activities(store) {
            Err(failure) if failure.is_own() => {
                warnings.warn(format!("{}; trying again", failure.message));
                Ok(self.among(&activities::preheated(store)?))
            }
            found => found,
        }
    }

    /// The preheated activities that the arguments match, and those that they name.
    pub fn among(&self, preheated: &[ActivityId]) -> Vec<ActivityId> {
        if self.arguments.is_empty() {
            return preheated.to_vec();
        }
        let mut seen = HashSet::new();
        let mut found: Vec<ActivityId> = Vec::new();
        for (argument, pattern) in &self.arguments {
            match pattern {
                None => found.extend(seen.insert(argument).then(|| argument.clone())),
                Some(_) => {
                    let fitting = preheated.iter().filter(|id| fits(id, argument, pattern.as_ref()));
                    found.extend(fitting.filter(|id| seen.insert(id)).cloned());
                }
            }
        }
        found
    }
}

fn fits(id: &ActivityId, argument: &ActivityId, pattern: Option<&Pattern>) -> bool {
    id == argument || pattern.is_some_and(|pattern| pattern.matches(id.as_str()))
}

fn nothing_fits(argument: &ActivityId, preheated: &[ActivityId], store: &Store) -> Failure {
    let layout = store.layout().name();
    let hint = match preheated.len() {
        0 => format!("nothing was preheated in the layout `{layout}`"),
        count => format!("preheated: {count}, `{}` for one; `seckill inspect` lists them", preheated[0]),
    };
    Failure::new(Exit::Refused, format!("no preheated activity fits `{argument}` in the layout `{layout}`")).hint(hint)
}

/// Those of some activities that are sharded.
pub fn find(activities: &[ActivityId], store: &mut Store) -> Result<Sharded> {
    if store.layout() != Layout::Cluster {
        return Ok(Sharded::new());
    }
    let snapshots = snapshot::snapshots(store, activities)?;
    let shards = snapshots.into_iter().filter_map(|found| Some((found.activity, found.meta?.shards?)));
    Ok(shards.collect())
}

/// The activities, each once, with the shards of each that is sharded in its place.
pub fn expand(activities: Vec<ActivityId>, store: &mut Store) -> Result<Vec<ActivityId>> {
    let sharded = find(&activities, store)?;
    let each = |activity: ActivityId| match sharded.get(&activity) {
        Some(shards) => shards.ids(&activity).collect(),
        None => vec![activity],
    };
    let mut seen = HashSet::new();
    Ok(activities.into_iter().flat_map(each).filter(|activity| seen.insert(activity.clone())).collect())
}

/// Gives the entries of several ledgers by their ids, with the place of each ledger: those behind the entry beside it,
/// which becomes the last that was given, and up to `upto`, if that is given. Ends early once `each` returns false.
pub fn each_merged(
    ledgers: &mut [(ActivityId, EntryId)],
    upto: Option<&[EntryId]>,
    store: &mut Store,
    mut each: impl FnMut(&ActivityId, usize, &Entry) -> Result<bool>,
) -> Result<()> {
    let mut pages: Vec<VecDeque<Entry>> = ledgers.iter().map(|_| VecDeque::new()).collect();
    let mut ended = vec![false; ledgers.len()];
    loop {
        for (shard, (activity, after)) in ledgers.iter().enumerate() {
            if pages[shard].is_empty() && !ended[shard] {
                pages[shard].extend(ledger::entries_behind(store, activity, *after)?);
                if let Some(upto) = upto {
                    pages[shard].retain(|entry| entry.id <= upto[shard]);
                }
                ended[shard] = pages[shard].is_empty();
            }
        }
        let next = (0..pages.len()).filter_map(|shard| Some((pages[shard].front()?.id, shard))).min();
        let Some((_, shard)) = next else { return Ok(()) };
        let others = (0..pages.len()).filter(|other| *other != shard);
        let limit = others.filter_map(|other| Some((pages[other].front()?.id, other))).min();
        let (activity, after) = &mut ledgers[shard];
        // As many as come before those of the others.
        while pages[shard].front().is_some_and(|entry| limit.is_none_or(|limit| (entry.id, shard) < limit)) {
            let Some(entry) = pages[shard].pop_front() else { break };
            *after = entry.id;
            if !each(activity, shard, &entry)? {
                return Ok(());
            }
        }
    }
}

/// Refuses a command that is of one shard at a time: `again` is the command for one.
pub fn refuse(activity: &ActivityId, shards: &Shards, what: &str, again: &str) -> Failure {
    let names: Vec<ActivityId> = shards.ids(activity).collect();
    let first = activity.shard(shards.numbers()[0]);
    Failure::usage(format!("`{activity}` is sharded, and {what} is of one shard: {}", named(&names, usize::MAX))).hint(format!(
        "`seckill {again} {first:#}`; `seckill reconcile {activity:#}` and `seckill ledger {activity:#}` are of all shards"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(texts: &[&str]) -> Vec<ActivityId> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn found(arguments: &[&str], preheated: &[&str]) -> Vec<String> {
        let found = ActivitySelector::new(&ids(arguments)).unwrap().among(&ids(preheated));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pattern_finds_what_fits_and_a_name_stays_where_it_is() {
        let preheated = ["sku-1", "sku-2", "sku-10", "手机-1"];
        assert_eq!(found(&["手机-*"], &preheated), ["手机-1"]);
        assert_eq!(found(&["sku-2", "gone", "sku-*", "sku-2"], &preheated), ["sku-2", "gone", "sku-1", "sku-10"]);
    }

    #[test]
    fn an_id_with_brackets_is_found_by_its_own_name() {
        assert_eq!(found(&["[2026]phone"], &["[2026]phone", "2phone"]), ["[2026]phone", "2phone"]);
    }
}
