//! One step done: what was asked of the store, and how it ended. A rush is many buyers at once, over real connections of their own.

use std::num::NonZeroUsize;
use std::time::Instant;

use crate::admin::pause::{self, Pause, Pausing};
use crate::bench::{self, Buyers, LoadOptions, Measured, PaceOptions, Sale, StrategyName, Until, prepare_files};
use crate::cli::commands::bench::too_many;
use crate::cli::commands::expire::{ExpireRow, expire};
use crate::cli::commands::preheat::held;
use crate::cli::commands::reconcile;
use crate::cli::commands::run::preheat;
use crate::cli::commands::run::report::{Observed, in_words, known};
use crate::cli::failure::{Failure, Result};
use crate::cli::input::yaml::fixture::{ActivityTask, Fixture, FixtureOperation, OfActivity, Rush};
use crate::cli::output::{Output, counted};
use crate::cli::shared::{hints, rounds};
use crate::model::{ActivityId, Bought, MultiOrder, MultiOutcome, Outcome, RequestId, Snapshot, Status};
use crate::read::snapshot;
use crate::sell::bulk::Limits;
use crate::sell::{multi_orders, orders};
use crate::store::Store;

/// Does what a step says. `may_rush` says for which activities buyers may be invented.
pub(super) fn perform(
    operation: &FixtureOperation,
    may_rush: impl Fn(&ActivityId) -> bool,
    store: &mut Store,
    out: &Output,
) -> Result<Observed> {
    Ok(match operation {
        FixtureOperation::Place(order) => of_outcome(orders::place(store, order, false)?),
        FixtureOperation::MultiDeduct(order) => of_multi(order, multi_orders::multi_deduct(store, order, false)?),
        FixtureOperation::Rush(rush) => rush_on(rush, may_rush, store, out)?,
        FixtureOperation::OfActivity(of) => on_activity(of, store, out)?,
    })
}

fn on_activity(of: &OfActivity, store: &mut Store, out: &Output) -> Result<Observed> {
    let OfActivity { task, activity, total, reason, .. } = of;
    let to = match task {
        ActivityTask::Expire => {
            let mut row = ExpireRow::new(activity);
            expire(activity, &mut row, reason.as_deref(), false, store, &mut out.warnings())?;
            let counts = known([("holds", Some(row.holds)), ("units", Some(row.units)), ("stock", row.stock)]);
            let (word, cut_short) = (row.status.name(), row.is_cut_short);
            return Ok(Observed { word, counts, cut_short, ..Observed::default() });
        }
        ActivityTask::Reconcile => {
            let word = reconcile::audit(store, activity, *total)?.name();
            return Ok(Observed { word, ..Observed::default() });
        }
        ActivityTask::Pause => Pause::Pause { withdraw_stock: false },
        ActivityTask::Resume => Pause::Resume,
    };
    let paused = pause::set_paused(store, activity, Pausing { to, reason: reason.as_deref(), dry_run: false })?;
    Ok(Observed { word: paused.status.name(), corrupt: paused.corrupt, ..Observed::default() })
}

