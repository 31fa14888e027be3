//! Columns so long that their bytes are looked for one by one: whatever byte a user has, both paths agree.

use super::calls::Shape;
use super::twins::Twins;
use crate::support::SECKILL;

/// Users of a call.
const USERS: u64 = 60;

#[test]
fn a_byte_of_a_long_column_counts_as_in_a_short_one() {
    let mut twins = Twins::of(SECKILL, &["1", "2"]);
    twins.preheat(&Shape { total: 100_000, limit: None, window: ["", ""], ledger: true, paused: false });
    for byte in (0..=b' ').chain([b'!', b'"', b'/', b'\\', b'~', 127, 128, 255]) {
        let line = twins.watermark("1", "\tj:multi_deduct:j");
        let mut users = Vec::from(b"[\"a");
        users.push(byte);
        users.push(b'b');
        users.extend((1..USERS).flat_map(|number| format!("\",\"{byte}-{number}").into_bytes()));
        users.extend(b"\"]");
        let [before, lines] = [line.to_string(), format!("{}-{}", line + 1, line + USERS)].map(String::into_bytes);
        let column = [&b"1"[..], &before, &lines, b"1", &users, b"", b""];
        let head = [&b"hash"[..], b"tester", b"first", b"", b"j", b"d", b"1"];
        let args: Vec<Vec<u8>> = head.iter().chain(&column).chain(&column).map(|arg| arg.to_vec()).collect();
        let keys: Vec<String> = ["1", "2"].into_iter().flat_map(|activity| SECKILL.keys(activity)).collect();
        twins.run(("multi_deduct", &keys, &args), None, None).unwrap_or_else(|why| panic!("{byte}: {why}"));
    }
    twins.assert_both_paths_were_used(9);
}
