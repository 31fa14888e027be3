//! A sale over eight shards on six nodes: orders one by one, by file, over several activities, and holds, while two primaries are
//! killed one after the other. Each audit is exact.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::{TestCluster, wait_until};

const TOTAL: i64 = 300;

const SALE: &str = "\
layout: cluster
activities:
  - {id: 1001, title: phone, stock: 300, per_user_limit: 3, shards: 8}
  - {id: 2002, title: case, stock: 300}
";

/// An audit: whether there was one. Nodes may be down.
fn audit(cluster: &TestCluster) -> bool {
    let run = cluster.seckill(["reconcile", "1001", "-o", "json"]).run();
    if ![Some(0), Some(7)].contains(&run.status.code()) {
        return false;
    }
    let audit = run.json();
    let row = &audit["activities"][0];
    let units = |field: &str| row[field].as_i64().unwrap_or_else(|| panic!("{field}: {audit}"));
    assert_eq!(units("total"), TOTAL, "{audit}");
    assert_eq!(units("stock") + units("bought") + units("in_transit"), TOTAL, "{audit}");
    true
}

#[test]
fn a_sale_over_eight_shards_on_six_nodes_outlives_its_primaries_and_each_audit_is_exact() {
    let mut cluster = TestCluster::with_replicas(3);
    let mut fixture = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fixture.write_all(SALE.as_bytes()).unwrap();
    cluster.seckill(["preheat", fixture.path().to_str().unwrap()]).code(0);
    let rows: String = (0..120).map(|index| format!("1001,file{index},1\n")).collect();
    let orders = format!("activity,user,quantity\n{rows}");
    let url = cluster.url();
    let call = |line: &str| {
        crate::support::seckill([]).args(line.split(' ')).env("SECKILL_URL", &url).env("SECKILL_LAYOUT", "cluster")
    };
    let (stop, ok) = (AtomicBool::new(false), AtomicU64::new(0));
    let sell = |buyer: u32| {
        let mut index = 0;
        while !stop.load(Ordering::Relaxed) {
            let user = format!("b{buyer}-{index}");
            let run = match index % 3 {
                0 => call(&format!("deduct 1001 --user {user}")).run(),
                1 => call(&format!("multi-deduct --user {user} 1001=1 2002=1")).run(),
                _ => {
                    call(&format!("hold 1001 --user {user} --for 15m --request h-{user}")).run();
                    call(&format!("confirm 1001 --request h-{user}")).run()
                }
            };
            ok.fetch_add(u64::from(run.status.success()), Ordering::Relaxed);
            index += 1;
        }
    };
    let audits = thread::scope(|scope| {
        for buyer in 0..2 {
            let sell = &sell;
            scope.spawn(move || sell(buyer));
        }
        let file = scope.spawn(|| call("deduct --from - --job night --retry-for 60s").stdin(&orders).run());
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut audits = 0;
            for primary in 0..2 {
                let before = ok.load(Ordering::Relaxed);
                wait_until("orders are sold", || ok.load(Ordering::Relaxed) >= before + 5);
                audits += u32::from(audit(&cluster));
                cluster.kill_primary(primary);
                wait_until("its replica took over", || cluster.role(primary + 3) == "master");
                wait_until("an audit succeeds again", || audit(&cluster));
                audits += 1;
            }
            audits
        }));
        stop.store(true, Ordering::Relaxed);
        drop(file.join().unwrap());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(audits >= 3, "{audits}");
    // What nobody finished is finished now, and nothing was lost or sold twice.
    cluster.seckill(["expire"]).run();
    cluster.seckill(["reconcile", "--fix", "--yes"]).run();
    let report = cluster.seckill(["reconcile", "-o", "json"]).code(0).json();
    assert!(report["activities"].as_array().unwrap().iter().all(|row| row["verdict"] == "match"), "{report}");
    assert!(audit(&cluster));
}
