//! What people read, and what programs get.

use crate::support::{TestRedis, seckill};

#[test]
fn nothing_is_written_and_no_password_is_read_or_shown() {
    let redis = TestRedis::with(["--requirepass", "hush-hush", "--masterauth", "also-secret"]);
    let call = |args: &[&str]| redis.seckill([]).args(args).env("SECKILL_PASSWORD", "hush-hush");
    call(&["preheat", "--id", "1", "--stock", "5"]).code(0);
    let before = redis.dump_all();
    let shown = call(&["doctor", "-o", "json", "-v"]).code(3);
    for secret in ["hush-hush", "also-secret"] {
        assert!(!shown.stdout.contains(secret) && !shown.stderr.contains(secret));
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_table_fits_80_columns_but_for_what_is_pasted() {
    let redis = TestRedis::selling("1", 5);
    redis.cmd(("EXPIRE", "seckill:stock:1", 100));
    let outcome = redis.seckill(["doctor"]).env("COLUMNS", "80").code(3);
    for line in outcome.stdout.lines().filter(|line| !line.starts_with("    $ ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // What is wrong comes with its reason once, then each target with its fix; the worst first.
    let (fails, warns) = outcome.stdout.split_once("\nwarn ").unwrap();
    assert!(fails.contains("\nfail persistence\n") && fails.contains("\nfail expiry\n") && !warns.contains("\nfail "));
    outcome
        .stdout_has("    $ ")
        .stdout_has(" PERSIST seckill:stock:1\n")
        .stdout_has(" fail, ")
        .stderr_has("CONFIG REWRITE");
}

#[test]
fn each_format_has_the_same_fields() {
    let redis = TestRedis::start();
    let header = "check,target,status,found,why,fix\n";
    redis.seckill(["doctor", "-o", "csv"]).code(3).stdout_has(header).stderr("");
    let rows = redis.seckill(["doctor", "-o", "jsonl"]).code(3).jsonl();
    let fields: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 6);
    assert!(rows.iter().all(|row| row["fix"].is_null() == ["ok", "skip"].contains(&row["status"].as_str().unwrap())));
}

#[test]
fn a_server_that_cannot_be_reached_is_exit_5() {
    seckill(["doctor"]).code(5).stdout_is("").stderr_has("cannot reach");
}

#[test]
fn what_is_right_is_shown_whole_on_80_columns() {
    let redis = TestRedis::start();
    let rows = redis.seckill(["doctor", "-o", "jsonl"]).code(3).jsonl();
    let shown = redis.seckill(["doctor"]).env("COLUMNS", "80").code(3).stdout;
    let table = shown.split("\n\n").next().unwrap();
    let words: Vec<&str> = table.split_whitespace().collect();
    for row in rows.iter().filter(|row| row["check"] == "output_buffers" || row["check"] == "scripts") {
        let found = row["found"].as_str().unwrap();
        let last = found.rsplit(' ').next().unwrap();
        assert!(row["status"] == "ok" && words.contains(&last), "{found}: {table}");
    }
}
