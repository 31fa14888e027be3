//! What a server must be for a sale.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{assert_fixed, assert_row, at_another_time, info_says, of_check, paste, row, text};
use crate::support::scripts::{SCRIPTS, layout_has};
use crate::support::{Authority, Fault, LAYOUTS, Proxy, TestRedis, follow, seckill, wait_until};

fn info(redis: &TestRedis, name: &str) -> String {
    let info: String = redis.ask(("INFO", "everything"));
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned)).unwrap_or_default()
}

#[test]
fn a_server_that_keeps_nothing_fails_and_one_with_snapshots_alone_is_warned_of() {
    let redis = TestRedis::start();
    assert_row(&redis, "fsync", "skip", "no append-only file");
    assert_fixed(&redis, "persistence", "fail", "a restart begins empty", "ok");
    redis.config_set("appendonly", "no");
    redis.config_set("save", "3600 1");
    assert_fixed(&redis, "persistence", "warn", "save 3600 1", "ok");
    assert!(text(&row(&redis, "persistence"), "found").contains("and snapshots"));
}

#[test]
fn a_snapshot_that_cannot_be_written_fails() {
    let redis = TestRedis::start();
    let snapshot = redis.socket().with_file_name("dump.rdb");
    fs::create_dir(&snapshot).unwrap();
    redis.cmd("BGSAVE");
    wait_until("the snapshot has failed", || info(&redis, "rdb_last_bgsave_status") == "err");
    let fault = assert_row(&redis, "persistence", "fail", "the last snapshot failed");
    fs::remove_dir(&snapshot).unwrap();
    redis.config_set("appendonly", "yes");
    wait_until("the append-only file is there", || info(&redis, "aof_rewrite_in_progress") == "0");
    paste(&redis, text(&fault, "fix"));
    wait_until("the snapshot is there", || info(&redis, "rdb_last_bgsave_status") == "ok");
    assert_row(&redis, "persistence", "ok", "append-only file");
}

#[test]
fn an_append_only_file_that_is_not_synced_at_once_loses_orders_unless_there_is_a_copy() {
    let redis = TestRedis::with_tcp(["--appendonly", "yes"]);
    assert_row(&redis, "persistence", "ok", "append-only file");
    assert_row(&redis, "fsync", "warn", "everysec without a replica");
    redis.config_set("appendfsync", "no");
    let fault = assert_row(&redis, "fsync", "fail", "30 s");
    assert!(text(&fault, "fix").ends_with("CONFIG SET appendfsync everysec"), "{fault}");
    redis.config_set("appendfsync", "always");
    assert_row(&redis, "fsync", "ok", "always");
    redis.config_set("appendfsync", "everysec");
    redis.config_set("no-appendfsync-on-rewrite", "yes");
    assert_row(&redis, "fsync", "warn", "no-appendfsync-on-rewrite");
    redis.config_set("no-appendfsync-on-rewrite", "no");
    redis.config_set("repl-diskless-sync-delay", "0");
    let replica = TestRedis::start();
    follow(&replica, &redis);
    assert_row(&redis, "fsync", "ok", "another server has a copy");
}

#[test]
fn a_server_that_evicts_keys_fails() {
    let redis = TestRedis::start();
    assert_row(&redis, "eviction", "ok", "noeviction");
    redis.config_set("maxmemory-policy", "volatile-ttl");
    assert_fixed(&redis, "eviction", "warn", "volatile-ttl", "ok");
    redis.config_set("maxmemory-policy", "allkeys-lru");
    assert_row(&redis, "eviction", "fail", "allkeys-lru deletes any key");
    for key in 0..100 {
        redis.cmd(("SET", key, "x".repeat(20_000)));
    }
    redis.config_set("maxmemory", &(info(&redis, "used_memory").parse::<u64>().unwrap() - 500_000).to_string());
    wait_until("keys are evicted", || {
        redis.try_ask::<()>(("SET", "one", "more")).is_ok() && info(&redis, "evicted_keys") != "0"
    });
    let fault = assert_row(&redis, "eviction", "fail", "keys are gone already");
    redis.config_set("maxmemory", "0");
    paste(&redis, text(&fault, "fix"));
    let row = assert_row(&redis, "eviction", "warn", "evicted since the server started: ");
    assert_eq!(row["fix"], "seckill reconcile");
}

