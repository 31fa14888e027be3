//! The plan is what is applied: fields that are not given stay, in the plan, the result and the stored values.

use crate::support::layout::json_call;
use crate::support::{Fault, LAYOUTS, Proxy, SECKILL, TestRedis, When};

#[test]
fn a_field_that_is_not_given_is_shown_as_such_and_an_update_keeps_it() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let create = ["preheat", "--id", "1", "--stock", "10", "--title", "phone", "-l", layout.name];
        redis.seckill(create).args(["--ends-at", "2200-01-01T00:00:00Z"]).code(0);
        let meta = redis.meta(&layout.meta("1"));
        let exists = json_call(&redis, layout, "preheat --id 1 --stock 12").code(3);
        let exists = exists.stderr_has("1: stock `10` → `12`").stderr_has("1: title `phone` is not given");
        let exists =
            exists.stderr_has("1: ends_at 2200-01-01T00:00:00").stderr_lacks("none").stderr_lacks("7258118400000");
        assert_eq!(exists.json()[0]["total"], 10, "{layout:?}: what is stored");

        let update = json_call(&redis, layout, "preheat --id 1 --stock 12 --update").code(0);
        let update = update.stderr_has("1: stock `10` → `12`").stderr_lacks("title").stderr_lacks("ends_at");
        assert_eq!(update.json()[0]["total"], 12);
        let mut expected = meta;
        expected.insert("total".to_owned(), "12".to_owned());
        assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}");
        // The hint leads out: nothing that was given differs any more.
        json_call(&redis, layout, "preheat --id 1 --stock 12").code(3).stderr_has("`--update` keeps what is not given");
        let row = json_call(&redis, layout, "preheat --id 1 --stock 12 --update").code(0).json()[0].clone();
        assert_eq!(row["action"], "unchanged", "{layout:?}");
    }
}

#[test]
fn an_update_keeps_the_limit_and_the_ledger_and_shows_them() {
    let redis = TestRedis::start();
    let fixture = "activities: [{id: 1, stock: 5, per_user_limit: 2, ledger: false}]";
    redis.seckill(["preheat", "-"]).stdin(fixture).code(0);
    let refused = redis.seckill(["preheat", "--id", "1", "--stock", "6"]).code(3);
    refused.stderr_has("1: per_user_limit `2` is not given").stderr_has("1: ledger `false` is not given");
    let row = json_call(&redis, SECKILL, "preheat --id 1 --stock 6 --update").code(0).json()[0].clone();
    assert_eq!((&row["per_user_limit"], &row["action"]), (&2.into(), &"update".into()));
    let meta = redis.meta("seckill:meta:1");
    assert_eq!((meta["per_user_limit"].as_str(), meta["ledger"].as_str(), meta["total"].as_str()), ("2", "0", "6"));
    assert!(!redis.exists("seckill:ledger:1"));
}

#[test]
fn a_person_sees_what_a_pipe_sees_and_the_plan_only_to_answer_a_question() {
    let redis = TestRedis::start();
    let update = ["preheat", "--id", "1", "--stock", "8", "--update"];
    let call = |line: &str, answer: &str| redis.seckill([]).args(line.split(' ')).at_terminal(answer).code(0);
    call("preheat --id 1 --stock 5", "").stdout_has("create").stdout_lacks("Plan");
    let piped = redis.seckill(update).args(["--dry-run"]).code(0);
    assert_eq!(piped.stdout.matches("5 → 8").count() + piped.stderr.matches("stock `5` → `8`").count(), 3, "{piped:?}");
    let seen = redis.seckill(update).at_terminal("").code(0);
    assert_eq!(seen.stdout.matches("stock `5` → `8`").count(), 1, "{}", seen.stdout);
    seen.stdout_has("ok      5 → 8  5 → 8      -").stdout_lacks("Plan");
    call("preheat --id 1 --stock 9 --reset -y", "").stdout_has("reset").stdout_lacks("Plan");
    call("preheat --id 1 --stock 7 --reset -q", "y\n").stdout_has("Plan").stdout_has("Reset `1` (0 of 9 units sold");
}

