//! `none` (in a fixture `null`) clears the limit or one end of the window of a live sale, and nothing else.

use crate::support::layout::json_call;
use crate::support::{CLUSTER, Fault, LAYOUTS, Layout, Proxy, SECKILL, TestRedis, When};

const WINDOW: &str = "--starts-at 2020-01-01T00:00:00Z --ends-at 2200-01-01T00:00:00Z";

/// A sale with title, window and, where users have one, a limit; one unit is sold.
fn sale(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    let limit = if layout.kind == "hash" { "--per-user-limit 2" } else { "" };
    json_call(&redis, layout, &format!("preheat --id 1 --stock 10 --title phone {WINDOW} {limit}")).code(0);
    json_call(&redis, layout, "deduct 1 --user 7").code(0);
    redis
}

#[test]
fn none_clears_one_field_of_a_live_sale_and_keeps_the_others() {
    for layout in LAYOUTS {
        let fields = [("ends_at", "--ends-at"), ("starts_at", "--starts-at"), ("per_user_limit", "--per-user-limit")];
        for (field, option) in fields {
            if field == "per_user_limit" && layout.kind != "hash" {
                continue;
            }
            let redis = sale(layout);
            let line = format!("preheat --id 1 --update {option} none");
            let mut expected = redis.meta(&layout.meta("1"));
            let before = redis.dump_all();
            let dry = json_call(&redis, layout, &format!("{line} --dry-run")).code(0);
            dry.stderr_has(&format!("1: {field} ")).stderr_has("→ none");
            redis.assert_unchanged_since(&before);

            let done = json_call(&redis, layout, &line).code(0).stderr_has("→ none").stderr_lacks("title");
            let row = done.json()[0].clone();
            assert_eq!((&row["action"], &row["total"], &row["stock"]), (&"update".into(), &10.into(), &9.into()));
            if field == "per_user_limit" {
                assert!(row["per_user_limit"].is_null(), "{row}");
            }
            assert!(expected.remove(field).is_some(), "{layout:?}: {field} was set");
            assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}: {field}");
            let entries = redis.xrange(&layout.ledger("1"));
            let last = &entries.last().unwrap().1;
            assert_eq!((last["op"].as_str(), last["total"].as_str(), last["stock"].as_str()), ("update", "10", "9"));

            let before = redis.dump_all();
            let again = json_call(&redis, layout, &line).code(0).json()[0].clone();
            assert_eq!((&again["action"], &again["status"]), (&"unchanged".into(), &"ok".into()), "{layout:?}");
            redis.assert_unchanged_since(&before);
            json_call(&redis, layout, "reconcile 1").code(0);
        }
    }
}

#[test]
fn a_buyer_may_go_on_once_limit_and_window_are_cleared() {
    let redis = sale(SECKILL);
    let call = |line: &str| json_call(&redis, SECKILL, line);
    call("preheat --id 1 --update --starts-at 2199-01-01T00:00:00Z").code(0);
    assert_eq!(call("deduct 1 --user 8").code(3).json()["status"], "not_started");
    call("preheat --id 1 --update --starts-at none").code(0);
    call("deduct 1 --user 8 --quantity 2").code(0);
    assert_eq!(call("deduct 1 --user 8").code(3).json()["status"], "limit_exceeded");
    call("preheat --id 1 --update --per-user-limit none --stock 20 --if-total 9").code(3);
    call("preheat --id 1 --update --per-user-limit none --stock 20 --if-total 10").code(0);
    assert_eq!(call("deduct 1 --user 8 --quantity 5").code(0).json()["stock"], 12);
    call("preheat --id 1 --update --per-user-limit 3").code(0);
    assert_eq!(call("deduct 1 --user 9 --quantity 4").code(3).json()["status"], "limit_exceeded");
}

#[test]
fn a_creation_takes_none_for_a_field_that_is_not_given() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let line = "preheat --id 1 --stock 5 --starts-at none --ends-at none";
        assert_eq!(json_call(&redis, layout, line).code(0).json()[0]["action"], "create", "{layout:?}");
        let row = json_call(&redis, layout, "preheat --id 1 --stock 5").code(0).json()[0].clone();
        assert_eq!(row["action"], "unchanged", "{layout:?}");
        // Without `--update` a live sale keeps what it has: it differs.
        json_call(&redis, layout, "preheat --id 1 --update --ends-at 2200-01-01T00:00:00Z").code(0);
        json_call(&redis, layout, line).code(3).stderr_has("1: ends_at 2200-01-01T00:00:00").stderr_has("→ none");
        // A reset that says it removes nothing behind the operator's back.
        let reset =
            json_call(&redis, layout, &format!("{line} --reset --yes")).code(0).stderr_lacks("so it is removed");
        assert_eq!(reset.json()[0]["action"], "reset");
        assert_eq!(redis.meta(&layout.meta("1")).get("ends_at"), None);
    }
}

