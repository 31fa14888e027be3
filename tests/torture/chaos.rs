//! What happens to the servers of a round, and to their keys, beside the sale.

/// What happens to the server.
#[derive(Debug, Clone)]
pub enum Chaos {
    /// `kill -9`, and a start.
    Kill,
    /// `kill -9`, and a start with data that lack so much of what was written last.
    Loss {
        bytes: usize,
    },
    /// It answers nothing until so many milliseconds have passed.
    Freeze {
        ms: u64,
    },
    FlushScripts,
    KillClients,
    /// Of a cluster: a primary or its replica fails. Each pair of them has one at most.
    Pair {
        pair: usize,
        how: How,
    },
    /// Of a cluster: the slot of an activity goes to another pair; so many milliseconds in the midst of it.
    Move {
        activity: usize,
        to: usize,
        ms: u64,
        /// By the servers themselves, if they can.
        is_atomic: bool,
    },
    /// Something that is no script of ours writes to the keys of an activity.
    Foreign {
        activity: usize,
        write: Foreign,
        units: u64,
    },
}

/// How a primary fails, or its replica takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// `kill -9` and a start, before the replica takes over.
    Restart,
    /// `kill -9`. The replica takes over when the others agree.
    Killed,
    /// The same while it writes nothing and the replica has everything: nothing may be lost.
    KilledInStep,
    /// The replica gets nothing while so many calls end, then the primary is killed and the replica takes over.
    Lagging(usize),
    /// It stops answering, and continues so many milliseconds after the replica has taken over.
    Stopped(u64),
    /// It hands over: nothing may be lost.
    HandedOver,
    /// The replica takes over from a primary that works.
    TakenOver,
}

impl Chaos {
    /// Whether what was answered may be lost.
    pub fn may_lose(&self) -> bool {
        match self {
            Self::Loss { .. } => true,
            Self::Pair { how, .. } => !matches!(how, How::Restart | How::KilledInStep | How::HandedOver),
            _ => false,
        }
    }
}

/// What it does to stock and counters. Only the last one is a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    StockShrinks,
    StockGrows,
    CounterShrinks,
    CounterGrows,
    PlainSale,
}
