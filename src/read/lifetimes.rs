//! Which keys of a sale are there, and which will vanish by themselves.

use std::time::Duration;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::redis::call::Call;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// How long a key ttl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// It is not there.
    Missing,
    /// Until it is removed.
    Forever,
    /// So long, then the server removes it.
    For(Duration),
}

/// A key of a sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyLifetime {
    /// The activity; `None` for the index of all.
    pub activity: Option<ActivityId>,
    /// The key.
    pub key: String,
    /// How long it ttl.
    pub ttl: Ttl,
}

/// All keys of these activities, and the index of all activities.
///
/// # Errors
/// Any of [`StoreError`]; a user who may not ask among them.
pub(crate) fn lifetimes(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<KeyLifetime>, StoreError> {
    let index = (None, Keys::index(store.layout).to_owned());
    let of_activity = |activity: &ActivityId| {
        let keys: Vec<String> = store.keys(activity).all().map(str::to_owned).collect();
        keys.into_iter().map(|key| (Some(activity.clone()), key)).collect::<Vec<_>>()
    };
    let keys: Vec<_> = std::iter::once(index).chain(activities.iter().flat_map(of_activity)).collect();
    let calls: Vec<Call> = keys.iter().map(|(_, key)| Call::command(key, redis::cmd("PTTL").arg(key))).collect();
    let values = store.servers.read_all(&calls)?;
    keys.into_iter()
        .zip(values)
        .map(|((activity, key), value)| {
            let ttl = match value {
                Value::Int(-2) => Ttl::Missing,
                Value::Int(-1) => Ttl::Forever,
                Value::Int(millis) => Ttl::For(Duration::from_millis(u64::try_from(millis).unwrap_or_default())),
                other => return Err(Reply::of_command("PTTL").invalid(other)),
            };
            Ok(KeyLifetime { activity, key, ttl })
        })
        .collect()
}
