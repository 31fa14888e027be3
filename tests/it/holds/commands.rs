//! `hold`, `confirm`, `release`, `expire` and `inspect --holds` while others sell. `sessions/holds.txt` has what they print.

use crate::support::{TestRedis, wait_until};

#[test]
fn pages_of_holds_with_one_deadline_leave_none_out() {
    let redis = TestRedis::selling("1", 9000);
    redis.seckill(["hold", "1", "--user", "7", "--for", "1h", "--request", "r"]).code(0);
    let mut pipe = redis::pipe();
    for index in 0..1700 {
        // Many at one instant, over the border of a page.
        let deadline = if index < 300 { 5_000_000_000_000_u64 + index } else { 6_000_000_000_000 };
        pipe.zadd("seckill:deadlines:1", format!("h{index}"), deadline).ignore();
        pipe.hset("seckill:requests:1", format!("\th:h{index}"), format!("held 1 {deadline} - u{index}")).ignore();
    }
    pipe.exec(&mut redis.connection()).unwrap();
    let rows = redis.seckill(["inspect", "1", "--holds", "-o", "jsonl"]).code(0).jsonl();
    let ids: std::collections::BTreeSet<&str> = rows.iter().map(|row| row["request"].as_str().unwrap()).collect();
    assert_eq!((rows.len(), ids.len()), (1701, 1701));
}

#[test]
fn expire_every_continues_until_it_is_stopped() {
    let redis = TestRedis::start();
    let service = redis.seckill(["expire", "1*", "--every", "10ms", "-o", "jsonl"]);
    let running = service.begin_with([libc::SIGHUP], libc::SIG_IGN).spawn();
    running.wait_for_stderr("no preheated activity fits `1*` in the layout `seckill`; trying again");
    redis.seckill(["preheat", "--id", "1", "--stock", "9"]).code(0);
    for request in ["a", "b"] {
        running.signal(libc::SIGHUP);
        redis.seckill(["hold", "1", "--user", "7", "--for", "1ms", "--request", request]).code(0);
        wait_until("its units are back", || redis.int("seckill:stock:1") == 9);
    }
    running.wait_until_stdout("two rows with their times", |out| {
        out.lines().all(|row| row.starts_with("{\"time\":\"20")) && out.matches("\"holds\":1").count() == 2
    });
    assert_eq!(running.interrupt().stderr.matches("trying again").count(), 1);
    redis.seckill(["reconcile"]).code(0);
}

#[test]
fn expire_every_waits_for_a_server_that_refuses_writes() {
    let redis = TestRedis::selling("1", 9);
    for (setting, value) in [("min-replicas-to-write", "1"), ("maxmemory", "1mb")] {
        redis.seckill(["hold", "1", "--user", "7", "--for", "1ms"]).code(0);
        redis.cmd(&["CONFIG", "SET", setting, value]);
        let running = redis.seckill(["expire", "--every", "10ms"]).spawn();
        running.wait_for_stderr("; trying again");
        redis.cmd(&["CONFIG", "SET", setting, "0"]);
        wait_until("its units are back", || redis.int("seckill:stock:1") == 9);
        running.interrupt();
    }
}

#[test]
fn a_dry_run_of_expire_says_that_more_are_overdue_than_it_shows() {
    let redis = TestRedis::selling("1", 900);
    let orders: String = (0..501).map(|user| format!("1,u{user}\n")).collect();
    redis.seckill(["hold", "--from", "-", "--for", "1ms"]).stdin(format!("activity,user\n{orders}")).code(0);
    let expired = redis.seckill(["expire", "1", "--dry-run", "-o", "json"]).code(0).stderr_has("more may be overdue");
    assert_eq!(expired.json()[0]["holds"], 500);
    assert_eq!(redis.seckill(["expire", "1", "-o", "json"]).code(0).json()[0]["holds"], 501);
}

#[test]
fn expire_every_warns_once_of_each_hold_that_it_cannot_end() {
    let redis = TestRedis::selling("1", 90);
    let damage = |request: &str| {
        redis.seckill(["hold", "1", "--user", request, "--for", "1h", "--request", request]).code(0);
        redis.cmd(&["HDEL", "seckill:participants:1", request]);
        redis.cmd(&["HSET", "seckill:requests:1", &format!("\th:{request}"), &format!("held 1 1 - {request}")]);
        redis.cmd(&["ZADD", "seckill:deadlines:1", "1", request]);
    };
    // Another one, so that the key stays.
    redis.seckill(["deduct", "1", "--user", "other"]).code(0);
    let running = redis.seckill(["expire", "--every", "10ms"]).spawn();
    for number in 0..22 {
        let request = format!("r{number}");
        damage(&request);
        running.wait_for_stderr(&format!("`{request}` cannot be expired"));
    }
    let ended = running.interrupt();
    assert_eq!(ended.stderr.matches("cannot be expired").count(), 22, "{}", ended.stderr);
}
