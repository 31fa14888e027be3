//! `--to`: a file that is never there by halves.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::samples;
use crate::support::{TestRedis, seckill};

#[test]
fn the_file_is_replaced_whole_and_readable_by_all() {
    let redis = TestRedis::selling("1", 5);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seckill.prom");
    let to = file.to_str().unwrap();
    for mode in [None, Some(0o600)] {
        mode.into_iter().for_each(|mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap());
        redis.seckill(["inspect", "-o", "prometheus", "--to", to]).code(0).stdout_is("").stderr("");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(samples(&fs::read_to_string(&file).unwrap(), "seckill_stock_units"), ["activity=\"1\" 5"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
    redis.cmd(("INCR", "seckill:stock:1"));
    redis.seckill(["reconcile", "-o", "prometheus", "--to", to]).code(7).stdout_is("");
    assert_eq!(samples(&fs::read_to_string(&file).unwrap(), "seckill_stock_drift_units"), ["activity=\"1\" 1"]);
}

#[test]
fn a_server_that_does_not_answer_is_down_in_the_file_and_exit_5() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["inspect", "reconcile"] {
        let file = dir.path().join(command);
        fs::write(&file, "seckill_stock_units 5\n").unwrap();
        seckill([command, "-o", "prometheus", "--to", file.to_str().unwrap()]).code(5).stderr_has("cannot reach");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(samples(&text, "seckill_up"), [format!("command=\"{command}\" 0")]);
        assert!(!text.contains("seckill_stock_units"));
        super::assert_metrics_are_valid(&text);
        seckill([command, "-o", "prometheus"])
            .code(5)
            .stdout_has("command=\"inspect\"".replace("inspect", command).as_str());
    }
    // A login that is refused is no answer either.
    let redis = TestRedis::with(["--requirepass", "hush"]);
    let wrong = redis.seckill(["inspect", "-o", "prometheus"]).env("SECKILL_PASSWORD", "wrong");
    assert_eq!(samples(&wrong.code(4).stdout, "seckill_up"), ["command=\"inspect\" 0"]);
}
