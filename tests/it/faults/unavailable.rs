//! A server that is not there, not ready, frozen or new again.

use super::{WRITES, on_one_server, sale};
use crate::support::{SECKILL, TestRedis, seckill, wait_until};

#[test]
fn no_server_is_exit_5_and_the_hint_names_embedded() {
    let gone = {
        let redis = TestRedis::with_tcp([]);
        redis.url()
    };
    for url in [gone.as_str(), "unix:///nonexistent/redis.sock", "redis://no-such-host.invalid:6379"] {
        for line in WRITES {
            let error = seckill(["-o", "json", "-u", url, "--timeout", "500ms"]).args(line.split(' ')).code(5);
            let error = error.stdout_is("").error_json();
            assert!(error["error"].as_str().unwrap().contains("cannot reach the server at"), "{error}");
            assert!(error["hint"].as_str().unwrap().contains("--embedded"), "{error}");
        }
    }
}

#[test]
fn scripts_that_the_server_lost_are_loaded_once_and_the_order_continues() {
    let (redis, _) = on_one_server();
    for line in WRITES.into_iter().chain(["inspect 1"]) {
        redis.cmd(&["SCRIPT", "FLUSH"]);
        redis.seckill([]).args(line.split(' ')).code(0);
    }
    assert_eq!(redis.int(&SECKILL.stock("1")), 18);
}

#[test]
fn a_server_that_thaws_in_time_is_served() {
    let (redis, _) = on_one_server();
    redis.freeze();
    let call = redis.seckill(["deduct", "1", "--user", "8"]).spawn();
    redis.thaw();
    call.wait().code(0);
    assert_eq!(redis.int(&SECKILL.stock("1")), 8);
}

#[test]
fn an_order_that_is_interrupted_names_the_id_that_settles_it() {
    let (redis, _) = on_one_server();
    for (signal, line) in [
        (libc::SIGINT, "deduct 1 --user 8"),
        (libc::SIGTERM, "refund 1 --user 8"),
        (libc::SIGHUP, "hold 1 --user 8 --for 1h -o json"),
    ] {
        let before = redis.int(&SECKILL.stock("1"));
        redis.freeze();
        let call = redis.seckill([]).args(line.split(' ')).spawn();
        call.wait_until_it_catches(signal);
        call.signal(signal);
        let ended = call.wait().code(130);
        redis.thaw();
        let (_, hint) = ended.stderr.split_once("`--request ").unwrap();
        let (request, _) = hint.split_once('`').unwrap();
        redis.seckill([]).args(line.split(' ')).args(["--request", request]).code(0);
        assert_eq!((redis.int(&SECKILL.stock("1")) - before).abs(), 1, "{line}");
    }
}

#[test]
fn a_loading_server_is_waited_for_and_named_where_it_takes_too_long() {
    if !TestRedis::start().can_load_slowly() {
        return;
    }
    // Half a minute, unless the script is killed; it looks at its clients after every key.
    let mut redis = TestRedis::with([
        "--key-load-delay",
        "30000",
        "--loading-process-events-interval-bytes",
        "1024",
        "--rdbcompression",
        "no",
    ]);
    sale(&redis);
    let mut connection = redis.connection();
    for key in 0..1_000 {
        redis::cmd("SET").arg(key).arg("x".repeat(1_024)).exec(&mut connection).unwrap();
    }
    redis.cmd(&["SAVE"]);
    redis.restart_loading();
    let impatient = redis.seckill(["deduct", "1", "--user", "8", "--timeout", "400ms", "-o", "json"]).code(1);
    let error = impatient.stdout_is("").error_json();
    assert!(error["error"].as_str().unwrap().contains("is still loading its data"), "{error}");
    let checks = redis.seckill(["doctor", "--timeout", "400ms", "-o", "json"]).code(3).json();
    assert!(checks.to_string().contains("still loading its data"), "{checks}");
    let patient = redis.seckill(["deduct", "1", "--user", "8", "--timeout", "60s"]).spawn();
    let scan = redis.seckill(["inspect", "--timeout", "60s"]).spawn();
    redis.config_set("key-load-delay", "0");
    patient.wait().code(0);
    scan.wait().code(0);
    assert_eq!(redis.int(&SECKILL.stock("1")), 8);
}

#[test]
fn a_server_busy_with_a_script_is_named_and_nothing_is_changed() {
    let (redis, _) = on_one_server();
    redis.config_set("lua-time-limit", "10");
    let mut looping = redis.connection();
    let handle = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<redis::Value>(&mut looping).unwrap_err()
    });
    let is_busy = || redis.try_ask::<String>(&["GET", "k"]).err().is_some_and(|error| error.code() == Some("BUSY"));
    wait_until("the server is busy", is_busy);
    let error = redis.seckill(["deduct", "1", "--user", "8", "--timeout", "400ms", "-o", "json"]).code(1);
    let error = error.stdout_is("").error_json();
    assert!(error["error"].as_str().unwrap().contains("is busy with a script"), "{error}");
    // And one that is patient continues once the script is killed.
    let patient = redis.seckill(["deduct", "2", "--user", "8", "--timeout", "20s"]).spawn();
    redis.cmd(&["SCRIPT", "KILL"]);
    patient.wait().code(0);
    handle.join().unwrap();
    assert_eq!(redis.int(&SECKILL.stock("1")), 9);
}
