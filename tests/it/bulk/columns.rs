//! Which columns are read, which are ignored and named, and which are refused because they are nearly ours.

use super::{Orders, held, preheat, statuses};
use crate::support::{Call, TestRedis, seckill};

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    preheat(&redis, "1001", 1_000, None);
    redis
}

fn deduct(redis: &TestRedis, orders: &Orders) -> Call {
    redis.seckill(["deduct", "-o", "jsonl", "--from", orders.path()])
}

#[test]
fn names_of_columns_are_accepted_in_any_case() {
    for (name, text) in [
        ("o.csv", "Activity,USER,Quantity,Request\n1001,7,5,r-1\n"),
        ("o.tsv", "ACTIVITY\tUser\tQUANTITY\trequest\n1001\t7\t5\tr-1\n"),
        ("o.jsonl", "{\"Activity\":1001,\"USER\":7,\"quantity\":\"5\",\"REQUEST\":\"r-1\"}\n"),
    ] {
        let redis = sale();
        let orders = Orders::named(name, text);
        deduct(&redis, &orders).code(0).stderr("");
        assert_eq!(held(&redis, "1001"), 5, "{name}");
        assert!(redis.hget("seckill:requests:1001", "r-1").is_some(), "{name}");
        redis.seckill(["reconcile", "--orders", orders.path()]).code(0).stdout_has("match");
    }
}

#[test]
fn near_miss_names_are_refused_with_the_map_to_use() {
    let redis = sale();
    let before = redis.dump_all();
    for (column, ours) in [("qty", "quantity"), ("Count", "quantity"), ("数量", "quantity"), ("request_id", "request")]
    {
        let hint = format!("--map {ours}={column}`");
        for text in [
            format!("activity,user,{column}\n1001,7,5\n"),
            format!("{{\"activity\":1001,\"user\":7,\"{column}\":\"5\"}}\n"),
        ] {
            let orders = Orders::named("orders", &text);
            let outcome = deduct(&redis, &orders).code(2).stdout_is("").stderr_has(&hint).stderr_has("orders:1:");
            outcome.stderr_has(&format!("if it is something else, `--map {ours}=` ignores it"));
            if ours == "quantity" {
                redis.seckill(["reconcile", "1001", "--orders", orders.path()]).code(2).stderr_has(&hint);
            }
        }
    }
    // All that is missing in one go.
    let orders = Orders::new("sku,user_id,qty\n1001,7,5\n");
    deduct(&redis, &orders)
        .code(2)
        .stderr_has("orders.csv:1:1: no columns `activity`, `user`, `quantity`: the header has `sku`, `user_id`, `qty`")
        .stderr_has("--map activity=sku,user=user_id,quantity=qty");
    redis.assert_unchanged_since(&before);
    deduct(&redis, &orders).args(["--map", "activity=sku,user=user_id,quantity=qty"]).code(0).stderr("");
    assert_eq!(held(&redis, "1001"), 5);
}

#[test]
fn a_near_miss_that_is_something_else_can_be_ignored() {
    let redis = sale();
    let orders = Orders::new("activity,user,amount\n1001,7,99.90\n");
    deduct(&redis, &orders).code(2);
    deduct(&redis, &orders).args(["--map", "quantity="]).code(0).stderr_has("note: the column `amount` is ignored");
    assert_eq!(held(&redis, "1001"), 1);
    // With our own column there it is just another one.
    let orders = Orders::new("activity,user,quantity,amount\n1001,8,2,99.90\n");
    deduct(&redis, &orders).code(0).stderr_has("note: the column `amount` is ignored");
    assert_eq!(held(&redis, "1001"), 3);
    redis.seckill(["deduct", "--map", "user=", "--from", orders.path()]).code(2).stderr_has("`user` is required");
}

