//! A sharded activity as its keys say it.

use std::collections::BTreeMap;

use crate::support::{CLUSTER, Call, Scripts, TestRedis};

/// A fixture of the activity 1001 with that many units and shards.
pub fn fixture(total: u64, shards: usize) -> String {
    format!(
        "layout: cluster\nactivities:\n  - id: 1001\n    title: phone\n    stock: {total}\n    per_user_limit: 2\n    shards: {shards}\n    \
         ends_at: 2100-01-01T00:00:00Z\n"
    )
}

/// A server with it.
pub fn preheated(total: u64, shards: usize) -> TestRedis {
    let redis = TestRedis::start();
    call(&redis, "preheat -").stdin(fixture(total, shards)).code(0);
    redis
}

/// A command in the layout `cluster` whose output is JSON.
pub fn call(redis: &TestRedis, line: &str) -> Call {
    redis.seckill(["-l", "cluster", "-o", "json"]).args(line.split(' '))
}

/// One shard.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub stock: i64,
    pub rules: String,
    pub title: Option<String>,
    pub bought: i64,
    /// Updates that were applied to it.
    pub plans: usize,
}

impl Part {
    fn total(&self) -> i64 {
        self.rules.split(' ').nth(4).unwrap().parse().unwrap()
    }
}

/// The activity 1001.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    pub rules: String,
    pub title: Option<String>,
    pub shards: String,
    pub plan: Option<String>,
    pub parts: BTreeMap<String, Part>,
}

impl Whole {
    /// As it is; shards are those that the parent names.
    #[track_caller]
    pub fn of(redis: &TestRedis) -> Self {
        let meta = redis.hgetall(&CLUSTER.meta("1001"));
        let shards = meta.get("shards").cloned().unwrap_or_default();
        let ids = shards.split(' ').filter(|number| !number.is_empty()).map(|number| format!("1001#{number}"));
        let part = |id: String| {
            let units = |text: &String| text.parse::<i64>().unwrap();
            let part = Part {
                stock: redis.int(&CLUSTER.stock(&id)),
                rules: redis.hget(&CLUSTER.meta(&id), "rules").unwrap(),
                title: redis.hget(&CLUSTER.meta(&id), "title"),
                bought: redis.hgetall(&CLUSTER.participants(&id)).values().map(units).sum(),
                plans: redis.hgetall(&CLUSTER.requests(&id)).keys().filter(|field| field.starts_with("\tu:")).count(),
            };
            (id, part)
        };
        let text = |name: &str| meta.get(name).cloned();
        let rules = meta.get("rules").cloned().unwrap_or_default();
        Self { rules, title: text("title"), plan: text("plan"), parts: ids.map(part).collect(), shards }
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.shards.split(' ').map(|number| number.parse().unwrap()).collect()
    }

    /// The shards, in the order of the homes.
    pub fn ids(&self) -> Vec<String> {
        self.shards.split(' ').map(|number| format!("1001#{number}")).collect()
    }

    pub fn stocks(&self) -> Vec<i64> {
        self.ids().iter().map(|id| self.parts[id].stock).collect()
    }

    /// Sells units of one shard to users of its own, as its script does.
    #[track_caller]
    pub fn sell(&self, redis: &TestRedis, shard: &str, units: usize) {
        let mut scripts = Scripts::of(redis, CLUSTER);
        for index in 0..units {
            let reply = scripts.deduct(shard, (&format!("{shard} {index}"), "1", ""));
            assert!(reply.starts_with("1 "), "{reply}");
        }
    }

    /// Every unit is sold, or left, in a shard; nothing is unfinished.
    #[track_caller]
    pub fn assert_sound(&self, total: i64) {
        assert_eq!(self.plan, None);
        assert_eq!(self.parts.values().map(Part::total).sum::<i64>(), total, "{self:?}");
        assert_eq!(self.rules.split(' ').nth(4).unwrap().parse(), Ok(total), "{self:?}");
        for (id, part) in &self.parts {
            assert_eq!(part.stock + part.bought, part.total(), "{id}: {part:?}");
        }
    }
}

impl Whole {
    /// The shard of a user.
    pub fn home(&self, user: &str) -> String {
        let ids = self.ids();
        ids[crc32fast::hash(user.as_bytes()) as usize % ids.len()].clone()
    }

    /// Sells to a user, as a backend does that knows the shards.
    #[track_caller]
    pub fn sell_to(&self, scripts: &mut Scripts, user: &str, quantity: &str, request: &str) {
        let reply = scripts.deduct(&self.home(user), (user, quantity, request));
        assert!(reply.starts_with("1 "), "{user}: {reply}");
    }
}
