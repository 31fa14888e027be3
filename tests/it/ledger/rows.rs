//! Rows of ledgers: their key, several activities, and where they begin.

use std::fs;

use tempfile::TempDir;

use super::{ALL, rows, sale};
use crate::support::{SECKILL, TestRedis, binary};

/// `activity id n request` of each row, with the ids left out.
fn names(redis: &TestRedis, activity: &str) -> Vec<(u64, String)> {
    let rows = redis.seckill(["ledger", activity, "-o", "jsonl"]).code(0).jsonl();
    rows.iter()
        .filter(|row| row["op"] != "preheat")
        .map(|row| (row["n"].as_u64().unwrap(), row["request"].as_str().unwrap_or("-").to_owned()))
        .collect()
}

#[test]
fn n_numbers_the_orders_of_an_entry_and_a_job_names_them() {
    let redis = TestRedis::selling("1001", 4);
    redis.seckill(["preheat", "--id", "1002", "--stock", "9", "--per-user-limit", "1"]).code(0);
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("orders.csv");
    fs::write(&file, "activity,user,quantity\n1001,a,1\n1002,a,1\n1001,b,9\n1002,a,1\n1001,c,2\n1002,b,1\n").unwrap();
    redis.seckill(["deduct", "--job", "night", "--from"]).args([&file]).code(3);
    assert_eq!(names(&redis, "1001"), [(1, "night:2".to_owned()), (2, "night:6".to_owned())]);
    assert_eq!(names(&redis, "1002"), [(1, "night:3".to_owned()), (2, "night:7".to_owned())]);
    // As the rows of the run itself name them.
    fs::write(&file, "activity,user,request\n1002,c,\n1002,d,mine\n1002,e,\n").unwrap();
    redis.seckill(["deduct", "--job", "day", "--from"]).args([&file]).code(0);
    let last = names(&redis, "1002").split_off(2);
    assert_eq!(last, [(1, "day:2".to_owned()), (2, "mine".to_owned()), (3, "day:4".to_owned())]);
    redis.seckill(["refund", "--job", "back", "--from"]).args([&file]).code(3).stdout_has("request_conflict");
    let last = names(&redis, "1002").split_off(5);
    assert_eq!(last.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["back:2", "back:4"]);
}

#[test]
fn several_activities_and_all_are_shown_one_after_the_other() {
    let redis = sale();
    redis.seckill(["preheat", "--id", "7", "--stock", "5"]).code(0);
    let activities = |more: &[&str]| -> Vec<String> {
        let rows = redis.seckill(["ledger", "-o", "jsonl"]).args(more).code(0).jsonl();
        rows.iter().map(|row| row["activity"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(activities(&["7", "1001", "7"]), ["7", "1001", "1001", "1001", "1001", "1001", "1001"]);
    assert_eq!(activities(&["--all"]), ["7", "1001", "1001", "1001", "1001", "1001", "1001"]);
    redis.seckill(["ledger", "7", "--all"]).code(2);
    redis.seckill(["ledger", "7", "9"]).code(3).stdout_has("preheat").stderr_has("`9` is not_preheated");
    redis.seckill(["ledger", "--all", "-l", "sku"]).code(0).stdout_is("").stderr_has("nothing was preheated");
}

#[test]
fn since_takes_an_entry_which_is_shown_too() {
    let redis = sale();
    let ids: Vec<String> = redis.xrange(&SECKILL.ledger("1001")).into_iter().map(|(id, _)| id).collect();
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--since", &ids[4]])), ALL[4..]);
    redis.seckill(["ledger", "1001", "--since", "12-"]).code(2).stderr_has("the id of an entry");
}

#[test]
fn a_follower_of_all_sees_new_activities_and_that_its_reader_left() {
    let redis = sale();
    let following = redis.seckill(["ledger", "--all", "--follow", "-o", "jsonl"]).spawn();
    following.wait_for_stdout("pause");
    redis.seckill(["preheat", "--id", "late", "--stock", "5"]).code(0);
    following.wait_for_stdout("late");
    following.signal(libc::SIGINT);
    following.wait().code(130);
    // Nothing happens any more, and `head` has its line.
    let script = format!("{} ledger 1001 --follow -o jsonl | head -1", binary().display());
    let left = std::process::Command::new("sh").args(["-c", &script]).env("SECKILL_URL", redis.url()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).lines().count(), 1, "{left:?}");
}

#[test]
fn a_user_who_is_not_utf8_is_shown_in_hex() {
    let redis = TestRedis::selling("1001", 5);
    let id = redis.ask::<String>((
        "XADD",
        SECKILL.ledger("1001"),
        "*",
        "op",
        "deduct",
        "users",
        &b"\xc4\xe3"[..],
        "quantity",
        "1",
    ));
    let row = &redis.seckill(["ledger", "1001", "--since", &id, "-o", "json"]).code(0).json()[0];
    assert_eq!((&row["user"], row["user_hex"].as_str()), (&serde_json::Value::Null, Some("c4e3")));
    let csv = redis.seckill(["ledger", "1001", "-o", "csv"]).code(0);
    csv.stdout_has("activity,id,n,time,op,user,quantity,stock,request,by,reason\n").stdout_has(",deduct,,1,,,,\n");
    redis.seckill(["ledger", "1001"]).env("COLUMNS", "200").code(0).stdout_has("hex:c4e3");
}
