//! The options every command takes: where the server is, who logs in, which layout, in what form the answer comes.

use std::os::unix::fs::PermissionsExt;

use crate::support::{TestRedis, seckill};

/// A server with one activity of 10 units.
fn preheated() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "10", "--per-user-limit", "3"]).code(0);
    redis
}

#[test]
fn the_server_is_the_flag_then_seckill_url_then_redis_url() {
    let redis = preheated();
    let nowhere = "unix:///nonexistent/nobody.sock";
    seckill(["inspect", "1001", "-u", &redis.url()]).env("SECKILL_URL", nowhere).code(0);
    seckill(["inspect", "1001"]).env("SECKILL_URL", &redis.url()).env("REDIS_URL", nowhere).code(0);
    seckill(["inspect", "1001"]).without_env("SECKILL_URL").env("REDIS_URL", &redis.url()).code(0);
    seckill(["inspect", "1001"]).env("SECKILL_URL", nowhere).env("REDIS_URL", &redis.url()).code(5);
}

#[test]
fn a_url_that_is_none_is_told_with_an_example() {
    seckill(["inspect", "-u", "http://10.0.0.5"])
        .code(2)
        .stderr_has("`--url`")
        .stderr_has("redis://")
        .stderr_lacks("http");
}

#[test]
fn flags_that_contradict_each_other_are_usage_errors() {
    seckill(["inspect", "--embedded", "-u", "redis://10.0.0.5"]).code(2).stderr_has("--embedded");
    seckill(["inspect", "-q", "-v"]).code(2);
    seckill(["preheat", "--id", "1", "--stock", "1", "--update", "--reset"]).code(2);
    seckill(["refund", "1", "--user", "7", "--all", "--quantity", "2"]).code(2);
}

#[test]
fn a_password_comes_from_a_file_or_the_environment_and_is_never_shown() {
    let redis = TestRedis::with(["--requirepass", "open sesame"]);
    let plain = redis.url().replace(":open%20sesame@", "").split('?').next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "open sesame\n").unwrap();
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "guess").unwrap();
    for path in [&file, &wrong] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    seckill(["inspect", "-u", &plain, "--password-file", file.to_str().unwrap()]).code(0);
    seckill(["inspect", "-u", &plain]).env("SECKILL_PASSWORD", "open sesame").code(0);
    seckill(["inspect", "-u", &plain]).env("REDISCLI_AUTH", "open sesame").code(0);
    seckill(["inspect", "-u", &plain]).env("SECKILL_PASSWORD", "open sesame").env("REDISCLI_AUTH", "guess").code(0);
    seckill(["inspect", "-u", &plain]).code(4).stderr_has("--password-file");
    seckill(["inspect", "-u", &plain, "--password-file", wrong.to_str().unwrap()])
        .code(4)
        .stderr_has("SECKILL_PASSWORD")
        .stderr_lacks("guess");
    seckill(["inspect", "-u", &plain, "--password-file", "/nonexistent"]).code(2).stderr_has("/nonexistent");
}

#[test]
fn a_password_in_the_url_is_masked_in_errors() {
    seckill(["inspect", "-u", "redis://me:se@cret@127.0.0.1:1", "--timeout", "1s"])
        .code(5)
        .stderr_has("redis://me:***@127.0.0.1:1")
        .stderr_lacks("cret@");
}

#[test]
fn the_layout_is_the_flag_then_the_fixture_then_the_environment() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sku.yaml");
    std::fs::write(&file, "layout: sku\nactivities:\n  - {id: 7, stock: 5}\n").unwrap();
    let file = file.to_str().unwrap();

    redis.seckill(["preheat", file]).env("SECKILL_LAYOUT", "coupon").code(0);
    assert!(redis.exists("stock:7"), "the fixture beats the environment");
    redis.seckill(["preheat", file, "-l", "coupon"]).code(2).stderr_has("contradicts the fixture");
    redis.seckill(["preheat", "--id", "8", "--stock", "5"]).env("SECKILL_LAYOUT", "coupon").code(0);
    assert!(redis.exists("coupon:stock:8"), "the environment names the layout");
    redis.seckill(["preheat", "--id", "9", "--stock", "5", "-l", "product"]).env("SECKILL_LAYOUT", "coupon").code(0);
    assert!(redis.exists("product_stock_9"), "the flag beats the environment");
    redis.seckill(["inspect"]).env("SECKILL_LAYOUT", "sets").code(2).stderr_has("SECKILL_LAYOUT").stderr_has("`sets`");
    redis.seckill(["inspect", "-l", "sets"]).code(2);
}

