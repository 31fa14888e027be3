//! What an audit prints: a row of each activity, or of each difference, in every format.

use serde_json::json;

use super::sale;
use crate::support::TestRedis;

const ROW: &str = "activity,verdict,proof,total,stock,bought,expected_stock,stock_drift,differences,in_transit\n";
const DIFFERENCE: &str = "activity,user,class,redis,ledger,orders,count,user_hex\n";

#[test]
fn flat_formats_have_a_row_of_each_activity_also_of_those_that_match() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "7", "--stock", "5"]).code(0);
    redis
        .seckill(["reconcile", "-o", "csv"])
        .code(0)
        .stdout_is(&format!("{ROW}7,match,ledger,5,5,0,5,0,0,\n1001,match,ledger,50,47,3,47,0,0,\n"));
    redis.seckill(["reconcile", "--differences", "-o", "csv"]).code(0).stdout_is(DIFFERENCE);
    redis.seckill(["reconcile", "--differences", "-o", "jsonl"]).code(0).stdout_is("");
    redis.cmd(("HINCRBY", "seckill:participants:1001", "a", 1));
    redis.seckill(["reconcile", "1001", "gone", "-o", "tsv"]).code(7).stdout_is(
        &format!("{ROW}1001,drift,ledger,50,47,4,46,1,2,\ngone,not_preheated,none,,,,,,0,\n").replace(',', "\t"),
    );
    redis.seckill(["reconcile", "1001", "-o", "jsonl"]).code(7).stdout_is(
        "{\"activity\":\"1001\",\"verdict\":\"drift\",\"proof\":\"ledger\",\"total\":50,\"stock\":47,\"bought\":4,\
         \"expected_stock\":46,\"stock_drift\":1,\"differences\":2}\n",
    );
}

#[test]
fn with_differences_flat_formats_have_a_row_of_each() {
    let redis = sale("seckill");
    redis.cmd(("HINCRBY", "seckill:participants:1001", "a", 1));
    redis
        .seckill(["reconcile", "--differences", "-o", "csv"])
        .code(7)
        .stdout_is(&format!("{DIFFERENCE}1001,,conservation,47,47,,,\n1001,a,counter_drift,2,1,,,\n"));
    redis.seckill(["reconcile", "--differences", "-o", "jsonl"]).code(7).stdout_has(
        "{\"activity\":\"1001\",\"user\":\"a\",\"class\":\"counter_drift\",\"redis\":2,\"ledger\":1,\"orders\":null,\
         \"count\":null}\n",
    );
}

#[test]
fn json_and_yaml_have_everything_and_repairs_after_a_fix() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", "seckill:stock:1001", 2));
    for format in ["json", "yaml"] {
        // JSON is YAML too.
        let text = redis.seckill(["reconcile", "-o", format]).code(7).stdout;
        let audit: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let activity = json!({
            "activity": "1001", "verdict": "drift", "proof": "ledger", "total": 50, "stock": 45, "bought": 3,
            "expected_stock": 47, "stock_drift": -2, "differences": 1
        });
        let difference = json!({
            "activity": "1001", "user": null, "class": "conservation", "redis": 45, "ledger": 47, "orders": null,
            "count": null
        });
        let expected = json!({"verdict": "drift", "activities": [activity], "differences": [difference]});
        assert_eq!(audit, expected, "{format}");
    }
    let fixed = redis.seckill(["reconcile", "--fix", "--yes", "-o", "json"]).code(0).json();
    let repair = &fixed["repairs"][0];
    let fields: Vec<&String> = repair.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["activity", "class", "from", "id", "status", "stock_change", "to", "user"]);
    assert_eq!((&repair["status"], &repair["stock_change"]), (&json!("ok"), &json!(2)));
}

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
fn people_see_a_summary_and_what_differs() {
    let redis = sale("seckill");
    redis.seckill(["reconcile"]).code(0).stdout_is(
        "ACTIVITY  VERDICT  PROOF   TOTAL  STOCK  BOUGHT  EXPECTED  DRIFT  DIFFERENCES\n\
         ─────────────────────────────────────────────────────────────────────────────\n\
         1001      match    ledger     50     47       3        47      0            0\n",
    );
    redis.cmd(("HINCRBY", "seckill:participants:1001", "a", 1));
    redis.seckill(["reconcile", "-q"]).code(7).stderr("").stdout_is(
        "ACTIVITY  VERDICT  PROOF   TOTAL  STOCK  BOUGHT  EXPECTED  DRIFT  DIFFERENCES\n\
         ─────────────────────────────────────────────────────────────────────────────\n\
         1001      drift    ledger     50     47       4        46     +1            2\n\
         \n\
         what differs\n\
         ACTIVITY  CLASS          DIFFERENCES  IT MEANS\n\
         ─────────────────────────────────────────────────────────────────────────\n\
         1001      conservation             1  stock + holdings ≠ total\n\
         1001      counter_drift            1  a user's units are not the ledger's\n\
         \n\
         ACTIVITY  USER  CLASS          REDIS  LEDGER  ORDERS\n\
         ────────────────────────────────────────────────────\n\
         1001      -     conservation      47      47       -\n\
         1001      a     counter_drift      2       1       -\n",
    );
}

#[test]
fn people_see_the_first_differences_and_how_many_more_there_are() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "50"]).code(0);
    for user in 0..30 {
        redis.cmd(("HSET", "seckill:participants:1001", format!("u{user}"), 1));
    }
    redis.seckill(["reconcile"]).code(7).stdout_lacks("u9 ").stderr_has("11 more differences; `--differences` shows");
    redis.seckill(["reconcile", "--differences"]).code(7).stdout_has("u9 ").stderr_lacks("more differences");
}

#[test]
fn warnings_are_bounded() {
    let redis = sale("seckill");
    for _ in 0..40 {
        let _: String = redis.ask(("XADD", "seckill:ledger:1001", "*", "op", "nonsense"));
    }
    let audit = redis.seckill(["reconcile"]).code(7).stderr_has("30 more such warnings are not shown");
    assert!(audit.stderr.lines().count() < 20, "{}", audit.stderr);
}

#[test]
fn one_corrupt_activity_does_not_hide_the_others() {
    let redis = TestRedis::start();
    let ids: Vec<String> = (1..=40).map(|id| id.to_string()).collect();
    for id in &ids {
        redis.seckill(["preheat", "--stock", "5", "--id"]).args([id]).code(0);
    }
    redis.cmd(("SET", "seckill:stock:7", "abc"));
    for (id, key) in [("3", "meta"), ("9", "ledger"), ("11", "participants"), ("13", "requests")] {
        let key = format!("seckill:{key}:{id}");
        redis.cmd(("DEL", &key));
        redis.cmd(("SET", &key, "x"));
    }
    redis.set_rule("seckill:meta:15", "total", "1e3");
    let audit = redis.seckill(["reconcile", "-o", "json"]).code(7).json();
    let of = |verdict: &str| -> Vec<&str> {
        let rows = audit["activities"].as_array().unwrap().iter();
        rows.filter(|row| row["verdict"] == verdict).map(|row| row["activity"].as_str().unwrap()).collect()
    };
    assert_eq!(of("drift"), ["3", "7", "9", "11", "13", "15"]);
    assert_eq!(of("match").len(), 34);
}
