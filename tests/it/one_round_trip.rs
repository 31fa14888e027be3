//! An order is one connection and one round trip: nothing is asked first, nothing is loaded first.

use crate::support::layout::json_call;
use crate::support::{LAYOUTS, Proxy, TestRedis};

#[test]
fn an_order_is_one_connection_and_one_round_trip() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        for line in ["preheat --id 1 --stock 10", "preheat --id 2 --stock 10", "script load"] {
            json_call(&redis, layout, line).code(0);
        }
        for line in [
            "deduct 1 --user 7",
            "deduct 1 --user 8 --reason why --request r1",
            "deduct 1 --user 8 --request r1",
            "deduct 1 --user 9 --dry-run",
            "multi-deduct --user 9 1=1 2=1",
            "refund 1 --user 7",
            "refund 1 --user 8 --quantity 1 --reason why",
        ] {
            let proxy = Proxy::before(&redis);
            proxy.seckill(["-l", layout.name]).args(line.split(' ')).code(0);
            let seen = (proxy.connections(), proxy.round_trips(), proxy.commands());
            assert_eq!(seen, (1, 1, vec!["EVALSHA".to_owned()]), "{layout:?}: {line}");
        }
        let proxy = Proxy::before(&redis);
        proxy.seckill(["deduct", "1", "--user", "7", "--quantity", "99", "-l", layout.name]).code(3);
        assert_eq!((proxy.connections(), proxy.round_trips()), (1, 1), "{layout:?}: a refusal");
    }
}

#[test]
fn inspect_asks_besides_whether_the_server_is_a_replica() {
    let redis = TestRedis::selling("1", 10);
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    proxy.seckill(["inspect", "1", "--top", "0"]).code(0);
    assert_eq!((proxy.connections(), proxy.commands()), (1, vec!["EVALSHA".to_owned(), "ROLE".to_owned()]));
}

#[test]
fn a_server_without_the_script_costs_one_round_trip_more_and_loads_it() {
    let redis = TestRedis::selling("1", 10);
    let proxy = Proxy::before(&redis);
    proxy.seckill(["deduct", "1", "--user", "7"]).code(0);
    assert_eq!(proxy.commands(), ["EVALSHA", "EVAL"]);
    assert_eq!((proxy.connections(), proxy.round_trips()), (1, 2));
    proxy.seckill(["deduct", "1", "--user", "7"]).code(0);
    assert_eq!(proxy.commands().len(), 3);
}

#[test]
fn many_activities_are_one_round_trip_and_a_lost_script_is_loaded_in_one_more() {
    let redis = TestRedis::start();
    for id in ["1", "2", "3"] {
        redis.seckill(["preheat", "--id", id, "--stock", "10"]).code(0);
    }
    redis.seckill(["script", "load"]).code(0);
    let proxy = Proxy::before(&redis);
    proxy.seckill(["inspect", "1", "2", "3"]).code(0);
    assert_eq!(proxy.commands(), ["EVALSHA", "EVALSHA", "EVALSHA", "ROLE"]);
    assert_eq!((proxy.connections(), proxy.round_trips()), (1, 2));
    redis.cmd(&["SCRIPT", "FLUSH"]);
    let proxy = Proxy::before(&redis);
    proxy.seckill(["inspect", "1", "2", "3"]).code(0);
    let lost = ["EVALSHA", "EVALSHA", "EVALSHA"];
    assert_eq!(proxy.commands(), [&lost[..], &["EVAL", "EVALSHA", "EVALSHA", "ROLE"]].concat());
    assert_eq!((proxy.connections(), proxy.round_trips()), (1, 3));
}

#[test]
fn a_password_and_a_database_are_the_only_handshake() {
    let redis = TestRedis::with(["--requirepass", "secret"]);
    let proxy = Proxy::before(&redis);
    let url = format!("{}?db=3", proxy.url());
    proxy.seckill(["deduct", "1", "--user", "7", "-u", &url]).env("SECKILL_PASSWORD", "secret").code(3);
    assert_eq!(proxy.commands()[..3], ["AUTH", "SELECT", "EVALSHA"]);
}
