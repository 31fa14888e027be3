//! A file of holds or of payments whose primary dies: each row once.

use std::fmt::Write as _;

use crate::support::{CLUSTER, TestCluster, wait_until};

#[test]
fn a_primary_that_is_killed_holds_and_confirms_each_row_once() {
    let mut cluster = TestCluster::with_replicas(3);
    let activities: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "a")).collect();
    let list: String = activities.iter().map(|id| format!("{id},10000\n")).collect();
    cluster.seckill(["preheat", "--from", "-", "--yes"]).stdin(format!("id,stock\n{list}")).code(0);
    let (mut holds, mut payments) = ("activity,user\n".to_owned(), "activity,request\n".to_owned());
    for index in 0..6_000 {
        // The header is line 1.
        let (activity, line) = (&activities[index % 3], index + 2);
        writeln!(holds, "{activity},u{index}").unwrap();
        writeln!(payments, "{activity},night:{line}").unwrap();
    }
    let hold = ["hold", "--from", "-", "--for", "1h", "--job", "night", "--timeout", "1s", "--rate", "4000"];
    let confirm = ["confirm", "--from", "-", "--job", "paid"];
    for (node, confirms) in [(0, false), (1, true)] {
        let run = match confirms {
            true => cluster.seckill(confirm).args(["--timeout", "1s", "--rate", "4000"]).stdin(&payments).spawn(),
            false => cluster.seckill(hold).stdin(&holds).spawn(),
        };
        let held = |cluster: &TestCluster| {
            let requests = CLUSTER.requests(&activities[node]);
            cluster.ask::<Option<i64>>(&requests, ("HGET", &requests, "\tholds")).unwrap_or(0)
        };
        wait_until("some rows are decided", || if confirms { held(&cluster) < 1_900 } else { held(&cluster) > 100 });
        cluster.kill_primary(node);
        run.wait().code(0);
    }
    for activity in &activities {
        let (stock, participants) = (CLUSTER.stock(activity), CLUSTER.participants(activity));
        let (requests, ledger) = (CLUSTER.requests(activity), CLUSTER.ledger(activity));
        assert_eq!(cluster.ask::<i64>(&stock, ("GET", &stock)), 8_000, "{activity}");
        assert_eq!(cluster.ask::<i64>(&participants, ("HLEN", &participants)), 2_000, "{activity}");
        assert_eq!(cluster.ask::<i64>(&requests, ("HGET", &requests, "\tholds")), 0, "{activity}");
        assert!(cluster.ask::<i64>(&ledger, ("XLEN", &ledger)) > 2, "{activity}");
    }
    cluster.seckill(["reconcile"]).code(0);
    let again = cluster.seckill(confirm).args(["-o", "json"]).stdin(&payments).code(0).json();
    assert!(again.as_array().unwrap().iter().all(|row| row["status"] == "replayed"), "{again:?}");
}