#[test]
fn memory_that_is_nearly_full_fails() {
    let redis = TestRedis::start();
    redis.cmd(("SETRANGE", "filler", 30_000_000, "x"));
    assert_fixed(&redis, "memory", "warn", "without maxmemory", "ok");
    let limit = |percent: u64| (info(&redis, "used_memory").parse::<u64>().unwrap() * 100 / percent).to_string();
    redis.config_set("maxmemory", &limit(82));
    assert_fixed(&redis, "memory", "warn", "% of maxmemory", "ok");
    redis.config_set("maxmemory", &limit(95));
    assert_fixed(&redis, "memory", "fail", "% of maxmemory", "ok");
}

#[test]
fn buffers_and_hanging_scripts_have_bounds_that_fit_a_sale() {
    let redis = TestRedis::start();
    assert_row(&redis, "output_buffers", "ok", "normal unlimited, replica 256 MB, pubsub 32 MB");
    assert_row(&redis, "busy_reply", "ok", "5000 ms");
    for (check, setting, value, found) in [
        ("output_buffers", "client-output-buffer-limit", "replica 1mb 1mb 60", "replica 1 MB"),
        ("output_buffers", "client-output-buffer-limit", "normal 1mb 0 0", "normal 1 MB"),
        ("output_buffers", "client-output-buffer-limit", "pubsub 0 0 0", "one slow subscriber"),
        ("busy_reply", "lua-time-limit", "0", "never"),
        ("busy_reply", "lua-time-limit", "10", "BUSY errors"),
        ("busy_reply", "lua-time-limit", "600000", "only after 10m"),
    ] {
        redis.config_set(setting, value);
        assert_fixed(&redis, check, "warn", found, "ok");
    }
}

#[test]
fn a_script_of_ours_that_kept_everybody_waiting_is_named() {
    let redis = TestRedis::start();
    assert_row(&redis, "slow_scripts", "ok", "no call of ours over 10 ms");
    redis.config_set("slowlog-log-slower-than", "0");
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    assert_row(&redis, "slow_scripts", "ok", "of ours in the slow log; `");
    redis.config_set("slowlog-log-slower-than", "10000");
    // The slow log keeps the beginning of a text.
    let deduct = seckill(["script", "show", "deduct"]).code(0).stdout;
    let busy = format!("{}]] local n = 0 for i = 1, 5e7 do n = i end", &deduct[..200]);
    redis.cmd(("EVAL", busy.clone(), 0));
    assert_row(&redis, "slow_scripts", "warn", "`deduct` took ");
    redis.cmd(("SLOWLOG", "RESET"));
    redis.cmd(("EVAL", &busy[busy.find("local n").unwrap()..], 0));
    assert_fixed(&redis, "slow_scripts", "warn", "EVAL of somebody else", "warn");
    redis.config_set("slowlog-log-slower-than", "-1");
    assert_row(&redis, "slow_scripts", "skip", "off");
}

#[test]
fn a_clock_that_is_off_opens_sales_at_the_wrong_time() {
    let redis = TestRedis::start();
    assert_row(&redis, "clock", "ok", "");
    let proxy = Proxy::before(&redis);
    let ahead = of_check(&at_another_time(&proxy, 120), "clock")[0].clone();
    assert!(ahead["status"] == "fail" && text(&ahead, "found").contains("ahead of"), "{ahead}");
    assert_eq!(ahead["fix"], "timedatectl set-ntp true");
}

