//! What goes wrong while a server is loaded: nothing is sold twice, and nothing remains.

use std::process::Command;

use super::{assert_exact, oversold, row, server, wait_for_orders};
use crate::support::{Authority, Running, TestCluster, TestRedis, redis_cli, seckill, wait_until};

const FOREVER: [&str; 9] = ["bench", "--yes", "--duration", "60s", "--clients", "20", "-o", "json", "--strategy"];

fn begin(redis: &TestRedis, strategy: &str) -> Running {
    let running = redis.seckill(FOREVER).args([strategy]).spawn();
    wait_for_orders(redis);
    running
}

#[test]
fn ctrl_c_removes_what_was_made() {
    let (redis, unchanged) = server();
    for strategy in ["lua", "batch", "lock"] {
        let running = begin(&redis, strategy);
        let run = running.interrupt().stderr_has("interrupted; the activities of this run were removed");
        assert!(row(&run, strategy)["qps"].as_u64().unwrap() > 0);
        unchanged(&redis);
    }
}

#[test]
fn a_run_that_cannot_remove_its_activities_says_which_keys_remain() {
    let (mut redis, _) = server();
    let running = redis.seckill(FOREVER).args(["lua", "--timeout", "200ms"]).spawn();
    wait_for_orders(&redis);
    redis.kill9();
    running
        .wait()
        .code(5)
        .stderr_has("activities of this run remain on `unix://")
        .stderr_has(&format!("redis-cli -s {} UNLINK seckill:stock:bench-", redis.socket().display()))
        .stderr_has(" seckill:lock:bench-")
        .stderr_has("SREM seckill:activities bench-");
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_says_which_keys_remain() {
    let (redis, _) = server();
    let running = begin(&redis, "lua");
    redis.freeze();
    running.signal(libc::SIGINT);
    // The first one is seen, but no reply comes.
    std::thread::sleep(std::time::Duration::from_millis(200));
    running.signal(libc::SIGINT);
    let run = running.wait();
    redis.thaw();
    run.code(130).stderr_has("these commands remove them").stderr_has(" seckill:requests:bench-");
}

#[test]
fn what_remains_on_a_cluster_is_removed_by_the_commands_that_are_printed() {
    let Some(cli) = redis_cli() else { return };
    let cluster = TestCluster::start(3);
    let nodes = cluster.nodes();
    nodes.iter().for_each(|node| _ = node.cmd(&["ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all"]));
    let url = cluster.url().replace("redis://", "redis://ann@");
    let line =
        ["-l", "cluster", "-u", &url, "bench", "--yes", "--users", "100000", "--clients", "8", "--duration", "1m"];
    let running = seckill(line).env("SECKILL_PASSWORD", "secret").spawn();
    wait_until("orders are sold", || {
        nodes.iter().all(|node| !node.ask::<Vec<String>>(("KEYS", "seckill:{bench-*}:participants")).is_empty())
    });
    nodes.iter().for_each(TestRedis::freeze);
    running.signal(libc::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(200));
    running.signal(libc::SIGINT);
    let run = running.wait();
    nodes.iter().for_each(TestRedis::thaw);
    let run = run.code(130);
    let folder = cli.parent().unwrap().display().to_string();
    let commands: Vec<&str> = run.stderr.lines().filter(|line| line.contains("redis-cli ")).collect();
    assert_eq!(commands.len(), 4, "{}", run.stderr);
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", format!("{folder}:/usr/bin:/bin")).env("SECKILL_PASSWORD", "secret");
        let output = shell.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
    }
    assert!(nodes.iter().all(|node| node.ask::<u64>(("DBSIZE",)) == 0));
}

