//! A file of holds or of payments whose run is killed, whose replies are lost, or whose primary dies: each row once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::units_left;
use crate::support::{CLUSTER, COUPON, Call, Fault, Layout, Proxy, SECKILL, TestCluster, TestRedis, When, wait_until};

/// Holds of one unit each by as many users of some activities, with a payment for each.
struct Files {
    holds: String,
    payments: String,
}

impl Files {
    fn new(activities: &[String], count: usize) -> Self {
        let (mut holds, mut payments) = ("activity,user\n".to_owned(), "activity,request\n".to_owned());
        for nth in 0..count {
            // The header is line 1.
            let (activity, line) = (&activities[nth % activities.len()], nth + 2);
            writeln!(holds, "{activity},u{nth}").unwrap();
            writeln!(payments, "{activity},night:{line}").unwrap();
        }
        Self { holds, payments }
    }

    fn hold<'a>(&self, call: Call, more: impl IntoIterator<Item = &'a str>) -> Call {
        call.args(["hold", "--from", "-", "--for", "1h", "--job", "night"]).args(more).stdin(&self.holds)
    }

    fn confirm<'a>(&self, call: Call, more: impl IntoIterator<Item = &'a str>) -> Call {
        call.args(["confirm", "--from", "-", "--job", "paid"]).args(more).stdin(&self.payments)
    }
}

/// Each ledger entry's operation by request id, all of them once.
fn ledger_of(redis: &TestRedis, layout: Layout, activity: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, entry) in redis.xrange(&layout.ledger(activity)).into_iter().filter(|(_, it)| it.contains_key("requests")) {
        for request in serde_json::from_str::<Vec<String>>(&entry["requests"]).unwrap() {
            found.entry(request).or_default().push(entry["op"].clone());
        }
    }
    found
}

/// All rows of the activity were held, and confirmed if they should be, each once.
fn check(redis: &TestRedis, layout: Layout, count: usize, ops: &[&str]) {
    let found = ledger_of(redis, layout, "1");
    assert_eq!(found.len(), count, "{layout:?}");
    assert!(found.values().all(|of| of == ops), "{layout:?}: {found:?}");
    let open = if ops.len() == 1 { count.to_string() } else { "0".to_owned() };
    assert_eq!(redis.hget(&layout.meta("1"), "holds"), Some(open), "{layout:?}");
    assert_eq!(units_left(redis, layout), 1000 - i64::try_from(count).unwrap(), "{layout:?}");
    let deadlines: i64 = redis.ask(("ZCARD", layout.deadlines("1")));
    assert_eq!(deadlines, if ops.len() == 1 { i64::try_from(count).unwrap() } else { 0 }, "{layout:?}");
    redis.seckill(["-l", layout.name, "reconcile", "1"]).code(0).stdout_has("match");
}

fn preheated(layout: Layout) -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["-l", layout.name, "preheat", "--id", "1", "--stock", "1000"]).code(0);
    redis
}

#[test]
fn a_run_that_is_killed_in_the_middle_is_completed_by_the_same_command() {
    for layout in [SECKILL, COUPON] {
        let redis = preheated(layout);
        let files = Files::new(&["1".to_owned()], 400);
        let call = || redis.seckill(["-l", layout.name]);
        let ends = |count: usize| ledger_of(&redis, layout, "1").values().filter(|ops| ops.len() == count).count();
        for (count, confirms) in [(1, false), (2, true)] {
            let apply = |more: [&'static str; 2]| {
                if confirms { files.confirm(call(), more) } else { files.hold(call(), more) }
            };
            // It would take eight seconds.
            let run = apply(["--rate", "50"]).spawn();
            wait_until("some rows are decided", || ends(count) > 0);
            run.signal(libc::SIGKILL);
            run.wait().killed_by(libc::SIGKILL);
            assert!(ends(count) < 400, "{layout:?}: it was done before");
            let rows = apply(["-o", "json"]).code(0).json();
            let statuses: Vec<&str> =
                rows.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
            assert_eq!(statuses, ["ok", "replayed"], "{layout:?}");
            check(&redis, layout, 400, &["hold", "confirm"][..count]);
        }
    }
}

#[test]
fn a_reply_that_is_lost_is_asked_for_again_and_decides_nothing_twice() {
    for layout in [SECKILL, COUPON] {
        let redis = preheated(layout);
        let files = Files::new(&["1".to_owned()], 300);
        for (ops, fault) in [(&["hold"][..], Fault::LoseReply), (&["hold", "confirm"], Fault::CutReply(7))] {
            let proxy = Proxy::before(&redis);
            proxy.inject(When::Next("EVALSHA"), fault);
            let call = proxy.seckill(["-l", layout.name]);
            let run =
                if ops.len() == 1 { files.hold(call, ["-o", "jsonl"]) } else { files.confirm(call, ["-o", "jsonl"]) };
            let rows = run.code(0).jsonl();
            assert_eq!(rows.len(), 300, "{layout:?}");
            assert!(rows.iter().any(|row| row["status"] == "replayed"), "{layout:?}: no reply was lost");
            check(&redis, layout, 300, ops);
        }
    }
}

#[test]
fn a_primary_that_is_killed_holds_and_confirms_each_row_once() {
    let mut cluster = TestCluster::with_replicas(3);
    let activities: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "a")).collect();
    let list: String = activities.iter().map(|id| format!("{id},10000\n")).collect();
    cluster.seckill(["preheat", "--from", "-", "--yes"]).stdin(format!("id,stock\n{list}")).code(0);
    let files = Files::new(&activities, 6_000);
    for (node, confirms) in [(0, false), (1, true)] {
        let call = cluster.seckill(["--timeout", "1s"]);
        let rate = ["--rate", "4000"];
        let run = if confirms { files.confirm(call, rate).spawn() } else { files.hold(call, rate).spawn() };
        let held = |cluster: &TestCluster| {
            let meta = CLUSTER.meta(&activities[node]);
            cluster.ask::<Option<i64>>(&meta, ("HGET", &meta, "holds")).unwrap_or(0)
        };
        wait_until("some rows are decided", || if confirms { held(&cluster) < 1_900 } else { held(&cluster) > 100 });
        cluster.kill_primary(node);
        run.wait().code(0);
    }
    for activity in &activities {
        let (stock, participants) = (CLUSTER.stock(activity), CLUSTER.participants(activity));
        let (meta, ledger) = (CLUSTER.meta(activity), CLUSTER.ledger(activity));
        assert_eq!(cluster.ask::<i64>(&stock, ("GET", &stock)), 8_000, "{activity}");
        assert_eq!(cluster.ask::<i64>(&participants, ("HLEN", &participants)), 2_000, "{activity}");
        assert_eq!(cluster.ask::<i64>(&meta, ("HGET", &meta, "holds")), 0, "{activity}");
        assert!(cluster.ask::<i64>(&ledger, ("XLEN", &ledger)) > 2, "{activity}");
    }
    cluster.seckill(["reconcile"]).code(0);
    let again = files.confirm(cluster.seckill([]), ["-o", "json"]).code(0).json();
    assert!(again.as_array().unwrap().iter().all(|row| row["status"] == "replayed"), "{again:?}");
}
