//! `pause` and `resume`: several activities at once, and backends that sell with plain scripts.

use serde_json::Value;

use crate::support::backend::{buy_hash, buy_sku};
use crate::support::layout::json_call;
use crate::support::{Fault, LAYOUTS, Layout, Proxy, SECKILL, SKU, TestRedis, When};

/// `activity status state` of each row.
fn rows(value: &Value) -> Vec<String> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or("-").to_owned();
    let rows = value.as_array().unwrap().iter();
    rows.map(|row| ["activity", "status", "state"].map(|field| text(row, field)).join(" ")).collect()
}

fn said(redis: &TestRedis, layout: Layout, line: &str, code: i32) -> Vec<String> {
    rows(&json_call(redis, layout, line).code(code).json())
}

#[test]
fn a_withdrawn_stock_stops_plain_scripts_until_resume() {
    let redis = TestRedis::start();
    json_call(&redis, SKU, "preheat --id 1 --stock 10").code(0);
    assert_eq!(buy_sku(&redis, "1", "b", 2), 8);
    assert_eq!(said(&redis, SKU, "pause 1 --withdraw-stock", 0), ["1 ok paused"]);
    assert_eq!(buy_sku(&redis, "1", "c", 1), -1, "too few left");
    let seen = json_call(&redis, SKU, "inspect 1").code(0).json();
    assert_eq!((&seen[0]["stock"], &seen[0]["sold"], &seen[0]["state"]), (&8.into(), &2.into(), &"paused".into()));
    assert_eq!(seen[0]["withdrawn"], 8);
    redis.seckill(["-l", "sku", "inspect"]).code(0).stdout_has(" 8 (8 withdrawn) ");
    let why = json_call(&redis, SKU, "inspect 1 --user d --why").code(0).json()["because"].to_string();
    assert!(why.contains("What is left of 10 is withdrawn.") && !why.contains("No units are left"), "{why}");
    json_call(&redis, SKU, "refund 1 --user b --quantity 2").code(0).stdout_has("\"stock\": 10");
    assert_eq!(buy_sku(&redis, "1", "c", 1), -1, "a refund is not for sale yet");
    json_call(&redis, SKU, "preheat --id 1 --stock 12 --update").code(0);
    assert_eq!(redis.get("stock:1").as_deref(), Some("0"));
    let resumed = redis.seckill(["-l", "sku", "resume", "1"]).code(0);
    resumed.stdout_has("live").stderr_has("12 units of `1` returned to its stock");
    assert_eq!(json_call(&redis, SKU, "inspect 1").code(0).json()[0].get("withdrawn"), None);
    assert_eq!(buy_sku(&redis, "1", "c", 1), 11);
}

#[test]
fn without_withdrawing_a_sale_of_a_plain_script_is_paused_here_only() {
    let redis = TestRedis::start();
    let list = "id,stock,ledger\n1,10,false\n2,10,true\n";
    redis.seckill(["preheat", "--from", "-"]).stdin(list).code(0);
    let paused = json_call(&redis, SECKILL, "pause 1 2").code(3);
    assert_eq!(rows(&paused.json()), ["1 paused_here_only paused", "2 ok paused"]);
    paused.stderr_has("`seckill pause 1 --withdraw-stock`");
    json_call(&redis, SECKILL, "deduct 1 --user 7").code(3).stdout_has("paused");
    assert_eq!(buy_hash(&redis, "1", "7", 1, 9).0, 1, "the plain script still sells");
    let dry = json_call(&redis, SECKILL, "pause 1 --withdraw-stock --dry-run").code(0);
    dry.stderr_has("9 units of `1` would be withdrawn");
    assert_eq!(redis.int(&SECKILL.stock("1")), 9);
    assert_eq!(said(&redis, SECKILL, "pause 1 --withdraw-stock", 0), ["1 ok paused"]);
    assert_eq!(said(&redis, SECKILL, "pause 1", 0), ["1 replayed paused"]);
    assert_eq!(buy_hash(&redis, "1", "7", 1, 9).0, 0);
}

