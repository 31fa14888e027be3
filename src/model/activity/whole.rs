//! A sharded activity as one: the sum over its shards, each at an instant of its own.

use crate::model::activity::rules::StoredState;
use crate::model::activity::shard_plan::ShardPlan;
use crate::model::activity::{ShardSums, Snapshot, State};
use crate::model::id::ActivityId;
use crate::model::number::signed;
use crate::model::order::Corrupt;
use crate::model::status::Status;

/// The keys of a shard, for messages: stock and meta.
pub(crate) type KeysOf<'a> = &'a dyn Fn(&ActivityId) -> (String, String);

/// Why a shard cannot be one of a sale with this epoch.
pub(crate) fn unsound(shard: &Snapshot, epoch: u64, keys: KeysOf<'_>) -> Option<Corrupt> {
    if shard.corrupt.is_some() {
        return shard.corrupt.clone();
    }
    let (stock, meta) = keys(&shard.activity);
    if shard.status != Status::Ok || shard.meta.is_none() {
        let what = "is gone (evicted? expired?): its parent names this shard".to_owned();
        return Some(Corrupt { key: stock, what });
    }
    let of = shard.meta.as_ref().map(|meta| meta.epoch).unwrap_or_default();
    (of != epoch).then(|| Corrupt { key: meta, what: format!("is of the epoch {of}, and its parent of {epoch}") })
}

/// A parent with what its shards have; as it is if it names none.
#[must_use]
pub(crate) fn whole(parent: Snapshot, shards: &[Snapshot], keys: KeysOf<'_>) -> Snapshot {
    let Some(mut meta) = parent.meta.clone().filter(|meta| meta.shards.is_some()) else { return parent };
    if let Some(corrupt) = shards.iter().find_map(|shard| unsound(shard, meta.epoch, keys)) {
        return Snapshot { status: Status::Corrupt, corrupt: Some(corrupt), ..parent };
    }
    let metas = || shards.iter().filter_map(|shard| shard.meta.as_ref());
    let total: u64 = metas().map(|meta| meta.total).sum();
    let is_updating = matches!(meta.plan, Some(ShardPlan::Update { .. }));
    let in_transit = (!is_updating).then(|| signed(meta.total) - signed(total));
    meta.holds = metas().map(|meta| meta.holds).sum();
    meta.withdrawn = metas().map(|meta| meta.withdrawn).fold(None, |sum, units| match (sum, units) {
        (None, units) => units,
        (Some(sum), units) => Some(sum + units.unwrap_or_default()),
    });
    // Shards are paused and resumed one by one, the parent last: the whole sells as long as one does.
    let has = |state| metas().any(|meta| meta.stored_state == state);
    let states = [StoredState::Live, StoredState::Paused, StoredState::Archived];
    meta.stored_state = states.into_iter().find(|state| has(*state)).unwrap_or(meta.stored_state);
    Snapshot {
        status: Status::Ok,
        stock: shards.iter().map(|shard| shard.stock).sum(),
        buyers: shards.iter().map(|shard| shard.buyers).sum(),
        ledger_last: shards.iter().filter_map(|shard| shard.ledger_last).next_back(),
        at: shards.iter().map(|shard| shard.at).max().unwrap_or(parent.at),
        meta: Some(meta),
        sums: Some(ShardSums { total, in_transit }),
        lost_users: shards.iter().find_map(|shard| shard.lost_users.clone()),
        ..parent
    }
}

/// The state of the whole, of those of its shards: `live` as long as one is.
pub(crate) fn state(states: &[String]) -> Option<String> {
    let is = |state: &&String, name: State| *state == name.name();
    let one = states.iter().find(|state| is(state, State::Live));
    one.or_else(|| states.iter().find(|state| !is(state, State::SoldOut))).or(states.first()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::activity::Meta;

    fn meta(total: u64) -> Meta {
        Meta { total, ledger: true, epoch: 2, holds: 1, ..Meta::default() }
    }

    fn shard(id: &str, total: u64, stock: u64) -> Snapshot {
        let ledger_last = Some("1-0".parse().unwrap());
        Snapshot { meta: Some(meta(total)), buyers: Some(3), ledger_last, ..Snapshot::sample(id, Some(stock)) }
    }

    fn parent(total: u64) -> Snapshot {
        let meta = Meta { shards: "3 9".parse().ok(), holds: 0, ..meta(total) };
        Snapshot { status: Status::NotPreheated, meta: Some(meta), ..Snapshot::sample("1", None) }
    }

    fn keys(shard: &ActivityId) -> (String, String) {
        (format!("{shard}:stock"), format!("{shard}:meta"))
    }

    #[test]
    fn the_sum_has_what_is_left_who_bought_and_what_is_in_transit() {
        let sum = whole(parent(12), &[shard("1#3", 5, 2), shard("1#9", 4, 4)], &keys);
        assert_eq!((sum.status, sum.stock, sum.buyers), (Status::Ok, Some(6), Some(6)));
        assert_eq!(sum.meta.as_ref().map(|meta| (meta.total, meta.holds, meta.withdrawn)), Some((12, 2, None)));
        assert_eq!(sum.sums, Some(ShardSums { total: 9, in_transit: Some(3) }));
        let more = whole(parent(8), &[shard("1#3", 5, 2), shard("1#9", 4, 4)], &keys);
        assert_eq!(more.sums.and_then(|sums| sums.in_transit), Some(-1));
    }

    #[test]
    fn a_sale_is_archived_or_paused_once_all_its_shards_are() {
        let archived =
            |id| Snapshot { meta: Some(Meta { stored_state: StoredState::Archived, ..meta(5) }), ..shard(id, 5, 5) };
        let one = whole(parent(10), &[archived("1#3"), shard("1#9", 5, 5)], &keys);
        let all = whole(parent(10), &[archived("1#3"), archived("1#9")], &keys);
        assert_eq!((one.state(), all.state()), (State::Live, State::Archived));
        // As a pause or a resume leaves it that ended halfway.
        let paused =
            |it: Snapshot| Snapshot { meta: it.meta.map(|it| Meta { stored_state: StoredState::Paused, ..it }), ..it };
        let resumed = whole(paused(parent(10)), &[shard("1#3", 5, 5), paused(shard("1#9", 5, 5))], &keys);
        let stopped = whole(parent(10), &[paused(shard("1#3", 5, 5)), paused(shard("1#9", 5, 5))], &keys);
        assert_eq!((resumed.state(), stopped.state()), (State::Live, State::Paused));
    }

    #[test]
    fn a_shard_that_is_gone_or_of_another_sale_makes_the_whole_corrupt() {
        let gone = Snapshot { status: Status::NotPreheated, stock: None, ..shard("1#9", 4, 4) };
        let other = Snapshot { meta: Some(Meta { epoch: 1, ..meta(4) }), ..shard("1#9", 4, 4) };
        for (wrong, key) in [(gone, "1#9:stock"), (other, "1#9:meta")] {
            let sum = whole(parent(9), &[shard("1#3", 5, 2), wrong], &keys);
            assert_eq!((sum.status, sum.stock), (Status::Corrupt, None));
            assert_eq!(sum.corrupt.map(|corrupt| corrupt.key).as_deref(), Some(key));
        }
    }

    #[test]
    fn the_whole_is_live_while_a_shard_is() {
        let of = |states: &[&str]| state(&states.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["sold_out", "live"]).as_deref(), Some("live"));
        assert_eq!(of(&["sold_out", "sold_out"]).as_deref(), Some("sold_out"));
        assert_eq!(of(&["paused", "paused"]).as_deref(), Some("paused"));
        assert_eq!(of(&[]), None);
    }
}
