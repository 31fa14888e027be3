//! Every command works in a layout of a shop as in a layout with a name.

use super::Shop;
use crate::support::{TestCluster, TestRedis};

#[test]
fn a_shop_sells_audits_and_repairs_on_its_own_keys() {
    for kind in ["hash", "set", "coupon", "counter"] {
        let (redis, shop) = (TestRedis::start(), Shop::new(kind));
        let run = |line: &str| shop.run(&redis, line);
        run("preheat --id 1 --stock 10").code(0);
        run("preheat --id 2 --stock 10").code(0);
        let ordered = run(&format!("deduct 1 {}", shop.user("u1"))).code(0).json();
        assert_eq!(ordered["stock"], 9, "{kind}");
        run(&format!("multi-deduct 1=1 2=1 {}", shop.user("u2"))).code(0);
        let column = if kind == "counter" { "activity\n1\n2\n" } else { "activity,user\n1,u3\n2,u3\n" };
        run("deduct --from -").stdin(column).code(0);
        run(&format!("refund 1 {}", shop.user("u3"))).code(0);
        assert_eq!(redis.ask::<i64>(("GET", "shop:{1}:left")), 8, "{kind}");
        if kind != "counter" {
            let held = run("inspect 1 --user u1").code(0).json();
            assert_eq!(held[0]["bought"], 1, "{kind}: {held}");
        }
        let rows = run("inspect").code(0).json();
        assert_eq!((&rows[0]["sold"], &rows[1]["sold"]), (&2.into(), &2.into()), "{kind}");
        run("pause 1 --withdraw-stock --yes").code(0);
        assert_eq!(redis.ask::<i64>(("GET", "shop:{1}:left")), 0);
        run("resume 1").code(0);
        run("ledger 1").code(0).stdout_has("deduct");
        run("ledger trim 1 --before 0s --yes").code(0);
        run("reconcile").code(0).stdout_has("match");

        // Of a bare counter the stock is taken for right.
        if kind != "counter" {
            redis.ask::<()>(("SET", "shop:{2}:left", 3));
            run("reconcile 2 --plan plan.jsonl").in_dir(shop.folder.path()).code(7);
            // The plan has the keys, so that nobody needs the file.
            let applied = redis.seckill(["repair", "plan.jsonl", "--yes"]).in_dir(shop.folder.path());
            applied.code(0);
            assert_eq!(redis.ask::<i64>(("GET", "shop:{2}:left")), 8, "{kind}");
            run("reconcile").code(0);
        }
        run("doctor").code(3).stdout_has("shop:{<id>}:left");
        assert_eq!(run("report 1").code(0).json()[0]["stock"], 8, "{kind}");
        // On keys of the shop's names, of activities of its own.
        let small = ["--yes", "--orders", "40", "--users", "40", "--clients", "8", "--strategy", "lua,batch,watch"];
        let sold = run("bench --scenario short").args(small).code(0).json();
        let exact = sold.as_array().unwrap().iter().filter(|row| row["oversold"] == 0).count();
        assert_eq!(exact, 3, "{kind}: {sold}");

        let mut keys: Vec<String> = redis.ask(("KEYS", "*"));
        keys.sort();
        let mut wanted = vec!["shop:{<id>}:left:activities".to_owned()];
        for id in ["1", "2"] {
            let parts = ["left", "left:ledger", "left:meta", "left:requests"].into_iter();
            let of_kind = [("buyers", kind != "counter"), ("left:units", kind == "set")];
            let of_kind = of_kind.into_iter().filter_map(|(part, is_there)| is_there.then_some(part));
            wanted.extend(parts.chain(of_kind).map(|part| format!("shop:{{{id}}}:{part}")));
        }
        wanted.sort();
        assert_eq!(keys, wanted, "{kind}");
    }
}