#[test]
fn each_of_several_has_its_status_and_a_foreign_one_a_hint() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        for id in ["1", "2"] {
            json_call(&redis, layout, &format!("preheat --id {id} --stock 5")).code(0);
        }
        redis.cmd(("SET", layout.stock("foreign"), 5));
        redis.cmd(("RPUSH", layout.stock("corrupt"), 5));
        redis.set_rule(&layout.meta("2"), "total", "many");
        let before = redis.dump_all();
        for line in ["pause gone foreign 2", "pause gone foreign 2 --withdraw-stock", "resume gone foreign 2"] {
            let outcome = json_call(&redis, layout, line).code(3);
            assert_eq!(rows(&outcome.json()), ["gone not_preheated -", "foreign not_preheated -", "2 corrupt -"]);
            outcome.stderr_has("--id foreign --adopt").stderr_lacks("--id gone").stderr_has(&layout.meta("2"));
        }
        redis.assert_unchanged_since(&before);
        assert_eq!(said(&redis, layout, "pause 2 gone 1", 3)[2], "1 ok paused", "{layout:?}");
        assert_eq!(said(&redis, layout, "resume 1 1", 0), ["1 ok live", "1 replayed live"], "{layout:?}");
    }
}

#[test]
fn a_pattern_or_all_pauses_after_one_question_that_names_them() {
    let redis = TestRedis::start();
    for id in ["sku-1", "sku-2", "other"] {
        json_call(&redis, SECKILL, &format!("preheat --id {id} --stock 5")).code(0);
    }
    let before = redis.dump_all();
    let asked = redis.seckill(["pause", "sku-*"]).code(2);
    asked.stderr_has("needs confirmation, but stdin is no terminal: Pause 2 activities (`sku-1`, `sku-2`) on `unix:");
    redis.seckill(["pause", "--all"]).at_terminal("n\n").code(1).stdout_has("(`other`, `sku-1`, `sku-2`)");
    redis.seckill(["pause", "x*", "--yes"]).code(3).stderr_has("no preheated activity fits `x*`");
    redis.seckill(["pause"]).code(2).stderr_has("usage: seckill pause [OPTIONS] ACTIVITY...|--all");
    assert_eq!(said(&redis, SECKILL, "pause --all --dry-run", 0).len(), 3, "a dry run does not ask");
    redis.assert_unchanged_since(&before);
    redis.seckill(["pause", "sku-*"]).at_terminal("y\n").code(0);
    let all = said(&redis, SECKILL, "pause --all --yes", 0);
    assert_eq!(all, ["other ok paused", "sku-1 replayed paused", "sku-2 replayed paused"]);
    assert_eq!(said(&redis, SECKILL, "resume sku-2 sku-* --yes", 0), ["sku-2 ok live", "sku-1 ok live"]);
}

#[test]
fn several_activities_may_be_named_by_a_pattern_wherever_they_are_named() {
    let redis = TestRedis::start();
    for id in ["sku-1", "sku-2", "other"] {
        json_call(&redis, SECKILL, &format!("preheat --id {id} --stock 5")).code(0);
    }
    for line in ["reconcile sku-*", "ledger sku-*", "inspect sku-*", "ledger trim sku-* --before 1h --yes"] {
        let value = json_call(&redis, SECKILL, line).code(0).json();
        let rows = value.get("activities").unwrap_or(&value);
        let named: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["activity"].as_str().unwrap()).collect();
        assert_eq!(named, ["sku-1", "sku-2"], "{line}");
    }
    json_call(&redis, SECKILL, "pause sku-* --yes").code(0);
    let folder = tempfile::tempdir().unwrap();
    let archive = json_call(&redis, SECKILL, &format!("archive sku-* --yes --to {}", folder.path().display()));
    assert_eq!(archive.code(0).json().as_array().unwrap().len(), 2);
    for line in ["reconcile x*", "expire x*", "ledger x*", "doctor x*", "archive x* --to /tmp"] {
        json_call(&redis, SECKILL, line).code(3).stderr_has("no preheated activity fits");
    }
    json_call(&redis, SECKILL, "reconcile sku-* --total 5").code(2).stderr_has("`--total` is of one activity");
}

