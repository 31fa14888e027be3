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

/// Orders of one kind.
trait Batches {
    type Orders: Orders;

    /// Adds an order.
    fn push(&mut self, line: u64, basket: &Basket, user: &str) -> Result<(), StoreError>;

    /// How the first order ended, once it did.
    fn front(&self) -> Option<(Status, Option<Corrupt>)>;

    fn run(&mut self) -> &mut Run<Self::Orders>;
}

/// Orders of one activity each.
struct Singles(OrderRun);

impl Batches for Singles {
    type Orders = crate::sell::bulk::SingleOrders;

    fn push(&mut self, line: u64, basket: &Basket, user: &str) -> Result<(), StoreError> {
        let (activity, quantity) = &basket.items[0];
        let quantity = u32::try_from(quantity.get()).unwrap_or(u32::MAX);
        let activity = activity.as_str();
        self.0.push(&BulkOrder { line, activity, user, quantity, request: "", reason: "" })
    }

    fn front(&self) -> Option<(Status, Option<Corrupt>)> {
        self.0.front().map(|decided| (decided.status, None))
    }

    fn run(&mut self) -> &mut OrderRun {
        &mut self.0
    }
}

/// Orders of several activities.
struct Multis {
    run: MultiOrderRun,
    reason: Option<String>,
    request: crate::model::id::RequestId,
}

impl Batches for Multis {
    type Orders = crate::sell::bulk::MultiOrders;

    fn push(&mut self, line: u64, basket: &Basket, user: &str) -> Result<(), StoreError> {
        let (request, reason) = (self.request.clone(), self.reason.clone());
        let order = MultiOrder { user: user.parse().ok(), items: basket.items.clone(), request, reason };
        self.run.push(BulkMultiOrder { line, order, has_request: false, activities: Arc::default() });
        Ok(())
    }

    fn front(&self) -> Option<(Status, Option<Corrupt>)> {
        Some(self.run.front()?.outcome.decisive())
    }

    fn run(&mut self) -> &mut MultiOrderRun {
        &mut self.run
    }
}

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
        return drive(
            Multis { run, reason: sale.reason.clone(), request: sale.run.clone() },
            store,
            sale,
            options,
            progress,
        );
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
    drive(Singles(OrderRun::new(store, options_of_run, names)?), store, sale, options, progress)
}

fn drive<B: Batches>(
    mut batches: B,
    store: &Store,
    sale: &Sale,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Measured, StoreError> {
    while batches.run().load_watermarks()? {}
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
        while pushed < started.len() && batches.run().accepts_more() {
            write_user(&mut user, sale.buyers.number(number));
            #[allow(clippy::cast_possible_truncation, reason = "it is less than the number of baskets")]
            let basket = (number % sale.baskets.len() as u64) as usize;
            number += 1;
            pushed += 1;
            batches.push(number, &sale.baskets[basket], if has_users { &user } else { "" })?;
        }
        if started.is_empty() && !pace.has_more(now) {
            break;
        }
        // Nobody else orders before one of these is decided, or for a while: what waits is sent as it is.
        let flush = pushed == started.len();
        match batches.run().advance(flush)? {
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
        while let Some((status, corrupt)) = batches.front() {
            batches.run().pop();
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
