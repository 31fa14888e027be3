//! Sharded activities: shards that lend each other units.

mod audit;
mod cluster;
mod commands;
mod files;
mod inspect;
mod multi;
mod night;
pub mod orders;
mod preheat;
mod removed;
mod sale;
mod sharded;

use crate::support::Scripts;

/// An id of a transfer.
fn transfer(index: u32) -> String {
    format!("{index:040x}")
}

impl Scripts {
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
}