#[test]
fn a_missing_activity_names_its_layout_and_a_lost_stock_its_way_out() {
    let redis = TestRedis::start();
    json_call(&redis, SKU, "preheat --id 1 --stock 5").code(0);
    redis.seckill(["pause", "1"]).code(3).stderr_has("add `--layout sku`");
    json_call(&redis, SECKILL, "preheat --id 2 --stock 5").code(0);
    json_call(&redis, SECKILL, "pause 2 --withdraw-stock").code(0);
    redis.cmd(("DEL", SECKILL.stock("2")));
    let before = redis.dump_all();
    for line in ["resume 2", "pause 2 --withdraw-stock"] {
        json_call(&redis, SECKILL, line).code(3).stderr_has("stock key").stderr_has("reconcile 2 --fix");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_resume_whose_reply_is_lost_returns_the_stock_once() {
    for fault in [Fault::LoseReply, Fault::CutReply(2), Fault::LoseRequest] {
        let redis = TestRedis::start();
        json_call(&redis, SECKILL, "preheat --id 1 --stock 5").code(0);
        let proxy = Proxy::before(&redis);
        for (line, stock) in [("pause 1 --withdraw-stock", 0), ("resume 1", 5)] {
            redis.seckill(["script", "load"]).code(0);
            proxy.inject(When::Next("EVALSHA"), fault);
            proxy.seckill([]).args(line.split(' ')).code(0);
            assert_eq!(redis.int(&SECKILL.stock("1")), stock, "{line} {fault:?}");
        }
        assert_eq!(redis.hget(&SECKILL.meta("1"), "withdrawn"), None);
        assert_eq!(redis.xrange(&SECKILL.ledger("1")).len(), 3, "{fault:?}");
    }
}

#[test]
fn what_was_paused_before_a_failure_is_reported() {
    let redis = TestRedis::start();
    for id in ["1", "2"] {
        json_call(&redis, SECKILL, &format!("preheat --id {id} --stock 5")).code(0);
    }
    redis.cmd(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "+@all", "~seckill:*:1"]);
    let call = redis.seckill(["-o", "json", "pause", "1", "2"]).env("SECKILL_PASSWORD", "pw");
    let url = format!("{}?user=op", redis.url());
    let outcome = call.env("SECKILL_URL", &url).code(4);
    assert_eq!(rows(&outcome.json()), ["1 ok paused"]);
    assert_eq!(redis.rule(&SECKILL.meta("2"), "state").as_deref(), Some("live"));
}

#[test]
fn the_ledger_shows_the_units_that_were_withdrawn_and_returned() {
    let redis = TestRedis::start();
    json_call(&redis, SECKILL, "preheat --id 1 --stock 5").code(0);
    for line in ["pause 1", "pause 1 --withdraw-stock", "resume 1"] {
        json_call(&redis, SECKILL, line).code(0);
    }
    let rows = json_call(&redis, SECKILL, "ledger 1").code(0).json();
    let shown: Vec<String> = rows.as_array().unwrap()[1..]
        .iter()
        .map(|row| format!("{} {} {}", row["op"].as_str().unwrap(), row["quantity"], row["stock"]))
        .collect();
    assert_eq!(shown, ["pause null 5", "pause 5 5", "resume 5 5"]);
}

#[test]
fn a_user_with_what_the_headers_name_can_withdraw_and_return() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 5").code(0);
        json_call(&redis, layout, "deduct 1 --user 7 --quantity 1").code(0);
        let header = |name: &'static str| {
            let text = crate::support::scripts::shown(name);
            let needs = text.split("Commands it needs").nth(1).unwrap().split("]]").next().unwrap();
            let words = needs.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 2);
            words.filter(|word| word.chars().all(|c| c.is_ascii_uppercase())).map(|word| format!("+{word}")).collect()
        };
        for (script, line) in
            [("pause", "pause 1 --withdraw-stock"), ("refund", "refund 1 --user 7 --quantity 1"), ("pause", "resume 1")]
        {
            let commands: Vec<String> = header(script);
            let mut rules: Vec<&str> = vec!["ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "+evalsha", "+eval"];
            rules.extend(commands.iter().map(String::as_str));
            redis.cmd(&rules[..]);
            let url = format!("{}?user=op", redis.url());
            let call = json_call(&redis, layout, line).env("SECKILL_URL", &url).env("SECKILL_PASSWORD", "pw");
            call.code(0).stdout_has("ok");
        }
        assert_eq!(redis.int(&layout.stock("1")), 5, "{layout:?}");
    }
}
