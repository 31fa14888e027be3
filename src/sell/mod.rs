//! Orders: deduct, refund, holds, several activities at once, and files of them.

pub(crate) mod bulk;
pub(crate) mod holds;
pub(crate) mod multi_orders;
pub(crate) mod orders;
