//! What was archived comes back byte for byte, in every layout.

use super::Shop;
use crate::support::{LAYOUTS, SECKILL, SKU, TestRedis};

/// Archives, looks, restores, and compares everything.
fn there_and_back(shop: &Shop) {
    let layout = shop.layout;
    let before = shop.state();
    let row = shop.archive().code(0).json();
    assert_eq!((&row["status"], &row["state"]), (&"ok".into(), &"archived".into()), "{layout:?}: {row}");
    let keys: Vec<String> = shop.redis.ask(("KEYS", "*1"));
    let left: Vec<String> = layout.keys("1").into_iter().filter(|key| shop.redis.exists(key)).collect();
    assert_eq!(left, [layout.meta("1")], "{layout:?}: {keys:?}");
    let row = shop.restore().code(0).json();
    assert_eq!((&row["action"], &row["status"]), (&"restore".into(), &"ok".into()), "{layout:?}");
    let after = shop.state();
    assert!(before == after, "{layout:?}:\n{before}\n  is now\n{after}");
    shop.call("reconcile 1").code(0).stdout_has("match");
}

#[test]
fn an_archive_comes_back_byte_for_byte_in_every_layout() {
    for layout in LAYOUTS {
        let shop = Shop::open(layout);
        let inspected = shop.call("inspect 1 -o json").code(0).stdout;
        let entries = shop.redis.xrange(&layout.ledger("1"));
        there_and_back(&shop);
        assert_eq!(shop.call("inspect 1 -o json").code(0).stdout, inspected, "{layout:?}");
        assert_eq!(shop.redis.xrange(&layout.ledger("1")), entries, "{layout:?}: ids too");

        // Orders are known by their request ids, lines by their job; refunds work, and the sale continues.
        shop.call("resume 1").code(0);
        shop.call("deduct 1 --user a --request r-a").code(0).stdout_has("replayed");
        let orders = "activity,user,request\n1,d,\n1,e,r\"e\n1,a,\n1,用户,\n";
        shop.call("deduct --from - --job night").stdin(orders).run().stdout_has("replayed");
        shop.call("refund 1 --user a --request r-again").code(0);
        shop.call("deduct 1 --user new").code(0);
        shop.call("reconcile 1").code(0).stdout_has("match");
    }
}

#[test]
fn a_trimmed_ledger_and_one_without_a_ledger_come_back() {
    for layout in LAYOUTS {
        let shop = Shop::small(layout);
        shop.call("ledger trim 1 --before 0s --yes").code(0);
        there_and_back(&shop);
        shop.call("ledger trim 1 --before 0s --yes").code(0);
    }
    for layout in LAYOUTS.into_iter().filter(|layout| layout.has_users()) {
        let shop = Shop::without_sale(layout);
        let fixture = format!("layout: {}\nactivities: [{{id: 1, stock: 9, ledger: false}}]", layout.name);
        shop.call("preheat -").stdin(fixture).code(0);
        shop.call("deduct 1 --user a").code(0);
        shop.call("pause 1 --withdraw-stock").code(0);
        there_and_back(&shop);
        assert!(!shop.redis.exists(&layout.ledger("1")), "{layout:?}");
    }
}

#[test]
fn what_nobody_bought_and_what_has_ended_is_archived_too() {
    for layout in LAYOUTS {
        let shop = Shop::without_sale(layout);
        shop.call("preheat --id 1 --stock 0 --ends-at 2001-01-01").code(0);
        there_and_back(&shop);
        assert_eq!(shop.redis.hget(&layout.meta("1"), "rules").unwrap().split(' ').next(), Some("live"), "{layout:?}");
        shop.call("inspect 1").code(0).stdout_has("ended");
    }
}

