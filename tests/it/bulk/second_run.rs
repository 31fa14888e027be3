//! The same file again: what was decided is `replayed`, counts add up to the lines, and what was undecided is decided now.

use super::{Orders, held, preheat, statuses, summary};
use crate::support::TestRedis;

/// Whatever it is that refuses all is in `tests/sim/transcripts/files.txt`.
#[test]
fn lines_of_an_activity_that_refuses_as_a_whole_stay_undecided() {
    let rows: String = (0..6).map(|user| format!("{},{user}\n", ["a", "b"][user % 2])).collect();
    let single = Orders::new(&format!("activity,user\n{rows}"));
    let id = |user| if user % 4 == 1 { format!(",\"request\":\"r{user}\"") } else { String::new() };
    let items = |user: usize| ["\"a\":1", "\"a\":1,\"b\":1", "\"c\":1"][user % 3];
    let multi = |user| format!("{{\"user\":{user},\"items\":{{{}}}{}}}\n", items(user), id(user));
    let multi = Orders::named("o.jsonl", (0..6).map(multi).collect::<String>());
    for (command, orders) in [("deduct", &single), ("multi-deduct", &multi)] {
        let redis = TestRedis::start();
        for activity in ["a", "b", "c"] {
            preheat(&redis, activity, 10);
        }
        redis.seckill(["pause", "b"]).code(0);
        let call = |format: &str| redis.seckill([command, "-o", format, "--from", orders.path()]);
        // As often as it likes.
        for _ in 0..2 {
            let rows = summary(&call("json").code(3));
            assert!(rows.iter().any(|row| row.starts_with("b paused ")), "{rows:?}");
        }
        redis.seckill(["resume", "b"]).code(0);
        call("json").code(0);
        let (of_a, of_b) = if command == "deduct" { (3, 3) } else { (4, 2) };
        assert_eq!((held(&redis, "a"), held(&redis, "b")), (of_a, of_b), "{command}");
        let all = call("jsonl").code(0);
        assert!(statuses(&all).iter().all(|row| row.ends_with(" replayed")), "{command}");
    }
}

#[test]
fn names_of_jobs_are_stored_and_never_change() {
    let csv = "activity,user\na,7\n";
    let of = |name: &str, text: &str, args: &[&str]| {
        let redis = TestRedis::selling("a", 9);
        redis.seckill(["deduct", "a", "--user", "7", "--quantity", "2"]).code(0);
        let orders = Orders::named(name, text);
        redis.seckill([]).args(args).args(["--from", orders.path()]).code(0);
        let fields = redis.hgetall("seckill:requests:a");
        fields.into_keys().find(|field| field.starts_with("\tj:")).unwrap()
    };
    let json = "{\"user\":7,\"items\":{\"a\":1}}\n";
    // Another name here would apply every file a second time.
    assert_eq!(of("o.csv", csv, &["deduct"]), "\tj:deduct:ce51461ea5561038efae3333eb033c0a");
    assert_eq!(of("o.csv", csv, &["refund"]), "\tj:refund:48d11b101870506913e7b1138e1cfade");
    assert_eq!(of("o.txt", &csv.replace(',', "\t"), &["deduct"]), "\tj:deduct:1fddf855ed5e107812fec04d9ff92fab");
    assert_eq!(
        of("o.txt", &csv.replace(',', ";"), &["deduct", "--delimiter", ";"]),
        "\tj:deduct:1f1bf1e398726e8f550d3f22bb0cd404"
    );
    assert_eq!(
        of("o.txt", "A\tb\na\t7\n", &["deduct", "--format", "mysql", "--map", "user=B,activity=a"]),
        "\tj:deduct:a11295e62d53ea807f7487bc3f07527b"
    );
    assert_eq!(of("o.jsonl", json, &["multi-deduct"]), "\tj:multi_deduct:7fd9376c26db464c3654ec101baaf04d");
    assert_eq!(of("o.csv", csv, &["deduct", "--job", "night"]), "\tj:deduct:night");
}
