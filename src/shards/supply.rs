//! Gets units for a home that is out of stock, or proves that fewer are left than are wanted.
//!
//! Each round looks at all shards, finishes transfers that somebody left, and then transfers units from the shard that has most.
//! Fewer than `n` units existed at one instant if two looks, the second one begun after the first had ended, both find fewer in
//! stock and in transit together, and no shard's ledger grew in between. Nothing less is a proof: units on their way are in no stock.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread::sleep;
use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::shards::Shards;
use crate::model::shards::transfer_age;
use crate::redis::cluster::Servers;
use crate::shards::arrived::Arrived;
use crate::shards::need::{Need, STUCK, Supplied, is_out_of_stock};
use crate::shards::peek::{OpenTransfer, Peeked, ShardView, peek};
use crate::shards::transfer::{Arrival, Lent, Loan, Party, patience, transfer_id};

/// More than any shard has: half of the donor's stock comes.
const WANT: u64 = 1_000_000_000;

/// What finishing the transfers of an activity came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finished {
    /// Transfers whose units are at their home now, or were.
    pub arrived: u64,
    /// Transfers that a failover had lost, of which only the id was left.
    pub lost: u64,
    /// Transfers that are younger, or of which no replica has the first half.
    pub left: u64,
}

/// What a process knows of its transfers.
#[derive(Debug)]
pub(crate) struct Supply {
    layout: Layout,
    by: String,
    /// What arrived.
    arrived: Arrived,
    /// Whether the order that was last sent with units may have been sent twice.
    pub(crate) was_broken: bool,
}

/// How one transfer ended.
enum Transferred {
    /// Units are at the home: whether they are as many as were needed, and the order's reply.
    Here {
        suffices: bool,
        order: Option<Value>,
    },
    Nothing,
    Ended(Supplied),
}

impl Supply {
    pub(crate) fn new(layout: Layout, by: String) -> Self {
        Self { layout, by, arrived: Arrived::default(), was_broken: false }
    }

