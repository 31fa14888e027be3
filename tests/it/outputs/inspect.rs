//! What inspect prints of what is damaged; `sessions/inspect.txt` has all else.

use serde_json::{Value, json};

use crate::support::layout::json_call;
use crate::support::{SECKILL, TestRedis};

/// Activities, each with a different key damaged.
fn damaged(count: usize) -> TestRedis {
    let redis = TestRedis::start();
    let list: String = (0..count).map(|id| format!("{id},10\n")).collect();
    redis.seckill(["preheat", "--from", "-"]).stdin(format!("id,stock\n{list}")).code(0);
    redis.seckill(["deduct", "0", "--user", "7"]).code(0);
    let wrong = |key: &str| {
        redis.cmd(("DEL", key));
        redis.cmd(("SET", key, "x"));
    };
    redis.cmd(("SET", "seckill:stock:1", "abc"));
    wrong("seckill:meta:2");
    wrong("seckill:participants:3");
    wrong("seckill:ledger:4");
    wrong("seckill:requests:5");
    redis.cmd(("HSET", "seckill:meta:6", "repairs", "many"));
    redis.set_rule("seckill:meta:7", "state", "asleep");
    redis.set_rule("seckill:meta:8", "starts_at", "1e5");
    redis.cmd(("HSET", "seckill:participants:9", "7", "1.5"));
    redis.cmd(("LPUSH", "seckill:participants:404", "x"));
    redis.cmd(("DEL", "seckill:stock:10"));
    redis.cmd(("DEL", "seckill:meta:11"));
    redis
}

#[test]
fn a_corrupt_activity_hides_no_other() {
    let redis = damaged(300);
    for line in ["inspect", "inspect 0 1 2 3 4 5 6 7 8 9 10 11 12"] {
        let rows = json_call(&redis, SECKILL, line).code(3).json();
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), if line == "inspect" { 300 } else { 13 });
        let of = |id: usize| &rows[id];
        assert_eq!((&of(0)["sold"], &of(12)["stock"]), (&json!(1), &json!(10)));
        let states = |status: &Value| (1..12).filter(|id| &of(*id)["status"] == status).collect::<Vec<_>>();
        // Only who looks at every participant finds that one of them holds no number.
        let corrupt =
            if line == "inspect" { vec![1, 2, 3, 4, 5, 6, 7, 8, 11] } else { vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 11] };
        assert_eq!(states(&json!("corrupt")), corrupt, "{line}");
        assert_eq!(states(&json!("not_preheated")), [10], "{line}");
        assert!(rows.iter().all(|row| row["status"].is_null() || row["status"] == row["state"]), "{line}");
    }
    let rows = json_call(&redis, SECKILL, "inspect --user 7").code(3).json();
    let rows = rows.as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["bought"], &rows[12]["bought"]), (300, &json!(1), &json!(0)));
    assert_eq!((&rows[9]["status"], &rows[9]["bought"]), (&json!("corrupt"), &Value::Null));
    let rows = json_call(&redis, SECKILL, "inspect --all").code(3).json();
    assert_eq!(
        rows,
        json!([{"activity": "0", "user": "7", "bought": 1}, {"activity": "9", "user": "7", "bought": null}])
    );
}

#[test]
fn warnings_are_bounded_however_many_keys_are_corrupt() {
    let redis = damaged(100);
    for id in 20..100 {
        redis.cmd(("SET", format!("seckill:stock:{id}"), "abc"));
    }
    let ids: Vec<String> = (20..100).map(|id| id.to_string()).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("activity,user\n{},u\n", ids.join(",u\n"))).unwrap();
    for line in [
        "inspect".to_owned(),
        "inspect --user 7".to_owned(),
        "inspect --all".to_owned(),
        format!("pause {}", ids.join(" ")),
        format!("multi-deduct --user 7 {}=1", ids.join("=1 ")),
        format!("deduct --from {}", file.path().display()),
    ] {
        let outcome = json_call(&redis, SECKILL, &line).code(3).stderr_has("more like these\n");
        assert!(outcome.stderr.lines().count() <= 22, "{line}: {}", outcome.stderr);
    }
}
