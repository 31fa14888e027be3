//! A reader that closed the pipe changes neither the work nor the exit code; a full disk loses no change.

use crate::support::TestRedis;

const FORMATS: [&str; 6] = ["table", "json", "jsonl", "csv", "tsv", "yaml"];

#[test]
fn a_full_disk_reports_what_was_taken_and_its_request() {
    let redis = TestRedis::selling("1001", 10);
    redis
        .seckill(["deduct", "1001", "--user", "7", "--quantity", "2", "--request", "r-1"])
        .stdout_full()
        .code(1)
        .stderr_has("changed: activity 1001, user 7, quantity 2, status ok, stock 8, bought 2, request r-1\n")
        .stderr_has("error: cannot write to standard output: no space left on device\n")
        .stderr_has("hint: ");
    assert_eq!(redis.int("seckill:stock:1001"), 8);
    // Without `--request`, only standard error names the one that was made.
    let outcome = redis.seckill(["deduct", "1001", "--user", "8", "-o", "csv"]).stdout_full().code(1);
    let request = outcome.stderr.lines().next().unwrap().rsplit_once("request ").unwrap().1.to_owned();
    redis.seckill(["deduct", "1001", "--user", "8", "--request", &request]).code(0).stdout_has("replayed");
}

#[test]
fn a_full_disk_is_one_object_for_machines() {
    let redis = TestRedis::selling("1001", 10);
    for format in ["json", "jsonl", "yaml"] {
        let request = format!("r-{format}");
        let call = redis.seckill(["deduct", "1001", "--user", format, "--request", &request, "-o", format]);
        let error = call.stdout_full().code(1).error_json();
        assert_eq!((&error["code"], &error["changes"][0]["request"]), (&1.into(), &request.into()), "{error}");
        assert_eq!(error["changes"][0]["user"], format, "{error}");
        assert!(error["error"].as_str().unwrap().contains("no space left"), "{error}");
    }
}

#[test]
fn a_full_disk_reports_every_kind_of_change() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["deduct", "1001", "--user", "7", "--quantity", "3"]).code(0);
    let plan = tempfile::NamedTempFile::new().unwrap();
    let plan = plan.path().to_str().unwrap();
    for (line, changed) in [
        ("preheat --id 1002 --stock 5", "activity 1002, action create, status ok"),
        ("multi-deduct --user 9 1001=1 1002=2 --request m", "user 9, activity 1002, quantity 2, status ok"),
        ("refund 1001 --user 7 --request f", "activity 1001, user 7, quantity 1, status ok, stock 7, bought 2"),
        ("pause 1001", "activity 1001, status ok, state paused"),
        ("resume 1001", "activity 1001, status ok, state live"),
        ("run fixtures/product.yaml", "activity 42, action create, status ok"),
    ] {
        redis.seckill([]).args(line.split(' ')).stdout_full().code(1).stderr_has(&format!("changed: {changed}"));
    }
    redis.cmd(("HINCRBY", "seckill:participants:1001", "7", -1));
    redis.seckill(["reconcile", "1001", "--plan", plan]).code(7);
    redis.seckill(["repair", plan, "--yes"]).stdout_full().code(1).stderr_has("changed: activity 1001, user 7, class ");
    redis.cmd(("HINCRBY", "seckill:participants:1001", "7", -1));
    let fixed = redis.seckill(["reconcile", "1001", "--fix", "--yes", "-o", "json"]).stdout_full().code(1).error_line();
    assert_eq!(fixed["changes"][0]["user"], "7", "{fixed}");
    redis.seckill(["reconcile", "1001"]).code(0);
}

