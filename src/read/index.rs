//! The index of activities, the set that preheat fills, one for each layout; and what else a server knows about an answer: whether
//! another layout has the activity, and whether it is a replica. Those are read for hints alone: a user who lacks the right, or a
//! connection that breaks, gets no hint. And which keys of a sale are
//! there, and which will vanish by themselves.

use std::time::Duration;

use redis::Value;

use crate::error::Result;
use crate::model::{ActivityId, Layout};
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// The other layouts; on a cluster there are none.
fn others(store: &Store) -> Vec<Layout> {
    let is_other = |layout: &Layout| *layout != store.layout && !store.servers.is_cluster();
    Layout::NAMED.into_iter().filter(is_other).collect()
}

/// The other layouts whose index names activities, and how many. One call each, of constant time; an index that
/// cannot be read counts as empty, because this is only asked for a hint.
pub(crate) fn other_layouts(store: &mut Store) -> Vec<(Layout, i64)> {
    let mut found = Vec::new();
    for layout in others(store) {
        let size = store.servers.command(Keys::index(layout), redis::cmd("SCARD").arg(Keys::index(layout)));
        if let Ok(Value::Int(count)) = size
            && count > 0
        {
            found.push((layout, count));
        }
    }
    found
}

/// Whether an activity was preheated, whatever the index says: whether it has a `meta`.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn has_meta(store: &mut Store, activity: &ActivityId) -> Result<bool> {
    let keys = store.keys(activity);
    let value = store.servers.command(&keys.meta, redis::cmd("EXISTS").arg(&keys.meta))?;
    Ok(value == Value::Int(1))
}

/// The server's word for the type of a key, such as `hash`; `None` if it does not say.
pub(crate) fn type_of(store: &mut Store, key: &str) -> Option<String> {
    let value = store.servers.command(key, redis::cmd("TYPE").arg(key)).ok()?;
    Reply::of_command("TYPE").text(Some(&value)).ok()?
}

/// The other layouts in which each of these activities exists.
pub(crate) fn layouts_with(store: &mut Store, activities: &[&ActivityId]) -> Vec<Vec<Layout>> {
    let others = others(store);
    let mut calls = Vec::with_capacity(activities.len() * others.len());
    for activity in activities {
        for layout in &others {
            let keys = Keys::of(*layout, activity);
            calls.push(Call::keyless(redis::cmd("EXISTS").arg(keys.stock).arg(keys.meta)));
        }
    }
    let found: Result<Vec<Value>, CallFailure> = store.servers.fan_out(&calls, None).into_iter().collect();
    let Ok(found) = found else { return Vec::new() };
    let exists = |value: &Value| matches!(value, Value::Int(count) if *count > 0);
    let layouts = |found: &[Value]| {
        let known = others.iter().zip(found).filter(|(_, value)| exists(value));
        known.map(|(layout, _)| *layout).collect()
    };
    found.chunks(others.len().max(1)).map(layouts).collect()
}

/// The set in which backends after the tutorial hm-dianping keep the buyers of an activity, beside a stock with our name.
pub(crate) fn order_set(activity: &ActivityId) -> String {
    format!("seckill:order:{activity}")
}

/// How many users [that set](order_set) of each of these activities has; 0 where the layout does not have its stock.
pub(crate) fn users_in_order_sets(store: &mut Store, activities: &[&ActivityId]) -> Vec<u64> {
    if store.layout != Layout::Seckill || store.servers.is_cluster() {
        return vec![0; activities.len()];
    }
    let calls: Vec<Call> =
        activities.iter().map(|activity| Call::keyless(redis::cmd("SCARD").arg(order_set(activity)))).collect();
    let count = |found: Result<Value, CallFailure>| match found {
        Ok(Value::Int(users)) => u64::try_from(users).unwrap_or(0),
        _ => 0,
    };
    store.servers.fan_out(&calls, None).into_iter().map(count).collect()
}

/// Whether the server is a replica, which may lag behind its primary.
pub(crate) fn is_replica(store: &mut Store) -> bool {
    // On a cluster only primaries are asked.
    if store.servers.is_cluster() {
        return false;
    }
    let role = store.servers.fan_out(&[Call::keyless(&redis::cmd("ROLE"))], None).pop();
    matches!(role, Some(Ok(Value::Array(role))) if role.first() == Some(&Value::BulkString(b"slave".to_vec())))
}

/// A key of a sale that the server will remove by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VanishingKey {
    /// The activity; `None` for the index of all.
    pub activity: Option<ActivityId>,
    /// The key.
    pub key: String,
    /// How long it stays.
    pub left: Duration,
}

/// Those of all keys of these activities, and of the index of all activities, that vanish by themselves.
///
/// # Errors
/// Any of `StoreError`; a user who may not ask among them.
pub(crate) fn vanishing_keys(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<VanishingKey>> {
    let index = (None, Keys::index(store.layout).to_owned());
    let of_activity = |activity: &ActivityId| {
        let keys: Vec<String> = store.keys(activity).all().map(str::to_owned).collect();
        keys.into_iter().map(|key| (Some(activity.clone()), key)).collect::<Vec<_>>()
    };
    let keys: Vec<_> = std::iter::once(index).chain(activities.iter().flat_map(of_activity)).collect();
    let calls: Vec<Call> = keys.iter().map(|(_, key)| Call::command(key, redis::cmd("PTTL").arg(key))).collect();
    let values = store.servers.read_all(&calls)?;
    let mut vanishing = Vec::new();
    for ((activity, key), value) in keys.into_iter().zip(values) {
        let Value::Int(millis) = value else { return Err(Reply::of_command("PTTL").invalid(value)) };
        // Below zero, it stays for ever, or is not there.
        if let Ok(millis) = u64::try_from(millis) {
            vanishing.push(VanishingKey { activity, key, left: Duration::from_millis(millis) });
        }
    }
    Ok(vanishing)
}
