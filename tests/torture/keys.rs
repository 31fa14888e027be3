//! What the keys of an activity say of its units.

use std::collections::BTreeMap;

use crate::servers::Servers;
use crate::support::Layout;

/// The units of an activity.
#[derive(Debug, PartialEq)]
pub struct Units {
    pub total: i64,
    pub stock: i64,
    /// Units that a pause took from the stock.
    pub withdrawn: i64,
    /// Who has how many; empty if the layout knows no users.
    pub held: BTreeMap<String, i64>,
}

impl Units {
    pub fn read(servers: &Servers, layout: Layout, id: &str) -> Self {
        let redis = servers.of(&layout.stock(id));
        let meta = redis.hgetall(&layout.meta(id));
        let total = meta.get("rules").and_then(|rules| rules.split(' ').nth(4)?.parse().ok()).unwrap_or(0);
        let number = |(user, units): (String, String)| (user, units.parse().unwrap());
        let units_of = |key: &str| redis.hgetall(key).into_iter().map(number);
        let held = match layout.kind {
            "counter" => BTreeMap::new(),
            "hash" => units_of(&layout.participants(id)).collect(),
            kind => {
                let members = redis.smembers(&layout.participants(id)).into_iter().map(|user| (user, 1));
                let more = (kind == "set").then(|| units_of(&layout.key(6, id)));
                members.chain(more.into_iter().flatten()).collect()
            }
        };
        let withdrawn = meta.get("withdrawn").map_or(0, |units| units.parse().unwrap());
        Self { total, stock: redis.int(&layout.stock(id)), withdrawn, held }
    }
}
