//! The only code that speaks RESP: addresses, connections, nodes and slots, calls and their retries.

pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod embedded;
pub(crate) mod pipeline;
pub(crate) mod scan;
pub(crate) mod sentinel;
pub(crate) mod system;
pub(crate) mod tls;
