//! What the keys of a sale must be.

use super::{assert_fixed, assert_row, at_another_time, info_says, of_check, paste, rows, text};
use crate::support::scripts::shown;
use crate::support::{CLUSTER, Proxy, SECKILL, TestRedis};

fn sale() -> TestRedis {
    let redis = TestRedis::selling("1", 50);
    redis.seckill(["preheat", "--id", "2", "--stock", "5"]).code(0);
    redis.seckill(["deduct", "1", "--user", "7", "--quantity", "3"]).code(0);
    redis
}

#[test]
fn an_empty_server_has_nothing_to_check_and_a_name_without_keys_fails() {
    let redis = TestRedis::start();
    for check in ["keys", "expiry", "window", "foreign_writes", "feeds"] {
        assert_row(&redis, check, "skip", "");
    }
    let row = &of_check(&redis.seckill(["doctor", "gone", "-o", "json"]).code(3).json(), "keys")[0];
    assert_eq!((&row["target"], &row["status"]), (&"gone".into(), &"fail".into()));
    assert_eq!(row["fix"], "seckill preheat --id gone --stock N");
}

#[test]
fn windows_that_are_over_are_counted_and_the_last_one_is_named() {
    let redis = sale();
    assert_row(&redis, "window", "ok", "2 activities");
    for (id, end) in [("3", "2020-11-11T02:00:00Z"), ("4", "2019-11-11T02:00:00Z")] {
        redis.seckill(["preheat", "--id", id, "--stock", "5", "--ends-at", end]).code(0);
    }
    let over = assert_row(&redis, "window", "warn", "2 of 4 activities are over: `3` since 2020-11-11T");
    assert!(text(&over, "fix").starts_with("seckill inspect 3"), "{over}");
    redis.seckill(["preheat", "--id", "3", "--update", "--ends-at", "+2h"]).code(0);
    assert_row(&redis, "window", "warn", "1 of 4 activities is over: `4` since 2019-11-11T");
    redis.seckill(["pause", "4"]).code(0);
    assert_row(&redis, "window", "warn", "`4`");
    redis.seckill(["preheat", "--id", "4", "--update", "--ends-at", "+2h"]).code(0);
    assert_row(&redis, "window", "ok", "4 activities");
}

#[test]
fn a_key_that_is_missing_or_corrupt_fails_and_its_fix_restores_it() {
    let redis = sale();
    let damages: [(&[&str], &str); 8] = [
        (&["SET", "seckill:stock:1", "-2"], "units were sold past it"),
        (&["DEL", "seckill:stock:1"], "stock key is gone"),
        (&["SET", "seckill:stock:1", "abc"], "holds `abc`"),
        (&["DEL", "seckill:participants:1"], "holds nothing, though units were sold"),
        (&["SET", "seckill:participants:1", "x"], "wrong type"),
        (&["SET", "seckill:requests:1", "x"], "wrong type"),
        (&["DEL", "seckill:meta:1"], "its meta was lost"),
        (&["SET", "seckill:ledger:1", "x"], "wrong type"),
    ];
    for (damage, found) in damages {
        redis.cmd(damage);
        let fault = assert_row(&redis, "keys", "fail", found);
        paste(&redis, text(&fault, "fix"));
        if text(&fault, "fix").contains("--adopt") {
            redis.seckill(["resume", "1"]).run();
        }
        assert_row(&redis, "keys", "ok", "2 activities");
        redis.seckill(["reconcile"]).code(0);
        assert_eq!(redis.hget("seckill:participants:1", "7").unwrap(), "3", "{damage:?}");
    }
    // Without a ledger nothing but the index says that it was preheated.
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: 3, stock: 5, ledger: false}]").code(0);
    for damage in ["SET seckill:stock:3 -1", "DEL seckill:stock:3", "SET seckill:participants:3 x"] {
        redis.cmd(&damage.split(' ').collect::<Vec<_>>()[..]);
        let row = assert_row(&redis, "keys", "fail", "");
        assert!(text(&row, "fix").ends_with("seckill reconcile 3 --orders FILE --fix"), "{row:#}");
        redis.cmd(("SET", "seckill:stock:3", 5));
    }
    redis.cmd(("DEL", "seckill:participants:3"));
    redis.cmd(("DEL", "seckill:meta:3"));
    paste(&redis, text(&assert_row(&redis, "keys", "fail", "its meta is gone"), "fix"));
    assert_row(&redis, "keys", "ok", "3 activities");
    redis.cmd(("HSET", "seckill:meta:1", "rules", "v2 live"));
    assert_eq!(assert_row(&redis, "keys", "fail", "a later version")["fix"], "seckill version");
}

