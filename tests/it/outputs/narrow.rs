//! Tables on a terminal that is too narrow for them.

use crate::support::TestRedis;

const USER: &str = "customer-0012345";

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "10"]).code(0);
    redis
}

/// What a call prints on a terminal of so many columns, none of which it exceeds.
#[track_caller]
fn printed(redis: &TestRedis, line: &str, columns: usize) -> String {
    let outcome = redis.seckill([]).args(line.split(' ')).env("COLUMNS", &columns.to_string()).code(0);
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= columns, "{line}");
    }
    outcome.stdout
}

#[test]
fn a_hold_on_80_columns_keeps_its_user_and_its_deadline() {
    let redis = sale();
    let hold = format!("hold 1001 --user {USER} --for 16h");
    let text = printed(&redis, &hold, 80);
    let row = text.lines().nth(2).unwrap();
    assert!(text.starts_with("ACTIVITY  USER ") && row.contains(USER) && row.contains("  in 16 h"), "{text}");
    let below: Vec<&str> = text.lines().skip(3).map(|line| line.split_once("  ").unwrap().0).collect();
    assert_eq!(below, ["REQUEST", "DEADLINE"], "{text}");
    let text = printed(&redis, &hold, 140);
    assert!(!text.contains("in 16 h") && text.contains("+00:00") && text.lines().count() == 3, "{text}");
}

#[test]
fn a_time_is_relative_only_where_it_has_no_room_and_only_for_people() {
    let redis = sale();
    for user in ["a", "b"] {
        redis.seckill(["hold", "1001", "--user", user, "--for", "100d"]).code(0);
    }
    let holds = "inspect 1001 --holds";
    assert_eq!(printed(&redis, holds, 80).matches("in 100 d").count(), 2);
    assert!(!printed(&redis, holds, 100).contains("in 100 d"));
    for format in ["json", "jsonl", "csv", "tsv", "yaml"] {
        let outcome = redis.seckill(["inspect", "1001", "--holds", "-o", format]).env("COLUMNS", "40").code(0);
        outcome.stdout_lacks("in 100 d").stdout_lacks("…");
    }
}

#[test]
fn of_uuids_of_one_second_the_ends_are_shown() {
    let redis = sale();
    for user in ["a", "b"] {
        redis.seckill(["hold", "1001", "--user", user, "--for", "100d"]).code(0);
    }
    let names = redis.seckill(["inspect", "1001", "--holds", "-o", "name"]).code(0).stdout;
    let text = printed(&redis, "inspect 1001 --holds", 60);
    for id in names.lines() {
        assert!(text.contains(&format!("{}  ", &id[id.len() - 12..])) && !text.contains(id), "{text}");
    }
    assert_eq!(text.matches("1001      …").count(), 2, "{text}");
}

#[test]
fn a_shortened_request_id_stands_whole_below_the_table() {
    let redis = sale();
    redis.seckill(["hold", "1001", "--user", "a", "--for", "100d"]).code(0);
    let name = redis.seckill(["inspect", "1001", "--holds", "-o", "name"]).code(0).stdout;
    let text = printed(&redis, "inspect 1001 --holds", 60);
    assert!(text.contains(&format!("\nREQUEST  {name}")), "{text}");
    redis.seckill(["hold", "1001", "--user", "b", "--for", "100d"]).code(0);
    assert!(!printed(&redis, "inspect 1001 --holds", 60).contains("\nREQUEST  "));
}
