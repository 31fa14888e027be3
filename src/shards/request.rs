//! A request for units that the home of a user lacks, and how the search for them may end.

use std::time::{Duration, Instant};

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::order::Corrupt;
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::redis::call::Call;
use crate::redis::system::System;

/// A transfer that is older, by the donor's clock, was left by whoever began it.
pub(crate) const STUCK: Duration = Duration::from_secs(5);

/// How long to wait for units by default, given how long to wait for a server: if that is long enough for a transfer that somebody
/// left, then until it is old enough to be finished.
pub(crate) fn patient(timeout: Duration) -> Duration {
    if timeout < STUCK { timeout } else { timeout.max(STUCK + Duration::from_secs(1)) }
}

/// A request for units at one shard of an activity.
pub(crate) struct BorrowRequest<'a> {
    pub(crate) activity: &'a ActivityId,
    pub(crate) shards: &'a Shards,
    /// Which of the shards is to have them.
    pub(crate) home: usize,
    /// How many it is to have in stock.
    pub(crate) quantity: u64,
    /// Names the transfers.
    pub(crate) request: &'a str,
    /// What is sent to the home together with the units.
    pub(crate) order: Option<&'a Call>,
    /// By its clock.
    pub(crate) system: &'a dyn System,
    /// When this began, and how long it may take.
    pub(crate) began: Instant,
    pub(crate) at_most: Duration,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl BorrowRequest<'_> {
    pub(crate) fn home_number(&self) -> u32 {
        self.shards.numbers()[self.home]
    }

    fn lasted(&self) -> Duration {
        self.system.now() - self.began
    }

    /// The error for what ended before its time.
    pub(crate) fn failed(&self, why: String) -> StoreError {
        let (activity, waited) = (self.activity.to_string(), format!("{} ms", self.lasted().as_millis()));
        StoreError::NoUnits { activity, waited, why }
    }

    /// The error if it took too long.
    ///
    /// # Errors
    /// It did.
    pub(crate) fn check_time(&self, why: impl FnOnce() -> String) -> Result<(), StoreError> {
        if self.lasted() < self.at_most {
            return Ok(());
        }
        let waited = humantime::format_duration(self.at_most).to_string();
        Err(StoreError::NoUnits { activity: self.activity.to_string(), waited, why: why() })
    }
}

/// How a request for units ended.
#[derive(Debug)]
pub(crate) enum BorrowOutcome {
    /// The order was sent, and this is its reply, which is not `out_of_stock`.
    Decided(Value),
    /// The home has the units, or had them a moment ago.
    Here,
    /// Fewer units than were requested existed.
    SoldOut(SoldOut),
}

/// The proof that there was an instant at which fewer units existed than were requested.
#[derive(Debug)]
pub(crate) struct SoldOut {
    /// The units of all shards, and those in transit.
    pub(crate) left: u64,
    /// The stock of each shard, in the order of the list.
    pub(crate) stocks: Vec<u64>,
}

/// Why the shards of an activity did not do what they were asked.
#[derive(Debug)]
pub(crate) enum ShardFault {
    /// The activity was reset, or has other shards by now.
    ListChanged,
    /// A key of a shard holds what it must not.
    Corrupt(Corrupt),
    /// The user asked to stop.
    Stopped,
    /// A server did not reply, or replied what no script does.
    Store(StoreError),
}

impl From<StoreError> for ShardFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ShardFault {
    /// The same as an error, of an activity whose shards nobody looks up again.
    pub(crate) fn into_error(self, activity: &ActivityId) -> StoreError {
        match self {
            Self::ListChanged | Self::Stopped => StoreError::Reset { activity: activity.to_string() },
            Self::Corrupt(corrupt) => StoreError::Reply { what: corrupt.key, reply: corrupt.what },
            Self::Store(error) => error,
        }
    }
}

/// Whether a reply to one order says that units are missing.
pub(crate) fn is_out_of_stock(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(Status::OutOfStock.code())))
}
