//! `ledger trim` beside another one, or beside what reads, and a reset there: sums stay exact.

use super::trim::{matches, sale};
use crate::support::{Proxy, SECKILL, When};

#[test]
fn of_two_at_once_one_gives_way() {
    let (redis, time) = sale(SECKILL);
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    let args = ["ledger", "trim", "1001", "--yes", "--before", &time];
    let page = When::With("\r\npage\r\n".to_owned());
    let first = network.start_and_hold(page, network.seckill(args).args(["--timeout", "60s"]));
    network.heal();
    redis.seckill(args).code(0);
    network.release();
    first.wait().code(1).stderr_has("trimmed by somebody else");
    matches(&redis, SECKILL);
    let pages = redis.hgetall(&SECKILL.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
    assert_eq!(pages.count(), 1);
}

#[test]
fn what_is_removed_while_it_is_read_is_read_again_or_said() {
    let (redis, _) = sale(SECKILL);
    let network = Proxy::before(&redis);
    let reset = ["preheat", "--id", "1001", "--stock", "9", "--reset", "--yes"];
    let trim = ["ledger", "trim", "1001", "--before", "0h", "--yes"];
    for (line, held, removal) in
        [("report 1001", "ROLE", &trim[..]), ("ledger 1001", "ROLE", &reset), ("inspect --all", "HSCAN", &reset)]
    {
        let call = network.seckill(["-o", "csv"]).args(line.split(' '));
        let reading = network.start_and_hold(When::With(held.to_owned()), call);
        network.heal();
        redis.seckill([]).args(removal).code(0);
        network.release();
        let ended = reading.wait().stdout_lacks("drift");
        let (warns, reads_again) = (ended.stderr.contains("rows of `1001` may be missing"), line.starts_with("report"));
        assert_eq!((ended.status.success(), warns), (reads_again, !reads_again), "{line}: {}", ended.stderr);
    }
}