#[test]
fn killed_connections_and_lost_scripts_sell_nothing_twice() {
    let (redis, unchanged) = server();
    let line = ["bench", "--yes", "--duration", "1s", "--clients", "20", "-o", "json"];
    let running =
        redis.seckill(line).args(["--strategy", "lua,naive", "--scenario", "short", "--users", "100000"]).spawn();
    wait_for_orders(&redis);
    redis.cmd(("SCRIPT", "FLUSH"));
    redis.cmd(("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"));
    let run = running.wait();
    let lua = row(&run, "lua");
    assert_eq!((oversold(&run, "lua"), &lua["errors"]), (0, &0.into()), "{lua}");
    assert!(lua["retries"].as_u64().unwrap() > 0, "{lua}");
    unchanged(&redis);
}

#[test]
fn a_server_that_accepts_fewer_clients_is_named_before_anything_is_sold() {
    let (redis, unchanged) = server();
    redis.config_set("maxclients", "10");
    let line = ["bench", "--yes", "--clients", "50"];
    redis.seckill(line).code(1).stderr_has("max number of clients").stderr_has("raise `maxclients`");
    redis.config_set("maxclients", "1000");
    unchanged(&redis);
}

#[test]
fn more_clients_than_open_files_are_refused_before_anything_is_sent() {
    let redis = TestRedis::start();
    let line = format!("ulimit -S -n 60; ulimit -H -n 100; exec {} bench --yes", crate::support::binary().display());
    let run = |clients: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{line} --orders 100 --clients {clients}")]).env("SECKILL_URL", redis.url());
        shell.env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap()
    };
    let refused = run("61");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("61 clients need more open files") && said.contains("at most 60 clients"), "{said}");
    assert!(!redis.ask::<String>(("INFO", "commandstats")).contains("evalsha"));
    // Up to the hard limit it takes what it needs.
    assert_eq!(run("60").status.code(), Some(0));
}

#[test]
fn clients_speak_tls() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let settings = [("tls-auth-clients", "no")];
    let Some(port) = redis.listen_for_tls(&authority, "server", &settings) else { return };
    let (url, ca) = (format!("rediss://127.0.0.1:{port}"), authority.path("ca.pem"));
    let line = ["bench", "--yes", "--orders", "300", "--users", "300", "--clients", "3", "-o", "json"];
    let more = ["--scenario", "short", "--strategy", "lua,batch,watch", "-u", &url, "--cacert", &ca];
    let run = seckill(line).args(more).code(0);
    assert_exact(&run);
    run.stderr_has("lua: 300 orders were answered").stderr_has("ok 30, out_of_stock 270");
    assert_eq!(redis.ask::<u64>(("DBSIZE",)), 0);
}

#[test]
fn a_slot_that_moves_meanwhile_is_followed() {
    let cluster = TestCluster::start(2);
    let line = ["bench", "--yes", "--duration", "1500ms", "--clients", "10", "-o", "json"];
    let running = cluster.seckill(line).spawn();
    let stocks = || cluster.node(0).ask::<Vec<String>>(("KEYS", "seckill:{bench-*}:participants"));
    wait_until("orders are sold", || stocks().len() == 1);
    cluster.move_slot(cluster.slot(&stocks()[0]), 1);
    let run = running.wait().code(0);
    let lua = row(&run, "lua");
    assert_eq!((&lua["oversold"], &lua["errors"]), (&0.into(), &0.into()), "{lua}");
    assert!(lua["retries"].as_u64().unwrap() > 0, "{lua}");
    assert_eq!(cluster.nodes().iter().map(|node| node.ask::<u64>(("DBSIZE",))).sum::<u64>(), 0);
}

#[test]
fn a_watchdog_prolongs_the_lock_of_a_holder_that_waits_for_the_server() {
    let (redis, unchanged) = server();
    let running = begin(&redis, "lock");
    // A release that the server already has leaves nothing to prolong, so one pause of the server may not be enough.
    wait_until("the lock was prolonged", || {
        redis.freeze();
        std::thread::sleep(std::time::Duration::from_millis(300));
        redis.thaw();
        redis.ask::<String>(("INFO", "commandstats")).contains("cmdstat_pexpire:")
    });
    running.interrupt();
    unchanged(&redis);
}
