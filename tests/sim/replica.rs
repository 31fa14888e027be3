//! A replica of the server of a night: it has all that was written up to some call, never a part of one.

use std::collections::VecDeque;

use super::keys::{Bytes, Context, Keys};

/// A command that wrote something.
pub struct Write {
    pub name: String,
    pub args: Vec<Bytes>,
    pub context: Context,
}

/// What a replica has of its primary. Offsets count all writes of a night.
pub struct Replica {
    keys: Keys,
    /// What is on its way to it.
    coming: VecDeque<Write>,
    /// Up to which write it has all.
    pub offset: u64,
    /// When it has got what was written last: what follows is no earlier.
    arrives: u64,
    /// Nothing comes before that time.
    pub stalled_until: u64,
}

impl Replica {
    /// One that has all that its primary has.
    pub fn of(keys: &Keys, offset: u64) -> Self {
        Self { keys: keys.clone(), coming: VecDeque::new(), offset, arrives: 0, stalled_until: 0 }
    }

    /// Sends it what one call wrote. Gives the time when it comes there.
    pub fn send(&mut self, writes: Vec<Write>, us: u64, lag: u64) -> u64 {
        self.coming.extend(writes);
        self.arrives = self.arrives.max(us.max(self.stalled_until) + lag);
        self.arrives
    }

    /// It has got everything up to an offset.
    pub fn apply(&mut self, offset: u64) {
        while self.offset < offset {
            let Write { name, args, context } = self.coming.pop_front().expect("what was written is on its way");
            self.keys.run(&name, &args, context);
            self.offset += 1;
        }
    }

    /// What it has: from now on it is the primary, and what is still on its way is lost.
    pub fn promoted(self) -> Keys {
        self.keys
    }
}
