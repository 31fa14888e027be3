//! What the command line refuses before anything is sent: exit 2, what was wrong in words, nothing changed. `sessions/orders.txt` has all
//! else.

use super::BAD_USERS;
use crate::support::TestRedis;

/// What each kind of id may be is in `src/model/id`.
#[test]
fn ids_that_are_none_are_refused_wherever_they_are_given() {
    let redis = TestRedis::selling("1", 10);
    redis.seckill(["deduct", "1", "--user", "7", "--quantity", "2"]).code(0);
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
fn too_many_activities_in_one_order_is_an_error_that_names_the_bound() {
    let redis = TestRedis::start();
    let items = |count: usize| (1..=count).map(|id| format!("{id}=1"));
    redis.seckill(["multi-deduct", "--user", "7"]).args(items(513)).code(2).stderr_has("the most is 512");
    redis.seckill(["multi-deduct", "--user", "7"]).args(items(8000)).code(2).stderr_has("the most is 512");
    redis.seckill(["multi-deduct", "--user", "7", "-q"]).args(items(512)).code(3).stdout_has("not_preheated");
    assert!(redis.dump_all().is_empty());
}
