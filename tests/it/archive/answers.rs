//! What each command says of an archived activity.

use super::Shop;
use crate::support::{PRODUCT, SECKILL, SKU};

#[test]
fn every_command_knows_that_it_is_archived() {
    for layout in [SECKILL, SKU, PRODUCT] {
        let shop = Shop::open(layout);
        let before = shop.call("inspect -o json").code(0).json();
        shop.archive().code(0);
        let dump = shop.redis.dump_all();
        let now = shop.call("inspect -o json").code(0).stderr("").json();
        for field in ["title", "total", "stock", "sold", "buyers", "per_user_limit"] {
            assert_eq!(now[0][field], before[0][field], "{layout:?}: {field}");
        }
        assert_eq!(now[0]["state"], "archived", "{layout:?}");
        shop.call("inspect --state archived").code(0).stdout_has("phone");
        shop.call("inspect 1").code(0).stderr_has("was archived at").stderr_has("by tester@test");
        shop.call("inspect --alert-below 100%").code(0).stderr("");
        if layout.has_users() {
            let row = shop.call("inspect 1 --user a -o json").code(0).json();
            assert_eq!(row[0]["bought"], serde_json::Value::Null, "{layout:?}: it is in the files");
            shop.call("inspect 1 --all -o csv").code(0).stdout_has("activity").stderr_has("was archived");
            let why = shop.call("inspect 1 --user a --why -o json").code(0).json();
            assert_eq!((&why["status"], &why["can_buy"]), (&"ended".into(), &0.into()), "{layout:?}");
        }
        shop.call("deduct 1 --user x").code(3).stdout_has("ended").stderr_has("`1` is archived");
        if layout.has_users() {
            shop.call("refund 1 --user a").code(3).stdout_has("not_preheated").stderr_has("`1` is archived");
        }
        shop.call("resume 1").code(3).stdout_has("archived");
        shop.call("resume --all --yes").code(0).stderr_has("archived, and left as before: `1`");
        if layout.has_users() {
            shop.call("expire").code(0).stderr("note: no hold expired\n");
            shop.call("expire 1").code(3).stdout_has("ended");
        }
        shop.call("ledger 1").code(0).stderr_has("its ledger is in its files");
        shop.call("ledger trim --all --before 0s --yes").code(0);
        shop.call("reconcile").code(3).stderr_has("nothing to audit: 1 activity is archived");
        let records = ["--orders-cmd", "echo activity,user,quantity; echo 1,x,9"];
        let compared = shop.call("reconcile --fix --yes -o json").args(records).code(3);
        compared.stderr_has("order records are not compared with archives");
        shop.call("reconcile 1").code(3).stdout_has("not_preheated").stderr_has("`1` is archived");
        shop.call("reconcile 1 --fix --yes").code(3);
        shop.call("preheat --id 1 --stock 50").code(3).stdout_has("exists").stderr_has("it is archived");
        shop.call("preheat --id 1 --stock 50 --update").code(3).stdout_has("exists").stderr_has("--restore DIR");
        shop.call("preheat --id 1 --adopt --yes").code(3).stdout_has("exists").stderr_has("--restore DIR");
        let doctor = shop.call("doctor 1 -o jsonl").run().jsonl();
        let of_it = |row: &&serde_json::Value| row["target"] == "1" && row["status"] == "fail";
        assert_eq!(doctor.iter().find(of_it), None, "{layout:?}");
        shop.call("inspect --watch=100ms --count 2").code(0).stdout_has("archived");
        shop.call("inspect -o prometheus").code(0);
        shop.redis.assert_unchanged_since(&dump);
        // A plain refund makes a stock out of nothing: nothing is sold of it.
        shop.redis.cmd(("INCR", layout.stock("1")));
        shop.call("deduct 1 --user x").code(3).stdout_has("ended");
        shop.call("preheat --id 1 --stock 50 --update").code(3).stdout_has("exists");
    }
}

#[test]
fn the_same_command_again_verifies_the_files() {
    let shop = Shop::open(SECKILL);
    shop.archive().code(0);
    let dump = shop.redis.dump_all();
    let again = shop.archive().code(0).json();
    assert_eq!((&again["status"], &again["entries"]), (&"replayed".into(), &shop.archive().code(0).json()["entries"]));
    let elsewhere = tempfile::tempdir().unwrap();
    let other = shop.call("archive 1 --yes -o jsonl --to").args([elsewhere.path()]).code(3);
    assert_eq!(other.json()["status"], "ended");
    std::fs::write(shop.folder().join("ledger.jsonl"), "").unwrap();
    shop.archive().code(2).stderr_has("is not as it was archived");
    shop.redis.assert_unchanged_since(&dump);
}

#[test]
fn a_reset_begins_another_sale_and_its_archive_has_a_folder_of_its_own() {
    let shop = Shop::open(SECKILL);
    shop.archive().code(0);
    shop.call("preheat --id 1 --stock 5 --reset --yes").code(0);
    shop.call("deduct 1 --user a").code(0);
    shop.call("reconcile").code(0);
    shop.call("pause 1").code(0);
    shop.archive().code(0);
    assert_eq!(shop.names(), ["1.seckill.1", "1.seckill.2"]);
    shop.call("preheat --restore").args([shop.directory.path().join("1.seckill.2")]).code(0);
    shop.call("reconcile").code(0);
}
