//! What the README says about speed, measured: ratios of pairs that run in turn on one server, so that a slow or busy
//! machine slows both alike.
//!
//! `cargo bench --bench speed -- core` runs one part, `cargo bench --bench speed` all of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that meets the unexpected should fail loudly, and print what it found"
)]

mod audit;
mod bulk;
mod one;
mod server;
mod table;

/// The parts by name, in the order in which they run.
const PARTS: &[(&str, fn())] = &[("core", one::run), ("bulk", bulk::run), ("audit", audit::run)];

fn main() {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let known: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        eprintln!("error: there is no part `{unknown}`: expected {}", known.join(", "));
        std::process::exit(2);
    }
    println!("{}", server::machine());
    for (part, run) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|name| name == part) {
            run();
        }
    }
}
