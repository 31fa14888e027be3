//! `inspect --request R`: finds an order by its request id, or by the `<job>:<line>` of a file.

use serde::Serialize;

use super::entries::{last, may_name, needle};
use crate::cli::commands::hints;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{Cell, Output, columns};
use seckill::inventory::id::{ActivityId, RequestId, StoredUser};
use seckill::inventory::ledger::{Entry, EntryId};
use seckill::inventory::status::Status;
use seckill::inventory::time::Millis;
use seckill::store::Store;

/// What became of an order in one activity.
#[derive(Debug, Serialize)]
pub struct RequestRow {
    request: String,
    activity: String,
    status: Status,
    /// `multi_deduct` of an order of several activities, if that is known.
    op: Option<String>,
    user: Option<String>,
    quantity: Option<i64>,
    stock: Option<u64>,
    id: Option<EntryId>,
    n: Option<usize>,
    time: Option<Millis>,
    by: Option<String>,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
}

columns!(row: RequestRow {
    data request;
    activity => Cell::text(&row.activity);
    status;
    op => text(row.op.as_ref());
    user => text(row.user.as_ref().or(row.user_hex.as_ref()));
    quantity;
    data stock;
    id as "entry" => row.id.map_or_else(Cell::unknown, Cell::number);
    data n;
    time => row.time.map_or_else(Cell::unknown, |time| Cell::text(time.to_second().to_string()));
    by => text(row.by.as_ref());
    reason => text(row.reason.as_ref());
}, sparse = true);

fn text(text: Option<&String>) -> Cell {
    Cell::text(text.map(String::as_str).unwrap_or_default()).flexible()
}

/// Finds it in the activities that were named, else in all that were preheated.
pub fn run(request: &RequestId, activities: &[ActivityId], store: &mut Store, out: &mut Output) -> Result<Exit> {
    // Of a sharded activity any shard may have it.
    let read = store.snapshots(activities)?;
    let parts: Vec<(ActivityId, ActivityId)> =
        read.iter().flat_map(|it| it.parts().into_iter().map(|part| (it.activity.clone(), part))).collect();
    let ids: Vec<ActivityId> = parts.iter().map(|(_, part)| part.clone()).collect();
    let known = store.known_requests(&ids, request.as_str())?;
    hints::warn_of_replica(store, out);
    let mut rows = Vec::new();
    let mut decided = 0;
    for ((name, activity), known) in parts.iter().zip(known) {
        if known.record.is_none() && !known.is_decided {
            continue;
        }
        let record = known.record.as_deref().and_then(Record::read);
        match (find(request, activity, store)?, record) {
            (Some(mut row), record) => {
                // The entry of an order of several activities is a `deduct`.
                row.op = record.filter(|record| record.op == "multi_deduct").map(|record| record.op).or(row.op);
                row.activity = name.to_string();
                rows.push(row);
            }
            (None, Some(record)) => {
                let row = without_entry(request, activity, record, store, out)?;
                rows.push(RequestRow { activity: name.to_string(), ..row });
            }
            (None, None) => decided += 1,
        }
    }
    if rows.is_empty() {
        let failure = Failure::new(Exit::Refused, format!("no order has the request id `{request}`"));
        return Err(match decided {
            0 => failure.hint("an order that was refused leaves no trace; `--layout` names other keys"),
            _ => failure.hint(
                "the job is known and has decided that line: it was refused, is of another activity, or its entry was \
                 trimmed",
            ),
        }
        .into());
    }
    out.array(&rows)?;
    Ok(Exit::Done)
}

/// The order as the ledger has it.
fn find(request: &RequestId, activity: &ActivityId, store: &mut Store) -> Result<Option<RequestRow>> {
    let snapshot = store.snapshot(activity)?;
    let Some(last) = last(&snapshot) else { return Ok(None) };
    let needle = needle(request.as_str());
    let job = request.as_str().rsplit_once(':').map(|(job, _)| job.as_bytes());
    let mut found = None;
    store.each_entry(activity, EntryId::ZERO, last, |entry| {
        let is_of_job = job.is_some() && entry.job.as_deref() == job;
        if is_of_job || may_name(entry.requests.as_deref(), needle.as_deref()) {
            found = in_entry(request, activity, entry);
        }
        found.is_none()
    })?;
    Ok(found)
}

