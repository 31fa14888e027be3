//! What an audit prints: users that are not UTF-8, and how much is shown.

use serde_json::json;

use super::sale;
use crate::support::TestRedis;

const DIFFERENCE: &str = "activity,user,class,redis,ledger,orders,count,user_hex\n";

#[test]
fn a_user_that_is_not_utf8_has_its_bytes_beside_a_null() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1001", 7));
    for user in [&b"b"[..], b"\xc4\xe3"] {
        redis.cmd(("HSET", "seckill:participants:1001", user, 2));
    }
    let audit = |more: [&str; 2]| {
        let call = redis.seckill(["reconcile", "1001", "--differences", "--orders", "-"]).args(more);
        call.stdin("user,quantity\na,1\n").code(7)
    };
    let found = audit(["-o", "json"]).json();
    let differences = found["differences"].as_array().unwrap();
    assert_eq!((&differences[0]["user"], differences[0].get("user_hex")), (&json!("b"), None));
    assert_eq!((&differences[1]["user"], &differences[1]["user_hex"]), (&json!(null), &json!("c4e3")));
    audit(["-o", "csv"]).stdout_is(&format!(
        "{DIFFERENCE}1001,b,missing_order,2,,0,,\n1001,,missing_order,2,,0,,c4e3\n1001,a,missing_purchase,0,,1,,\n"
    ));
    audit(["-o", "table"]).stdout_has("hex:c4e3");
}

#[test]
fn people_see_the_first_differences_and_how_many_more_there_are() {
    let redis = TestRedis::selling("1001", 50);
    for user in 0..30 {
        redis.cmd(("HSET", "seckill:participants:1001", format!("u{user}"), 1));
    }
    redis.seckill(["reconcile"]).code(7).stdout_lacks("u9 ").stderr_has("11 more differences; `--differences` shows");
    redis.seckill(["reconcile", "--differences"]).code(7).stdout_has("u9 ").stderr_lacks("more differences");
}

#[test]
fn warnings_are_bounded() {
    let redis = sale();
    for _ in 0..40 {
        let _: String = redis.ask(("XADD", "seckill:ledger:1001", "*", "op", "nonsense"));
    }
    let audit = redis.seckill(["reconcile"]).code(7).stderr_has("30 more such warnings are not shown");
    assert!(audit.stderr.lines().count() < 20, "{}", audit.stderr);
}