#[test]
fn every_format_tells_the_same_order() {
    let redis = preheated();
    let order = ["deduct", "1001", "--user", "7", "--request", "a"];
    redis.seckill(order).code(0);
    let row = "1001,7,1,replayed,9,1,a\n";
    let header = "activity,user,quantity,status,stock,bought,request\n";
    redis.seckill(order).args(["-o", "csv"]).code(0).stdout_is(&format!("{header}{row}"));
    redis.seckill(order).args(["-o", "tsv"]).code(0).stdout_is(&format!("{header}{row}").replace(',', "\t"));
    let line = r#"{"activity":"1001","user":"7","quantity":1,"status":"replayed","stock":9,"bought":1,"request":"a"}"#;
    redis.seckill(order).args(["-o", "jsonl"]).code(0).stdout_is(&format!("{line}\n"));
    let value = redis.seckill(order).args(["-o", "json"]).code(0).json();
    assert_eq!(value, serde_json::from_str::<serde_json::Value>(line).unwrap());
    redis
        .seckill(order)
        .args(["-o", "yaml"])
        .code(0)
        .stdout_has("activity: \"1001\"")
        .stdout_has("status: replayed")
        .stdout_has("stock: 9");
    redis.seckill(order).env("SECKILL_OUTPUT", "csv").code(0).stdout_is(&format!("{header}{row}"));
    redis.seckill(order).args(["-o", "table"]).env("SECKILL_OUTPUT", "csv").code(0).stdout_has("ACTIVITY");
}

#[test]
fn errors_follow_the_format() {
    for format in ["json", "jsonl", "yaml"] {
        let error = seckill(["inspect", "-o", format]).code(5).error_json();
        assert_eq!(error["code"], 5, "{error}");
        assert!(error["hint"].as_str().unwrap().contains("--url"), "{error}");
    }
    let error = seckill(["deduct", "-o", "json"]).code(2).error_json();
    assert_eq!(error["code"], 2, "{error}");
    seckill(["deduct", "--user", "7"]).env("SECKILL_OUTPUT", "jsonl").code(2).error_json();
    seckill(["inspect"]).code(5).stderr_has("error: ").stderr_has("hint: ");
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let redis = preheated();
    let red = "\u{1b}[";
    redis.seckill(["inspect"]).code(0).stdout_lacks(red);
    redis.seckill(["inspect", "--color", "always"]).code(0).stdout_has(red);
    redis.seckill(["inspect"]).env("CLICOLOR_FORCE", "1").code(0).stdout_has(red);
    redis.seckill(["inspect", "--color", "never"]).env("CLICOLOR_FORCE", "1").code(0).stdout_lacks(red);
    redis.seckill(["inspect"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").code(0).stdout_lacks(red);
    redis.seckill(["inspect", "-o", "csv", "--color", "always"]).code(0).stdout_lacks(red);
}

#[test]
fn quiet_is_quiet_and_verbose_names_the_server() {
    let redis = preheated();
    redis.seckill(["pause", "1001"]).code(0).stderr_has("note: ");
    redis.seckill(["pause", "1001", "-q"]).code(0).stderr("");
    redis.seckill(["inspect", "-v"]).code(0).stderr_has(&redis.url()).stderr_has("seckill");
}

#[test]
fn a_timeout_is_a_duration_above_zero() {
    let redis = preheated();
    redis.seckill(["inspect", "--timeout", "20000ms"]).code(0);
    redis.seckill(["inspect"]).env("SECKILL_TIMEOUT", "20s").code(0);
    for wrong in ["0s", "5", "soon", "-1s"] {
        redis.seckill(["inspect"]).args([format!("--timeout={wrong}")]).code(2).stderr_has("500ms");
    }
    redis.freeze();
    let outcome = redis.seckill(["inspect", "1001", "--timeout", "100ms"]).code(5);
    redis.thaw();
    outcome.stderr_has("did not answer within 100ms").stderr_has("--timeout");
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "100000"]).code(0);
    let users: Vec<String> = (0..50_000).flat_map(|user| [format!("user-{user}"), "1".to_owned()]).collect();
    let mut command = redis::cmd("HSET");
    command.arg("seckill:participants:1").arg(&users).exec(&mut redis.connection()).unwrap();
    for format in ["csv", "jsonl", "table", "json"] {
        redis.seckill(["inspect", "1", "--all", "-o", format]).stdout_closed_after(20).code(0).stderr_lacks("panic");
    }
}

