//! `reconcile` of sharded activities: their sums, and transfers between shards.

use serde_json::{Value, json};

use super::orders::store;
use super::{Scripts, transfer};
use crate::support::scripts::cut_after;
use crate::support::{CLUSTER, Call, Proxy, TestRedis, When};

/// Activity 1 of 20 units in the shards 3 and 9, made as `preheat` makes it: `d`, `e` and `f` are at home in the first, `a`, `b` and `c` in
/// the second.
pub fn sale() -> (TestRedis, Scripts) {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    for shard in ["1#3", "1#9"] {
        scripts.preheat(shard, "10");
    }
    let rules = redis.hget(&CLUSTER.meta("1#3"), "rules").unwrap();
    let mut words: Vec<&str> = rules.split(' ').collect();
    words[4] = "20";
    let meta = [CLUSTER.meta("1"), "rules".to_owned(), words.join(" "), "shards".to_owned(), "3 9".to_owned()];
    redis.cmd([&["HSET".to_owned()], &meta[..]].concat());
    redis.cmd(("SADD", "seckill:cluster:activities", "1"));
    (redis, scripts)
}

impl Scripts {
    #[track_caller]
    fn sells(&mut self, shard: &str, user: &str, units: &str) {
        let reply = self.deduct(shard, (user, units, ""));
        assert!(reply.starts_with("1 "), "{reply}");
    }

    /// A transfer from shard 3 to shard 9 that needs no more steps.
    #[track_caller]
    fn transfers(&mut self, id: &str, units: &str) {
        assert!(self.lend("1#3", id, units, units, "").starts_with(&format!("1 {units} ")));
        assert!(self.borrow(id, "1", units).starts_with("1 "));
    }
}

pub fn on_cluster(redis: &TestRedis, line: &str) -> Call {
    redis.seckill(["-l", "cluster"]).args(line.split(' '))
}

fn reconcile(redis: &TestRedis, flags: &str, code: i32) -> Value {
    on_cluster(redis, &format!("reconcile 1 -o json{flags}")).code(code).json()
}

#[track_caller]
fn assert_row(audit: &Value, verdict: &str, stock: u64, bought: u64, in_transit: u64, drift: i64) {
    let row = &audit["activities"][0];
    assert_eq!(row["activity"], "1");
    let sums = [&row["verdict"], &row["total"], &row["stock"], &row["bought"], &row["in_transit"], &row["stock_drift"]];
    let expected = json!([verdict, 20, stock, bought, in_transit, drift]);
    assert_eq!(json!(sums), expected, "{audit}");
}