#[test]
fn each_script_and_what_it_calls_is_tried_and_nothing_remains() {
    let redis = TestRedis::start();
    for layout in LAYOUTS {
        redis.seckill(["-l", layout.name, "preheat", "--id", "1", "--stock", "5"]).code(0);
        redis.seckill(["-l", layout.name, "deduct", "1", "--user", "7"]).code(0);
    }
    let before = redis.dump_all();
    for layout in LAYOUTS {
        let rows = redis.seckill(["doctor", "-o", "json", "-l", layout.name]).run().json();
        let scripts = SCRIPTS.iter().filter(|script| layout_has(layout, script)).count();
        assert_eq!(of_check(&rows, "scripts")[0]["found"], format!("all {scripts} run"), "{}", layout.name);
        assert!(of_check(&rows, "rights").iter().all(|row| row["status"] == "ok"), "{rows:#}");
        for check in ["keys", "expiry", "foreign_writes"] {
            let row = &of_check(&rows, check)[0];
            assert_eq!((&row["status"], &row["target"]), (&"ok".into(), &layout.name.into()), "{row:#}");
        }
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_script_that_a_proxy_refuses_is_named() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    // The first asks for rights, and then scripts come in the order of `script list`.
    let calls = AtomicUsize::new(0);
    proxy.decide(move |command| {
        let is_third = command == "EVAL" && calls.fetch_add(1, Ordering::Relaxed) == 3;
        is_third.then_some(Fault::Reply("-ERR bad lua script for redis cluster\r\n"))
    });
    let rows = proxy.seckill(["doctor", "-o", "json"]).code(3).json();
    let row = &of_check(&rows, "scripts")[0];
    assert_eq!(row["found"], "the server refuses `multi_deduct`: ERR bad lua script for redis cluster");
    assert!(row["status"] == "fail" && text(row, "fix").starts_with("seckill script load"), "{row:#}");
}

#[test]
fn a_server_without_an_engine_for_lua_is_one_failure() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    // As Valkey 9.1 says it if its module for Lua is not loaded.
    let no_engine = || Fault::Reply("-ERR Could not find scripting engine 'lua'\r\n");
    proxy.decide(move |command| command.starts_with("EVAL").then(no_engine));
    let rows = proxy.seckill(["doctor", "-o", "json"]).code(3).json();
    let rights = &of_check(&rows, "rights")[..];
    assert!(rights.len() == 1 && rights[0]["status"] == "fail", "{rights:#?}");
    assert!(text(&rights[0], "found").starts_with("the server has no engine for Lua, "), "{rights:#?}");
    assert!(text(&rights[0], "fix").ends_with(" MODULE LIST"), "{rights:#?}");
    // Nobody can grant what the server does not have.
    for (name, call) in [("EVAL", " EVAL 'return 1' 0"), ("EVALSHA", " EVALSHA x 0")] {
        let managed = TestRedis::with(["--rename-command", name, ""]);
        let row = row(&managed, "rights");
        assert!(text(&row, "found").starts_with(&format!("this server has no {name} ")), "{row:#}");
        assert!(text(&row, "fix").ends_with(call), "{row:#}");
        managed.seckill(["preheat", "--id", "1", "--stock", "1"]).code(1).stderr_has("`seckill doctor` finds others");
    }
}

#[test]
fn a_version_with_known_flaws_of_lua_is_warned_of() {
    let redis = TestRedis::start();
    let (major, minor, patch) = redis.version();
    let own = row(&redis, "lua_flaws");
    assert!(text(&own, "found").contains(&format!(" {major}.{minor}.{patch}")), "{own:#}");
    let proxy = Proxy::before(&redis);
    for (lines, status, found) in [
        ("redis_version:7.0.15", "warn", "Redis 7.0.15 has CVE-2025-49844, 46817, 46818 and 46819, unless"),
        ("redis_version:7.2.4\r\nvalkey_version:8.1.3", "warn", ": upgrade to 8.1.4 or later"),
        ("redis_version:7.2.4\r\nvalkey_version:8.1.4", "ok", "none known of Valkey 8.1.4"),
        ("redis_version:unstable", "skip", "cannot read `Redis unstable`"),
        ("role:master", "skip", "INFO does not say which version"),
    ] {
        let said = &of_check(&info_says(&proxy, lines), "lua_flaws")[0];
        assert_eq!(said["status"], status, "{said:#}");
        assert!(text(said, "found").contains(found), "{said:#}");
        assert_eq!(text(said, "fix").ends_with(" ACL LIST"), status == "warn", "{said:#}");
    }
}

#[test]
fn a_replica_is_not_where_orders_go() {
    let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
    assert_row(&primary, "role", "ok", "primary, ");
    let fault = assert_row(&primary, "replicas", "warn", "no replica");
    assert!(
        text(&fault, "fix").contains(&format!("REPLICAOF ADDRESS-OF-THIS-SERVER {}", primary.port().unwrap())),
        "{fault}"
    );
    assert_row(&primary, "min_replicas", "skip", "no replica");
    let replica = TestRedis::start();
    follow(&replica, &primary);
    replica.config_set("replica-read-only", "no");
    assert_row(&replica, "role", "fail", "it takes orders, and forgets them");
    replica.config_set("replica-read-only", "yes");
    let fault = assert_row(&replica, "role", "fail", "it refuses orders");
    assert_eq!(fault["fix"], format!("seckill doctor --url redis://127.0.0.1:{}", primary.port().unwrap()));
    for check in ["replicas", "min_replicas"] {
        assert_row(&replica, check, "skip", "replica itself");
    }
    assert_row(&primary, "replicas", "ok", "1 replica");
    let fault = assert_row(&primary, "min_replicas", "warn", "though there is 1 replica");
    assert!(text(&fault, "fix").ends_with("CONFIG SET min-replicas-to-write 1"), "{fault}");
    primary.config_set("min-replicas-to-write", "1");
    assert_row(&primary, "min_replicas", "ok", "1 wanted, 1 in step");
    primary.config_set("min-replicas-to-write", "2");
    let fault = assert_row(&primary, "min_replicas", "fail", "NOREPLICAS");
    assert!(text(&fault, "fix").ends_with("CONFIG SET min-replicas-to-write 1"), "{fault}");
    primary.config_set("min-replicas-max-lag", "0");
    assert_row(&primary, "min_replicas", "warn", "min-replicas-max-lag 0");
}