#[test]
fn an_update_changes_withdrawn_units_instead_of_the_stock() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 10").code(0);
        json_call(&redis, layout, "deduct 1 --user 7").code(0);
        redis.cmd(("SET", layout.stock("1"), "0"));
        redis.set_rule(&layout.meta("1"), "state", "paused");
        redis.cmd(("HSET", layout.meta("1"), "withdrawn", "9"));
        let row = json_call(&redis, layout, "preheat --id 1 --stock 15 --update").code(0).json()[0].clone();
        assert_eq!((row["stock_before"].as_u64(), row["stock"].as_u64()), (Some(9), Some(14)), "{layout:?}");
        assert_eq!(redis.hget(&layout.meta("1"), "withdrawn").as_deref(), Some("14"));
        json_call(&redis, layout, "preheat --id 1 --stock 1 --update").code(0);
        let before = redis.dump_all();
        assert_eq!(redis.hget(&layout.meta("1"), "withdrawn").as_deref(), Some("0"));
        let row = json_call(&redis, layout, "preheat --id 1 --stock 0 --update").code(3).json()[0].clone();
        assert_eq!(row["status"], "out_of_stock", "{layout:?}");
        assert_eq!(redis.int(&layout.stock("1")), 0, "{layout:?}: nothing is for sale meanwhile");
        redis.assert_unchanged_since(&before);
        // Units that a plain script gave back meanwhile are taken last.
        redis.set_rule(&layout.meta("1"), "total", "6");
        redis.cmd(("HSET", layout.meta("1"), "withdrawn", "2"));
        redis.cmd(("SET", layout.stock("1"), "3"));
        json_call(&redis, layout, "preheat --id 1 --stock 2 --update").code(0);
        let left = (redis.int(&layout.stock("1")), redis.hget(&layout.meta("1"), "withdrawn"));
        assert_eq!(left, (1, Some("0".to_owned())), "{layout:?}");
    }
}

#[test]
fn if_total_updates_only_what_nobody_changed() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let call = |line: &str| json_call(&redis, layout, line);
        call("preheat --id 1 --stock 10").code(0);
        call("preheat --id 1 --stock 12 --update --if-total 10").code(0);
        for dry in ["", " --dry-run"] {
            let refused = call(&format!("preheat --id 1 --stock 14 --update --if-total 10{dry}")).code(3);
            let refused = refused.stderr_has("1: its total is `12`, not `10`").stderr_has("--if-total 12");
            assert_eq!((&refused.json()[0]["status"], &refused.json()[0]["total"]), (&"exists".into(), &12.into()));
        }
        assert_eq!(redis.int(&layout.stock("1")), 12, "{layout:?}");
        let absent = call("preheat --id 2 --stock 14 --update --if-total 10").code(3).json();
        assert_eq!(absent[0]["status"], "not_preheated", "{layout:?}");
        for (flags, why) in [("", "--update"), (" --reset", "--reset"), (" --update --if-total -1", "--if-total")] {
            call(&format!("preheat --id 1 --stock 14 --if-total 12{flags}")).code(2).stderr_has(why);
        }
    }
}

