//! `hold`, `confirm`, `release`, `expire` and `inspect --holds` as the tool shows them.

use super::WITH_USERS;
use crate::support::layout::json_call;
use crate::support::{CLUSTER, Fault, Proxy, SECKILL, TestCluster, TestRedis, When, wait_until};

#[test]
fn each_status_of_a_command_has_its_name_and_exit_code() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        let check = |line: &str, code: i32, status: &str| {
            let value = json_call(&redis, layout, line).code(code).json();
            let row = if value.is_array() { &value[0] } else { &value };
            assert_eq!(row["status"], status, "{layout:?}: {line}: {row}");
        };
        check("hold 1 --user 7 --for 15m", 3, "not_preheated");
        check("confirm 1 --request a", 3, "not_preheated");
        check("expire 1", 3, "not_preheated");
        check("preheat --id 1 --stock 3", 0, "ok");
        check("hold 1 --user 7 --for 15m --request a --dry-run", 0, "ok");
        check("hold 1 --user 7 --for 15m --request a", 0, "ok");
        check("hold 1 --user 7 --for 1h --request a", 0, "replayed");
        check("hold 1 --user 8 --for 15m --request a", 3, "request_conflict");
        check(
            "hold 1 --user 9 --quantity 4 --for 1m",
            3,
            if layout.kind == "coupon" { "limit_exceeded" } else { "out_of_stock" },
        );
        check("confirm 1 --request zz", 3, "not_held");
        check("refund 1 --user 7", 3, "exceeds_bought");
        check("refund 1 --user 7 --all", 3, "exceeds_bought");
        for user in ["--user 8", "--user-hex c4e3"] {
            check(&format!("confirm 1 --request a {user}"), 3, "not_held");
            check(&format!("release 1 --request a {user}"), 3, "not_held");
        }
        check("confirm 1 --request a --user 7 --dry-run", 0, "ok");
        check("confirm 1 --request a --dry-run", 0, "ok");
        check("confirm 1 --request a --user-hex 37", 0, "ok");
        check("confirm 1 --request a", 0, "replayed");
        check("release 1 --request a", 3, "confirmed");
        check("refund 1 --user 7", 0, "ok");
        check("hold 1 --user 7 --for 15m --request b", 0, "ok");
        check("release 1 --request b", 0, "ok");
        check("release 1 --request b", 0, "replayed");
        check("confirm 1 --request b", 3, "not_held");
        check("hold 1 --user 7 --for 1ms --request c", 0, "ok");
        wait_until("it is overdue", || json_call(&redis, layout, "expire").code(0).json()[0]["holds"] == 1);
        check("release 1 --request c", 3, "expired");
        check("confirm 1 --request c", 3, "expired");
        check("pause 1", 0, "ok");
        check("hold 1 --user 7 --for 15m", 3, "paused");
        json_call(&redis, layout, "reconcile").code(0);
    }
}

#[test]
fn rows_have_the_fields_of_deduct_and_a_deadline() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "9", "--per-user-limit", "3"]).code(0);
    let csv = redis.seckill(["hold", "1", "--user", "7", "--for", "15m", "--request", "r", "-o", "csv"]).code(0).stdout;
    let (header, row) = csv.split_once('\n').unwrap();
    assert_eq!(header, "activity,user,quantity,status,stock,bought,request,deadline");
    assert!(row.starts_with("1,7,1,ok,8,1,r,20") && row.ends_with("Z\n"), "{row}");
    let json = redis.seckill(["hold", "1", "--user", "8", "--for", "1h", "-o", "json"]).code(0).json();
    assert!(json["request"].as_str().unwrap().len() == 36 && json["deadline"].is_string(), "{json}");
    let dry = redis.seckill(["hold", "1", "--user", "8", "--for", "1h", "--dry-run", "-o", "json"]).code(0).json();
    assert_eq!((&dry["dry_run"], &dry["request"]), (&true.into(), &serde_json::Value::Null));
    redis
        .seckill(["confirm", "1", "--request", "r", "-o", "csv"])
        .code(0)
        .stdout_is("activity,user,quantity,status,stock,bought,request\n1,7,1,ok,7,1,r\n");
    let unknown = redis.seckill(["release", "1", "--request", "none", "-o", "json"]).code(3).json();
    assert!(unknown["user"].is_null() && unknown["quantity"].is_null(), "{unknown}");
}

