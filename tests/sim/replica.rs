//! A replica of the server of a night: it has all that was written up to some call, never a part of one.

use std::collections::VecDeque;

use super::keys::{Bytes, Context, Data, Keys};

/// A command that wrote something.
pub struct Write {
    pub name: String,
    pub args: Vec<Bytes>,
    pub context: Context,
}

/// What a replica has of its primary. Offsets count all writes of a night, also those of other nodes.
pub struct Replica {
    /// Which of all replicas of a night it is.
    pub number: u64,
    keys: Keys,
    /// What is on its way to it, with the offset of each.
    coming: VecDeque<(u64, Write)>,
    /// Keys whose time was over, and after how many writes.
    expired: Vec<(u64, Bytes)>,
    /// Up to which write it has all.
    pub offset: u64,
    /// When it has got what was written last: what follows is no earlier.
    arrives: u64,
    /// Nothing comes before that time.
    pub stalled_until: u64,
}

impl Replica {
    /// One that has all that its primary has.
    pub fn of(keys: Keys, offset: u64, number: u64) -> Self {
        Self { number, keys, coming: VecDeque::new(), expired: Vec::new(), offset, arrives: 0, stalled_until: 0 }
    }

    /// Sends it what one call wrote behind an offset. Gives the time when it comes there.
    pub fn send(&mut self, behind: u64, writes: Vec<Write>, us: u64, lag: u64) -> u64 {
        self.coming.extend((behind + 1..).zip(writes));
        self.arrives = self.arrives.max(us.max(self.stalled_until) + lag);
        self.arrives
    }

    /// It has got everything up to an offset.
    pub fn apply(&mut self, offset: u64) {
        while let Some((_, Write { name, args, context })) = self.coming.pop_front_if(|(at, _)| *at <= offset) {
            self.keys.run(&name, &args, context);
        }
        self.offset = self.offset.max(offset);
    }

    /// A key has come to its primary from another node, or went there.
    pub fn set(&mut self, key: &Bytes, data: Option<&Data>) {
        match data {
            Some(data) => _ = self.keys.0.insert(key.clone(), data.clone()),
            None => _ = self.keys.0.remove(key),
        }
    }

    /// Up to which of all writes nothing is lost with its primary, and how many are.
    pub fn kept(&self, written: u64) -> (u64, usize) {
        (self.coming.front().map_or(written, |(at, _)| at - 1), self.coming.len())
    }

    /// The time of a key was over, here too, at that number of writes: what comes of it until then is of no use.
    pub fn expire(&mut self, key: &Bytes, written: u64) {
        self.expired.push((written, key.clone()));
    }

    /// What it has: from now on it is the primary, and what is still on its way is lost.
    pub fn promoted(mut self) -> Keys {
        for (written, key) in self.expired {
            if self.offset < written {
                self.keys.0.remove(&key);
            }
        }
        self.keys
    }
}
