//! What all participants of an activity hold, scanned page by page: units in Redis, and none where nobody recorded them.

use redis::Value;

use super::checkpoint::{USERS, encode_page};
use super::reply::{Reply, corrupt};
use super::scan::number;
use super::{Store, StoreError};
use crate::inventory::evidence::signed;
use crate::inventory::id::ActivityId;
use crate::inventory::interner::Interner;
use crate::inventory::layout::Kind;
use crate::inventory::order::Corrupt;

/// Participants a page: about half a millisecond of the server's time.
const PAGE: usize = 500;

/// What participants hold.
#[derive(Default)]
pub struct Holders {
    users: Interner,
    /// By index; `None` for a member of a set whose units nobody recorded.
    units: Vec<Option<u64>>,
    /// The first record that is no number.
    pub corrupt: Option<Corrupt>,
}

impl Holders {
    /// Units whose number is recorded.
    pub fn held(&self) -> u64 {
        self.units.iter().flatten().fold(0, |sum, units| sum.saturating_add(*units))
    }

    /// Participants who hold something.
    pub fn holders(&self) -> u64 {
        self.units.iter().filter(|units| **units != Some(0)).count() as u64
    }

    /// Participants whose units nobody recorded.
    pub fn unknown(&self) -> u64 {
        self.units.iter().filter(|units| units.is_none()).count() as u64
    }

    /// Participants who hold more than a limit.
    pub fn above(&self, limit: u64) -> u64 {
        self.units.iter().flatten().filter(|units| **units > limit).count() as u64
    }

    /// Notes a participant; a scan may report one twice.
    fn note(&mut self, user: &[u8], units: Option<u64>) {
        let number = self.users.number(user) as usize;
        if number == self.units.len() {
            self.units.push(units);
        } else {
            self.units[number] = units;
        }
    }

    /// Whether another scan found the same.
    pub fn equal(&mut self, other: &Self) -> bool {
        if self.units.len() != other.units.len() {
            return false;
        }
        (0u32..).zip(&other.units).all(|(number, units)| {
            let own = self.users.number(other.users.name(number)) as usize;
            self.units.get(own) == Some(units)
        })
    }

    /// The pages of a checkpoint.
    pub(super) fn pages(&self) -> Vec<Vec<u8>> {
        let held: Vec<(&[u8], Option<i64>)> = (0u32..)
            .zip(&self.units)
            .filter(|(_, units)| **units != Some(0))
            .map(|(number, units)| (self.users.name(number), units.map(signed)))
            .collect();
        held.chunks(USERS).map(encode_page).collect()
    }
}

impl Store {
    /// What all participants hold.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn holders(&mut self, activity: &ActivityId, each_page: impl Fn(u64)) -> Result<Holders, StoreError> {
        let keys = self.keys(activity);
        let mut holders = Holders::default();
        let Some(participants) = &keys.participants else { return Ok(holders) };
        let kind = self.layout.kind();
        let scan = if kind == Kind::Hash { "HSCAN" } else { "SSCAN" };
        let page = |cursor: &str| redis::cmd(scan).arg(participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned();
        if kind == Kind::Hash {
            self.walk(page, |members| {
                for [user, units] in members.as_chunks().0 {
                    match number(units) {
                        Ok(units) => holders.note(user, Some(units)),
                        Err(text) => holders.corrupt = Some(corrupt(&keys, 5, Some(&text))),
                    }
                }
                each_page(members.len() as u64 / 2);
                Ok(())
            })?;
            return Ok(holders);
        }
        // The units of a set are beside it, and read on a connection of their own: the set's next page is under way.
        let mut beside = match &keys.units {
            Some(units) => Some((self.another()?, units)),
            None => None,
        };
        self.walk(page, |members| {
            let units = match &mut beside {
                Some((store, units)) if !members.is_empty() => {
                    let command = redis::cmd("HMGET").arg(*units).arg(members).to_owned();
                    Reply::of_command("HMGET").array(store.server.command(&command)?)?
                }
                _ => Vec::new(),
            };
            for (at, user) in members.iter().enumerate() {
                match units.get(at) {
                    Some(Value::BulkString(text)) => match number(text) {
                        Ok(units) => holders.note(user, Some(units)),
                        Err(text) => holders.corrupt = Some(corrupt(&keys, 6, Some(&text))),
                    },
                    _ => holders.note(user, (kind == Kind::Coupon).then_some(1)),
                }
            }
            each_page(members.len() as u64);
            Ok(())
        })?;
        Ok(holders)
    }
}
