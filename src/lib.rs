//! Stock of flash sales in Redis or Valkey: atomic, idempotent, auditable.
//!
//! The library is for backends in Rust. The command line of the same name is built on it, so both see the same data.
//! `examples/backend.rs` in the repository sells, refunds and audits.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use seckill::model::id::{RequestId, UserId};
//! use seckill::model::layout::Layout;
//! use seckill::model::number::Quantity;
//! use seckill::model::order::Order;
//! use seckill::model::status::Status;
//! use seckill::redis::connect::Target;
//! use seckill::store::Store;
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
//! match store.deduct(&order, false)?.status {
//!     Status::Ok | Status::Replayed => println!("yours"),
//!     refused => println!("refused: {refused}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`model`]: values and rules. It knows no server.
//! - [`store`]: one [`Store`](store::Store) is one connection to one server, made with the first call. It is not shared
//!   between threads: give each thread its own. A call waits at most three times the timeout of its
//!   [`Target`](redis::connect::Target).
//!
//! **Units** are whole numbers up to 2^53 - 1, which Lua holds exactly. **Times** are Unix milliseconds by the server's
//! clock. **Answers** such as "sold out" are a [`Status`](model::status::Status). A
//! [`StoreError`](error::StoreError) means that there is no answer. After
//! [`StoreError::Unknown`](error::StoreError::Unknown) the write may have happened: its field `recovery` says how to find
//! out. Every order carries a request id, so sending it again is always safe.

// Clocks, sockets and randomness are the `System`'s alone, and no order of a hash map reaches the wire.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::iter_over_hash_type))]

pub mod admin;
pub mod audit;
pub mod bench;
#[doc(hidden)]
pub mod cli;
pub mod error;
pub mod model;
pub mod read;
pub mod redis;
pub mod report;
pub mod script;
pub mod sell;
pub mod shards;
pub mod store;