    /// The same for another connection.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.layout, self.by.clone())
    }

    /// Gets units for a home, or proves that there are too few.
    ///
    /// # Errors
    /// Any of [`StoreError`]; [`StoreError::NoUnits`] if it took too long.
    pub(crate) fn supply(&mut self, servers: &mut Servers, need: &Need<'_>) -> Result<Supplied, StoreError> {
        servers.look_for_replicas()?;
        let mut attempt = 0;
        // Donors that had nothing to lend: what is withdrawn is not lent.
        let mut refused: Vec<usize> = Vec::new();
        loop {
            let views = match peek(servers, self.layout, need.activity, need.shards)? {
                Peeked::All(views) => views,
                Peeked::Absent => return Ok(Supplied::Changed),
                Peeked::Corrupt(corrupt) => return Ok(Supplied::Corrupt(corrupt)),
            };
            let finished = self.finish_stuck(servers, need.activity, need.shards, &views, STUCK)?;
            if finished.arrived + finished.lost > 0 {
                continue;
            }
            let in_stock = views[need.home].stock;
            if in_stock >= need.quantity {
                return Ok(Supplied::Here);
            }
            if units(&views) < need.quantity {
                if let Some(ended) = self.prove(servers, need, &views)? {
                    return Ok(ended);
                }
            } else if let Some(donor) = richest(&views, need.home, &refused) {
                attempt += 1;
                match self.transfer(servers, need, attempt, donor, &views)? {
                    Transferred::Here { order: Some(value), .. } if !is_out_of_stock(&value) => {
                        return Ok(Supplied::Decided(value));
                    }
                    Transferred::Here { suffices: true, order: None } => return Ok(Supplied::Here),
                    // The next donor.
                    Transferred::Here { suffices: false, .. } => continue,
                    // Others were quicker.
                    Transferred::Here { .. } => {}
                    Transferred::Nothing => {
                        refused.push(donor);
                        continue;
                    }
                    Transferred::Ended(ended) => return Ok(ended),
                }
            }
            refused.clear();
            need.check_time(|| match in_transit(&views) {
                0 => "others took them first".to_owned(),
                1 => "1 unit is on its way between its shards".to_owned(),
                units => format!("{units} units are on their way between its shards"),
            })?;
            if (need.stop)() {
                return Ok(Supplied::Stopped);
            }
            // Ids of units that have arrived would be counted as units in transit, here and by everybody who waits.
            self.settle(servers);
            sleep(pause());
        }
    }

    /// Whether so many units are in stock or in transit: looks only. `SoldOut` as [`supply`](Self::supply) proves it, else `Here`.
    pub(crate) fn look(&mut self, servers: &mut Servers, need: &Need<'_>) -> Result<Supplied, StoreError> {
        servers.discover()?;
        loop {
            let views = match peek(servers, self.layout, need.activity, need.shards)? {
                Peeked::All(views) => views,
                Peeked::Absent => return Ok(Supplied::Changed),
                Peeked::Corrupt(corrupt) => return Ok(Supplied::Corrupt(corrupt)),
            };
            if units(&views) >= need.quantity {
                return Ok(Supplied::Here);
            }
            if let Some(ended) = self.prove(servers, need, &views)? {
                return Ok(ended);
            }
            need.check_time(|| "they are sold and returned too quickly to be counted".to_owned())?;
            sleep(pause());
        }
    }

    /// Looks a second time at shards that had too few units. `None` proves nothing.
    fn prove(
        &mut self,
        servers: &mut Servers,
        need: &Need<'_>,
        first: &[ShardView],
    ) -> Result<Option<Supplied>, StoreError> {
        let second = match peek(servers, self.layout, need.activity, need.shards)? {
            Peeked::All(views) => views,
            Peeked::Absent => return Ok(Some(Supplied::Changed)),
            Peeked::Corrupt(corrupt) => return Ok(Some(Supplied::Corrupt(corrupt))),
        };
        let is_still = first.iter().zip(&second).all(|(one, other)| one.last == other.last && one.epoch == other.epoch);
        let left = units(&second);
        if !is_still || left >= need.quantity {
            return Ok(None);
        }
        Ok(Some(Supplied::SoldOut { left, stocks: second.into_iter().map(|view| view.stock).collect() }))
    }

    /// Transfers units from a donor.
    fn transfer(
        &mut self,
        servers: &mut Servers,
        need: &Need<'_>,
        attempt: u32,
        donor: usize,
        views: &[ShardView],
    ) -> Result<Transferred, StoreError> {
        let (by, patience) = (self.by.clone(), patience(servers));
        let party =
            Party { layout: self.layout, by: &by, activity: need.activity, epoch: views[donor].epoch, patience };
        let (donor, home) = (need.shards.numbers()[donor], need.home_number());
        let id = transfer_id(need.request, attempt, donor, home);
        let wanted = need.quantity - views[need.home].stock;
        let finished = self.arrived.take(need.activity, donor, party.epoch);
        let loan = Loan { id: &id, donor, home, need: wanted, want: WANT, finished: &finished };
        let units = loop {
            match party.lend(servers, &loan)? {
                Lent::Covered(units) => break units,
                Lent::Uncovered => {
                    let shard = need.activity.shard(donor);
                    need.check_time(|| format!("no replica of `{shard}` confirmed that it has what the shard lent"))?;
                    if (need.stop)() {
                        return Ok(Transferred::Ended(Supplied::Stopped));
                    }
                    servers.look_for_replicas()?;
                }
                Lent::Nothing => return Ok(Transferred::Nothing),
                Lent::Changed => return Ok(Transferred::Ended(Supplied::Changed)),
                Lent::Corrupt(corrupt) => return Ok(Transferred::Ended(Supplied::Corrupt(corrupt))),
            }
        };
        let borrowed = party.borrow(servers, &loan, units, need.order)?;
        self.was_broken |= borrowed.was_broken;
        match borrowed.arrival {
            Arrival::Covered => self.arrived.add(need.activity, donor, party.epoch, id),
            Arrival::Uncovered => {}
            // Whatever became of the units: the order may be decided.
            Arrival::Changed | Arrival::Corrupt(_)
                if borrowed.order.as_ref().is_some_and(|it| !is_out_of_stock(it)) => {}
            Arrival::Changed => return Ok(Transferred::Ended(Supplied::Changed)),
            Arrival::Corrupt(corrupt) => return Ok(Transferred::Ended(Supplied::Corrupt(corrupt))),
        }
        Ok(Transferred::Here { suffices: units >= wanted, order: borrowed.order })
    }

    /// Finishes transfers that are older than they should get.
    pub(crate) fn finish_stuck(
        &mut self,
        servers: &mut Servers,
        activity: &ActivityId,
        shards: &Shards,
        views: &[ShardView],
        older_than: Duration,
    ) -> Result<Finished, StoreError> {
        let mut finished = Finished::default();
        for (donor, view) in shards.numbers().iter().zip(views) {
            for open in &view.open {
                if u128::from(transfer_age(view.now_ms, open.lent_ms)) < older_than.as_millis() {
                    finished.left += 1;
                    continue;
                }
                match self.finish(servers, activity, (*donor, view.epoch), open)? {
                    Some(true) => finished.arrived += 1,
                    Some(false) => finished.lost += 1,
                    None => finished.left += 1,
                }
            }
        }
        if finished.arrived + finished.lost > 0 {
            self.settle(servers);
        }
        Ok(finished)
    }

    /// Finishes one: true if its units are at the home, false if a failover had lost it, `None` if that must be tried again later.
    fn finish(
        &mut self,
        servers: &mut Servers,
        activity: &ActivityId,
        (donor, epoch): (u32, u64),
        open: &OpenTransfer,
    ) -> Result<Option<bool>, StoreError> {
        let (by, patience) = (self.by.clone(), patience(servers));
        let party = Party { layout: self.layout, by: &by, activity, epoch, patience };
        let loan = Loan { id: &open.id, donor, home: open.home, need: 0, want: 0, finished: &[] };
        let units = match party.lend(servers, &loan)? {
            Lent::Covered(units) => units,
            Lent::Nothing => {
                self.arrived.add(activity, donor, epoch, open.id.clone());
                return Ok(Some(false));
            }
            Lent::Uncovered | Lent::Changed | Lent::Corrupt(_) => return Ok(None),
        };
        match party.borrow(servers, &loan, units, None)?.arrival {
            Arrival::Covered => {
                self.arrived.add(activity, donor, epoch, open.id.clone());
                Ok(Some(true))
            }
            Arrival::Uncovered | Arrival::Changed | Arrival::Corrupt(_) => Ok(None),
        }
    }

    /// Removes ids whose units have arrived from their donors' lists. What fails is left for the finisher.
    pub(crate) fn settle(&mut self, servers: &mut Servers) {
        self.arrived.settle(servers, self.layout, &self.by);
    }
}

/// Units in stock and in transit.
fn units(views: &[ShardView]) -> u64 {
    views.iter().map(|view| view.stock).sum::<u64>() + in_transit(views)
}

fn in_transit(views: &[ShardView]) -> u64 {
    views.iter().flat_map(|view| &view.open).map(|open| open.units).sum()
}

/// The shard that has most, other than the home and these.
fn richest(views: &[ShardView], home: usize, but: &[usize]) -> Option<usize> {
    let is_other = |nth: &usize| *nth != home && !but.contains(nth);
    let others = views.iter().enumerate().filter(|(nth, view)| is_other(nth) && view.stock > 0);
    others.max_by_key(|(_, view)| view.stock).map(|(nth, _)| nth)
}

/// 5 to 50 ms, so that those who wait for each other come at different times.
fn pause() -> Duration {
    Duration::from_millis(5 + RandomState::new().build_hasher().finish() % 46)
}
