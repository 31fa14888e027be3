//! A backend in Rust: preheat an activity, sell, refund, and audit the sale.
//!
//! ```sh
//! cargo run --example backend -- redis://127.0.0.1:6379
//! ```

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use seckill::FieldChange;
use seckill::Layout;
use seckill::MissingOrders;
use seckill::Status;
use seckill::Store;
use seckill::Target;
use seckill::Verdict;
use seckill::judge;
use seckill::{Limit, Quantity, Units};
use seckill::{Order, RefundOf, Wish};
use seckill::{Plan, PreheatMode};
use seckill::{Recovery, StoreError};
use seckill::{RequestId, StoredUser};

fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    sell(&url, &mut std::io::stdout())
}

/// Runs a small sale on the server at `url`, and writes what happens to `log`.
pub fn sell(url: &str, log: &mut impl Write) -> Result<()> {
    let target = Target::new(url, "the first argument", Duration::from_secs(5))?;
    let mut store = Store::new(target, Layout::Seckill, "backend".to_owned());

    let plan = Plan {
        id: "phone".parse()?,
        title: Some("Phone".to_owned()),
        total: Units::new(3),
        per_user_limit: Limit::new(2).into(),
        starts_at: FieldChange::Keep,
        ends_at: FieldChange::Keep,
        ledger: None,
        shards: None,
    };
    let mut preheated = None;
    seckill::preheat_all(&mut store, &[&plan], PreheatMode::Create, false, None, |_, result| preheated = Some(result))?;
    let preheated = preheated.context("preheat did not answer")?;
    writeln!(log, "preheat: {}, stock {}", preheated.status, preheated.stock.unwrap_or_default())?;

    let mut order = Order {
        activity: plan.id.clone(),
        user: Some(StoredUser::new("7")),
        wish: Wish::Buy { quantity: Quantity::new(2).context("units to take")?, per_user_limit: None },
        // Keep the id with the order: whatever happens, the same order can be sent again.
        request: RequestId::unique(),
        reason: None,
    };
    buy(&mut store, &order, log)?;
    buy(&mut store, &order, log)?;
    order.request = RequestId::unique();
    buy(&mut store, &order, log)?;

    let refund = Order {
        wish: Wish::Refund(RefundOf::Quantity(Quantity::new(1).context("units to return")?)),
        request: RequestId::unique(),
        reason: Some("damaged".to_owned()),
        ..order
    };
    let outcome = seckill::place(&mut store, &refund, false)?;
    writeln!(log, "refund: {}, stock {}", outcome.status, outcome.stock.unwrap_or_default())?;

    // Evidence comes from the server page by page. Judging it needs no server.
    let audit = judge(seckill::audit(&mut store, &plan.id, None, None)?, MissingOrders::Repair);
    writeln!(log, "audit: {}", audit.verdict.name())?;
    match audit.verdict {
        Verdict::Match => Ok(()),
        _ => bail!("{} differences", audit.differences.len()),
    }
}

/// Takes units. "Sold out" is an answer, not an error, and an order whose reply was lost is sent again.
fn buy(store: &mut Store, order: &Order, log: &mut impl Write) -> Result<()> {
    let outcome = match seckill::place(store, order, false) {
        Err(StoreError::Unknown { recovery: Some(Recovery::SameRequest(_)), .. }) => {
            seckill::place(store, order, false)?
        }
        outcome => outcome?,
    };
    let answer = match outcome.status {
        Status::Ok => "sold",
        Status::Replayed => "sold before, by the same request",
        Status::OutOfStock | Status::LimitExceeded => "refused",
        Status::Reversed => "taken back by a repair: order anew with a new id",
        other => bail!("unexpected: {other}"),
    };
    writeln!(log, "deduct: {answer} ({}), stock {}", outcome.status, outcome.stock.unwrap_or_default())?;
    Ok(())
}
