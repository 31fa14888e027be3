//! `multi-deduct` and `expire` with activities of several nodes, and clients that die between two steps.

use super::sale::Sale;
use crate::support::{CLUSTER, Fault, Proxy, TestCluster, TestRedis, When, wait_until};

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

#[test]
fn of_an_order_that_a_repair_took_back_in_part_what_is_bought_stays_so() {
    let mut sale = Sale::start(false);
    let records = ["--orders-cmd", "printf 'user,quantity,request\nv,1,rv\n'"];
    for (prefix, (confirmed, taken_back, other)) in (10..).zip([
        (3, 0, "replayed"),
        (3, 1, "replayed"),
        (3, 2, "replayed"),
        // Its client died behind the commit. By the primary the others are bought; without it they return.
        (1, 0, "refused"),
        (2, 1, "replayed"),
    ]) {
        sale = sale.another(&prefix.to_string());
        assert!((0..3).all(|index| sale.hold(index, "600000") == 1));
        assert!((0..confirmed).all(|index| sale.confirm(index) == 1));
        let taken = &sale.ids[taken_back];
        sale.cluster.seckill(["reconcile", taken, "--fix", "--yes"]).args(records).code(0);
        let (code, again) = sale.again();
        let expected = [0, 1, 2].map(|at| if at == taken_back { "reversed" } else { other });
        let found = again["items"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap());
        assert_eq!((code, found.collect::<Vec<_>>()), (3, expected.to_vec()), "{confirmed} {taken_back}: {again}");
    }
}

#[test]
fn a_request_id_of_another_order_of_the_same_primary_buys_nothing() {
    let sale = Sale::start(false);
    let [a, b, c] = sale.items([1, 1, 1]);
    sale.cluster.seckill(["multi-deduct", &a, &b, "--user", "7", "--request", "r"]).code(0);
    let other = ["multi-deduct", &a, &c, "--user", "7", "--request", "r"];
    sale.cluster.seckill(other).code(3).stdout_has("request_conflict");
    assert_eq!(sale.stocks(), [4, 4, 5]);
    sale.cluster.seckill(["multi-deduct", &a, &b, "--user", "7", "--request", "r"]).code(0).stdout_has("replayed");
    sale.of_all("inspect --holds -o csv").code(0).stdout_is("activity,request,user,quantity,deadline\n");
    sale.of_all("reconcile").code(0);
    // Nor beside a primary that lost its participants.
    let participants = CLUSTER.participants(&sale.ids[0]);
    let () = sale.cluster.ask(&participants, ("DEL", &participants));
    sale.cluster.seckill(other).code(3).stdout_has("request_conflict");
    assert_eq!(sale.stocks(), [4, 4, 5]);
}

/// It comes between the refusal of the primary and what ends the order.
#[test]
fn what_another_order_bought_by_the_id_is_no_order_of_who_was_refused_before() {
    let sale = Sale::start(false);
    sale.cluster.seckill(["script", "load"]).code(0);
    sale.cluster.seckill(["deduct", &sale.ids[0], "--user", "9", "--quantity", "3"]).code(0);
    assert!([1, 2].iter().all(|index| sale.hold(*index, "60000") == 1));
    let proxies = Proxy::before_all(&sale.cluster);
    let of_primary = &proxies[sale.cluster.owner_of(&sale.ids[0])];
    let [a, b, c] = sale.items([1, 1, 1]);
    let order = ["multi-deduct", &a, &b, &c, "--user", "9", "--request", "r", "--timeout", "60s"];
    let call = sale.cluster.seckill(order).args(["-u", &of_primary.url()]);
    let refused = of_primary.start_and_hold(When::With("\r\nmulti_deduct ".to_owned()), call);
    of_primary.heal();
    assert_eq!(sale.again().1["status"], "ok");
    of_primary.release();
    refused.wait().code(3).stdout_has("request_conflict");
    assert_eq!(sale.stocks(), [1, 4, 4]);
    sale.of_all("reconcile").code(0);
}

/// What an item is asked first may be of no use. The primary knows.
#[test]
fn an_order_that_was_bought_is_replayed_though_an_item_is_corrupt_since() {
    let sale = Sale::start(false);
    assert_eq!(sale.again().1["status"], "ok");
    let participants = CLUSTER.participants(&sale.ids[0]);
    let () = sale.cluster.ask(&participants, ("DEL", &participants));
    let (code, order) = sale.again();
    assert_eq!((code, order["status"].as_str()), (0, Some("replayed")), "{order}");
    assert!(order["items"].as_array().unwrap().iter().all(|item| item["corrupt"].is_null()), "{order}");
    assert_eq!(sale.stocks(), [4, 4, 4]);
}

