//! `--fix`, `--plan` and `--emit` as an operator meets them: questions, pipes, files, and what is left out.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::sale;
use crate::support::{Fault, Proxy, TestRedis, When};

const PARTICIPANTS: &str = "seckill:participants:1001";
const STOCK: &str = "seckill:stock:1001";
const LATER: &str = "--as-of=2100-01-01T00:00:00Z";

fn file(dir: &TempDir, text: &str) -> String {
    let path = dir.path().join("orders.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_reader_that_closes_the_pipe_changes_neither_repairs_nor_exit_code() {
    for format in ["table", "json", "jsonl", "csv", "tsv", "yaml"] {
        for bytes in [0, 20] {
            let redis = sale("seckill");
            redis.cmd(("DECRBY", STOCK, 5));
            let fix = || redis.seckill(["reconcile", "--fix", "--yes", "-o", format]).stdout_closed_after(bytes);
            fix().code(0).stderr_has("1 of 1 repair applied").stderr_lacks("panic");
            assert_eq!(redis.int(STOCK), 47, "{format}");
            redis.cmd(("HSET", PARTICIPANTS, "x", "1e3"));
            fix().code(7);
        }
    }
}

#[test]
fn what_cannot_be_printed_is_said_on_stderr() {
    for format in ["table", "json", "jsonl", "csv", "tsv", "yaml"] {
        let redis = sale("seckill");
        redis.cmd(("DECRBY", STOCK, 5));
        let fix = redis.seckill(["reconcile", "--fix", "--yes", "-o", format]).stdout_full().code(1);
        fix.stderr_has("repair:").stderr_has("conservation");
        assert_eq!(redis.int(STOCK), 47, "{format}");
    }
}

#[test]
fn a_question_shows_the_plan_and_a_declined_one_changes_nothing() {
    for format in ["table", "json", "csv"] {
        let redis = sale("seckill");
        redis.cmd(("DECRBY", STOCK, 5));
        let before = redis.dump_all();
        let fix = |answer| redis.seckill(["reconcile", "--fix", "-o", format]).at_terminal(answer);
        let plan = "1001      -     conservation  -         +5  planned";
        fix("n\n").code(1).stdout_has(plan).stdout_has("Apply 1 repair (5 units back to stock, 0 out of stock)? [y/N]");
        redis.assert_unchanged_since(&before);
        fix("y\n").code(0).stdout_has(plan);
        assert_eq!(redis.int(STOCK), 47);
        // Nothing differs now, so nobody is asked.
        fix("").code(0).stdout_lacks("[y/N]");
    }
}

#[test]
fn repairs_before_one_that_the_server_refuses_are_reported() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    redis.cmd(("DECRBY", STOCK, 5));
    redis.cmd(("DECR", "seckill:stock:1002"));
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    network.seckill(["reconcile"]).code(7);
    let audit = network.commands().len();
    // A look and a repair of each activity.
    network.inject(When::Nth(audit + 4), Fault::Refuse("NOPERM this user has no permissions to run the command"));
    let fixed = network.seckill(["reconcile", "--fix", "--yes", "-o", "json"]).code(4);
    assert_eq!(fixed.json()["repairs"].as_array().unwrap().len(), 1, "{}", fixed.stdout);
    assert_eq!((redis.int(STOCK), redis.int("seckill:stock:1002")), (47, 4));
}

#[test]
fn a_plan_is_never_one_of_the_inputs() {
    let redis = sale("seckill");
    let dir = TempDir::new().unwrap();
    let orders = file(&dir, "user,quantity\na,1\n");
    let hard = dir.path().join("hard");
    fs::hard_link(&orders, &hard).unwrap();
    let plan = |plan: &Path| redis.seckill(["reconcile", "1001", "--plan"]).args([plan]);
    for target in [Path::new(&orders), &hard] {
        plan(target).args(["--orders", &orders]).code(2).stdout_is("").stderr_has("is the same file as");
        let call = plan(target).args(["--orders", "-"]).stdin_file(fs::File::open(&orders).unwrap());
        call.code(2).stdout_is("").stderr_has("as `standard input`, which is read");
    }
    plan(Path::new("-")).code(2).stdout_is("").stderr_has("`--plan -`");
    let fixture = dir.path().join("sale.yaml");
    fs::write(&fixture, "activities: [{id: 1001, stock: 50}]").unwrap();
    plan(&fixture).args(["-f"]).args([&fixture]).code(2).stdout_is("");
    assert_eq!(fs::read_to_string(&orders).unwrap(), "user,quantity\na,1\n");
    assert_eq!(fs::read_to_string(&fixture).unwrap(), "activities: [{id: 1001, stock: 50}]");
    // An audit that fails leaves the plan of the one before.
    let old = dir.path().join("plan");
    fs::write(&old, "old").unwrap();
    plan(&old).args(["--orders", "/no/such/file"]).code(2);
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    plan(&old).args(["--orders", &orders, LATER]).code(7).stderr_has("1 repairs written; apply them with");
    assert!(fs::read_to_string(&old).unwrap().contains("missing_order"));
}

