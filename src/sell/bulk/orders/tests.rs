//! Which orders share a call, and what each reply means.

use crate::model::layout::{Kind, Layout};
use crate::redis::connect::Target;
use crate::redis::pipeline::PipelinedCall;
use crate::redis::system::RealSystem;
use crate::sell::bulk::orders::*;

const MOST: usize = 128;

/// A run before its first call, of so many activities that are preheated.
fn run(activities: usize) -> JobOrders {
    run_of(Operation::Deduct, activities)
}

fn run_of(operation: Operation, activities: usize) -> JobOrders {
    let job = Job { name: "j".to_owned(), digest: "d".to_owned() };
    let mut states = JobStates::new(job, operation, Layout::Seckill, Interner::default(), &RealSystem::shared());
    for index in 0..activities {
        let number = states.number(&index.to_string());
        states.set_epoch(number, "1");
    }
    let target = Target::new("redis://127.0.0.1:1", "the URL", Duration::from_secs(1)).unwrap();
    JobOrders {
        states,
        encoder: Encoder::new(operation, Kind::Hash, ["tester", "", ""], ["j", "d"], false),
        has_rows: false,
        most_orders: MOST,
        can_share: true,
        window: Window::new(false, false),
        queues: Vec::new(),
        schedule: Schedule::new(),
        popped: 0,
        held_up: HashSet::new(),
        shorts: VecDeque::new(),
        multi: MultiSchedule::default(),
        store: Store::new(target, Layout::Seckill, String::new()),
    }
}

/// Pushes so many orders, each of the next of these activities.
fn push(orders: &mut JobOrders, lines: Range<u64>, activities: &[u32]) {
    for (line, index) in lines.zip(activities.iter().cycle()) {
        orders.push(*index, (line, 1), ["7", "", ""]);
    }
}

