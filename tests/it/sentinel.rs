//! Servers behind Sentinel: the primary is found by its name, and found again after a failover.

use std::fmt::Write as _;

use crate::support::{Authority, SECKILL, TestRedis, TestSentinel, Watched, seckill, wait_until};

/// An address where nobody listens.
fn nowhere() -> String {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().to_string()
}

#[test]
fn the_primary_is_found_by_its_name_past_a_sentinel_that_is_gone() {
    let watched = Watched::start();
    let (address, gone) = (watched.sentinel.address(), nowhere());
    watched.sentinel.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
    for url in [
        watched.sentinel.url(),
        format!("redis+sentinel://{gone},{address}/shop/0"),
        format!("redis-sentinel://{gone},{address}?sentinelMasterId=shop"),
        format!("redis-sentinel://{address}/0#shop"),
    ] {
        seckill(["deduct", "1", "--user", "7", "-u", &url]).code(0).stderr("");
    }
    assert_eq!(watched.primary.int("seckill:stock:1"), 6);
    watched.sentinel.seckill(["reconcile", "-v"]).code(0).stderr_has(&watched.sentinel.url());
    let file = "activity,user,quantity\n1,8,1\n1,9,1\n";
    watched.sentinel.seckill(["deduct", "--from", "-", "--format", "csv"]).stdin(file).code(0);
    watched.sentinel.seckill(["inspect", "--all", "1", "-o", "csv"]).code(0).stdout_has("1,9,1");
    // The database and the login are those of the servers.
    let url = format!("redis+sentinel://{address}/shop/3");
    seckill(["inspect", "1", "-u", &url]).code(3).stdout_has("not_preheated");
}

#[test]
fn an_order_is_sent_to_the_new_primary_after_a_failover() {
    let mut watched = Watched::start();
    watched.sentinel.seckill(["preheat", "--id", "1", "--stock", "10"]).code(0);
    watched.wait_until_in_step();
    watched.fail_over();
    watched.sentinel.seckill(["deduct", "1", "--user", "7"]).code(0);
    assert_eq!(watched.replica.int("seckill:stock:1"), 9);
    // Now the other way, without a warning: the order waits until there is a primary again.
    watched.wait_until_in_step();
    watched.wait_for_replica();
    watched.replica.kill9();
    watched.sentinel.seckill(["deduct", "1", "--user", "8", "--timeout", "60s"]).code(0).stdout_has("ok");
    assert!(watched.primary.hget("seckill:participants:1", "8").is_some());
}

#[test]
fn a_file_is_applied_exactly_once_though_its_primary_is_killed() {
    const ORDERS: u32 = 6000;
    let mut watched = Watched::start();
    watched.sentinel.seckill(["preheat", "--id", "1", "--stock", "10000"]).code(0);
    watched.wait_until_in_step();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.csv");
    let mut text = "activity,user,quantity\n".to_owned();
    (0..ORDERS).for_each(|user| writeln!(text, "1,u{user},1").unwrap());
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let run = watched.sentinel.seckill(["deduct", "--rate", "2000", "--timeout", "2s", "-o", "json"]);
    let run = run.args(["--from", &file]).spawn();
    wait_until("the file is on its way", || watched.primary.int("seckill:stock:1") < 9500);
    watched.primary.kill9();
    let ended = run.wait().code(0).json();
    assert_eq!((&ended[0]["status"], &ended[0]["orders"]), (&"ok".into(), &ORDERS.into()), "{ended}");
    assert_eq!(watched.replica.int("seckill:stock:1"), 10_000 - i64::from(ORDERS));
    let audit = watched.sentinel.seckill(["reconcile", "1", "-o", "json", "--orders", &file]).code(0).json();
    assert_eq!(audit["verdict"], "match", "{audit}");
    watched.sentinel.seckill(["deduct", "--from", &file]).code(0).stdout_has("replayed");
}

#[test]
fn a_scan_that_loses_its_connection_begins_again_and_names_nobody_twice() {
    let watched = Watched::start();
    watched.sentinel.seckill(["preheat", "--id", "1", "--stock", "100000"]).code(0);
    let participants = SECKILL.participants("1");
    for thousand in 0..40 {
        let mut command = redis::cmd("HSET");
        command.arg(&participants);
        (0..1_000).for_each(|index| _ = command.arg(format!("u{thousand}-{index}")).arg(1));
        command.exec(&mut watched.primary.connection()).unwrap();
    }
    let run = watched.sentinel.seckill(["inspect", "1", "--all", "-o", "csv"]).spawn();
    run.wait_for_stdout("u1");
    watched.primary.cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let rows = run.wait().code(0).stdout;
    let users: std::collections::BTreeSet<&str> = rows.lines().skip(1).collect();
    assert_eq!((users.len(), rows.lines().count()), (40_000, 40_001));
    watched.sentinel.seckill(["inspect", "--scan"]).code(0);
}