/// What is in a ledger, or held, was not "nothing".
#[test]
fn an_order_of_which_an_item_may_be_held_is_not_settled() {
    let sale = Sale::start(false);
    let [a, b, c] = sale.items([1, 1, 1]);
    let order = ["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r"];
    let full = sale.cluster.node(sale.cluster.owner_of(&sale.ids[1]));
    let () = full.ask(("CONFIG", "SET", "maxmemory", 1));
    sale.cluster.seckill(order).code(6).stderr_has("out of memory").stderr_has("with `--request r`");
    let () = full.ask(("CONFIG", "SET", "maxmemory", 0));
    assert_eq!(sale.again().1["status"], "ok");
    assert_eq!(sale.stocks(), [4, 4, 4]);
    // Without the records of holds it is what a call of one slot leaves, as before a move from one server to a cluster.
    for id in &sale.ids {
        let requests = CLUSTER.requests(id);
        let _: i64 = sale.cluster.ask(&requests, ("HDEL", &requests, "\th:r"));
    }
    assert_eq!(sale.again().1["status"], "replayed");
    // What a dry run says of the others, if one is refused, is what they have.
    let [a, b, c] = sale.items([1, 1, 3]);
    let dry =
        sale.cluster.seckill(["multi-deduct", &a, &b, &c, "--user", "7", "--dry-run", "-o", "json"]).code(3).json();
    assert_eq!((&dry["items"][0]["stock"], &dry["items"][0]["bought"]), (&4.into(), &1.into()), "{dry}");
}

/// If its client does not, `expire` ends each item as the primary was decided.
#[test]
fn expire_ends_an_order_as_its_primary_was_decided() {
    let mut sale = Sale::start(false);
    for (prefix, (held, confirmed)) in (10..).zip([(&[1, 2][..], 0), (&[0, 1, 2], 1)]) {
        sale = sale.another(&prefix.to_string());
        assert!(held.iter().all(|index| sale.hold(*index, "1") == 1));
        assert!((0..confirmed).all(|index| sale.confirm(index) == 1));
        let is_open = || {
            sale.of_all("expire -q").code(0).stderr("");
            sale.of_all("inspect --holds -o csv").code(0).stdout.lines().count() > 1
        };
        wait_until("nothing is held open", || !is_open());
        // Nobody can buy an order that was given up, and nobody can give up one that was bought.
        let (code, order) = sale.again();
        assert_eq!(code == 0, confirmed > 0, "{order}");
        assert_eq!(sale.stocks(), if confirmed > 0 { [4, 4, 4] } else { [5, 5, 5] });
        sale.of_all("reconcile").code(0);
    }
}

/// What is left alone for five seconds is not forgotten.
#[test]
fn an_item_whose_primary_is_down_stays_held_and_is_no_success() {
    let cluster = TestCluster::with(3, false, &["--cluster-require-full-coverage", "no"]);
    let mut sale = Sale { cluster, ids: Vec::new() }.another("10");
    assert!([1, 2].iter().all(|index| sale.hold(*index, "1") == 1));
    let primary = sale.cluster.owner_of(&sale.ids[0]);
    sale.cluster.kill_primary(primary);
    let expire = ["expire", &sale.ids[1], &sale.ids[2], "--timeout", "300ms"];
    sale.cluster.seckill(expire).code(5).stderr_has("cannot reach the server at");
    for id in &sale.ids[1..] {
        sale.cluster.seckill(["inspect", id, "--holds", "-o", "name"]).code(0).stdout_is("r\n");
    }
}

/// The primary may be gone since: without it, nothing that may be bought is given back.
#[test]
fn nothing_returns_of_an_order_whose_primary_cannot_say_whether_it_is_bought() {
    let sale = Sale::start(false);
    assert!((0..3).all(|index| sale.hold(index, "1") == 1) && sale.confirm(0) == 1);
    let stock = CLUSTER.stock(&sale.ids[0]);
    let () = sale.cluster.ask(&stock, ("DEL", &stock));
    let [a, b, c] = sale.items([1, 1, 1]);
    let again = ["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r"];
    sale.cluster.seckill(again).code(6).stderr_has("is not_preheated").stderr_has("--request r");
    wait_until("they are overdue", || sale.cluster.seckill(["expire"]).run().stderr.contains("`r` cannot be expired"));
    // Nor if an item is new, because its activity was reset since.
    sale.cluster
        .seckill(["preheat", "--stock", "5", "--per-user-limit", "3", "--reset", "--yes", "--id", &sale.ids[1]])
        .code(0);
    sale.cluster.seckill(again).code(6);
    let () = sale.cluster.ask(&stock, ("SET", &stock, 4));
    assert_eq!(sale.stocks(), [4, 4, 4], "all is still taken");
    assert_eq!(sale.again().1["status"], "replayed");
    sale.cluster.seckill(["reconcile"]).code(0);
}

