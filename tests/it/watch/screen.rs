//! On a terminal: a screen that is redrawn, and left as it was.

use super::{is_new, line, shop, wait_for_line, watched};
use crate::support::{Outcome, Running, TestRedis, wait_until};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";

/// Ends a call by its key.
#[track_caller]
fn quit(call: Running) -> Outcome {
    call.screen().types("q");
    call.wait().code(0)
}

/// A call whose screen shows something.
#[track_caller]
fn start(redis: &TestRedis) -> Running {
    let call = watched(redis).on_screen().spawn();
    call.wait_for_frame("a frame", |_| true);
    call
}

#[test]
fn a_screen_shows_the_sale_as_it_runs_and_q_ends_it() {
    let redis = shop(&["a", "b"]);
    let call = start(&redis);
    assert!(!call.screen().is_as_it_was(), "keys are read one by one");
    let frame = wait_for_line(&call, "20 units left, 0 sold");
    assert!(line(&frame, "2 activities: 2 live").is_some_and(|line| line.ends_with("every 100ms")), "{frame:#?}");
    assert!(frame[0].contains("redis.sock · primary · ") && frame[0].contains("layout seckill"), "{frame:#?}");
    redis.seckill(["deduct", "a", "--user", "mei", "--quantity", "4"]).code(0);
    let frame = wait_for_line(&call, "mei");
    assert!(line(&frame, "mei").is_some_and(|line| line.ends_with("bought 4")), "{frame:#?}");
    let frame = wait_for_line(&call, "16 units left, 4 sold");
    assert!(line(&frame, "双十一手机").is_some_and(|row| row.contains(" 6  ") && row.contains("40%")), "{frame:#?}");
    redis.seckill(["refund", "a", "--user", "mei"]).code(0);
    wait_for_line(&call, "returned 1");
    call.screen().types("q");
    wait_until("the terminal is as it was", || call.screen().is_as_it_was());
    let ended = call.wait().code(0).stderr("");
    assert!(ended.stdout.starts_with(ENTER) && ended.stdout.ends_with(LEAVE), "{:?}", ended.stdout);
    // Nothing is blanked in between: each frame is drawn over the one before.
    assert!(!ended.stdout.contains("\u{1b}[2J") && !ended.stdout.contains("\u{1b}[J"));
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let redis = shop(&["a"]);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let call = start(&redis);
        call.signal(signal);
        wait_until("the terminal is as it was", || call.screen().is_as_it_was());
        let ended = call.wait().code(130);
        assert!(ended.stdout.ends_with(LEAVE), "{:?}", ended.stdout);
    }
}

#[test]
fn a_suspended_watch_gives_the_terminal_back_and_draws_again() {
    let redis = shop(&["a"]);
    let call = start(&redis);
    call.signal(libc::SIGTSTP);
    wait_until("it is stopped", || call.is_stopped());
    call.wait_until_stdout("the terminal back", |text| text.ends_with(LEAVE));
    assert!(call.screen().is_as_it_was());
    call.signal(libc::SIGCONT);
    let again = |text: &str| text.matches(ENTER).count() == 2 && text.rsplit(ENTER).next().unwrap().contains("1 live");
    call.wait_until_stdout("another frame", again);
    assert!(!call.screen().is_as_it_was());
    quit(call);
}

#[test]
fn another_size_is_another_frame_and_says_what_has_no_room() {
    let redis = shop(&["a", "b", "c", "d", "e", "f"]);
    let call = start(&redis);
    let frame = wait_for_line(&call, "q quits");
    assert!(frame.len() == 30 && line(&frame, "LIMIT").is_some() && line(&frame, "more below").is_none(), "{frame:#?}");
    call.screen().types("\u{c}");
    call.wait_until_stdout("it is drawn anew", |text| {
        text.ends_with("\u{1b}[?2026l") && text.matches("q quits").count() >= 2
    });
    call.screen().resize(60, 10);
    let frame = call.wait_for_frame("ten lines", |frame| frame.len() == 10);
    let frame = if line(&frame, "3 more below").is_some() { frame } else { wait_for_line(&call, "more below") };
    assert!(line(&frame, "no room for").is_some_and(|line| line.contains("LIMIT")), "{frame:#?}");
    quit(call);
}

