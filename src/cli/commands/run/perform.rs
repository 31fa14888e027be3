//! One step done: what was asked of the store, and how it ended.

use std::time::{Duration, Instant};

use crate::admin::pause::{self, Pause, Paused};
use crate::cli::commands::reconcile;
use crate::cli::commands::run::report::{Observed, known};
use crate::cli::commands::run::rush;
use crate::cli::error::Result;
use crate::cli::input::yaml::fixture::FixtureOperation;
use crate::cli::interrupt;
use crate::cli::output::Output;
use crate::model::id::ActivityId;
use crate::model::order::{Bought, MultiOrder, MultiOutcome, Outcome};
use crate::model::status::Status;
use crate::sell::{holds, multi_orders, orders};
use crate::store::Store;

/// Does what a step says. `may_rush` says for which activities buyers may be invented.
pub(super) fn perform(
    operation: &FixtureOperation,
    may_rush: impl Fn(&ActivityId) -> bool,
    store: &mut Store,
    out: &Output,
) -> Result<Observed> {
    Ok(match operation {
        FixtureOperation::Deduct(order) => of_outcome(orders::deduct(store, order, false)?),
        FixtureOperation::Refund(refund) => of_outcome(orders::refund(store, refund, false)?),
        FixtureOperation::Hold(hold) => of_outcome(orders::hold(store, hold, false)?.outcome),
        FixtureOperation::Settle(end) => of_outcome(orders::settle_hold(store, end, false)?.outcome),
        FixtureOperation::Expire { activity, reason, .. } => expire(activity, reason.as_deref(), store)?,
        FixtureOperation::MultiDeduct(order) => of_multi(order, multi_orders::multi_deduct(store, order, false)?),
        FixtureOperation::Rush(rush) => rush::rush(rush, may_rush, store, out)?,
        FixtureOperation::Reconcile { activity, total } => {
            Observed { word: reconcile::audit(store, activity, *total)?.name(), ..Observed::default() }
        }
        FixtureOperation::Pause { activity, reason } => of_pause(pause::set_paused(
            store,
            activity,
            Pause::Pause { withdraw_stock: false },
            reason.as_deref(),
            false,
        )?),
        FixtureOperation::Resume { activity, reason } => {
            of_pause(pause::set_paused(store, activity, Pause::Resume, reason.as_deref(), false)?)
        }
    })
}

/// Waits as long as a step says. Returns whether no Ctrl-C came.
pub(super) fn waited(operation: &FixtureOperation) -> bool {
    let FixtureOperation::Expire { wait: Some(wait), .. } = operation else { return true };
    let (wait, began) = (wait.duration(), Instant::now());
    while let Some(left) = wait.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if interrupt::requested() {
            return false;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    true
}

/// Expires all that is overdue of an activity, call by call.
fn expire(activity: &ActivityId, reason: Option<&str>, store: &mut Store) -> Result<Observed> {
    let (mut holds, mut units) = (0, 0);
    loop {
        let expired = holds::expire(store, activity, reason, false)?;
        holds += expired.holds;
        units += expired.units;
        let cut_short = expired.has_more && interrupt::requested();
        if !expired.has_more || cut_short {
            let counts = known([("holds", Some(holds)), ("units", Some(units)), ("stock", expired.stock)]);
            let word = expired.status.name();
            return Ok(Observed { word, counts, corrupt: expired.corrupt, cut_short, ..Observed::default() });
        }
    }
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
