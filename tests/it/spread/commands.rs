//! `multi-deduct` and `expire` with activities of several nodes, and clients that die between two steps.

use serde_json::Value;

use crate::support::scripts::shown;
use crate::support::{CLUSTER, TestCluster, wait_until};

/// A cluster of three nodes with an activity of 5 units on each, the one with the smallest stock key first.
struct Sale {
    cluster: TestCluster,
    ids: Vec<String>,
}

impl Sale {
    fn start(replicas: bool) -> Self {
        let cluster = if replicas { TestCluster::with_replicas(3) } else { TestCluster::start(3) };
        let mut ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, "10")).collect();
        ids.sort_by_key(|id| CLUSTER.stock(id));
        for id in &ids {
            cluster.seckill(["preheat", "--stock", "5", "--per-user-limit", "3", "--id", id]).code(0);
        }
        Self { cluster, ids }
    }

    /// Items of each activity, with these quantities.
    fn items(&self, quantities: [u32; 3]) -> [String; 3] {
        std::array::from_fn(|nth| format!("{}={}", self.ids[nth], quantities[nth]))
    }

    fn stocks(&self) -> Vec<i64> {
        self.ids.iter().map(|id| self.cluster.ask(&CLUSTER.stock(id), ("GET", CLUSTER.stock(id)))).collect()
    }

    /// Calls a script as a client does, for the item of an activity of order `r`.
    fn call(&self, script: &'static str, nth: usize, args: &[&str]) -> i64 {
        let keys = CLUSTER.all_keys(&self.ids[nth]);
        let mut command = vec!["EVAL".to_owned(), shown(script).to_owned(), keys.len().to_string()];
        command.extend(keys.iter().cloned().chain(args.iter().map(|text| (*text).to_owned())));
        let reply: Vec<redis::Value> = self.cluster.ask(&keys[0], command);
        redis::FromRedisValue::from_redis_value(reply[0].clone()).unwrap()
    }

    fn order(&self) -> String {
        format!("m:{}", CLUSTER.stock(&self.ids[0]))
    }

    /// Holds an item of the order of user 7 for one unit each, as a client that dies afterwards.
    fn hold(&self, nth: usize, ms: &str) -> i64 {
        let mut asked: Vec<String> = self.ids.iter().map(|id| format!("{} 1", CLUSTER.stock(id))).collect();
        asked.sort();
        let sha1: String = self.cluster.node(0).ask(("EVAL", "return redis.sha1hex(ARGV[1])", 0, asked.join("\n")));
        let others = [1, 2].map(|nth| CLUSTER.stock(&self.ids[nth])).join(" ");
        let (digest, items) = (format!("multi_deduct {sha1}"), if nth == 0 { others } else { String::new() });
        self.call("hold", nth, &["hash", "dead", "7", "1", "r", "first", "", ms, &self.order(), &digest, &items])
    }

    fn confirm(&self, nth: usize) -> i64 {
        self.settle(nth, "confirm")
    }

    fn settle(&self, nth: usize, step: &str) -> i64 {
        self.call("settle", nth, &["hash", "dead", "r", step, &self.order()])
    }

    /// What an audit says of orders, as `activity redis | ledger`, with the activities and items by their place.
    fn split_orders(&self) -> Vec<String> {
        let run = self.cluster.seckill(["reconcile", "-o", "json"]).run();
        let audit = run.json();
        let differences = audit["differences"].as_array().unwrap();
        assert_eq!(run.status.code(), Some(if differences.is_empty() { 0 } else { 7 }), "{audit}");
        assert_eq!(
            differences.is_empty(),
            !run.stderr.contains("the order `r` of user `7` is split"),
            "{}",
            run.stderr
        );
        let place = |text: &str| self.ids.iter().position(|id| id == text).unwrap();
        let shown = |row: &Value| {
            assert_eq!((&row["class"], &row["user"]), (&"split_order".into(), &"7".into()), "{row}");
            let text = |field: &str| row[field].as_str().unwrap().to_owned();
            let (other, state) = (text("redis"), text("ledger"));
            let (other, there) = other.split_once(": ").unwrap();
            format!("{} {} | {} {there}", place(&text("activity")), state, place(other))
        };
        let mut all: Vec<String> = differences.iter().map(shown).collect();
        all.sort();
        all
    }

    fn again(&self) -> (i32, Value) {
        let [a, b, c] = self.items([1, 1, 1]);
        let run =
            self.cluster.seckill(["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r", "-o", "json"]).run();
        (run.status.code().unwrap(), run.json())
    }
}