/// Its commit has no reply, and then the primary is in files.
#[test]
fn nothing_returns_of_an_order_that_a_commit_without_a_reply_may_have_bought() {
    let sale = Sale::start(false);
    sale.cluster.seckill(["script", "load"]).code(0);
    let proxies = Proxy::before_all(&sale.cluster);
    let primary = &sale.ids[0];
    let of_primary = &proxies[sale.cluster.owner_of(primary)];
    of_primary.inject(When::With("\r\nconfirm\r\n".to_owned()), Fault::LoseReply);
    let [a, b, c] = sale.items([1, 1, 1]);
    let order = ["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r", "--timeout", "60s"];
    let run = sale.cluster.seckill(order).args(["-u", &of_primary.url()]).spawn();
    let requests = CLUSTER.requests(primary);
    wait_until("it is bought", || {
        let item: Option<String> = sale.cluster.ask(&requests, ("HGET", &requests, "\th:r"));
        item.is_some_and(|item| item.starts_with("confirmed "))
    });
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().to_str().unwrap();
    sale.cluster.seckill(["pause", primary]).code(0);
    // The commit is sent again, which may change the activity while it is archived.
    wait_until("it is archived", || {
        sale.cluster.seckill(["archive", primary, "--yes", "--to", to]).run().status.success()
    });
    of_primary.heal();
    run.wait().code(6).stderr_has("which says whether it is bought, is ended");
    sale.cluster.seckill(["preheat", "--restore", to]).code(0);
    assert_eq!(sale.stocks(), [4, 4, 4], "all is still taken");
    assert_eq!(sale.again().1["status"], "replayed");
    sale.of_all("reconcile").code(0);
}

/// An id that means something else at the primary cannot have bought the order.
#[test]
fn items_return_if_their_request_id_is_of_another_order_at_the_primary() {
    let sale = Sale::start(false);
    sale.cluster.seckill(["deduct", &sale.ids[0], "--user", "7", "--request", "r"]).code(0);
    assert!([1, 2].iter().all(|index| sale.hold(*index, "1") == 1));
    wait_until("the items returned", || {
        sale.cluster.seckill(["expire"]).code(0);
        sale.stocks() == [4, 5, 5]
    });
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
    let again = ["replayed", "replayed", "refused", "replayed", "replayed", "replayed"];
    assert_eq!(apply("j"), again);
    sale.of_all("pause").code(0);
    assert_eq!(apply("j"), again, "a pause ends nothing");
    assert_eq!(sale.stocks(), [1, 3, 3]);
    sale.cluster.seckill(["reconcile"]).code(0);
}

#[test]
fn lines_over_slots_or_shards_stay_undecided_while_an_activity_refuses_as_a_whole() {
    let sale = Sale::start(false);
    let [a, b, c] = [&sale.ids[0], &sale.ids[1], &sale.ids[2]];
    let rows = [
        format!(r#"{{"user":1,"items":{{"{a}":1,"{b}":1}}}}"#),
        format!(r#"{{"user":2,"items":{{"{c}":1,"{b}":1}},"request":"own"}}"#),
        format!(r#"{{"user":3,"items":{{"later":1,"{b}":1}}}}"#),
        r#"{"user":4,"items":{"s":2}}"#.to_owned(),
    ];
    sale.cluster.seckill(["preheat", "--id", "s", "--stock", "8", "--shards", "4"]).code(0);
    sale.cluster.seckill(["pause", a, c, "s"]).code(0);
    let apply = |code: i32| {
        let call = sale.cluster.seckill(["multi-deduct", "--from", "-", "--job", "j", "-o", "csv"]);
        let run = call.stdin(rows.join("\n")).code(code);
        run.stdout.lines().skip(1).map(|row| row.split(',').collect::<Vec<_>>()[4].to_owned()).collect::<Vec<_>>()
    };
    // As often as it likes.
    for _ in 0..2 {
        let refused = ["paused", "refused", "paused", "refused", "not_preheated", "refused", "paused"];
        assert_eq!((apply(3), sale.stocks()), (refused.map(str::to_owned).to_vec(), vec![5, 5, 5]));
    }
    sale.cluster.seckill(["resume", a, c, "s"]).code(0);
    sale.cluster.seckill(["preheat", "--id", "later", "--stock", "5"]).code(0);
    assert_eq!((apply(0), sale.stocks()), (vec!["ok".to_owned(); 7], vec![4, 2, 4]));
    assert_eq!(apply(0), vec!["replayed".to_owned(); 7]);
}

#[test]
fn a_file_of_orders_over_slots_asks_for_the_map_once() {
    let sale = Sale::start(true);
    let [a, b, _] = &sale.ids[..] else { panic!("three activities") };
    let rows: Vec<String> =
        (0..20).map(|user| format!(r#"{{"user":"u{user}","items":{{"{a}":1,"{b}":1}}}}"#)).collect();
    sale.cluster.nodes().iter().for_each(|node| drop(node.cmd(("CONFIG", "RESETSTAT"))));
    sale.cluster.seckill(["multi-deduct", "--from", "-", "--job", "j"]).stdin(rows.join("\n")).code(3);
    // One of who sends batches; one of who sends orders over slots, who asks for replicas, too.
    assert_eq!(sale.cluster.nodes().iter().map(cluster_commands).sum::<u64>(), 3);
    assert_eq!(sale.stocks(), [0, 0, 5]);
}

/// How often a node was asked about its cluster, since its statistics were reset.
fn cluster_commands(node: &TestRedis) -> u64 {
    let stats: String = node.ask(("INFO", "commandstats"));
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_cluster"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    lines.filter_map(calls).sum()
}
