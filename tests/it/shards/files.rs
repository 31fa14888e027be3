//! Files of orders of a sharded activity: each row once, at the home of its user, with units of other shards.

use std::io::Write as _;

use serde_json::Value;
use tempfile::NamedTempFile;

use super::sale::Sale;
use crate::support::{CLUSTER, TestCluster, wait_until};

/// A file of rows.
fn file(header: &str, rows: impl IntoIterator<Item = String>) -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".csv").unwrap();
    writeln!(file, "{header}").unwrap();
    rows.into_iter().for_each(|row| writeln!(file, "{row}").unwrap());
    file
}

/// Status, orders and units of each row of a summary.
fn summary(rows: &Value) -> Vec<(&str, u64, u64)> {
    let row = |row: &'_ Value| {
        assert_eq!(row["activity"], "1001", "the parent, and nothing of its shards");
        (row["orders"].as_u64().unwrap(), row["units"].as_u64().unwrap_or(0))
    };
    let rows = rows.as_array().unwrap();
    rows.iter().map(|it| (it["status"].as_str().unwrap(), row(it).0, row(it).1)).collect()
}

impl Sale {
    /// Applies a file.
    fn apply(&self, command: &str, file: &NamedTempFile) -> crate::support::Outcome {
        self.seckill(&format!("{command} --from {}", file.path().display())).run()
    }
}

#[test]
fn a_file_sells_every_unit_wherever_it_is_and_says_so_of_the_parent() {
    let sale = Sale::new(&[40, 0, 0], None);
    let rows = file("activity,user", (0..60).map(|index| format!("1001,u{index}")));
    let run = sale.apply("deduct", &rows).code(3);
    assert_eq!(summary(&run.json()), [("ok", 40, 40), ("out_of_stock", 20, 20)]);
    assert_eq!((sale.stocks(), sale.bought().len(), sale.in_transit()), (vec![0, 0, 0], 40, 0));
    assert!((0..3).all(|index| sale.open(index).is_empty()), "all transfers are settled");
    sale.check(40);
    let again = sale.apply("deduct", &rows).code(3);
    assert_eq!(summary(&again.json()), [("replayed", 40, 40), ("refused_before", 20, 20)]);
    sale.check(40);
    // Units that were returned later are not for orders that were refused.
    let refunds = file("activity,user", sale.bought().into_keys().map(|user| format!("1001,{user}")));
    assert_eq!(summary(&sale.apply("refund", &refunds).code(0).json()), [("ok", 40, 40)]);
    assert_eq!((sale.stocks().iter().sum::<i64>(), sale.bought().len()), (40, 0));
    sale.apply("deduct", &rows).code(3);
    assert_eq!(sale.bought().len(), 0);
    sale.check(40);
}

#[test]
fn a_shard_in_files_lends_nothing_and_who_needs_its_units_hears_ended() {
    let sale = Sale::new(&[1, 5], None);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().display();
    sale.seckill("pause 1001").code(0);
    sale.seckill(&format!("archive 1001 --yes --to {to}")).code(0);
    sale.seckill(&format!("preheat --restore {to}/1001%233.cluster.1")).code(0);
    // As a resume leaves it that began before the archive.
    let meta = CLUSTER.meta("1001#3");
    let _: i64 = sale.ask(&meta, &["HSET", &meta, "rules", "live 1 1 - 1 - -"][..]);
    let user = sale.user(0, "u");
    sale.seckill(&format!("deduct 1001 --user {user} --quantity 2")).code(3).stdout_has("ended");
    let rows = file("activity,user,quantity", [format!("1001,{user},2")]);
    assert_eq!(summary(&sale.apply("deduct", &rows).code(3).json()), [("ended", 1, 2)]);
    sale.seckill(&format!("deduct 1001 --user {user}")).code(0);
}

