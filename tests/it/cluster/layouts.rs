//! A layout whose keys of an activity are in several slots is refused on a cluster, before anything is changed.

use crate::support::TestCluster;

#[test]
fn other_layouts_are_refused_with_the_one_to_use() {
    let cluster = TestCluster::start(3);
    let one_seed = format!("redis://127.0.0.1:{}", cluster.node(1).port().unwrap());
    for (layout, slots) in [("seckill", 5), ("sku", 6), ("coupon", 5), ("product", 4)] {
        for line in [
            "preheat --id 1 --stock 10",
            "deduct 1 --user 7",
            "refund 1 --user 7",
            "multi-deduct 1=1 2=1 --user 7",
            "inspect 1",
            "inspect --scan",
            "pause 1",
            "reconcile 1",
            "ledger 1",
            "ledger trim 1 --before 1h",
            "script load",
        ] {
            for url in [&cluster.url(), &one_seed] {
                let call = cluster.seckill(["-o", "json", "-l", layout, "-u", url]).args(line.split(' '));
                let error = call.code(2).error_json();
                let text = format!("layout `{layout}` spreads an activity over {slots} slots");
                assert!(error["error"].as_str().unwrap().contains(&text), "{line}: {error}");
                let hint = error["hint"].as_str().unwrap();
                assert!(hint.contains("--layout cluster") && hint.contains("SECKILL_LAYOUT=cluster"), "{hint}");
            }
        }
    }
    let third = format!("{one_seed}/3");
    cluster.seckill(["inspect", "-u", &third]).code(1).stderr_has("out of the URL");
    for node in cluster.nodes() {
        assert!(node.dump_all().is_empty());
        assert!(
            !node.ask::<String>(("INFO", "commandstats")).contains("cmdstat_sadd"),
            "nothing was written meanwhile"
        );
    }
}

#[test]
fn several_seeds_are_a_cluster_and_nothing_is_sent() {
    // Nobody listens there.
    let url = "redis://127.0.0.1:1,127.0.0.1:2";
    let call = crate::support::seckill(["deduct", "1", "--user", "7", "-u", url]);
    call.code(2).stderr_has("layout `seckill` spreads an activity over 5 slots");
    let call = crate::support::seckill(["deduct", "1", "--user", "7", "-u", url, "-l", "cluster"]);
    call.code(5).stderr_has("redis://127.0.0.1:1,127.0.0.1:2").stderr_has("connection refused");
}

/// What records nobody knows no holds, which other layouts take for that.
#[test]
fn a_multi_order_without_users_over_several_slots_is_refused_with_the_slots() {
    let cluster = TestCluster::start(3);
    let mut layout = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::io::Write::write_all(&mut layout, b"kind: counter\nkeys: {stock: 'shop:{<id>}:left'}\n").unwrap();
    let path = layout.path().to_str().unwrap();
    assert_eq!(cluster.slot_of("1216"), cluster.slot_of("sku-1"));
    for id in ["1", "2", "1216", "sku-1"] {
        cluster.seckill(["preheat", "--stock", "10", "--id", id, "-l", path]).code(0);
    }
    let refused = cluster.seckill(["multi-deduct", "1=1", "2=1", "-l", path]).code(2);
    refused.stderr_has(&format!("`1` in {}, `2` in {}", cluster.slot_of("1"), cluster.slot_of("2")));
    let left = |id: &str| cluster.ask::<i64>(&format!("shop:{{{id}}}:left"), ("GET", format!("shop:{{{id}}}:left")));
    assert_eq!((left("1"), left("2")), (10, 10));
    cluster.seckill(["multi-deduct", "1216=1", "sku-1=2", "-l", path]).code(0);
    assert_eq!(left("sku-1"), 8);
}
