//! Stock of flash sales in Redis or Valkey, for Rust backends and for the operator's command line.
//!
//! [`inventory`] has the values and rules of a sale and knows no server; [`store`] runs the atomic Lua scripts.

pub mod inventory;
pub mod store;
