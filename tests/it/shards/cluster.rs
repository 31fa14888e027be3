//! Transfers between nodes of a cluster: what replicas must have before units arrive, and many clients at once.

use std::sync::atomic::{AtomicU64, Ordering};

use seckill::Status;

use super::orders::{order, store};
use super::sale::{Sale, Servers};
use crate::support::TestCluster;

/// Whatever is sold and borrowed meanwhile.
fn audit(sale: &Sale, total: i64) {
    let audit = sale.seckill("reconcile 1001").code(0).json();
    let row = &audit["activities"][0];
    let units = |field: &str| row[field].as_i64().unwrap_or_else(|| panic!("{field}: {audit}"));
    assert_eq!((&row["verdict"], units("total"), units("stock_drift")), (&"match".into(), total, 0), "{audit}");
    assert_eq!(units("stock") + units("bought") + units("in_transit"), total, "{audit}");
}

#[test]
fn clients_at_once_sell_a_total_exactly_and_audits_are_exact_at_any_instant() {
    let sale = Sale::on(TestCluster::start(3), &[200, 0, 100, 0, 150, 50]);
    let Servers::Cluster(cluster) = &sale.servers else { unreachable!() };
    let url = cluster.url();
    let [sold, refused, next, done] = [(); 4].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut store = store(&url);
                // Each continues until it is refused three times.
                let mut refusals = 0;
                while refusals < 3 {
                    let user = format!("u{}", next.fetch_add(1, Ordering::Relaxed));
                    match seckill::place(&mut store, &order(&user, 1 + user.len() as u64 % 2), false).unwrap().status {
                        Status::Ok => sold.fetch_add(1 + user.len() as u64 % 2, Ordering::Relaxed),
                        Status::OutOfStock => {
                            refusals += 1;
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other:?}"),
                    };
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let mut audits = 0;
            while done.load(Ordering::Relaxed) < 8 || audits == 0 {
                audit(&sale, 500);
                audits += 1;
            }
        });
    });
    sale.check(500);
    let left: i64 = sale.stocks().iter().sum();
    assert_eq!(i64::try_from(sold.into_inner()).unwrap() + left, 500);
    assert!(left < 2, "{left} left, though {refused:?} were refused");
    assert_eq!(sale.in_transit(), 0);
}

#[test]
fn units_that_no_replica_has_as_lent_never_arrive() {
    let mut sale = Sale::on(TestCluster::with_replicas(3), &[0, 6, 0]);
    // The replica of the donor's node says nothing.
    sale.cluster().node(4).freeze();
    let line = format!("deduct 1001 --user {} --request r --timeout 600ms", sale.user(0, "u"));
    let error = sale.seckill(&line).code(1).error_json();
    assert!(error["error"].as_str().unwrap().contains("no replica of `1001#"), "{error}");
    assert_eq!((sale.stocks(), sale.in_transit()), (vec![0, 3, 0], 3));
    sale.cluster().node(4).thaw();
    assert_eq!(sale.status(&line), "ok", "the same transfer continues");
    sale.check(6);
    assert_eq!((sale.in_transit(), sale.open(1)), (0, vec![]));

    // A failover loses a lend: its units are back, and were nowhere else.
    sale.cluster().cut_replication(1);
    let line = format!("deduct 1001 --user {} --quantity 4 --request t --timeout 600ms", sale.user(0, "w"));
    let error = sale.seckill(&line).code(1).error_json();
    assert!(error["error"].as_str().unwrap().contains("no replica of `1001#"), "{error}");
    sale.cluster().node_mut(1).kill9();
    sale.cluster().take_over(4);
    assert_eq!(sale.in_transit(), 0);
    assert_eq!(sale.seckill(&line.replace("600ms", "5s")).code(0).json()["status"], "ok");
    sale.check(6);
}

#[test]
fn a_donor_remembers_what_no_replica_of_the_home_has() {
    let mut sale = Sale::on(TestCluster::with_replicas(3), &[0, 6, 0]);
    sale.cluster().cut_replication(0);
    let line = format!("deduct 1001 --user {} --request r --timeout 600ms", sale.user(0, "u"));
    assert_eq!(sale.status(&line), "ok");
    assert_eq!((sale.stocks(), sale.open(1).len(), sale.in_transit()), (vec![2, 3, 0], 1, 0));
    // A failover loses the units, and the next order that needs some brings them again.
    sale.cluster().node_mut(0).kill9();
    sale.cluster().take_over(3);
    assert_eq!((sale.stocks(), sale.in_transit()), (vec![0, 3, 0], 3));
    sale.age_transfers();
    assert_eq!(sale.seckill(&line.replace("600ms", "5s")).code(0).json()["status"], "ok");
    sale.check(6);
    assert_eq!((sale.in_transit(), sale.open(1)), (0, vec![]));
}
