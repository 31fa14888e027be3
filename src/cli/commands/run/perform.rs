//! One step done: what was asked of the store, and how it ended.

use super::observed::{Observed, known};
use super::rush;
use crate::cli::commands::reconcile;
use crate::cli::error::Result;
use crate::cli::input::fixture::FixtureOperation;
use crate::cli::output::Output;
use seckill::inventory::id::ActivityId;
use seckill::inventory::order::{Bought, MultiOrder, MultiOutcome, Outcome};
use seckill::inventory::status::Status;
use seckill::store::Store;
use seckill::store::activities::{Pause, Paused};

/// Does what a step says. `may_rush` says for which activities buyers may be invented.
pub fn perform(
    operation: &FixtureOperation,
    may_rush: impl Fn(&ActivityId) -> bool,
    store: &mut Store,
    out: &Output,
) -> Result<Observed> {
    Ok(match operation {
        FixtureOperation::Deduct(order) => of_outcome(store.deduct(order, false)?),
        FixtureOperation::Refund(refund) => of_outcome(store.refund(refund, false)?),
        FixtureOperation::MultiDeduct(order) => of_multi(order, store.multi_deduct(order, false)?),
        FixtureOperation::Rush(rush) => rush::rush(rush, may_rush, store, out)?,
        FixtureOperation::Reconcile { activity, total } => {
            Observed { word: reconcile::audit(store, activity, *total)?.name(), ..Observed::default() }
        }
        FixtureOperation::Pause { activity, reason } => {
            of_pause(store.set_paused(activity, Pause::Pause { withdraw_stock: false }, reason.as_deref(), false)?)
        }
        FixtureOperation::Resume { activity, reason } => {
            of_pause(store.set_paused(activity, Pause::Resume, reason.as_deref(), false)?)
        }
    })
}

fn of_pause(paused: Paused) -> Observed {
    Observed { word: paused.status.name(), corrupt: paused.corrupt, ..Observed::default() }
}

fn of_outcome(outcome: Outcome) -> Observed {
    let counts =
        [("stock", outcome.stock), ("bought", outcome.bought.and_then(Bought::units)), ("quantity", outcome.quantity)];
    let counts = known(counts);
    Observed { word: outcome.status.name(), counts, corrupt: outcome.corrupt, ..Observed::default() }
}

fn of_multi(order: &MultiOrder, outcome: MultiOutcome) -> Observed {
    let short = order.items.iter().zip(&outcome.items).filter(|(_, item)| {
        // `refused` is what alone would have been fine.
        !item.status.is_done() && item.status != Status::Refused
    });
    let said: Vec<String> = short.map(|((activity, _), item)| format!("{activity} {}", item.status)).collect();
    Observed {
        word: outcome.status.name(),
        short: said.join(", "),
        corrupt: outcome.items.into_iter().find_map(|item| item.corrupt),
        ..Observed::default()
    }
}