#[test]
fn a_shop_holds_units_and_archives_what_is_over() {
    for kind in ["hash", "set", "coupon"] {
        let (redis, shop) = (TestRedis::start(), Shop::new(kind));
        let run = |line: &str| shop.run(&redis, line);
        run("preheat --id 1 --stock 10").code(0);
        for user in ["a", "b"] {
            run(&format!("hold 1 --user {user} --for 1h --request {user}")).code(0);
        }
        assert_eq!(redis.ask::<i64>(("GET", "shop:{1}:left")), 8, "{kind}");
        run("confirm 1 --request a").code(0);
        run("release 1 --request b").code(0);
        run("pause 1").code(0);
        let inspected = run("inspect 1").code(0).stdout;
        run("archive 1 --to archive --yes").in_dir(shop.folder.path()).code(0);
        assert_eq!(redis.ask::<i64>(("EXISTS", "shop:{1}:left", "shop:{1}:buyers")), 0, "{kind}");
        run("preheat --restore archive --yes").in_dir(shop.folder.path()).code(0);
        assert_eq!(run("inspect 1").code(0).stdout, inspected, "{kind}");
        run("reconcile").code(0).stdout_has("match");
    }
}

#[test]
fn what_a_backend_created_is_found_and_taken_over() {
    let (redis, shop) = (TestRedis::start(), Shop::new("hash"));
    redis.ask::<()>(("SET", "shop:{7}:left", 6));
    redis.ask::<()>(("HSET", "shop:{7}:buyers", "u1", 3, "u2", 1));
    let found = shop.run(&redis, "inspect --scan").code(0).json();
    assert_eq!((&found[0]["activity"], &found[0]["sold"], &found[0]["stock"]), (&"7".into(), &4.into(), &6.into()));
    shop.run(&redis, "preheat --id 7 --adopt --total 10 --yes").code(0);
    shop.run(&redis, "deduct 7 --user u3").code(0);
    let audit = shop.run(&redis, "reconcile 7").code(0).json();
    assert_eq!(
        (&audit["activities"][0]["verdict"], &audit["activities"][0]["proof"]),
        (&"match".into(), &"ledger".into()),
        "{audit}"
    );
}

#[test]
fn a_call_for_a_backend_has_the_keys_of_the_shop() {
    let (redis, shop) = (TestRedis::start(), Shop::new("hash"));
    let call = redis.seckill(["-l", &shop.path(), "script", "show", "deduct", "--lang", "python"]).code(0);
    call.stdout_has("f\"shop:{{{activity}}}:left\"").stdout_has("f\"shop:{{{activity}}}:buyers\"");
}

#[test]
fn with_a_tag_a_cluster_serves_it_and_without_one_it_is_refused() {
    let cluster = TestCluster::start(3);
    let shop = Shop::new("hash");
    let on = |line: &str| cluster.seckill(["-l", &shop.path(), "-o", "json"]).args(line.split(' '));
    let ids = ["1", "2", "3", "4"];
    for id in ids {
        on(&format!("preheat --id {id} --stock 5")).code(0);
    }
    let rows: Vec<String> = ids.iter().flat_map(|id| (0..3).map(move |user| format!("{id},u{user}\n"))).collect();
    on("deduct --from -").stdin(format!("activity,user\n{}", rows.concat())).code(0);
    let audits = on("reconcile").code(0).json();
    assert_eq!(
        audits["activities"].as_array().unwrap().iter().filter(|row| row["verdict"] == "match").count(),
        4,
        "{audits}"
    );
    cluster.ask::<()>("{9}", ("SET", "shop:{9}:left", 4));
    assert_eq!(on("inspect --scan").code(0).json()[4]["activity"], "9");

    let path = shop.folder.path().join("spread.yaml");
    std::fs::write(&path, "kind: counter\nkeys: {stock: \"shop:<id>\"}\n").unwrap();
    let refused = cluster.seckill(["-l", path.to_str().unwrap(), "preheat", "--id", "1", "--stock", "5"]).code(2);
    refused.stderr_has("layout `shop:<id>` spreads an activity over 4 slots").stderr_has("name keys with a tag");
}
