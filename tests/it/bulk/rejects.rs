//! `--rejects`: lines that are not valid are collected to be corrected and applied alone, and no file that is read, or
//! that holds the results, is overwritten.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;

use super::{Orders, held};
use crate::support::{TestRedis, seckill};

const FILE: &str = "activity,user,quantity\n1001,7,1\n1001,8,x\n1001,\"9\",1\n1001,,1\n";

#[test]
fn invalid_lines_are_collected_as_they_are_and_applied_alone() {
    let redis = TestRedis::selling("1001", 10);
    let orders = Orders::new("activity,user,quantity,note\r\n1001,7,1,\r\n1001,8,x,\"two\r\nlines\"\r\n1001,,1,a");
    let rejects = orders.dir.path().join("rejects.csv");
    std::fs::write(&rejects, "of an earlier run").unwrap();
    redis
        .seckill(["deduct", "--keep-going", "--from", orders.path(), "--rejects"])
        .args([&rejects])
        .code(2)
        .stderr_has("2 problems")
        .stderr_has("rejects.csv` and apply that file alone");
    let text = std::fs::read_to_string(&rejects).unwrap();
    assert_eq!(text, "activity,user,quantity,note\r\n1001,8,x,\"two\r\nlines\"\r\n1001,,1,a\n");
    std::fs::write(&rejects, text.replace(",x,", ",2,").replace("1001,,", "1001,9,")).unwrap();
    redis.seckill(["deduct", "--from"]).args([&rejects]).code(0);
    assert_eq!((held(&redis, "1001"), redis.int("seckill:stock:1001")), (4, 6));
    seckill(["deduct", "--from", orders.path(), "--rejects", "x"]).code(2).stderr_has("--keep-going");
}

#[test]
fn a_file_without_invalid_lines_leaves_rejects_with_the_header_alone() {
    let redis = TestRedis::selling("1001", 10);
    let orders = Orders::new("activity,user\n1001,7\n");
    let rejects = orders.dir.path().join("rejects.csv");
    std::fs::write(&rejects, "of an earlier run").unwrap();
    let call = || redis.seckill(["deduct", "--keep-going", "--from", orders.path(), "--rejects"]).args([&rejects]);
    call().code(0);
    assert_eq!(std::fs::read_to_string(&rejects).unwrap(), "activity,user\n");
    redis.seckill(["deduct", "--from"]).args([&rejects]).code(0);
}

#[test]
fn rejects_never_overwrite_what_is_read() {
    let redis = TestRedis::selling("1001", 10);
    let before = redis.dump_all();
    let orders = Orders::new(FILE);
    let (hard, soft) = (orders.dir.path().join("hard.csv"), orders.dir.path().join("soft.csv"));
    std::fs::hard_link(orders.path(), &hard).unwrap();
    std::os::unix::fs::symlink(orders.path(), &soft).unwrap();
    let call = |from: &str| redis.seckill(["deduct", "--keep-going", "-o", "jsonl", "--from", from, "--rejects"]);
    for target in [orders.path.as_path(), &hard, &soft] {
        call(orders.path()).args([target]).code(2).stdout_is("").stderr_has("is the same file as `");
        let behind = File::open(orders.path()).unwrap();
        call("-").args([target]).stdin_file(behind).code(2).stdout_is("").stderr_has("`standard input`, which is read");
    }
    call(orders.path()).args(["-"]).code(2).stdout_is("").stderr_has("`--rejects -`: standard output has the results");
    // Not even if nothing would be written.
    call(orders.path()).args([&hard]).args(["--dry-run"]).code(2).stderr_has("is the same file as");
    assert_eq!(std::fs::read_to_string(orders.path()).unwrap(), FILE);
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_run_that_is_stopped_leaves_no_half_file_and_permissions_stay() {
    let redis = TestRedis::selling("1001", 10_000);
    let rows: String =
        (0..500).map(|user| format!("1001,u{user},{}\n", if user % 2 == 0 { "1" } else { "x" })).collect();
    let text = format!("activity,user,quantity\n{rows}");
    let orders = Orders::new("");
    let rejects = orders.dir.path().join("rejects.csv");
    std::fs::write(&rejects, "before").unwrap();
    std::fs::set_permissions(&rejects, std::fs::Permissions::from_mode(0o600)).unwrap();
    let call = || {
        let call = redis.seckill(["deduct", "--keep-going", "--job", "j", "-o", "jsonl", "--from", "-", "--rejects"]);
        call.args([&rejects]).stdin(&text)
    };
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let run = call().args(["--rate", "20"]).spawn();
        run.wait_for_stdout("\"line\":");
        run.signal(signal);
        run.wait();
        assert_eq!(std::fs::read_to_string(&rejects).unwrap(), "before");
        assert_eq!(std::fs::read_dir(orders.dir.path()).unwrap().count(), 2, "orders and rejects, nothing else");
    }
    call().code(2);
    assert_eq!(std::fs::read_to_string(&rejects).unwrap().lines().count(), 251);
    assert_eq!(std::fs::metadata(&rejects).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(held(&redis, "1001"), 250);
}