#[test]
fn a_layout_that_records_a_user_once_keeps_its_limit_of_1() {
    for layout in LAYOUTS.into_iter().filter(Layout::records_once) {
        let redis = sale(layout);
        let before = redis.dump_all();
        let flag = json_call(&redis, layout, "preheat --id 1 --update --per-user-limit none").code(2);
        flag.stderr_has("per_user_limit none of `1`").stderr_has("records a user once, so it can only be 1");
        let fixture = format!("layout: {}\nactivities: [{{id: 1, stock: 10, per_user_limit: null}}]", layout.name);
        let file = redis.seckill(["preheat", "-", "--update"]).stdin(fixture).code(2);
        file.stderr_has("per_user_limit: `null` is not 1").stderr_has("hint: write 1");
        let list = redis.seckill(["-l", layout.name, "preheat", "--update", "--from", "-"]);
        let list = list.stdin("id,stock,per_user_limit\n1,10,none\n").code(2);
        list.stderr_has("it can only be 1");
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn null_in_a_fixture_clears_and_an_absent_field_stays() {
    for layout in LAYOUTS {
        let redis = sale(layout);
        let fixture = |fields: &str| format!("layout: {}\nactivities: [{{id: 1, stock: 10{fields}}}]", layout.name);
        let update = |fields: &str| redis.seckill(["preheat", "-", "--update", "-o", "json"]).stdin(fixture(fields));
        let mut expected = redis.meta(&layout.meta("1"));
        assert_eq!(update("").code(0).json()[0]["action"], "unchanged", "{layout:?}");
        for field in ["starts_at", "ends_at"] {
            assert_eq!(update(&format!(", {field}: null")).code(0).json()[0]["action"], "update", "{layout:?}");
            expected.remove(field);
            assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}: {field}");
        }
        if layout.kind != "set" && layout.kind != "coupon" {
            update(", per_user_limit: ~").code(0);
            assert_eq!(redis.meta(&layout.meta("1")).get("per_user_limit"), None, "{layout:?}");
        }
    }
    let redis = TestRedis::start();
    let null = "activities: [{id: 1, stock: 10, per_user_limit: null, starts_at: null, ends_at: null}]";
    redis.seckill(["preheat", "-"]).stdin(null).code(0).stdout_has("create");
    assert_eq!(redis.hget("seckill:meta:1", "rules").as_deref(), Some("live 1 1 - 10 - -"));
}

#[test]
fn none_in_a_cell_of_a_list_clears_and_an_empty_cell_keeps() {
    let redis = TestRedis::start();
    for id in ["1", "2"] {
        let line = format!("preheat --id {id} --stock 10 --per-user-limit 2 {WINDOW}");
        json_call(&redis, SECKILL, &line).code(0);
    }
    let text = "id,stock,per_user_limit,starts_at,ends_at,title\n1,10,none,,none,none\n2,10,,none,,\n";
    redis.seckill(["preheat", "--update", "--from", "-"]).stdin(text).code(0);
    let rules = |id: &str| redis.hget(&SECKILL.meta(id), "rules").unwrap();
    assert_eq!(rules("1"), "live 1 1 - 10 1577836800000 -");
    assert_eq!(rules("2"), "live 1 1 2 10 - 7258118400000");
    assert_eq!(redis.hget("seckill:meta:1", "title").as_deref(), Some("none"), "a title may be any text");
}

#[test]
fn all_shards_and_the_parent_lose_the_field() {
    let redis = TestRedis::start();
    let line = format!("preheat --id 1 --stock 10 --shards 4 --title phone --per-user-limit 2 {WINDOW}");
    json_call(&redis, CLUSTER, &line).code(0);
    json_call(&redis, CLUSTER, "deduct 1 --user 7 --quantity 2").code(0);
    let clear = "preheat --id 1 --update --per-user-limit none --ends-at none";
    let dry = json_call(&redis, CLUSTER, &format!("{clear} --dry-run")).code(0);
    dry.stderr_has("1: per_user_limit `2` → none").stderr_has("1: ends_at 2200-01-01T00:00:00");
    let row = json_call(&redis, CLUSTER, clear).code(0).json()[0].clone();
    assert_eq!((&row["action"], &row["stock"], row["per_user_limit"].is_null()), (&"update".into(), &8.into(), true));
    let meta = redis.hgetall(&CLUSTER.meta("1"));
    assert_eq!(meta["rules"], "live 1 1 - 10 1577836800000 -");
    for shard in meta["shards"].split(' ') {
        let shard = redis.hgetall(&CLUSTER.meta(&format!("1#{shard}")));
        assert!(shard["rules"].starts_with("live 1 1 - ") && shard["rules"].ends_with(" 1577836800000 -"), "{shard:?}");
        assert_eq!(shard["title"], "phone");
    }
    assert_eq!(json_call(&redis, CLUSTER, clear).code(0).json()[0]["action"], "unchanged");
    json_call(&redis, CLUSTER, "deduct 1 --user 7 --quantity 5").code(0);
    let fixture = "layout: cluster\nactivities: [{id: 1, stock: 10, shards: 4, starts_at: null}]";
    redis.seckill(["preheat", "-", "--update"]).stdin(fixture).code(0);
    assert_eq!(redis.hgetall(&CLUSTER.meta("1"))["rules"], "live 1 1 - 10 - -");
    json_call(&redis, CLUSTER, "reconcile 1").code(0);
}

#[test]
fn a_lost_reply_of_any_command_clears_once() {
    for (layout, shards) in [(SECKILL, ""), (CLUSTER, "--shards 2")] {
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            for step in 1.. {
                let redis = TestRedis::start();
                let line = format!("preheat --id 1 --stock 10 --per-user-limit 2 {WINDOW} {shards}");
                json_call(&redis, layout, &line).code(0);
                let proxy = Proxy::before(&redis);
                proxy.inject(When::Nth(step), fault);
                let clear = "preheat --id 1 --update --ends-at none --per-user-limit none";
                let call = proxy.seckill(["-l", layout.name, "-o", "json"]).args(clear.split(' '));
                let ended = call.run();
                // What only reads is not always read again on another connection: the operator repeats it.
                if ended.status.code() == Some(0) {
                    let row = ended.json()[0].clone();
                    assert_eq!(
                        (&row["action"], &row["stock"]),
                        (&"update".into(), &10.into()),
                        "{fault:?} {step}: {row}"
                    );
                } else {
                    assert_eq!(ended.status.code(), Some(5), "{fault:?} {step}: {}", ended.stderr);
                    json_call(&redis, layout, clear).code(0);
                }
                let rules = redis.hget(&layout.meta("1"), "rules").unwrap();
                assert_eq!(rules, "live 1 1 - 10 1577836800000 -", "{layout:?} {fault:?} {step}");
                if shards.is_empty() {
                    assert_eq!(redis.xrange(&layout.ledger("1")).len(), 2, "{fault:?} {step}: one update");
                }
                if proxy.commands().len() < step {
                    assert!(step > 3, "{step}");
                    break;
                }
            }
        }
    }
}

