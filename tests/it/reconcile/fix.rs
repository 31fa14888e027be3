//! `--fix`, `--plan` and `--emit` as an operator meets them: questions, pipes, files, and what is left out.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::sale;
use crate::support::{Fault, Proxy, TestRedis, When};

const PARTICIPANTS: &str = "seckill:participants:1001";
const STOCK: &str = "seckill:stock:1001";
const NOW: &str = "--as-of=0s";

#[test]
fn a_reader_that_closes_the_pipe_changes_neither_repairs_nor_exit_code() {
    for format in ["table", "json", "jsonl", "csv", "tsv", "yaml"] {
        for bytes in [0, 20] {
            let redis = sale();
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
        let redis = sale();
        redis.cmd(("DECRBY", STOCK, 5));
        let fix = redis.seckill(["reconcile", "--fix", "--yes", "-o", format]).stdout_full().code(1);
        fix.stderr_has("repair:").stderr_has("conservation");
        assert_eq!(redis.int(STOCK), 47, "{format}");
    }
}

#[test]
fn a_question_shows_the_plan_and_a_declined_one_changes_nothing() {
    for format in ["table", "json", "csv"] {
        let redis = sale();
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

/// Units of `1001` and `1002` are missing; and how many commands an audit of both takes.
fn two_that_drift() -> (TestRedis, Proxy, usize) {
    let redis = sale();
    redis.seckill(["preheat", "--id", "1002", "--stock", "5"]).code(0);
    redis.cmd(("DECRBY", STOCK, 5));
    redis.cmd(("DECR", "seckill:stock:1002"));
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    network.seckill(["reconcile"]).code(7);
    let audit = network.commands().len();
    (redis, network, audit)
}

#[test]
fn repairs_before_one_that_the_server_refuses_are_reported() {
    let (redis, network, audit) = two_that_drift();
    // A look, a page and a repair of each activity.
    network.inject(When::Command(audit + 6), Fault::Refuse("NOPERM this user has no permissions to run the command"));
    let fixed = network.seckill(["reconcile", "--fix", "--yes", "-o", "json"]).code(4);
    assert_eq!(fixed.json()["repairs"].as_array().unwrap().len(), 1, "{}", fixed.stdout);
    assert_eq!((redis.int(STOCK), redis.int("seckill:stock:1002")), (47, 4));
}

#[test]
fn a_plan_is_never_one_of_the_inputs() {
    let redis = sale();
    let dir = TempDir::new().unwrap();
    let orders = dir.path().join("orders.csv");
    fs::write(&orders, "user,quantity\na,1\n").unwrap();
    let hard = dir.path().join("hard");
    fs::hard_link(&orders, &hard).unwrap();
    let plan = |plan: &Path| redis.seckill(["reconcile", "1001", "--plan"]).args([plan]);
    for target in [&orders, &hard] {
        plan(target).args(["--orders"]).args([&orders]).code(2).stdout_is("").stderr_has("is the same file as");
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
    plan(&old).args([NOW, "--orders"]).args([&orders]).code(7).stderr_has("1 repair written");
    assert!(fs::read_to_string(&old).unwrap().contains("missing_order"));
}

#[test]
fn repair_shows_the_plan_and_asks() {
    let redis = sale();
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
fn ctrl_c_stops_between_activities_and_reports_what_was_repaired() {
    let (redis, network, audit) = two_that_drift();
    let fix = network
        .start_and_hold(When::Command(audit + 1), network.seckill(["reconcile", "--fix", "--yes", "-o", "json"]));
    fix.signal(libc::SIGINT);
    // Nothing shows when the signal has arrived.
    std::thread::sleep(std::time::Duration::from_millis(100));
    network.release();
    let ended = fix.wait().code(130);
    assert_eq!(ended.json()["repairs"].as_array().unwrap().len(), 1, "{}", ended.stdout);
    assert!(ended.error_line()["error"].as_str().unwrap().contains("interrupted after 1 of 2 repairs"));
    assert_eq!((redis.int(STOCK), redis.int("seckill:stock:1002")), (47, 4));
}