#[test]
fn a_full_disk_without_a_change_lists_none() {
    let redis = TestRedis::selling("1001", 10);
    for line in
        ["inspect", "inspect 1001 --all -o csv", "reconcile", "ledger 1001", "script list", "script show deduct"]
    {
        let call = redis.seckill([]).args(line.split(' ')).stdout_full();
        call.code(1).stderr_has("no space left on device").stderr_lacks("changed:");
    }
    let refused = redis.seckill(["deduct", "1001", "--user", "7", "--quantity", "11"]).stdout_full();
    refused.code(1).stderr_lacks("changed:");
    let dry = redis.seckill(["deduct", "1001", "--user", "7", "--dry-run"]).stdout_full();
    dry.code(1).stderr_lacks("changed:");
    for (format, orders) in [("jsonl", 30), ("csv", 3_000)] {
        let rows: String = (0..orders).map(|user| format!("1001,f{format}{user}\n")).collect();
        redis.seckill(["preheat", "--id", "1001", "--stock", "9000", "--reset", "--yes"]).code(0);
        let call = redis.seckill(["deduct", "-o", format, "--from", "-"]).stdin(format!("activity,user\n{rows}"));
        let error = call.stdout_full().code(1).stderr;
        let sold = 9_000 - redis.int("seckill:stock:1001");
        assert!(sold > 0 && error.contains(&sold.to_string()) && error.contains("1001"), "{sold} sold: {error}");
    }
    redis.seckill(["--help"]).stdout_full().code(1).stderr_has("no space left on device");
}

#[test]
fn a_closed_pipe_changes_no_exit_code() {
    let redis = TestRedis::selling("1001", 10);
    redis.cmd(("SET", "seckill:stock:bad", "abc"));
    for format in FORMATS {
        for (line, code) in [
            ("inspect", 0),
            ("inspect bad", 3),
            ("inspect 404", 3),
            ("inspect 1001 --user 7", 0),
            ("deduct 1001 --user 7 --quantity 11", 3),
            ("refund 1001 --user 7", 3),
            ("multi-deduct --user 7 1001=11", 3),
            ("pause 404", 3),
            ("reconcile 1001", 0),
            ("reconcile 404", 3),
            ("ledger 1001", 0),
            ("--help", 0),
        ] {
            let call = redis.seckill([]).args(line.split(' ')).env("SECKILL_OUTPUT", format).stdout_closed();
            call.code(code).stderr_lacks("panic").stderr_lacks("standard output");
        }
    }
    let order = ["deduct", "1001", "--user", "7", "--request", "a"];
    redis.seckill(order).stdout_closed().code(0);
    assert_eq!(redis.int("seckill:stock:1001"), 9);
    redis.cmd(("DECRBY", "seckill:stock:1001", 1));
    redis.seckill(["reconcile"]).stdout_closed().code(7);
}

#[test]
fn a_row_per_order_stops_when_its_reader_leaves() {
    let redis = TestRedis::selling("1001", 1_000_000);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let rows: String = (0..50_000).map(|user| format!("1001,u{user}\n")).collect();
    std::io::Write::write_all(&mut file, format!("activity,user\n{rows}").as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    for format in ["jsonl", "csv", "tsv"] {
        let stopped = redis.seckill(["deduct", "--from", path, "-o", format, "--job", format]).stdout_closed();
        stopped.code(1).stderr_has("the same command").stderr_lacks("panic");
        let full = redis.seckill(["deduct", "--from", path, "-o", format, "--job", format]).stdout_full();
        full.code(1).stderr_has("no space left on device").stderr_has("the same command");
    }
    let left = redis.int("seckill:stock:1001");
    assert!(left > 1_000_000 - 3 * 5_000, "more was sold than a buffer holds: {left}");
    // A summary is printed at the end: nobody need read it, and what it says is not lost.
    let full = redis.seckill(["deduct", "--from", path, "--job", "full"]).stdout_full().code(1);
    full.stderr_has("changed: activity 1001, status ok, orders 50000, units 50000\n");
    let left = left - 50_000;
    redis.seckill(["deduct", "--from", path, "--job", "whole"]).stdout_closed().code(0);
    assert_eq!(redis.int("seckill:stock:1001"), left - 50_000);
}

#[test]
fn following_ends_when_its_reader_leaves() {
    let redis = TestRedis::selling("1001", 10);
    for format in FORMATS {
        redis.seckill(["ledger", "1001", "--follow", "-o", format]).stdout_closed().code(0).stderr_lacks("panic");
    }
}
