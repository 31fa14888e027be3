//! Which activities are audited, and what happens if there are none.

use serde_json::Value;

use super::sale;
use crate::support::TestRedis;

/// The audited activities, as `activity verdict`.
fn verdicts(document: &Value) -> Vec<String> {
    let rows = document["activities"].as_array().unwrap().iter();
    rows.map(|row| format!("{} {}", row["activity"].as_str().unwrap(), row["verdict"].as_str().unwrap())).collect()
}

#[test]
fn all_preheated_activities_and_all_that_records_name_are_audited() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    redis.seckill(["preheat", "--id", "1003", "--stock", "5"]).code(0);
    redis.seckill(["deduct", "1003", "--user", "a"]).code(0);
    redis.cmd(("SET", "seckill:stock:foreign", 1));
    let csv = "activity,user,quantity\n1002,z,1\n1001,a,1\n1001,b,2\nforeign,c,1\ngone,d,1\n";
    let audit = redis.seckill(["reconcile", "--orders", "-", "-o", "json"]).stdin(csv).code(7).json();
    assert_eq!(verdicts(&audit), ["1001 match", "1002 drift", "1003 drift", "foreign drift", "gone not_preheated"]);
    redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(csv).code(0).stderr_has("3 order records are of other");
    redis.seckill(["reconcile", "1001", "1001", "--orders", "-"]).stdin("user,quantity\na,1\nb,2\n").code(0);
}

#[test]
fn an_activity_that_no_row_mentions_is_never_a_match() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    let audit = redis.seckill(["reconcile", "--orders", "-", "-o", "json"]).stdin("activity,user\n1002,z\n");
    let found = audit.code(7).json();
    assert_eq!(verdicts(&found), ["1001 drift", "1002 drift"]);
}

#[test]
fn nothing_to_audit_is_exit_3_and_names_the_layouts_that_have_activities() {
    let redis = TestRedis::start();
    redis
        .seckill(["reconcile"])
        .code(3)
        .stdout_is("")
        .stderr_has("nothing to audit: the index `seckill:activities` of layout `seckill` is empty")
        .stderr_has("`seckill inspect --scan`");
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "cluster"]).code(0);
    let call = redis.seckill(["reconcile", "-o", "json"]).code(3).stdout_is("");
    assert_eq!(
        call.error_json()["hint"],
        "`--layout sku` has 2, `--layout cluster` has 1; `seckill inspect --scan` searches for activities that the \
         index does not name"
    );
    redis.seckill(["reconcile", "-l", "sku"]).code(0);
}

#[test]
fn a_lost_index_is_an_error_and_never_hides_an_activity() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    redis.seckill(["deduct", "1002", "--user", "a"]).code(0);
    redis.cmd(("DEL", "seckill:activities"));
    redis.seckill(["reconcile"]).code(3).stdout_is("").stderr_has("`seckill inspect --scan`");
    let csv = "activity,user,quantity\n1001,a,1\n1001,b,2\n";
    redis
        .seckill(["reconcile", "--orders", "-"])
        .stdin(csv)
        .code(3)
        .stdout_is("")
        .stderr_has("`1001` was preheated, but the index `seckill:activities` does not name it")
        .stderr_has("`seckill inspect --scan` finds all activities");
    redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(csv).code(0);
}

#[test]
fn an_activity_of_another_layout_is_named_with_it() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5", "-l", "sku"]).code(0);
    redis.seckill(["reconcile", "1"]).code(3).stderr_has("`1` exists in the layout `sku`: add `--layout sku`");
}
