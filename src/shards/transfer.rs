//! One transfer: `lend` at the donor, `WAIT`, `borrow` at the home, `WAIT`; and what is left of it, `finished` ids, goes with the
//! next `lend` there.
//!
//! The units of a `lend` that no replica has must not arrive: a failover would bring them back to the donor, and they would be
//! sold twice. An id may leave the donor's list only when a replica of the home has the `borrow`: else a failover there would
//! lose the units, and nobody would look for them.
//!
//! `peek` says what all shards of an activity have.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::status::call_code;
use crate::model::{ActivityId, Corrupt, Layout, Shards, Status};
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::redis::cluster::Servers;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{BORROW, LEND, PEEK, sha1_hex};

/// Why the shards of an activity did not do what they were asked.
#[derive(Debug)]
pub(crate) enum ShardFault {
    /// The activity was reset, or has other shards by now.
    ListChanged,
    /// A shard is archived: it neither sells nor lends until it is restored.
    Archived,
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
            Self::Archived => {
                StoreError::Unfinished { activity: activity.to_string(), why: "a shard of it is archived".to_owned() }
            }
            Self::Corrupt(corrupt) => StoreError::Reply { what: corrupt.key, reply: corrupt.what },
            Self::Store(error) => error,
        }
    }
}

/// The id of a transfer: of one donor and one home, because an id for two donors would be credited once and lent twice.
pub(crate) fn transfer_id(request: &str, attempt: u32, donor: u32, home: u32) -> String {
    sha1_hex(&format!("{request}\n{attempt}\n{donor}\n{home}"))
}

/// Who transfers units, and between the shards of which activity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferContext<'a> {
    pub(crate) layout: Layout,
    pub(crate) by: &'a str,
    pub(crate) activity: &'a ActivityId,
    pub(crate) epoch: u64,
    /// How long a `WAIT` may take.
    pub(crate) patience: Duration,
}

/// What a donor is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferRequest<'a> {
    pub(crate) id: &'a str,
    pub(crate) donor: u32,
    pub(crate) home: u32,
    /// 0 repeats a transfer, and begins none.
    pub(crate) need: u64,
    pub(crate) want: u64,
    /// Ids of the donor whose units have arrived.
    pub(crate) finished: &'a [String],
}

/// A donor's reply to `lend`.
#[derive(Debug)]
pub(crate) enum LendReply {
    /// So many units are in transit to the home, and a replica has that if there is one.
    Lent(u64),
    /// They are in transit, but no replica said in time that it has that: they must not arrive yet.
    Unreplicated,
    /// There is nothing to lend, or a failover lost the transfer.
    Nothing,
}

/// A home's reply to `borrow`.
#[derive(Debug)]
pub(crate) struct BorrowReply {
    /// The units are there: whether a replica has that, or there is none to have it.
    pub(crate) is_replicated: Result<bool, ShardFault>,
    /// The reply to the order that followed in the same write, if one did.
    pub(crate) order: Option<Value>,
    /// Whether all that may have been sent more than once.
    pub(crate) was_resent: bool,
}

impl<'a> TransferContext<'a> {
    /// The context of an activity of this epoch.
    pub(crate) fn new(servers: &Servers, by: &'a str, activity: &'a ActivityId, epoch: u64) -> Self {
        let (layout, patience) = (servers.layout, (servers.target().timeout / 2).min(PATIENCE));
        Self { layout, by, activity, epoch, patience }
    }

    fn keys(&self, shard: u32) -> Keys {
        Keys::of(self.layout, &self.activity.shard(shard))
    }

    /// The call of `lend`.
    pub(crate) fn lend_call(&self, request: &TransferRequest<'_>) -> Call {
        let arguments = [
            self.by.to_owned(),
            request.id.to_owned(),
            self.epoch.to_string(),
            request.home.to_string(),
            request.need.to_string(),
            request.want.to_string(),
            request.finished.join(" "),
        ];
        Call::script(&LEND, transfer_keys(&self.keys(request.donor)), arguments).idempotent()
    }

    /// The call of `borrow`, for so many units.
    pub(crate) fn borrow_call(&self, request: &TransferRequest<'_>, units: u64) -> Call {
        let numbers = [self.epoch, u64::from(request.donor), units].map(|number| number.to_string());
        let arguments = [self.by, request.id].map(str::to_owned).into_iter().chain(numbers);
        Call::script(&BORROW, transfer_keys(&self.keys(request.home)), arguments).idempotent()
    }

    /// Asks a donor for units, and waits until a replica has what it wrote.
    pub(crate) fn lend(&self, servers: &mut Servers, request: &TransferRequest<'_>) -> Result<LendReply, ShardFault> {
        let answer = servers.send(&[self.lend_call(request)], Some(ReplicaWait::for_one(self.patience)), None)?;
        let (reply, is_replicated) = (Reply::of(&LEND), answer.is_replicated());
        let values = reply.array(answer.value())?;
        match shard_status(&reply, &values, &self.keys(request.donor))? {
            Status::Ok | Status::Replayed if !is_replicated => Ok(LendReply::Unreplicated),
            Status::Ok | Status::Replayed => {
                Ok(LendReply::Lent(reply.count(values.get(1))?.ok_or_else(|| reply.invalid(&values))?))
            }
            Status::OutOfStock => Ok(LendReply::Nothing),
            _ => Err(ShardFault::ListChanged),
        }
    }

