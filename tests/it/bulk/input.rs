//! What is read, and what is refused before anything is applied.

use super::{Orders, preheat, statuses};
use crate::support::{TestRedis, seckill};

#[test]
fn columns_can_be_mapped_and_the_form_be_said() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let orders = Orders::named("export.txt", "sku\tbuyer\tn\n1001\t7\t2\n");
    let call =
        || redis.seckill(["deduct", "--format", "tsv", "--map", "user=buyer,activity=sku", "--map", "quantity=n"]);
    call()
        .args(["-o", "csv", "--job", "j", "--from", orders.path()])
        .code(0)
        .stdout_is("line,activity,user,quantity,status,stock,bought,request\n2,1001,7,2,ok,8,2,j:2\n");
    call().args(["--map", "user=x", "--from", orders.path()]).code(2).stderr_has("`user` is mapped twice");
    redis
        .seckill(["deduct", "--map", "ledger=x", "--from", orders.path()])
        .code(2)
        .stderr_has("no column `ledger` is read here");
    redis
        .seckill(["deduct", "--from", orders.path()])
        .code(2)
        .stderr_has("no columns `activity`, `user`: the header has `sku`, `buyer`, `n`")
        .stderr_has("--map activity=sku,user=buyer`");
}

#[test]
fn nothing_is_applied_from_a_file_with_a_bad_line() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let before = redis.dump_all();
    let bad: String = (0..15).map(|user| format!("1001,{user},-5\n")).collect();
    let orders = Orders::new(&format!("activity,user,quantity\n1001,7,1\n{bad}"));
    let outcome = redis.seckill(["deduct", "--from", orders.path()]).code(2);
    assert!(outcome.stderr.contains("15 problems in `"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("orders.csv:3:8: quantity: `-5` is not a whole number"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("and 5 more"), "{}", outcome.stderr);
    redis.assert_unchanged_since(&before);
}

#[test]
fn standard_input_is_applied_up_to_its_first_bad_line_and_resumes() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let call = || redis.seckill(["deduct", "-o", "jsonl", "--from", "-", "--job", "night"]);
    let outcome = call().stdin("activity,user\n1001,1\n1001,2\nx y,3\n1001,4\n").code(2);
    assert_eq!(statuses(&outcome), ["2 ok", "3 ok"]);
    outcome.stderr_has("4:1: activity: `x y` is not an activity id").stderr_has("--job night");
    let outcome = call().stdin("activity,user\n1001,1\n1001,2\n1001,3\n1001,4\n").code(0);
    assert_eq!(statuses(&outcome), ["2 replayed", "3 replayed", "4 ok", "5 ok"]);
    assert_eq!(redis.int("seckill:stock:1001"), 6);
}

#[test]
fn what_arrives_slowly_is_applied_as_it_comes() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let orders = Orders::new("");
    let fifo = orders.dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let call = redis.seckill(["deduct", "-o", "jsonl", "--from"]).args([&fifo]).spawn();
    let mut pipe = std::fs::File::create(&fifo).unwrap();
    for (user, line) in [("1", 2), ("2", 3)] {
        use std::io::Write;
        let header = if line == 2 { "activity,user\n" } else { "" };
        writeln!(pipe, "{header}1001,{user}").unwrap();
        call.wait_for_stdout(&format!("\"line\":{line}"));
    }
    drop(pipe);
    call.wait().code(0).stderr_has("this input is applied as the job `");
    assert_eq!(redis.int("seckill:stock:1001"), 8);
}

#[test]
fn a_dry_run_tells_totals_and_changes_nothing() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let before = redis.dump_all();
    let orders = Orders::new("activity,user,quantity\n1001,7,2\n1002,7,1\n1001,8,3\n");
    redis
        .seckill(["deduct", "--dry-run", "-o", "csv", "--from", orders.path()])
        .code(0)
        .stdout_is("activity,orders,units,dry_run\n1001,2,5,true\n1002,1,1,true\n")
        .stderr_has("nothing was changed");
    redis.assert_unchanged_since(&before);
}

#[test]
fn flags_of_one_order_and_of_a_file_do_not_mix() {
    for flags in [&["1001", "--from", "f"][..], &["--from", "f", "--user", "7"], &["--from", "f", "--request", "r"]] {
        seckill(["deduct"]).args(flags).code(2).stderr_has("cannot be used with");
        seckill(["refund"]).args(flags).code(2).stderr_has("cannot be used with");
    }
    seckill(["deduct", "1001", "--user", "7", "--rate", "5"]).code(2).stderr_has("--from");
    seckill(["deduct", "--from", "/no/such/file.csv"]).code(2).stderr_has("no such file");
    seckill(["deduct"]).code(2).stderr_has("ACTIVITY");
}

#[test]
fn a_counter_needs_no_users() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "-l", "product", "--id", "9", "--stock", "5"]).code(0);
    let orders = Orders::new("activity,quantity\n9,3\n9,3\n");
    let outcome = redis.seckill(["deduct", "-l", "product", "-o", "jsonl", "--from", orders.path()]).code(3);
    assert_eq!(statuses(&outcome), ["2 ok", "3 out_of_stock"]);
    assert_eq!(redis.int("product_stock_9"), 2);
}

#[test]
fn set_layouts_record_a_user_once() {
    for (layout, stock) in [("sku", "stock:5"), ("coupon", "coupon:stock:5")] {
        let redis = TestRedis::start();
        redis.seckill(["preheat", "-l", layout, "--id", "5", "--stock", "10"]).code(0);
        let orders = Orders::new("activity,user,quantity\n5,a,1\n5,a,1\n5,b,2\n5,c,1\n");
        let outcome = redis.seckill(["deduct", "-l", layout, "-o", "jsonl", "--from", orders.path()]).code(3);
        let two = if layout == "sku" { "4 ok" } else { "4 limit_exceeded" };
        assert_eq!(statuses(&outcome), ["2 ok", "3 limit_exceeded", two, "5 ok"]);
        redis.seckill(["refund", "-l", layout, "--from", orders.path()]).code(3);
        assert_eq!(redis.int(stock), 10, "{layout}");
    }
}
