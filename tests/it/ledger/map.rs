//! `ledger --map`: fields by the names that consumers know, in every format that has field names.

use crate::support::TestRedis;

fn sale() -> TestRedis {
    let redis = TestRedis::selling("1", 5);
    redis.seckill(["deduct", "1", "--user", "0123", "--quantity", "2", "--request", "r"]).code(0);
    redis
}

#[test]
fn fields_are_renamed_in_all_formats_and_nothing_else_is() {
    let redis = sale();
    let map = ["--map", "user=userId,quantity=qty", "--map", "request=orderId"];
    for (format, of) in [("json", "\""), ("jsonl", "\""), ("csv", ""), ("tsv", ""), ("yaml", "")] {
        let plain = redis.seckill(["ledger", "1", "-o", format]).code(0).stdout;
        let mapped = redis.seckill(["ledger", "1", "-o", format]).args(map).code(0).stderr("").stdout;
        let mut wanted = plain;
        for (ours, theirs) in [("user", "userId"), ("quantity", "qty"), ("request", "orderId")] {
            let name = |name: &str| format!("{of}{name}{of}");
            wanted = match format {
                "csv" | "tsv" => wanted.replacen(ours, theirs, 1),
                "yaml" if theirs == "qty" => wanted.replace("quantity:", "qty:"),
                "yaml" => wanted.replace(&format!(" {ours}:"), &format!(" \"{theirs}\":")),
                _ => wanted.replace(&name(ours), &name(theirs)),
            };
        }
        assert_eq!(mapped, wanted, "{format}");
    }
    let row = &redis.seckill(["ledger", "1", "-o", "jsonl"]).args(map).code(0).jsonl()[1];
    assert_eq!((&row["userId"], &row["qty"], &row["orderId"]), (&"0123".into(), &2.into(), &"r".into()));
}

#[test]
fn consumers_get_the_same_names() {
    let redis = sale();
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let command = format!("cat > {}", got.display());
    let call = ["ledger", "1", "--group", "a", "-o", "csv", "--map", "user=userId", "--exec", &command];
    redis.seckill(call).code(0);
    let rows = std::fs::read_to_string(&got).unwrap();
    assert!(rows.starts_with("activity,id,n,time,op,userId,quantity,"), "{rows}");
    let printed = redis.seckill(["ledger", "1", "--group", "b", "-o", "jsonl", "--map", "user=userId"]).code(0).jsonl();
    assert_eq!(printed[1]["userId"], "0123");
    let following = redis.seckill(["ledger", "1", "--follow", "-o", "jsonl", "--map", "user=userId"]).spawn();
    following.wait_for_stdout(r#""userId":"0123""#);
    following.signal(libc::SIGINT);
    following.wait().code(130);
}

#[test]
fn a_name_that_no_field_has_or_that_two_would_share_is_refused() {
    let redis = sale();
    for (map, why) in [
        ("usr=userId", "no field `usr`"),
        ("user=a,user=b", "renamed twice"),
        ("user=quantity", "two fields would be called `quantity`"),
        ("user=user_hex", "two fields would be called `user_hex`"),
        ("user=", "OURS=THEIRS"),
        ("user", "OURS=THEIRS"),
    ] {
        redis.seckill(["ledger", "1", "-o", "json", "--map", map]).code(2).stdout_is("").stderr_has(why);
    }
    redis.seckill(["ledger", "1", "--map", "user=userId"]).code(2).stderr_has("-o jsonl");
    redis.seckill(["ledger", "trim", "1", "--before", "1h", "--map", "user=userId"]).code(2);
}
