//! A call of several activities that ends in its middle. The simulator has the cuts of calls of one activity.

use crate::support::scripts::cut_after;
use crate::support::{SECKILL, Scripts, TestRedis};

#[test]
fn a_call_of_several_activities_that_is_cut_withholds_units_of_one_at_most() {
    const PART: [&str; 5] = ["1", "0", "1-2", "1", "8\t9"];
    for op in ["deduct_file", "refund_file"] {
        let mut writes = 0;
        loop {
            let redis = TestRedis::start();
            let mut scripts = Scripts::of(&redis, SECKILL);
            for activity in ["1", "2", "3"] {
                scripts.preheat(activity, "10");
                for user in ["8", "9"] {
                    scripts.deduct(activity, (user, "1", ""));
                }
            }
            let keys: Vec<String> = ["1", "2", "3"].iter().flat_map(|activity| SECKILL.keys(activity)).collect();
            let args = [&["hash", "t", "j", "d", "", "", "", ""][..], &PART, &PART, &PART].concat();
            let is_cut = scripts.eval(&cut_after(op, writes), &keys, &args).contains("CUT");
            // As a run does: the same call again.
            let again = scripts.call(op, &keys, &args);
            assert_eq!(again.matches("rr ").count() + again.matches("oo ").count(), 3, "{op} {writes}: {again}");
            let withheld: Vec<i64> = ["1", "2", "3"]
                .iter()
                .map(|activity| {
                    let held = redis.hgetall(&SECKILL.participants(activity));
                    let held: i64 = held.values().map(|units| units.parse::<i64>().unwrap()).sum();
                    10 - held - redis.int(&SECKILL.stock(activity))
                })
                .collect();
            let places = withheld.iter().filter(|units| **units != 0).count();
            assert!(withheld.iter().all(|units| [0, 2].contains(units)) && places <= 1, "{op} {writes}: {withheld:?}");
            assert!(is_cut || places == 0, "{op}: {withheld:?}");
            if !is_cut {
                break;
            }
            writes += 1;
        }
        assert!(writes >= 12, "{op}: {writes}");
    }
}
