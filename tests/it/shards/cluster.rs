//! What replicas must have before units arrive, or leave the list of their donor.

use super::sale::Sale;
use crate::support::TestCluster;

#[test]
fn nothing_arrives_or_is_updated_that_no_replica_has() {
    let mut sale = Sale::on(TestCluster::with_replicas(3), &[0, 6, 0]);
    let order = format!("deduct 1001 --user {} --request r", sale.user(0, "u"));
    let commands =
        [("preheat --id 1001 --stock 60 --update", "no replica of `1001` "), (&order, "no replica of `1001#")];
    (3..6).for_each(|replica| sale.cluster().node(replica).freeze());
    for (line, why) in commands {
        let error = sale.seckill(&format!("{line} --timeout 1s")).code(1).error_json();
        assert!(error["error"].as_str().unwrap().contains(why), "{error}");
    }
    assert_eq!((sale.stocks(), sale.in_transit()), (vec![0, 3, 0], 3));
    (3..6).for_each(|replica| sale.cluster().node(replica).thaw());
    assert_eq!(sale.status(&order), "ok", "the same transfer continues");
    sale.seckill(commands[0].0).code(0);
    sale.check(60);
    assert_eq!((sale.in_transit(), sale.open(1)), (0, vec![]));
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
