//! What is said of every line, and how a run ends.

use super::{Orders, held, preheat, statuses, summary};
use crate::support::TestRedis;

#[test]
fn rows_come_in_the_order_of_the_file_however_activities_mix() {
    let redis = TestRedis::start();
    let mut text = "activity,user,quantity\n".to_owned();
    for activity in 0..50 {
        preheat(&redis, &format!("a{activity}"), 1_000, Some(1));
    }
    let mut expected = Vec::new();
    for line in 0..3_000_usize {
        // Users come twice, and the limit is 1.
        text += &format!("a{},u{},1\n", line * 7 % 50, line % 1_500);
        expected.push(format!("{} {}", line + 2, if line < 1_500 { "ok" } else { "limit_exceeded" }));
    }
    let orders = Orders::new(&text);
    let outcome = redis.seckill(["deduct", "-o", "jsonl", "--from", orders.path()]).code(3);
    assert_eq!(statuses(&outcome), expected);
}

#[test]
fn a_row_tells_stock_and_units_after_it() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 5, None);
    let orders = Orders::new("activity,user,quantity,request\n1001,7,2,r-1\n1001,7,4,\n1001,7,1,\n");
    redis.seckill(["deduct", "-o", "csv", "--job", "j", "--from", orders.path()]).code(3).stdout_is(
        "line,activity,user,quantity,status,stock,bought,request\n\
         2,1001,7,2,ok,3,2,r-1\n3,1001,7,4,out_of_stock,3,2,j:3\n4,1001,7,1,ok,2,3,j:4\n",
    );
    let outcome = redis.seckill(["deduct", "-o", "csv", "--job", "j", "--from", orders.path()]).code(3);
    assert_eq!(
        outcome.stdout.lines().skip(1).collect::<Vec<_>>(),
        ["2,1001,7,2,replayed,2,3,r-1", "3,1001,7,4,replayed,2,3,j:3", "4,1001,7,1,replayed,2,3,j:4"]
    );
    let outcome = redis.seckill(["refund", "-o", "csv", "--job", "j", "--from", orders.path()]).code(3);
    assert_eq!(
        outcome.stdout.lines().skip(1).collect::<Vec<_>>(),
        ["2,1001,7,2,request_conflict,2,3,r-1", "3,1001,7,4,exceeds_bought,2,3,j:3", "4,1001,7,1,ok,3,2,j:4"]
    );
}

#[test]
fn a_job_of_that_name_is_another_file() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let (one, other) = (Orders::of_users("1001", 2), Orders::of_users("1001", 3));
    redis.seckill(["deduct", "--job", "j", "--from", one.path()]).code(0);
    let before = redis.dump_all();
    redis
        .seckill(["deduct", "--job", "j", "-o", "csv", "--from", other.path()])
        .code(2)
        .stdout_is("")
        .stderr_has("the job `j` was another input for activity `1001`");
    redis.assert_unchanged_since(&before);
    redis.seckill(["refund", "--job", "j", "--from", one.path()]).code(0); // a refund is another job
    assert_eq!(held(&redis, "1001"), 0);
}

#[test]
fn an_activity_that_refuses_as_a_whole_is_asked_once_and_decided_later() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 1_000, None);
    let rows: String =
        (0..300).map(|user| format!("{},u{user},1\n", if user % 3 == 0 { "404" } else { "1001" })).collect();
    let orders = Orders::new(&format!("activity,user,quantity\n{rows}"));
    let call = || redis.seckill(["deduct", "-o", "json", "--from", orders.path()]);
    assert_eq!(summary(&call().code(3)), ["404 not_preheated 100", "1001 ok 200"]);
    preheat(&redis, "404", 1_000, None);
    assert_eq!(summary(&call().code(0)), ["404 ok 100", "1001 replayed 200"]);
    assert_eq!((held(&redis, "404"), held(&redis, "1001")), (100, 200));
}

#[test]
fn a_corrupt_activity_is_named_once() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    redis.cmd(("SET", "seckill:stock:1001", "1e3"));
    let orders = Orders::of_users("1001", 200);
    let outcome = redis.seckill(["deduct", "-o", "json", "--from", orders.path()]).code(3);
    assert_eq!(summary(&outcome), ["1001 corrupt 200"]);
    assert_eq!(outcome.stderr.matches("seckill:stock:1001").count(), 1, "{}", outcome.stderr);
}

#[test]
fn the_rate_is_kept() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10_000, None);
    let orders = Orders::of_users("1001", 1_000);
    let start = std::time::Instant::now();
    redis.seckill(["deduct", "--rate", "2000", "--from", orders.path()]).code(0);
    // Only what no machine can break: the last call is due a hundredth of a second before the end.
    // How exactly a rate is met from below is measured by `make bench`.
    let took = start.elapsed().as_secs_f64();
    assert!(took >= 0.485, "1000 orders at 2000 a second took {took} s");
}

#[test]
fn reasons_stand_in_the_ledger() {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 10, None);
    let orders = Orders::new("activity,user,reason\n1001,7,gift \"x\"\n1001,8,\n");
    redis.seckill(["deduct", "--reason", "campaign", "--from", orders.path()]).code(0);
    let (_, entry) = redis.xrange("seckill:ledger:1001").pop().unwrap();
    assert_eq!(entry["reason"], "campaign");
    let orders = crate::support::ledger::orders(&entry);
    assert_eq!(orders, [["7", "1", "", "gift \"x\""], ["8", "1", "", ""]]);
}
