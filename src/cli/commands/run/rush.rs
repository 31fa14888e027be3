//! A rush: many buyers at once, over real connections of their own.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::existing;
use super::observed::{Observed, in_words, known};
use crate::cli::error::{Error, Result};
use crate::cli::failure::Failure;
use crate::cli::input::fixture::Rush;
use crate::cli::interrupt;
use crate::cli::output::{Output, Progress};
use seckill::inventory::id::{ActivityId, RequestId, UserId};
use seckill::inventory::order::{Bought, Corrupt, Order};
use seckill::inventory::status::Status;
use seckill::store::{Store, StoreError};

/// How many buyers ended with each status, and a key that one of them found corrupt.
#[derive(Default)]
struct RushTally {
    buyers: BTreeMap<Status, u64>,
    corrupt: Option<Corrupt>,
}

impl RushTally {
    fn of(&self, status: Status) -> u64 {
        self.buyers.get(&status).copied().unwrap_or_default()
    }

    fn all(&self) -> u64 {
        self.buyers.values().sum()
    }

    fn add(&mut self, other: Self) {
        for (status, buyers) in other.buyers {
            *self.buyers.entry(status).or_default() += buyers;
        }
        self.corrupt = self.corrupt.take().or(other.corrupt);
    }

    /// How the rush as a whole ended: that some come too late is expected, all else is worth reporting.
    fn status(&self) -> Status {
        let expected = [Status::Ok, Status::Replayed, Status::LimitExceeded, Status::OutOfStock];
        self.buyers.keys().copied().find(|status| !expected.contains(status)).unwrap_or(Status::Ok)
    }
}

/// Sends the orders of all buyers, waits for the last reply, and then counts in Redis what was sold. Unless it
/// `may_sell`, nothing is sent: the activity must not exist.
pub fn rush(rush: &Rush, may_sell: bool, store: &mut Store, out: &Output) -> Result<Observed> {
    let before = store.snapshot(&rush.activity)?;
    let (tally, took) = if may_sell {
        let progress = out.progress(&format!("rush on {}", rush.activity), rush.users);
        let sold = send_all(rush, store, &progress)?;
        progress.finish();
        sold
    } else if before.status == Status::NotPreheated {
        let buyers = BTreeMap::from([(Status::NotPreheated, rush.users)]);
        (RushTally { buyers, corrupt: None }, Duration::ZERO)
    } else {
        return Err(existing::rush_refused(&rush.activity, "").into());
    };

    let after = store.snapshot(&rush.activity)?;
    let held = if store.layout().kind().has_users() { Some(held(store, &rush.activity)?) } else { None };
    let total = after.meta.as_ref().map(|meta| meta.total);
    let sold = match (total, after.stock) {
        (Some(total), Some(stock)) => Some(total.saturating_sub(stock)),
        _ => held,
    };
    let oversold = match (held, total) {
        (Some(held), Some(total)) => held.saturating_sub(total),
        // If nobody is recorded, or no total is known: no more may have been sold than there was.
        _ => {
            let taken = tally.of(Status::Ok).saturating_mul(rush.quantity.get());
            taken.saturating_sub(before.stock.unwrap_or_default())
        }
    };
    if oversold > 0 {
        out.warn(format!("activity `{}` is oversold by {oversold}", rush.activity));
    }
    out.note(format!("rush on {}: {}", rush.activity, speed(&tally, took)));
    let of = |status: Status| (status.name(), Some(tally.of(status)));
    let counts = known([
        ("sold", sold),
        ("oversold", Some(oversold)),
        ("stock", after.stock),
        of(Status::Ok),
        of(Status::OutOfStock),
        of(Status::LimitExceeded),
    ]);
    Ok(Observed {
        word: tally.status().name(),
        cut_short: tally.all() < rush.users,
        counts,
        corrupt: tally.corrupt,
        ..Observed::default()
    })
}

/// All buyers over all connections, and how long it took from the first order to the last reply.
fn send_all(rush: &Rush, store: &Store, progress: &Progress) -> Result<(RushTally, Duration)> {
    let clients = usize::try_from(rush.users).unwrap_or(usize::MAX).min(rush.clients);
    // Everybody is connected before the first one orders.
    let stores = (0..clients).map(|_| store.another()).collect::<Result<Vec<_>, _>>()?;
    let (start, next, stop) = (Barrier::new(clients + 1), AtomicU64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let threads: Vec<_> = stores
            .into_iter()
            .map(|mut store| {
                let (start, next, stop) = (&start, &next, &stop);
                scope.spawn(move || {
                    start.wait();
                    let ended = client(rush, &mut store, next, stop, progress);
                    if ended.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    ended
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let took = began.elapsed();
        let mut tally = RushTally::default();
        for client in ended {
            tally.add(client.map_err(|_| Failure::failed("a client of the rush panicked"))??);
        }
        Ok((tally, took))
    })
}

/// One connection: the next buyer, and the next, until nobody is left.
fn client(
    rush: &Rush,
    store: &mut Store,
    next: &AtomicU64,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<RushTally, StoreError> {
    let mut tally = RushTally::default();
    let has_users = store.layout().kind().has_users();
    let mut order = Order {
        activity: rush.activity.clone(),
        user: None,
        quantity: rush.quantity,
        request: RequestId::unique(),
        reason: rush.reason.clone(),
        per_user_limit: None,
    };
    while !stop.load(Ordering::Relaxed) && !interrupt::requested() {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number > rush.users {
            break;
        }
        order.user = if has_users { buyer(number) } else { None };
        order.request = RequestId::unique();
        let outcome = store.deduct(&order, false)?;
        *tally.buyers.entry(outcome.status).or_default() += 1;
        tally.corrupt = tally.corrupt.or(outcome.corrupt);
        progress.inc(1);
    }
    Ok(tally)
}

/// The same buyers in every rush, so that a second one reaches the limits of the first.
fn buyer(number: u64) -> Option<UserId> {
    format!("user-{number}").parse().ok()
}

fn held(store: &mut Store, activity: &ActivityId) -> Result<u64> {
    let mut held: u64 = 0;
    store.participants(activity, |_, units| {
        held = held.saturating_add(units.ok().and_then(Bought::units).unwrap_or_default());
        Ok::<_, Error>(())
    })?;
    Ok(held)
}

/// How many buyers came, how fast, and how they ended.
fn speed(tally: &RushTally, took: Duration) -> String {
    let buyers = tally.all();
    let seconds = took.as_secs_f64().max(0.001);
    #[allow(clippy::cast_precision_loss, reason = "a rate is shown, not counted with")]
    let rate = buyers as f64 / seconds;
    let ended: Vec<_> = tally.buyers.iter().map(|(status, buyers)| (status.name(), *buyers)).collect();
    format!("{buyers} buyers in {seconds:.2} s, {rate:.0} a second: {}", in_words(&ended))
}
