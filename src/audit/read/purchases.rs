//! Finds the request ids of users who hold more than they should, by paging all of the activity: nothing lists those of a user.

use std::collections::HashMap;

use crate::audit::evidence::Evidence;
use crate::audit::evidence::mismatch::Mismatch;
use crate::audit::evidence::purchases::{Purchase, RequestRecord, UserPurchases};
use crate::audit::judgement::bare_counter_mismatch;
use crate::error::{Result, StoreError};
use crate::model::{EntryId, HoldState, Op, Status};
use crate::read::{holds, ledger};
use crate::redis::scan::Scan;
use crate::script::keys::Keys;
use crate::store::Store;

/// Records that are read at once: about half a millisecond of the server's time.
const PAGE: usize = 1000;

/// Reads the purchases of users who hold more than they should.
pub(crate) fn read_purchases(store: &mut Store, keys: &Keys, evidence: &mut Evidence) -> Result<()> {
    let has_users = evidence.kind.has_users();
    let of_counter = if has_users { None } else { bare_counter_mismatch(evidence) };
    let ledger = &evidence.ledger;
    let name = |mismatch: &Mismatch| (ledger.users.name(mismatch.user).to_owned(), mismatch.user);
    let differing = evidence.mismatches.iter().chain(&of_counter);
    let users: HashMap<Vec<u8>, u32> = differing.filter(|mismatch| mismatch.loses_units()).map(name).collect();
    if users.is_empty() {
        return Ok(());
    }
    // A bare counter sells to nobody in particular: all of it is one user without a name.
    let number_of = |user: &[u8]| users.get(if has_users { user } else { b"" }).copied();
    let newer = match ledger.newer_from.filter(|from| evidence.by_ledger && *from <= ledger.end) {
        Some(from) => requests_since(store, evidence, from.previous(), number_of)?,
        None => HashMap::new(),
    };
    // A scan may report a field twice.
    let mut found: HashMap<String, (u32, RequestRecord)> = HashMap::new();
    let scanned = store.servers.scan(Scan::Hash(&keys.requests), |pairs| {
        for pair in pairs.chunks_exact(2).filter(|pair| !pair[0].starts_with(b"\t")) {
            let (Ok(request), Some(record)) = (std::str::from_utf8(pair[0]), RequestRecord::read(pair[1])) else {
                continue;
            };
            if let Some(user) = number_of(record.user.as_bytes()).filter(|_| record.status == Status::Ok) {
                found.insert(request.to_owned(), (user, record));
            }
        }
        Ok::<_, StoreError>(())
    });
    match scanned {
        // Who may read only what an audit needs is audited all the same.
        Err(StoreError::Permission { .. }) => evidence.purchases.is_unread = true,
        scanned => scanned?,
    }
    // The fold of a ledger keeps no ids. Those that a trim removed nobody can tell from those that were never there.
    let is_all_there = evidence.end.as_ref().is_some_and(|end| end.checkpoint().is_none());
    let are_compared = evidence.by_ledger && evidence.ledger.records().is_none() && is_all_there;
    // The units of an order of several activities are in its entry alone.
    let has_multi_order = || found.values().any(|(_, record)| record.quantity.is_none());
    let entered = match are_compared || evidence.by_ledger && has_multi_order() {
        true => requests_since(store, evidence, EntryId::ZERO, number_of)?,
        false => HashMap::new(),
    };
    let mut found: Vec<(String, (u32, RequestRecord))> = found.into_iter().collect();
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for chunk in found.chunks(PAGE) {
        let requests = chunk.iter().map(|(request, _)| request.as_str());
        for ((request, (user, record)), hold) in chunk.iter().zip(holds::hold_records(store, keys, requests)?) {
            let of_user: &mut UserPurchases = evidence.purchases.by_user.entry(*user).or_default();
            let units = match (&*record.op, hold) {
                ("refund", _) => {
                    of_user.refunded = of_user.refunded.saturating_add(record.quantity.unwrap_or_default());
                    continue;
                }
                ("deduct", _) => record.quantity,
                ("multi_deduct", None) => entered.get(request).copied(),
                ("hold" | "multi_deduct", Some(hold)) if hold.state == HoldState::Confirmed => {
                    i64::try_from(hold.quantity).ok()
                }
                _ => continue,
            };
            let is_newer = newer.contains_key(request);
            let has_entry = !are_compared || entered.contains_key(request);
            of_user.purchases.push(Purchase { request: request.clone(), units, has_entry, is_newer });
        }
    }
    Ok(())
}

/// The requests of some users by which they bought after an entry, and the units of each.
fn requests_since(
    store: &mut Store,
    evidence: &Evidence,
    after: EntryId,
    number_of: impl Fn(&[u8]) -> Option<u32>,
) -> Result<HashMap<String, i64>> {
    let mut requests = HashMap::new();
    let key = store.keys(&evidence.activity).ledger;
    ledger::each_entry_of(store, &key, after, evidence.ledger.end, |entry| {
        if matches!(entry.known_op(), Some(Op::Deduct | Op::Confirm)) {
            let rows = entry.rows().unwrap_or_default();
            let of_users = rows.iter().filter(|row| number_of(row.user()).is_some());
            requests.extend(of_users.filter_map(|row| Some((row.request()?.to_owned(), row.quantity()?))));
        }
        true
    })?;
    Ok(requests)
}
