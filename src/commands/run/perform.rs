//! One step done: what was asked of the store, and how it ended.

use anyhow::Result;

use super::rush;
use crate::commands::reconcile;
use crate::input::fixture::Operation;
use crate::inventory::order::{Corrupt, MultiOrder, MultiOutcome, Outcome};
use crate::inventory::status::Status;
use crate::output::Output;
use crate::store::Store;

/// How a step ended.
#[derive(Debug, Default)]
pub struct Observed {
    /// The name of its status, or of its verdict.
    pub word: &'static str,
    /// Counts that can be expected; `None` where a key is absent.
    pub counts: Vec<(&'static str, Option<u64>)>,
    /// What happened, in words for people.
    pub result: String,
    /// Which key is corrupt.
    pub corrupt: Option<Corrupt>,
}

/// Does what a step says.
pub fn perform(operation: &Operation, store: &mut Store, out: &Output) -> Result<Observed> {
    Ok(match operation {
        Operation::Deduct(order) => of_outcome(store.deduct(order, false)?),
        Operation::Refund(refund) => of_outcome(store.refund(refund, false)?),
        Operation::MultiDeduct(order) => of_multi(order, store.multi_deduct(order, false)?),
        Operation::Rush(rush) => rush::rush(rush, store, out)?,
        Operation::Reconcile { activity, total } => {
            Observed { word: reconcile::audit(store, activity, *total)?.name(), ..Observed::default() }
        }
        Operation::Pause { activity, reason } => of_status(store.set_paused(activity, true, reason.as_deref(), false)?),
        Operation::Resume { activity, reason } => {
            of_status(store.set_paused(activity, false, reason.as_deref(), false)?)
        }
    })
}

fn of_status(status: Status) -> Observed {
    Observed { word: status.name(), ..Observed::default() }
}

fn of_outcome(outcome: Outcome) -> Observed {
    let counts = vec![("quantity", outcome.quantity), ("stock", outcome.stock), ("bought", outcome.bought)];
    Observed { word: outcome.status.name(), result: in_words(&counts[1..]), counts, corrupt: outcome.corrupt }
}

fn of_multi(order: &MultiOrder, outcome: MultiOutcome) -> Observed {
    let items = order.items.iter().zip(&outcome.items);
    let said = items.map(|((activity, _), item)| match item.stock {
        Some(stock) => format!("{activity} {} (stock {stock})", item.status),
        None => format!("{activity} {}", item.status),
    });
    Observed {
        word: outcome.status.name(),
        result: said.collect::<Vec<_>>().join(", "),
        counts: Vec::new(),
        corrupt: outcome.items.into_iter().find_map(|item| item.corrupt),
    }
}

/// `stock 48, bought 2`: what is known of some counts.
pub fn in_words(counts: &[(&str, Option<u64>)]) -> String {
    let known = counts.iter().filter_map(|(name, count)| Some(format!("{name} {}", (*count)?)));
    known.collect::<Vec<_>>().join(", ")
}
