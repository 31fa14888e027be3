//! The orders of all clients in batches, by what applies files of orders: each client waits for its order, and the orders
//! that wait are sent together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bench::Measured;
use crate::bench::pace::{Pace, Turn};
use crate::bench::{Basket, Sale, write_user};
use crate::bench::{LoadOptions, TIMEOUTS};
use crate::error::StoreError;
use crate::model::id::interner::Interner;
use crate::model::order::{Corrupt, MultiOrder};
use crate::model::status::Status;
use crate::sell::bulk::{
    BulkMultiOrder, BulkOrder, Job, MultiOrderRun, Operation, OrderOptions, OrderRun, Orders, Run, Step,
};
use crate::store::Store;

/// The longest sleep, so that a run can be stopped.
const NAP: Duration = Duration::from_millis(50);

/// Loads a sale by batches.
///
/// # Errors
/// See [`load`](crate::bench::load).
pub(crate) fn load(
    store: &mut Store,
    sale: &Sale,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured, StoreError> {
    let mut names = Interner::default();
    for (activity, _) in sale.baskets.iter().flat_map(|basket| basket.items.iter()) {
        names.number(activity.as_str().as_bytes());
    }
    let name = sale.run.to_string();
    let job = Job { digest: name.clone(), name };
    let retry_for = store.servers.target().timeout * TIMEOUTS;
    if sale.baskets.iter().any(|basket| basket.items.len() > 1) {
        let run = MultiOrderRun::new(store, job, options.batch.clone(), retry_for, false, names)?;
        let push = |run: &mut MultiOrderRun, line: u64, basket: &Basket, user: &str| {
            let (user, items) = (user.parse().ok(), basket.items.clone());
            let order = MultiOrder { user, items, request: sale.run.clone(), reason: sale.reason.clone() };
            run.push(BulkMultiOrder { line, order, has_request: false, activities: Arc::default() });
            Ok(())
        };
        let front = |run: &MultiOrderRun| Some(run.front()?.outcome.decisive());
        return drive(run, store, sale, options, progress, push, front);
    }
    let options_of_run = OrderOptions {
        operation: Operation::Deduct,
        job,
        reason: sale.reason.clone(),
        limit: None,
        hold_for: None,
        has_rows: false,
        limits: options.batch.clone(),
        retry_for,
    };
    let run = OrderRun::new(store, options_of_run, names)?;
    let push = |run: &mut OrderRun, line: u64, basket: &Basket, user: &str| {
        let (activity, quantity) = &basket.items[0];
        let quantity = u32::try_from(quantity.get()).unwrap_or(u32::MAX);
        run.push(&BulkOrder { line, activity: activity.as_str(), user, quantity, request: "", reason: "" })
    };
    let front = |run: &OrderRun| run.front().map(|decided| (decided.status, None));
    drive(run, store, sale, options, progress, push, front)
}

/// Drives a run. `push` adds an order to it, and `front` says how the first one ended, once it did.
fn drive<O: Orders>(
    mut run: Run<O>,
    store: &Store,
    sale: &Sale,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64),
    push: impl Fn(&mut Run<O>, u64, &Basket, &str) -> Result<(), StoreError>,
    front: impl Fn(&Run<O>) -> Option<(Status, Option<Corrupt>)>,
) -> Result<Measured, StoreError> {
    while run.load_watermarks()? {}
    let mut measured = Measured::new()?;
    let has_users = store.layout.kind().has_users();
    let began = Instant::now();
    let mut pace = Pace::new(options.pace, began, store.servers.target().timeout);
    // When the orders started that are not decided yet: those of the run, and behind them those that it has no use for yet.
    let mut started: VecDeque<Instant> = VecDeque::new();
    let (mut number, mut pushed, mut user) = (0, 0, String::new());
    let mut answered = began;
    loop {
        let now = Instant::now();
        if !measured.is_cut_short && (store.stop)() {
            measured.is_cut_short = true;
            pace.stop();
        }
        let mut next_order = None;
        while started.len() < options.clients {
            match pace.turn(now) {
                Turn::Order(_, at) => started.push_back(at),
                Turn::NotBefore(at) => {
                    next_order = Some(at);
                    break;
                }
                Turn::Over => break,
            }
        }
        while pushed < started.len() && run.accepts_more() {
            write_user(&mut user, sale.buyers.number(number));
            let basket = (number % sale.baskets.len() as u64) as usize;
            number += 1;
            pushed += 1;
            push(&mut run, number, &sale.baskets[basket], if has_users { &user } else { "" })?;
        }
        if started.is_empty() && !pace.has_more(now) {
            break;
        }
        // Nobody else orders before one of these is decided, or for a while: what waits is sent as it is.
        let flush = pushed == started.len();
        match run.advance(flush)? {
            Step::Idle if started.is_empty() => {
                std::thread::sleep(next_order.unwrap_or(now).saturating_duration_since(now).min(NAP));
            }
            Step::Corrupt(corrupt) => _ = measured.corrupt.get_or_insert(corrupt),
            Step::Rewind { activity, line } => return Err(StoreError::Lost { activity, line }),
            Step::Continue | Step::Idle => {}
            Step::Outage(_) => measured.retries += 1,
        }
        let now = Instant::now();
        let mut ended = 0;
        while let Some((status, corrupt)) = front(&run) {
            run.pop();
            pushed -= 1;
            if let Some(at) = started.pop_front() {
                measured.answered(status, at, now);
            }
            measured.corrupt = measured.corrupt.take().or(corrupt);
            answered = now;
            ended += 1;
        }
        progress(ended);
    }
    measured.took = answered - began;
    measured.dropped = pace.dropped;
    Ok(measured)
}
