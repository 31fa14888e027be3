//! What README says about speed, measured: each figure against a baseline that runs in turn with it on the same server,
//! so that a slow or busy machine slows both.
//!
//! `cargo bench --bench speed -- file` runs one part, without a name all but those that take too long (`make bench`).
//!
//! - `SECKILL_BENCH_PAIRS`, `SECKILL_BENCH_ORDERS`, `SECKILL_BENCH_USERS`: more or fewer pairs, orders of a file, and
//!   participants of an audit.
//! - `SECKILL_BENCH_STATIC`: the static binary, for the part `process`.
//! - `SECKILL_TEST_SERVER`: the only server to measure on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that finds the unexpected should fail loudly, and print what it found"
)]

mod audit;
mod cluster;
mod file;
mod holds;
mod input;
mod inspect;
mod load;
mod multi;
mod one;
mod other;
mod process;
mod server;
mod table;

use server::Server;

/// A part by name, in the order in which they run.
struct Part {
    name: &'static str,
    /// Whether it runs if no part is named.
    by_default: bool,
    run: fn(&Server),
}

const fn part(name: &'static str, run: fn(&Server)) -> Part {
    Part { name, by_default: true, run }
}

const PARTS: &[Part] = &[
    part("process", process::run),
    part("one", one::run),
    part("file", file::run),
    part("multi", multi::run),
    part("holds", holds::run),
    part("p99", other::run),
    part("load", load::run),
    part("reconcile", audit::run),
    Part { name: "memory", by_default: false, run: audit::memory },
    Part { name: "options", by_default: false, run: file::options },
    Part { name: "inspect", by_default: false, run: inspect::run },
    Part { name: "cluster", by_default: false, run: cluster::run },
];

/// How many pairs of runs a figure is the median of.
fn pairs() -> usize {
    number("SECKILL_BENCH_PAIRS", 5)
}

/// A number of the environment.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

fn main() {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|part| part.name != *name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        eprintln!("bench: error: there is no part `{unknown}`: expected {}", known.join(", "));
        std::process::exit(2);
    }
    for binary in server::binaries() {
        println!("{}\nmedian of {} alternating pairs (min-max)\n", server::machine(&binary), pairs());
        table::headings();
        for part in PARTS {
            if wanted.iter().any(|name| name == part.name) || wanted.is_empty() && part.by_default {
                (part.run)(&Server::start(&binary));
            }
        }
        println!();
    }
}