#[test]
fn the_last_line_says_what_a_power_cut_and_a_failover_may_lose() {
    let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
    let assert_last = |redis: &TestRedis, expected: &str| {
        let shown = redis.seckill(["doctor"]).run().stdout;
        assert_eq!(shown.lines().last(), Some(expected), "{shown}");
    };
    assert_last(&primary, "A power cut loses everything; no replica could take over.");
    primary.config_set("appendonly", "yes");
    primary.config_set("appendfsync", "always");
    primary.config_set("min-replicas-to-write", "1");
    let replica = TestRedis::start();
    follow(&replica, &primary);
    assert_last(&primary, "A power cut loses no acknowledged order; a failover may lose 10 s that no replica has yet.");
    // Nobody orders at a replica, and data for programs has the checks alone.
    assert!(!replica.seckill(["doctor"]).run().stdout.contains("power cut loses"));
    let csv = primary.seckill(["doctor", "-o", "csv"]).run().stdout;
    assert!(!csv.contains("no replica has yet"), "{csv}");
    let narrow = primary.seckill(["doctor"]).env("COLUMNS", "80").run().stdout;
    assert!(narrow.ends_with("that no\nreplica has yet.\n"), "{narrow}");
}

#[test]
fn what_a_managed_server_hides_is_skipped() {
    let redis = TestRedis::with(["--rename-command", "CONFIG", "", "--rename-command", "SLOWLOG", ""]);
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    // INFO says the policy, and that there is no append-only file.
    assert_row(&redis, "eviction", "ok", "noeviction");
    for check in ["persistence", "fsync", "min_replicas", "output_buffers", "busy_reply", "slow_scripts"] {
        assert_row(&redis, check, "skip", if check == "fsync" { "no append-only" } else { "managed, or renamed" });
    }
    redis.seckill(["doctor"]).code(0).stdout_has("managed").stdout_has("What a power cut loses is not known here; no ");
}

#[test]
fn a_command_that_the_server_does_not_have_is_skipped_and_the_rest_is_shown() {
    // Scripts call this one: without it no activity is read.
    let redis = TestRedis::with(["--rename-command", "XREVRANGE", ""]);
    assert_row(&redis, "clock", "ok", "");
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).run();
    for (check, status) in [("keys", "fail"), ("foreign_writes", "skip")] {
        assert_row(&redis, check, status, "");
    }
    for (command, skipped) in [("INFO", "role"), ("PTTL", "expiry"), ("XINFO", "feeds")] {
        let redis = TestRedis::with(["--rename-command", command, ""]);
        redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
        assert_row(&redis, skipped, "skip", command);
        assert_row(&redis, "keys", "ok", "1 activity");
        let metrics = redis.seckill(["inspect", "-o", "prometheus"]).code(0);
        metrics.stdout_has("command=\"inspect\"} 1").stdout_has("seckill_stock_units{");
    }
}

#[test]
fn over_tls_a_fix_has_the_options_of_tls() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let Some(port) = redis.listen_for_tls(&authority, "server", &[("tls-auth-clients", "no")]) else { return };
    let (url, ca) = (format!("rediss://127.0.0.1:{port}"), authority.path("ca.pem"));
    let rows = seckill(["doctor", "-o", "json", "-u", &url, "--cacert", &ca]).code(3).json();
    let fault = &of_check(&rows, "persistence")[0];
    let expected = format!("-cli -h 127.0.0.1 -p {port} --tls --cacert {ca} CONFIG SET appendonly yes");
    assert!(text(fault, "fix").ends_with(&expected), "{fault}");
}