#[test]
fn durations_outside_a_year_are_usage_errors() {
    let redis = TestRedis::start();
    for duration in ["0", "0s", "15", "-1m", "366d", "soon", "1us", ""] {
        let outcome = redis.seckill(["hold", "1", "--user", "7"]).args([format!("--for={duration}")]).code(2);
        outcome.stderr_has("--for");
    }
    redis.seckill(["hold", "1", "--user", "7"]).code(2).stderr_has("--for");
    redis.seckill(["confirm", "1"]).code(2).stderr_has("--request");
}

#[test]
fn inspect_shows_what_is_held_beside_what_is_bought() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 9").code(0);
        json_call(&redis, layout, "deduct 1 --user 6").code(0);
        json_call(&redis, layout, "hold 1 --user 7 --for 15m --request b").code(0);
        json_call(&redis, layout, "hold 1 --user 8 --for 1ms --request a").code(0);
        let row = &json_call(&redis, layout, "inspect 1").code(0).json()[0];
        assert_eq!((&row["sold"], &row["held"], &row["stock"]), (&3.into(), &2.into(), &6.into()));
        let users = json_call(&redis, layout, "inspect 1 --user 6 --user 7").code(0).json();
        let held: Vec<_> = users.as_array().unwrap().iter().map(|row| (&row["bought"], &row["held"])).collect();
        assert_eq!(held, [(&1.into(), &0.into()), (&1.into(), &1.into())]);
        let rows = json_call(&redis, layout, "inspect 1 --holds").code(0).json();
        let ids: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["request"].as_str().unwrap()).collect();
        assert_eq!(ids, ["a", "b"], "by deadline");
        let csv = redis.seckill(["-l", layout.name, "inspect", "1", "--holds", "-o", "csv"]).code(0).stdout;
        assert!(csv.starts_with("activity,request,user,quantity,deadline\n1,a,8,1,20"), "{csv}");
        wait_until("one is overdue", || {
            let rows = json_call(&redis, layout, "inspect --holds --overdue").code(0).json();
            rows.as_array().unwrap().iter().map(|row| row["user"].as_str().unwrap().to_owned()).eq(["8".to_owned()])
        });
        redis.seckill(["-l", layout.name, "inspect"]).code(0).stdout_has("3 (2 held)");
        json_call(&redis, layout, "confirm 1 --request b").code(0);
        json_call(&redis, layout, "expire").code(0);
        assert!(!redis.seckill(["-l", layout.name, "inspect"]).code(0).stdout.contains("held"));
    }
    let redis = TestRedis::start();
    redis.seckill(["-l", "product", "inspect", "--holds"]).code(2).stderr_has("records no users");
}

#[test]
fn pages_of_holds_with_one_deadline_leave_none_out() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "9000"]).code(0);
    redis.seckill(["hold", "1", "--user", "7", "--for", "1h", "--request", "r"]).code(0);
    let mut pipe = redis::pipe();
    for index in 0..1700 {
        // Many at one instant, over the border of a page.
        let deadline = if index < 300 { 5_000_000_000_000_u64 + index } else { 6_000_000_000_000 };
        pipe.zadd("seckill:deadlines:1", format!("h{index}"), deadline).ignore();
        pipe.hset("seckill:requests:1", format!("\th:h{index}"), format!("held 1 {deadline} - u{index}")).ignore();
    }
    pipe.exec(&mut redis.connection()).unwrap();
    let rows = redis.seckill(["inspect", "1", "--holds", "-o", "jsonl"]).code(0).jsonl();
    let ids: std::collections::BTreeSet<&str> = rows.iter().map(|row| row["request"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), ids.len()), (1701, 1701));
}

