//! Sharded activities read as one: sums over their shards, and users at their homes.

use crate::error::Result;
use crate::model::activity::whole::whole;
use crate::model::{ActivityId, Bought, Shards, Snapshot, Status, StoredState, UserId};
use crate::read::{holds, snapshot};
use crate::store::Store;

/// How often shards are read anew that seem to have more units than the sale: a transfer came between two of them.
const READINGS: usize = 3;

/// What some users hold of an activity.
#[derive(Debug)]
pub(crate) struct Holdings {
    /// The activity; of a sharded one what its parent says, with the state of the homes that were asked.
    pub snapshot: Snapshot,
    /// Units, of each user; `None` for nobody that is recorded.
    pub held: Vec<Option<Bought>>,
    /// Units of them that are held open.
    pub open: Vec<u64>,
}

/// Several activities as purchases find them, each at its own instant; of a sharded one the sum over its shards, each at its own.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn wholes(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Snapshot>> {
    let mut all = snapshot::snapshots(store, activities)?;
    let is_parent = |snapshot: &Snapshot| snapshot.meta.as_ref().is_some_and(|meta| meta.shards.is_some());
    let mut parents: Vec<(usize, Snapshot)> =
        all.iter().cloned().enumerate().filter(|(_, snapshot)| is_parent(snapshot)).collect();
    for _ in 0..READINGS {
        if parents.is_empty() {
            break;
        }
        let ids: Vec<ActivityId> = parents.iter().flat_map(|(_, parent)| parent.parts()).collect();
        let mut shards = snapshot::snapshots(store, &ids)?.into_iter();
        let mut again = Vec::new();
        for (place, parent) in parents {
            let own: Vec<Snapshot> = shards.by_ref().take(parent.parts().len()).collect();
            let sum = whole(parent, &own, &|shard| store.keys(shard).stock_and_meta());
            if sum.sums.as_ref().and_then(|sums| sums.in_transit).is_some_and(|units| units < 0) {
                again.push(place);
            }
            all[place] = sum;
        }
        // What an update changed meanwhile shows in the parent.
        let ids: Vec<ActivityId> = again.iter().map(|place| activities[*place].clone()).collect();
        let read = snapshot::snapshots(store, &ids)?;
        parents = again.into_iter().zip(read).filter(|(_, snapshot)| is_parent(snapshot)).collect();
    }
    Ok(all.into_iter().map(Snapshot::for_purchases).collect())
}

/// What some users hold: of a sharded activity, as their homes say.
///
/// # Errors
/// Any of `StoreError`; a record that is no number is `corrupt` in the snapshot.
pub(crate) fn holdings(store: &mut Store, activity: &ActivityId, users: &[UserId]) -> Result<Holdings> {
    let (snapshot, held) = snapshot::bought(store, activity, users)?;
    let Some(shards) = snapshot.meta.as_ref().and_then(|meta| meta.shards.clone()) else {
        let open = holds::held_open(store, &snapshot, users)?;
        return Ok(Holdings { snapshot, held, open });
    };
    let mut whole = Holdings { snapshot, held: vec![None; users.len()], open: vec![0; users.len()] };
    whole.snapshot.status = Status::Ok;
    for (home, numbers) in by_home(&shards, users) {
        let own: Vec<UserId> = numbers.iter().map(|place| users[*place].clone()).collect();
        let at_home = activity.shard(shards.numbers()[home]);
        let (snapshot, held) = snapshot::bought(store, &at_home, &own)?;
        let open = holds::held_open(store, &snapshot, &own)?;
        for (at, place) in numbers.into_iter().enumerate() {
            whole.held[place] = held.get(at).copied().flatten();
            whole.open[place] = open.get(at).copied().unwrap_or_default();
        }
        if let (Some(meta), Some(own)) = (&mut whole.snapshot.meta, &snapshot.meta)
            && meta.stored_state != StoredState::Archived
        {
            meta.stored_state = own.stored_state;
        }
        if !snapshot.status.is_done() {
            (whole.snapshot.status, whole.snapshot.corrupt) = (snapshot.status, snapshot.corrupt);
        }
        whole.snapshot.lost_users = whole.snapshot.lost_users.or(snapshot.lost_users);
        whole.snapshot.stock = Some(whole.snapshot.stock.unwrap_or_default() + snapshot.stock.unwrap_or_default());
    }
    Ok(whole)
}

/// The homes of users, counted from 0, each with the numbers of its users.
fn by_home(shards: &Shards, users: &[UserId]) -> Vec<(usize, Vec<usize>)> {
    let mut homes: Vec<Vec<usize>> = vec![Vec::new(); shards.count()];
    for (place, user) in users.iter().enumerate() {
        homes[shards.home(user.as_str().as_bytes())].push(place);
    }
    homes.into_iter().enumerate().filter(|(_, users)| !users.is_empty()).collect()
}