#[test]
fn sentinels_that_lead_nowhere_are_named() {
    let redis = TestRedis::with_tcp([]);
    let sentinel = TestSentinel::of(redis.port().unwrap(), "");
    let fails = |url: &str, code: i32, says: &str, hint: &str| {
        let call = seckill(["deduct", "1", "--user", "7", "-o", "json", "-u", url]);
        let error = call.code(code).stdout_is("").error_json();
        assert!(error["error"].as_str().unwrap().contains(says), "{error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{error}");
    };
    let (one, other) = (nowhere(), nowhere());
    let url = format!("redis+sentinel://{one},{other}/shop");
    fails(&url, 5, "no sentinel of `shop` can be reached", "26379");
    fails(&url, 5, &format!("`redis://{one}`: connection refused; `redis://{other}`: connection refused"), "26379");
    fails(&format!("redis+sentinel://{}/shop", redis.url().replace("redis://", "")), 5, "unknown command", "26379");
    fails(&format!("redis+sentinel://{}/store", sentinel.address()), 2, "know no primary `store`", "they know `shop`");
    fails(&format!("redis+sentinel://me:pw@{}", sentinel.address()), 2, "`--url`", "redis+sentinel://");
}

#[test]
fn a_primary_that_nobody_replaces_is_named() {
    let mut redis = TestRedis::with_tcp([]);
    let sentinel = TestSentinel::of(redis.port().unwrap(), "");
    redis.kill9();
    let call = sentinel.seckill(["deduct", "1", "--user", "7", "--timeout", "1s"]).code(5).stdout_is("");
    call.stderr_has("the primary `shop` cannot be used: cannot reach").stderr_has("--timeout 60s");
}

#[test]
fn a_sentinel_may_want_the_password_of_the_servers_or_its_own() {
    let redis = TestRedis::with_tcp(["--requirepass", "of-servers"]);
    let port = redis.port().unwrap();
    let same = TestSentinel::of(port, "requirepass of-servers\nsentinel auth-pass shop of-servers");
    let own = TestSentinel::of(port, "requirepass of-sentinels\nsentinel auth-pass shop of-servers");
    let call = |sentinel: &TestSentinel| sentinel.seckill(["preheat", "--id", "1", "--stock", "5"]);
    call(&same).env("SECKILL_PASSWORD", "of-servers").code(0);
    call(&own).env("SECKILL_PASSWORD", "of-servers").env("SECKILL_SENTINEL_PASSWORD", "of-sentinels").code(0);
    for wrong in [call(&same), call(&own).env("SECKILL_PASSWORD", "of-servers")] {
        let refused = wrong.code(4).stdout_is("").stderr_has("sentinel at `redis://127.0.0.1");
        refused.stderr_has("SECKILL_SENTINEL_PASSWORD").stderr_lacks("of-s");
    }
    let url = own.url().replace("://", "://:wrong-one@");
    let wrong = call(&own).args(["-u", &url]).env("SECKILL_SENTINEL_PASSWORD", "of-sentinels");
    wrong.code(4).stderr_has("SECKILL_PASSWORD").stderr_lacks("wrong-one").stderr_lacks("of-s");
}

#[test]
fn sentinels_and_servers_speak_tls() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let Some(port) = redis.listen_for_tls(&authority, "server", &[("tls-auth-clients", "yes")]) else { return };
    let path = |file: &str| authority.path(file);
    let sentinel = TestSentinel::of(
        port,
        &format!(
            "tls-port OWN_PORT\ntls-replication yes\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}",
            path("server.pem"),
            path("server.key"),
            path("ca.pem")
        ),
    );
    let url = format!("rediss+sentinel://{}/shop", sentinel.address());
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let call = || seckill(["preheat", "--id", "1", "--stock", "5", "-u", &url]).args(["--cacert", &ca]);
    call().args(["--cert", &cert, "--key", &key]).code(0);
    call().code(5).stderr_has("demands a client certificate").stderr_has("--cert");
    let plain = url.replace("rediss", "redis");
    seckill(["inspect", "-u", &plain, "--cacert", &ca]).code(2).stderr_has("`--cacert` is for TLS");
}