#[test]
fn control_characters_of_a_backend_never_reach_a_table() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:9", 5));
    redis.cmd(("HSET", "seckill:participants:9", "a\u{1b}[2Jb", 1));
    redis.seckill(["inspect", "9"]).code(0).stdout_lacks("\u{1b}").stdout_has("a\\u{1b}[2Jb");
    redis.seckill(["preheat", "--id", "10", "--stock", "1", "--title", "x\u{1b}[31my"]).run();
    redis.seckill(["inspect"]).run().stdout_lacks("\u{1b}");
}

#[test]
fn who_and_why_stand_in_the_ledger() {
    let redis = preheated();
    redis
        .seckill(["deduct", "1001", "--user", "7", "--reason", "gift \"A\""])
        .env("SECKILL_OPERATOR", "ann@night")
        .code(0);
    let (_, entry) = redis.xrange("seckill:ledger:1001").pop().unwrap();
    assert_eq!(entry["by"], "ann@night");
    assert_eq!(entry["reason"], "gift \"A\"");
    redis.seckill(["refund", "1001", "--user", "7"]).without_env("SECKILL_OPERATOR").code(0);
    let (_, entry) = redis.xrange("seckill:ledger:1001").pop().unwrap();
    assert!(entry["by"].contains('@'), "{entry:?}");
}

#[test]
fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let redis = preheated();
    redis.seckill(["deduct", "1001", "--user", "7", "--request", "a"]).code(0);
    let before = redis.dump_all();
    redis
        .seckill(["deduct", "1001", "--user", "7", "--quantity", "2", "--dry-run", "-o", "csv"])
        .code(0)
        .stdout_has(",ok,7,3,");
    redis
        .seckill(["deduct", "1001", "--user", "7", "--quantity", "3", "--dry-run"])
        .code(3)
        .stdout_has("limit_exceeded");
    redis.seckill(["refund", "1001", "--user", "7", "--all", "--dry-run", "-o", "csv"]).code(0).stdout_has(",ok,10,0,");
    redis.seckill(["multi-deduct", "1001=2", "--user", "8", "--dry-run"]).code(0).stdout_has("ok");
    redis.seckill(["pause", "1001", "--dry-run"]).code(0).stdout_has("paused");
    redis.seckill(["resume", "1001", "--dry-run"]).code(0).stdout_has("replayed");
    redis.seckill(["preheat", "--id", "1001", "--stock", "20", "--update", "--dry-run"]).code(0).stdout_has("10 → 20");
    redis.seckill(["preheat", "--id", "1001", "--stock", "20", "--reset", "--dry-run"]).code(0).stdout_has("reset");
    redis.seckill(["preheat", "--id", "5", "--stock", "20", "--dry-run"]).code(0).stdout_has("create");
    redis.assert_unchanged_since(&before);
}

