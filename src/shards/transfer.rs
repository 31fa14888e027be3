//! One transfer: `lend` at the donor, `WAIT`, `borrow` at the home, `WAIT`; and what is left of it, `finished` ids, goes with the
//! next `lend` there.
//!
//! The units of a `lend` that no replica has must not arrive: a failover would bring them back to the donor, and they would be
//! sold twice. An id may leave the donor's list only when a replica of the home has the `borrow`: else a failover there would
//! lose the units, and nobody would look for them.

use std::time::Duration;

use redis::Value;

use crate::error::Settle;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::order::Corrupt;
use crate::model::status::{Status, call_code};
use crate::redis::call::covered::SafeCall;
use crate::redis::cluster::Servers;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::sha1::sha1_hex;
use crate::script::{BORROW, LEND};
use crate::shards::peek::four;

/// The id of a transfer: of one donor and one home, because an id for two donors would be credited once and lent twice.
pub(crate) fn transfer_id(request: &str, attempt: u32, donor: u32, home: u32) -> String {
    sha1_hex(&format!("{request}\n{attempt}\n{donor}\n{home}"))
}

/// Who transfers, of which activity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) layout: Layout,
    pub(crate) by: &'a str,
    pub(crate) activity: &'a ActivityId,
    pub(crate) epoch: u64,
    /// How long a `WAIT` may take.
    pub(crate) patience: Duration,
}

/// What a donor is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loan<'a> {
    pub(crate) id: &'a str,
    pub(crate) donor: u32,
    pub(crate) home: u32,
    /// 0 repeats a transfer, and begins none.
    pub(crate) need: u64,
    pub(crate) want: u64,
    /// Ids of the donor whose units have arrived.
    pub(crate) finished: &'a [String],
}

/// What a donor replied.
#[derive(Debug)]
pub(crate) enum Lent {
    /// So many units are in transit to the home, and a replica has that if there is one.
    Covered(u64),
    /// They are in transit, but no replica said in time that it has that: they must not arrive yet.
    Uncovered,
    /// There is nothing to lend, or a failover lost the transfer.
    Nothing,
    /// The activity was reset, or the shard is gone.
    Changed,
    Corrupt(Corrupt),
}

/// What a home replied.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pub(crate) arrival: Arrival,
    /// The reply to the order that followed in the same write, if one did.
    pub(crate) order: Option<Value>,
    /// Whether all that may have been sent more than once.
    pub(crate) was_broken: bool,
}

/// What became of the units at the home.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// They are there, and a replica has that, or there is none.
    Covered,
    /// They are there, but no replica said in time that it has that.
    Uncovered,
    /// The activity was reset, or the shard is gone.
    Changed,
    Corrupt(Corrupt),
}

impl Party<'_> {
    fn keys(&self, shard: u32) -> Keys {
        Keys::of(self.layout, &self.activity.shard(shard))
    }

    /// The call of `lend`.
    pub(crate) fn lend_call(&self, loan: &Loan<'_>) -> SafeCall {
        let arguments = [
            self.by.to_owned(),
            loan.id.to_owned(),
            self.epoch.to_string(),
            loan.home.to_string(),
            loan.need.to_string(),
            loan.want.to_string(),
            loan.finished.join(" "),
        ];
        SafeCall::new(&LEND, four(&self.keys(loan.donor)), arguments)
    }

    /// Asks a donor for units, and waits until a replica has what it wrote.
    pub(crate) fn lend(&self, servers: &mut Servers, loan: &Loan<'_>) -> Result<Lent, StoreError> {
        let mut covered = servers.run_covered(&[self.lend_call(loan)], self.patience, None)?;
        let reply = Reply::of(&LEND);
        let values = reply.array(covered.replies.pop().unwrap_or(Value::Nil))?;
        if matches!(values.first(), Some(Value::Int(call_code::OTHER_EPOCH))) {
            return Ok(Lent::Changed);
        }
        Ok(match reply.status(values.first())? {
            Status::Ok | Status::Replayed if !covered.is_covered => Lent::Uncovered,
            Status::Ok | Status::Replayed => {
                Lent::Covered(reply.count(values.get(1))?.ok_or_else(|| reply.invalid(&values))?)
            }
            Status::OutOfStock => Lent::Nothing,
            Status::Corrupt => Lent::Corrupt(reply.corrupt(&values, &self.keys(loan.donor))?),
            _ => Lent::Changed,
        })
    }

    /// Gives the home units that were lent and are covered. An order may follow: `settle` is for the error if its outcome stays
    /// unknown.
    pub(crate) fn borrow(
        &self,
        servers: &mut Servers,
        loan: &Loan<'_>,
        units: u64,
        order: Option<(&SafeCall, &Settle)>,
    ) -> Result<Borrowed, StoreError> {
        let keys = self.keys(loan.home);
        let arguments =
            [self.by.to_owned(), loan.id.to_owned(), self.epoch.to_string(), loan.donor.to_string(), units.to_string()];
        let mut calls = vec![SafeCall::new(&BORROW, four(&keys), arguments)];
        calls.extend(order.map(|(call, _)| call.clone()));
        let covered = servers.run_covered(&calls, self.patience, order.map(|(_, settle)| settle))?;
        let mut replies = covered.replies.into_iter();
        let reply = Reply::of(&BORROW);
        let values = reply.array(replies.next().unwrap_or(Value::Nil))?;
        let arrival = match values.first() {
            Some(Value::Int(call_code::OTHER_EPOCH)) => Arrival::Changed,
            first => match reply.status(first)? {
                Status::Ok | Status::Replayed if covered.is_covered => Arrival::Covered,
                Status::Ok | Status::Replayed => Arrival::Uncovered,
                Status::Corrupt => Arrival::Corrupt(reply.corrupt(&values, &keys)?),
                Status::RequestConflict => return Err(reply.invalid(&values)),
                _ => Arrival::Changed,
            },
        };
        Ok(Borrowed { arrival, order: replies.next(), was_broken: covered.was_broken })
    }
}

/// The longest `WAIT`: the connection must not time out before it.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a `WAIT` may take.
pub(crate) fn patience(servers: &Servers) -> Duration {
    (servers.target().timeout / 2).min(PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_one_attempt_one_donor_and_one_home() {
        let ids =
            [("r", 1, 3, 17), ("r", 2, 3, 17), ("r", 1, 17, 3), ("r", 1, 3, 29), ("s", 1, 3, 17), ("r", 13, 17, 1)];
        let ids: std::collections::BTreeSet<String> =
            ids.into_iter().map(|(request, attempt, donor, home)| transfer_id(request, attempt, donor, home)).collect();
        assert_eq!(ids.len(), 6);
        assert!(ids.iter().all(|id| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit())), "{ids:?}");
        // sha1sum says so.
        assert_eq!(transfer_id("r", 1, 3, 17), "a9dd8d97ba6e6e12e8fb528409759c27972fbc2c");
    }
}
