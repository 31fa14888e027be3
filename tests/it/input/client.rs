//! What the command line refuses before anything is sent: exit 2, what was wrong in words, nothing changed.

use super::BAD_USERS;
use crate::support::layout::json_call;
use crate::support::{LAYOUTS, SECKILL, TestRedis};

/// A server with activity 1; user 7 holds two units.
fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "10", "--per-user-limit", "5"]).code(0);
    redis.seckill(["deduct", "1", "--user", "7", "--quantity", "2"]).code(0);
    redis
}

#[test]
fn a_callers_limit_holds_only_if_there_is_no_other() {
    let redis = sale();
    redis.cmd(("SET", "seckill:stock:foreign", 10));
    let before = redis.dump_all();
    for other in ["1", "3", "6", "99"] {
        redis
            .seckill(["deduct", "1", "--user", "7", "--per-user-limit", other])
            .code(2)
            .stdout_is("")
            .stderr_has("the activity's own, which is 5\nhint: nothing was changed; leave");
    }
    redis.seckill(["deduct", "1", "--user", "7", "--quantity", "6", "--per-user-limit", "5"]).code(3);
    redis.seckill(["deduct", "foreign", "--user", "7", "--quantity", "4", "--per-user-limit", "3"]).code(3);
    redis.assert_unchanged_since(&before);
    redis.seckill(["deduct", "foreign", "--user", "7", "--quantity", "3", "--per-user-limit", "3"]).code(0);
    redis.seckill(["deduct", "1", "--user", "7", "--quantity", "3", "--per-user-limit", "5"]).code(0);
}

#[test]
fn a_limit_for_an_activity_without_one_is_refused_in_files_too() {
    let redis = sale();
    redis.seckill(["preheat", "--id", "free", "--stock", "10"]).code(0);
    let before = redis.dump_all();
    redis.seckill(["deduct", "free", "--user", "7", "--per-user-limit", "3"]).code(2).stderr_has("which is none");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "activity,user\n1,a\n1,b\n").unwrap();
    let path = file.path().to_str().unwrap();
    for flags in [&["--per-user-limit", "4"][..], &["--per-user-limit", "4", "-o", "jsonl"]] {
        redis
            .seckill(["deduct", "--from", path])
            .args(flags)
            .code(2)
            .stderr_has("the activity's own, which is 5")
            .stderr_lacks("same command")
            .stderr_lacks("nothing to show");
    }
    redis.assert_unchanged_since(&before);
    redis.seckill(["deduct", "--from", path, "--per-user-limit", "5"]).code(0);
}

#[test]
fn a_limit_that_the_layout_cannot_keep_is_refused() {
    let redis = TestRedis::start();
    for layout in LAYOUTS.into_iter().filter(|layout| layout.kind != "hash") {
        redis.cmd(("SET", layout.stock("1"), 10));
        let before = redis.dump_all();
        for line in ["deduct 1 --user 7 --per-user-limit 2", "preheat --id 2 --stock 5 --per-user-limit 2"] {
            let error = json_call(&redis, layout, line).code(2).stdout_is("").error_json();
            assert!(error["error"].as_str().unwrap().contains(layout.name), "{error}");
        }
        redis.assert_unchanged_since(&before);
    }
}