#[test]
fn an_adoption_clears_what_a_meta_says() {
    let redis = sale(SECKILL);
    redis.cmd(("DEL", "seckill:ledger:1"));
    json_call(&redis, SECKILL, "preheat --id 1 --adopt --yes --per-user-limit none --ends-at none").code(0);
    let rules = redis.hget("seckill:meta:1", "rules").unwrap();
    assert_eq!(rules, "live 1 1 - 10 1577836800000 -");
}

#[test]
fn what_is_no_value_is_refused_with_what_clears_it() {
    let redis = sale(SECKILL);
    let before = redis.dump_all();
    for (option, text, part) in [
        ("--per-user-limit", "nothing", "`nothing` is not a whole number from 1 to 9007199254740991"),
        ("--per-user-limit", "0", ", or none"),
        ("--per-user-limit", "", ", or none"),
        ("--ends-at", "nothing", "`nothing` is not a time"),
        ("--starts-at", "None", ", or none"),
        ("--ends-at", "null", ", or none"),
    ] {
        redis.seckill(["preheat", "--id", "1", "--update", option, text]).code(2).stdout_is("").stderr_has(part);
    }
    for (field, hint) in [
        ("per_user_limit: none", "write `per_user_limit: null` for none"),
        ("ends_at: none", "write `ends_at: null` for none"),
        ("ends_at: ", "ends_at: has no value"),
        ("starts_at: 'null'", "starts_at: `\"null\"` is not a time"),
    ] {
        let fixture = format!("activities:\n  - id: 1\n    stock: 10\n    {field}\n");
        redis.seckill(["preheat", "-", "--update"]).stdin(fixture).code(2).stderr_has(hint);
    }
    let list = "id,stock,per_user_limit,ends_at\n1,10,null,nothing\n";
    let list = redis.seckill(["preheat", "--update", "--from", "-"]).stdin(list).code(2);
    list.stderr_has(":2:1: per_user_limit: `null` is not").stderr_has(", or none");
    redis.assert_unchanged_since(&before);
}
