//! Which activities `inspect` shows, in which order, and which it marks.

use crate::support::TestRedis;

/// Five activities: two on sale, one sold out, one paused, one that ended.
fn shop() -> TestRedis {
    let redis = TestRedis::start();
    for (id, stock, bought) in [("sku-1", "100", 5), ("sku-2", "10", 8), ("out", "3", 3), ("halted", "50", 1)] {
        redis.seckill(["preheat", "--id", id, "--stock", stock]).code(0);
        redis.seckill(["deduct", id, "--user", "7", "--quantity", &bought.to_string()]).code(0);
    }
    redis.seckill(["pause", "halted"]).code(0);
    redis.seckill(["preheat", "--id", "over", "--stock", "1", "--ends-at", "2020-01-01T00:00:00Z"]).code(0);
    redis
}

fn shown<const N: usize>(redis: &TestRedis, args: [&str; N]) -> Vec<String> {
    let rows = redis.seckill(args).args(["-o", "jsonl"]).code(0).jsonl();
    rows.iter().map(|row| row["activity"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_pattern_shows_the_activities_that_fit_it() {
    let redis = shop();
    assert_eq!(shown(&redis, ["inspect", "sku-*"]), ["sku-1", "sku-2"]);
    assert_eq!(shown(&redis, ["inspect", "over", "*-[2-9]"]), ["over", "sku-2"]);
    assert_eq!(shown(&redis, ["inspect", "?u?"]), ["out"]);
    // As a list: who bought is shown only with `--top`.
    redis.seckill(["inspect", "sku-*"]).code(0).stdout_lacks("Participants");
    redis.seckill(["inspect", "sku-*", "--top", "1"]).code(0).stdout_has("Participants of sku-2");
    let users = redis.seckill(["inspect", "sku-*", "--user", "7", "-o", "jsonl"]).code(0).jsonl();
    assert_eq!((users.len(), &users[1]["bought"]), (2, &8.into()));
}

#[test]
fn a_pattern_that_nothing_fits_is_refused() {
    let redis = shop();
    redis
        .seckill(["inspect", "shoe-*"])
        .code(3)
        .stdout_is("")
        .stderr_has("no preheated activity fits `shoe-*` in the layout `seckill`")
        .stderr_has("5 are preheated");
    redis.seckill(["inspect", "a[b"]).code(2).stderr_has("`a[b` is no pattern");
}

#[test]
fn an_id_may_hold_the_characters_of_a_pattern() {
    let redis = TestRedis::start();
    for id in ["a*", "ab"] {
        redis.seckill(["preheat", "--id", id, "--stock", "1"]).code(0);
    }
    assert_eq!(shown(&redis, ["inspect", "a*"]), ["a*", "ab"]);
    assert_eq!(shown(&redis, ["inspect", "a[*]"]), ["a*"]);
    // One that only a backend created is in no index, and found by its own name.
    redis.cmd(("SET", "seckill:stock:[x]", 5));
    assert_eq!(shown(&redis, ["inspect", "[x]"]), ["[x]"]);
}

#[test]
fn states_choose_rows_and_the_exit_code_covers_all() {
    let redis = shop();
    assert_eq!(shown(&redis, ["inspect", "--state", "paused,sold_out"]), ["halted", "out"]);
    assert_eq!(shown(&redis, ["inspect", "--state", "ended", "--state", "live"]), ["over", "sku-1", "sku-2"]);
    redis.seckill(["inspect", "--state", "upcoming", "-o", "json"]).code(0).stdout_is("[]\n");
    redis.seckill(["inspect", "--state", "lively"]).code(2).stderr_has("upcoming, live, sold_out");
    redis.cmd(("SET", "seckill:stock:out", "many"));
    let rows = redis.seckill(["inspect", "--state", "live", "-o", "jsonl"]).code(3).jsonl();
    assert_eq!(rows.len(), 2);
    let rows = redis.seckill(["inspect", "--state", "corrupt", "-o", "jsonl"]).code(3).jsonl();
    assert_eq!((rows.len(), &rows[0]["activity"]), (1, &"out".into()));
}

#[test]
fn rows_are_sorted_by_what_matters_first() {
    let redis = shop();
    assert_eq!(shown(&redis, ["inspect", "--sort", "stock"]), ["out", "over", "sku-2", "halted", "sku-1"]);
    assert_eq!(shown(&redis, ["inspect", "--sort", "sold"]), ["sku-2", "sku-1", "out", "halted", "over"]);
    redis.cmd(("DEL", "seckill:stock:sku-2"));
    let rows = redis.seckill(["inspect", "--sort", "sold", "-o", "jsonl"]).code(3).jsonl();
    assert_eq!(rows.last().unwrap()["activity"], "sku-2", "what is not known comes last");
    redis.seckill(["inspect", "--sort", "rate"]).code(2).stderr_has("add `--watch`");
}

#[test]
fn a_low_stock_is_marked_and_exit_3() {
    let redis = shop();
    let low = redis.seckill(["inspect", "--alert-below", "25%", "-o", "csv"]).code(3);
    let low = low.stderr_has("warning: `sku-2` has 2 of 10 units left, below 25%").stderr_lacks("`out`");
    let marks: Vec<&str> = low.stdout.lines().map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(marks, ["alert", "false", "false", "false", "false", "true"], "{}", low.stdout);
    let rows = redis.seckill(["inspect", "--alert-below", "3", "sku-2", "-o", "json"]).code(3).json();
    assert_eq!(rows[0]["alert"], true);
    redis.seckill(["inspect", "sku-*", "--alert-below", "3"]).code(3).stdout_has("ALERT").stdout_has("low");
    let quiet = redis.seckill(["inspect", "--alert-below", "25%", "-q", "-o", "json"]).code(3).json();
    assert_eq!((quiet.as_array().unwrap().len(), &quiet[0]["activity"]), (1, &"sku-2".into()));
    redis.seckill(["inspect", "--alert-below", "1%", "-q"]).code(0).stdout_is("");
    // Exactly as many are not below, and one that ended is nobody's worry.
    redis.seckill(["inspect", "sku-*", "over", "--alert-below", "2"]).code(0).stdout_lacks("low").stderr("");
    redis.seckill(["inspect", "--state", "paused", "--alert-below", "25%"]).code(0);
    for wrong in ["0", "101%", "x"] {
        redis.seckill(["inspect", "--alert-below", wrong]).code(2).stderr_has("expected a number of units");
    }
}

#[test]
fn a_share_of_an_unknown_total_is_not_guessed() {
    let redis = TestRedis::start();
    redis.cmd(("SET", "seckill:stock:1", 1));
    redis.seckill(["inspect", "1", "--alert-below", "50%"]).code(0).stderr_has("no total is known");
    redis.seckill(["inspect", "1", "--alert-below", "50"]).code(3).stderr_has("`1` has 1 unit left");
}
