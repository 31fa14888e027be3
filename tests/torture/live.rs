//! The keys of the running server against those that its append-only file leads to.

use crate::keys::{Keys, entry_id};
use crate::schedule::Activity;
use crate::servers::Servers;
use crate::support::Layout;

/// What differs: the model would then have followed something else than the server.
pub fn differences(keys: &Keys, layout: &Layout, activity: &Activity, servers: &Servers) -> Vec<String> {
    let mut problems = Vec::new();
    for key in layout.all_keys(&activity.id) {
        let redis = servers.of(&key);
        let kind: String = redis.ask(("TYPE", &key));
        let same = match kind.as_str() {
            "string" => redis.get(&key) == keys.strings.get(&key).cloned(),
            "hash" => Some(&redis.hgetall(&key)) == keys.hashes.get(&key),
            "set" => Some(&redis.smembers(&key)) == keys.sets.get(&key),
            "zset" => {
                let members: std::collections::BTreeSet<String> = redis.ask(("ZRANGE", &key, 0, -1));
                keys.sorted.get(&key) == Some(&members)
            }
            "stream" => {
                let ids = redis.xrange(&key).into_iter().filter_map(|(id, _)| entry_id(&id));
                keys.streams.get(&key).is_some_and(|stream| stream.keys().copied().eq(ids))
            }
            _ => {
                let known = keys.strings.contains_key(&key) || keys.hashes.contains_key(&key);
                !known && !keys.sets.contains_key(&key) && !keys.sorted.contains_key(&key)
            }
        };
        if !same {
            problems.push(format!("{key} ({kind}) is not what the writes lead to"));
        }
    }
    problems
}