    /// Gives the home units that were lent and that a replica of the donor has. An order may follow.
    pub(crate) fn borrow(
        &self,
        servers: &mut Servers,
        request: &TransferRequest<'_>,
        units: u64,
        order: Option<&Call>,
    ) -> Result<BorrowReply> {
        let mut calls = vec![self.borrow_call(request, units)];
        calls.extend(order.cloned());
        let ack = servers.send(&calls, Some(ReplicaWait::for_one(self.patience)), None)?;
        let (is_acknowledged, was_resent) = (ack.is_replicated(), ack.was_resent);
        let mut replies = ack.values.into_iter();
        let reply = Reply::of(&BORROW);
        let values = reply.array(replies.next().unwrap_or(Value::Nil))?;
        let is_replicated = match shard_status(&reply, &values, &self.keys(request.home)) {
            Ok(Status::Ok | Status::Replayed) => Ok(is_acknowledged),
            Ok(Status::RequestConflict) => return Err(reply.invalid(&values)),
            Ok(_) => Err(ShardFault::ListChanged),
            Err(ShardFault::Store(error)) => return Err(error),
            Err(fault) => Err(fault),
        };
        Ok(BorrowReply { is_replicated, order: replies.next(), was_resent })
    }
}

/// The status that a shard replies first, if it was not reset or archived and is not damaged.
pub(crate) fn shard_status(reply: &Reply<'_>, values: &[Value], keys: &Keys) -> Result<Status, ShardFault> {
    if matches!(values.first(), Some(Value::Int(call_code::OTHER_EPOCH))) {
        return Err(ShardFault::ListChanged);
    }
    match reply.status(values.first())? {
        Status::Corrupt => Err(ShardFault::Corrupt(reply.corrupt(values, keys)?)),
        Status::Ended => Err(ShardFault::Archived),
        status => Ok(status),
    }
}

/// Ids of transfers whose units are at their home for sure. They still have to leave the list of the donor: its next `lend`
/// takes them out. By activity and donor, with the epoch that they belong to.
#[derive(Debug, Default)]
pub(crate) struct PendingAcks(pub(crate) BTreeMap<(ActivityId, u32), (u64, Vec<String>)>);

impl PendingAcks {
    /// Adds an id. Those of an older epoch are gone with it.
    pub(crate) fn add(&mut self, activity: &ActivityId, donor: u32, epoch: u64, id: String) {
        let known = self.0.entry((activity.clone(), donor)).or_insert_with(|| (epoch, Vec::new()));
        if known.0 != epoch {
            *known = (epoch, Vec::new());
        }
        known.1.push(id);
    }

    /// Those of a donor, for its next `lend`.
    pub(crate) fn take(&mut self, activity: &ActivityId, donor: u32, epoch: u64) -> Vec<String> {
        let known = self.0.remove(&(activity.clone(), donor));
        known.filter(|(of, _)| *of == epoch).map(|(_, ids)| ids).unwrap_or_default()
    }
}

/// The longest `WAIT`: the connection must not time out before it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Units that a shard lent and that may not have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenTransfer {
    pub(crate) id: String,
    pub(crate) units: u64,
    /// The number of the shard that gets them.
    pub(crate) home: u32,
    /// When they were lent, in Unix ms of the donor's clock.
    pub(crate) lent_ms: u64,
}

/// A shard at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardView {
    /// Units left, with what is withdrawn.
    pub(crate) stock: u64,
    /// The last entry of its ledger.
    pub(crate) last: Option<String>,
    pub(crate) epoch: u64,
    /// Its clock, in Unix ms.
    pub(crate) now_ms: u64,
    pub(crate) open: Vec<OpenTransfer>,
}

/// The keys of a shard that `lend`, `borrow` and `peek` take.
pub(crate) fn transfer_keys(keys: &Keys) -> [&str; 4] {
    [&keys.stock, &keys.meta, &keys.requests, &keys.ledger]
}

/// All shards of an activity, in the order of their list, each at its own instant.
///
/// # Errors
/// One is not there, so that the list is old; or it is damaged; or any of [`StoreError`].
pub(crate) fn peek(
    servers: &mut Servers,
    activity: &ActivityId,
    shards: &Shards,
) -> Result<Vec<ShardView>, ShardFault> {
    let ids: Vec<ActivityId> = shards.ids(activity).collect();
    let keys: Vec<Keys> = ids.iter().map(|id| Keys::of(servers.layout, id)).collect();
    let calls: Vec<Call> = keys.iter().map(|keys| Call::script(&PEEK, transfer_keys(keys), [] as [&str; 0])).collect();
    servers.read_all(&calls)?.into_iter().zip(&keys).map(|(value, keys)| view(value, keys)).collect()
}

/// Reads a reply.
fn view(value: Value, keys: &Keys) -> Result<ShardView, ShardFault> {
    let reply = Reply::of(&PEEK);
    let values = reply.array(value)?;
    if shard_status(&reply, &values, keys)? != Status::Ok {
        return Err(ShardFault::ListChanged);
    }
    let [_, stock, last, epoch, now, Value::Array(transfers)] = &values[..] else {
        return Err(reply.invalid(&values).into());
    };
    let count = |value| reply.count(Some(value))?.ok_or_else(|| reply.invalid(&values));
    let mut open = Vec::with_capacity(transfers.len() / 4);
    for part in transfers.chunks(4) {
        let [id, units, home, ms] = part else { return Err(reply.invalid(&values).into()) };
        open.push(OpenTransfer {
            id: reply.text(Some(id))?.unwrap_or_default(),
            units: count(units)?,
            home: u32::try_from(count(home)?).map_err(|_| reply.invalid(&values))?,
            lent_ms: count(ms)?,
        });
    }
    let last = reply.text(Some(last))?;
    Ok(ShardView { stock: count(stock)?, last, epoch: count(epoch)?, now_ms: count(now)?, open })
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
