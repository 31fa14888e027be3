//! `deduct`, `refund` and `multi_deduct` as a job: what a call is answered.

use super::scripts;
use crate::support::{LAYOUTS, Layout, Scripts};

/// One batch: what comes before it, its lines and whether to tell what each user holds.
struct Batch<'a> {
    job: &'a str,
    digest: &'a str,
    epoch: &'a str,
    before: &'a str,
    lines: &'a str,
    rows: &'a str,
}

const FIRST: Batch<'_> = Batch { job: "j", digest: "d", epoch: "1", before: "0", lines: "2 3", rows: "" };

fn send(scripts: &mut Scripts, script: &'static str, batch: &Batch<'_>, orders: &[(&str, &str)]) -> String {
    let Layout { kind, .. } = scripts.layout;
    let Batch { job, digest, epoch, before, lines, rows } = batch;
    let column = |of: fn(&(&str, &str)) -> String| serde_json::to_string(&orders.iter().map(of).collect::<Vec<_>>());
    let users = column(|(user, _)| (*user).to_owned()).unwrap();
    let quantities = column(|(_, quantity)| (*quantity).to_owned()).unwrap();
    let args = [kind, "tester", &users, &quantities, job, digest, epoch, before, lines, "", rows];
    let optional = if rows.is_empty() { 9 } else { 11 };
    scripts.call(script, &scripts.layout.keys("1"), &args[..optional])
}

#[test]
fn a_batch_is_applied_once_and_its_line_is_kept() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let orders = [("7", "1"), ("8", "1")];
        assert_eq!(send(&mut scripts, "deduct", &FIRST, &orders), "oo 10 0", "{layout:?}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:deduct:j").as_deref(), Some("3 0 d"));
        let before = redis.dump_all();
        assert_eq!(send(&mut scripts, "deduct", &FIRST, &orders), "rr 8 0", "{layout:?}: sent again");
        redis.assert_unchanged_since(&before);
        let next = Batch { before: "3", lines: "3 5", rows: "1", ..FIRST };
        let held = if layout.has_users() { "1 1" } else { "0 0" };
        let orders = [("8", "1"), ("9", "1")];
        assert_eq!(send(&mut scripts, "deduct", &next, &orders), format!("ro 8 0 {held}"), "{layout:?}: overlaps");
        assert_eq!(send(&mut scripts, "refund", &FIRST, &[("7", "1"), ("8", "9")]), "ox 7 1", "{layout:?}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:refund:j").as_deref(), Some("3 1 d"));
    }
}

#[test]
fn a_gap_another_epoch_and_another_digest_are_refused() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let orders = [("7", "1"), ("8", "1")];
        send(&mut scripts, "deduct", &FIRST, &orders);
        let before = redis.dump_all();
        for (batch, expected) in [
            (Batch { before: "5", lines: "6 7", ..FIRST }, "-20 3"),
            (Batch { epoch: "2", before: "3", lines: "4 5", ..FIRST }, "-21 1"),
            (Batch { digest: "e", before: "3", lines: "4 5", ..FIRST }, "-22"),
        ] {
            assert_eq!(send(&mut scripts, "deduct", &batch, &orders), expected, "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
    }
}

#[test]
fn what_refuses_the_whole_activity_moves_no_line_and_comes_before_a_gap() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        let orders = [("7", "1"), ("8", "1")];
        assert_eq!(send(&mut scripts, "deduct", &FIRST, &orders), "-4 nil nil", "{layout:?}");
        scripts.preheat("1", "10");
        send(&mut scripts, "deduct", &FIRST, &orders);
        scripts.call("pause", &layout.keys("1"), &["paused", "tester", "", "0"]);
        let before = redis.dump_all();
        let later = Batch { before: "9", lines: "10 11", ..FIRST };
        assert_eq!(send(&mut scripts, "deduct", &later, &orders), "-7 8 3", "{layout:?}");
        redis.assert_unchanged_since(&before);
    }
}

/// A call of one multi-order, of a unit of `1` and one of `2`, at a line of a job; `known` are epoch and line of each.
fn send_multi(scripts: &mut Scripts, digest: &str, line: &str, known: [&str; 2]) -> String {
    let layout = scripts.layout;
    let keys = [layout.keys("1"), layout.keys("2")].concat();
    let mut args = vec![layout.kind, "tester", "retry", "j", digest, line];
    args.extend(known.iter().flat_map(|words| words.split(' ')));
    // The line is user and request too: some layouts record each user once.
    args.extend([line, line, "", "2", "1", "1", "2", "1"]);
    scripts.call("multi_deduct", &keys, &args)
}

