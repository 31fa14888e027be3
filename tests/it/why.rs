//! Why can't X buy? What did X do, and which order is this?

use serde_json::{Value, json};

use crate::support::layout::json_call;
use crate::support::{COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU, TestCluster, TestRedis};

fn why(redis: &TestRedis, layout: Layout, id: &str, user: &str) -> Value {
    json_call(redis, layout, &format!("inspect {id} --user {user} --why")).code(0).json()
}

/// What a purchase of one unit gets.
fn bought(redis: &TestRedis, layout: Layout, id: &str, user: &str) -> Value {
    json_call(redis, layout, &format!("deduct {id} --user {user} --dry-run")).run().json()["status"].clone()
}

#[test]
fn the_reason_is_the_status_that_a_purchase_gets_in_every_layout() {
    for layout in LAYOUTS {
        if layout.name == PRODUCT.name {
            let redis = TestRedis::start();
            let call = json_call(&redis, layout, "inspect 1 --user 7 --why").code(2);
            assert!(call.error_json()["error"].as_str().unwrap().contains("records no users"));
            continue;
        }
        let redis = TestRedis::start();
        let limit = if layout.name == SECKILL.name || layout.name == "cluster" { " --per-user-limit 2" } else { "" };
        for line in [
            &format!("preheat --id open --stock 5{limit}"),
            &format!("preheat --id paused --stock 5{limit}"),
            &format!("preheat --id early --stock 5{limit} --starts-at 2200-01-01T00:00:00Z"),
            &format!("preheat --id late --stock 5{limit} --ends-at 2001-01-01T00:00:00Z"),
            &format!("preheat --id gone --stock 1{limit}"),
            "deduct gone --user 9",
            "deduct open --user 8",
        ] {
            json_call(&redis, layout, line).code(0);
        }
        json_call(&redis, layout, "pause paused").args(["--reason", "wrong price"]).code(0);
        for (id, user) in
            [("open", "7"), ("open", "8"), ("paused", "7"), ("early", "7"), ("late", "7"), ("gone", "7"), ("gone", "9")]
        {
            let why = why(&redis, layout, id, user);
            assert_eq!(why["status"], bought(&redis, layout, id, user), "{layout:?} {id} {user}: {why}");
            assert_eq!(why["status"] == "ok", why["can_buy"] != 0, "{why}");
        }
        let paused = why(&redis, layout, "paused", "7")["because"].to_string();
        assert!(paused.contains("tester@test: wrong price (entry "), "{paused}");
    }
}

#[test]
fn the_entries_prove_what_a_user_holds() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "9", "--per-user-limit", "3", "--title", "phone"]).code(0);
    let order = |line: &str| redis.seckill([]).args(line.split(' ')).code(0);
    order("deduct 1 --user 7 --quantity 3 --request r1");
    order("refund 1 --user 7 --request r2 --reason returned");
    order("deduct 1 --user 70 --quantity 2");
    let why = why(&redis, SECKILL, "1", "7");
    assert_eq!((&why["can_buy"], &why["bought"], &why["per_user_limit"]), (&json!(1), &json!(2), &json!(3)));
    assert_eq!(
        (&why["ledger_bought"], &why["ledger_refunded"], &why["ledger_holds"]),
        (&json!(3), &json!(1), &json!(2))
    );
    let rows = redis.seckill(["ledger", "1", "--user", "7", "-o", "jsonl"]).code(0).jsonl();
    for (entry, (row, holds)) in why["entries"].as_array().unwrap().iter().zip(rows.iter().zip([3, 2])) {
        for field in ["id", "n", "time", "op", "quantity", "stock", "request", "by", "reason"] {
            assert_eq!(entry[field], row[field], "{field}");
        }
        assert_eq!(entry["holds"], holds);
    }
    assert_eq!((why["entries"].as_array().unwrap().len(), &why["more"]), (2, &json!(0)));
    let table = redis.seckill(["inspect", "1", "--user", "7", "--why"]).code(0).stderr("");
    table
        .stdout_has("`7` can buy 1 unit of `1` now.")
        .stdout_has("bought 3, returned 1, and holds 2")
        .stdout_has("returned");
    let csv = redis.seckill(["inspect", "1", "--user", "7", "--why", "-o", "csv"]).code(0).stdout;
    assert!(csv.starts_with("activity,user,status,can_buy,state,stock,bought,per_user_limit,"), "{csv}");
    assert_eq!(csv.lines().count(), 2);
    // A counter that something else wrote.
    redis.cmd(("HSET", "seckill:participants:1", "7", 3));
    let table = redis.seckill(["inspect", "1", "--user", "7", "--why"]).code(0);
    table
        .stdout_has("cannot buy `1`: limit_exceeded")
        .stdout_has("The ledger says 2 and the counter 3: `seckill reconcile 1`");
    // A repair is an entry too.
    redis.seckill(["reconcile", "1", "--fix", "--yes"]).code(0);
    let table = redis.seckill(["inspect", "1", "--user", "7", "--why"]).code(0);
    table.stdout_has("repair").stdout_lacks("the counter");
}

