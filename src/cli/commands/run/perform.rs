//! One step done: what was asked of the store, and how it ended.

use super::rush;
use crate::cli::commands::reconcile;
use crate::cli::error::Result;
use crate::cli::input::fixture::Operation;
use crate::cli::output::Output;
use seckill::inventory::id::ActivityId;
use seckill::inventory::order::{Bought, Corrupt, MultiOrder, MultiOutcome, Outcome};
use seckill::inventory::status::Status;
use seckill::store::Store;
use seckill::store::activities::{Pause, Paused};

/// How a step ended.
#[derive(Debug, Default)]
pub struct Observed {
    /// The name of its status, or of its verdict.
    pub word: &'static str,
    /// Counts that can be expected; those of absent keys are not among them.
    pub counts: Vec<(&'static str, u64)>,
    /// Which items of a multi-deduct fell short, in words.
    pub short: String,
    /// Which key is corrupt.
    pub corrupt: Option<Corrupt>,
    /// Whether Ctrl-C ended it before it was done.
    pub cut_short: bool,
}

/// Does what a step says. `may_rush` says for which activities buyers may be invented.
pub fn perform(
    operation: &Operation,
    may_rush: impl Fn(&ActivityId) -> bool,
    store: &mut Store,
    out: &Output,
) -> Result<Observed> {
    Ok(match operation {
        Operation::Deduct(order) => of_outcome(store.deduct(order, false)?),
        Operation::Refund(refund) => of_outcome(store.refund(refund, false)?),
        Operation::MultiDeduct(order) => of_multi(order, store.multi_deduct(order, false)?),
        Operation::Rush(rush) => rush::rush(rush, may_rush(&rush.activity), store, out)?,
        Operation::Reconcile { activity, total } => {
            Observed { word: reconcile::audit(store, activity, *total)?.name(), ..Observed::default() }
        }
        Operation::Pause { activity, reason } => {
            of_pause(store.set_paused(activity, Pause::Pause { withdraw_stock: false }, reason.as_deref(), false)?)
        }
        Operation::Resume { activity, reason } => {
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

/// The counts that are there.
pub fn known<const N: usize>(counts: [(&'static str, Option<u64>); N]) -> Vec<(&'static str, u64)> {
    counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect()
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

/// `stock 48, bought 2`: some counts in words.
pub fn in_words(counts: &[(&str, u64)]) -> String {
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}