#[test]
fn an_order_over_several_nodes_takes_all_or_nothing_once() {
    let sale = Sale::start(true);
    let [a, b, c] = sale.items([1, 2, 1]);
    let buy = |request: &str| {
        sale.cluster.seckill(["multi-deduct", &c, &a, &b, "--user", "7", "--request", request, "-o", "json"])
    };
    let bought = buy("r").code(0).json();
    assert_eq!((&bought["status"], sale.stocks()), (&"ok".into(), vec![4, 3, 4]), "{bought}");
    assert!(bought["items"].as_array().unwrap().iter().all(|item| item["status"] == "ok"), "{bought}");
    let again = buy("r").code(0).json();
    assert_eq!((&again["status"], sale.stocks()), (&"replayed".into(), vec![4, 3, 4]), "{again}");
    // The second item would pass its limit: nothing is taken, and the others say that they would have been fine.
    let refused = buy("s").code(3).json();
    let statuses: Vec<&str> =
        refused["items"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(
        (&refused["status"], statuses),
        (&"refused".into(), vec!["refused", "refused", "limit_exceeded"]),
        "{refused}"
    );
    assert_eq!(sale.stocks(), [4, 3, 4]);
    // Its id is used up, because a hold of it may still come late.
    let [a1, b1, c1] = sale.items([1, 1, 1]);
    let other = sale.cluster.seckill(["multi-deduct", &a1, &b1, &c1, "--user", "7", "--request", "s"]).code(3);
    other.stdout_has("request_conflict");
    buy("s").code(3).stdout_has("expired");
    let dry =
        sale.cluster.seckill(["multi-deduct", &a1, &b1, &c1, "--user", "8", "--dry-run", "-o", "json"]).code(0).json();
    assert_eq!((&dry["status"], sale.stocks()), (&"ok".into(), vec![4, 3, 4]), "{dry}");
    sale.cluster.seckill(["reconcile"]).code(0);
    sale.cluster
        .seckill(["inspect", "--holds", "-o", "csv"])
        .code(0)
        .stdout_is("activity,request,user,quantity,deadline\n");
}

/// The client dies after each of its steps, and the same command finishes what it began.
#[test]
fn the_same_request_finishes_what_a_dead_client_began() {
    for (held, confirmed) in [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3)] {
        let sale = Sale::start(false);
        assert!((0..held).all(|nth| sale.hold(nth, "900000") == 1));
        assert!((0..confirmed).all(|nth| sale.confirm(nth) == 1));
        let (code, order) = sale.again();
        let expected = if confirmed > 0 { "replayed" } else { "ok" };
        assert_eq!(
            (code, order["status"].as_str()),
            (0, Some(expected)),
            "{held} held, {confirmed} confirmed: {order}"
        );
        assert_eq!(sale.stocks(), [4, 4, 4]);
        sale.cluster.seckill(["reconcile"]).code(0);
    }
}

/// If nobody does, `expire` ends each item as the primary was decided.
#[test]
fn expire_ends_an_order_as_its_primary_was_decided() {
    for (held, confirmed) in [(&[0][..], 0), (&[1, 2], 0), (&[0, 1, 2], 0), (&[0, 1, 2], 1), (&[0, 1, 2], 2)] {
        let sale = Sale::start(false);
        assert!(held.iter().all(|nth| sale.hold(*nth, "1") == 1));
        assert!((0..confirmed).all(|nth| sale.confirm(nth) == 1));
        let left = if confirmed > 0 { [4, 4, 4] } else { [5, 5, 5] };
        let is_open = || {
            sale.cluster.seckill(["expire"]).code(0).stderr("");
            sale.cluster.seckill(["inspect", "--holds", "-o", "csv"]).code(0).stdout.lines().count() > 1
        };
        wait_until("nothing is held open", || !is_open());
        assert_eq!(sale.stocks(), left, "{held:?} held, {confirmed} confirmed");
        // Nobody can buy an order that was given up, and nobody can give up one that was bought.
        let (code, order) = sale.again();
        assert_eq!(code == 0, confirmed > 0, "{order}");
        assert_eq!(sale.stocks(), left);
        sale.cluster.seckill(["reconcile"]).code(0);
    }
}

/// The primary may be gone since: whoever cannot ask it gives nothing back of what may be bought.
#[test]
fn nothing_returns_of_an_order_whose_primary_cannot_say_whether_it_is_bought() {
    let sale = Sale::start(false);
    assert!((0..3).all(|nth| sale.hold(nth, "1") == 1) && sale.confirm(0) == 1);
    let stock = CLUSTER.stock(&sale.ids[0]);
    let () = sale.cluster.ask(&stock, ("DEL", &stock));
    let [a, b, c] = sale.items([1, 1, 1]);
    let again = ["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r"];
    sale.cluster.seckill(again).code(6).stderr_has("is not_preheated").stderr_has("--request r");
    wait_until("they are overdue", || sale.cluster.seckill(["expire"]).run().stderr.contains("`r` cannot be expired"));
    let () = sale.cluster.ask(&stock, ("SET", &stock, 4));
    assert_eq!(sale.stocks(), [4, 4, 4], "all is still taken");
    assert_eq!(sale.again().1["status"], "replayed");
    sale.cluster.seckill(["reconcile"]).code(0);
}

