//! Makes up for the side that a transfer between shards lacks: finishes one that is stuck, and lends what a failover lost.
//!
//! The steps are those of any transfer: lend, wait for a replica, borrow, wait for a replica, and then the donor may forget it.
//! The scripts write a record that they find once more, so that a wait covers it.

use std::time::Duration;

use redis::Value;

use crate::audit::class::Class;
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::Repaired;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::status::{Status, call_code};
use crate::redis::call::Call;
use crate::redis::call::exchange::ReplicaWait;
use crate::script::reply::Reply;
use crate::script::{BORROW, LEND, Script};
use crate::store::Store;

/// The longest wait for a replica.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a step is repeated that no replica has.
const TRIES: usize = 3;

/// Repairs a transfer: a stuck one arrives at its home, an unbacked one is taken out of its donor, as far as its stock goes.
///
/// # Errors
/// Any of [`StoreError`]; what cannot be repaired is among the answers.
pub fn repair_transfer(store: &mut Store, transfer: &BrokenTransfer) -> Result<Repaired, StoreError> {
    let BrokenTransfer { class, id, donor, home, units, epoch } = transfer;
    let (Some((_, donor_number)), Some((_, home_number))) = (donor.parent(), home.parent()) else {
        return Ok(Repaired::NotPreheated);
    };
    let need = if *class == Class::UnbackedTransfer { *units } else { 0 };
    let by = store.operator.clone();
    let lend = |id: &str, need: u64, finished: &str| {
        let epoch = epoch.to_string();
        [
            by.clone(),
            id.to_owned(),
            epoch,
            home_number.to_string(),
            need.to_string(),
            "0".to_owned(),
            finished.to_owned(),
        ]
    };
    store.servers.look_for_replicas()?;
    let lent = shard_call(store, &LEND, donor, &lend(id, need, ""))?;
    if !lent.status.is_some_and(Status::is_done) {
        return Ok(refused(lent.status));
    }
    let Some(lent_units) = lent.units else { return Ok(Repaired::Corrupt) };
    store.changed(donor);
    if *class == Class::UnbackedTransfer {
        // The home has the units: nobody may try to finish this.
        shard_call(store, &LEND, donor, &lend("", 0, id))?;
        let is_all = lent_units == *units;
        return Ok(if is_all { Repaired::Ok } else { Repaired::OutOfStock });
    }
    if lent_units != *units {
        return Ok(Repaired::Changed);
    }
    // The units of a lend that no replica has must not arrive: a failover would bring them back to the donor.
    if !lent.is_replicated {
        return Ok(Repaired::Changed);
    }
    let arguments = [by.clone(), id.clone(), epoch.to_string(), donor_number.to_string(), units.to_string()];
    let came = shard_call(store, &BORROW, home, &arguments)?;
    let arrived = match came.status {
        Some(Status::Ok) => Repaired::Ok,
        Some(Status::Replayed) => Repaired::Replayed,
        other => return Ok(refused(other)),
    };
    if came.is_replicated {
        shard_call(store, &LEND, donor, &lend("", 0, id))?;
    }
    store.changed(home);
    Ok(arrived)
}

/// Finishes a change of a shard's total that a cut left; of any other activity it does nothing.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn finish_change(store: &mut Store, shard: &ActivityId, epoch: &str) -> Result<(), StoreError> {
    if shard.parent().is_some() {
        let arguments = [&*store.operator, "", epoch, "0", "0", "0", ""].map(str::to_owned);
        shard_call(store, &LEND, shard, &arguments)?;
    }
    Ok(())
}

/// Calls a script of transfers, which may be sent again, until a replica has what it wrote.
fn shard_call(
    store: &mut Store,
    script: &'static Script,
    shard: &ActivityId,
    arguments: &[String],
) -> Result<Called, StoreError> {
    let keys = store.keys(shard);
    let patience = (store.servers.target().timeout / 2).min(PATIENCE);
    let mut called = Called::default();
    for _ in 0..TRIES {
        let call = Call::script(script, keys.in_order().take(4), arguments.iter().cloned()).idempotent();
        let mut ack = store.servers.call_replicated(&[call], ReplicaWait::for_one(patience))?;
        let (reply, is_replicated) = (Reply::of(script), ack.is_replicated());
        let values = reply.array(ack.values.pop().unwrap_or(Value::Nil))?;
        called = Called { is_replicated, ..Called::default() };
        if !matches!(values.first(), Some(Value::Int(call_code::OTHER_EPOCH))) {
            called.status = Some(reply.status(values.first())?);
        }
        if called.status.is_some_and(Status::is_done) {
            called.units = reply.count(values.get(1))?;
        }
        if is_replicated || !called.status.is_some_and(Status::is_done) {
            break;
        }
    }
    Ok(called)
}

/// The outcome of a call.
#[derive(Default)]
struct Called {
    /// `None`: it is of another epoch.
    status: Option<Status>,
    units: Option<u64>,
    /// Whether a replica has it, or there is none.
    is_replicated: bool,
}

fn refused(status: Option<Status>) -> Repaired {
    match status {
        None => Repaired::Stale,
        Some(Status::OutOfStock) => Repaired::OutOfStock,
        Some(Status::NotPreheated) => Repaired::NotPreheated,
        Some(Status::RequestConflict) => Repaired::RequestConflict,
        Some(_) => Repaired::Corrupt,
    }
}
