//! How long another client waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::file::{deduct, orders, preheat, unique};
use super::server::Server;
use super::table::{Figure, print_values};

/// Measures the waits of another client while a file is applied.
pub fn run(server: &Server) {
    let directory = TempDir::new().unwrap();
    let file = unique(directory.path(), orders());
    let (mut during, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..super::pairs() {
        preheat(server);
        idle.push(p99(&waits(server, || thread::sleep(Duration::from_millis(500)))));
        during.push(p99(&waits(server, || deduct(server, &file, &[]))));
    }
    let figure = Figure { what: "p99 of another client during a file: idle", wanted: "the same" };
    print_values(&figure, &during, &idle, |seconds| format!("{:.2} ms", seconds * 1e3));
}

fn p99(waits: &[f64]) -> f64 {
    waits[(waits.len() - 1) * 99 / 100]
}

/// Seconds that each small request of another client took while something ran, in rising order.
pub fn waits<T>(server: &Server, work: impl FnOnce() -> T) -> Vec<f64> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let (mut connection, mut waits) = (server.connect(), Vec::new());
            while !done.load(Ordering::Relaxed) {
                let started = Instant::now();
                redis::cmd("GET").arg("seckill:stock:1001").exec(&mut connection).unwrap();
                waits.push(started.elapsed().as_secs_f64());
                // A client that asks now and then, and does not keep a core of a small machine busy.
                thread::sleep(Duration::from_micros(500));
            }
            waits.sort_by(f64::total_cmp);
            waits
        });
        work();
        done.store(true, Ordering::Relaxed);
        other.join().unwrap()
    })
}
