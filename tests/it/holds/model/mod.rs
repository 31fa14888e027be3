//! What the scripts of holds decide and write, in plain Rust, small enough that every interleaving can be looked at: a few
//! holds of a few users, one activity, and each write a step of its own after which a script may be cut.
//!
//! `rules.rs` decides, `state.rs` says what is stored and what must always be true of it, `search.rs` goes through all
//! interleavings. `interleavings.rs` runs that, and `histories.rs` holds the scripts to it on a real server.

pub mod rules;
pub mod search;
pub mod state;

/// How units are recorded by user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hash,
    Set,
    Coupon,
}

/// A small sale: users and quantities of the holds that somebody makes, each under a request id of its own.
#[derive(Clone, Copy, Debug)]
pub struct Sale {
    pub kind: Kind,
    pub total: u8,
    /// Most units of a user; only of the kind hash, the others record a user once.
    pub limit: u8,
    pub holds: &'static [(usize, u8)],
}

impl Sale {
    pub fn user(&self, hold: usize) -> usize {
        self.holds[hold].0
    }

    pub fn quantity(&self, hold: usize) -> u8 {
        self.holds[hold].1
    }

    pub fn all(&self) -> u8 {
        (1 << self.holds.len()) - 1
    }
}

/// A rule that is broken on purpose, to see that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// What returns units raises the stock before it writes the state.
    StockReturnsFirst,
    /// A hold is recorded before its units are taken.
    RecordedFirst,
    /// A payment that came too late is refused, and nothing remembers it.
    RefusedPaymentIsForgotten,
    /// A retry that is refused is not remembered.
    RefusedRetryIsForgotten,
    /// What expires looks at deadlines alone.
    ExpireTrustsDeadlines,
    /// What a cut left of a hold that is not open loses its deadline, and nothing is counted anew.
    CutIsForgotten,
    /// What a call began that gives units back is not finished by the next one.
    BegunIsForgotten,
    /// Nothing remembers that an unknown hold was aborted.
    NoTombstone,
    /// A second payment of the same hold counts as the first.
    ConfirmIsDecidedTwice,
}

/// The numbers in a set of holds or of users.
pub fn numbers(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |nth| mask & (1 << nth) != 0)
}
