//! Passwords and permissions: exit 4, nothing changed, and no password shown.

use super::sale;
use crate::support::{SECKILL, TestRedis};

#[test]
fn a_wrong_or_missing_password_is_exit_4_and_is_never_shown() {
    let redis = TestRedis::with(["--requirepass", "correct-horse"]);
    let before = redis.dump_all();
    let url = redis.url();
    for wrong in ["", "hunter2"] {
        for format in ["table", "json"] {
            let call = redis.seckill(["deduct", "1", "--user", "7", "-v", "-o", format]).env("SECKILL_PASSWORD", wrong);
            call.code(4)
                .stdout_is("")
                .stderr_has("SECKILL_PASSWORD")
                .stderr_lacks("hunter2")
                .stderr_lacks("correct-horse");
        }
    }
    let in_url = format!("{url}?pass=hunter2");
    redis.seckill(["inspect", "-v", "-u", &in_url]).code(4).stderr_lacks("hunter2").stderr_has("***");
    redis.assert_unchanged_since(&before);
    redis.seckill(["inspect", "-v"]).env("SECKILL_PASSWORD", "correct-horse").code(0).stderr_lacks("correct-horse");
}

/// A command of each kind; all talk to the server.
const ANY: [&str; 27] = [
    "preheat --id 1 --stock 5",
    "preheat --id 1 --adopt",
    "preheat FIXTURE",
    "run FIXTURE",
    "pause 1",
    "resume 1",
    "archive 1 --to /nonexistent/archive",
    "deduct 1 --user 7",
    "multi-deduct --user 7 1=1 2=1",
    "refund 1 --user 7",
    "hold 1 --user 7 --for 1m",
    "confirm 1 --request r",
    "release 1 --request r",
    "expire 1",
    "deduct --from ORDERS",
    "hold --from ORDERS --for 1m",
    "inspect",
    "inspect 1 --user 7 --why",
    "inspect --request r",
    "inspect --watch --count 1",
    "reconcile 1",
    "ledger 1",
    "ledger trim 1 --before 1h --yes",
    "report 1",
    "doctor",
    "script load",
    "bench --orders 5 --clients 2 --yes",
];

#[test]
fn without_its_password_every_command_is_refused_in_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let orders = file("orders.csv", "activity,user\n1,7\n");
    let fixture = file("fixture.yaml", "activities: [{id: 1, stock: 5}]\n");
    for redis in [TestRedis::with(["--requirepass", "hush"]), TestRedis::with_tcp(["--requirepass", "hush"])] {
        let refused = format!("the server at `{}` refused the login: a password is required", redis.url());
        let hint = "give the password by `--password-file` or `SECKILL_PASSWORD`, and the user in the URL";
        for line in ANY {
            let line = line.replace("ORDERS", &orders).replace("FIXTURE", &fixture);
            let call = redis.seckill([]).args(line.split(' ')).env("SECKILL_PASSWORD", "");
            call.code(4).stderr_has(&refused).stderr_has(hint);
        }
    }
}

#[test]
fn a_password_of_a_server_that_wants_none_is_said_plainly() {
    let redis = TestRedis::start();
    redis.seckill(["inspect"]).env("SECKILL_PASSWORD", "hunter2").code(4).stderr_lacks("hunter2").stderr_has("error: ");
}

#[test]
fn a_user_without_the_keys_is_refused_too() {
    let redis = TestRedis::with_tcp([]);
    let before = sale(&redis);
    let url = redis.url().replace("redis://", "redis://op:pw@");
    for kept in [SECKILL.stock("*"), "shop:*".to_owned()] {
        let keys = format!("~{kept}");
        redis.cmd(&["ACL", "SETUSER", "op", "reset", "on", ">pw", &keys, "+@all"]);
        redis.seckill(["deduct", "1", "--user", "8", "-u", &url]).code(4).stderr_has("permission");
    }
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_refused_permission_names_the_commands_that_are_needed() {
    let redis = TestRedis::with_tcp([]);
    let before = sale(&redis);
    redis.cmd(("ACL", "SETUSER", "op", "on", ">pw", "~*", "+@all", "-hget"));
    let url = redis.url().replace("redis://", "redis://op:pw@");
    for format in ["table", "json"] {
        let call = redis.seckill(["deduct", "1", "--user", "8", "-o", format, "-u", &url]).code(4).stdout_is("");
        call.stderr_has("script `deduct` needs EVALSHA EVAL GET HMGET").stderr_has("ACL SETUSER").stderr_lacks("pw@");
    }
    redis.assert_unchanged_since(&before);
}
