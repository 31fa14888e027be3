//! A dry run's output cannot be mistaken for a sale.

use crate::support::TestRedis;

/// A server with two activities, one of them with a buyer.
fn sale() -> TestRedis {
    let redis = TestRedis::start();
    for id in ["1001", "1002"] {
        redis.seckill(["preheat", "--id", id, "--stock", "10", "--per-user-limit", "3"]).code(0);
    }
    redis.seckill(["deduct", "1001", "--user", "7", "--quantity", "2"]).code(0);
    redis
}

const COMMANDS: [&str; 8] = [
    "deduct 1001 --user 8 --request r",
    "deduct 1001 --user 8 --quantity 4",
    "refund 1001 --user 7",
    "multi-deduct --user 8 1001=1 1002=1 --request r",
    "preheat --id 1003 --stock 5",
    "preheat --id 1001 --stock 50 --update",
    "pause 1001",
    "resume 1001",
];

#[test]
fn every_row_of_a_dry_run_says_so() {
    let redis = sale();
    let before = redis.dump_all();
    for line in COMMANDS {
        let call = |format| redis.seckill([]).args(line.split(' ')).args(["--dry-run", "-o", format]).run();
        let json = call("json").json();
        let rows = json.as_array().map_or_else(|| vec![json.clone()], Clone::clone);
        assert!(rows.iter().all(|row| row["dry_run"] == true), "{line}: {json}");
        assert!(call("jsonl").jsonl().iter().all(|row| row["dry_run"] == true), "{line}");
        let yaml: serde_yaml::Value = serde_yaml::from_str(&call("yaml").stdout).unwrap();
        let first = yaml.get(0).unwrap_or(&yaml);
        assert_eq!(first["dry_run"], true, "{line}");
        for (format, delimiter) in [("csv", ','), ("tsv", '\t')] {
            let outcome = call(format);
            let mut lines = outcome.stdout.lines().map(|line| line.rsplit_once(delimiter).unwrap().1);
            assert_eq!(lines.next(), Some("dry_run"), "{line}");
            assert!(lines.all(|last| last == "true"), "{line}: {}", outcome.stdout);
        }
        let table = call("table");
        assert!(table.stdout.starts_with("Dry run: nothing was changed\n"), "{line}: {}", table.stdout);
    }
    redis.assert_unchanged_since(&before);
}
