//! What inspect prints of what is damaged and of users who are no text; `sessions/inspect.txt` has all else.

use serde_json::{Value, json};

use crate::support::layout::json_call;
use crate::support::{COUPON, Layout, SECKILL, SKU, TestRedis};

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

/// Lets a backend sell a unit to a user whose name is no text.
fn sell_to_bytes(redis: &TestRedis, layout: Layout) {
    let user = &b"\xc4\xe3"[..];
    match layout.kind {
        "hash" => redis.cmd(("HSET", layout.participants("1"), user, 1)),
        _ => redis.cmd(("SADD", layout.participants("1"), user)),
    };
}

#[test]
fn a_user_who_is_not_utf8_is_shown_by_bytes() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        sell_to_bytes(&redis, layout);
        json_call(&redis, layout, "deduct 1 --user plain").code(0);

        let call = |line: &str, format: &str| redis.seckill(["-l", layout.name, "-o", format]).args(line.split(' '));
        let mut rows = call("inspect 1 --all", "jsonl").code(0).jsonl();
        rows.sort_by_key(|row| row["user"].is_null());
        let shape: Vec<_> = rows.iter().map(|row| (row["user"].as_str(), row.get("user_hex").cloned())).collect();
        assert_eq!(shape, [(Some("plain"), None), (None, Some(json!("c4e3")))], "{layout:?}");
        let csv = call("inspect 1 --all", "csv").code(0).stdout;
        let mut lines: Vec<&str> = csv.lines().collect();
        lines[1..].sort_unstable();
        assert_eq!(lines[0], "activity,user,bought,user_hex");
        assert!(lines[1].starts_with("1,,") && lines[1].ends_with(",c4e3"), "{csv}");
        assert_eq!(lines[2], "1,plain,1,");
        let row = call("inspect 1", "json").code(0).json()[0]["participants"].clone();
        let hex = row.as_array().unwrap().iter().find(|row| row["user"].is_null()).unwrap();
        assert_eq!(hex["user_hex"], "c4e3", "{row}");
        call("inspect 1", "table").code(0).stdout_has("hex:c4e3");
        call("inspect 1 --all", "table").code(0).stdout_has("hex:c4e3");
    }
}

#[test]
fn a_user_who_is_not_utf8_can_be_refunded_by_bytes() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 4));
        sell_to_bytes(&redis, layout);
        let call = |format: &str, more: &[&str]| {
            redis.seckill(["refund", "1", "--quantity", "1", "-l", layout.name, "-o", format]).args(more)
        };
        call("json", &["--user-hex", "c4"]).code(3).stdout_has("exceeds_bought");
        for wrong in ["", "c", "xy", "20c4", "00"] {
            call("json", &["--user-hex", wrong]).code(2).stderr_has("--user-hex");
        }
        call("json", &["--user-hex", "c4e3", "--user", "7"]).code(2);
        let row = call("json", &["--user-hex", "C4E3", "--dry-run"]).code(0).json();
        assert_eq!((&row["user"], &row["user_hex"], &row["dry_run"]), (&Value::Null, &json!("c4e3"), &json!(true)));
        call("csv", &["--user-hex", "c4e3", "--request", "r"])
            .code(0)
            .stdout_is("activity,user,quantity,status,stock,bought,request,user_hex\n1,,1,ok,5,0,r,c4e3\n");
        call("table", &["--user-hex", "c4e3", "--request", "r"]).code(0).stdout_has("hex:c4e3").stdout_has("replayed");
        assert_eq!((redis.int(&layout.stock("1")), redis.exists(&layout.participants("1"))), (5, false), "{layout:?}");
        // The bytes of a text are that text.
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        let row = call("json", &["--user-hex", "37"]).code(0).json();
        assert_eq!((&row["user"], row.get("user_hex")), (&json!("7"), None));
    }
}
