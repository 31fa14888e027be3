//! The tool under torture: processes sell, repair and audit at random over a bad network while the tool and the server
//! are killed; then everything is asked again, and what callers heard is compared with itself, the keys and the ledger.
//!
//! A run is a series of rounds, each with a server of its own. Round n of a run has the seed `SEED + n`, and all that is
//! random in it depends on that seed alone, so a round that failed is the first one of `make torture SEED=…`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that meets the unexpected should fail loudly, and say why on stderr"
)]

mod actors;
mod adoption;
mod chaos;
mod check;
mod failovers;
mod faults;
mod history;
mod keys;
mod order_file;
mod report;
mod rng;
mod round;
mod schedule;
mod servers;
#[allow(dead_code, unused_imports, reason = "tests/it uses the rest")]
#[path = "../it/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

/// What breaks at random may show a fault in one run and not in the next: it is no part of a plain `cargo test`.
#[test]
fn whatever_breaks_every_answer_agrees_with_the_rules() {
    let nodes = number("SECKILL_TORTURE_NODES").unwrap_or(0);
    match number("SECKILL_TORTURE_SECONDS") {
        Some(seconds) => torture(seconds, usize::try_from(nodes).unwrap()),
        None => eprintln!("left out: `make torture`, or SECKILL_TORTURE_SECONDS, plays it"),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty())?.parse().ok()
}

/// Plays one round after the other, until the time is over.
fn torture(seconds: u64, nodes: usize) {
    assert!(nodes == 0 || nodes >= 6 && nodes.is_multiple_of(2), "three primaries or more, each with a replica");
    let first = number("SECKILL_TORTURE_SEED").unwrap_or(1);
    let goes_on = number("SECKILL_TORTURE_GO_ON").is_some();
    let begun = Instant::now();
    let deadline = begun + Duration::from_secs(seconds);
    let (mut calls, mut failed) = (0, 0);
    for seed in first.. {
        match round::run(seed, nodes, deadline) {
            Ok(summary) => {
                calls += summary.calls;
                eprintln!("seed {seed}: ok, {summary}");
            }
            Err((problems, file)) => {
                let shown = problems.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n");
                let again = schedule::Schedule::new(seed, nodes).again();
                let text = format!(
                    "seed {seed}: {} problems\n{shown}\nhistory: {}\nagain: {again}",
                    problems.len(),
                    file.display()
                );
                assert!(goes_on, "{text}");
                failed += 1;
                eprintln!("{text}");
            }
        }
        if Instant::now() >= deadline {
            let (rounds, spent) = (seed - first + 1, begun.elapsed().as_secs());
            assert_eq!(failed, 0, "of {rounds} rounds, {calls} calls, {spent} s");
            eprintln!("{rounds} rounds, {calls} calls, {spent} s: every answer agrees");
            return;
        }
    }
}