/// An id that means something else at the primary cannot have bought the order.
#[test]
fn items_return_if_their_request_id_is_of_another_order_at_the_primary() {
    let sale = Sale::start(false);
    sale.cluster.seckill(["deduct", &sale.ids[0], "--user", "7", "--request", "r"]).code(0);
    assert!([1, 2].iter().all(|nth| sale.hold(*nth, "1") == 1));
    wait_until("the items returned", || {
        sale.cluster.seckill(["expire"]).code(0);
        sale.stocks() == [4, 5, 5]
    });
}

/// Replicas make that impossible unless two nodes fail at once. Here a part is decided past the order.
#[test]
fn an_audit_finds_orders_that_are_bought_in_part() {
    for (held, steps, found) in [
        (&[0, 1, 2][..], &[][..], &[][..]),
        (&[0, 1, 2], &[(0, "confirm")], &[]),
        (&[0, 1, 2], &[(0, "confirm"), (1, "confirm"), (2, "confirm")], &[]),
        (&[0, 1, 2], &[(0, "abort"), (2, "abort")], &[]),
        (&[0, 1], &[(0, "confirm"), (1, "confirm")], &["0 r: confirmed | 2 absent"]),
        (
            &[0, 1, 2],
            &[(0, "confirm"), (1, "confirm"), (2, "abort")],
            &["0 r: confirmed | 2 void", "2 r: returned | 0 confirmed"],
        ),
        (&[1, 2], &[(1, "confirm")], &["1 r: confirmed | 0 absent"]),
        (
            &[0, 1, 2],
            &[(0, "abort"), (1, "confirm"), (2, "abort")],
            &["0 r: returned | 1 confirmed", "1 r: confirmed | 0 void"],
        ),
    ] {
        let sale = Sale::start(false);
        assert!(held.iter().all(|nth| sale.hold(*nth, "900000") == 1), "{held:?}");
        assert!(steps.iter().all(|(nth, step)| sale.settle(*nth, step) == 1), "{steps:?}");
        assert_eq!(sale.split_orders(), found, "{held:?} held, then {steps:?}");
    }
}

/// What is not there any more was not lost.
#[test]
fn an_order_is_not_split_because_a_sale_was_trimmed_reset_or_archived() {
    let sale = Sale::start(false);
    assert!((0..3).all(|nth| sale.hold(nth, "900000") == 1) && (0..3).all(|nth| sale.confirm(nth) == 1));
    sale.cluster.seckill(["ledger", "trim", &sale.ids[0], "--before", "1ms", "--yes"]).code(0);
    assert!(sale.split_orders().is_empty(), "trimmed");
    sale.cluster.seckill(["preheat", "--id", &sale.ids[1], "--stock", "5", "--reset", "--yes"]).code(0);
    assert!(sale.split_orders().is_empty(), "reset");
    sale.cluster.seckill(["pause", &sale.ids[0]]).code(0);
    let files = tempfile::tempdir().unwrap();
    sale.cluster.seckill(["archive", &sale.ids[0], "--to"]).args([files.path()]).args(["--yes"]).code(0);
    assert!(sale.split_orders().is_empty(), "archived");
}

#[test]
fn an_activity_that_is_not_there_refuses_the_order_and_nothing_stays_held() {
    let sale = Sale::start(false);
    let [_, b, c] = sale.items([1, 1, 1]);
    // Before all others by its stock key, so that it is the primary.
    let run = sale.cluster.seckill(["multi-deduct", "!=1", &b, &c, "--user", "7", "--request", "r"]).code(3);
    run.stdout_has("not_preheated");
    assert_eq!(sale.stocks(), [5, 5, 5]);
}

#[test]
fn a_file_has_orders_of_one_node_and_of_several() {
    let sale = Sale::start(false);
    let [a, b, c] = [&sale.ids[0], &sale.ids[1], &sale.ids[2]];
    let rows = [
        format!(r#"{{"user":1,"items":{{"{a}":1}}}}"#),
        format!(r#"{{"user":2,"items":{{"{a}":1,"{b}":1}}}}"#),
        format!(r#"{{"user":3,"items":{{"{b}":1,"{c}":4}}}}"#),
        format!(r#"{{"user":4,"items":{{"{c}":1}}}}"#),
        format!(r#"{{"user":5,"items":{{"{a}":1,"{b}":1,"{c}":1}}}}"#),
        format!(r#"{{"user":6,"items":{{"{a}":1}}}}"#),
    ];
    let file = rows.join("\n");
    let apply = |job: &str| {
        let run =
            sale.cluster.seckill(["multi-deduct", "--from", "-", "--job", job, "-o", "jsonl"]).stdin(&file).code(3);
        run.jsonl().iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(apply("j"), ["ok", "ok", "refused", "ok", "ok", "ok"], "3 asks for more than the limit");
    assert_eq!(sale.stocks(), [1, 3, 3]);
    assert_eq!(apply("j"), ["replayed", "replayed", "refused", "replayed", "replayed", "replayed"]);
    assert_eq!(sale.stocks(), [1, 3, 3]);
    sale.cluster.seckill(["reconcile"]).code(0);
}
