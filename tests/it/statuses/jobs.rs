//! `deduct` and `refund` as a job: what a call is answered.

use super::scripts;
use crate::support::{LAYOUTS, Layout, Scripts};

/// One batch: what comes before it, its lines and whether to reply what each user holds.
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
    let column = |of: fn(&(&str, &str)) -> String| orders.iter().map(of).collect::<Vec<_>>().join("\t");
    let users = column(|(user, _)| (*user).to_owned());
    let quantities = column(|(_, quantity)| (*quantity).to_owned());
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
