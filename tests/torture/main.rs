//! The tool under torture: processes sell, repair and audit at random over a bad network while the tool and the server
//! are killed, and every answer, key, ledger row and verdict is compared with a model of the rules.
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
mod aof;
mod chaos;
mod check;
mod entries;
mod failovers;
mod faults;
mod feed;
mod history;
mod holds;
mod keys;
mod live;
mod model;
mod names;
mod order_file;
mod report;
mod rng;
mod round;
mod rules;
mod said;
mod schedule;
mod servers;
#[allow(dead_code, unused_imports, reason = "tests/it uses the rest")]
#[path = "../it/support/mod.rs"]
mod support;
mod timeline;
mod verdicts;

use std::time::{Duration, Instant};

/// The seconds and the seed of `make test`.
const FIXED: (u64, u64) = (15, 1);
/// The same on a cluster: primaries and replicas.
const FIXED_ON_CLUSTER: (u64, u64, usize) = (12, 1, 6);
/// How long a second look at one of its seeds may take.
const AGAIN: Duration = Duration::from_secs(10);

#[test]
fn whatever_breaks_every_answer_agrees_with_the_rules() {
    let (seconds, seed) = FIXED;
    if number("SECKILL_TORTURE_NODES").is_none() {
        torture(seconds, seed, 0);
    }
}

#[test]
fn whatever_fails_over_every_answer_agrees_with_the_rules() {
    let (seconds, seed, nodes) = FIXED_ON_CLUSTER;
    match number("SECKILL_TORTURE_NODES") {
        Some(nodes) => torture(seconds, seed, usize::try_from(nodes).unwrap()),
        None if number("SECKILL_TORTURE_SEED").is_none() => torture(seconds, seed, nodes),
        None => {}
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty())?.parse().ok()
}

/// Plays one round after the other, until the time is over.
fn torture(seconds: u64, first: u64, nodes: usize) {
    assert!(nodes == 0 || nodes >= 6 && nodes.is_multiple_of(2), "three primaries or more, each with a replica");
    let seconds = number("SECKILL_TORTURE_SECONDS").unwrap_or(seconds);
    let first = number("SECKILL_TORTURE_SEED").unwrap_or(first);
    let is_fixed = number("SECKILL_TORTURE_SEED").is_none();
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
            // The fixed seeds stand for rules that hold in every interleaving. What a second look at the same seed does
            // not show again is printed with its history, for `make torture` to hunt, and fails nobody's build.
            Err((problems, file))
                if is_fixed && (0..2).all(|_| round::run(seed, nodes, Instant::now() + AGAIN).is_ok()) =>
            {
                eprintln!("seed {seed}: not seen again: {}\nhistory: {}", problems.join("\n"), file.display());
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
