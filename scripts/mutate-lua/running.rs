//! Runs tests on a changed binary, until one fails.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use crate::scripts::temporary;

/// So many tests run at once: they wait most of their time.
pub fn at_once() -> usize {
    env::var("SECKILL_MUTANTS_TESTS").map_or(3, |text| text.parse().expect("a number of tests"))
}

/// Ends the tests with the servers they started.
pub fn end_group(group: u32) {
    Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status().unwrap();
}

/// The first of these tests that fails, if one does; `a test that hangs` if they take longer than that.
pub fn first_failure(tests: &str, binary: &Path, names: &[&str], patience: Duration) -> Option<String> {
    let directory = temporary("t");
    fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new(tests);
    command.args(["--exact", "--test-threads", &at_once().to_string()]).args(names);
    command.env("SECKILL_TEST_BINARY", binary).env("TMPDIR", &directory).env("RUST_BACKTRACE", "0");
    let mut process = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the tests");
    let group = process.id();
    let (is_over, over) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let hangs = over.recv_timeout(patience).is_err_and(|why| why == mpsc::RecvTimeoutError::Timeout);
        if hangs {
            end_group(group);
        }
        hangs
    });
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let failed = lines.find_map(|line| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned()));
    if failed.is_some() {
        end_group(group);
    }
    let passed = process.wait().unwrap().success();
    drop(is_over);
    let hangs = watch.join().unwrap();
    let _ = fs::remove_dir_all(&directory);
    match failed {
        None if hangs => Some("a test that hangs".to_owned()),
        None if !passed => Some("the end of the tests".to_owned()),
        failed => failed,
    }
}