/// Waits for a frame whose table begins and ends with these activities.
#[track_caller]
fn wait_for_rows(call: &Running, first: &str, last: &str) -> Vec<String> {
    let is_row = |line: &&String| line.contains("双十一");
    let holds = |frame: &[String]| {
        let rows: Vec<&str> = frame.iter().filter(is_row).map(|line| line.trim_start()).collect();
        rows.first().is_some_and(|row| row.starts_with(&format!("{first} ")))
            && rows.last().is_some_and(|row| row.starts_with(&format!("{last} ")))
    };
    call.wait_for_frame(&format!("{first} to {last}"), holds)
}

#[test]
fn a_long_table_scrolls_and_says_what_is_above_and_below() {
    let ids: Vec<String> = (10..40).map(|id| format!("a{id}")).collect();
    let redis = shop(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let call = start(&redis);
    call.screen().resize(100, 17);
    let shows = |first: &str, last: &str, said: &str| {
        let frame = wait_for_rows(&call, first, last);
        let footer = line(&frame, " more ").unwrap_or_else(|| panic!("{frame:#?}"));
        assert!(footer.starts_with(said) && footer.ends_with("arrows scroll · q quits"), "{frame:#?}");
        assert!(frame.len() == 17 && frame[16] == *footer, "every line is used: {frame:#?}");
    };
    shows("a10", "a18", "21 more below");
    call.screen().types("\u{1b}[B");
    shows("a11", "a19", "1 more above · 20 more below");
    call.screen().types("\u{1b}[F");
    shows("a31", "a39", "21 more above");
    // A larger terminal shows the end whole.
    call.screen().resize(100, 27);
    wait_for_rows(&call, "a21", "a39");
    call.screen().types("\u{1b}[Bq");
    call.wait().code(0);
}

#[test]
fn lines_that_rows_leave_free_show_orders() {
    let redis = shop(&["a"]);
    let call = start(&redis);
    for user in 0..8 {
        redis.seckill(["deduct", "a", "--user", &format!("u{user}")]).code(0);
    }
    let orders = |frame: &[String]| frame.iter().filter(|line| line.ends_with("bought 1")).count();
    call.wait_for_frame("all of them", |frame| orders(frame) == 8);
    quit(call);
}

#[test]
fn a_lost_server_is_named_its_data_is_kept_and_it_is_reached_again() {
    let mut redis = shop(&["a"]);
    let call = start(&redis);
    wait_for_line(&call, "10 units left");
    redis.stop();
    let frame = wait_for_line(&call, "LOST for");
    assert!(line(&frame, "LOST").unwrap().contains("all below is as of 20"), "{frame:#?}");
    assert!(line(&frame, "cannot reach the server").is_some() && line(&frame, "live (old)").is_some(), "{frame:#?}");
    redis.restart();
    // It kept nothing, which is worth an alarm.
    let frame = wait_for_line(&call, "! a  does not exist in this layout");
    assert!(line(&frame, "LOST").is_none(), "{frame:#?}");
    quit(call).stderr("");
}

#[test]
fn a_server_that_takes_its_time_is_waited_for_in_sight() {
    let redis = shop(&["a"]);
    let call = start(&redis);
    redis.cmd(("CLIENT", "PAUSE", 2500));
    let frame = wait_for_line(&call, "WAITING for");
    assert!(line(&frame, "all below is as of 20").is_some() && line(&frame, "10 ").is_some(), "{frame:#?}");
    call.wait_for_frame("an answer", |frame| line(frame, "WAITING").is_none());
    quit(call);
}

#[test]
fn alarms_come_first_and_say_what_is_wrong() {
    let redis = shop(&["bad", "foreign", "gone", "halted", "low"]);
    redis.seckill(["deduct", "foreign", "--user", "7"]).code(0);
    redis.seckill(["deduct", "low", "--user", "7", "--quantity", "9"]).code(0);
    redis.seckill(["pause", "halted"]).code(0);
    let call = watched(&redis).args(["--alert-below", "20%", "--color", "never"]).on_screen().spawn();
    wait_for_line(&call, "5 activities: 4 live, 1 paused");
    redis.cmd(("DEL", "seckill:stock:gone"));
    redis.cmd(("HSET", "seckill:meta:bad", "rules", "nonsense"));
    redis.cmd(("DECR", "seckill:stock:foreign"));
    let frame =
        call.wait_for_frame("five alarms", |frame| frame.iter().filter(|line| line.starts_with("! ")).count() >= 5);
    let alarms: Vec<&String> = frame.iter().filter(|line| line.starts_with("! ")).take(5).collect();
    for (alarm, (id, why)) in alarms.iter().zip([
        ("bad", "key `seckill:meta:bad` holds `nonsense`"),
        ("gone", "the stock key is gone"),
        ("foreign", "stock changed outside the scripts"),
        ("low", "1 unit left"),
        ("halted", "paused"),
    ]) {
        assert!(alarm.starts_with(&format!("! {id}  ")) && alarm.contains(why), "{frame:#?}");
    }
    // Marked without colours too.
    assert!(frame.iter().any(|line| line.trim_start().starts_with("!  low ")), "{frame:#?}");
    let ended = quit(call);
    assert!(!ended.stdout.contains("\u{1b}[3") && !ended.stdout.contains("\u{1b}[1m"), "{:?}", ended.stdout);
}

#[test]
fn feeds_and_script_calls_are_shown_as_far_as_they_are_known() {
    let redis = shop(&["a"]);
    redis.cmd(("XGROUP", "CREATE", "seckill:ledger:a", "db", 0));
    let call = start(&redis);
    redis.cmd(("EVAL", "return 1", 0));
    let frame = wait_for_line(&call, "script calls of all callers: ");
    assert!(line(&frame, "LAG").is_some(), "{frame:#?}");
    let frame =
        call.wait_for_frame("a rate", |frame| line(frame, "all callers: ").is_some_and(|line| line.contains("/s")));
    let row = frame.iter().find(|line| line.starts_with("   a ")).unwrap();
    assert_eq!(row.contains("  1  "), is_new(&redis), "one entry, of the preheat: {row:?}");
    assert_eq!(line(&frame, "p99.9").is_some(), is_new(&redis), "{frame:#?}");
    redis.cmd(["ACL", "SETUSER", "default", "-info", "-xinfo", "-multi"].as_slice());
    wait_for_line(&call, "script calls unknown: this user may not ask INFO");
    redis.seckill(["deduct", "a", "--user", "still"]).code(0);
    wait_for_line(&call, "still");
    quit(call);
}

#[test]
fn a_terminal_that_only_prints_gets_rows() {
    let redis = shop(&["a"]);
    let call = watched(&redis).args(["--count", "2"]).on_screen().env("TERM", "dumb");
    let ended = call.code(0);
    assert!(!ended.stdout.contains('\u{1b}'), "{:?}", ended.stdout);
    assert_eq!(ended.jsonl().len(), 2);
}

#[test]
fn a_screen_ends_after_its_readings_and_a_wrong_address_opens_none() {
    let redis = shop(&["a"]);
    let ended = watched(&redis).args(["--count", "2"]).on_screen().code(0);
    assert!(ended.stdout.ends_with(LEAVE));
    let ended = watched(&redis).args(["--count", "1", "a", "gone"]).on_screen().code(3);
    assert!(ended.stdout.contains("does not exist in this layout"));
    let call = crate::support::seckill(["inspect", "--watch"]).on_screen();
    let ended = call.code(5).stderr_has("cannot reach the server");
    assert_eq!(ended.stdout, "");
}
