//! Activities as a whole: the index of all that were preheated, and what concerns the server they are on.

use crate::error::{Result, StoreError};
use crate::model::id::ActivityId;
use crate::redis::call::Call;
use crate::redis::scan::Scan;
use crate::script::Script;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// What the server does when it is out of memory; `None` if it does not say.
///
/// # Errors
/// Any of [`StoreError`]; a user who may not ask among them.
pub(crate) fn eviction_policy(store: &mut Store) -> Result<Option<String>> {
    let command = redis::cmd("CONFIG").arg("GET").arg("maxmemory-policy").to_owned();
    let reply = Reply::of_command("CONFIG GET");
    let mut policy = None;
    if store.servers.is_cluster() {
        store.servers.discover()?;
    }
    for node in store.servers.primaries() {
        let of_node = reply.text(reply.array(store.servers.call(&Call::at_node(node, &command))?)?.get(1))?;
        // One that evicts is worth a warning, whatever the others do.
        let is_worse = policy.is_none() || of_node.as_deref().is_some_and(|policy| policy != "noeviction");
        policy = if is_worse { of_node } else { policy };
    }
    Ok(policy)
}

/// Loads all scripts, of all kinds, into every primary, so that others can call them by their SHA-1.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn load_scripts(store: &mut Store) -> Result<()> {
    store.servers.discover()?;
    for node in store.servers.primaries() {
        for script in Script::every() {
            store.servers.call(&Call::at_node(node, redis::cmd("SCRIPT").arg("LOAD").arg(script.text)))?;
        }
    }
    Ok(())
}

/// Everything that was preheated in this layout, sorted: numbers by size, then the rest as text.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn preheated(store: &mut Store) -> Result<Vec<ActivityId>> {
    let mut found = Vec::new();
    let index = Keys::index(store.layout);
    let scanned = store.servers.scan(Scan::Set(index), |members| {
        found.extend(texts(members).filter_map(|id| id.parse::<ActivityId>().ok()));
        Ok::<_, StoreError>(())
    });
    scanned.map_err(|error| error.of_key(index))?;
    Ok(sorted(found))
}

/// Activities that another system created with the layout's keys: found by walking the keyspace.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn foreign(store: &mut Store) -> Result<Vec<ActivityId>> {
    let known = preheated(store)?;
    let (before, after) = Keys::stock_pattern(store.layout);
    let pattern = format!("{}*{}", glob_escaped(before), glob_escaped(after));
    let layout = store.layout;
    let mut found = Vec::new();
    store.servers.scan(Scan::Keys(&pattern), |keys| {
        let ids = texts(keys).filter_map(|key| Keys::activity_of(layout, key));
        // In a custom layout a key of ours may look like the stock key of another activity.
        found.extend(ids.filter(|id| layout.check_id(id).is_ok()));
        Ok::<_, StoreError>(())
    })?;
    let known: std::collections::HashSet<ActivityId> = known.into_iter().collect();
    found.retain(|activity| !known.contains(activity));
    Ok(sorted(found))
}

/// The members of a page that are texts.
fn texts<'m>(members: &'m [&[u8]]) -> impl Iterator<Item = &'m str> {
    members.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok())
}

/// Sorted by size if both are numbers of a plausible length, else as text; without doubles, which a scan may give.
fn sorted(mut activities: Vec<ActivityId>) -> Vec<ActivityId> {
    activities.sort_by_cached_key(|activity| {
        let number = crate::model::number::whole(activity.as_str());
        (number.is_none(), number, activity.as_str().to_owned())
    });
    activities.dedup();
    activities
}

/// A text that a pattern of SCAN takes as it is.
fn glob_escaped(text: &str) -> String {
    text.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_sorted_as_people_count() {
        let ids = ["b", "10", "9", "a", "010", "9"].map(|id| id.parse().unwrap()).to_vec();
        let sorted: Vec<String> = sorted(ids).into_iter().map(|id| id.to_string()).collect();
        assert_eq!(sorted, ["9", "10", "010", "a", "b"]);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*[b]"), "a\\*\\[b\\]");
    }
}
