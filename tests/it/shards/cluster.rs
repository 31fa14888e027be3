//! Transfers between nodes of a cluster: what replicas must have before units arrive, and many clients at once.

use std::sync::atomic::{AtomicU64, Ordering};

use seckill::Status;

use super::orders::{order, store};
use super::sale::{Sale, Servers};
use crate::support::TestCluster;

#[test]
fn clients_at_once_sell_a_total_exactly() {
    let sale = Sale::on(TestCluster::start(3), &[40, 0, 20, 0, 30, 10]);
    let Servers::Cluster(cluster) = &sale.servers else { unreachable!() };
    let url = cluster.url();
    let [sold, refused, next] = [(); 3].map(|()| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut store = store(&url);
                // Each continues until it is refused three times.
                let mut refusals = 0;
                while refusals < 3 {
                    let user = format!("u{}", next.fetch_add(1, Ordering::Relaxed));
                    match seckill::deduct(&mut store, &order(&user, 1 + user.len() as u64 % 2), false).unwrap().status {
                        Status::Ok => sold.fetch_add(1 + user.len() as u64 % 2, Ordering::Relaxed),
                        Status::OutOfStock => {
                            refusals += 1;
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
    });
    sale.check(100);
    let left: i64 = sale.stocks().iter().sum();
    assert_eq!(i64::try_from(sold.into_inner()).unwrap() + left, 100);
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
