//! The built binary is run, watched and judged.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{Fault, Proxy, TestRedis, When, seckill};

#[test]
fn a_call_is_judged_by_its_code_and_both_streams() {
    let version = concat!("seckill ", env!("CARGO_PKG_VERSION"), "\n");
    seckill(["-V"]).code(0).stdout_is(version).stdout_has("seckill").stdout_lacks("error").stderr("");
    seckill(["--no-such-flag"]).code(2).stdout_is("").stderr_has("--no-such-flag").stderr_lacks("panicked");
}

#[test]
fn a_failed_check_shows_the_call_and_all_it_said() {
    let judge = || seckill(["--version"]).args(["--quiet"]).env("SECKILL_LAYOUT", "sku").code(42);
    let panic = catch_unwind(judge).err().unwrap();
    let message = panic.downcast_ref::<String>().unwrap();
    for part in ["exit code 42", "SECKILL_LAYOUT=sku", "seckill --version --quiet", env!("CARGO_PKG_VERSION")] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn json_is_read_from_either_stream() {
    let mut outcome = seckill(["--version"]).without_env("SECKILL_URL").run();
    outcome.stdout = "{\"a\":1}\n{\"a\":2}\n".to_owned();
    outcome.stderr = "{\"code\":2}\n".to_owned();
    assert_eq!(outcome.jsonl()[1]["a"], 2);
    assert_eq!(outcome.error_json()["code"], 2);
    assert!(catch_unwind(AssertUnwindSafe(|| outcome.json())).is_err(), "two values are not one");
}

#[test]
fn input_and_a_closed_output_do_not_block_a_call() {
    let text = "x".repeat(1 << 20); // more than a pipe holds
    let temp = tempfile::tempdir().unwrap();
    seckill(["--help"]).stdin(&text).in_dir(temp.path()).stdout_closed_after(10).run().stderr_lacks("panicked");
}

#[test]
fn a_call_can_be_killed_while_it_waits() {
    let redis = TestRedis::start();
    let proxy = Proxy::before(&redis);
    proxy.inject(When::Always, Fault::HangReply);
    let call = proxy.seckill(["inspect", "1001", "--timeout", "60s"]).spawn();
    proxy.wait_for_commands(1);
    call.signal(libc::SIGKILL);
    call.wait().killed_by(libc::SIGKILL);
}

#[test]
fn a_call_in_the_background_is_heard() {
    let call = seckill(["--version"]).spawn();
    call.wait_for_stdout("seckill");
    let call = seckill(["--no-such-flag"]).spawn();
    call.wait_for_stderr("--no-such-flag");
    TestRedis::start().seckill(["--version"]).code(0);
}
