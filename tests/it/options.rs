//! The options every command takes: where the server is, who logs in, which layout, in what form the answer comes.

use crate::support::TestRedis;

#[test]
fn the_format_is_the_flag_then_the_environment() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["inspect"]).env("SECKILL_OUTPUT", "csv").code(0).stdout_has("activity,title,");
    redis.seckill(["inspect", "-o", "table"]).env("SECKILL_OUTPUT", "csv").code(0).stdout_has("ACTIVITY");
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let redis = TestRedis::selling("1001", 10);
    let red = "\u{1b}[";
    redis.seckill(["inspect"]).code(0).stdout_lacks(red);
    redis.seckill(["inspect", "--color", "always"]).code(0).stdout_has(red);
    redis.seckill(["inspect"]).env("CLICOLOR_FORCE", "1").code(0).stdout_has(red);
    redis.seckill(["inspect", "--color", "never"]).env("CLICOLOR_FORCE", "1").code(0).stdout_lacks(red);
    redis.seckill(["inspect"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").code(0).stdout_lacks(red);
    redis.seckill(["inspect", "-o", "csv", "--color", "always"]).code(0).stdout_lacks(red);
}

#[test]
fn quiet_is_quiet_and_verbose_names_the_server() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["pause", "1001"]).code(0).stderr_has("note: ");
    redis.seckill(["pause", "1001", "-q"]).code(0).stderr("");
    redis.seckill(["inspect", "-v"]).code(0).stderr_has(&redis.url()).stderr_has("seckill");
}

#[test]
fn a_timeout_is_a_duration_above_zero() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["inspect", "--timeout", "20000ms"]).code(0);
    redis.seckill(["inspect"]).env("SECKILL_TIMEOUT", "20s").code(0);
    for wrong in ["0s", "5", "soon", "-1s"] {
        redis.seckill(["inspect"]).args([format!("--timeout={wrong}")]).code(2).stderr_has("500ms");
    }
    redis.freeze();
    let outcome = redis.seckill(["inspect", "1001", "--timeout", "100ms"]).code(5);
    redis.thaw();
    outcome.stderr_has("did not answer within 100ms").stderr_has("--timeout");
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let redis = TestRedis::selling("1", 100_000);
    let users: Vec<String> = (0..50_000).flat_map(|user| [format!("user-{user}"), "1".to_owned()]).collect();
    let mut command = redis::cmd("HSET");
    command.arg("seckill:participants:1").arg(&users).exec(&mut redis.connection()).unwrap();
    for format in ["csv", "jsonl", "table", "json"] {
        redis.seckill(["inspect", "1", "--all", "-o", format]).stdout_closed_after(20).code(0).stderr_lacks("panic");
    }
}

#[test]
fn who_is_not_named_is_a_user_at_a_host() {
    let redis = TestRedis::selling("1001", 10);
    redis.seckill(["deduct", "1001", "--user", "7"]).without_env("SECKILL_OPERATOR").code(0);
    let (_, entry) = redis.xrange("seckill:ledger:1001").pop().unwrap();
    assert!(entry["by"].contains('@'), "{entry:?}");
}
