//! Where a layout is described, and what is said of a bad description.

use super::Shop;
use crate::support::{TestRedis, seckill};

#[test]
fn fixtures_contexts_and_the_environment_describe_it_too() {
    let (redis, shop) = (TestRedis::start(), Shop::new("hash"));
    let folder = shop.folder.path();
    let sale = format!(
        "{}activities:\n  - {{id: 1, stock: 5}}\nsteps:\n  - deduct: {{activity: 1, user: a}}\n",
        Shop::text("hash")
    );
    std::fs::write(folder.join("sale.yaml"), &sale).unwrap();
    redis.seckill(["run", "sale.yaml"]).in_dir(folder).code(0);
    assert_eq!(redis.ask::<i64>(("GET", "shop:{1}:left")), 4);
    redis.seckill(["run", "-l", "shop.yaml", "sale.yaml", "--yes"]).in_dir(folder).code(0);
    let contradiction = redis.seckill(["run", "-l", "sku", "sale.yaml"]).in_dir(folder).code(2);
    contradiction.stderr_has("`--layout sku` contradicts the fixture, which says `layout: shop:{<id>}:left`");

    redis.seckill(["deduct", "1", "--user", "b"]).env("SECKILL_LAYOUT", &shop.path()).code(0);

    let home = folder.to_str().unwrap();
    let in_context = |args: &[&str]| {
        let call = seckill(["--context", "night"]).without_env("SECKILL_URL").env("XDG_CONFIG_HOME", home);
        call.args(args.iter().copied())
    };
    let add = redis.seckill(["context", "add", "night", "-l", "shop.yaml", "-u", &redis.url()]);
    add.in_dir(folder).env("XDG_CONFIG_HOME", home).code(0);
    // The context has the keys themselves, so the file may go.
    std::fs::remove_file(shop.path()).unwrap();
    in_context(&["deduct", "1", "--user", "c"]).code(0);
    assert_eq!(redis.ask::<i64>(("GET", "shop:{1}:left")), 1, "two runs of the fixture, and two orders");
    let shown = seckill(["context", "show", "night", "-o", "json"]).env("XDG_CONFIG_HOME", home).code(0).json();
    assert_eq!(shown["layout"]["keys"]["participants"], "shop:{<id>}:buyers", "{shown}");
}

#[test]
fn a_bad_layout_is_refused_with_file_line_and_field() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        ("", "bad.yaml:1:1: the file holds nothing"),
        ("- kind", "bad.yaml:1:1: the layout:"),
        ("kind: hash", "`keys` is missing, which belongs to `kind`"),
        ("keys: {stock: 's:<id>'}", "`kind` is missing, which belongs to `keys`, expected one of `hash`"),
        (
            "kind: hsh\nkeys: {stock: 's:<id>', participants: 'p:<id>'}",
            "bad.yaml:1:7: kind: `hsh` is not one of `hash`",
        ),
        ("kind: hash\nkeys: {stok: 's:<id>'}", "bad.yaml:2:8: keys: unknown field `stok`"),
        ("kind: hash\nkeys: {stock: 'left'}", "bad.yaml:2:15: stock: `\"left\"` is not the name of a key"),
        ("kind: hash\nkeys: {stock: 's:<id>'}", "keys: `participants` is missing, the key that has the users"),
        ("kind: counter\nkeys: {stock: 's:<id>', participants: 'p:<id>'}", "kind `counter` records no users"),
        ("kind: hash\nkeys: {stock: 's:<id>', participants: 's:<id>:meta'}", "the name of another key"),
        ("kind: hash\nkind: set\nkeys: {stock: 's:<id>'}", "`kind` is given twice"),
        ("kind: hash\ncolour: red\nkeys: {}", "unknown field `colour`"),
        ("kind: counter\nkeys: {stock: 's:<id>'}\n---\n", "a second document begins"),
    ] {
        std::fs::write(folder.path().join("bad.yaml"), text).unwrap();
        redis
            .seckill(["-l", "bad.yaml", "preheat", "--id", "1", "--stock", "5"])
            .in_dir(folder.path())
            .code(2)
            .stderr_has(wanted);
        redis.seckill(["inspect"]).env("SECKILL_LAYOUT", "./bad.yaml").in_dir(folder.path()).code(2).stderr_has(wanted);
    }
    let both = "layout: sku\nkind: counter\nkeys: {stock: 's:<id>'}\nactivities: [{id: 1, stock: 5}]\n";
    std::fs::write(folder.path().join("sale.yaml"), both).unwrap();
    redis
        .seckill(["run", "sale.yaml"])
        .in_dir(folder.path())
        .code(2)
        .stderr_has("sale.yaml:2:7: a layout by name and by keys");
    redis.seckill(["-l", "none.yaml", "inspect"]).in_dir(folder.path()).code(2).stderr_has("cannot read `none.yaml`");
    redis.seckill(["-l", "none", "inspect"]).code(2).stderr_has("seckill, sku, coupon, product, cluster, or a file");
    assert!(redis.dump_all().is_empty());
}

#[test]
fn an_id_whose_key_would_be_one_of_another_activity_is_refused() {
    let redis = TestRedis::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.yaml"), "kind: counter\nkeys: {stock: 'stock:<id>'}\n").unwrap();
    let run =
        |args: &[&str]| redis.seckill(["-l", "s.yaml", "-o", "json"]).args(args.iter().copied()).in_dir(folder.path());
    run(&["preheat", "--id", "1", "--stock", "5"]).code(0);
    let refused = run(&["preheat", "--id", "1:meta", "--stock", "5"]).code(2);
    refused.stderr_has("activity `1:meta`").stderr_has("its key `stock:1:meta` would be one of another activity");
    run(&["preheat", "--id", "1:ledger", "--adopt", "--total", "5", "--yes"]).code(2);
    // Nor is one of our keys taken for an activity.
    redis.ask::<()>(("SET", "stock:2", 4));
    assert_eq!(run(&["inspect", "--scan"]).code(0).json().as_array().unwrap().len(), 2);
}
