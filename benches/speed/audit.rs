//! `reconcile --orders` of a large sale against HGETALL, which only reads the participants.

use std::path::Path;

use super::file::deduct;
use super::input::rows;
use super::server::{Server, peak, timed};
use super::table::{Figure, pairs, print, print_values};

const ORDERS: &str = "activity,user,quantity";

/// Measures the time, with records that are newer and older than the ledger's end.
pub fn run(server: &Server) {
    let users = super::number("SECKILL_BENCH_USERS", 1_000_000);
    let directory = tempfile::TempDir::new().unwrap();
    let records = fill(server, directory.path(), users);
    let compare = |what, wanted| {
        let hgetall = || timed(server.tool("redis-cli", &["HGETALL", "seckill:participants:1001"]));
        let measured = pairs(|| timed(server.seckill(&reconcile(&records))), hgetall);
        print(&Figure { what, wanted }, &measured, |seconds| format!("{seconds:.2} s"));
    };
    compare("reconcile, records newer than the ledger: HGETALL", "1.5");
    sell_after_export(server);
    compare("reconcile, records older than the ledger: HGETALL", "1.7");
}

/// Measures the memory of an audit of ten million.
pub fn memory(server: &Server) {
    let directory = tempfile::TempDir::new().unwrap();
    let records = fill(server, directory.path(), super::number("SECKILL_BENCH_USERS", 10_000_000));
    let measure = |what, wanted| {
        let megabytes = peak(server.seckill(&reconcile(&records)));
        print_values(&Figure { what, wanted }, &[megabytes], &[], |megabytes| format!("{megabytes:.0} MB"));
    };
    measure("memory of reconcile, 10M x 10M, newer records", "400 MB");
    sell_after_export(server);
    measure("memory of reconcile, 10M x 10M, older records", "600 MB");
}

/// Lets so many users buy one unit each, and writes the records of it in another order. Returns the records' file,
/// whose time is past the last entry of the ledger.
pub fn fill(server: &Server, directory: &Path, users: usize) -> String {
    server.empty();
    timed(server.seckill(&["-q", "preheat", "--id", "1001", "--stock", "900000000", "--per-user-limit", "5"]));
    // Both factors are primes, so that every user comes once.
    let order = |index: usize, prime: usize| format!("1001,user-{},1", index * prime % users);
    deduct(server, &rows(directory, "orders.csv", ORDERS, users, |index| order(index, 7_919)), &["--fast"]);
    rows(directory, "records.csv", ORDERS, users, |index| order(index, 104_729))
}

/// A sale that the records do not know: their time is before the ledger's end then.
fn sell_after_export(server: &Server) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    timed(server.seckill(&["deduct", "1001", "--user", "late"]));
}

fn reconcile(records: &str) -> [&str; 5] {
    ["reconcile", "1001", "--quiet", "--orders", records]
}
