//! Activities that a load test makes for itself: made, read back, removed.

use redis::Value;

use crate::admin::preheat;
use crate::bench;
use crate::error::{Result, StoreError};
use crate::model::slot::SLOTS;
use crate::model::{ActivityId, FieldChange, Kind, Limit, Plan, PreheatMode, Status, Units};
use crate::read::holders;
use crate::script::keys::Keys;
use crate::store::Store;

/// What a sale did to an activity, as the server has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadBack {
    /// Units sold that were not there.
    pub above_stock: u64,
    /// Units that users got above their limit.
    pub above_limit: u64,
}

/// Ids, which begin with a prefix that nobody else has, for baskets of `items` activities; on a cluster those of a basket are in
/// one slot, and each primary serves some.
pub(crate) fn ids(store: &mut Store, prefix: &str, items: usize) -> Result<Vec<Vec<ActivityId>>> {
    let Some(primaries) = bench::primary_count(store)? else {
        let ids = (1..=items).map(|number| ActivityId::validated(format!("{prefix}-{number}").as_bytes()));
        return Ok(vec![ids.collect()]);
    };
    let mut baskets: Vec<(usize, u16, Vec<ActivityId>)> = Vec::new();
    // Enough for each slot to come up 64 times for each item.
    for number in 1..=u64::from(SLOTS) * 64 * items as u64 {
        let id = ActivityId::validated(format!("{prefix}-{number}").as_bytes());
        let Some(slot) = Keys::of(store.layout, &id).slot() else { break };
        let node = store.servers.node_of(Some(slot));
        match baskets.iter_mut().find(|(of, ..)| *of == node) {
            Some((_, of, ids)) if *of == slot && ids.len() < items => ids.push(id),
            Some(_) => {}
            None => baskets.push((node, slot, vec![id])),
        }
        if baskets.len() == primaries && baskets.iter().all(|(.., ids)| ids.len() == items) {
            break;
        }
    }
    Ok(baskets.into_iter().map(|(.., ids)| ids).collect())
}

/// Makes one more activity.
///
/// # Errors
/// It exists already, or any other [`StoreError`].
pub(crate) fn make(
    made: &mut Vec<ActivityId>,
    store: &mut Store,
    id: &ActivityId,
    stock: Units,
    limit: Option<Limit>,
) -> Result<()> {
    let plan = Plan {
        id: id.clone(),
        title: None,
        total: Some(stock),
        per_user_limit: limit.into(),
        starts_at: FieldChange::Keep,
        ends_at: FieldChange::Keep,
        ledger: None,
        shards: None,
    };
    // Before it is there: a reply that is lost leaves nothing behind.
    made.push(id.clone());
    let mut status = Status::Ok;
    preheat::preheat_all(store, &[&plan], PreheatMode::Create, false, None, |_, preheated| status = preheated.status)?;
    match status.is_done() {
        true => Ok(()),
        false => {
            made.pop();
            let reply = format!("`{id}` is {status}");
            Err(StoreError::Reply { what: "preheat".to_owned(), reply })
        }
    }
}

/// Removes all of them.
///
/// # Errors
/// Any of [`StoreError`]; what could not be removed is still listed.
pub(crate) fn remove(made: &mut Vec<ActivityId>, store: &mut Store) -> Result<()> {
    while let Some(id) = made.last() {
        for key in keys_of(store, id) {
            store.servers.command(&key, redis::cmd("UNLINK").arg(&key))?;
        }
        let index = Keys::index(store.layout);
        store.servers.command(index, redis::cmd("SREM").arg(index).arg(id.as_str()))?;
        made.pop();
    }
    Ok(())
}

/// The words of commands that remove what is left: on a cluster the keys of each are in one slot.
pub(crate) fn commands(left: &[ActivityId], store: &Store) -> Vec<Vec<String>> {
    let index = ["SREM", Keys::index(store.layout)].map(str::to_owned);
    let unlink = |id: &ActivityId| [vec!["UNLINK".to_owned()], keys_of(store, id)].concat();
    let listed = left.iter().map(ActivityId::to_string);
    let removal = (!left.is_empty()).then(|| index.into_iter().chain(listed).collect());
    left.iter().map(unlink).chain(removal).collect()
}

fn keys_of(store: &Store, id: &ActivityId) -> Vec<String> {
    let keys = Keys::of(store.layout, id);
    let lock = Keys::lock(store.layout, id);
    keys.all().map(str::to_owned).chain([lock]).collect()
}

/// Reads back what was sold of an activity that began with `total`.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn read_back(store: &mut Store, activity: &ActivityId, total: u64, limit: Option<u64>) -> Result<ReadBack> {
    let stock = store.keys(activity).stock;
    let value = store.servers.command(&stock, redis::cmd("GET").arg(&stock))?;
    let left = match &value {
        Value::BulkString(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()),
        _ => None,
    };
    let left = left.ok_or_else(|| StoreError::Reply { what: format!("GET {stock}"), reply: format!("{value:?}") })?;
    let sold = u64::try_from(i128::from(total) - i128::from(left)).unwrap_or(0);
    let kind = store.layout.kind();
    let (held, above_limit) = match kind {
        Kind::Counter => (sold, 0),
        Kind::Hash => {
            let holders = holders::holders(store, activity, |_| {})?;
            (holders.held(), limit.map_or(0, |limit| holders.units_above(limit)))
        }
        // A set has a user once, whatever was sold to him.
        Kind::Set | Kind::Coupon => {
            let holders = holders::holders(store, activity, |_| {})?.holders();
            (holders, sold.saturating_sub(holders))
        }
    };
    let above_stock = held.max(sold).saturating_sub(total);
    Ok(ReadBack { above_stock, above_limit })
}
