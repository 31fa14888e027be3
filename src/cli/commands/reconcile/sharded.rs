//! Which activities are sharded, and their audits.

use crate::audit::judgement::judge;
use crate::audit::judgement::sharded::judge_shards;
use crate::audit::plan::MissingOrders;
use crate::audit::result::Audit;
use crate::cli::commands::sharded::find;
use crate::cli::error::Result;
use crate::cli::input::records::Sharded;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::number::Units;
use crate::store::Store;

/// Those of some activities that are sharded, or of all that were preheated if none are named.
pub fn of(named: &[ActivityId], store: &mut Store) -> Result<Sharded> {
    if named.is_empty() && store.layout() == Layout::Cluster {
        return find(&store.preheated()?, store);
    }
    find(named, store)
}

/// The audit of one activity, sharded or not.
pub fn audit(activity: &ActivityId, total: Option<Units>, store: &mut Store) -> Result<Audit> {
    let total = total.map(Units::get);
    Ok(match find(std::slice::from_ref(activity), store)?.get(activity) {
        Some(shards) => judge_shards(store.audit_shards(activity, shards, total, |_| None)?, MissingOrders::Repair),
        None => judge(store.audit(activity, total, None)?, MissingOrders::Repair),
    })
}
