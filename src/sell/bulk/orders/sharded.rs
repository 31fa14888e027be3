//! Rows of sharded activities: each goes to the shard that is its user's home.

use crate::error::StoreError;
use crate::sell::bulk::job::JobStates;
use crate::sell::bulk::orders::SingleOrders;
use crate::sell::bulk::orders::queue::Queue;
use crate::sell::bulk::orders::window::State;

impl SingleOrders {
    /// A sharded activity was found: its rows that wait go to its shards.
    pub(crate) fn split_rows(&mut self, states: &JobStates, parent: u32) -> Result<(), StoreError> {
        self.queues.resize_with(states.count(), Queue::new);
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
            let [first, second, _] = self.window.texts(row);
            let user = if self.operation.settles() { second } else { first };
            let shard = states.home(parent, user, row.line)?;
            self.move_row(states, number, shard);
        }
        Ok(())
    }

    /// A row that waits under the name of a sharded activity goes to a shard of it.
    fn move_row(&mut self, states: &JobStates, number: u64, shard: u32) {
        let row = self.window.row_mut(number);
        (row.activity, row.next, row.state) = (shard, 0, State::Waiting);
        self.schedule.put_back(states.lane(shard), number);
        self.enqueue(states, shard, number);
    }
}
