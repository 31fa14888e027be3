//! The activities that a command is for: by name, by pattern, or all that were preheated.

use std::collections::HashSet;

use glob::Pattern;

use crate::admin::activities;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::model::id::ActivityId;
use crate::model::status::Status;
use crate::read::snapshot;
use crate::store::Store;

/// Activities that a question names; the others are counted.
const MAX_NAMED: usize = 10;

/// The activities that a command line names, with those that match a pattern in its place. Without a pattern they are as given.
///
/// # Errors
/// A pattern that cannot be read, or that no preheated activity matches.
pub fn resolve(named: &[ActivityId], store: &mut Store) -> Result<Vec<ActivityId>> {
    match named.is_empty() || named.iter().any(is_pattern) {
        true => ActivitySelector::new(named)?.activities(store),
        false => Ok(named.to_vec()),
    }
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
pub fn in_words(activities: &[&ActivityId]) -> String {
    let named: Vec<String> = activities.iter().take(MAX_NAMED).map(|activity| format!("`{activity}`")).collect();
    match activities.len() {
        1 => named.concat(),
        count if count > named.len() => {
            format!("{count} activities ({} and {} more)", named.join(", "), count - named.len())
        }
        count => format!("{count} activities ({})", named.join(", ")),
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
                    .hint("`*` means any text, `?` for one character, `[ab]` for one of them, `[*]` for `*` itself")
            })
        };
        Ok(Self { arguments: arguments.iter().map(read).collect::<Result<_, Failure>>()? })
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
        let found = self.among(&preheated);
        for (argument, pattern) in &self.arguments {
            if pattern.is_none() || found.iter().any(|id| fits(id, argument, pattern.as_ref())) {
                continue;
            }
            // Another system may have created one of that very name.
            if snapshot::snapshot(store, argument)?.status == Status::NotPreheated {
                return Err(nothing_fits(argument, &preheated, store).into());
            }
            return Ok([found, vec![argument.clone()]].concat());
        }
        Ok(found)
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
        count => format!("{count} are preheated, `{}` for one; `seckill inspect` lists them", preheated[0]),
    };
    Failure::new(Exit::Refused, format!("no preheated activity fits `{argument}` in the layout `{layout}`")).hint(hint)
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
        let preheated = ["sku-1", "sku-2", "sku-10", "手机-1", "a*", "a/b"];
        assert_eq!(found(&[], &preheated), preheated);
        assert_eq!(found(&["sku-?"], &preheated), ["sku-1", "sku-2"]);
        assert_eq!(found(&["手机-*"], &preheated), ["手机-1"]);
        assert_eq!(found(&["sku-2", "gone", "sku-*", "sku-2"], &preheated), ["sku-2", "gone", "sku-1", "sku-10"]);
        assert_eq!(found(&["a*"], &preheated), ["a*", "a/b"]);
        assert_eq!(found(&["a[*]"], &preheated), ["a*"]);
        assert!(found(&["x*"], &preheated).is_empty());
    }

    #[test]
    fn an_id_with_brackets_is_found_by_its_own_name() {
        assert_eq!(found(&["[2026]phone"], &["[2026]phone", "2phone"]), ["[2026]phone", "2phone"]);
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_refused() {
        assert!(ActivitySelector::new(&ids(&["a[b"])).is_err());
    }
}