#[test]
fn what_cannot_be_known_is_said() {
    let redis = TestRedis::start();
    let call = |line: &str| redis.seckill([]).args(line.split(' '));
    call("inspect none --user 7 --why").code(3).stdout_has("not_preheated");
    call("preheat --id there --stock 5 --layout sku").code(0);
    call("inspect there --user 7 --why").code(3).stderr_has("--layout sku");
    // Without a ledger, and by another system.
    redis.seckill(["preheat", "-", "-q"]).stdin("activities: [{id: plain, stock: 5, ledger: false}]").code(0);
    call("deduct plain --user 7").code(0);
    call("inspect plain --user 7 --why").code(0).stdout_has("has no ledger").stdout_has("can buy up to 4");
    redis.cmd(("SET", "seckill:stock:other", 5));
    call("inspect other --user 7 --why").code(0).stdout_has("another system knows the limit");
    // Trimmed.
    call("preheat --id cut --stock 50 --per-user-limit 5").code(0);
    call("deduct cut --user 7 --quantity 4 --request old").code(0);
    call("deduct cut --user 8 --request last").code(0);
    call("ledger trim cut --before 2100-01-01 --yes").code(0);
    call("inspect cut --user 7 --why")
        .code(0)
        .stdout_has("were trimmed: `7` held 4 units by then")
        .stdout_has("can buy 1 unit");
    call("inspect cut --user 9 --why").code(0).stdout_has("`9` held 0 units by then");
    let found = call("inspect --request old -o json").code(0);
    let rows = found.clone().json();
    assert_eq!((&rows[0]["user"], &rows[0]["quantity"], &rows[0]["time"]), (&json!("7"), &json!(4), &Value::Null));
    found.stderr_has("was trimmed");
    let history = call("inspect --user 7 --why -o jsonl").code(0);
    history
        .stderr_has("`7` held 4 units by then")
        .stderr_has("no ledger, so what was bought there is not listed: `plain`");
    // Corrupt.
    redis.cmd(("HSET", "seckill:participants:cut", "7", "many"));
    call("inspect cut --user 7 --why").code(3).stdout_has("corrupt").stdout_has("seckill:participants:cut");
    for wrong in [
        "inspect --why",
        "inspect 1 2 --user 7 --why",
        "inspect 1 --user 7 --user 8 --why",
        "inspect x* --user 7 --why",
    ] {
        call(wrong).code(2).stdout_is("");
    }
}

#[test]
fn without_an_activity_all_that_a_user_did_is_listed() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        for id in ["1", "2", "3"] {
            json_call(&redis, layout, &format!("preheat --id {id} --stock 5")).code(0);
        }
        for line in ["deduct 1 --user 7 --request a", "deduct 1 --user 8", "deduct 3 --user 7", "refund 3 --user 7"] {
            json_call(&redis, layout, line).code(0);
        }
        let history = json_call(&redis, layout, "inspect --user 7 --why").code(0).json();
        assert_eq!(history, json_call(&redis, layout, "ledger --all --user 7").code(0).json(), "the same rows");
        let ops: Vec<_> = history.as_array().unwrap().iter().map(|row| (&row["activity"], &row["op"])).collect();
        assert_eq!(ops.len(), 3, "{ops:?}");
        json_call(&redis, layout, "inspect --user nobody --why").code(0).stdout_is("[]\n");
    }
}