#[test]
fn the_missing_part_of_a_repeat_buyers_orders_is_emitted() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "50"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "a", "--quantity", "5"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "b"]).code(0);
    let dir = TempDir::new().unwrap();
    let orders = file(&dir, "user,quantity\na,1\na,2\n");
    let before = redis.dump_all();
    let emit = redis.seckill(["reconcile", "1001", "--emit", "missing_order", LATER, "--orders", &orders]);
    let rows = emit.args(["--fix", "--yes"]).code(7).jsonl();
    let mut rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    rows.sort();
    assert_eq!(
        rows,
        [
            "{\"activity\":\"1001\",\"quantity\":1,\"user\":\"b\"}",
            "{\"activity\":\"1001\",\"quantity\":2,\"user\":\"a\"}"
        ]
    );
    redis.assert_unchanged_since(&before);
    // Delivered to the database, they complete it.
    let delivered = "user,quantity\na,1\na,2\na,2\nb,1\n";
    redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin(delivered).code(0);
}

#[test]
fn an_activity_without_records_is_left_out_unless_it_is_named() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "50"]).code(0);
    for user in ["x", "y", "z"] {
        redis.seckill(["deduct", "1002", "--quantity", "2", "--user", user]).code(0);
    }
    let dir = TempDir::new().unwrap();
    let orders = file(&dir, "activity,user,quantity\n1001,a,1\n");
    let reconcile = |more: &[&str]| redis.seckill(["reconcile", LATER, "--orders", &orders]).args(more);
    let found = reconcile(&["-o", "json"]).code(7).stderr("").json();
    assert_eq!(
        found["differences"],
        json!([
            {"activity": "1001", "user": "b", "class": "missing_order", "redis": 2, "ledger": 2, "orders": 0, "count": null},
            {"activity": "1002", "user": null, "class": "missing_order", "redis": 6, "ledger": 6, "orders": 0, "count": 3}
        ])
    );
    assert_eq!(found["activities"][1]["differences"], 1);
    reconcile(&[]).code(7).stdout_has("(3 users)");
    let left_out = "`1002` was left out: it has sales, and the order records have no row of it";
    let emitted = reconcile(&["--emit", "missing_order"]).code(7).stderr_has(left_out);
    emitted.stderr_has("name the activity").stdout_is("{\"activity\":\"1001\",\"user\":\"b\",\"quantity\":2}\n");
    reconcile(&["--emit", "missing_order", "1002"]).code(7).stderr_lacks("left out").stdout_has("\"user\":\"y\"");
    reconcile(&["--fix", "--yes"]).code(7).stderr_has(left_out);
    assert_eq!((redis.int(STOCK), redis.int("seckill:stock:1002")), (49, 44));
    reconcile(&["--fix", "--yes", "1002"]).code(0).stderr_lacks("left out");
    assert_eq!(redis.int("seckill:stock:1002"), 50);
}

#[test]
fn what_cannot_be_proven_is_exit_7_unless_it_is_accepted() {
    let redis = TestRedis::start();
    redis.cmd(("SET", STOCK, 7));
    redis.cmd(("HSET", PARTICIPANTS, "a", 3));
    let audit = redis.seckill(["reconcile", "1001"]).code(7).stdout_has("unproven  none");
    audit.stderr_has("`--orders FILE`").stderr_has("`--accept unproven`");
    let accepted = redis.seckill(["reconcile", "1001", "--accept", "unproven", "-o", "json"]).code(0).stderr("").json();
    assert_eq!((&accepted["verdict"], &accepted["activities"][0]["proof"]), (&json!("unproven"), &json!("none")));
    redis.seckill(["reconcile", "1001", "gone", "--accept", "unproven"]).code(3);
    redis.seckill(["reconcile", "1001", "--accept", "drift"]).code(2);
    redis.seckill(["reconcile", "1001", "--total", "10"]).code(0).stdout_has("match    total");
    redis.seckill(["reconcile", "1001", "--orders", "-"]).stdin("user,quantity\na,3\n").code(0).stdout_has("orders");
    redis.cmd(("HSET", PARTICIPANTS, "a", "x"));
    redis.seckill(["reconcile", "1001", "--accept", "unproven"]).code(7);
    // A bare counter: the total is known and proves nothing, and a fixture may expect just that.
    let fixture = "layout: product\nactivities: [{id: 9, stock: 10, ledger: false}]\nsteps:\n  \
                   - deduct: {activity: 9}\n  - reconcile: 9\n    expect: unproven\n";
    redis.seckill(["run", "-"]).stdin(fixture).code(0).stdout_has("unproven");
    redis.seckill(["reconcile", "-l", "product"]).code(7).stderr_has("`--orders FILE`").stderr_lacks("--total");
}

