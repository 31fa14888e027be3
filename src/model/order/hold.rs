//! Holds: units that are taken with a deadline, and what becomes of them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::model::id::{ActivityId, StoredUser};
use crate::model::names::names;
use crate::model::number::{signed, whole};
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::model::time::Millis;

/// How long units are held: 1 ms to a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldFor(Duration);

impl HoldFor {
    /// What a text must be, for errors.
    pub(crate) const EXPECTED: &'static str = "a duration from 1ms to 365 days, such as 15m or 2h";

    /// `None` outside the bounds.
    pub fn new(duration: Duration) -> Option<Self> {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        (Duration::from_millis(1)..=YEAR).contains(&duration).then_some(Self(duration))
    }

    /// In milliseconds, as the script takes it.
    pub(crate) fn millis(self) -> u128 {
        self.0.as_millis()
    }

    /// The same as a duration.
    pub(crate) fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for HoldFor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).ok().and_then(Self::new).ok_or(Self::EXPECTED)
    }
}

impl fmt::Display for HoldFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

names! {
    /// How an open hold is ended, by the name that the script and the ledger know.
    pub enum Step {
        /// Its units are bought.
        Confirm = "confirm",
        /// Its units return.
        Release = "release",
    }
}

/// What a call that expires overdue holds did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expired {
    /// `ok`, or why nothing could be done.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<Corrupt>,
    /// How many holds expired.
    pub holds: u64,
    /// How many units returned.
    pub units: u64,
    /// Units left after it, in all shards.
    pub stock: Option<u64>,
    /// Whether another call may find others.
    pub has_more: bool,
    /// Whether a reply was lost, so that more may have expired than is counted here.
    pub was_resent: bool,
    /// Overdue holds that are left.
    pub left: Vec<LeftHold>,
}

/// An overdue hold that a call to expire leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftHold {
    /// What it is of: an activity, or a shard of one.
    pub activity: ActivityId,
    /// Names it.
    pub request: String,
    /// The order of several activities that it is an item of; `None` if its record is damaged.
    pub order: Option<String>,
}

impl Expired {
    /// Nothing, and why.
    pub(crate) fn nothing(status: Status) -> Self {
        let (corrupt, stock, has_more, was_resent) = (None, None, false, false);
        Self { status, corrupt, holds: 0, units: 0, stock, has_more, was_resent, left: Vec::new() }
    }

    /// Adds what another shard says. Its status counts if it is worse.
    pub(crate) fn add(&mut self, other: Self) {
        if self.status.is_done() {
            self.status = other.status;
        }
        self.corrupt = self.corrupt.take().or(other.corrupt);
        self.holds += other.holds;
        self.units += other.units;
        self.stock = self.stock.into_iter().chain(other.stock).reduce(|one, more| one + more);
        self.has_more |= other.has_more;
        self.was_resent |= other.was_resent;
        self.left.extend(other.left);
    }
}

/// The units held open, as they are counted and by the holds themselves, at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenCounts {
    /// What `holds` of the meta says.
    pub stored: u64,
    /// What the holds say.
    pub counted: u64,
    /// How many of these units are of holds that have no deadline.
    pub undated: u64,
    /// Whether only holds that have a deadline were counted, because others are too many.
    pub is_partial: bool,
    /// Of each user who has a hold, and of those whose hold a call ended that was cut: what is stored as held open, and what
    /// the holds say. Another program may have stored what is no number (`None`).
    pub users: Vec<(StoredUser, Option<u64>, u64)>,
}

impl OpenCounts {
    /// What the holds say of each user who has one.
    pub(crate) fn by_user(&self) -> BTreeMap<&[u8], u64> {
        self.users.iter().map(|(user, _, counted)| (user.as_bytes(), *counted)).collect()
    }

    /// Users whose two numbers differ.
    pub(crate) fn wrong_users(&self) -> impl Iterator<Item = &(StoredUser, Option<u64>, u64)> {
        self.users.iter().filter(|(_, stored, counted)| *stored != Some(*counted))
    }

