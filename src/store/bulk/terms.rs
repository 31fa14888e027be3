//! What a run takes, and what it tells of.

use std::time::Duration;

use super::super::StoreError;
use super::pace::Pace;
use crate::inventory::id::ActivityId;
use crate::inventory::number::Limit;
use crate::inventory::order::Corrupt;
use crate::inventory::status::Status;

/// What is done with the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Units are taken.
    Deduct,
    /// Units are given back.
    Refund,
}

/// One input being applied: what makes that it is applied once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What it is made of: the same name with another digest is another job.
    pub digest: String,
}

impl Job {
    /// Its digest where its name does not tell it.
    pub(super) fn digest_to_keep(&self) -> &str {
        if self.name == self.digest { "" } else { &self.digest }
    }

    /// The error where its name was used in an activity for something else.
    pub(super) fn was_other(&self, activity: &ActivityId) -> StoreError {
        StoreError::OtherJob { job: self.name.clone(), activity: activity.to_string() }
    }
}

/// How a run is meant.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What is done.
    pub operation: Operation,
    /// Which job it is.
    pub job: Job,
    /// Why, for the ledger.
    pub reason: Option<String>,
    /// The caller's limit, for activities that another system preheated.
    pub limit: Option<Limit>,
    /// Whether stock and units held after each order are wanted.
    pub rows: bool,
    /// How fast.
    pub pace: Pace,
    /// How long to try when the server is gone or refuses writes.
    pub retry_for: Duration,
}

/// One order as it stands in the input.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The line where it begins; each is higher than the one before.
    pub line: u64,
    /// What is sold; a valid id.
    pub activity: &'a str,
    /// Who buys; empty where the layout records nobody.
    pub user: &'a str,
    /// How many units.
    pub quantity: u32,
    /// Its own request id, or empty.
    pub request: &'a str,
    /// Why, or empty.
    pub reason: &'a str,
}

/// One order, and how it ended.
#[derive(Debug)]
pub struct Decided<'a> {
    /// The order.
    pub entry: Entry<'a>,
    /// Which activity it is, counted from 0 in the order in which they were named first.
    pub nth: usize,
    /// How it ended.
    pub status: Status,
    /// Units left after it.
    pub stock: Option<u64>,
    /// Units the user holds after it.
    pub bought: Option<u64>,
}

/// What the run did when it was told to go on.
#[derive(Debug)]
pub enum Step {
    /// It went on.
    On,
    /// There is nothing to do: it wants more rows, or is done.
    Idle,
    /// It waits for a server that is gone, or that refuses; said once for each trouble.
    Trouble(StoreError),
    /// A key holds what it must not, and all orders of the activity are refused.
    Corrupt(Corrupt),
    /// The server forgot what it had decided after this line of this activity: the input must be read again.
    Rewind {
        /// Which one.
        activity: String,
        /// The last line that is still decided.
        line: u64,
    },
}