#[test]
fn a_lost_reply_is_settled_by_the_same_request() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    let proxy = Proxy::before(&redis);
    for line in ["hold 1 --user 7 --for 15m --request r", "confirm 1 --request r"] {
        proxy.seckill([]).args(line.split(' ')).run();
        proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
        proxy.seckill(["-o", "json"]).args(line.split(' ')).code(0).stdout_has("replayed");
    }
    proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
    let row = proxy.seckill(["hold", "1", "--user", "8", "--for", "15m", "-o", "json"]).code(0).json();
    assert_eq!((&row["status"], &row["bought"]), (&"replayed".into(), &1.into()));
    assert_eq!(redis.int("seckill:stock:1"), 7);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn expire_every_goes_on_until_it_is_stopped() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    let running = redis.seckill(["expire", "--every", "10ms", "-o", "jsonl"]).spawn();
    for request in ["a", "b"] {
        redis.seckill(["hold", "1", "--user", "7", "--for", "1ms", "--request", request]).code(0);
        wait_until("its units are back", || redis.int("seckill:stock:1") == 9);
    }
    running.wait_until_stdout("two rows with their times", |out| {
        out.lines().all(|row| row.starts_with("{\"time\":\"20")) && out.matches("\"holds\":1").count() == 2
    });
    running.signal(libc::SIGINT);
    running.wait().code(130);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn expire_shows_activities_of_which_something_expired() {
    let redis = TestRedis::start();
    for id in ["sku-1", "sku-2", "other"] {
        redis.seckill(["preheat", "--id", id, "--stock", "9"]).code(0);
    }
    redis.seckill(["expire"]).code(0).stdout_is("").stderr_has("no hold expired");
    redis.seckill(["expire", "--dry-run"]).code(0).stdout_is("").stderr_has("no hold would expire");
    redis.seckill(["expire", "-o", "json"]).code(0).stdout_is("[]\n");
    for id in ["sku-1", "other"] {
        redis.seckill(["hold", id, "--user", "7", "--for", "1ms"]).code(0);
    }
    let mut rows = Vec::new();
    wait_until("the hold is overdue", || {
        rows = redis.seckill(["expire", "sku-*", "-o", "jsonl"]).code(0).jsonl();
        !rows.is_empty()
    });
    assert_eq!(rows, [serde_json::json!({"activity": "sku-1", "status": "ok", "holds": 1, "units": 1})]);
    let shown = redis.seckill(["expire", "sku-1", "gone"]).code(3).stdout;
    assert!(shown.contains("gone") && !shown.contains("sku-1"), "{shown}");
}

#[test]
fn a_reset_removes_holds_and_an_update_leaves_them() {
    for layout in WITH_USERS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 9").code(0);
        json_call(&redis, layout, "hold 1 --user 7 --for 15m --request r").code(0);
        json_call(&redis, layout, "preheat --id 1 --stock 12 --update").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 11);
        json_call(&redis, layout, "preheat --id 1 --stock 5 --reset --yes").code(0);
        assert!(!redis.exists(&layout.deadlines("1")));
        assert_eq!(redis.hget(&layout.requests("1"), "\tholds"), None);
        let row = json_call(&redis, layout, "confirm 1 --request r").code(3).json();
        assert_eq!(row["status"], "not_held", "{layout:?}");
        // What is left of holds alone is an activity that exists.
        redis.cmd(("ZADD", layout.deadlines("2"), 5, "r"));
        json_call(&redis, layout, "preheat --id 2 --stock 5").code(3);
    }
}

#[test]
fn a_cluster_holds_as_one_server_does() {
    let cluster = TestCluster::start(3);
    for id in ["1", "2", "3"] {
        cluster.seckill(["preheat", "--id", id, "--stock", "9"]).code(0);
        cluster.seckill(["hold", id, "--user", "7", "--for", "15m", "--request", "a"]).code(0);
        cluster.seckill(["hold", id, "--user", "8", "--for", "1ms", "--request", "b"]).code(0);
        cluster.seckill(["confirm", id, "--request", "a"]).code(0);
    }
    wait_until("all are expired", || {
        let rows = cluster.seckill(["inspect", "-o", "json"]).code(0).json();
        cluster.seckill(["expire"]).code(0);
        rows.as_array().unwrap().iter().all(|row| row["held"] == 0 && row["stock"] == 8)
    });
    cluster.seckill(["reconcile"]).code(0);
    assert_eq!(
        (CLUSTER.deadlines("1"), SECKILL.deadlines("1")),
        ("seckill:{1}:deadlines".into(), "seckill:deadlines:1".into())
    );
}
