//! Rows of ledgers: their key, several activities, and where they begin.

use super::{ALL, rows, sale};
use crate::support::{SECKILL, binary};

#[test]
fn since_takes_an_entry_which_is_shown_too() {
    let redis = sale();
    let ids: Vec<String> = redis.xrange(&SECKILL.ledger("1001")).into_iter().map(|(id, _)| id).collect();
    assert_eq!(rows(redis.seckill(["ledger", "1001", "--since", &ids[4]])), ALL[4..]);
    redis.seckill(["ledger", "1001", "--since", "12-"]).code(2).stderr_has("the id of an entry");
}

#[test]
fn a_follower_sees_new_activities_and_that_its_reader_left() {
    let redis = sale();
    for (which, late) in [("--all", "1002"), ("1* z*", "1003"), ("1* z* --group db", "1004")] {
        let following = redis.seckill(["ledger", "--follow", "-o", "jsonl"]).args(which.split(' ')).spawn();
        following.wait_for_stdout("pause");
        redis.seckill(["preheat", "--id", late, "--stock", "5"]).code(0);
        following.wait_for_stdout(late);
        following.interrupt();
    }
    // Nothing happens any more, and `head` has its line.
    let script = format!("{} ledger 1001 --follow -o jsonl | head -1", binary().display());
    let left = std::process::Command::new("sh").args(["-c", &script]).env("SECKILL_URL", redis.url()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).lines().count(), 1, "{left:?}");
}