#[test]
fn an_order_is_found_by_its_request_id_in_every_layout() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        for id in ["1", "2"] {
            json_call(&redis, layout, &format!("preheat --id {id} --stock 50")).code(0);
        }
        json_call(&redis, layout, "deduct 1 --user 7 --request single/1").args(["--reason", "vip"]).code(0);
        json_call(&redis, layout, "refund 1 --user 7 --request back").code(0);
        json_call(&redis, layout, "multi-deduct --user 8 1=1 2=1 --request several").code(0);
        let find = |id: &str| json_call(&redis, layout, "inspect --request").args([id]).code(0).json();
        let single = find("single/1");
        let row = &single[0];
        assert_eq!((&row["activity"], &row["status"], &row["op"]), (&json!("1"), &json!("ok"), &json!("deduct")));
        assert_eq!((&row["by"], &row["reason"], &row["quantity"]), (&json!("tester@test"), &json!("vip"), &json!(1)));
        assert!(row["id"].is_string() && row["time"].is_string() && row["request"] == "single/1");
        assert_eq!(find("back")[0]["op"], "refund");
        let several = find("several");
        let activities: Vec<_> = several.as_array().unwrap().iter().map(|row| (&row["activity"], &row["op"])).collect();
        let multi = json!("multi_deduct");
        assert_eq!(activities, [(&json!("1"), &multi), (&json!("2"), &multi)], "{several}");
        if layout.name != PRODUCT.name {
            assert_eq!(several[0]["user"], "8");
        }
        // A line of a file, whose orders have no ids of their own.
        let lines = "activity,user\n1,a\n2,b\n1,c\n";
        json_call(&redis, layout, "deduct --from - --job night").stdin(lines).code(0);
        let line = find("night:3");
        assert_eq!((line.as_array().unwrap().len(), &line[0]["activity"]), (1, &json!("2")), "{line}");
        let missing = json_call(&redis, layout, "inspect --request other").code(3).error_json();
        assert!(missing["error"].as_str().unwrap().contains("no order has the request id `other`"));
        let beyond = json_call(&redis, layout, "inspect --request night:99").code(3).error_json();
        assert!(beyond["hint"].as_str().unwrap().contains("leaves no trace"), "{beyond}");
        json_call(&redis, layout, "inspect 2 --request single/1").code(3);
    }
}