/// Differences as `activity class user redis ledger orders`.
fn differences(audit: &Value) -> Vec<String> {
    let one = |one: &Value| {
        let texts = ["activity", "class", "user", "redis", "ledger", "orders"].map(|field| match &one[field] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        texts.join(" ")
    };
    audit["differences"].as_array().unwrap().iter().map(one).collect()
}

/// Makes the ledger of a shard a minute older.
fn age(redis: &TestRedis, shard: &str) {
    let key = CLUSTER.key(4, shard);
    let entries = redis.xrange(&key);
    redis.cmd(("DEL", &key));
    for (id, fields) in entries {
        let (millis, number) = id.split_once('-').unwrap();
        let id = format!("{}-{number}", millis.parse::<u64>().unwrap() - 60_000);
        let mut command = vec!["XADD".to_owned(), key.clone(), id];
        command.extend(fields.into_iter().flat_map(|(name, text)| [name, text]));
        redis.cmd(command);
    }
}

#[test]
fn a_sharded_activity_is_one_row_with_the_sums_of_its_shards() {
    let (redis, mut scripts) = sale();
    scripts.sells("1#3", "d", "2");
    scripts.transfers(&transfer(1), "4");
    scripts.sells("1#9", "a", "14");
    assert_row(&reconcile(&redis, "", 0), "match", 4, 16, 0, 0);
    assert!(scripts.lend("1#3", &transfer(2), "3", "3", "").starts_with("1 3 "));
    let audit = reconcile(&redis, "", 0);
    assert_row(&audit, "match", 1, 16, 3, 0);
    on_cluster(&redis, "reconcile 1")
        .code(0)
        .stderr("note: 3 units of `1` are in transit between its shards: in no stock\n");
    assert_eq!(
        (&audit["activities"][0]["proof"], &audit["activities"][0]["expected_stock"]),
        (&json!("ledger"), &json!(1))
    );
    // Without a name it is all that was preheated: the activity, and not its shards.
    let csv = on_cluster(&redis, "reconcile -o csv -q").code(0).stderr("").stdout;
    let expected = "activity,verdict,proof,total,stock,bought,expected_stock,stock_drift,differences,in_transit\n\
                    1,match,ledger,20,1,16,1,0,0,3\n";
    assert_eq!(csv, expected);
    // A shard is an activity too.
    let shard = on_cluster(&redis, "reconcile 1#9 -o csv").code(0).stdout;
    assert!(shard.contains("1#9,match,ledger,14,0,14,0,0,0,\n"), "{shard}");
    on_cluster(&redis, "reconcile 1 --total 19").code(7).stdout_has("conservation");
}

#[test]
fn a_trim_keeps_transfers_and_audits_say_the_same() {
    let (redis, mut scripts) = sale();
    scripts.sells("1#3", "d", "2");
    scripts.transfers(&transfer(1), "2");
    assert!(scripts.lend("1#3", &transfer(2), "3", "3", "").starts_with("1 3 "));
    let before = reconcile(&redis, "", 0);
    assert_row(&before, "match", 15, 2, 3, 0);
    for shard in ["1#3", "1#9"] {
        scripts.sells(shard, if shard == "1#3" { "e" } else { "a" }, "1");
    }
    let trimmed = on_cluster(&redis, "ledger trim 1 --yes -o csv --before 2200-01-01").code(0).stdout;
    assert!(trimmed.contains("1#3,ok,4,1,") && trimmed.contains("1#9,ok,2,0,"), "{trimmed}");
    assert_eq!(redis.xrange(&CLUSTER.key(4, "1#3")).len(), 1);
    assert_row(&reconcile(&redis, "", 0), "match", 13, 4, 3, 0);
    // Again, over pages with transfers; then the open transfer ends.
    scripts.sells("1#3", "e", "1");
    on_cluster(&redis, "ledger trim 1 --yes --before 2200-01-01").code(0);
    assert_row(&reconcile(&redis, "", 0), "match", 12, 5, 3, 0);
    assert!(scripts.borrow(&transfer(2), "1", "3").starts_with("1 "));
    assert_row(&reconcile(&redis, "", 0), "match", 15, 5, 0, 0);
    // A user's history goes past them.
    on_cluster(&redis, "inspect 1#3 --user d --why").code(0).stdout_has("d");
}

/// The donor was read before it lent, the home when the units were there, and the donor's entry is gone by then.
#[test]
fn an_audit_takes_no_transfer_for_unbacked_whose_entry_was_trimmed_meanwhile() {
    let (redis, mut scripts) = sale();
    let proxy = Proxy::before(&redis);
    let audit = proxy.start_and_hold(
        When::With(CLUSTER.ledger("1#9")),
        proxy.seckill(["-l", "cluster", "-o", "json", "reconcile", "1"]),
    );
    proxy.heal();
    scripts.transfers(&transfer(1), "2");
    scripts.sells("1#3", "d", "1");
    on_cluster(&redis, "ledger trim 1 --yes --before 2200-01-01").code(0);
    proxy.release();
    let audit = audit.wait().code(7).stderr_has("its ledger was trimmed behind what was read");
    assert_eq!(differences(&audit.json()), Vec::<String>::new());
    assert_row(&reconcile(&redis, "", 0), "match", 19, 1, 0, 0);
}

#[test]
fn the_ledger_shows_transfers_with_the_other_shard() {
    let (redis, mut scripts) = sale();
    scripts.transfers(&transfer(7), "4");
    let rows = on_cluster(&redis, "ledger 1#3 1#9 -o jsonl").code(0).jsonl();
    let shown = |row: &Value| {
        let fields = ["activity", "op", "quantity", "stock", "request", "by", "reason", "shard"];
        Value::from(fields.iter().map(|field| row[field].clone()).collect::<Vec<_>>())
    };
    let id = transfer(7);
    let of = |op: &str| rows.iter().find(|row| row["op"] == op).unwrap();
    assert_eq!(shown(of("lend")), json!(["1#3", "lend", 4, 6, id, "tester", "to 1#9", "1#9"]));
    assert_eq!(shown(of("borrow")), json!(["1#9", "borrow", 4, 14, id, "tester", "from 1#3", "1#3"]));
    assert!(rows[0].get("shard").is_none(), "{}", rows[0]);
    let csv = on_cluster(&redis, "ledger 1#3 -o csv").code(0).stdout;
    assert!(csv.contains(&format!(",lend,,4,6,{id},tester,to 1#9\n")), "{csv}");
}

#[test]
fn a_transfer_that_stays_open_is_stuck_and_named() {
    let (redis, mut scripts) = sale();
    assert!(scripts.lend("1#3", &transfer(1), "4", "4", "").starts_with("1 4 "));
    age(&redis, "1#3");
    let audit = reconcile(&redis, "", 7);
    assert_row(&audit, "drift", 16, 0, 4, 0);
    assert_eq!(differences(&audit), ["1#3 stuck_transfer - 0 4 -"]);
    let shown = on_cluster(&redis, "reconcile 1").code(7).stderr_has(&transfer(1));
    on_cluster(&redis, "reconcile 1 --fix --dry-run").code(7).stderr_has("1 of 1 repair would be applied");
    assert_row(&reconcile(&redis, "", 7), "drift", 16, 0, 4, 0);
    let fixed = reconcile(&redis, " --fix --yes", 0);
    let repair = &fixed["repairs"][0];
    let fields = ["activity", "class", "stock_change", "status", "id"].map(|field| &repair[field]);
    assert_eq!(json!(fields), json!(["1#9", "stuck_transfer", 4, "ok", transfer(1)]));
    assert_row(&reconcile(&redis, "", 0), "match", 20, 0, 0, 0);
    assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\tlent"), None, "the donor forgot it");
    shown.stderr_has("4 units left `1#3`").stdout_has("lent units that nobody got or can buy");
}

/// As a failover leaves it that lost a lend.
#[test]
fn a_borrow_that_nobody_lent_is_taken_out_of_the_donor_which_borrows_what_it_lacks() {
    for left in [10, 3] {
        let (redis, mut scripts) = sale();
        assert!(scripts.borrow(&transfer(1), "1", "4").starts_with("1 "));
        let audit = reconcile(&redis, "", 7);
        assert_row(&audit, "drift", 24, 0, 0, 4);
        assert_eq!(differences(&audit), ["1#9 unbacked_transfer - 4 0 -"]);
        let plan = tempfile::tempdir().unwrap();
        let line = format!("reconcile 1 --plan {}", plan.path().join("plan.jsonl").display());
        let planned = on_cluster(&redis, &line).code(7).stderr_has("4 units too many are for sale");
        planned.stderr_has("without 1 transfer between shards");
        on_cluster(&redis, "reconcile 1 --fix --yes --max-repairs 0").code(7).stderr_has("1 repair wanted");
        if left < 10 {
            scripts.sells("1#3", "d", &(10 - left).to_string());
        }
        let fixed = reconcile(&redis, " --fix --yes", 0);
        let repair = ["activity", "stock_change", "status"].map(|field| &fixed["repairs"][0][field]);
        assert_eq!(repair, [&json!("1#3"), &json!(-4), &json!("ok")]);
        assert_row(&reconcile(&redis, "", 0), "match", 10 + left, 10 - left, 0, 0);
        assert_eq!(redis.hget(&CLUSTER.key(3, "1#3"), "\tlent"), None, "nobody may try to finish it");
    }
}

#[test]
fn order_records_are_of_the_shard_that_is_the_users_home() {
    let (redis, mut scripts) = sale();
    scripts.sells("1#3", "d", "2");
    scripts.sells("1#9", "a", "1");
    let dir = tempfile::tempdir().unwrap();
    let records = |text: &str| {
        let file = dir.path().join("orders.csv");
        std::fs::write(&file, text).unwrap();
        format!(" --as-of 0s --orders {}", file.display())
    };
    let orders = |rows: &str| records(&format!("activity,user,quantity\n{rows}"));
    assert_row(&reconcile(&redis, &orders("1,d,2\n1,a,1\n"), 0), "match", 17, 3, 0, 0);
    // Of one activity, rows need not name it; several are read before their activities are known.
    assert_row(&reconcile(&redis, &records("user,quantity\nd,2\na,1\n"), 0), "match", 17, 3, 0, 0);
    let all = orders("1,d,2\n1,a,1\n");
    on_cluster(&redis, &format!("reconcile{all} -o csv")).code(0).stdout_has("\n1,match,");

    let flags = orders("1,d,1\n1,b,1\n");
    let audit = reconcile(&redis, &flags, 7);
    assert_eq!(
        differences(&audit),
        ["1 missing_order a 1 1 0", "1 missing_purchase b 0 0 1", "1 quantity_mismatch d 2 2 1"]
    );
    let emitted = on_cluster(&redis, &format!("reconcile 1{flags} --emit missing_order")).code(7).stdout;
    assert_eq!(
        emitted,
        "{\"activity\":\"1\",\"user\":\"d\",\"quantity\":1}\n{\"activity\":\"1\",\"user\":\"a\",\"quantity\":1}\n"
    );
    // Repairs are of shards.
    let fixed = on_cluster(&redis, &format!("reconcile 1{flags} --fix --yes -o json")).code(0).json();
    let repaired: Vec<_> =
        fixed["repairs"].as_array().unwrap().iter().map(|one| [&one["activity"], &one["user"]]).collect();
    assert_eq!(json!(repaired), json!([["1#3", "d"], ["1#9", "b"], ["1#9", "a"]]));
    assert_row(&reconcile(&redis, &flags, 0), "match", 18, 2, 0, 0);
    // No row of the activity: all its users are one difference.
    let none = on_cluster(&redis, &format!("reconcile -o json{}", orders("2,d,1\n"))).code(7).json();
    let counted = none["differences"].as_array().unwrap().iter().find(|one| one["activity"] == "1").unwrap();
    assert_eq!((&counted["class"], &counted["count"]), (&json!("missing_order"), &json!(2)));
}

#[test]
fn a_repair_takes_units_of_other_shards_if_its_own_has_too_few() {
    let (redis, mut scripts) = sale();
    scripts.sells("1#3", "d", "10");
    let dir = tempfile::tempdir().unwrap();
    let flags = |units: u64| {
        let file = dir.path().join("orders.csv");
        std::fs::write(&file, format!("activity,user,quantity\n1,d,{units}\n")).unwrap();
        format!(" --as-of 0s --orders {}", file.display())
    };
    let too_many = on_cluster(&redis, &format!("reconcile 1{} --fix --yes -o json", flags(21))).code(7).json();
    assert_eq!(too_many["repairs"][0]["status"], "out_of_stock");
    assert_row(&reconcile(&redis, "", 0), "match", 10, 10, 0, 0);
    let line = format!("reconcile 1{}", flags(12));
    on_cluster(&redis, &format!("{line} --fix --dry-run")).code(7).stderr_has("1 of 1 repair would be applied");
    assert_row(&reconcile(&redis, "", 0), "match", 10, 10, 0, 0);
    on_cluster(&redis, &format!("{line} --fix --yes")).code(0).stdout_has("ok");
    assert_row(&reconcile(&redis, &flags(12), 0), "match", 8, 12, 0, 0);
}

#[test]
fn an_unfinished_preheat_is_unsettled_and_a_shard_that_is_gone_is_drift() {
    let (redis, mut scripts) = sale();
    scripts.sells("1#3", "d", "2");
    redis.cmd(("HSET", CLUSTER.meta("1"), "plan", "something"));
    let audit = on_cluster(&redis, "reconcile 1").code(7).stderr_has("the same `preheat` resumes it");
    audit.stdout_has("unsettled");
    redis.cmd(("HDEL", CLUSTER.meta("1"), "plan"));
    assert_eq!(scripts.preheat_as("reset", "1#9", "10", &[]).split(' ').next(), Some("1"));
    on_cluster(&redis, "reconcile 1").code(7).stdout_has("unsettled");
    redis.cmd([&["DEL".to_owned()], &CLUSTER.all_keys("1#9")[..]].concat());
    let gone = reconcile(&redis, "", 7);
    assert_eq!((&gone["activities"][0]["verdict"], &gone["activities"][0]["stock"]), (&json!("drift"), &Value::Null));
    assert_eq!(differences(&gone), ["1#9 conservation - - - -"]);
}

#[test]
fn a_transfer_that_was_cut_is_named_and_repaired() {
    let (redis, mut scripts) = sale();
    for (shard, user) in [("1#3", "d"), ("1#9", "a")] {
        scripts.sells(shard, user, "1");
    }
    let (id, keys) = (transfer(1), CLUSTER.keys("1#9"));
    assert!(scripts.lend("1#3", &id, "4", "4", "").starts_with("1 4 "));
    let cut = scripts.eval(&cut_after("borrow", 2), &keys[..4], &["tester", &id, "1", "3", "4"]);
    assert!(cut.contains("CUT"), "{cut}");
    assert_eq!(differences(&reconcile(&redis, "", 7)), ["1#9 cut_transfer - 0 4 -"]);
    let fixed = reconcile(&redis, " --fix --yes", 0);
    let repair = ["activity", "class", "status"].map(|field| &fixed["repairs"][0][field]);
    assert_eq!(json!(repair), json!(["1#9", "cut_transfer", "ok"]));
    assert_row(&reconcile(&redis, "", 0), "match", 18, 2, 0, 0);
}

#[test]
fn a_transfer_of_the_future_is_old_because_the_clock_was_set_back() {
    let (redis, mut scripts) = sale();
    let id = transfer(1);
    let finished = |ahead: u64| {
        let seconds: Vec<u64> = redis.ask("TIME");
        let record = format!("4 9 {}", (seconds[0] + ahead) * 1000);
        redis.cmd(("HSET", CLUSTER.requests("1#3"), format!("\ttt:{id}"), record));
        let finished = seckill::internals::finish_transfers(&mut store(&redis.url()), &"1".parse().unwrap(), false)
            .unwrap()
            .unwrap();
        (finished.arrived, finished.left)
    };
    assert_eq!(scripts.lend("1#3", &id, "4", "4", ""), "1 4 6");
    assert_eq!(finished(1), (0, 1), "a client may be at work");
    assert_eq!(finished(3600), (1, 0));
    assert_row(&reconcile(&redis, "", 0), "match", 20, 0, 0, 0);
}