#[test]
fn ignored_columns_are_named_once() {
    let redis = sale();
    let jsonl = "{\"activity\":1001,\"user\":7,\"note\":1,\"shop\":2}\n{\"user\":8,\"shop\":3,\"activity\":1001}\n";
    for (name, text) in [("o.csv", "activity,note,user,shop\n1001,a,7,b\n1001,a,8,b\n"), ("o.jsonl", jsonl)] {
        let orders = Orders::named(name, text);
        let said = "note: the columns `note`, `shop` are ignored\n";
        deduct(&redis, &orders).args(["--job", name]).code(0).stderr(said);
        deduct(&redis, &orders).args(["--job", name, "--dry-run"]).code(0).stderr_has(said);
        deduct(&redis, &orders).args(["--job", name, "-q"]).code(0).stderr("");
        let piped = redis.seckill(["deduct", "-o", "jsonl", "--job", "piped", "--from", "-"]).stdin(text);
        assert_eq!(piped.run().stderr.matches("are ignored").count(), 1);
    }
}

#[test]
fn a_column_is_named_once_in_any_case() {
    let redis = sale();
    let before = redis.dump_all();
    for (text, why) in [
        ("activity,user,User\n1001,7,8\n", "o:1:1: the header names `user` twice"),
        ("{\"activity\":1001,\"user\":7,\"USER\":8}\n", "o:1:35: `USER` is given twice"),
    ] {
        deduct(&redis, &Orders::named("o", text)).code(2).stderr_has(why);
    }
    redis.assert_unchanged_since(&before);
    // Other columns may be: nobody reads them.
    deduct(&redis, &Orders::new("activity,user,x,x\n1001,7,,\n")).code(0);
}

