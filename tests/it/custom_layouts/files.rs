//! Where a layout is described; `sessions/layouts.txt` has what is said of a bad description.

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
    contradiction.stderr_has("`--layout sku` contradicts the file, which says `layout: shop:{<id>}:left`");

    redis.seckill(["deduct", "1", "--user", "b"]).env("SECKILL_LAYOUT", &shop.path()).code(0);
    redis.seckill(["inspect"]).env("SECKILL_LAYOUT", "./none.yaml").code(2).stderr_has("cannot read `./none.yaml`");

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
