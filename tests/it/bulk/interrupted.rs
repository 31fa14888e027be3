//! Ctrl-C stops a run in every phase: exit 130, with what was done and how to resume.

use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::{Orders, held, statuses};
use crate::support::{Call, Running, TestRedis};

/// Starts a call whose standard input stays open.
fn piped(call: Call) -> (Running, PipeWriter) {
    let (read, write) = std::io::pipe().unwrap();
    (call.stdin_file(File::from(OwnedFd::from(read))).spawn(), write)
}

pub fn fifo() -> (Orders, PathBuf) {
    let dir = Orders::new("");
    let path = dir.dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    (dir, path)
}

/// The main thread, the one that listens, and the one that reads.
const READING: usize = 3;

#[test]
fn a_run_that_waits_for_a_header_stops() {
    let redis = TestRedis::selling("1001", 10_000);
    let before = redis.dump_all();
    for (begin, command) in
        [("", "deduct"), ("activity,us", "deduct"), ("activity,\"u", "refund"), ("", "multi-deduct")]
    {
        let (call, mut input) = piped(redis.seckill([command, "--from", "-"]));
        input.write_all(begin.as_bytes()).unwrap();
        call.wait_for_threads(READING);
        call.interrupt().stdout_is("").stderr_has("interrupted while waiting for `<stdin>`: nothing was applied");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_run_that_waits_for_somebody_to_write_into_a_pipe_stops() {
    let redis = TestRedis::selling("1001", 10_000);
    let (_dir, fifo) = fifo();
    for command in ["deduct", "reconcile"] {
        let call =
            redis.seckill([command, if command == "deduct" { "--from" } else { "--orders" }]).args([&fifo]).spawn();
        call.wait_for_threads(READING);
        call.interrupt().stdout_is("");
    }
}

#[test]
fn a_dry_run_of_an_input_that_does_not_end_stops() {
    let redis = TestRedis::selling("1001", 10_000);
    let (_dir, fifo) = fifo();
    let call = redis.seckill(["deduct", "--dry-run", "--from"]).args([&fifo]).spawn();
    let mut input = File::create(&fifo).unwrap();
    writeln!(input, "activity,user\n1001,1\n1001,2").unwrap();
    call.wait_for_threads(READING);
    call.interrupt().stderr_has("nothing was applied");
}

#[test]
fn a_run_that_meets_nothing_but_invalid_lines_stops() {
    let redis = TestRedis::selling("1001", 10_000);
    let (call, mut input) = piped(redis.seckill(["deduct", "--keep-going", "--job", "j", "--from", "-"]));
    input.write_all(b"activity,user\n").unwrap();
    let garbage = std::thread::spawn(move || while input.write_all(&b"1001,\n".repeat(1000)).is_ok() {});
    call.wait_for_threads(READING);
    // The signal comes before the header was read, or after it.
    let outcome = call.interrupt();
    let error = &outcome.stderr;
    let is_late =
        error.contains("stopped after 0 orders") && error.contains("give the whole input again with `--job j`");
    assert!(is_late || error.contains("nothing was applied"), "{error}");
    garbage.join().unwrap();
}

#[test]
fn a_run_that_waits_for_the_next_row_says_what_was_done_and_resumes() {
    let redis = TestRedis::selling("1001", 10_000);
    let call = || redis.seckill(["deduct", "-o", "jsonl", "--job", "night", "--from", "-"]);
    let (running, mut input) = piped(call());
    input.write_all(b"activity,user\n1001,1\n1001,2\n").unwrap();
    running.wait_for_stdout("\"line\":3");
    let outcome = running.interrupt().stderr_has("stopped after 2 orders").stderr_has("with `--job night`");
    assert_eq!((statuses(&outcome).len(), held(&redis, "1001")), (2, 2));
    let rest = call().stdin("activity,user\n1001,1\n1001,2\n1001,3\n").code(0);
    assert_eq!(statuses(&rest), ["2 replayed", "3 replayed", "4 ok"]);
    let (unnamed, mut input) = piped(redis.seckill(["deduct", "-q", "-o", "jsonl", "--from", "-"]));
    input.write_all(b"activity,user\n1001,9\n").unwrap();
    unnamed.wait_for_stdout("\"line\":2");
    unnamed.interrupt().stderr_has("give the whole input again with `--job ");
}

#[test]
fn other_commands_that_wait_for_standard_input_stop_too() {
    let redis = TestRedis::selling("1001", 10_000);
    let before = redis.dump_all();
    let calls: [(&[&str], usize); 3] =
        [(&["reconcile", "--orders", "-"], READING), (&["preheat", "--from", "-"], 2), (&["repair", "-", "--yes"], 2)];
    for (args, threads) in calls {
        let (call, _input) = piped(redis.seckill([]).args(args));
        call.wait_for_threads(threads);
        call.interrupt().stdout_is("");
    }
    redis.assert_unchanged_since(&before);
}
