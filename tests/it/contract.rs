//! `docs/contract.md` says what the tool does: its tables of keys, arguments, codes and ledger entries.

use std::collections::{BTreeMap, BTreeSet};

use seckill::internals::{DEDUCT, HOLD, MULTI_DEDUCT, Op, REFUND, SETTLE, call_code};
use seckill::{Kind, Status};

use crate::support::{LAYOUTS, SECKILL, Scripts, TestRedis, table_rows, wait_until};

const CONTRACT: &str = include_str!("../../docs/contract.md");

#[test]
fn keys_and_kinds_of_the_contract_are_those_of_the_layouts() {
    let rows = table_rows("docs/contract.md", "layout | kind");
    assert_eq!(rows.len(), LAYOUTS.len());
    for (row, layout) in rows.iter().zip(LAYOUTS) {
        let keys: Vec<&str> = row[2..].iter().map(String::as_str).filter(|key| !key.is_empty()).collect();
        assert_eq!(
            (&*row[0], &*row[1], keys),
            (layout.name, layout.kind, layout.keys("<id>").iter().map(|key| &**key).collect())
        );
        assert!(CONTRACT.contains(&format!("`{}`", layout.index)), "{}", layout.index);
    }
}

#[test]
fn scripts_with_the_key_of_deadlines_are_those_whose_headers_have_it() {
    let (_, said) = CONTRACT.split_once("\nThe scripts ").unwrap();
    let (said, _) = said.split_once(" take one more key").unwrap();
    let said: BTreeSet<&str> = said.split('`').skip(1).step_by(2).collect();
    let all = seckill::internals::Script::all(Kind::Hash);
    let has = |script: &&seckill::internals::Script| {
        script.text.lines().any(|line| line.starts_with("  ") && line.contains(" deadlines  "))
    };
    let scripts: BTreeSet<&str> = all.iter().copied().filter(has).map(|script| script.name).collect();
    assert_eq!(said, scripts);
    assert!(all.iter().all(|script| script.knows_holds() == scripts.contains(script.name)));
}

#[test]
fn arguments_of_the_contract_are_those_of_the_headers() {
    let rows = table_rows("docs/contract.md", "ARGV | `deduct`");
    for (column, script) in [
        (1, DEDUCT.of(Kind::Hash)),
        (2, REFUND.of(Kind::Hash)),
        (3, MULTI_DEDUCT.of(Kind::Hash)),
        (4, HOLD.of(Kind::Hash)),
        (5, SETTLE.of(Kind::Hash)),
    ] {
        let is_name = |name: &&str| !name.is_empty() && !name.starts_with("the ");
        let said: Vec<&str> = rows.iter().map(|row| &*row[column]).filter(is_name).collect();
        assert_eq!(said, script.arguments(), "{}", script.name);
    }
    assert!(rows.iter().enumerate().all(|(at, row)| row[0] == (at + 1).to_string()));
}

#[test]
fn codes_of_the_contract_are_all_that_scripts_reply() {
    let said: BTreeMap<i64, String> = table_rows("docs/contract.md", "code | name")
        .into_iter()
        .map(|row| (row[0].parse().unwrap(), row[1].clone()))
        .collect();
    let mut codes: BTreeMap<i64, String> =
        Status::ALL.iter().map(|status| (status.code(), status.name().to_owned())).collect();
    for (code, name) in [
        (call_code::GAP, "gap"),
        (call_code::OTHER_EPOCH, "other_epoch"),
        (call_code::OTHER_JOB, "other_job"),
        (call_code::STALE, "stale"),
        (call_code::UNREAD, "unread"),
    ] {
        codes.insert(code, name.to_owned());
    }
    assert_eq!(said, codes);
}

