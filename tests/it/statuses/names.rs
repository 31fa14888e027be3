//! Each status as the tool reports it: its name and its exit code.

use crate::support::layout::json_call;
use crate::support::{LAYOUTS, TestRedis};

#[test]
fn each_status_of_a_command_has_its_name_and_exit_code() {
    for layout in LAYOUTS {
        let redis = TestRedis::start();
        let check = |line: &str, code: i32, status: &str| {
            let outcome = json_call(&redis, layout, line).code(code);
            let value = outcome.json();
            let row = if value.is_array() { &value[0] } else { &value };
            assert_eq!(row["status"], status, "{layout:?}: {line}: {}", outcome.stdout);
        };
        check("deduct 1 --user 7", 3, "not_preheated");
        check("refund 1 --user 7", 3, "not_preheated");
        check("pause 1", 3, "not_preheated");
        check("preheat --id 1 --stock 3", 0, "ok");
        check("preheat --id 1 --stock 3", 0, "ok");
        check("preheat --id 1 --stock 4", 3, "exists");
        check("deduct 1 --user 7 --request a", 0, "ok");
        check("deduct 1 --user 7 --request a", 0, "replayed");
        check("deduct 1 --user 8 --request a", 3, "request_conflict");
        if layout.has_users() {
            check("preheat --id 1 --stock 3 --per-user-limit 1 --update", 0, "ok");
            check("deduct 1 --user 7", 3, "limit_exceeded");
        }
        check("multi-deduct --user 8 1=1 --request m", 0, "ok");
        check("multi-deduct --user 8 1=1 --request m", 0, "replayed");
        check("multi-deduct --user 9 1=2", 3, "refused");
        check("deduct 1 --user 9 --request b", 0, "ok");
        check("deduct 1 --user 10", 3, "out_of_stock");
        check("preheat --id 1 --stock 2 --update", 3, "out_of_stock");
        check("refund 1 --user 9 --quantity 4", 3, "exceeds_bought");
        check("refund 1 --user 9 --request c", 0, "ok");
        check("pause 1", 0, "ok");
        check("pause 1", 0, "replayed");
        check("deduct 1 --user 10", 3, "paused");
        check("resume 1", 0, "ok");
        check("preheat --id 2 --stock 3 --starts-at 2200-01-01T00:00:00Z", 0, "ok");
        check("deduct 2 --user 7", 3, "not_started");
        check("preheat --id 3 --stock 3 --ends-at 2001-01-01T00:00:00+08:00", 0, "ok");
        check("deduct 3 --user 7", 3, "ended");
        redis.cmd(("SET", layout.stock("3"), "abc"));
        check("deduct 3 --user 7", 3, "corrupt");
    }
}
