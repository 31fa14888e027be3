//! The only code that speaks RESP: addresses, connections, nodes and slots, calls and their retries.

pub(crate) mod call;
pub(crate) mod cluster;
pub mod connect;
#[doc(hidden)]
pub mod connection;
pub mod embedded;
pub(crate) mod pipeline;
pub(crate) mod scan;
pub(crate) mod sentinel;
#[doc(hidden)]
pub mod system;
pub(crate) mod tls;
