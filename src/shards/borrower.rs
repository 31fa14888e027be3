//! Gets units for a home that is out of stock, or proves that fewer are left than are wanted.
//!
//! Each round looks at all shards, finishes transfers that somebody left, and then transfers units from the shard that has most.
//! Fewer than `n` units existed at one instant if two looks, the second one begun after the first had ended, both find fewer in
//! stock and in transit together, and no shard's ledger grew in between. Nothing less is a proof: units on their way are in no stock.

use std::time::{Duration, Instant};

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::shards::transfer_age;
use crate::model::{ActivityId, Outcome, Shards, Status};
use crate::redis::call::Call;
use crate::redis::cluster::Servers;
use crate::shards::transfer::{
    LendReply, OpenTransfer, PendingAcks, ShardFault, ShardView, TransferContext, TransferRequest, peek, transfer_id,
};

/// The most units that one transfer asks for: more than twice what a shard usually has, so that half of the donor's stock comes.
const LEND_CAP: u64 = 1_000_000_000;

/// What finishing the transfers of an activity came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finished {
    /// Transfers whose units are at their home now, or were.
    pub arrived: u64,
    /// Transfers that a failover had lost, of which only the id was left.
    pub lost: u64,
    /// Transfers that are younger, whose first half no replica has, or whose donor or home is corrupt, archived or reset.
    pub left: u64,
}

/// Borrows units for shards that are out of stock, and remembers which of its transfers are still to be acknowledged.
#[derive(Debug)]
pub(crate) struct ShardBorrower {
    by: String,
    acks: PendingAcks,
    /// Whether a copy of the order that is being decided may still come.
    pub(crate) was_resent: bool,
}

/// Units that a transfer brought to the home: whether they are as many as were needed, and the order's reply.
struct Transferred {
    suffices: bool,
    order: Option<Outcome>,
}

impl ShardBorrower {
    pub(crate) fn new(by: String) -> Self {
        Self { by, acks: PendingAcks::default(), was_resent: false }
    }

    /// Gets units for a home, or proves that there are too few.
    ///
    /// # Errors
    /// A [`ShardFault`]; [`StoreError::NoUnits`] if it took too long.
    pub(crate) fn borrow(
        &mut self,
        servers: &mut Servers,
        request: &BorrowRequest<'_>,
    ) -> Result<BorrowOutcome, ShardFault> {
        servers.look_for_replicas()?;
        let mut attempt = 0;
        loop {
            let views = peek(servers, request.activity, request.shards)?;
            let finished = self.finish_stuck(servers, request.activity, request.shards, &views, STUCK)?;
            if finished.arrived + finished.lost > 0 {
                continue;
            }
            if views[request.home].stock >= request.quantity {
                return Ok(BorrowOutcome::Here);
            }
            if units(&views) < request.quantity {
                if let Some(sold_out) = self.prove_sold_out(servers, request, &views)? {
                    return Ok(BorrowOutcome::SoldOut(sold_out));
                }
            } else if let Some(donor) = richest(&views, request.home) {
                attempt += 1;
                match self.transfer(servers, request, attempt, donor, &views)? {
                    Some(Transferred { order: Some(reply), .. }) if !is_short(&reply, request.quantity) => {
                        return Ok(BorrowOutcome::Decided(reply));
                    }
                    Some(Transferred { suffices: true, order: None }) => return Ok(BorrowOutcome::Here),
                    // The next donor.
                    Some(Transferred { suffices: false, .. }) => continue,
                    // Others were quicker.
                    Some(Transferred { .. }) | None => {}
                }
            }
            request.check_time(servers, || match in_transit(&views) {
                0 => "others took them first".to_owned(),
                1 => "1 unit is on its way between its shards".to_owned(),
                units => format!("{units} units are on their way between its shards"),
            })?;
            if (request.stop)() {
                return Err(ShardFault::Stopped);
            }
            // Ids of units that have arrived would be counted as units in transit, here and by everybody who waits.
            self.ack_transfers(servers);
            servers.system().sleep(pause(servers));
        }
    }

    /// Whether fewer units are left in stock and in transit than are requested, as [`borrow`](Self::borrow) proves it, without
    /// a transfer; `None` if there are enough.
    pub(crate) fn find_sold_out(
        &mut self,
        servers: &mut Servers,
        request: &BorrowRequest<'_>,
    ) -> Result<Option<SoldOut>, ShardFault> {
        servers.discover()?;
        loop {
            let views = peek(servers, request.activity, request.shards)?;
            if units(&views) >= request.quantity {
                return Ok(None);
            }
            if let Some(sold_out) = self.prove_sold_out(servers, request, &views)? {
                return Ok(Some(sold_out));
            }
            request.check_time(servers, || "they are sold and returned too quickly to be counted".to_owned())?;
            servers.system().sleep(pause(servers));
        }
    }

