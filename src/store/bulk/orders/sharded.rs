//! Rows of sharded activities: each goes to the shard that is its user's home, or to the one that has its hold.

use redis::Value;

use super::SingleOrders;
use super::queue::Queue;
use super::window::{Row, State};
use crate::inventory::hold::HoldRecord;
use crate::store::bulk::HoldsWanted;
use crate::store::bulk::job::JobStates;
use crate::store::shards::MEMORY;

/// Rows whose shards are looked for at once.
pub(super) const MOST_PLACED: usize = 1000;

/// The records of holds in a reply to HMGET; none of what is no hash.
fn records(reply: Value) -> Vec<Option<HoldRecord>> {
    let Value::Array(values) = reply else { return Vec::new() };
    let record = |value| match value {
        Value::BulkString(record) => HoldRecord::read(&record),
        _ => None,
    };
    values.into_iter().map(record).collect()
}

impl SingleOrders {
    /// A sharded activity was found: its rows that wait go to its shards.
    pub(super) fn split_rows(&mut self, states: &JobStates, parent: u32) {
        self.queues.resize_with(states.count(), Queue::new);
        let is_alone = self.queues[parent as usize].is_alone;
        self.queues[parent as usize] = Queue::new();
        for shard in states.shards(parent) {
            self.queues[*shard as usize].is_alone = true;
        }
        let (first, end) = self.window.span();
        for number in first..end {
            let row = self.window.row(number);
            if row.activity != parent || row.state != State::Waiting {
                continue;
            }
            if self.operation.settles() {
                self.queues[parent as usize].is_alone |= is_alone;
                self.window.row_mut(number).state = State::Sent;
                self.unplaced.push_back(number);
            } else {
                let [user, ..] = self.window.texts(row);
                let shard = states.home(parent, user);
                self.move_row(states, number, shard);
            }
        }
    }

    /// The holds of rows of which nobody has looked yet in which shard they are.
    pub(super) fn unplaced_holds(&self, states: &JobStates) -> Option<HoldsWanted> {
        let first = self.unplaced.front()?;
        let parent = self.window.row(*first).activity;
        let rows = self.unplaced.iter().take(MOST_PLACED).map(|number| self.window.row(*number));
        let rows: Vec<&Row> = rows.take_while(|row| row.activity == parent).collect();
        let commands = states.shards(parent).iter().map(|shard| {
            let keys = states.keys(*shard);
            let mut command = redis::cmd("HMGET");
            command.arg(&keys.requests);
            for row in &rows {
                let [request, ..] = self.window.texts(row);
                command.arg([b"\th:", request].concat());
            }
            (keys.slot(), keys.requests, command)
        });
        Some(HoldsWanted { count: rows.len(), commands: commands.collect() })
    }

    /// Gives such rows to the shards that have their holds.
    pub(super) fn place_rows(&mut self, states: &JobStates, wanted: &HoldsWanted, replies: Vec<Value>) {
        let found: Vec<Vec<Option<HoldRecord>>> = replies.into_iter().map(records).collect();
        for nth in 0..wanted.count {
            let Some(number) = self.unplaced.pop_front() else { return };
            let row = self.window.row(number);
            let shards = states.shards(row.activity);
            let held = found.iter().enumerate().find_map(|(place, records)| {
                let record = records.get(nth)?.as_ref()?;
                Some((place, u32::try_from(record.quantity).unwrap_or(u32::MAX)))
            });
            // What nobody holds is for one shard to say, always the same.
            let [request, ..] = self.window.texts(row);
            let (shard, quantity) = match held {
                Some((place, quantity)) => (shards[place], quantity),
                None => (states.home(row.activity, request), 0),
            };
            self.window.row_mut(number).quantity = quantity;
            self.move_row(states, number, shard);
        }
    }

    /// A row that waits under the name of a sharded activity goes to a shard of it.
    fn move_row(&mut self, states: &JobStates, number: u64, shard: u32) {
        let row = self.window.row_mut(number);
        (row.activity, row.next, row.state) = (shard, 0, State::Waiting);
        self.schedule.put_back(states.lane(shard), number);
        self.enqueue(states, shard, number);
    }

    /// Of a shard: fewer units than this exist in the whole activity, as was proved a moment ago.
    pub(super) fn fewer_than(&self, states: &JobStates, nth: u32) -> Option<u64> {
        let (fewer, when) = self.short.get(&states.parent(nth))?;
        (when.elapsed() < MEMORY).then_some(*fewer)
    }
}