/// Activity and number of orders of each batch of the next calls.
fn calls(orders: &mut JobOrders) -> Vec<Vec<(u32, usize)>> {
    let calls = std::iter::from_fn(|| orders.next_call(0, true));
    calls.map(|call| call.batches.iter().map(|batch| (batch.activity, batch.count)).collect()).collect()
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

#[test]
fn a_shared_call_costs_no_more_than_a_full_batch() {
    let mut orders = run(50);
    push(&mut orders, 1..301, &(0..50).collect::<Vec<_>>());
    let mut seen = Vec::new();
    while let Some(call) = orders.next_call(0, true) {
        assert!(call.weight() <= MOST && call.orders() <= MOST, "{call:?}");
        assert!(call.batches.len() > 4 || call.batches.iter().any(|batch| batch.activity == 49), "{call:?}");
        seen.extend(call.batches.iter().map(|batch| batch.activity));
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>(), "the oldest first, each once");
}

#[test]
fn a_full_batch_has_a_call_of_its_own_and_the_next_batches_share_one() {
    let mut orders = run(3);
    push(&mut orders, 1..451, &[0, 1, 2]);
    let expected = [vec![(0, 128)], vec![(1, 128)], vec![(2, 128)], vec![(0, 22), (1, 22), (2, 22)]];
    assert_eq!(calls(&mut orders), expected);
}

#[test]
fn nothing_but_full_batches_is_sent_before_more_orders_can_be_read() {
    let mut orders = run(3);
    push(&mut orders, 1..301, &[0, 1, 2]);
    assert!(orders.next_call(0, false).is_none());
}

#[test]
fn reasons_share_a_call_and_nothing_does_where_a_proxy_refuses_that() {
    let mut orders = run(3);
    // Nothing of ours is stored of activity 1, and an order of activity 2 has a reason of its own.
    orders.states.set_epoch(1, "");
    push(&mut orders, 1..7, &[0, 1, 2]);
    orders.push(2, (7, 1), ["7", "", "gift"]);
    assert_eq!(calls(&mut orders), [vec![(0, 2), (1, 2), (2, 3)]]);
    orders.restart();
    orders.can_share = false;
    push(&mut orders, 1..9, &[0, 1, 2]);
    assert_eq!(calls(&mut orders), [vec![(0, 3)], vec![(1, 3)], vec![(2, 2)]]);
}

/// Whether the call of a batch says that no user and no request id of it comes twice.
fn says_distinct(rows: &[[&str; 2]]) -> bool {
    let mut orders = run(1);
    for (line, [user, request]) in (1..).zip(rows) {
        orders.push(0, (line, 1), [user, request, ""]);
    }
    let call = orders.next_call(0, true).unwrap();
    let mut out = Vec::new();
    orders.encoder.encode(&mut out, &call.batches, &orders.states, &orders.window);
    let text = String::from_utf8(out).unwrap();
    // ARGV[16] comes behind `EVALSHA`, the script, the number of keys, and five keys.
    assert_eq!(text.starts_with("*24\r\n"), text.ends_with("$1\r\n1\r\n"), "{text}");
    text.starts_with("*24\r\n")
}

#[test]
fn a_batch_says_if_no_user_and_no_request_id_comes_twice() {
    assert!(says_distinct(&[["7", "r1"], ["8", "r2"]]));
    assert!(says_distinct(&[["7", ""], ["8", ""]]));
    assert!(!says_distinct(&[["7", ""], ["7", ""]]));
    assert!(!says_distinct(&[["7", "r1"], ["8", "r2"], ["9", "r1"]]));
}

#[test]
fn each_batch_of_a_shared_call_has_its_own_reply() {
    let mut orders = run(3);
    push(&mut orders, 1..7, &[0, 1, 2]);
    let shared = orders.next_call(0, true).unwrap();
    // A full batch of activity 1 follows while that call is in flight.
    push(&mut orders, 7..135, &[1]);
    let full = orders.next_call(0, true).unwrap();
    assert_eq!((shared.batches.len(), full.orders()), (3, 128));
    let gap = || Value::Array(vec![Value::Int(-20), Value::Int(0)]);
    let paused = Value::Array(vec![Value::Int(-7), Value::Int(9), Value::Int(0)]);
    // Activity 1 lost a line before these, so that they wait again; the others are decided.
    orders.states.get_mut(1).watermark = 1;
    let verdicts = orders.reply(shared, Value::Array(vec![text("oo 9 0"), gap(), paused])).unwrap();
    let [Verdict::Decided(_), Verdict::Rewind { index: 1, line: 0 }, Verdict::Decided(_)] = verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(orders.states.get(0).watermark, 4);
    assert_eq!(orders.states.get(2).refusal, Some(Status::Paused));
    // The full batch found a gap, which is no fault of the server.
    let verdicts = orders.reply(full, gap()).unwrap();
    assert!(matches!(verdicts[..], [Verdict::Retry(None)]), "{verdicts:?}");
    let call = orders.next_call(0, true).unwrap();
    let [batch] = call.batches[..] else { panic!("{call:?}") };
    assert_eq!((batch.activity, batch.first, batch.before, batch.count), (1, 1, 0, 128));
    // The same again, with nothing before it that waits: the server has lost something.
    let verdicts = orders.reply(call, gap()).unwrap();
    assert!(matches!(verdicts[..], [Verdict::Retry(Some(_))]), "{verdicts:?}");
}

#[test]
fn a_shared_call_has_as_many_replies_as_batches() {
    for replies in [vec![text("oo 9 0")], vec![text("oo 9 0"), text("o 9 0")], vec![text("oo 9 0"), text("oz 9 0")]] {
        let mut orders = run(2);
        push(&mut orders, 1..5, &[0, 1]);
        let call = orders.next_call(0, true).unwrap();
        assert!(orders.reply(call, Value::Array(replies)).is_err());
    }
}

#[test]
fn after_a_shared_call_is_refused_each_activity_has_its_own() {
    let refused = |text: &str| redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    let meaning = |text: &str| {
        let Value::ServerError(error) = refused(text) else { panic!("no error: {text}") };
        StoreError::of_reply(&error.into(), "fake")
    };
    let proxy =
        "ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array";
    let mut orders = run(2);
    push(&mut orders, 1..5, &[0, 1]);
    let call = orders.next_call(0, true).unwrap();
    for (text, is_handled) in [
        (proxy, true),
        ("CROSSSLOT Keys in request don't hash to the same slot", true),
        ("ERR user_script:9: something script: f_1, on @user_script:9.", false),
        ("OOM command not allowed when used memory > 'maxmemory'.", false),
        ("NOPERM this user has no permissions to run the 'evalsha' command", false),
        ("USAGE deduct: something", false),
        ("MOVED 1 127.0.0.1:7001", false),
    ] {
        assert_eq!(call.handles(&meaning(text)), is_handled, "{text}");
    }
    let verdicts = orders.reply(call, refused(proxy)).unwrap();
    assert!(matches!(verdicts[..], [Verdict::Retry(None)]), "{verdicts:?}");
    let call = orders.next_call(0, true).unwrap();
    assert_eq!((call.batches.len(), call.orders(), call.weight()), (1, 2, 2));
    assert!(!call.handles(&meaning(proxy)), "nothing is left to try");
}

/// A call of multi-orders of these activities, one unit of each, with lines from 1 on.
fn multi_call(orders: &mut JobOrders, activities: &[&[u32]]) -> OrderCall {
    for (line, of_order) in (1..).zip(activities) {
        let items: Vec<(u32, u32)> = of_order.iter().map(|index| (*index, 1)).collect();
        orders.push_multi(line, &items, ["7", "", ""]);
    }
    assert!(orders.wants_to_send(0, true, |_| false));
    orders.next_call(0, true).unwrap()
}

/// Activity, first row, number of rows and line before of each batch.
fn batches(call: &OrderCall) -> Vec<(u32, u64, usize, u64)> {
    call.batches.iter().map(|batch| (batch.activity, batch.first, batch.count, batch.before)).collect()
}

#[test]
fn behind_an_order_that_is_refused_unsent_those_in_flight_stay_as_they_are() {
    let mut orders = run_of(Operation::MultiDeduct, 2);
    orders.states.get_mut(0).refusal = Some(Status::Paused);
    for (line, index) in [(1, 0), (2, 1), (3, 1)] {
        orders.push_multi(line, &[(index, 1)], ["7", "", ""]);
    }
    orders.window.row_mut(1).state = State::Sent;
    orders.multi.waiting -= 1;
    assert!(orders.wants_to_send(0, true, |_| false));
    let call = orders.next_call(0, true).unwrap();
    assert_eq!((call.rows.clone(), call.orders(), orders.multi.waiting, orders.multi.next), (2..3, 1, 0, 3));
    let rows = [0, 1, 2].map(|number| orders.window.row(number).state);
    assert_eq!(rows, [State::Decided(Status::Paused), State::Sent, State::Sent]);
}

#[test]
fn a_call_of_multi_orders_names_the_line_before_it_in_each_activity() {
    let mut orders = run_of(Operation::MultiDeduct, 3);
    let first = multi_call(&mut orders, &[&[0, 1], &[1]]);
    assert_eq!(batches(&first), [(0, 0, 1, 0), (1, 1, 2, 0)]);
    assert_eq!((first.orders(), first.weight()), (2, 8));
    // Another one follows while that is in flight, and comes back behind it.
    orders.push_multi(3, &[(1, 1), (2, 1)], ["7", "", ""]);
    assert!(orders.wants_to_send(0, true, |index| first.names(index)));
    let second = orders.next_call(0, true).unwrap();
    assert_eq!(batches(&second), [(1, 3, 1, 2), (2, 4, 1, 0)]);
    orders.put_back(first);
    orders.put_back(second);
    assert!(orders.wants_to_send(0, true, |_| false));
    let again = orders.next_call(0, true).unwrap();
    assert_eq!(batches(&again), [(0, 0, 1, 0), (1, 1, 3, 0), (2, 4, 1, 0)]);
    // The second one is refused: one of its items could not be had, and another activity takes part in no sale now.
    let part = |text: &str| Value::SimpleString(text.to_owned());
    let paused = Value::Array(vec![part("p - 0"), Value::Int(-7), Value::Boolean(false), Value::Boolean(false)]);
    let replies = Value::Array(vec![part("o 9 0"), part("osd 1 1"), paused]);
    let verdicts = orders.reply(again, replies).unwrap();
    assert!(matches!(&verdicts[..], [Verdict::Decided(corrupt)] if corrupt.is_empty()), "{verdicts:?}");
    assert_eq!([0, 1, 2].map(|index| orders.states.get(index).watermark), [1, 3, 0]);
    assert_eq!([0, 1, 2].map(|index| orders.states.get(index).refused_now), [0, 1, 0]);
    assert_eq!(orders.states.get(2).refusal, Some(Status::Paused));
}