#[test]
fn users_of_the_other_kind_are_left_where_they_are() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shop.yaml");
    std::fs::write(&file, "kind: set\nkeys: {stock: 'shop:left:<id>', participants: 'shop:buyers:<id>'}\n").unwrap();
    let shop = ["-l", file.to_str().unwrap()];
    redis.seckill(shop).args(["preheat", "--id", "1", "--stock", "5"]).code(0);
    redis.cmd(("HSET", "shop:buyers:1", "a", 2));
    let found = redis.seckill(shop).args(["doctor"]).run();
    found.stdout_has("it is a hash: is that kind right?").stdout_lacks("RENAME");
}

#[test]
fn the_fix_of_an_id_like_an_option_or_a_pattern_is_for_that_id_alone() {
    let redis = TestRedis::start();
    for id in ["-x", "a*", "ab"] {
        redis.seckill(["preheat", "--stock", "5", &format!("--id={id}")]).code(0);
        redis.cmd(("DEL", SECKILL.stock(id)));
    }
    rows(&redis, "keys").iter().filter(|row| row["target"] != "ab").for_each(|row| paste(&redis, text(row, "fix")));
    assert_eq!(assert_row(&redis, "keys", "fail", "stock key is gone")["target"], "ab");
    redis.cmd(("DEL", "seckill:ledger:ab"));
    let row = assert_row(&redis, "keys", "fail", "its ledger and its users are gone");
    assert!(text(&row, "fix").starts_with("seckill preheat --id ab --stock 5 --reset --starts-at +1h && "));
}

#[test]
fn what_lost_all_keys_is_sold_again_only_after_its_orders_are_recorded() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    let orders = dir.path().join("orders.csv").display().to_string();
    std::fs::write(&orders, "request,user,activity,quantity\nr7,7,1,3\n").unwrap();
    for (layout, keys, preheat) in [
        ("seckill", SECKILL.keys("1"), "preheat --id 1 --stock 8"),
        ("cluster", CLUSTER.keys("1#0"), "preheat --id 1 --stock 8 --shards 2"),
    ] {
        let call = |line: &str| redis.seckill(["-l", layout]).args(line.split(' '));
        call(preheat).code(0);
        call("deduct 1 --user 7 --quantity 3 --request r7").code(0);
        redis.cmd([&["DEL".to_owned()], &keys[..]].concat());
        for named in ["doctor -o json", "doctor 1 -o json"] {
            for row in of_check(&call(named).code(3).json(), "keys") {
                let fix = text(&row, "fix").replace("--stock N", "--stock 8").replace("--shards N", "--shards 2");
                assert!(fix.contains(" --starts-at +1h && "), "{row:#}");
                // The last row leaves it open.
                paste(&redis, &fix.replace("FILE", &orders));
            }
            assert_eq!(of_check(&call("doctor -o json").run().json(), "keys")[0]["status"], "ok");
            call("reconcile 1").code(0);
            call("deduct 1 --user 8 --quantity 6").code(3).stdout_has("out_of_stock");
            redis.cmd([&["DEL".to_owned()], &keys[..]].concat());
        }
    }
    let call = |line: &str| redis.seckill(["-l", "cluster"]).args(line.split(' '));
    let fixes = |line: &str| {
        let found = of_check(&call(line).args(["-o", "json"]).run().json(), "keys");
        found.iter().map(|row| text(row, "fix").to_owned()).collect::<Vec<_>>()
    };
    // A shard that its parent does not name may be a slip.
    assert_eq!(fixes("doctor 1#7"), ["seckill doctor 1 -l cluster"]);
    // A meta or a ledger of a shard is not restored either; a parent is, beside its shards.
    call("preheat --id 1 --stock 8 --shards 2 --reset -y").code(0);
    redis.cmd(("DEL", CLUSTER.meta("1")));
    assert_eq!(fixes("doctor"), ["seckill preheat --id 1 -l cluster --stock N --shards N"]);
    call("preheat --id 1 --stock 8 --shards 2").code(0);
    assert_eq!(fixes("doctor"), [""]);
    redis.cmd(("SET", CLUSTER.ledger("1#0"), "x"));
    assert!(fixes("doctor").iter().all(|fix| fix.contains(" --stock 8 --shards 2 --reset ")), "{:?}", fixes("doctor"));
}