/// What each kind of id may be is in `src/model/id`.
#[test]
fn ids_that_are_none_are_refused_wherever_they_are_given() {
    let redis = sale();
    let before = redis.dump_all();
    let (huge, long) = ("x".repeat(100_000), "x".repeat(257));
    let users: Vec<&str> = BAD_USERS.into_iter().chain([&*huge, &*long, "\u{a0}7", "7\u{3000}"]).collect();
    let of_user = ["deduct 1 --user=", "refund 1 --user=", "multi-deduct 1=1 --user=", "inspect 1 --user="];
    let of_activity = [
        "preheat --stock=5 --id=",
        "deduct --user=7 ",
        "pause --reason=x ",
        "multi-deduct --user=7 ",
        "inspect ",
        "reconcile ",
    ];
    let of_request =
        ["deduct 1 --user=7 --request=", "refund 1 --user=7 --request=", "multi-deduct 1=1 --user=7 --request="];
    for (lines, ids, says) in [
        (&of_user[..], users, "is not a user id: 1 to 256 bytes"),
        (
            &of_activity,
            vec!["", "a b", "{1}", "a\tb", "1\u{1b}", "\u{3000}", &long],
            "is not an activity id: 1 to 128 bytes",
        ),
        (&of_request, vec!["", "é", "a\tb", "a\u{7f}", &long], "is not a request id"),
    ] {
        for (line, id) in lines.iter().flat_map(|line| ids.iter().map(move |id| (line, id))) {
            let (words, last) = line.rsplit_once(' ').unwrap();
            let item = if line.starts_with("multi") && last.is_empty() { "=1" } else { "" };
            let call = redis.seckill([]).args(words.split(' ')).args([format!("{last}{id}{item}")]);
            let refused = call.code(2).stdout_is("").stderr_has(says).stderr_lacks("\u{1b}");
            assert!(refused.stderr.len() < 100_500, "{} bytes of error", refused.stderr.len());
        }
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn spellings_of_a_number_are_users_of_their_own() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "10", "--per-user-limit", "1"]).code(0);
    let users = ["7", "07", "+7", "7.0", "0x7", "7e0", "-7", "７"];
    for user in users {
        redis.seckill(["deduct", "1"]).args([format!("--user={user}")]).code(0);
        redis.seckill(["deduct", "1"]).args([format!("--user={user}")]).code(3);
    }
    let recorded = redis.hgetall(&SECKILL.participants("1"));
    assert_eq!(recorded.len(), users.len());
    assert!(users.iter().all(|user| recorded[*user] == "1"));
}

#[test]
fn a_stock_is_below_two_to_the_53_and_a_window_ends_after_it_starts() {
    let redis = TestRedis::start();
    for (more, says) in [
        ("9007199254740992", "--stock"),
        ("5 --starts-at 2026-11-31", "is not a time"),
        ("5 --starts-at 2026-11-11T02:00:00+08:00 --ends-at 2026-11-11T01:00:00+08:00", "before it starts"),
    ] {
        redis.seckill(["preheat", "--id", "1", "--stock"]).args(more.split(' ')).code(2).stderr_has(says);
    }
    assert!(redis.dump_all().is_empty());
    redis.seckill(["preheat", "--id", "1", "--stock", "9007199254740991"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "0"]).code(0);
}

#[test]
fn the_same_activity_twice_in_one_order_counts_as_the_sum() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        json_call(&redis, layout, "preheat --id 1 --stock 3").code(0);
        json_call(&redis, layout, "preheat --id 2 --stock 3").code(0);
        let before = redis.dump_all();
        let refused = json_call(&redis, layout, "multi-deduct --user 7 1=2 2=1 1=2").code(3).json();
        let first = &refused["items"][0];
        let why = if layout.kind == "coupon" { "limit_exceeded" } else { "out_of_stock" };
        assert_eq!((&first["quantity"], &first["status"]), (&4.into(), &why.into()), "{layout:?}: {refused}");
        assert_eq!(refused["items"].as_array().unwrap().len(), 2);
        redis.assert_unchanged_since(&before);
        json_call(&redis, layout, "multi-deduct --user 7 1=1000000000 1=1").code(2).stdout_is("");
    }
}

#[test]
fn too_many_activities_in_one_order_is_an_error_that_names_the_bound() {
    let redis = TestRedis::start();
    let items = |count: usize| (1..=count).map(|id| format!("{id}=1"));
    redis.seckill(["multi-deduct", "--user", "7"]).args(items(513)).code(2).stderr_has("the most is 512");
    redis.seckill(["multi-deduct", "--user", "7"]).args(items(8000)).code(2).stderr_has("the most is 512");
    redis.seckill(["multi-deduct", "--user", "7", "-q"]).args(items(512)).code(3).stdout_has("not_preheated");
    assert!(redis.dump_all().is_empty());
}

#[test]
fn a_user_is_wanted_where_the_layout_records_users() {
    let redis = TestRedis::start();
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        for line in ["deduct 1", "refund 1", "multi-deduct 1=1"] {
            let error = json_call(&redis, layout, line).code(2).stdout_is("").error_json();
            assert!(error["error"].as_str().unwrap().contains("`--user` is missing"), "{error}");
        }
    }
    let product = LAYOUTS.into_iter().find(|layout| !layout.has_users()).unwrap();
    for line in ["refund 1 --all --user 7", "inspect 1 --user 7", "inspect 1 --all"] {
        json_call(&redis, product, line).code(2).stdout_is("");
    }
}