#[test]
fn a_call_of_multi_orders_keeps_its_highest_line_in_each_activity() {
    for (layout, digest, more) in LAYOUTS.into_iter().flat_map(|layout| [(layout, "d", " d"), (layout, "", "")]) {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "2");
        let kept = || ["1", "2"].map(|id| redis.hget(&layout.requests(id), "\tj:multi_deduct:j").unwrap_or_default());
        let line = |line: u64| format!("{line}{more}");
        let reply = send_multi(&mut scripts, digest, "5", ["1 0", "1 0"]);
        assert!(reply.starts_with("1 1,9,") && reply.ends_with(' '), "{layout:?}: {reply}");
        assert_eq!(kept(), [line(5), line(5)]);
        send_multi(&mut scripts, digest, "9", ["1 5", "1 5"]);
        // Sent again it changes nothing, and is behind nothing.
        let before = redis.dump_all();
        let reply = send_multi(&mut scripts, digest, "5", ["1 0", "1 4"]);
        assert!(reply.starts_with("2 2,8,") && reply.ends_with(' '), "{layout:?}: {reply}");
        redis.assert_unchanged_since(&before);
        // A refused order is decided too.
        let reply = send_multi(&mut scripts, digest, "11", ["1 9", "1 8"]);
        assert!(reply.starts_with("-1 -1,8,") && reply.ends_with(' '), "{layout:?}: {reply}");
        assert_eq!(kept(), [line(11), line(11)]);
        assert_eq!((redis.int(&layout.stock("1")), redis.int(&layout.stock("2"))), (8, 0));
    }
}

#[test]
fn a_call_of_multi_orders_that_an_activity_knows_less_than_is_refused_whole() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        scripts.preheat("2", "10");
        send_multi(&mut scripts, "d", "5", ["1 0", "1 0"]);
        let before = redis.dump_all();
        for (digest, known, expected) in [
            ("d", ["1 5", "1 6"], "-20 2 5"),
            ("d", ["1 7", "1 5"], "-20 1 5"),
            ("d", ["1 5", "2 5"], "-21 2 1"),
            ("d", [" 0", "1 5"], "-21 1 1"),
            ("e", ["1 5", "1 5"], "-22 1"),
            ("", ["1 5", "1 5"], "-22 1"),
        ] {
            assert_eq!(send_multi(&mut scripts, digest, "9", known), expected, "{layout:?}");
        }
        redis.assert_unchanged_since(&before);
        redis.cmd(("HSET", layout.requests("2"), "\tj:multi_deduct:j", "x d"));
        let reply = send_multi(&mut scripts, "d", "9", ["1 5", "1 5"]);
        let key = layout.key_count() + 3;
        assert!(reply.starts_with("-1 -1,9,") && reply.ends_with(&format!(" -11,{key},782064 2")), "{reply}");
    }
}

#[test]
fn an_activity_that_refuses_multi_orders_as_a_whole_keeps_no_line_and_knows_of_no_gap() {
    for layout in LAYOUTS {
        let (redis, mut scripts) = scripts(layout);
        scripts.preheat("1", "10");
        let reply = send_multi(&mut scripts, "d", "5", ["1 0", " 3"]);
        assert!(reply.starts_with("-1 -1,10,") && reply.ends_with(" -4,, 2"), "{layout:?}: {reply}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:multi_deduct:j").as_deref(), Some("5 d"));
        assert!(!redis.exists(&layout.requests("2")));
        // A pause refuses them too, and they stay undecided: nothing is kept of them either.
        scripts.preheat("2", "10");
        scripts.call("pause", &layout.keys("2"), &["paused", "tester", "", "0"]);
        let reply = send_multi(&mut scripts, "d", "9", ["1 5", "1 0"]);
        assert!(reply.starts_with("-1 -1,10,") && reply.ends_with(" 2"), "{layout:?}: {reply}");
        assert_eq!(redis.hget(&layout.requests("1"), "\tj:multi_deduct:j").as_deref(), Some("9 d"));
        assert!(!redis.exists(&layout.requests("2")));
    }
}