#[test]
fn a_file_says_that_a_shard_is_gone_and_nothing_of_a_reset() {
    let sale = Sale::new(&[1, 5], None);
    drop(sale.redis().cmd(("UNLINK", CLUSTER.all_keys(&sale.id(1)))));
    let gone = "names a shard that is not there: was it evicted, or removed?";
    let rows = file("activity,user", [1, 0].map(|number| format!("1001,{}", sale.user(number, "u"))));
    for command in ["deduct", "refund"] {
        let run = sale.apply(command, &rows).code(3).stderr_has(gone);
        assert_eq!(summary(&run.json()), [("ok", 1, 1), ("corrupt", 1, 1)], "{command}");
    }
    let short = file("activity,user", ["v", "w"].map(|user| format!("1001,{}", sale.user(0, user))));
    let error = sale.apply("deduct", &short).code(1).error_line();
    assert!(error["error"].as_str().unwrap().ends_with(gone), "{error}");
}

#[test]
fn rows_come_in_the_order_of_the_file_and_name_the_parent() {
    let sale = Sale::on(TestCluster::start(3), &[500, 100, 0, 0]);
    let orders = file("activity,user,request", (0..700).map(|index| format!("1001,u{index},r{index}")));
    let run = sale.seckill(&format!("deduct --from {} -o jsonl", orders.path().display())).code(3);
    let rows = run.jsonl();
    let lines: Vec<u64> = rows.iter().map(|row| row["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, (2..702).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row["activity"] == "1001" && row["stock"].is_null()), "{:?}", rows[0]);
    assert_eq!(rows.iter().filter(|row| row["status"] == "ok").count(), 600);
    sale.check(600);
    // The same rows, as standard input of an unknown activity.
    let text = std::fs::read(orders.path()).unwrap();
    let run = sale.seckill("deduct --from - --job other").stdin(text).code(3);
    assert_eq!(summary(&run.json()), [("replayed", 600, 600), ("out_of_stock", 100, 100)]);
    sale.check(600);
}

#[test]
fn who_wants_more_than_is_left_does_not_hold_up_who_wants_less() {
    let sale = Sale::new(&[3, 3, 3], None);
    let users = sale.users(1, 7);
    let quantities = [4, 4, 4, 1, 4, 1, 1];
    let rows = users.iter().zip(quantities).map(|(user, quantity)| format!("1001,{user},{quantity}"));
    let rows = file("activity,user,quantity", rows);
    let path = rows.path().display().to_string();
    let run = sale.seckill(&format!("deduct --from {path} -o jsonl")).code(3).jsonl();
    let statuses: Vec<&str> = run.iter().map(|row| row["status"].as_str().unwrap()).collect();
    let out = "out_of_stock";
    assert_eq!(statuses, ["ok", "ok", out, "ok", out, out, out]);
    sale.check(9);
}

#[test]
fn holds_of_a_file_are_confirmed_and_released_at_the_homes_of_their_users() {
    let sale = Sale::new(&[0, 30, 0], None);
    let holds = file("activity,user,quantity,request", (0..12).map(|index| format!("1001,u{index},2,h{index}")));
    assert_eq!(summary(&sale.apply("hold --for 10m", &holds).code(0).json()), [("ok", 12, 24)]);
    let paid = (0..8).map(|index| format!("1001,h{index},u{index}")).chain(["1001,nothing,u3".to_owned()]);
    let paid = file("activity,request,user", paid);
    let path = paid.path().display().to_string();
    let rows = sale.seckill(&format!("confirm --from {path} -o jsonl")).code(3).jsonl();
    let row =
        |index: usize| (rows[index]["user"].as_str(), rows[index]["quantity"].as_u64(), rows[index]["status"].as_str());
    assert_eq!(row(3), (Some("u3"), Some(2), Some("ok")));
    assert_eq!((rows.len(), rows[8]["status"].as_str(), rows[8]["user"].as_str()), (9, Some("not_held"), Some("u3")));
    let dropped = file("activity,request,user", (8..12).map(|index| format!("1001,h{index},u{index}")));
    assert_eq!(summary(&sale.apply("release", &dropped).code(0).json()), [("ok", 4, 8)]);
    assert_eq!((sale.bought().len(), sale.bought().values().sum::<i64>()), (8, 16));
    sale.check(30);
    let again = sale.apply("confirm", &paid).code(3);
    assert_eq!(summary(&again.json())[0].1, 8, "{}", again.stdout);
    sale.check(30);
}

#[test]
fn what_a_payments_file_called_not_held_its_second_run_does_not_confirm() {
    let sale = Sale::new(&[9, 9, 9], None);
    let users: Vec<String> = (0..3).map(|index| sale.user(index, "u")).collect();
    let paid = file("activity,request,user", (0..3).map(|index| format!("1001,h{index},{}", users[index])));
    assert_eq!(summary(&sale.apply("confirm", &paid).code(3).json()), [("not_held", 3, 0)]);
    for (index, user) in users.iter().enumerate() {
        assert_eq!(sale.status(&format!("hold 1001 --user {user} --for 10m --request h{index}")), "ok");
    }
    let again = sale.apply("confirm", &paid).code(3).json();
    assert_eq!(summary(&again), [("refused_before", 3, 0)]);
    // A row with that id and another user names no hold.
    let of_others =
        file("activity,request,user", (0..3).map(|index| format!("1001,h{index},{}", users[(index + 1) % 3])));
    assert_eq!(summary(&sale.apply("confirm", &of_others).code(3).json()), [("not_held", 3, 0)]);
    assert_eq!(summary(&sale.apply("confirm --job other", &paid).code(0).json()), [("ok", 3, 3)]);
    sale.check(27);
}

#[test]
fn rows_of_a_sharded_activity_without_a_user_are_named_and_nothing_is_applied() {
    let sale = Sale::new(&[9, 9], None);
    sale.seckill("preheat --id 7 --stock 5").code(0);
    for line in ["hold 7 --user u --for 10m --request h", "hold 1001 --user u --for 10m --request h"] {
        assert_eq!(sale.status(line), "ok");
    }
    let before = sale.redis().dump_all();
    let says = |line: u64| format!("line {line}: `1001` is sharded, where a request id belongs to its user");
    let rows = file("activity,request,user", ["7,h,", "1001,h,u", "1001,h,"].map(str::to_owned));
    sale.apply("confirm", &rows).code(2).stderr_has(&says(4)).stderr_has("the column `user`");
    let rows = file("activity,request", ["7,h", "1001,h"].map(str::to_owned));
    sale.apply("release", &rows).code(2).stderr_has(&says(3));
    let many = (0..3000).map(|row| format!("7,r{row}")).chain(["1001,h".to_owned()]);
    sale.apply("release", &file("activity,request", many)).code(2).stderr_has(&says(3002));
    sale.apply("release --dry-run", &rows).code(2).stderr_has(&says(3));
    sale.redis().assert_unchanged_since(&before);
    // What is read once is applied up to there.
    let run = sale.seckill("confirm --from -").stdin("activity,request\n7,h\n1001,h\n7,h\n").code(2);
    run.stderr_has(&says(3));
    sale.check(18);
}

#[test]
fn late_payments_of_a_file_borrow_and_are_refused_only_if_nothing_is_left() {
    let sale = Sale::new(&[2, 2], None);
    let (first, second) = (sale.users(0, 2), sale.users(1, 1));
    for (user, request) in [(&first[0], "a"), (&first[1], "b"), (&second[0], "c")] {
        assert_eq!(sale.status(&format!("hold 1001 --user {user} --for 1ms --request {request}")), "ok");
    }
    let mut expired = 0;
    wait_until("all are expired", || {
        expired += sale.seckill("expire 1001").code(0).json()[0]["holds"].as_u64().unwrap_or(0);
        expired == 3
    });
    // Another user buys two of four.
    let buyer = sale.user(0, "buyer");
    assert_eq!(sale.status(&format!("deduct 1001 --user {buyer} --quantity 2")), "ok");
    let paid = [(&first[0], "a"), (&first[1], "b"), (&second[0], "c")];
    let paid = file("activity,request,user", paid.map(|(user, id)| format!("1001,{id},{user}")));
    let path = paid.path().display().to_string();
    let rows = sale.seckill(&format!("confirm --from {path} -o jsonl")).code(3).jsonl();
    let confirmed = rows.iter().filter(|row| row["status"] == "ok").count();
    let refused = rows.iter().filter(|row| row["status"] == "expired").count();
    assert_eq!((confirmed, refused), (2, 1), "{rows:?}");
    sale.check(4);
}

#[test]
fn units_that_a_run_returned_itself_are_sold_by_it_at_once() {
    let sale = Sale::new(&[3, 0], None);
    let (ann, bob) = (sale.user(0, "ann"), sale.user(1, "bob"));
    assert_eq!(sale.status(&format!("hold 1001 --user {ann} --quantity 3 --for 1ms --request old")), "ok");
    let (input, mut rows) = std::io::pipe().unwrap();
    let input = std::os::fd::OwnedFd::from(input).into();
    let run = sale.seckill("hold --from - --for 10m -o jsonl").stdin_file(input).spawn();
    writeln!(rows, "activity,user").unwrap();
    // Nothing is in stock; then a hold of the other shard finds what is overdue there.
    for (line, user) in [(2, &bob), (3, &ann), (4, &bob)] {
        writeln!(rows, "1001,{user}").unwrap();
        run.wait_for_stdout(&format!("\"line\":{line}"));
    }
    drop(rows);
    let rows = run.wait().code(3).jsonl();
    let statuses: Vec<&str> = rows.iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["out_of_stock", "ok", "ok"]);
    sale.check(3);
}

#[test]
fn at_least_95_percent_of_the_units_are_sold_without_borrowing() {
    let stocks = [63, 63, 63, 63, 63, 63, 63, 63, 62, 62, 62, 62, 62, 62, 62, 62];
    let sale = Sale::new(&stocks, None);
    let rows = file("activity,user", (0..4_000).map(|index| format!("1001,customer-{index}")));
    let run = sale.apply("deduct", &rows).code(3);
    assert_eq!(summary(&run.json()), [("ok", 1_000, 1_000), ("out_of_stock", 3_000, 3_000)]);
    let transfers = sale.transfers();
    assert!(transfers <= 50, "{transfers} transfers");
    sale.check(1_000);
}

#[test]
fn a_reset_stops_purchases_and_refunds_and_names_the_parent() {
    let rows = file("activity,user", (0..1_000).map(|index| format!("1001,u{index}")));
    for (command, shards) in [("deduct", 2), ("deduct", 3), ("refund", 3)] {
        let sale = Sale::new(&[500, 500], None);
        if command == "refund" {
            sale.apply("deduct", &rows).code(0);
        }
        let sold = sale.bought().len();
        let run = sale.seckill(&format!("{command} --from {} --rate 100", rows.path().display())).spawn();
        wait_until("the run has begun", || sale.bought().len() != sold);
        match shards {
            2 => sale.preheat("reset", &sale.shards, &[500, 500], None),
            _ => drop(sale.seckill("preheat --id 1001 --stock 900 --shards 3 --reset --yes").code(0)),
        }
        let error = run.wait().code(1).error_line();
        assert!(error["error"].as_str().unwrap().starts_with("activity `1001` was reset"), "{command}: {error}");
        if shards == 2 {
            sale.check(1_000);
        }
    }
}

#[test]
fn a_job_continues_with_the_shards_of_after_a_reset() {
    let sale = Sale::new(&[10, 0], None);
    let text = (0..4).fold("activity,user\n".to_owned(), |text, index| text + &format!("1001,u{index}\n"));
    sale.seckill("deduct --from - --job night").stdin(&text).code(0);
    let keys: Vec<String> = (0..2).flat_map(|index| CLUSTER.all_keys(&sale.id(index))).collect();
    sale.redis().cmd(("UNLINK", &keys));
    sale.preheat("create", &[80, 81], &[2, 2], None);
    let rows = sale.seckill("deduct --from - --job night").stdin(&text).code(0).json();
    assert_eq!(summary(&rows), [("ok", 4, 4)]);
    let sale = Sale { shards: vec![80, 81], ..sale };
    sale.check(4);
}
