//! What all shards of an activity have: one pipeline a node.

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::order::Corrupt;
use crate::model::shards::Shards;
use crate::model::status::Status;
use crate::redis::call::several::Unanswered;
use crate::redis::call::{Again, evaluate};
use crate::redis::cluster::Servers;
use crate::script::PEEK;
use crate::script::keys::Keys;
use crate::script::reply::Reply;

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

/// All shards, in the order of their list, each at its own instant.
#[derive(Debug)]
pub(crate) enum Peeked {
    All(Vec<ShardView>),
    /// One is not there: the list is old.
    Absent,
    Corrupt(Corrupt),
}

/// The keys of a shard that `lend`, `borrow` and `peek` take.
pub(crate) fn four(keys: &Keys) -> [&str; 4] {
    [&keys.stock, &keys.meta, &keys.requests, &keys.ledger]
}

/// Looks at all shards of an activity.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn peek(
    servers: &mut Servers,
    layout: Layout,
    activity: &ActivityId,
    shards: &Shards,
) -> Result<Peeked, StoreError> {
    let ids: Vec<ActivityId> = shards.ids(activity).collect();
    let keys: Vec<Keys> = ids.iter().map(|id| Keys::of(layout, id)).collect();
    let calls: Vec<_> =
        keys.iter().map(|keys| (keys.slot(), evaluate("EVALSHA", PEEK.sha1, &four(keys), &[] as &[&str]))).collect();
    let mut views = Vec::with_capacity(ids.len());
    for (keys, answer) in keys.iter().zip(servers.each_reply(&calls)) {
        let value = match answer {
            Ok(value) => value,
            Err(Unanswered::Refused(error)) => return Err(error),
            // Another node, or one without the script.
            Err(Unanswered::NotRun | Unanswered::Lost(_)) => {
                servers.run(&PEEK, &four(keys), Again::Reads, None, |_| Vec::<String>::new())?
            }
        };
        match view(value, keys)? {
            One::Here(view) => views.push(view),
            One::Absent => return Ok(Peeked::Absent),
            One::Corrupt(corrupt) => return Ok(Peeked::Corrupt(corrupt)),
        }
    }
    Ok(Peeked::All(views))
}

enum One {
    Here(ShardView),
    Absent,
    Corrupt(Corrupt),
}

/// Reads a reply.
fn view(value: Value, keys: &Keys) -> Result<One, StoreError> {
    let reply = Reply::of(&PEEK);
    let values = reply.array(value)?;
    match reply.status(values.first())? {
        Status::Ok => {}
        Status::Corrupt => return Ok(One::Corrupt(reply.corrupt(&values, keys)?)),
        _ => return Ok(One::Absent),
    }
    let [_, stock, last, epoch, now, Value::Array(transfers)] = &values[..] else { return Err(reply.invalid(&values)) };
    let count = |value| reply.count(Some(value))?.ok_or_else(|| reply.invalid(&values));
    let mut open = Vec::with_capacity(transfers.len() / 4);
    for part in transfers.chunks(4) {
        let [id, units, home, ms] = part else { return Err(reply.invalid(&values)) };
        open.push(OpenTransfer {
            id: reply.text(Some(id))?.unwrap_or_default(),
            units: count(units)?,
            home: u32::try_from(count(home)?).map_err(|_| reply.invalid(&values))?,
            lent_ms: count(ms)?,
        });
    }
    let last = reply.text(Some(last))?;
    Ok(One::Here(ShardView { stock: count(stock)?, last, epoch: count(epoch)?, now_ms: count(now)?, open }))
}
