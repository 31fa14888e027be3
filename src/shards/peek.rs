//! What all shards of an activity have: one pipeline a node.

use redis::Value;

use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::redis::call::Call;
use crate::redis::cluster::Servers;
use crate::script::PEEK;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::shards::request::ShardFault;

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
    layout: Layout,
    activity: &ActivityId,
    shards: &Shards,
) -> Result<Vec<ShardView>, ShardFault> {
    let ids: Vec<ActivityId> = shards.ids(activity).collect();
    let keys: Vec<Keys> = ids.iter().map(|id| Keys::of(layout, id)).collect();
    let calls: Vec<Call> = keys.iter().map(|keys| Call::script(&PEEK, transfer_keys(keys), [] as [&str; 0])).collect();
    servers.read_all(&calls)?.into_iter().zip(&keys).map(|(value, keys)| view(value, keys)).collect()
}

/// Reads a reply.
fn view(value: Value, keys: &Keys) -> Result<ShardView, ShardFault> {
    let reply = Reply::of(&PEEK);
    let values = reply.array(value)?;
    match reply.status(values.first())? {
        Status::Ok => {}
        Status::Corrupt => return Err(ShardFault::Corrupt(reply.corrupt(&values, keys)?)),
        _ => return Err(ShardFault::ListChanged),
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
