//! The files in `layouts/`: contracts that are seen often, each beside a backend that sells with a plain script.

use std::path::PathBuf;

use crate::support::{TestRedis, root};

/// The script in the comment of a file, and the file.
fn shop(name: &str) -> (PathBuf, String) {
    let file = root().join("layouts").join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    let comment: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('#')).collect();
    let comment = comment.join("\n");
    let script = comment.split_once("EVAL \"").unwrap().1.split_once('"').unwrap().0.to_owned();
    (file, script)
}

#[test]
fn every_file_of_a_layout_is_tested_here() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("layouts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["coupons.yaml", "hm-dianping.yaml", "stock.yaml"]);
}

#[test]
fn a_bare_stock_is_sold_by_a_plain_script_and_by_the_tool() {
    let redis = TestRedis::start();
    let (file, script) = shop("stock.yaml");
    let run = |line: &str| redis.seckill(["-l", file.to_str().unwrap(), "-o", "json"]).args(line.split(' '));
    redis.ask::<()>(("SET", "stock:1001", 5));
    let take = || redis.ask::<i64>(("EVAL", &script, 1, "stock:1001"));
    assert_eq!([take(), take()], [1, 1]);
    run("preheat --id 1001 --adopt --total 5 --yes").code(0);
    assert_eq!(run("deduct 1001").code(0).json()["stock"], 2);
    run("reconcile 1001").code(0);
    assert_eq!([take(), take(), take()], [1, 1, 0]);
    assert_eq!(run("deduct 1001").code(3).json()["status"], "out_of_stock");
    assert_eq!(
        run("reconcile 1001").code(7).json()["activities"][0]["stock_drift"],
        -2,
        "a plain script writes no ledger"
    );
}

#[test]
fn coupons_several_a_user_are_claimed_by_a_plain_script_and_by_the_tool() {
    let redis = TestRedis::start();
    let (file, script) = shop("coupons.yaml");
    let run = |line: &str| redis.seckill(["-l", file.to_str().unwrap(), "-o", "json"]).args(line.split(' '));
    run("preheat --from - --yes").stdin("id,stock,per_user_limit,ledger\n1001,5,2,false\n").code(0);
    let claim = |user: &str| redis.ask::<i64>(("EVAL", &script, 2, "coupon:stock:1001", "coupon:users:1001", user, 2));
    assert_eq!([claim("a"), claim("a"), claim("a")], [1, 1, 2]);
    assert_eq!(run("deduct 1001 --user a").code(3).json()["status"], "limit_exceeded");
    assert_eq!(run("deduct 1001 --user b --quantity 2").code(0).json()["stock"], 1);
    assert_eq!([claim("b"), claim("c"), claim("d")], [2, 1, 0]);
    assert_eq!(run("inspect 1001 --user b").code(0).json()[0]["bought"], 2);
    assert_eq!(run("reconcile 1001").code(0).json()["verdict"], "match");
}

#[test]
fn vouchers_of_a_tutorial_are_sold_by_its_script_by_the_drop_in_and_by_the_tool() {
    let redis = TestRedis::start();
    let (file, script) = shop("hm-dianping.yaml");
    let run = |line: &str| redis.seckill(["-l", file.to_str().unwrap(), "-o", "json"]).args(line.split(' '));
    redis.ask::<()>(("SET", "seckill:stock:11", 4));
    let sell = |user: &str| redis.ask::<i64>(("EVAL", &script, 0, "11", user, "900"));
    assert_eq!([sell("a"), sell("a")], [0, 2]);
    run("preheat --id 11 --adopt --total 4 --yes").code(0);
    run("reconcile 11").code(0);
    assert_eq!(run("deduct 11 --user a").code(3).json()["status"], "limit_exceeded");
    assert_eq!(run("deduct 11 --user b").code(0).json()["stock"], 2);
    let drop_in = crate::support::scripts::shown("drop-in/hm-dianping");
    let keys = ["seckill:stock:11", "seckill:order:11", "stream.orders"].as_slice();
    let take = |user: &str| redis.ask::<i64>(("EVAL", drop_in, keys.len(), keys, ["11", user, "901"].as_slice()));
    assert_eq!([take("b"), take("c"), sell("c"), take("d"), take("e"), sell("e")], [2, 0, 2, 0, 1, 1]);
    assert_eq!(redis.ask::<i64>(("XLEN", "stream.orders")), 3, "orders of a, c and d");
    assert_eq!(run("inspect 11").code(0).json()[0]["buyers"], 4);
}

/// The default layout has the stock of that tutorial, and does not read its set of buyers.
#[test]
fn buyers_in_a_set_beside_a_stock_of_the_default_layout_are_named() {
    let redis = TestRedis::start();
    let (file, script) = shop("hm-dianping.yaml");
    let preheat =
        || redis.seckill(["preheat", "--from", "-", "--yes"]).stdin("id,stock,ledger\n11,4,false\n12,4,false\n");
    preheat().code(0);
    let lines = ["inspect 11", "inspect", "inspect 11 --user a", "inspect 11 --user a --why", "reconcile 11"];
    let answers =
        || lines.map(|line| redis.seckill([]).args(line.split(' ')).run()).into_iter().chain([preheat().run()]);
    for answer in answers() {
        answer.stderr_lacks("seckill:order:");
    }
    for user in ["a", "b"] {
        assert_eq!(redis.ask::<i64>(("EVAL", &script, 0, "11", user, "900")), 0);
    }
    let warning =
        "set `seckill:order:11` has 2 users: a backend keeps its buyers there, where this layout does not look";
    for answer in answers() {
        answer.stderr_has(warning).stderr_has("`hm-dianping.yaml`, in docs/layouts.md");
    }
    redis.cmd(("EVAL", &script, 0, "12", "a", "900"));
    redis.seckill(["inspect"]).run().stderr_has("`seckill:order:11` has 2 users, and 1 more has such a set:");
    redis.seckill(["inspect", "11", "-l", file.to_str().unwrap()]).run().stderr_lacks("does not look");
    redis.cmd(("ACL", "SETUSER", "default", "-scard"));
    redis.seckill(["inspect", "11"]).run().stderr_lacks("permission").stderr_lacks("does not look");
}
