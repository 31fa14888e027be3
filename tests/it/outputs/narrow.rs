//! Tables on a terminal that is too narrow for them.

use crate::support::TestRedis;

const USER: &str = "customer-0012345";

/// What a call prints on a terminal of this width, which no line exceeds.
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
    let redis = TestRedis::selling("1001", 10);
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
fn messages_wrap_between_words_and_never_in_a_command() {
    let redis = TestRedis::selling("1001", 10);
    let file = |name: &str, text: &str| {
        let file = tempfile::Builder::new().suffix(name).tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    };
    let orders = file(".csv", "activity,user\n1001,\nx,y,z\n1001\n");
    let fixture = file(".yaml", "activities:\n  - id: 1\n    stok: 5\n    starts_at: yesterday\n  - stock: 1\n");
    for line in [
        "deduct 1001",
        "inspect -u redis://127.0.0.1:1",
        "inspect -l nolayout",
        "hold 1001 --user 7 --for 400d",
        "preheat --id 1001 --stock 5",
        "preheat --id 1001 --stock 5 --reset",
        "pause 1001 --reason a-long-reason-that-has-no-end-of-its-own-and-is-read-by-nobody-at-night --all",
        &format!("deduct --from {}", orders.path().display()),
        &format!("preheat {}", fixture.path().display()),
    ] {
        let call = || redis.seckill([]).args(line.split(' ')).args(["--color", "never"]);
        let whole = call().run().stderr;
        for columns in [40, 80] {
            let wrapped = call().env("COLUMNS", &columns.to_string()).seen().env("TERM", "dumb").run().stderr;
            let wrapped = wrapped.replace('\r', "");
            // Behind the note that names the server, which is no part of `stderr` as a line.
            let wrapped = wrapped.split_once("(layout seckill)\n").map_or(&*wrapped, |(_, message)| message);
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(wrapped), words(&whole), "{line}");
            for command in whole.split('`').skip(1).step_by(2) {
                assert!(wrapped.contains(&format!("`{command}`")), "{columns}: {command}\n{wrapped}");
            }
            for shown in wrapped.lines().filter(|shown| shown.chars().count() > columns) {
                let words = shown.trim().split(' ').count();
                assert!(words == 1 || shown.trim().starts_with('`'), "{columns}: {shown}\n{wrapped}");
            }
        }
    }
}

#[test]
fn a_shortened_request_id_stands_whole_below_the_table() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["hold", "1001", "--user", "a", "--for", "100d"]).code(0);
    let name = redis.seckill(["inspect", "1001", "--holds", "-o", "name"]).code(0).stdout;
    let text = printed(&redis, "inspect 1001 --holds", 60);
    assert!(text.contains(&format!("\nREQUEST  {name}")), "{text}");
    redis.seckill(["hold", "1001", "--user", "b", "--for", "100d"]).code(0);
    assert!(!printed(&redis, "inspect 1001 --holds", 60).contains("\nREQUEST  "));
}

#[test]
fn the_head_of_a_report_and_the_answer_to_why_wrap_too() {
    let redis = TestRedis::start();
    let window =
        ["--title", "The eleventh of the eleventh: round one", "--starts-at", "2020-01-01", "--ends-at", "2200-01-01"];
    redis.seckill(["preheat", "--id", "1001", "--stock", "10"]).args(window).code(0);
    for columns in [40, 60] {
        assert!(printed(&redis, "report 1001", columns).contains("window"));
        printed(&redis, &format!("inspect 1001 --user {USER} --why"), columns);
    }
}