#[test]
fn one_field_is_changed_without_naming_the_total() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let call = |line: &str| json_call(&redis, layout, line);
        call("preheat --id 1 --stock 10 --title phone --starts-at 2020-01-01").code(0);
        call("deduct 1 --user 7").code(0);
        let mut expected = redis.meta(&layout.meta("1"));
        let line = "preheat --id 1 --ends-at 2200-01-01T00:00:00Z --update";
        let dry = call(&format!("{line} --dry-run")).code(0).stderr_has("1: ends_at none → 2200-01-01T");
        assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}: {}", dry.stdout);
        let row = call(line).code(0).stderr_lacks("stock").json()[0].clone();
        assert_eq!((&row["action"], &row["total"], &row["stock"]), (&"update".into(), &10.into(), &9.into()));
        expected.insert("ends_at".to_owned(), "7258118400000".to_owned());
        assert_eq!(redis.meta(&layout.meta("1")), expected, "{layout:?}");
        assert_eq!(call(line).code(0).json()[0]["action"], "unchanged", "{layout:?}");
        // An empty title is none.
        redis.seckill(["preheat", "--id", "1", "--title", "", "--update", "-l", layout.name]).code(0);
        assert_eq!(call("inspect 1").code(0).json()[0]["title"], serde_json::Value::Null);
        call("preheat --id 1 --update --if-total 9 --ends-at 2199-01-01")
            .code(3)
            .stderr_has("its total is `10`, not `9`");
        call("preheat --id 1 --update --if-total 10 --ends-at 2199-01-01").code(0);
        assert_eq!(redis.int(&layout.stock("1")), 9, "{layout:?}");
    }
}

#[test]
fn an_update_that_names_no_total_creates_nothing_and_says_what_it_needs() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:foreign", 5));
    let before = redis.dump_all();
    let call = |line: &str| json_call(&redis, SECKILL, line);
    let absent = call("preheat --id 1 --title phone --update").code(3).json();
    assert_eq!(absent[0]["status"], "not_preheated");
    call("preheat --id foreign --title phone --update").code(3).stderr_has("--adopt` takes it over");
    call("preheat --id 1 --update").code(2).stderr_has("nothing is given that could change").stderr_has("--ends-at");
    call("preheat --id 1 --title phone").code(2).stderr_has("--stock");
    call("preheat --id 1 --title phone --reset").code(2).stderr_has("--stock");
    call("preheat --id 1 --stock 5 --adopt").code(2).stderr_has("--adopt");
    redis.assert_unchanged_since(&before);
}

/// Another caller changes the total before each step of the update in turn.
#[test]
fn a_total_that_is_not_named_stays_what_others_made_it() {
    let update = ["preheat", "--id", "1", "--title", "phone", "--update", "-o", "json"];
    let preheated = || {
        let redis = TestRedis::start();
        redis.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
        redis
    };
    let undisturbed = preheated();
    let proxy = Proxy::before(&undisturbed);
    proxy.seckill(update).code(0);
    let steps = proxy.commands().len();
    assert!(steps > 3, "{:?}", proxy.commands());
    for step in 1..=steps {
        let redis = preheated();
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(step), Fault::Hold);
        let call = proxy.seckill(update).spawn();
        proxy.wait_until_held();
        redis.seckill(["preheat", "--id", "1", "--stock", "12", "--update"]).code(0);
        proxy.release();
        call.wait().code(0);
        let meta = redis.meta("seckill:meta:1");
        assert_eq!((meta["total"].as_str(), meta["title"].as_str()), ("12", "phone"), "{step}");
        assert_eq!(redis.int("seckill:stock:1"), 12, "{step}");
    }
}

/// Whichever reply is lost: the total that it had before is then gone because this very call changed it.
#[test]
fn an_update_whose_reply_is_lost_is_not_taken_for_somebody_elses() {
    for number in 1.. {
        let redis = TestRedis::start();
        redis.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(number), Fault::LoseReply);
        let update = ["preheat", "--id", "1", "--stock", "12", "--update", "--if-total", "10", "-o", "json"];
        let row = proxy.seckill(update).code(0).json()[0].clone();
        assert_eq!((&row["action"], redis.int("seckill:stock:1")), (&"update".into(), 12), "{number}: {row}");
        assert!(["ok", "replayed"].contains(&row["status"].as_str().unwrap()), "{number}: {row}");
        if proxy.commands().len() < number {
            assert!(number > 3, "{number}");
            break;
        }
    }
}
