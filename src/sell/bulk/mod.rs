//! Many orders of one job, as fast as the server accepts them, each applied exactly once.
//!
//! Orders are pushed in the order of the input and come out decided in the same order. A [`Run`] connects what is
//! waiting ([`JobOrders`]) with a `Pipeline`. The script keeps a watermark of the job in each activity: it decides no line
//! twice and refuses a call that would leave a gap, so a call whose reply was lost is sent again.

mod columns;
mod job;
mod lanes;
mod operation;
mod orders;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Result, ServerKind, StoreError};
use crate::model::{Corrupt, Interner, RequestId, Status};
use crate::redis::pipeline::Event;
pub(crate) use crate::redis::pipeline::Limits;
pub(crate) use crate::sell::bulk::job::Job;
use crate::sell::bulk::job::LossCheck;
use crate::sell::bulk::lanes::Lanes;
pub(crate) use crate::sell::bulk::operation::Operation;
pub(crate) use crate::sell::bulk::orders::{DecidedOrder, OrderOptions, status_of_items};
use crate::sell::bulk::orders::{JobOrders, OrderCall};
use crate::shards::borrower::{BorrowOutcome, BorrowRequest};
use crate::shards::transfer::ShardFault;

/// What the run did.
#[derive(Debug)]
pub(crate) enum Advance {
    /// It sent, received or waited.
    Continue,
    /// There is nothing to do: it wants more orders, or is done.
    Idle,
    /// It waits for a server that is gone or refuses writes; reported once for each outage.
    Outage(StoreError),
    /// A key holds invalid data; reported once for each key.
    Corrupt(Corrupt),
    /// The server has lost what it had decided after this line of this activity: the input must be read again.
    Rewind {
        /// Which one.
        activity: String,
        /// The last line that is still decided.
        line: u64,
    },
}

/// What a reply means for its call, or for one activity of it.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Its orders are decided, or those that the stock of a shard covers. These keys hold invalid data.
    Decided(Vec<Corrupt>),
    /// Its orders are decided or wait again, because of what happened to an earlier call, or because of the error.
    Retry(Option<StoreError>),
    /// Its orders wait again; see [`Advance::Rewind`].
    Rewind {
        /// The activity.
        index: u32,
        /// The last line that is still decided.
        line: u64,
    },
}

/// A job being applied.
pub(crate) struct Run {
    orders: JobOrders,
    lanes: Lanes<OrderCall>,
    known_corrupt: HashSet<String>,
    corrupt: VecDeque<Corrupt>,
    /// What is known of the end; `None` if nobody asked yet.
    check: Option<LossCheck>,
    retry_for: Duration,
}

impl Run {
    /// Loads watermarks of some activities that are known to come; false if those of all are loaded, or if the server
    /// is gone. What is left is loaded by [`advance`](Self::advance), which is slower for decided lines.
    ///
    /// # Errors
    /// Any of [`StoreError`]; another input has the job's name, for one.
    pub(crate) fn load_watermarks(&mut self) -> Result<bool> {
        if self.orders.states.are_loaded() || !self.lanes.can_read() {
            return Ok(false);
        }
        self.orders.states.load(&mut self.lanes)?;
        for parent in self.orders.states.take_found() {
            self.orders.split(parent)?;
        }
        if self.orders.states.are_loaded() && self.lanes.servers.is_cluster() {
            self.orders.distributed(self.lanes.count());
        }
        Ok(true)
    }

    /// Says whether an order without a user can be added, as far as is known.
    ///
    /// # Errors
    /// Its activity is sharded.
    pub(crate) fn check_nameless(&mut self, activity: &str, line: u64) -> Result<()> {
        let index = self.orders.states.number(activity);
        self.orders.states.home(index, &[], line).map(drop)
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.are_idle()
    }