fn in_entry(request: &RequestId, activity: &ActivityId, entry: &Entry) -> Option<RequestRow> {
    let rows = entry.rows().ok()?;
    let names = entry.line_names(rows.len());
    let is_it = |nth: usize| rows[nth].text(2).or(names.get(nth).map(String::as_str)) == Some(request.as_str());
    let nth = (0..rows.len()).find(|nth| is_it(*nth))?;
    let order = &rows[nth];
    let lossy = |field: &Option<Vec<u8>>| field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Some(RequestRow {
        request: request.to_string(),
        activity: activity.to_string(),
        status: Status::Ok,
        op: Some(String::from_utf8_lossy(&entry.op).into_owned()),
        user: order.text(0).map(str::to_owned),
        quantity: order.count(1),
        stock: Entry::count(entry.stock.as_deref()),
        id: Some(entry.id),
        n: Some(nth + 1),
        time: Some(entry.id.at()),
        by: lossy(&entry.by),
        reason: order.text(3).map(str::to_owned).or_else(|| lossy(&entry.reason)),
        user_hex: StoredUser::new(order.user()).user_hex(),
    })
}

/// An order that only the record of its request id knows; says why.
fn without_entry(
    request: &RequestId,
    activity: &ActivityId,
    record: Record,
    store: &mut Store,
    out: &Output,
) -> Result<RequestRow> {
    let snapshot = store.snapshot(activity)?;
    let meta = snapshot.meta.as_ref();
    let checkpoint = meta.and_then(|meta| meta.checkpoint.as_ref()).filter(|checkpoint| checkpoint.removed > 0);
    out.note(match (record.status, checkpoint) {
        (Status::Ok, Some(checkpoint)) => {
            format!("its entry in `{activity}` was trimmed: it is from {} or before", checkpoint.upto.at().to_second())
        }
        (Status::Ok, None) => format!("`{activity}` has no ledger entry of it: when and by whom is not recorded"),
        _ => format!("it was refused in `{activity}`: refusals have no ledger entry"),
    });
    Ok(RequestRow {
        request: request.to_string(),
        activity: activity.to_string(),
        status: record.status,
        op: Some(record.op),
        user: record.user.text().filter(|user| !user.is_empty()).map(str::to_owned),
        quantity: record.quantity,
        stock: None,
        id: None,
        n: None,
        time: None,
        by: None,
        reason: None,
        user_hex: record.user.user_hex(),
    })
}

/// What is stored under a request id: the order's digest, with the status in front if it was refused.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    status: Status,
    op: String,
    quantity: Option<i64>,
    user: StoredUser,
}

impl Record {
    fn read(record: &[u8]) -> Option<Self> {
        let split = |bytes: &'_ [u8]| {
            let at = bytes.iter().position(|byte| *byte == b'\t')?;
            Some((std::str::from_utf8(&bytes[..at]).ok()?.to_owned(), bytes[at + 1..].to_vec()))
        };
        let (status, digest) = match split(record) {
            Some((code, digest)) if code.starts_with('-') => (Status::of_code(code.parse().ok()?)?, digest),
            _ => (Status::Ok, record.to_vec()),
        };
        // A purchase of one unit is the user alone.
        let Some((order, user)) = split(&digest) else {
            let (op, user) = ("deduct".to_owned(), StoredUser::new(digest));
            return Some(Self { status, op, quantity: Some(1), user });
        };
        let (op, quantity) = order.split_once(' ').unwrap_or(("deduct", &order));
        // Of several activities, the rest is a digest.
        Some(Self { status, op: op.to_owned(), quantity: quantity.parse().ok(), user: StoredUser::new(user) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_id_stores_is_read_back() {
        for (text, status, op, quantity, user) in [
            ("7", Status::Ok, "deduct", Some(1), "7"),
            ("-3 a", Status::Ok, "deduct", Some(1), "-3 a"),
            ("2\tann b", Status::Ok, "deduct", Some(2), "ann b"),
            ("refund 2\t7", Status::Ok, "refund", Some(2), "7"),
            ("-3\t7", Status::OutOfStock, "deduct", Some(1), "7"),
            ("-2\t4\t7", Status::LimitExceeded, "deduct", Some(4), "7"),
            ("multi_deduct 0f1e\t7", Status::Ok, "multi_deduct", None, "7"),
            ("-1\tmulti_deduct 0f1e\t7", Status::Refused, "multi_deduct", None, "7"),
        ] {
            let read = Record::read(text.as_bytes()).unwrap();
            let wanted = Record { status, op: op.to_owned(), quantity, user: StoredUser::new(user) };
            assert_eq!(read, wanted, "{text}");
        }
        assert_eq!(Record::read(b"-77\t7"), None);
    }
}
