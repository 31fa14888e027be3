//! The bar that a person sees during a long run, and nobody else.

use super::preheat::list;
use super::{Orders, preheat, start_and_hold};
use crate::support::{Outcome, Proxy, Running, TestRedis};

/// What the terminal showed, frame by frame, without what only places and colours it.
fn frames(stderr: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut letters = stderr.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                let end = letters.by_ref().skip_while(|it| *it == '[').find(char::is_ascii_alphabetic);
                // Up, or erased: another frame.
                plain += if matches!(end, Some('A' | 'K' | 'J')) { "\n" } else { "" };
            }
            '\r' => plain.push('\n'),
            other => plain.push(other),
        }
    }
    plain.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Such a frame: `applying ███░ 512/1,000  498/s  1s left`.
fn shows_progress(frame: &str, label: &str, total: &str) -> bool {
    let Some(rest) = frame.strip_prefix(label) else { return false };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [bar, place, rate, left, "left"] = words[..] else { return false };
    let count = |text: &str| text.replace(',', "").parse::<u64>().is_ok();
    bar.chars().all(|letter| "█░".contains(letter))
        && place.strip_suffix(&format!("/{total}")).is_some_and(count)
        && rate.strip_suffix("/s").is_some_and(count)
        && left.ends_with(|unit: char| "smh".contains(unit))
}

#[track_caller]
fn assert_drawn(outcome: &Outcome, label: &str, total: &str) {
    let frames = frames(&outcome.stderr);
    let drawn = frames.iter().filter(|frame| shows_progress(frame, label, total));
    // One that moved: the first is drawn before anything is done.
    assert!(drawn.filter(|frame| !frame.contains(" 0/")).count() > 0, "no bar of {label} in {frames:#?}");
    assert!(!outcome.stdout.contains(label) && !outcome.stdout.contains('\u{1b}'), "{}", outcome.stdout);
    // It is taken away at the end.
    let last = outcome.stderr.rsplit(label).next().unwrap();
    assert!(last.contains("\u{1b}[2K") || last.contains("\u{1b}[0K") || last.contains("\u{1b}[J"), "{last:?}");
}

#[test]
fn a_run_of_orders_shows_how_many_how_fast_and_how_long() {
    let redis = TestRedis::start();
    for activity in ["a", "b"] {
        preheat(&redis, activity, 10_000);
    }
    let orders = Orders::of_users("a", 600);
    let multi: String = (0..600).map(|user| format!("{{\"user\":{user},\"items\":{{\"a\":1,\"b\":1}}}}\n")).collect();
    let multi = Orders::named("o.jsonl", multi);
    for (command, file) in [("deduct", &orders), ("refund", &orders), ("multi-deduct", &multi)] {
        let call = redis.seckill([command, "--rate", "1000", "-o", "jsonl", "--from", file.path()]);
        let outcome = call.seen().code(0);
        assert_drawn(&outcome, "applying", "600");
        assert_eq!(outcome.jsonl().len(), 600);
    }
}

#[test]
fn the_bar_of_a_resumed_file_counts_what_is_left() {
    let redis = TestRedis::selling("a", 10_000);
    let orders = Orders::of_users("a", 900);
    let proxy = Proxy::before(&redis);
    let apply = ["deduct", "--rate", "1000", "--from", orders.path()];
    let call = start_and_hold(&proxy, 12, proxy.seckill(apply).seen());
    call.signal(libc::SIGINT);
    proxy.release();
    let stopped = call.wait().code(130);
    let (_, rest) = stopped.stderr.split_once("stopped after ").expect("a note");
    let done: usize = rest.split_once(' ').unwrap().0.parse().unwrap();
    assert!((1..900).contains(&done), "{done}");
    let moved = |format: &str| {
        let outcome = redis.seckill(apply).args(["-o", format]).seen().code(0);
        let frames = frames(&outcome.stderr).into_iter();
        frames.filter(|frame| frame.starts_with("applying") && !frame.contains(" 0/")).collect::<Vec<_>>()
    };
    let (label, left) = (format!("applying, {done} done before"), (900 - done).to_string());
    let resumed = moved("table");
    assert!(!resumed.is_empty() && resumed.iter().all(|frame| shows_progress(frame, &label, &left)), "{resumed:#?}");
    // Rows that are printed are sent again, and still nothing is left.
    assert_eq!(moved("jsonl"), [""; 0]);
}

#[test]
fn a_bar_waits_at_the_begin_of_its_line_and_fits_whatever_the_size() {
    let redis = TestRedis::selling("a", 10_000);
    let orders = Orders::of_users("a", 600);
    let proxy = Proxy::before(&redis);
    for (columns, most) in [(140, 80), (100, 80), (80, 80), (40, 40)] {
        let call = proxy.seckill(["deduct", "--job", &columns.to_string(), "--from", orders.path()]).seen();
        let call = start_and_hold(&proxy, 4, call);
        call.screen().resize(columns, 30);
        let fits = |frame: &String| frame.starts_with("applying") && frame.chars().count() == most;
        call.wait_until_stderr("a bar of that width", |text| frames(text).last().is_some_and(fits));
        call.wait_until_stderr("the begin of the line", |text| text.ends_with("\u{1b}[?7h\r"));
        proxy.release();
        call.wait().code(0);
    }
}

/// Waits until the bar says that a page is done.
#[track_caller]
fn is_at(call: &Running, label: &str) {
    let is_there = |frame: &String| frame.starts_with(label) && frame.contains(" 200/450 ");
    call.wait_until_stderr(label, |text| frames(text).iter().any(is_there));
}

#[test]
fn a_preheat_of_many_shows_how_far_it_is() {
    let redis = TestRedis::start();
    redis.seckill(["script", "load"]).code(0);
    let list = list(5);
    let proxy = Proxy::before(&redis);
    // In the midst of what is planned, and of what is created.
    let call = proxy.seckill(["preheat", "--dry-run", "-o", "csv", "--from", list.path()]).seen();
    let call = start_and_hold(&proxy, 300, call);
    is_at(&call, "planning");
    proxy.release();
    let planned = call.wait().code(0);
    assert_drawn(&planned, "planning", "450");
    let call = proxy.seckill(["preheat", "-o", "csv", "--from", list.path()]).seen();
    let call = start_and_hold(&proxy, 451 + 201 + 1 + 100, call);
    is_at(&call, "preheating");
    proxy.release();
    let created = call.wait().code(0);
    assert_drawn(&created, "preheating", "450");
    assert_eq!(created.stdout.lines().count(), 451);
}

#[test]
fn nothing_is_drawn_where_nobody_looks_or_wants_it() {
    let redis = TestRedis::selling("a", 10_000);
    let orders = Orders::of_users("a", 300);
    let call = || redis.seckill(["deduct", "--rate", "1000", "-o", "jsonl", "--from", orders.path()]);
    call().code(0).stderr("");
    call().args(["-q"]).seen().code(0).stderr("");
    call().seen().env("TERM", "dumb").code(0).stderr("");
}

#[test]
fn one_step_has_no_bar() {
    let redis = TestRedis::start();
    let shown = redis.seckill(["preheat", "--id", "1", "--stock", "5", "-o", "csv"]).seen().code(0);
    assert!(!shown.stderr.contains("planning") && !shown.stderr.contains("preheating"), "{}", shown.stderr);
}