#[test]
fn users_and_titles_in_any_encoding_come_back() {
    let shop = Shop::open(SECKILL);
    let raw: &[u8] = b"\xc4\xe3\0\"\\\n";
    let ledger = SECKILL.ledger("1");
    // As a backend sells that writes our ledger, and knows no UTF-8.
    shop.redis.cmd(("HSET", SECKILL.participants("1"), raw, 1));
    let withdrawn: i64 = shop.redis.hget(&SECKILL.meta("1"), "withdrawn").unwrap().parse().unwrap();
    shop.redis.cmd(("HSET", SECKILL.meta("1"), "withdrawn", withdrawn - 1));
    shop.redis.cmd(("HSET", SECKILL.meta("1"), "title", &b"\xff\xfe"[..]));
    let stock = (withdrawn - 1).to_string();
    shop.redis.cmd(("XADD", &ledger, "*", "op", "deduct", "stock", stock, "quantity", "1", "users", raw));
    shop.call("reconcile 1").code(0);
    there_and_back(&shop);
    let line = std::fs::read_to_string(shop.folder().join("participants.jsonl")).unwrap();
    assert!(line.contains("[{\"hex\":\"c4e300225c0a\"},\"1\"]\n"), "{line}");
}

#[test]
fn thousands_of_lines_take_many_pages() {
    for layout in [SECKILL, SKU] {
        let shop = Shop::without_sale(layout);
        shop.call("preheat --id 1 --stock 9000").code(0);
        let orders: String = (0..5000).map(|user| format!("1,user-{user},r-{user}\n")).collect();
        shop.call("deduct --from -").stdin(format!("activity,user,request\n{orders}")).code(0);
        shop.call("pause 1").code(0);
        there_and_back(&shop);
    }
}

#[test]
fn an_archive_is_restored_on_another_server_and_archived_again() {
    let mut shop = Shop::open(SECKILL);
    let before = shop.state();
    shop.archive().code(0);
    shop.redis = TestRedis::start();
    shop.restore().code(0);
    assert_eq!(shop.state(), before);
    shop.call("inspect").code(0).stdout_has("phone");
    // Never over the first one: that server, or its data, may come back.
    shop.archive().code(2).stderr_has("holds another archive of it").stderr_has("never overwritten");
    shop.call("archive 1 --yes --to").args([shop.to().to_owned() + "/second"]).code(0);
}

#[test]
fn several_activities_have_a_folder_each_and_one_question() {
    let shop = Shop::without_sale(SECKILL);
    for id in ["1", "2", "3", "..", "a/b"] {
        shop.call(&format!("preheat --id {id} --stock 9")).code(0);
        shop.call(&format!("deduct {id} --user u")).code(0);
    }
    shop.call("pause 1 2 .. a/b").code(0);
    let before = shop.redis.dump_all();
    let archive = || shop.call("archive 1 2 3 .. a/b 2 --to").args([shop.to()]);
    let asked = archive()
        .code(2)
        .stderr_has("Archive 4 activities (`1`, `2`, `..`, `a/b`) to")
        .stderr_has("4 buyers and 12 ledger entries");
    assert_eq!(asked.stdout, "");
    archive().at_terminal("n\n").code(1).stdout_has("not confirmed");
    let dry = archive().args(["--dry-run", "-o", "jsonl"]).code(3).jsonl();
    assert_eq!(dry.len(), 5);
    assert_eq!(
        (&dry[0]["entries"], &dry[0]["dry_run"], &dry[2]["status"]),
        (&3.into(), &true.into(), &"not_ended".into())
    );
    shop.redis.assert_unchanged_since(&before);
    assert!(shop.names().is_empty(), "{:?}", shop.names());

    let rows = archive().args(["--yes", "-o", "jsonl"]).code(3).jsonl();
    let statuses: Vec<&str> = rows.iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["ok", "ok", "not_ended", "ok", "ok"]);
    assert_eq!(shop.names(), ["%2E..seckill.1", "1.seckill.1", "2.seckill.1", "a%2Fb.seckill.1"]);
    let one = shop.call("preheat -o jsonl --activity 2 --restore").args([shop.to()]).code(0).jsonl();
    assert_eq!((one.len(), &one[0]["activity"]), (1, &"2".into()));
    shop.call("preheat --activity 7 --restore").args([shop.to()]).code(2).stderr_has("no archive of `7`");
    let all = shop.restore().code(0).jsonl();
    let actions: Vec<&str> = all.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["restore", "restore", "unchanged", "restore"]);
    shop.call("reconcile").code(0);
}
