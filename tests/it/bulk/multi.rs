//! Files of orders of several activities.

use super::{Orders, held, preheat, summary};
use crate::support::{Fault, Proxy, TestRedis, When, seckill};

fn sale(stock: u64) -> TestRedis {
    let redis = TestRedis::start();
    for activity in ["a", "b", "c"] {
        preheat(&redis, activity, stock, Some(5));
    }
    redis
}

#[test]
fn each_order_of_a_file_is_all_or_nothing() {
    let redis = sale(3);
    let orders = Orders::named(
        "o.jsonl",
        "{\"user\":\"1\",\"items\":{\"a\":2,\"b\":1}}\n{\"user\":2,\"items\":{\"a\":2,\"c\":1}}\n\
         {\"user\":3,\"items\":{\"b\":1,\"c\":1,\"b\":1},\"request\":\"mine\",\"reason\":\"gift\"}\n",
    );
    let call = || redis.seckill(["multi-deduct", "-o", "jsonl", "--from", orders.path()]);
    let first = call().code(3);
    let rows = first.jsonl();
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", row["line"], row["status"])).collect();
    assert_eq!(told, ["1 \"ok\"", "2 \"refused\"", "3 \"ok\""]);
    assert_eq!(rows[1]["items"][0]["status"], "out_of_stock");
    assert_eq!(rows[1]["items"][1]["status"], "refused");
    assert_eq!(rows[2]["request"], "mine");
    assert_eq!((held(&redis, "a"), held(&redis, "b"), held(&redis, "c")), (2, 3, 1));

    // A refused order of a job stays refused, though there would be enough by now.
    redis.seckill(["preheat", "--id", "a", "--stock", "30", "--update"]).code(0);
    let before = redis.dump_all();
    let again: Vec<String> =
        call().code(3).jsonl().iter().map(|row| format!("{} {}", row["line"], row["status"])).collect();
    assert_eq!(again, ["1 \"replayed\"", "2 \"refused\"", "3 \"replayed\""]);
    redis.assert_unchanged_since(&before);

    redis
        .seckill(["multi-deduct", "-o", "csv", "--from", orders.path()])
        .code(3)
        .stdout_has("line,user,activity,quantity,status,stock,bought,request\n1,1,a,2,replayed,28,2,");
    let summed = summary(&redis.seckill(["multi-deduct", "-o", "json", "--from", orders.path()]).code(3));
    assert_eq!(summed, ["a replayed 1", "a refused 1", "b replayed 2", "c replayed 1", "c refused 1"]);
}

#[test]
fn a_file_of_many_multi_orders_survives_what_breaks() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::CutReply(9)] {
        let redis = sale(450);
        let text: String = (0..500)
            .map(|user| format!("{{\"user\":{user},\"items\":{{\"a\":1,\"{}\":1}}}}\n", ["b", "c"][user % 2]))
            .collect();
        let orders = Orders::named("o.jsonl", text);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(4), fault);
        let call = proxy.seckill(["multi-deduct", "-o", "json", "--from", orders.path()]);
        call.code(3);
        assert_eq!((held(&redis, "a"), held(&redis, "b") + held(&redis, "c")), (450, 450), "{fault:?}");

        // Killed, and gone on with.
        let redis = sale(450);
        let proxy = Proxy::before(&redis);
        proxy.inject(When::Nth(5), Fault::HangReply);
        let running = proxy.seckill(["multi-deduct", "--from", orders.path()]).spawn();
        proxy.wait_for_commands(5);
        running.signal(libc::SIGKILL);
        running.wait().killed_by(libc::SIGKILL);
        redis.seckill(["multi-deduct", "--from", orders.path()]).code(3);
        assert_eq!((held(&redis, "a"), held(&redis, "b") + held(&redis, "c")), (450, 450), "{fault:?}");
    }
}

#[test]
fn a_bad_line_is_named_and_nothing_applied_unless_asked() {
    let redis = sale(10);
    let text = "{\"user\":1,\"items\":{\"a\":1}}\n{\"user\":2,\"items\":{\"a\":0}}\n{\"user\":3,\"items\":{\"a\":1}}\n";
    let orders = Orders::named("o.jsonl", text);
    redis.seckill(["multi-deduct", "--from", orders.path()]).code(2).stderr_has("o.jsonl:2:19: items: `a`: `0` is not");
    assert_eq!(held(&redis, "a"), 0);
    redis.seckill(["multi-deduct", "--keep-going", "--from", orders.path()]).code(2);
    assert_eq!(held(&redis, "a"), 2);
    let call = || redis.seckill(["multi-deduct", "--job", "night", "--from", "-"]);
    call().stdin(text.replace("user\":", "user\":1")).code(2).stderr_has("--job night");
    call().stdin(text.replace("user\":", "user\":1").replace(":0", ":1")).code(0);
    assert_eq!(held(&redis, "a"), 5);
    let dry =
        redis.seckill(["multi-deduct", "--dry-run", "-o", "csv", "--keep-going", "--from", orders.path()]).code(2);
    dry.stdout_is("activity,orders,units\na,2,2\n");
    for flags in [&["a=1", "--from", "f"][..], &["--from", "f", "--user", "7"], &["a=1", "--job", "x", "--user", "7"]] {
        seckill(["multi-deduct"]).args(flags).code(2);
    }
}