    /// Units that are stored as held open, less those that were counted, and less those that have a deadline. A hold that comes or goes
    /// with its deadline moves neither; one that lost it, and is not found, moves one of them.
    pub(crate) fn surplus(&self) -> [i64; 2] {
        [self.counted, self.counted - self.undated].map(|units| signed(self.stored) - signed(units))
    }

    /// The units that are stored as held open, or, if those are right, the units of holds that have a deadline.
    pub(crate) fn found(&self) -> u64 {
        if self.stored == self.counted { self.counted - self.undated } else { self.stored }
    }

    /// Whether every count is what the holds say, and no hold lacks its deadline.
    pub(crate) fn is_right(&self) -> bool {
        self.found() == self.counted && self.wrong_users().next().is_none() && !self.is_partial
    }
}

/// What counting the open units came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recounted {
    /// They were counted.
    Counts(OpenCounts),
    /// More holds are open than may be counted.
    TooMany,
    /// A key holds what it must not.
    Corrupt(Corrupt),
    /// There is no such activity, or it is archived.
    Gone,
}

names! {
    /// The states of a hold, as they are stored.
    pub enum HoldState {
        /// Its units are taken, and return at the deadline.
        Held = "held",
        /// Its units are bought.
        Confirmed = "confirmed",
        /// Its units returned when it was released.
        Released = "released",
        /// Its units returned after the deadline; a late payment may still take them again.
        Expired = "expired",
        /// Its units returned, and it is never confirmed.
        Void = "void",
    }
}

/// A hold as it is stored: `state quantity deadline order user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldRecord {
    /// Its state.
    pub state: HoldState,
    /// Units.
    pub quantity: u64,
    /// When it is overdue.
    pub deadline: Millis,
    /// The multi-order that it belongs to, `m:<primary>`; `None` if it belongs to none.
    pub order: Option<String>,
    /// Whose it is.
    pub user: StoredUser,
}

impl HoldRecord {
    /// Reads a record; `None` if it is none.
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let mut words = record.splitn(5, |byte| *byte == b' ');
        let mut text = || std::str::from_utf8(words.next()?).ok();
        let (state, quantity, deadline, order) = (text()?, text()?, text()?, text()?);
        Some(Self {
            state: HoldState::named(state)?,
            quantity: whole(quantity)?,
            deadline: Millis::new(whole(deadline)?),
            order: Some(order.to_owned()).filter(|order| order != "-"),
            user: StoredUser::new(words.next()?),
        })
    }
}

/// An open hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenHold {
    /// Names it.
    pub request: String,
    /// What is stored of it.
    pub record: HoldRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_whole_or_not_at_all() {
        let read = HoldRecord::read(b"held 2 1794326400000 - ann b").unwrap();
        assert_eq!((read.state, read.quantity, read.deadline.get()), (HoldState::Held, 2, 1_794_326_400_000));
        assert_eq!((read.order, read.user), (None, StoredUser::new("ann b")));
        let item = HoldRecord::read(b"void 0 0 m:seckill:{1}:stock ").unwrap();
        assert_eq!((item.order.as_deref(), item.user.as_bytes()), (Some("m:seckill:{1}:stock"), &b""[..]));
        for wrong in [&b""[..], b"held 2 17 -", b"open 2 17 - 7", b"held x 17 - 7", b"held 02 17 - 7", b"\xff 2 17 - 7"]
        {
            assert_eq!(HoldRecord::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn units_are_held_for_a_millisecond_to_a_year() {
        let fits = |duration| HoldFor::new(duration).is_some();
        let day = Duration::from_secs(24 * 60 * 60);
        assert!(fits(Duration::from_millis(1)) && fits(day * 365) && fits(Duration::from_secs(900)));
        assert!(
            !fits(Duration::ZERO) && !fits(Duration::from_micros(999)) && !fits(day * 365 + Duration::from_millis(1))
        );
        assert_eq!(HoldFor::new(day).unwrap().millis(), 86_400_000);
        assert_eq!("90m".parse::<HoldFor>().unwrap().to_string(), "1h 30m");
        assert!(["0s", "366d", "15", ""].iter().all(|text| text.parse::<HoldFor>().is_err()));
    }
}
