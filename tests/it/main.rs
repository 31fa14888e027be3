//! The built binary against real servers that each test starts for itself.
//!
//! One test binary with a module a topic: it links once, and the tests of all topics run side by side.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that meets the unexpected should fail loudly, and say why on stderr"
)]

mod acl;
mod archive;
mod bench;
mod bulk;
mod calls;
mod cluster;
mod context;
mod contract;
mod custom_layouts;
mod doctor;
mod documents;
mod drop_ins;
mod embedded;
mod faults;
mod fixtures;
mod harness;
mod holds;
mod input;
mod interrupted;
mod layers;
mod ledger;
mod library;
mod limits;
mod metrics;
mod one_round_trip;
mod options;
mod outputs;
mod packaging;
mod pause;
mod preheat;
mod reconcile;
mod replicas;
mod report;
mod run;
mod secrets;
mod sentinel;
mod sessions;
mod shards;
mod shell;
mod snapshots;
mod spread;
mod statuses;
mod support;
mod times;
mod watch;
mod why;
