//! Stock of flash sales in Redis or Valkey: atomic, idempotent, auditable.
//!
//! The library is for backends in Rust. The command line of the same name is built on it, so both see the same data.
//! `examples/backend.rs` in the repository sells, refunds and audits.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use seckill::{Layout, Order, Quantity, RequestId, Status, Store, Target, UserId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::new("redis://127.0.0.1:6379", "the configuration", Duration::from_secs(5))?;
//! let mut store = Store::new(target, Layout::Seckill, "checkout".to_owned());
//! let order = Order {
//!     activity: "1001".parse()?,
//!     user: Some("7".parse::<UserId>()?),
//!     quantity: Quantity::new(1).ok_or("no units")?,
//!     request: RequestId::unique(),
//!     reason: None,
//!     per_user_limit: None,
//! };
//! match seckill::deduct(&mut store, &order, false)?.status {
//!     Status::Ok | Status::Replayed => println!("yours"),
//!     refused => println!("refused: {refused}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One [`Store`] is one connection to one server, made with the first call. It is not shared between threads: give each
//! thread its own. A call waits at most three times the timeout of its [`Target`].
//!
//! **Units** are whole numbers up to 2^53 - 1, which Lua holds exactly. **Times** are Unix milliseconds by the server's
//! clock. **Answers** such as "sold out" are a [`Status`]. A
//! [`StoreError`] means that there is no answer. After
//! [`StoreError::Unknown`] the write may have happened: its field `recovery` says how to find
//! out. Every order carries a request id, so sending it again is always safe.

// Clocks, sockets and randomness are the `System`'s alone, and no order of a hash map reaches the wire.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::iter_over_hash_type))]
// Backends see what is re-exported here; everything else is of the crate alone.
#![cfg_attr(not(test), warn(unreachable_pub))]

mod admin;
mod audit;
mod bench;
mod cli;
mod error;
mod model;
mod read;
mod redis;
mod report;
mod script;
mod sell;
mod shards;
mod store;

pub use crate::admin::preheat::preheat_all;
pub use crate::audit::class::Class;
pub use crate::audit::judgement::judge;
pub use crate::audit::plan::MissingOrders;
pub use crate::audit::read::audit;
pub use crate::audit::result::{Audit, Difference, Verdict};
pub use crate::error::{Recovery, StoreError};
pub use crate::model::activity::field_change::FieldChange;
pub use crate::model::activity::{Plan, Preheat};
pub use crate::model::id::{ActivityId, RequestId, StoredUser, UserId};
pub use crate::model::layout::{Kind, Layout};
pub use crate::model::number::{Limit, Quantity, Units};
pub use crate::model::order::{Order, Refund, RefundOf};
pub use crate::model::status::Status;
pub use crate::model::time::Millis;
pub use crate::redis::connect::Target;
pub use crate::sell::orders::{deduct, refund};
pub use crate::store::Store;

/// What the binary and the tests of this repository use beside what backends do: it may change at any time.
#[doc(hidden)]
pub mod internals {
    pub use crate::audit::apply::repair;
    pub use crate::audit::apply::transfers::repair_transfer;
    pub use crate::audit::judgement::sharded::judge_shards;
    pub use crate::audit::ledger_state::Compared;
    pub use crate::audit::ledger_state::order_sums::{OrderRows, OrderSums};
    pub use crate::audit::plan::repair::Repair;
    pub use crate::audit::read::shards::audit_shards;
    pub use crate::cli::start;
    pub use crate::model::id::interner::Interner;
    pub use crate::model::ledger::{EntryId, Op};
    pub use crate::model::shards::Shards;
    pub use crate::model::status::call_code;
    pub use crate::redis::system::{Endpoint, RealSystem, Socket, System};
    pub use crate::script::keys::Keys;
    pub use crate::script::{DEDUCT, DROP_INS, HOLD, MULTI_DEDUCT, REFUND, SETTLE, Script};
    pub use crate::sell::sharded::finish_transfers;

    use std::time::Duration;

    use crate::admin::pause::{Pause, set_paused};
    use crate::error::StoreError;
    use crate::model::id::{ActivityId, RequestId, UserId};
    use crate::model::order::Order;
    use crate::model::order::hold::{Hold, HoldEnd, HoldFor, Step};
    use crate::model::status::Status;
    use crate::model::time::Millis;
    use crate::sell::{holds, orders};
    use crate::store::Store;

    /// Takes an order's units for a user until a deadline, which comes with the status.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn hold(
        store: &mut Store,
        order: &Order,
        user: &UserId,
        hold_for: Duration,
    ) -> Result<(Status, Option<Millis>), StoreError> {
        let Some(hold_for) = HoldFor::new(hold_for) else { return Ok((Status::Refused, None)) };
        let (activity, request, reason) = (order.activity.clone(), order.request.clone(), order.reason.clone());
        let hold = Hold { activity, user: user.clone(), quantity: order.quantity, hold_for, request, reason };
        orders::hold(store, &hold, false).map(|held| (held.outcome.status, held.deadline))
    }

    /// Confirms a hold, or releases it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn settle(
        store: &mut Store,
        activity: &ActivityId,
        request: &RequestId,
        confirms: bool,
    ) -> Result<Status, StoreError> {
        let (activity, request) = (activity.clone(), request.clone());
        let step = if confirms { Step::Confirm } else { Step::Release };
        let end = HoldEnd { activity, request, user: None, step, reason: None };
        orders::settle_hold(store, &end, false).map(|settled| settled.outcome.status)
    }

    /// Returns the units of a page of overdue holds.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn expire(store: &mut Store, activity: &ActivityId) -> Result<Status, StoreError> {
        holds::expire(store, activity, None, false).map(|expired| expired.status)
    }

    /// Pauses an activity, with its stock withdrawn if wanted, or, with `None`, resumes it.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn pause(store: &mut Store, activity: &ActivityId, withdraw_stock: Option<bool>) -> Result<Status, StoreError> {
        let to = withdraw_stock.map_or(Pause::Resume, |withdraw_stock| Pause::Pause { withdraw_stock });
        set_paused(store, activity, to, None, false).map(|paused| paused.status)
    }
}