#[test]
fn a_key_that_expires_fails_unless_the_sale_is_over() {
    let redis = sale();
    for key in ["seckill:stock:1", "seckill:participants:1", "seckill:ledger:2", "seckill:activities"] {
        redis.cmd(("EXPIRE", key, 5000));
        assert_fixed(&redis, "expiry", "fail", &format!("`{key}` is removed in 1h 23m"), "ok");
    }
    redis.seckill(["preheat", "--id", "2", "--stock", "5", "--ends-at", "2001-01-01", "--update"]).code(0);
    redis.cmd(("EXPIRE", "seckill:meta:2", 5000));
    assert_fixed(&redis, "expiry", "warn", "seckill:meta:2", "ok");
    redis.cmd(("ACL", "SETUSER", "default", "-pttl"));
    assert_row(&redis, "expiry", "skip", "PTTL");
}

#[test]
fn fields_that_expire_are_warned_of() {
    let redis = sale();
    let warned = |rows: Vec<serde_json::Value>| {
        let warned: Vec<_> = rows.into_iter().filter(|row| row["status"] == "warn").collect();
        assert_eq!(warned.len(), 1, "{warned:#?}");
        assert!(text(&warned[0], "fix").ends_with(" INFO keyspace"), "{warned:#?}");
        text(&warned[0], "found").to_owned()
    };
    assert_row(&redis, "expiry", "ok", "2 activities");
    let has_expiring_fields = redis.version() >= if redis.is_valkey() { (9, 0, 0) } else { (7, 4, 0) };
    let set = redis.try_ask::<Vec<i64>>(("HEXPIRE", SECKILL.participants("1"), 5000, "FIELDS", 1, "7"));
    assert_eq!(set.is_ok(), has_expiring_fields);
    if has_expiring_fields {
        assert_eq!(warned(rows(&redis, "expiry")), "1 key with fields that expire; whose, the server does not say");
    }
    // As both products say it.
    let proxy = Proxy::before(&redis);
    for keyspace in
        ["db0:keys=9,expires=0,subexpiry=3", "db0:keys=9,keys_with_volatile_items=1\r\ndb3:keys=2,subexpiry=2"]
    {
        let said = info_says(&proxy, keyspace);
        assert_eq!(warned(of_check(&said, "expiry")), "3 keys with fields that expire; whose, the server does not say");
    }
}

#[test]
fn stock_that_moves_without_an_entry_is_somebody_elses_work() {
    let redis = sale();
    // A plain script sells, then we do, then it sells again.
    redis.cmd(("DECRBY", SECKILL.stock("1"), 2));
    redis.seckill(["deduct", "1", "--user", "8"]).code(0);
    redis.cmd(("DECR", SECKILL.stock("1")));
    let fault = assert_row(&redis, "foreign_writes", "fail", "2 changes of stock without an entry, -3 units in total");
    assert_eq!((&fault["target"], &fault["fix"]), (&"1".into(), &"seckill reconcile 1".into()));
    redis.seckill(["reconcile", "1"]).code(7);
    // What a repair moved back is no fault any more, and what comes after it is one.
    redis.seckill(["reconcile", "1", "--fix", "--yes"]).code(0);
    assert_row(&redis, "foreign_writes", "ok", "2 activities");
    redis.seckill(["deduct", "1", "--user", "8"]).code(0);
    redis.cmd(("INCR", SECKILL.stock("1")));
    assert_row(&redis, "foreign_writes", "fail", "1 change of stock without an entry, +1 units in total");
}

