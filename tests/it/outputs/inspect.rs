//! What inspect prints: one shape for all formats, and every row that can be read beside those that cannot.

use serde_json::{Value, json};

use crate::support::layout::json_call;
use crate::support::{COUPON, LAYOUTS, PRODUCT, SECKILL, SKU, TestRedis};

/// The fields of a row, in the order of every format but the table.
const FIELDS: [&str; 12] = [
    "activity",
    "title",
    "state",
    "total",
    "stock",
    "sold",
    "buyers",
    "per_user_limit",
    "starts_at",
    "ends_at",
    "held",
    "in_transit",
];

/// The names of an object's fields, as they were printed.
fn names(line: &str) -> Vec<String> {
    let fields: serde_yaml::Mapping = serde_yaml::from_str(line).unwrap();
    fields.keys().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_row_is_flat_and_in_an_array_even_if_it_is_the_only_one() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        for line in ["inspect", "inspect --scan", "inspect 1", "inspect 1 1"] {
            let outcome = json_call(&redis, layout, line).code(0);
            let rows = outcome.json();
            assert_eq!(rows.as_array().map(Vec::len), Some(1), "{line}: {rows}");
            assert_eq!(
                (&rows[0]["activity"], &rows[0]["stock"], &rows[0]["sold"]),
                (&json!("1"), &json!(4), &json!(1))
            );
        }
        let call = |format| redis.seckill(["inspect", "1", "-l", layout.name, "-o", format]).code(0);
        let named = names(&call("jsonl").stdout);
        assert_eq!(named, [&FIELDS[..], &["participants", "more"]].concat(), "{layout:?}");
        assert_eq!(call("csv").stdout.lines().next().unwrap(), [&FIELDS[..], &["withdrawn"]].concat().join(","));
        let yaml: Value = serde_yaml::from_str(&call("yaml").stdout).unwrap();
        assert_eq!(yaml, call("json").json());
        let list = redis.seckill(["inspect", "-l", layout.name, "-o", "jsonl"]).code(0);
        assert_eq!(names(&list.stdout), FIELDS, "{layout:?}");
    }
}

#[test]
fn participants_and_more_are_in_the_row_of_their_activity() {
    let redis = TestRedis::start();
    for id in ["1", "2"] {
        redis.seckill(["preheat", "--id", id, "--stock", "10", "--per-user-limit", "4"]).code(0);
    }
    for (user, quantity) in [("a", "3"), ("b", "4"), ("c", "1")] {
        redis.seckill(["deduct", "1", "--user", user, "--quantity", quantity]).code(0);
    }
    let rows = redis.seckill(["inspect", "1", "2", "--top", "2", "-o", "json"]).code(0).json();
    let most = json!([{"user": "b", "bought": 4, "left": 0}, {"user": "a", "bought": 3, "left": 1}]);
    assert_eq!((&rows[0]["participants"], &rows[0]["more"]), (&most, &json!(1)), "{rows}");
    assert_eq!((&rows[1]["participants"], &rows[1]["more"]), (&json!([]), &json!(0)), "{rows}");
}

#[test]
fn a_state_is_the_first_that_applies() {
    let redis = TestRedis::start();
    let (past, long_ago, later) = ("2020-01-02T00:00:00Z", "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z");
    for (id, stock, window, pause, state) in [
        ("live", "1", [None, None], false, "live"),
        ("sold", "0", [None, None], false, "sold_out"),
        ("soon", "0", [Some(later), None], false, "upcoming"),
        ("paused", "0", [Some(later), None], true, "paused"),
        ("ended", "0", [Some(long_ago), Some(past)], true, "ended"),
    ] {
        let call = redis.seckill(["preheat", "--id", id, "--stock", stock]);
        let flags = ["--starts-at", "--ends-at"].into_iter().zip(window).filter_map(|(flag, time)| Some([flag, time?]));
        call.args(flags.flatten()).code(0);
        if pause {
            redis.seckill(["pause", id, "-q"]).code(0);
        }
        let row = redis.seckill(["inspect", id, "-o", "json"]).code(0).json();
        assert_eq!(row[0]["state"], state, "{row}");
        redis.seckill(["inspect", id]).code(0).stdout_has(state);
    }
}

#[test]
fn without_a_preheat_sold_is_what_users_hold_and_the_rest_is_null() {
    for layout in [SECKILL, COUPON] {
        let redis = TestRedis::start();
        redis.cmd(("SET", layout.stock("1"), 5));
        json_call(&redis, layout, "deduct 1 --user a").code(0);
        json_call(&redis, layout, "deduct 1 --user b").code(0);
        let row = json_call(&redis, layout, "inspect 1").code(0).json()[0].clone();
        for unknown in ["title", "total", "per_user_limit", "starts_at", "ends_at"] {
            assert!(row[unknown].is_null(), "{unknown}: {row}");
        }
        assert_eq!((&row["sold"], &row["stock"], &row["buyers"]), (&json!(2), &json!(3), &json!(2)), "{row}");
    }
    let redis = TestRedis::start();
    redis.cmd(("SET", PRODUCT.stock("1"), 0));
    let row = json_call(&redis, PRODUCT, "inspect 1").code(0).json()[0].clone();
    assert_eq!(
        (&row["sold"], &row["buyers"], &row["state"]),
        (&Value::Null, &Value::Null, &json!("sold_out")),
        "{row}"
    );
}

#[test]
fn a_user_who_bought_nothing_holds_0() {
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        let rows = json_call(&redis, layout, "inspect 1 --user nobody").code(0).json();
        assert_eq!((&rows[0]["user"], &rows[0]["bought"]), (&json!("nobody"), &json!(0)), "{layout:?}");
        redis
            .seckill(["inspect", "--user", "nobody", "-o", "csv", "-l", layout.name])
            .code(0)
            .stdout_has("activity,user,bought,per_user_limit,left,held\n1,nobody,0,");
    }
}

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

#[test]
fn a_user_who_is_not_utf8_is_shown_by_bytes() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        let add = if layout.kind == "hash" { "HSET" } else { "SADD" };
        let mut command = redis::cmd(add);
        command.arg(layout.participants("1")).arg(b"\xc4\xe3");
        let command = if layout.kind == "hash" { command.arg(1) } else { &mut command };
        command.exec(&mut redis.connection()).unwrap();
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
        let mut command = redis::cmd(if layout.kind == "hash" { "HSET" } else { "SADD" });
        command.arg(layout.participants("1")).arg(b"\xc4\xe3");
        let command = if layout.kind == "hash" { command.arg(1) } else { &mut command };
        command.exec(&mut redis.connection()).unwrap();

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
