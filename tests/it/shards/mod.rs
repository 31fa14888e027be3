//! Sharded activities: shards that lend each other units.

mod admin_scripts;
mod audit;
mod audit_live;
mod cluster;
mod commands;
mod cut;
mod files;
mod inspect;
mod mode_borrow;
mod model;
mod multi;
mod night;
mod orders;
mod pause;
mod preheat;
mod preheat_cut;
mod preheat_failover;
mod removed;
mod sale;
mod sharded;
mod transfers;

use crate::support::{CLUSTER, Scripts, TestRedis};

/// An id of a transfer.
fn transfer(index: u32) -> String {
    format!("{index:040x}")
}

impl Scripts {
    /// Two shards of activity 1; the first has all units.
    fn two_shards(redis: &TestRedis, total: &str) -> Self {
        let mut scripts = Self::of(redis, CLUSTER);
        scripts.preheat("1#3", total);
        scripts.preheat("1#9", "0");
        scripts
    }

    /// Lends units of a shard to shard 9.
    fn lend(&mut self, donor: &str, id: &str, need: &str, want: &str, finished: &str) -> String {
        let keys = &self.layout.keys(donor)[..4];
        self.call("lend", keys, &["tester", id, "1", "9", need, want, finished])
    }

    /// Gives shard 1#9 units of shard 3.
    fn borrow(&mut self, id: &str, epoch: &str, units: &str) -> String {
        let keys = &self.layout.keys("1#9")[..4];
        self.call("borrow", keys, &["tester", id, epoch, "3", units])
    }

    fn peek(&mut self, shard: &str) -> String {
        let keys = &self.layout.keys(shard)[..4];
        self.call("peek", keys, &[])
    }
}

/// Stock and total of a shard, and the operations of its ledger behind the first entry.
fn state(redis: &TestRedis, shard: &str) -> (i64, String, Vec<String>) {
    let rules = redis.hget(&CLUSTER.meta(shard), "rules").unwrap();
    let total = rules.split(' ').nth(4).unwrap().to_owned();
    let ops = redis.xrange(&CLUSTER.key(4, shard)).into_iter().skip(1).map(|(_, entry)| entry["op"].clone()).collect();
    (redis.int(&CLUSTER.stock(shard)), total, ops)
}
