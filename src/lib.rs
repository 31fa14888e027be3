//! Stock of flash sales in Redis or Valkey: atomic, idempotent, auditable.
//!
//! The library is for backends in Rust. The command line of the same name is built on it, so both see the same data.
//! `examples/backend.rs` in the repository sells, refunds and audits.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use seckill::{Layout, Order, Quantity, RequestId, Status, Store, StoredUser, Target, Wish};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::new("redis://127.0.0.1:6379", "the configuration", Duration::from_secs(5))?;
//! let mut store = Store::new(target, Layout::Seckill, "checkout".to_owned());
//! let order = Order {
//!     activity: "1001".parse()?,
//!     user: Some(StoredUser::new("7")),
//!     wish: Wish::Buy { quantity: Quantity::new(1).ok_or("no units")?, per_user_limit: None },
//!     request: RequestId::unique(),
//!     reason: None,
//! };
//! match seckill::place(&mut store, &order, false)?.status {
//!     Status::Ok | Status::Replayed => println!("yours"),
//!     refused => println!("refused: {refused}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One [`Store`] is one connection to one server, made with the first call. It is not shared between threads: give each
//! thread its own. A call waits at most three times the timeout of its [`Target`]; for a failover of a cluster 30 s more, unless
//! [`Store::without_waiting_for_failover`] says otherwise.
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
#[doc(hidden)]
pub mod internals;
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
pub use crate::model::activity::{Plan, PreheatMode};
pub use crate::model::id::{ActivityId, RequestId, StoredUser, UserId};
pub use crate::model::layout::{Kind, Layout};
pub use crate::model::number::{Limit, Quantity, Units};
pub use crate::model::order::hold::HoldFor;
pub use crate::model::order::{Order, Outcome, RefundOf, Wish};
pub use crate::model::status::Status;
pub use crate::model::time::Millis;
pub use crate::redis::connect::Target;
pub use crate::sell::orders::place;
pub use crate::store::Store;
