//! The orders of all clients in batches, by what applies files of orders: each client waits for its order, and the orders
//! that wait are sent together.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::bench::pace::{Pace, Turn};
use crate::bench::{LoadOptions, Measured, Sale, TIMEOUTS, write_user};
use crate::error::{Result, StoreError};
use crate::model::{Interner, Status};
use crate::sell::bulk::{Advance, Job, Operation, OrderOptions, Run, status_of_items};
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
) -> Result<Measured> {
    let mut names = Interner::default();
    for (activity, _) in sale.baskets.iter().flat_map(|items| items.iter()) {
        names.number(activity.as_str().as_bytes());
    }
    let name = sale.run.to_string();
    let job = Job { digest: name.clone(), name };
    let is_multi = sale.baskets.iter().any(|items| items.len() > 1);
    let options_of_run = OrderOptions {
        operation: if is_multi { Operation::MultiDeduct } else { Operation::Deduct },
        job,
        reason: sale.reason.clone(),
        limit: None,
        hold_for: None,
        has_rows: false,
        limits: options.batch.clone(),
        retry_for: store.servers.target().timeout * TIMEOUTS,
    };
    let mut run = Run::new(store, options_of_run, names)?;
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
            let (items, user) = (&sale.baskets[basket], if has_users { &*user } else { "" });
            let items = items.iter().map(|(activity, quantity)| (activity.as_str(), quantity.get()));
            run.push(number, items, [user, "", ""])?;
        }
        if started.is_empty() && !pace.has_more(now) {
            break;
        }
        // Nobody else orders before one of these is decided, or for a while: what waits is sent as it is.
        let flush = pushed == started.len();
        match run.advance(flush)? {
            Advance::Idle if started.is_empty() => {
                std::thread::sleep(next_order.unwrap_or(now).saturating_duration_since(now).min(NAP));
            }
            Advance::Corrupt(corrupt) => _ = measured.corrupt.get_or_insert(corrupt),
            Advance::Rewind { activity, line } => return Err(StoreError::Lost { activity, line }),
            Advance::Continue | Advance::Idle => {}
            Advance::Outage(_) => measured.retries += 1,
        }
        let now = Instant::now();
        let mut ended = 0;
        while let Some(status) = front(&run) {
            run.pop();
            pushed -= 1;
            if let Some(at) = started.pop_front() {
                measured.answered(status, at, now);
            }
            answered = now;
            ended += 1;
        }
        progress(ended);
    }
    measured.took = answered - began;
    measured.dropped = pace.dropped;
    Ok(measured)
}

/// How the first order ended, once it did: of one that was refused, why.
fn front(run: &Run) -> Option<Status> {
    run.front()?;
    let items = || run.front_items().map(|item| item.status);
    Some(items().find(|item| !item.is_done() && *item != Status::Refused).unwrap_or_else(|| status_of_items(items())))
}
