//! What this user may do, command by command.

use serde_json::Value;

use super::{of_check, text};
use crate::support::transcript::words;
use crate::support::{TestRedis, read};

/// One that has nothing else wrong.
fn start() -> TestRedis {
    TestRedis::with(["--appendonly", "yes"])
}

/// A user of `docs/acl.md`, with the rights that a check of rights needs on Redis 6.2.
fn allow(redis: &TestRedis, name: &str, but: &[&str]) {
    let page = read("docs/acl.md");
    let line = page.lines().find(|line| line.starts_with(&format!("ACL SETUSER {name} "))).unwrap().to_owned();
    let words: Vec<&str> = line.split(' ').filter(|word| !but.contains(word)).collect();
    redis.cmd(&words);
    let more: &[&str] = if redis.scripts_can_check_permissions() { &[] } else { &["+acl"] };
    redis.cmd([&["ACL", "SETUSER", name, "resetpass", ">secret"], more].concat());
}

fn rights(redis: &TestRedis, name: &str, code: i32) -> Vec<Value> {
    let url = format!("{}?user={name}&pass=secret", redis.url());
    let rows = redis.seckill(["doctor", "-o", "json"]).env("SECKILL_URL", &url).code(code).json();
    of_check(&rows, "rights")
}

fn with_status<'a>(rows: &'a [Value], status: &str) -> Vec<&'a str> {
    rows.iter().filter(|row| row["status"] == status).map(|row| text(row, "target")).collect()
}

#[test]
fn with_the_rights_that_the_documents_name_nothing_is_skipped_for_lack_of_one() {
    let redis = start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    allow(&redis, "operator", &[]);
    let page = read("docs/acl.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER operator +sscan")).unwrap();
    redis.cmd(line.split(' ').collect::<Vec<_>>());
    let url = format!("{}?user=operator&pass=secret", redis.url());
    let rows = redis.seckill(["doctor", "-o", "json"]).env("SECKILL_URL", &url).code(0).json();
    for row in of_check(&rows, "") {
        assert!(!text(&row, "found").contains("may not"), "{row:#}");
    }
    let rights = of_check(&rows, "rights");
    assert!(rights.len() > 12 && rights.iter().all(|row| row["status"] == "ok"), "{rights:#?}");
}

#[test]
fn what_a_reader_may_not_run_is_named_with_the_rights_that_it_lacks() {
    let redis = start();
    allow(&redis, "reader", &[]);
    let rows = rights(&redis, "reader", 0);
    let allowed = ["inspect", "inspect --scan", "reconcile", "report", "ledger", "inspect --holds"];
    assert_eq!(with_status(&rows, "ok"), allowed);
    let deduct = rows.iter().find(|row| row["target"] == "deduct").unwrap();
    assert_eq!(deduct["status"], "warn");
    assert_eq!(deduct["found"], "user `reader` lacks +decrby +exists +hset +xadd");
    let group = rows.iter().find(|row| row["target"] == "ledger --group").unwrap();
    assert_eq!(group["found"], "user `reader` lacks +xack +xgroup|create +xreadgroup");
    // Rights are granted by another user.
    assert!(!text(deduct, "fix").contains("--user"), "{deduct}");
    let grant = words(text(deduct, "fix"));
    assert_eq!(grant[3], "--askpass");
    redis.cmd(&grant[4..]);
    assert!(with_status(&rights(&redis, "reader", 0), "ok").contains(&"deduct"));
}

#[test]
fn who_may_not_even_look_or_has_the_wrong_keys_fails() {
    let redis = start();
    allow(&redis, "clerk", &[]);
    let rows = rights(&redis, "clerk", 0);
    assert!(with_status(&rows, "warn").contains(&"inspect"), "by name it sees all: {rows:#?}");
    allow(&redis, "operator", &["+hgetall"]);
    let rows = rights(&redis, "operator", 3);
    assert_eq!(with_status(&rows, "fail"), ["inspect"]);
    allow(&redis, "operator", &["~seckill:*"]);
    let rows = rights(&redis, "operator", 3);
    let inspect = rows.iter().find(|row| row["target"] == "inspect").unwrap();
    assert!(text(inspect, "found").contains("~seckill:*"), "{inspect}");
    redis.cmd(&words(text(inspect, "fix"))[4..]);
    assert!(with_status(&rights(&redis, "operator", 0), "warn").is_empty());
    redis.cmd(&["ACL", "SETUSER", "operator", "resetkeys", "~seckill:*"]);
    let url = format!("{}?user=operator&pass=secret", redis.url());
    let sku = redis.seckill(["doctor", "-l", "sku", "-o", "json"]).env("SECKILL_URL", &url).code(3).json();
    let inspect = of_check(&sku, "rights").into_iter().find(|row| row["target"] == "inspect").unwrap();
    assert!(text(&inspect, "found").contains("~bought:*"), "{inspect}");
}

#[test]
fn without_the_right_to_ask_the_sale_and_the_rights_are_skipped_or_fail_by_name() {
    let redis = start();
    redis.cmd(&["ACL", "SETUSER", "nobody", "on", ">secret", "+info"]);
    let url = format!("{}?user=nobody&pass=secret", redis.url());
    let rows = redis.seckill(["doctor", "-o", "json"]).env("SECKILL_URL", &url).code(3).json();
    let rights = of_check(&rows, "rights");
    assert_eq!((rights.len(), &rights[0]["status"]), (1, &"fail".into()), "{rights:#?}");
    assert!(text(&rights[0], "fix").ends_with("ACL SETUSER nobody +eval +evalsha"), "{rights:#?}");
    for check in
        ["keys", "expiry", "window", "foreign_writes", "feeds", "slow_scripts", "scripts", "clock", "output_buffers"]
    {
        let row = &of_check(&rows, check)[0];
        assert_eq!(row["status"], "skip", "{row:#}");
    }
    assert_eq!(of_check(&rows, "role")[0]["status"], "ok");
}

#[test]
fn what_the_server_refuses_in_scripts_is_named_by_the_commands_that_need_it() {
    let renamed = ["--appendonly", "yes", "--rename-command", "XTRIM", ""];
    let redis = TestRedis::with(renamed);
    let rows = of_check(&redis.seckill(["doctor", "-o", "json"]).code(0).json(), "rights");
    assert_eq!(with_status(&rows, "warn"), ["ledger trim"]);
    let trim = rows.iter().find(|row| row["target"] == "ledger trim").unwrap();
    assert!(text(trim, "found").starts_with("scripts may not call XTRIM: "), "{trim}");
    assert!(text(trim, "fix").contains("EVAL") && text(trim, "fix").contains("XTRIM"), "{trim}");
    // Where it cannot be removed again, nothing is created.
    let redis = TestRedis::with(["--appendonly", "yes", "--rename-command", "UNLINK", ""]);
    let rows = of_check(&redis.seckill(["doctor", "-o", "json"]).code(0).json(), "rights");
    assert!(with_status(&rows, "warn").contains(&"archive"), "{rows:#?}");
    assert!(with_status(&rows, "ok").contains(&"deduct"), "{rows:#?}");
    assert_eq!(redis.ask::<i64>("DBSIZE"), 0);
}