#[test]
fn preheat_takes_every_field_from_flags() {
    let redis = TestRedis::start();
    redis
        .seckill([
            "preheat",
            "--id",
            "7",
            "--stock",
            "50",
            "--per-user-limit",
            "2",
            "--title",
            "手机",
            "--reason",
            "new",
        ])
        .args(["--starts-at", "2026-11-11T00:00:00+08:00", "--ends-at", "2026-11-11T02:00:00+08:00", "-o", "json"])
        .code(0)
        .stdout_has(r#""action":"create""#);
    let meta = redis.meta("seckill:meta:7");
    let wanted = [
        ("ends_at", "1794333600000"),
        ("epoch", "1"),
        ("ledger", "1"),
        ("per_user_limit", "2"),
        ("repairs", "0"),
        ("starts_at", "1794326400000"),
        ("state", "live"),
        ("title", "手机"),
        ("total", "50"),
    ];
    let meta: Vec<(&str, &str)> = meta.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
    assert_eq!(meta, wanted);
    assert_eq!(redis.xrange("seckill:ledger:7")[0].1["reason"], "new");
    redis.seckill(["preheat", "--id", "7"]).code(2).stderr_has("--stock");
    redis.seckill(["preheat", "--stock", "7"]).code(2).stderr_has("--id");
    redis
        .seckill(["preheat", "--id", "8", "--stock", "1"])
        .args(["--starts-at", "2026-11-11T02:00:00+08:00", "--ends-at", "2026-11-11T00:00:00+08:00"])
        .code(2)
        .stderr_has("ends");
    redis.seckill(["preheat", "--id", "8", "--stock", "1", "--starts-at", "tomorrow"]).code(2).stderr_has("today");
}

#[test]
fn preheat_takes_only_the_activities_that_are_named() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "fixtures/double11.yaml", "--activity", "phone", "--activity", "case"]).code(0);
    assert_eq!(redis.smembers("seckill:activities").len(), 2);
    redis.seckill(["preheat", "fixtures/double11.yaml", "--activity", "fridge"]).code(2).stderr_has("`fridge`");
    redis.seckill(["preheat", "fixtures/seckill.yaml", "fixtures/seckill.yaml"]).code(2).stderr_has("more than one");
    redis.seckill(["preheat", "fixtures/seckill.yaml", "fixtures/sku.yaml"]).code(2).stderr_has("layout");
    redis.seckill(["preheat", "-"]).stdin("activities:\n  - {id: 5, stock: 1}\n").code(0);
    assert_eq!(redis.int("seckill:stock:5"), 1);
}

#[test]
fn preheat_warns_of_every_policy_but_noeviction() {
    let redis = TestRedis::start();
    redis.config_set("maxmemory-policy", "allkeys-lru");
    redis.seckill(["preheat", "--id", "1", "--stock", "1"]).code(0).stderr_has("allkeys-lru").stderr_has("noeviction");
    redis.config_set("maxmemory-policy", "noeviction");
    redis.seckill(["preheat", "--id", "2", "--stock", "1"]).code(0).stderr("");
}

#[test]
fn pause_refuses_purchases_only() {
    let redis = preheated();
    redis.seckill(["deduct", "1001", "--user", "7"]).code(0);
    redis.seckill(["pause", "1001", "--reason", "wrong price"]).code(0).stdout_has("paused");
    redis.seckill(["deduct", "1001", "--user", "8"]).code(3).stdout_has("paused");
    redis.seckill(["multi-deduct", "1001=1", "--user", "8"]).code(3).stdout_has("paused");
    redis.seckill(["refund", "1001", "--user", "7"]).code(0);
    redis.seckill(["inspect"]).code(0).stdout_has("paused");
    redis.seckill(["resume", "1001"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "8"]).code(0);
    let ops: Vec<String> =
        redis.xrange("seckill:ledger:1001").into_iter().map(|(_, entry)| entry["op"].clone()).collect();
    assert_eq!(ops, ["preheat", "deduct", "pause", "refund", "resume", "deduct"]);
    redis.seckill(["pause", "1001", "404"]).code(3).stdout_has("not_preheated");
}