    /// Looks a second time at shards that had too few units. `None` proves nothing.
    fn prove_sold_out(
        &mut self,
        servers: &mut Servers,
        request: &BorrowRequest<'_>,
        first: &[ShardView],
    ) -> Result<Option<SoldOut>, ShardFault> {
        let second = peek(servers, request.activity, request.shards)?;
        let is_still = first.iter().zip(&second).all(|(one, other)| one.last == other.last && one.epoch == other.epoch);
        let left = units(&second);
        let stocks = second.into_iter().map(|view| view.stock).collect();
        Ok((is_still && left < request.quantity).then_some(SoldOut { left, stocks }))
    }

    /// Transfers units from a donor; `None` if it has nothing to lend.
    fn transfer(
        &mut self,
        servers: &mut Servers,
        request: &BorrowRequest<'_>,
        attempt: u32,
        donor: usize,
        views: &[ShardView],
    ) -> Result<Option<Transferred>, ShardFault> {
        let context = TransferContext::new(servers, &self.by, request.activity, views[donor].epoch);
        let (donor, home) = (request.shards.numbers()[donor], request.shards.numbers()[request.home]);
        let id = transfer_id(request.request, attempt, donor, home);
        let need = request.quantity - views[request.home].stock;
        let finished = self.acks.take(request.activity, donor, context.epoch);
        let transfer = TransferRequest { id: &id, donor, home, need, want: LEND_CAP, finished: &finished };
        let units = loop {
            match context.lend(servers, &transfer)? {
                LendReply::Lent(units) => break units,
                LendReply::Nothing => return Ok(None),
                LendReply::Unreplicated => {
                    let shard = request.activity.shard(donor);
                    let why = || format!("no replica of `{shard}` confirmed that it has what the shard lent");
                    request.check_time(servers, why)?;
                    if (request.stop)() {
                        return Err(ShardFault::Stopped);
                    }
                    servers.look_for_replicas()?;
                }
            }
        };
        let credit = context.borrow(servers, &transfer, units, request.order.map(|(call, _)| call))?;
        self.was_resent |= credit.was_resent;
        let order = credit.order.zip(request.order).map(|(value, (_, read))| read(value)).transpose()?;
        match credit.is_replicated {
            Ok(true) => self.acks.add(request.activity, donor, context.epoch, id),
            Ok(false) => {}
            // Whatever became of the units: the order may be decided.
            Err(_) if order.as_ref().is_some_and(|reply| !is_short(reply, request.quantity)) => {}
            Err(fault) => return Err(fault),
        }
        Ok(Some(Transferred { suffices: units >= need, order }))
    }

    /// Finishes transfers that are older than they should get.
    pub(crate) fn finish_stuck(
        &mut self,
        servers: &mut Servers,
        activity: &ActivityId,
        shards: &Shards,
        views: &[ShardView],
        older_than: Duration,
    ) -> Result<Finished> {
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
            self.ack_transfers(servers);
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
    ) -> Result<Option<bool>> {
        let context = TransferContext::new(servers, &self.by, activity, epoch);
        let transfer = TransferRequest { id: &open.id, donor, home: open.home, need: 0, want: 0, finished: &[] };
        let units = match context.lend(servers, &transfer) {
            Ok(LendReply::Lent(units)) => units,
            Ok(LendReply::Nothing) => {
                self.acks.add(activity, donor, epoch, open.id.clone());
                return Ok(Some(false));
            }
            Err(ShardFault::Store(error)) => return Err(error),
            Ok(LendReply::Unreplicated) | Err(_) => return Ok(None),
        };
        let credit = context.borrow(servers, &transfer, units, None)?;
        let is_replicated = credit.is_replicated.unwrap_or(false);
        if is_replicated {
            self.acks.add(activity, donor, epoch, open.id.clone());
        }
        Ok(is_replicated.then_some(true))
    }