#[test]
fn repair_shows_the_plan_and_asks() {
    let redis = sale("seckill");
    redis.cmd(("DECRBY", STOCK, 5));
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    redis.seckill(["reconcile", "--plan"]).args([&plan]).code(7);
    let before = redis.dump_all();
    let repair = |format| redis.seckill(["repair", "-o", format]).args([&plan]);
    repair("table").code(2).stdout_is("").stderr_has("stdin is no terminal").stderr_lacks("plan\n");
    let shown = "1001      -     conservation  -         +5  planned";
    repair("json").at_terminal("n\n").code(1).stdout_has(shown).stdout_has("[y/N]");
    redis.assert_unchanged_since(&before);
    let dry = repair("json").args(["--dry-run"]).code(0).json();
    assert_eq!((&dry[0]["status"], &dry[0]["dry_run"]), (&json!("ok"), &json!(true)));
    redis.assert_unchanged_since(&before);
    repair("table").at_terminal("y\n").code(0).stdout_has(shown).stdout_has("conservation  -         +5  ok");
    repair("csv")
        .args(["--yes"])
        .code(0)
        .stdout_has("activity,user,class,from,to,stock_change,status,id,user_hex\n1001,,conservation,")
        .stdout_has(",5,replayed,repair:");
}

#[test]
fn nothing_to_repair_is_said_and_a_plan_of_nothing_is_empty() {
    let redis = sale("seckill");
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.jsonl");
    let fix = redis.seckill(["reconcile", "--fix", "--yes", "--plan"]).args([&plan]).code(0);
    fix.stderr_has("is empty: there is nothing to repair").stderr_has("note: there is nothing to repair\n");
    assert_eq!(fs::read_to_string(&plan).unwrap(), "");
    redis.seckill(["repair"]).args([&plan]).code(0).stdout_is("").stderr_has("holds no repairs");
}

#[test]
fn ctrl_c_stops_between_activities_and_reports_what_was_repaired() {
    let redis = sale("seckill");
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    redis.cmd(("DECRBY", STOCK, 5));
    redis.cmd(("DECR", "seckill:stock:1002"));
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    network.seckill(["reconcile"]).code(7);
    let audit = network.commands().len();
    network.inject(When::Nth(audit + 1), Fault::Hold);
    let fix = network.seckill(["reconcile", "--fix", "--yes", "-o", "json"]).spawn();
    network.wait_until_held();
    fix.signal(libc::SIGINT);
    // Nothing shows when the signal has arrived.
    std::thread::sleep(std::time::Duration::from_millis(100));
    network.release();
    let ended = fix.wait().code(130);
    assert_eq!(ended.json()["repairs"].as_array().unwrap().len(), 1, "{}", ended.stdout);
    assert!(ended.error_line()["error"].as_str().unwrap().contains("interrupted after 1 of 2 repairs"));
    assert_eq!((redis.int(STOCK), redis.int("seckill:stock:1002")), (47, 4));
}

#[test]
fn a_bare_counter_with_records_is_not_left_out() {
    let redis = sale("product");
    let dir = TempDir::new().unwrap();
    // A row that says 0 is a row.
    for (csv, missing) in [("activity,quantity\n1001,0\n", 3), ("activity,quantity\n1001,2\n", 1)] {
        let orders = file(&dir, csv);
        let emit = ["reconcile", "-l", "product", "--emit", "missing_order", LATER, "--orders", &orders];
        let emitted = redis.seckill(emit).code(7).stderr_lacks("left out");
        emitted.stdout_is(&format!("{{\"activity\":\"1001\",\"user\":null,\"quantity\":{missing}}}\n"));
    }
}
