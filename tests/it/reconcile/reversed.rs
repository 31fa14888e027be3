//! A repair that takes units from a user ends the request ids behind them: sent again, they never sell.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Call, TestRedis, rfc3339};

const NOW: &str = "--as-of=0s";
/// An activity of 10 units, and a file of its order records.
struct Sale {
    redis: TestRedis,
    dir: TempDir,
}

impl Sale {
    fn new(has_ledger: bool) -> Self {
        let redis = TestRedis::start();
        let fixture = format!("activities: [{{id: 1001, stock: 10, ledger: {has_ledger}}}]");
        redis.seckill(["preheat", "-"]).stdin(&fixture).code(0);
        Self { redis, dir: TempDir::new().unwrap() }
    }

    fn call(&self, command: &str) -> Call {
        self.redis.seckill([]).args(command.split(' '))
    }

    /// How an order ended, as `code status`.
    fn deduct(&self, user: &str, quantity: &str, request: &str) -> String {
        let line = format!("deduct 1001 --user {user} --quantity {quantity} --request {request} -o json");
        let done = self.call(&line).run();
        format!("{} {}", done.status.code().unwrap(), done.json()["status"].as_str().unwrap())
    }

    /// `reconcile` against order records.
    fn reconcile(&self, records: &str, options: &[&str]) -> Call {
        self.call("reconcile 1001").args([NOW, "--orders", &self.file("orders.csv", records)]).args(options)
    }

    fn fix(&self, records: &str) {
        self.reconcile(records, &["--fix", "--yes"]).code(0);
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn the_message_of_a_reversed_order_says_what_to_do() {
    let sale = Sale::new(true);
    sale.deduct("ann", "3", "order-1");
    sale.fix("user,quantity\nbob,0\n");
    let again = sale.call("deduct 1001 --user ann --quantity 3 --request order-1").code(3);
    again.stdout_has("reversed").stderr_has("a repair took it back; order anew with a new id");
    // By whom, and when.
    let found = sale.call("inspect --request order-1 -o json").code(0).json();
    assert_eq!((&found[0]["status"], &found[0]["op"]), (&json!("reversed"), &json!("repair")));
    assert_eq!((&found[0]["user"], &found[0]["quantity"]), (&json!("ann"), &json!(3)));
    let entry = sale.redis.xrange("seckill:ledger:1001").pop().unwrap();
    assert_eq!(found[0]["id"], entry.0);
    assert_eq!(found[0]["by"], "tester@test");
    assert_eq!(entry.1["reversed"], "order-1");
}

#[test]
fn rows_of_a_file_with_ids_are_reversed_and_those_without_stay_replayed() {
    for has_ledger in [true, false] {
        let sale = Sale::new(has_ledger);
        let file = sale.file("file.csv", "activity,user,request\n1001,ann,order-1\n1001,bob,\n1001,cid,order-3\n");
        let run = |options: &[&str]| sale.call("deduct -o jsonl --from").args([&file]).args(options).run().jsonl();
        let statuses =
            |rows: Vec<Value>| rows.iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(statuses(run(&[])), ["ok", "ok", "ok"]);
        sale.fix("user,quantity\ncid,1\n");
        for options in [&[][..], &["--job", "other"]] {
            let wanted = if options.is_empty() { "replayed" } else { "ok" };
            assert_eq!(statuses(run(options)), ["reversed", wanted, "replayed"], "{options:?}");
        }
        let summary = sale.call("deduct -o json --from").args([&file]).code(3).json();
        let count = |row: &Value| (row["status"].clone(), row["orders"].clone());
        let counts: Vec<_> = summary.as_array().unwrap().iter().map(count).collect();
        assert_eq!(counts, [(json!("replayed"), json!(2)), (json!("reversed"), json!(1))]);
    }
}

#[test]
fn a_part_of_a_users_units_is_not_taken_without_request_ids() {
    for has_ledger in [true, false] {
        let sale = Sale::new(has_ledger);
        assert_eq!(sale.deduct("ann", "3", "order-1"), "0 ok");
        assert_eq!(sale.deduct("ann", "2", "order-2"), "0 ok");
        let before = sale.redis.dump_all();
        // Without the column, with a row that has none, and with rows that say less than the ids.
        for records in [
            "user,quantity\nann,3\n",
            "user,quantity,request\nann,2,order-1\nann,1,\n",
            "user,quantity,request\nann,2,order-1\nann,2,order-2\n",
        ] {
            let fix = sale.reconcile(records, &["--fix", "--yes"]).code(7);
            fix.stderr_has("not repaired").stderr_has("request ids").stderr_has("nothing is repaired");
            sale.redis.assert_unchanged_since(&before);
        }
    }
}

#[test]
fn a_purchase_newer_than_the_records_is_not_reversed() {
    let sale = Sale::new(true);
    assert_eq!(sale.deduct("ann", "3", "order-1"), "0 ok");
    let as_of = format!("--as-of={}", rfc3339(sale.redis.next_millisecond() - 1));
    assert_eq!(sale.deduct("dan", "1", "order-0"), "0 ok");
    assert_eq!(sale.deduct("ann", "2", "order-2"), "0 ok");
    let orders = sale.file("orders.csv", "user,quantity\nbob,0\n");
    sale.call("reconcile 1001 --fix --yes --orders").args([&orders, &as_of]).code(0);
    assert_eq!(sale.deduct("ann", "3", "order-1"), "3 reversed");
    assert_eq!(sale.deduct("ann", "2", "order-2"), "0 replayed");
    assert_eq!(sale.deduct("dan", "1", "order-0"), "0 replayed");
}

#[test]
fn a_plan_carries_the_ids_and_one_without_them_is_refused() {
    let sale = Sale::new(true);
    assert_eq!(sale.deduct("ann", "3", "order-1"), "0 ok");
    let plan = sale.dir.path().join("plan");
    let plan = plan.to_str().unwrap();
    sale.reconcile("user,quantity\nbob,0\n", &["--plan", plan]).code(7);
    let text = fs::read_to_string(plan).unwrap();
    assert!(text.contains(r#""reversed":["order-1"]"#), "{text}");
    let old = sale.file("old", &text.replace(r#","reversed":["order-1"]"#, ""));
    let before = sale.redis.dump_all();
    let refused = sale.redis.seckill(["repair", &old, "--yes"]).code(2);
    refused.stderr_has("reversed is missing").stderr_has("write the plan again");
    sale.redis.assert_unchanged_since(&before);
    sale.redis.seckill(["repair", plan, "--yes"]).code(0);
    assert_eq!(sale.deduct("ann", "3", "order-1"), "3 reversed");
    sale.redis.seckill(["repair", plan, "--yes"]).code(0).stdout_has("replayed");
}