/// Every kind of entry, written by the commands that write it.
#[test]
fn ledger_entries_have_the_fields_that_the_contract_names() {
    let rows = table_rows("docs/contract.md", "op | also has");
    let words = |cell: &str| -> BTreeSet<String> { cell.split_whitespace().map(str::to_owned).collect() };
    let said: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> =
        rows.iter().map(|row| (row[0].clone(), (words(&row[1]), words(&row[2])))).collect();
    assert_eq!(said.keys().cloned().collect::<BTreeSet<_>>(), Op::ALL.iter().map(|op| op.name().to_owned()).collect());

    let redis = TestRedis::start();
    let run = |line: &str| drop(redis.seckill([]).args(line.split(' ')).code(0));
    run("preheat --id 1 --stock 20");
    run("preheat --id 1 --stock 30 --update --reason why");
    run("deduct 1 --user 7 --quantity 2 --request r");
    run("multi-deduct --user 8 1=1");
    run("refund 1 --user 7 --reason why");
    run("pause 1 --withdraw-stock");
    run("resume 1");
    run("pause 1 --reason why");
    run("resume 1");
    redis
        .seckill(["deduct", "--from", "-"])
        .stdin("activity,user,quantity,request,reason\n1,9,1,a,b\n1,10,2,c,d\n")
        .code(0);
    redis.seckill(["deduct", "--from", "-", "--job", "j"]).stdin("activity,user\n1,9\n1,10\n").code(0);
    run("hold 1 --user 7 --for 15m --request h1");
    run("confirm 1 --request h1");
    run("hold 1 --user 7 --for 15m --request h2");
    run("release 1 --request h2");
    run("hold 1 --user 7 --for 1ms --request h3");
    wait_until("a hold is overdue", || redis.seckill(["expire", "1", "-o", "json"]).code(0).json()[0]["holds"] == 1);
    redis.cmd(("HINCRBY", "seckill:participants:1", "9", 1));
    redis.seckill(["reconcile", "1", "--fix", "--yes"]).run();
    run("preheat --id 3 --stock 5");
    run("deduct 3 --user 7");
    redis.seckill(["reconcile", "3", "--fix", "--yes", "--expect-rows", "0", "--orders-cmd", "echo user"]).code(0);
    redis.cmd(("SET", "seckill:stock:2", 5));
    run("preheat --id 2 --adopt --total 5 --yes");
    let mut scripts = Scripts::of(&redis, SECKILL);
    let id = "a".repeat(40);
    let keys = |activity| SECKILL.keys(activity)[..4].to_vec();
    assert_eq!(scripts.call("lend", &keys("1"), &["", &id, "1", "2", "1", "1", ""]).split(' ').next(), Some("1"));
    assert_eq!(scripts.call("borrow", &keys("2"), &["", &id, "1", "1", "1"]).split(' ').next(), Some("1"));
    let mut seen = BTreeMap::<String, BTreeSet<String>>::new();
    for (id, mut entry) in ["1", "2", "3"].map(|id| redis.xrange(&SECKILL.ledger(id))).concat() {
        let op = entry.remove("op").unwrap();
        assert!(entry.remove("stock").is_some(), "{id}: {op}");
        entry.retain(|name, _| name != "by" && name != "reason");
        let (has, may_have) = &said[&op];
        let fields: BTreeSet<String> = entry.into_keys().collect();
        assert!(has.is_subset(&fields), "{op}: {has:?} of {fields:?}");
        let unsaid: Vec<_> = fields.difference(has).filter(|name| !may_have.contains(*name)).collect();
        assert!(unsaid.is_empty(), "{op} has {unsaid:?}, which the contract does not name");
        seen.entry(op).or_default().extend(fields);
    }
    for (op, (has, may_have)) in &said {
        let all: BTreeSet<String> = has.union(may_have).cloned().collect();
        // A refund has what a deduct has, and files of holds what files of deducts have; one of each shows every field.
        if !["refund", "hold", "confirm", "release"].contains(&op.as_str()) {
            assert_eq!(seen.get(op), Some(&all), "{op}: what the contract names is written at times");
        }
    }
    assert!(seen.contains_key("refund"));
}

#[test]
fn the_page_for_backends_has_the_table_of_the_drop_ins() {
    let page = include_str!("../../docs/backends.md");
    for name in ["seckill", "sku", "sku-multi", "coupon", "product"] {
        assert!(page.contains(&format!("\n| `{name}` | ")), "{name}");
    }
}
