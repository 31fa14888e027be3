//! Holds: units that are taken with a deadline, and confirmed, released or expired.

mod audit;
mod commands;
mod files;

use crate::support::{CLUSTER, COUPON, Layout, SECKILL, SKU};

/// The layouts that record users.
const WITH_USERS: [Layout; 4] = [SECKILL, SKU, COUPON, CLUSTER];

/// A quarter of an hour, in ms.
const LONG: &str = "900000";