    /// Sends what is ready, or receives what is in flight. `flush`: sends calls that are not full too.
    ///
    /// # Errors
    /// Any of [`StoreError`], if trying again did not help or would not.
    pub(crate) fn advance(&mut self, flush: bool) -> Result<Advance> {
        if let Some(corrupt) = self.corrupt.pop_front() {
            return Ok(Advance::Corrupt(corrupt));
        }
        if self.load_watermarks()? {
            return Ok(Advance::Continue);
        }
        self.distribute();
        if self.end_shortage(flush)? || self.decide_alone()? {
            return Ok(Advance::Continue);
        }
        let Self { orders, lanes, .. } = self;
        let advanced = lanes.advance(|lane, in_flight| {
            let is_sent = |index| in_flight.iter().any(|call| call.names(index));
            orders.states.are_loaded() && orders.wants_to_send(lane, flush, is_sent)
        });
        let (lane, mut event) = match advanced {
            Ok(advanced) => advanced,
            // The only server so far is a node of a cluster.
            Err(error @ StoreError::Server { kind: ServerKind::CrossSlot, .. }) => {
                return lanes.servers.found_cluster().and(Err(error));
            }
            Err(error) => return Err(error),
        };
        if matches!(event, Event::Send) {
            orders.send(lane, lanes.pipeline(lane), flush);
            event = lanes.pipeline(lane).flush();
        }
        self.handle(lane, event)
    }

    /// Gives activities of lanes that lost slots to the lanes that have them now.
    fn distribute(&mut self) {
        while let Some(lane) = self.lanes.next_stale() {
            if !self.orders.states.leave_lane(lane, &mut self.lanes) {
                let used: HashSet<usize> =
                    (0..self.orders.states.count_u32()).map(|index| self.orders.states.lane(index)).collect();
                self.lanes.hand_over(lane, |lane| used.contains(&lane));
            }
            self.orders.distributed(self.lanes.count());
        }
    }

    /// Decides the first order that no call of the run can have, once those before it are decided; false if there is none.
    fn decide_alone(&mut self) -> Result<bool> {
        if !self.orders.states.are_loaded() || !self.lanes.are_idle() {
            return Ok(false);
        }
        let Some(order) = self.orders.find_alone() else { return Ok(false) };
        if self.lanes.pipeline(0).take_turn() {
            self.orders.decide_alone(order)?;
        }
        Ok(true)
    }

    /// Gets units for the first shard that needs some, once nothing else can be done; false if there is none, or if something can.
    fn end_shortage(&mut self, flush: bool) -> Result<bool> {
        if self.orders.shorts.is_empty() || !self.lanes.are_idle() {
            return Ok(false);
        }
        let Self { orders, lanes, .. } = self;
        if (0..lanes.count()).any(|lane| orders.wants_to_send(lane, flush, |_| false)) {
            return Ok(false);
        }
        let Some((index, quantity)) = self.orders.shorts.pop_front() else { return Ok(false) };
        self.get_units(index, quantity)?;
        self.orders.release(index);
        Ok(true)
    }

    /// Gets units for a shard, or proves that there are too few.
    fn get_units(&mut self, index: u32, quantity: u64) -> Result<()> {
        if self.orders.states.fewer_than(index).is_some_and(|fewer| quantity >= fewer) {
            return Ok(());
        }
        let Some((activity, shards, home)) = self.orders.states.place_in_parent(index) else { return Ok(()) };
        let servers = &mut self.lanes.servers;
        let (borrower, stop) = (&mut self.orders.store.borrower, Arc::clone(&self.orders.store.stop));
        let request = RequestId::of_uuid(servers.system().unique_id());
        let place = (&activity, &shards, home);
        let request = BorrowRequest::new(servers, place, (request.as_str(), quantity), &*stop);
        let request = BorrowRequest { at_most: self.retry_for, ..request };
        let borrowed = borrower.borrow(servers, &request);
        // Until they are acknowledged, ids of units that have arrived keep others from knowing how many are left.
        borrower.ack_transfers(servers);
        let failed = |corrupt: &Corrupt| request.failed(servers, format!("key `{}` {}", corrupt.key, corrupt.what));
        match borrowed {
            // Its orders are sent again, or whoever asked to stop is heard.
            Ok(BorrowOutcome::Here | BorrowOutcome::Decided(_)) | Err(ShardFault::Stopped) => Ok(()),
            Ok(BorrowOutcome::SoldOut(sold_out)) => {
                self.orders.states.set_fewer_than(index, quantity, sold_out.stocks);
                Ok(())
            }
            Err(ShardFault::Archived) => {
                self.orders.refuse_activity(index, Status::Ended);
                Ok(())
            }
            Err(ShardFault::ListChanged) => match self.orders.lost_shard(&activity, &shards)? {
                Some(lost) => Err(failed(&lost)),
                None => Err(ShardFault::ListChanged.into_error(&activity)),
            },
            Err(ShardFault::Corrupt(corrupt)) => Err(failed(&corrupt)),
            Err(fault) => Err(fault.into_error(&activity)),
        }
    }

