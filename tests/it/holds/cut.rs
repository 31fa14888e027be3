//! A script that is cut after any of its writes leaves fewer units to sell, never more, and the same call again repairs nothing
//! at the cost of others.

use super::{LONG, WITH_USERS, quantity, units_left, units_of_7};
use crate::support::scripts::{script_of, shown, shown_of};
use crate::support::{Layout, Scripts, TestRedis};

/// The script with an error in place of what follows its `nth` write.
pub fn cut_after(name: &'static str, nth: usize) -> String {
    cut_text(shown(name), nth)
}

/// The same of the script that a call with these arguments runs.
pub fn cut_call(name: &'static str, layout: Layout, args: &[&str], nth: usize) -> String {
    cut_text(shown_of(script_of(name, args), layout), nth)
}

fn cut_text(text: &str, nth: usize) -> String {
    let (header, code) = text.split_once("]]\n").unwrap();
    let wrapper = format!(
        "local server, writes = redis, 0\n\
         local reads = {{GET=1, HGET=1, HMGET=1, TYPE=1, EXISTS=1, TIME=1, XLEN=1, ZMSCORE=1, ZRANGEBYSCORE=1, SMISMEMBER=1,\n\
         HGETALL=1, HLEN=1, SCARD=1, HEXISTS=1, PTTL=1, XRANGE=1, XREVRANGE=1, XINFO=1, XPENDING=1}}\n\
         local function cuts(name)\n\
           return function(command, ...)\n\
             if not reads[command] then\n\
               if writes == {nth} then error('CUT') end\n\
               writes = writes + 1\n\
             end\n\
             return server[name](command, ...)\n\
           end\n\
         end\n\
         local redis = setmetatable({{call = cuts('call'), pcall = cuts('pcall')}}, {{__index = redis}})\n"
    );
    format!("{header}]]\n{wrapper}{code}")
}

/// Runs a step with every cut there is; `prepare` makes the state before it.
fn check(layout: Layout, name: &'static str, args: &[&str], prepare: impl Fn(&mut Scripts)) {
    let mut cuts = 0;
    let redis = TestRedis::start();
    for nth in 0.. {
        redis.cmd("FLUSHALL");
        let mut scripts = Scripts::of(&redis, layout);
        scripts.preheat("1", "10");
        prepare(&mut scripts);
        let before = (units_left(&redis, layout), units_of_7(&redis, layout));
        let reply = scripts.eval(&cut_call(name, layout, args, nth), &layout.all_keys("1"), args);
        let context = format!("{} {args:?} cut after {nth}: {reply}", layout.name);
        let (left, held) = (units_left(&redis, layout), units_of_7(&redis, layout));
        assert!(left + held <= 10, "{context}: {left} and {held}");
        if nth == 0 && reply.contains("CUT") {
            assert_eq!((left, held), before, "{context}");
        }
        // Whatever comes next, no unit is sold twice.
        for step in ["confirm", "release", "abort"] {
            scripts.settle(step, "r");
            let (left, held) = (units_left(&redis, layout), units_of_7(&redis, layout));
            assert!(left + held <= 10, "{context}, then {step}: {left} and {held}");
        }
        scripts.settle("expire", "500");
        assert!(units_left(&redis, layout) + units_of_7(&redis, layout) <= 10, "{context}");
        if !reply.contains("CUT") {
            assert!(reply.starts_with("1 ") || reply.starts_with("o "), "{context}");
            break;
        }
        cuts += 1;
    }
    assert!(cuts >= 4, "{} {args:?}: only {cuts} writes", layout.name);
}

/// The arguments of a job's first line, which holds units for user 7.
pub fn job_of_one_hold<'a>(kind: &'a str, units: &'a str) -> [&'a str; 14] {
    [kind, "tester", r#"["7"]"#, units, "night", "d", "1", "0", "1", r#"["r"]"#, "", "", "", LONG]
}

#[test]
fn a_cut_after_any_write_leaves_fewer_units_to_sell() {
    for layout in WITH_USERS {
        let (kind, units) = (layout.kind, quantity(layout).to_string());
        check(layout, "hold", &[kind, "tester", "7", &units, "r", "first", "", LONG], |_| {});
        check(layout, "hold", &job_of_one_hold(kind, &units), |_| {});
        let held = |scripts: &mut Scripts| assert!(scripts.hold("r", LONG).starts_with("1 "));
        let expired = |scripts: &mut Scripts| {
            assert!(scripts.hold("r", "1").starts_with("1 "));
            scripts.expire_soon();
        };
        check(layout, "settle", &[kind, "tester", "r", "confirm"], held);
        check(layout, "settle", &[kind, "tester", "r", "release"], held);
        check(layout, "settle", &[kind, "tester", "r", "abort"], held);
        check(layout, "settle", &[kind, "tester", "r", "confirm"], expired);
        for step in ["confirm", "release"] {
            check(layout, "settle", &[kind, "tester", r#"["r"]"#, step, "night", "d", "1", "0", "1"], held);
        }
        let overdue = |scripts: &mut Scripts| {
            assert!(scripts.hold("r", LONG).starts_with("1 "));
            scripts.send(&["ZADD", &layout.deadlines("1"), "XX", "1", "r"]);
        };
        check(layout, "settle", &[kind, "tester", "500", "expire"], overdue);
        // A user who is recorded once holds again: the first hold expires in the same call.
        if kind != "hash" {
            check(layout, "hold", &[kind, "tester", "7", &units, "s", "first", "", LONG], overdue);
        }
    }
}