#[test]
fn a_quantity_that_is_null_is_an_error_and_not_one_unit() {
    let redis = sale();
    let before = redis.dump_all();
    let tests: [(&str, &str, &[&str]); 5] = [
        ("o.csv", "activity,user,quantity\n1001,7,NULL\n", &[]),
        ("o.csv", "activity,user,quantity\n1001,7,null\n", &[]),
        ("o.jsonl", "{\"activity\":1001,\"user\":7,\"quantity\":null}\n", &[]),
        ("o.jsonl", "{\"activity\":1001,\"user\":7,\"quantity\":\"null\"}\n", &[]),
        ("o.tsv", "activity\tuser\tquantity\n1001\t7\tNULL\n", &["--format", "mysql"]),
    ];
    for (name, text, flags) in tests {
        let orders = Orders::named(name, text);
        let said = "a quantity that is null is not counted as 1";
        deduct(&redis, &orders).args(flags).code(2).stderr_has("is not a whole number").stderr_has(said);
        redis.seckill(["reconcile", "--orders", orders.path()]).args(flags).code(2).stderr_has(said);
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_mapped_quantity_must_be_in_every_object() {
    let redis = sale();
    let orders = Orders::named("o.jsonl", "{\"activity\":1001,\"user\":7,\"n\":2}\n{\"activity\":1001,\"user\":8}\n");
    deduct(&redis, &orders)
        .args(["--map", "quantity=n"])
        .code(2)
        .stderr_has("o.jsonl:2:1: `n` is missing, and `--map` says that it is there");
    deduct(&redis, &orders).args(["--map", "quantity=nn"]).code(2).stderr_has("o.jsonl: no object has `nn`");
}

#[test]
fn a_mapped_name_that_no_object_has_is_refused() {
    let redis = sale();
    let before = redis.dump_all();
    let orders =
        Orders::named("o.jsonl", "{\"activity\":1001,\"user\":7,\"oid\":\"r-1\"}\n{\"activity\":1001,\"user\":8}\n");
    deduct(&redis, &orders)
        .args(["--map", "request=order_id"])
        .code(2)
        .stderr_has("o.jsonl: no object has `order_id`, and `--map` says that it is there");
    redis.assert_unchanged_since(&before);
    // Many exports leave out what is null.
    deduct(&redis, &orders).args(["--map", "request=oid"]).code(0);
}

#[test]
fn fields_of_multi_orders_are_refused_too_if_they_are_nearly_ours() {
    let redis = sale();
    let before = redis.dump_all();
    for (line, ours) in [
        ("{\"user_id\":7,\"items\":{\"1001\":1}}", "user"),
        ("{\"user\":7,\"items\":{\"1001\":1},\"request_id\":\"r\"}", "request"),
    ] {
        let orders = Orders::named("o.jsonl", line);
        let outcome = redis.seckill(["multi-deduct", "--from", orders.path()]).code(2).stdout_is("");
        outcome.stderr_has(&format!("and `{ours}` is missing")).stderr_has(&format!("hint: call it `{ours}`"));
    }
    redis.assert_unchanged_since(&before);
    let orders = Orders::named("o.jsonl", "{\"USER\":7,\"Items\":{\"1001\":1},\"note\":1}");
    redis.seckill(["multi-deduct", "--from", orders.path()]).code(0).stderr_has("the column `note` is ignored");
}

#[test]
fn an_id_that_a_spreadsheet_rounded_is_refused_and_1e3_is_an_id() {
    let redis = sale();
    let before = redis.dump_all();
    for (column, row) in [
        ("user", "1001,1.2346E+17,"),
        ("user", "1001,1.2346e+17,"),
        ("user", "1001,1E+17,"),
        ("user", "1001,1.2345678901234568E17,"),
        ("activity", "1.00E+03,7,"),
        ("request", "1001,7,2.0261E+15"),
    ] {
        let orders = Orders::new(&format!("activity,user,request\n{row}\n"));
        let outcome = deduct(&redis, &orders).code(2).stderr_has(&format!("{column}: `"));
        outcome.stderr_has("is a number that was rounded").stderr_has("formatted as text");
        if column != "request" {
            redis
                .seckill(["reconcile", "--orders", orders.path(), "--map", "ledger="])
                .code(2)
                .stderr_has("was rounded");
        }
    }
    let orders = Orders::named("o.jsonl", "{\"activity\":1001,\"user\":\"1.2346E+17\"}\n");
    deduct(&redis, &orders).code(2).stderr_has("is a number that was rounded");
    redis.assert_unchanged_since(&before);
    let orders = Orders::new("activity,user\n1001,1e3\n1001,12E5\n1001,2.5e3\n1001,7E+\n");
    deduct(&redis, &orders).code(0);
    assert_eq!(held(&redis, "1001"), 4);
}

#[test]
fn csv_may_have_another_delimiter() {
    let redis = sale();
    let orders = Orders::named("o.txt", "Activity;user;quantity\r\n1001;\"7;8\";2\r\n");
    deduct(&redis, &orders)
        .code(2)
        .stderr_has("the header has `Activity;user;quantity`")
        .stderr_has("give `--delimiter ';'`");
    let outcome = deduct(&redis, &orders).args(["--delimiter", ";"]).code(0);
    assert_eq!((statuses(&outcome), outcome.jsonl()[0]["user"].as_str()), (vec!["2 ok".to_owned()], Some("7;8")));
    redis.seckill(["reconcile", "--delimiter", ";", "--orders", orders.path()]).code(0);
    let orders = Orders::named("o.csv", "activity|user\n1001|9\n");
    deduct(&redis, &orders).args(["--delimiter", "|"]).code(0);
    let tabs = Orders::named("o.csv", "activity\tuser\n1001\t10\n");
    deduct(&redis, &tabs).args(["--delimiter", "\\t"]).code(0);
    assert_eq!(held(&redis, "1001"), 4);
    for (name, flags, why) in [
        ("o.jsonl", &["--delimiter", ";"][..], "`--delimiter` is for csv, and this is jsonl"),
        ("o.csv", &["--delimiter", ";", "--format", "mysql"], "`--delimiter` is for csv, and this is mysql"),
        ("o.csv", &["--delimiter", ";;"], "expected one ASCII character"),
        ("o.csv", &["--delimiter", "\""], "expected one ASCII character"),
    ] {
        deduct(&redis, &Orders::named(name, "{}\n")).args(flags).code(2).stderr_has(why);
    }
    seckill(["deduct", "1001", "--user", "7", "--delimiter", ";"]).code(2).stderr_has("--from");
}