    /// Once all is decided: asks, if there was reason to doubt it, whether the server still has it. What a failover
    /// loses of an activity's last call leaves no gap that a later call would notice. [`Advance::Idle`] if nothing is lost.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub(crate) fn check(&mut self) -> Result<Advance> {
        if self.lanes.was_lost() || (self.check.is_none() && self.lanes.may_move()) {
            self.lanes.begin_check();
            self.check = Some(LossCheck::default());
        }
        let Some(check) = &mut self.check else { return Ok(Advance::Idle) };
        // Waits until there is a server again.
        if !self.lanes.can_read() {
            let (lane, event) = self.lanes.advance(|_, _| false)?;
            return self.handle(lane, event);
        }
        if check.checked < self.orders.states.count_u32() {
            self.orders.states.check(check, &mut self.lanes)?;
            return Ok(Advance::Continue);
        }
        Ok(match check.lost.take() {
            Some((index, line)) => Advance::Rewind { activity: self.orders.states.shown_name(index).to_owned(), line },
            None => Advance::Idle,
        })
    }

    /// Receives what is in flight and sends nothing more.
    ///
    /// # Errors
    /// The first of any.
    pub(crate) fn drain(&mut self) -> Result<()> {
        let mut drained = Ok(());
        while !self.lanes.are_idle() {
            let received = self.lanes.receive().and_then(|(lane, event)| self.handle(lane, event));
            drained = drained.and(received.map(drop));
        }
        drained
    }

    /// Removes all orders, because the input is read again from its beginning; nothing is in flight.
    pub(crate) fn restart(&mut self) {
        self.orders.restart();
        self.check = None;
    }

    /// The error for orders that were in flight when the connection broke, and were not settled since.
    pub(crate) fn unsettled(&self) -> Option<StoreError> {
        self.lanes.unsettled()
    }

    /// The names of the activities, in the order in which they were named first.
    pub(crate) fn into_names(self) -> Interner {
        self.orders.states.into_names()
    }

    /// The job, and the last line that another run of it had decided; `None` if there was none, as far as watermarks were loaded.
    pub(crate) fn decided_before(&self) -> Option<(&str, u64)> {
        let states = &self.orders.states;
        Some((&*states.job.name, states.decided_before)).filter(|(_, line)| *line > 0)
    }

    /// How many orders of each activity (of multi-orders: items) the job refused before this run, or in another one at
    /// the same time.
    pub(crate) fn refused_before(&self) -> impl Iterator<Item = u64> {
        self.orders.states.refused_before()
    }

    fn handle(&mut self, lane: usize, event: Event<OrderCall>) -> Result<Advance> {
        match event {
            Event::Reply(call, value) => {
                let mut rewind = None;
                for verdict in self.orders.reply(call, value)? {
                    rewind = rewind.or(self.obey(lane, verdict));
                }
                if let Some(step) = rewind {
                    return Ok(step);
                }
            }
            Event::Retry(calls) => calls.into_iter().for_each(|call| self.orders.put_back(call)),
            Event::Redirected { call, to } => {
                self.orders.put_back(call);
                self.lanes.redirected(lane, &to)?;
            }
            Event::Outage(error) => return Ok(Advance::Outage(error)),
            Event::Idle => return Ok(Advance::Idle),
            Event::Waited | Event::Send => {}
        }
        Ok(Advance::Continue)
    }

    /// Does what a reply means; returns a step if the input must be read again.
    fn obey(&mut self, lane: usize, verdict: Verdict) -> Option<Advance> {
        match verdict {
            Verdict::Decided(corrupt) => {
                self.lanes.succeeded(lane);
                let known = &mut self.known_corrupt;
                self.corrupt.extend(corrupt.into_iter().filter(|corrupt| known.insert(corrupt.key.clone())));
            }
            Verdict::Retry(why) => self.lanes.pipeline(lane).retry(why),
            Verdict::Rewind { index, line } => {
                self.lanes.pipeline(lane).retry(None);
                return Some(Advance::Rewind { activity: self.orders.states.shown_name(index).to_owned(), line });
            }
        }
        None
    }
}