/// Waits as long as a step says. Returns whether no Ctrl-C came.
pub(super) fn waited(operation: &FixtureOperation) -> bool {
    let FixtureOperation::OfActivity(OfActivity { wait: Some(wait), .. }) = operation else { return true };
    rounds::wait(wait.duration(), Instant::now(), || false)
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

/// Some that come too late are expected, all else is worth reporting.
const EXPECTED: [Status; 4] = [Status::Ok, Status::Replayed, Status::LimitExceeded, Status::OutOfStock];

/// Allows the process as many open files as the largest rush has connections.
///
/// # Errors
/// The system allows fewer. Nothing was sent.
pub(super) fn prepare(fixtures: &[Fixture]) -> Result<()> {
    let clients = fixtures.iter().flat_map(|fixture| &fixture.steps).filter_map(|step| match &step.operation {
        FixtureOperation::Rush(rush) if rush.batch.is_none() => Some(clients(rush)),
        _ => None,
    });
    let most = clients.max().unwrap_or(0);
    prepare_files(most).map_err(|allowed| too_many(most, allowed))
}

/// Sends the orders of all buyers, waits for the last reply, and then counts in Redis what was sold. Unless it
/// `may_rush` on all activities, nothing is sent: the others must not exist.
fn rush_on(rush: &Rush, may_rush: impl Fn(&ActivityId) -> bool, store: &mut Store, out: &Output) -> Result<Observed> {
    let activities: Vec<ActivityId> = rush.activities().cloned().collect();
    let before = snapshot::snapshots(store, &activities)?;
    let what = "a rush sends its orders to one activity, and borrows nothing";
    if let Some(failure) = before.iter().find_map(|snapshot| hints::sharded(snapshot, what)) {
        // Nor may its shards be named.
        return Err(Failure { hint: None, ..failure });
    }
    if let Some(other) = before.iter().find(|it| !may_rush(&it.activity) && it.status != Status::NotPreheated) {
        return Err(preheat::rush_refused(&other.activity, ""));
    }
    // To what does not exist nothing is sent: all buyers would hear that.
    let measured = activities.iter().all(may_rush).then(|| send_all(rush, store, out)).transpose()?;
    let count = |status: Status| match &measured {
        Some(measured) => measured.of(status),
        None if status == Status::NotPreheated => rush.users,
        None => 0,
    };
    let mut total = Counted::default();
    for (snapshot, (activity, quantity)) in before.iter().zip(&rush.items) {
        let counted = Counted::of(snapshot, count(Status::Ok).saturating_mul(quantity.get()), store)?;
        if counted.oversold > 0 {
            out.warn(format!("activity `{activity}` is oversold by {}", counted.oversold));
        }
        total.add(&counted);
    }
    let names: Vec<&str> = activities.iter().map(ActivityId::as_str).collect();
    out.note(format!("rush on {}: {}", names.join(", "), speed(rush, measured.as_ref())));
    let ended: Vec<Status> = Status::ALL.iter().copied().filter(|status| count(*status) > 0).collect();
    let of = |status: Status| (status.name(), Some(count(status)));
    let counts = known([
        ("sold", total.sold),
        ("oversold", Some(total.oversold)),
        ("stock", total.stock),
        of(Status::Ok),
        of(Status::OutOfStock),
        of(Status::LimitExceeded),
    ]);
    Ok(Observed {
        word: ended.iter().find(|status| !EXPECTED.contains(status)).copied().unwrap_or(Status::Ok).name(),
        cut_short: measured.as_ref().is_some_and(|measured| measured.answers() < rush.users),
        counts,
        corrupt: measured.and_then(|measured| measured.corrupt),
        ..Observed::default()
    })
}

/// Connections, or orders that wait for their batch at a time.
fn clients(rush: &Rush) -> usize {
    usize::try_from(rush.users).unwrap_or(usize::MAX).min(rush.clients)
}

/// All buyers over all connections. Everybody is connected before the first one orders.
fn send_all(rush: &Rush, store: &mut Store, out: &Output) -> Result<Measured> {
    let sale = Sale {
        baskets: vec![rush.items.clone().into()],
        // The same buyers in every rush, so that a second one reaches the limits of the first.
        buyers: Buyers { count: if rush.same_user { 1 } else { rush.users }, in_a_row: 1 },
        per_user_limit: None,
        is_short: false,
        reason: rush.reason.clone(),
        run: RequestId::unique(),
    };
    let batch = rush.batch.and_then(NonZeroUsize::new);
    let options = LoadOptions {
        strategy: if batch.is_some() { StrategyName::Batch } else { StrategyName::Lua },
        clients: clients(rush),
        pace: PaceOptions { rate: None, until: Until::Orders(rush.users) },
        batch: batch.map_or_else(Limits::shared, |orders| Limits::shared().with_orders(orders.get())),
        must_succeed: true,
    };
    let names: Vec<&str> = rush.activities().map(ActivityId::as_str).collect();
    let progress = out.progress(&format!("rush on {}", names.join(", ")), rush.users);
    let measured = bench::load(store, &sale, &options, &mut |ended| progress.inc(ended))?;
    progress.finish();
    Ok(measured)
}

/// What was sold of activities, as the server has it.
#[derive(Default)]
struct Counted {
    sold: Option<u64>,
    oversold: u64,
    stock: Option<u64>,
}

impl Counted {
    /// From an activity's state before the rush, and the units that replies reported as taken.
    fn of(before: &Snapshot, taken: u64, store: &mut Store) -> Result<Self> {
        let after = snapshot::snapshot(store, &before.activity)?;
        let held = if store.layout().kind().has_users() { Some(held(store, &before.activity)?) } else { None };
        let total = after.meta.as_ref().map(|meta| meta.total);
        let sold = match (total, after.stock) {
            (Some(total), Some(stock)) => Some(total.saturating_sub(stock)),
            _ => held,
        };
        let oversold = match (held, total) {
            (Some(held), Some(total)) => held.saturating_sub(total),
            // If nobody is recorded, or no total is known: no more may have been sold than there was.
            _ => taken.saturating_sub(before.stock.unwrap_or_default()),
        };
        Ok(Self { sold, oversold, stock: after.stock })
    }

    fn add(&mut self, other: &Self) {
        let sum = |one: Option<u64>, other| one.into_iter().chain(other).reduce(u64::saturating_add);
        self.sold = sum(self.sold, other.sold);
        self.stock = sum(self.stock, other.stock);
        self.oversold = self.oversold.saturating_add(other.oversold);
    }
}

/// How many buyers came, how fast, and how they ended.
fn speed(rush: &Rush, measured: Option<&Measured>) -> String {
    let Some(measured) = measured else {
        return format!("{} would get {}", counted(rush.users, "buyer"), Status::NotPreheated);
    };
    let (buyers, seconds) = (measured.answers(), measured.took.as_secs_f64().max(0.001));
    // A rate is shown, not counted with.
    let rate = buyers as f64 / seconds;
    let ended: Vec<_> = measured.statuses.iter().map(|(status, buyers)| (status.name(), *buyers)).collect();
    format!("{} in {seconds:.2} s, {rate:.0} a second: {}", counted(buyers, "buyer"), in_words(&ended))
}
