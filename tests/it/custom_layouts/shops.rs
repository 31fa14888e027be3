//! The files in `layouts/`: contracts that are seen often, each beside a backend that sells with a plain script.

use std::path::{Path, PathBuf};

use crate::support::TestRedis;

/// The script in the comment of a file, and the file.
fn shop(name: &str) -> (PathBuf, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("layouts").join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    let comment: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('#')).collect();
    let comment = comment.join("\n");
    let script = comment.split_once("EVAL \"").unwrap().1.split_once('"').unwrap().0.to_owned();
    (file, script)
}

#[test]
fn every_file_of_a_layout_is_tested_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("layouts");
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["coupons.yaml", "stock.yaml"]);
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