#[test]
fn a_hold_that_ended_says_how_and_when_and_by_whom() {
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 50").code(0);
        let find = |id: &str| json_call(&redis, layout, "inspect --request").args([id]).code(0).json()[0].clone();
        for (request, duration) in [("open", "1h"), ("paid", "1h"), ("left", "1h"), ("late", "1ms"), ("void", "1ms")] {
            let line = format!("hold 1 --user {request} --request {request} --for {duration}");
            json_call(&redis, layout, &line).code(0);
        }
        let by = |name: &'static str, line: &str| json_call(&redis, layout, line).env("SECKILL_OPERATOR", name).run();
        by("cashier", "confirm 1 --request paid").code(0);
        let file = json_call(&redis, layout, "release --from -").stdin("activity,request\n1,left\n");
        file.env("SECKILL_OPERATOR", "desk").code(0);
        crate::support::wait_until("both are expired", || {
            by("timer", "expire 1").code(0);
            ["late", "void"]
                .iter()
                .all(|id| redis.hget(&layout.requests("1"), &format!("\th:{id}")).unwrap().starts_with("expired"))
        });
        let ended = |id: &str| {
            let row = find(id);
            assert_eq!((&row["op"], &row["status"], &row["by"]), (&json!("hold"), &json!("ok"), &json!("tester@test")));
            assert!(row["ended_at"].is_string() == row["ended_by"].is_string(), "{row}");
            assert!(row["ended_at"].as_str().is_none_or(|end| end >= row["time"].as_str().unwrap()), "{row}");
            (row["state"].as_str().unwrap().to_owned(), row["ended_by"].as_str().unwrap_or_default().to_owned())
        };
        let is = |state: &str, by: &str| (state.to_owned(), by.to_owned());
        assert_eq!(ended("open"), is("held", ""), "{layout:?}");
        assert_eq!(ended("paid"), is("confirmed", "cashier"), "{layout:?}");
        assert_eq!(ended("left"), is("released", "desk"), "{layout:?}");
        assert_eq!(ended("late"), is("expired", "timer"), "{layout:?}");
        by("cashier", "confirm 1 --request late").code(0);
        assert_eq!(ended("late"), is("confirmed", "cashier"), "{layout:?}");
        by("desk", "release 1 --request void").code(3);
        assert_eq!(ended("void"), is("void", "timer"), "{layout:?}");
        let table = redis.seckill(["-l", layout.name, "inspect", "--request", "left"]).env("COLUMNS", "200").code(0);
        table.stdout_has("released").stderr_has("the hold `left` was released in `1` at ").stderr_has(" by desk");
        // Who is no hold has none of it.
        json_call(&redis, layout, "deduct 1 --user 7 --request plain").code(0);
        assert!(find("plain").get("state").is_none() && find("plain").get("ended_at").is_none());
    }
    // Without a ledger, its record says how it ended.
    let redis = TestRedis::start();
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: 1, stock: 5, ledger: false}]").code(0);
    for line in ["hold 1 --user 7 --for 1h --request h", "release 1 --request h"] {
        redis.seckill([]).args(line.split(' ')).code(0);
    }
    let found = json_call(&redis, SECKILL, "inspect --request h").code(0);
    let row = found.json()[0].clone();
    assert_eq!((&row["state"], &row["time"], row.get("ended_at")), (&json!("released"), &Value::Null, None));
    found.stderr_has("when and by whom is not recorded");
}

/// Entries of single orders, as backends write them: more than a page, and more orders of one user than are kept.
#[test]
fn a_long_ledger_is_read_in_pages_and_the_newest_orders_are_kept() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "5000"]).code(0);
    let rows: String = (0..2500).map(|index| format!("1,{}\n", if index % 2 == 0 { "bot" } else { "7" })).collect();
    redis.seckill(["deduct", "--from", "-", "--job", "j"]).stdin(format!("activity,user\n{rows}")).code(0);
    let mut connection = redis.connection();
    for index in 0..450 {
        let mut entry = redis::cmd("XADD");
        entry.arg("seckill:ledger:1").arg("*").arg(&["op", "deduct", "by", "shop", "stock", "1", "quantity", "1"]);
        entry.arg("users").arg("bot").arg("requests").arg(format!("r{index}"));
        entry.exec(&mut connection).unwrap();
    }
    redis.cmd(("HINCRBY", "seckill:participants:1", "bot", 450));
    let why = why(&redis, SECKILL, "1", "bot");
    assert_eq!((why["entries"].as_array().unwrap().len(), &why["more"]), (1000, &json!(700)));
    assert_eq!((&why["ledger_bought"], &why["bought"]), (&json!(1700), &json!(1700)));
    assert_eq!(why["entries"][999]["request"], "r449");
    redis.seckill(["inspect", "1", "--user", "bot", "--why"]).code(0).stderr_has("700 older orders");
}

#[test]
fn on_a_cluster_too() {
    let cluster = TestCluster::start(2);
    for id in ["1", "2", "3"] {
        cluster.seckill(["preheat", "--id", id, "--stock", "5", "--per-user-limit", "1"]).code(0);
        cluster.seckill(["deduct", id, "--user", "7", "--request", &format!("r-{id}")]).code(0);
    }
    for id in ["1", "2", "3"] {
        let row = cluster.seckill(["inspect", "--request", &format!("r-{id}"), "-o", "json"]).code(0).json();
        assert_eq!(row[0]["activity"], id);
        cluster.seckill(["inspect", id, "--user", "7", "--why"]).code(0).stdout_has("limit_exceeded");
    }
    assert_eq!(cluster.seckill(["inspect", "--user", "7", "--why", "-o", "jsonl"]).code(0).jsonl().len(), 3);
}