#[test]
fn what_was_looked_at_for_foreign_writes_is_said() {
    let redis = sale();
    assert_row(&redis, "foreign_writes", "ok", "2 activities: all 3 entries");
    let rows = redis.seckill(["doctor", "1", "-o", "json"]).code(3).json();
    assert_eq!(of_check(&rows, "keys")[0]["found"], "1 activity");
    let new = TestRedis::selling("1", 3);
    assert_row(&new, "foreign_writes", "ok", "1 activity: 1 entry");
    // A plain script adds units, then many buy.
    redis.cmd(("INCRBY", SECKILL.stock("2"), 3000));
    let buy = |count: usize| {
        let mut orders = redis::pipe();
        for index in 0..count {
            let order = orders.cmd("EVAL").arg(shown("deduct")).arg(5).arg(&SECKILL.keys("2")[..]);
            order.arg(&["hash", "shop", &format!("u{index}"), "1", "", "first"]).ignore();
        }
        orders.exec(&mut redis.connection()).unwrap();
    };
    buy(900);
    let fault =
        assert_row(&redis, "foreign_writes", "fail", "1 change of stock without an entry, +3000 units in total");
    assert!(text(&fault, "found").ends_with("within all 901 entries"), "{fault}");
    buy(200);
    assert_row(&redis, "foreign_writes", "ok", "2 activities: the last 1000 entries of each, since ");
}

#[test]
fn what_our_own_commands_do_is_never_foreign() {
    let redis = sale();
    for line in [
        "refund 1 --user 7 --quantity 2",
        "preheat --id 1 --stock 70 --update",
        "pause 1 --withdraw-stock",
        "refund 1 --user 7",
        "resume 1",
        "multi-deduct --user 9 1=2 2=1",
        "preheat --id 2 --stock 9 --reset --yes",
    ] {
        redis.seckill([]).args(line.split(' ')).code(0);
        assert_row(&redis, "foreign_writes", "ok", "2 activities");
    }
    let rows: String = (0..300).map(|user| format!("{},u{user},1\n", user % 2 + 1)).collect();
    redis.seckill(["deduct", "--from", "-", "-o", "jsonl"]).stdin(format!("activity,user,quantity\n{rows}")).code(3);
    assert_row(&redis, "foreign_writes", "ok", "2 activities");
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: plain, stock: 5, ledger: false}]").code(0);
    redis.cmd(("DECR", SECKILL.stock("plain")));
    assert_row(&redis, "foreign_writes", "ok", "2 activities");
}

#[test]
fn a_group_that_has_stopped_reading_is_named() {
    let redis = sale();
    assert_row(&redis, "feeds", "skip", "no consumer group");
    redis.cmd(("XGROUP", "CREATE", "seckill:ledger:1", "loader", "0"));
    redis.cmd(("XGROUP", "CREATE", "seckill:ledger:2", "loader", "$"));
    assert_row(&redis, "feeds", "ok", "2 groups up to date");
    let proxy = Proxy::before(&redis);
    let later = |seconds: u64| of_check(&at_another_time(&proxy, seconds), "feeds")[0].clone();
    let late = later(120);
    assert_eq!((text(&late, "target"), text(&late, "status")), ("1", "warn"), "{late:#}");
    let unread = if redis.version() >= (7, 0, 0) { "2 unread" } else { "unread entries" };
    assert!(text(&late, "found").starts_with(&format!("group `loader`: {unread}, the oldest for ")), "{late:#}");
    assert!(text(&late, "fix").ends_with("XINFO CONSUMERS seckill:ledger:1 loader"), "{late:#}");
    // Read, and not acknowledged.
    let read = ["XREADGROUP", "GROUP", "loader", "me", "STREAMS", "seckill:ledger:1", ">"];
    redis.cmd(&read);
    let stopped = later(3600);
    assert_eq!(text(&stopped, "status"), "fail", "{stopped:#}");
    assert!(text(&stopped, "found").contains("2 not acknowledged"), "{stopped:#}");
}