    /// Removes ids whose units have arrived from their donors' lists. What fails is left for the finisher.
    pub(crate) fn ack_transfers(&mut self, servers: &mut Servers) {
        let mut calls = Vec::new();
        for ((activity, donor), (epoch, ids)) in std::mem::take(&mut self.acks.0) {
            let context = TransferContext::new(servers, &self.by, &activity, epoch);
            let request = TransferRequest { id: "", donor, home: donor, need: 0, want: 0, finished: &ids };
            calls.push(context.lend_call(&request));
        }
        drop(servers.fan_out(&calls, None));
    }
}

/// Units in stock and in transit.
fn units(views: &[ShardView]) -> u64 {
    views.iter().map(|view| view.stock).sum::<u64>() + in_transit(views)
}

fn in_transit(views: &[ShardView]) -> u64 {
    views.iter().flat_map(|view| &view.open).map(|open| open.units).sum()
}

/// The shard that has most, other than the home.
fn richest(views: &[ShardView], home: usize) -> Option<usize> {
    let others = views.iter().enumerate().filter(|(shard, view)| *shard != home && view.stock > 0);
    others.max_by_key(|(_, view)| view.stock).map(|(shard, _)| shard)
}

/// 5 to 50 ms, so that those who wait for each other come at different times.
fn pause(servers: &Servers) -> Duration {
    Duration::from_millis(5 + servers.system().random() % 46)
}

/// A transfer that is older, by the donor's clock, was left by whoever began it.
pub(crate) const STUCK: Duration = Duration::from_secs(5);

/// A shard: the activity, its list of shards, and the place of this one in it.
pub(crate) type Place<'a> = (&'a ActivityId, &'a Shards, usize);

/// An order, and how its reply is read.
pub(crate) type ReadableOrder<'a> = (&'a Call, &'a dyn Fn(Value) -> Result<Outcome>);

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
    pub(crate) order: Option<ReadableOrder<'a>>,
    /// When this began, and how long it may take.
    pub(crate) began: Instant,
    pub(crate) at_most: Duration,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl<'a> BorrowRequest<'a> {
    /// A request that begins now, with its name and quantity. It may take as long as to wait for a server; if that is long enough for a
    /// transfer that a client left, then until this is old enough to be finished.
    pub(crate) fn new(
        servers: &Servers,
        (activity, shards, home): Place<'a>,
        (request, quantity): (&'a str, u64),
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let (timeout, began) = (servers.target().timeout, servers.system().now());
        let at_most = if timeout < STUCK { timeout } else { timeout.max(STUCK + Duration::from_secs(1)) };
        Self { activity, shards, home, quantity, request, order: None, began, at_most, stop }
    }

    /// The error for what ended before its time.
    pub(crate) fn failed(&self, servers: &Servers, why: String) -> StoreError {
        let lasted = servers.system().now() - self.began;
        let (activity, waited) = (self.activity.to_string(), format!("{} ms", lasted.as_millis()));
        StoreError::NoUnits { activity, waited, why }
    }

    /// The error if it took too long.
    ///
    /// # Errors
    /// It did.
    pub(crate) fn check_time(&self, servers: &Servers, why: impl FnOnce() -> String) -> Result<()> {
        if servers.system().now() - self.began < self.at_most {
            return Ok(());
        }
        let waited = humantime::format_duration(self.at_most).to_string();
        Err(StoreError::NoUnits { activity: self.activity.to_string(), waited, why: why() })
    }
}

/// How a request for units ended.
#[derive(Debug)]
pub(crate) enum BorrowOutcome {
    /// The order was sent, and this is its reply, which does not say that the home has too few units.
    Decided(Outcome),
    /// The home has the units, or had them a moment ago.
    Here,
    /// Fewer units than were requested existed.
    SoldOut(SoldOut),
}

impl BorrowOutcome {
    pub(crate) fn sold_out(self) -> Option<SoldOut> {
        match self {
            Self::SoldOut(sold_out) => Some(sold_out),
            Self::Decided(_) | Self::Here => None,
        }
    }
}

/// The proof that there was an instant at which fewer units existed than were requested.
#[derive(Debug)]
pub(crate) struct SoldOut {
    /// The units of all shards, and those in transit.
    pub(crate) left: u64,
    /// The stock of each shard, in the order of the list.
    pub(crate) stocks: Vec<u64>,
}

/// Whether the reply to an order says that its shard has fewer units than it needs. `out_of_stock` though the stock suffices is of
/// before, and kept under the request id: no unit that is borrowed changes it.
pub(crate) fn is_short(reply: &Outcome, units: u64) -> bool {
    reply.status == Status::OutOfStock && reply.stock.is_none_or(|stock| stock < units)
}
