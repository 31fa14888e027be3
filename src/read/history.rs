//! What checkpoints and request ids say of one user or of one order.

use redis::Value;

use crate::error::Result;
use crate::model::number::{whole, whole_bytes};
use crate::model::{ActivityId, Checkpoint, HoldRecord};
use crate::read::checkpoint::{self, Page};
use crate::redis::call::Call;
use crate::script::reply::Reply;
use crate::store::Store;

/// What a user held by the entries that a trim removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrimmedUnits {
    /// So many units.
    Units(i64),
    /// Something: nobody recorded how much.
    Unknown,
    /// A page is gone, or says nonsense.
    Damaged,
}

/// What an activity knows of a request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredRequest {
    /// The digest that is stored under the id itself.
    pub record: Option<Vec<u8>>,
    /// The hold of that id.
    pub hold: Option<HoldRecord>,
    /// Whether the job of a name `<job>:<line>` decided that line.
    pub is_decided: bool,
    /// The key is of another type.
    pub is_unreadable: bool,
}

/// Operations of which files of orders exist.
const JOB_OPERATIONS: [&str; 6] = ["deduct", "refund", "multi_deduct", "hold", "confirm", "release"];

/// What a user held by the entries before a checkpoint, page by page.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn carried(
    store: &mut Store,
    activity: &ActivityId,
    checkpoint: &Checkpoint,
    user: &[u8],
) -> Result<TrimmedUnits> {
    let mut carried = TrimmedUnits::Units(0);
    checkpoint::each_page(store, &store.keys(activity), checkpoint, |page| {
        carried = match page.and_then(Page::decode).map(|page| page.units(user)) {
            Some(None) => return true,
            Some(Some(found)) => found.map_or(TrimmedUnits::Unknown, TrimmedUnits::Units),
            None => TrimmedUnits::Damaged,
        };
        false
    })?;
    Ok(carried)
}

/// What each of these activities knows of a request id, or of the line of a job that it names.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn known_requests(
    store: &mut Store,
    activities: &[ActivityId],
    request: &str,
) -> Result<Vec<StoredRequest>> {
    let line = request.rsplit_once(':').and_then(|(job, line)| Some((job, whole(line)?)));
    let mut fields = vec![request.to_owned(), format!("\th:{request}")];
    if let Some((job, _)) = line {
        fields.extend(JOB_OPERATIONS.iter().map(|operation| format!("\tj:{operation}:{job}")));
    }
    let reply = Reply::of_command("HMGET");
    let call = |activity: &ActivityId| {
        let key = store.keys(activity).requests;
        Call::command(&key, redis::cmd("HMGET").arg(&key).arg(&fields))
    };
    let calls: Vec<Call> = activities.iter().map(call).collect();
    let known = |value: Value| {
        let mut values = reply.array(value)?.into_iter();
        let mut text = || match values.next() {
            Some(Value::BulkString(text)) => Some(text),
            _ => None,
        };
        let (record, hold) = (text(), text().and_then(|record| HoldRecord::read(&record)));
        let reached = |value: &Value| match value {
            Value::BulkString(text) => whole_bytes(text.split(|byte| *byte == b' ').next()?),
            _ => None,
        };
        let is_decided =
            line.is_some_and(|(_, line)| values.any(|value| reached(&value).is_some_and(|upto| upto >= line)));
        Ok(StoredRequest { record, hold, is_decided, is_unreadable: false })
    };
    let each = store.servers.call_all(&calls).into_iter().map(|answer| match answer {
        Err(error) if error.is_wrong_type() => {
            Ok(StoredRequest { record: None, hold: None, is_decided: false, is_unreadable: true })
        }
        answer => known(answer?.value()),
    });
    each.collect()
}
