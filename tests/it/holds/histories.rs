//! The scripts do what `model/` says: short histories out of all interleavings, cuts included, run on a server, and each reply
//! and all keys are compared after each step.

use std::collections::{BTreeMap, BTreeSet};

use super::LONG;
use super::cut::cut_call;
use super::interleavings::{self, HASH, SET, two_of};
use super::model::rules::{Call, Decided, Status, Step, finished};
use super::model::search::{Event, Happened, Search};
use super::model::state::{Entry, Record, State};
use super::model::{Flaw, Kind, Sale, numbers};
use crate::support::{COUPON, Layout, SECKILL, SKU, Scripts, TestRedis};

/// How many histories of each search are run.
const SAMPLE: usize = 25;

/// A score that is long ago, and one that is far away.
const PAST: usize = 1;
const FAR: &str = "9000000000000";

fn sale_of(layout: Layout) -> Sale {
    match layout.kind {
        "hash" => HASH,
        "set" => SET,
        _ => interleavings::COUPON,
    }
}

/// A user who bought one unit, and the request id of that.
const BYSTANDER: &str = "bystander";

fn user(nth: usize) -> String {
    format!("u{nth}")
}

fn request(hold: usize) -> String {
    format!("r{hold}")
}

#[test]
fn scripts_reply_and_write_what_the_model_says() {
    // One of each kind.
    for layout in [SECKILL, SKU, COUPON] {
        let redis = TestRedis::start();
        let mut scripts = Scripts::of(&redis, layout);
        let sale = sale_of(layout);
        let mut events = BTreeSet::new();
        for (sale, cuts) in [(sale, 0), (two_of(sale), 1)] {
            let search = Search { sale, flaw: Flaw::None, cuts, of: 0 };
            let found = search.run().unwrap();
            for nth in (0..SAMPLE).map(|nth| (nth + 1) * (found.states.len() - 1) / SAMPLE) {
                let mut history = found.history(nth);
                // Then any other event, most of which change nothing.
                let next = search.events(&found.states[nth].0);
                history.push((next[nth % next.len()], None));
                replay(&redis, &mut scripts, &search, &history);
                events.extend(history.iter().map(|(event, cut)| format!("{event:?} {}", cut.is_some())));
            }
        }
        assert!(events.len() >= 25, "{}: {events:?}", layout.name);
    }
}

/// Runs a history on a server.
fn replay(redis: &TestRedis, scripts: &mut Scripts, search: &Search, history: &[Happened]) {
    let (sale, layout) = (&search.sale, scripts.layout);
    let limit = sale.limit.to_string();
    let fields = [("per_user_limit", &*limit)];
    let fields = if sale.kind == Kind::Hash { &fields[..] } else { &[] };
    let reply = scripts.preheat_as("reset", "1", &(sale.total + 1).to_string(), fields);
    assert!(reply.starts_with("1 "), "{reply}");
    // Somebody else has bought, whom the model does not know: what it means that nobody is recorded, the simulator tries.
    assert!(scripts.deduct("1", (BYSTANDER, "1", BYSTANDER)).starts_with("1 "));
    let mut state = State::new(sale);
    for (nth, happened) in history.iter().enumerate() {
        let (event, cut) = *happened;
        let context = || format!("{}: {:?}\nof {:#?}", layout.name, happened, &history[..=nth]);
        if let Event::Overdue(hold) = event {
            redis.cmd(("ZADD", layout.deadlines("1"), "XX", PAST + hold, request(hold)));
        }
        let next = search.after(&state, *happened).unwrap_or_else(|rule| panic!("{rule}: {}", context()));
        if let Some(call) = search.call(event) {
            let decided = search.decide(&state, call);
            let (name, args) = arguments(layout, sale, call);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let keys = layout.all_keys("1");
            if let Some(writes) = cut {
                let reply = scripts.eval(&cut_call(name, layout, &args, writes), &keys, &args);
                assert!(reply.contains("CUT"), "{reply}, and more writes were expected: {}", context());
            } else {
                let reply = scripts.call(name, &keys, &args);
                let expected = expected(sale, &finished(sale, &state, Flaw::None), &next, call, &decided);
                assert!(fits(&reply, &expected), "{reply}\nexpected {expected}\n{}", context());
            }
            for hold in numbers(decided.left) {
                // Five seconds from now are not far enough for a slow machine.
                redis.cmd(("ZADD", layout.deadlines("1"), "XX", FAR, request(hold)));
            }
        }
        state = next;
        let (stored, expected) = (stored(redis, layout, &state), keys_of(sale, &state));
        assert_eq!(stored, expected, "{}", context());
    }
}

/// The script and its arguments.
fn arguments(layout: Layout, sale: &Sale, call: Call) -> (&'static str, Vec<String>) {
    let column = |holds: u8, of: &dyn Fn(usize) -> String| {
        serde_json::to_string(&numbers(holds).map(of).collect::<Vec<_>>()).unwrap()
    };
    let quantity = |hold: usize| sale.quantity(hold).to_string();
    let start = [layout.kind, "tester"];
    let args: Vec<String> = match call {
        Call::Hold { is_retry, holds } => {
            let mode = if is_retry { "retry" } else { "first" };
            if holds.is_power_of_two() {
                let hold = holds.trailing_zeros() as usize;
                let (user, id, units) = (user(sale.user(hold)), request(hold), quantity(hold));
                [&start[..], &[&user, &units, &id, mode, "", LONG]].concat().into_iter().map(str::to_owned).collect()
            } else {
                let (users, units) = (column(holds, &|hold| user(sale.user(hold))), column(holds, &quantity));
                let ids = column(holds, &request);
                let rest = ["", "", "", "", "", &ids, "", "", "", LONG, mode];
                [&start[..], &[&users, &units], &rest].concat().into_iter().map(str::to_owned).collect()
            }
        }
        Call::Settle { step, holds } => {
            let step = match step {
                Step::Confirm => "confirm",
                Step::Release => "release",
                Step::Abort => "abort",
            };
            if holds.is_power_of_two() {
                let id = request(holds.trailing_zeros() as usize);
                [&start[..], &[&id, step]].concat().into_iter().map(str::to_owned).collect()
            } else {
                let ids = column(holds, &request);
                let rest = [&*ids, step, "", "", "", "", "", "", "1"];
                [&start[..], &rest].concat().into_iter().map(str::to_owned).collect()
            }
        }
        Call::Expire { most } => {
            [&start[..], &[&most.to_string(), "expire"]].concat().into_iter().map(str::to_owned).collect()
        }
    };
    (if matches!(call, Call::Hold { .. }) { "hold" } else { "settle" }, args)
}

fn code(status: Status) -> i32 {
    match status {
        Status::Ok | Status::OkAgain => 1,
        Status::Replayed => 2,
        Status::LimitExceeded => -2,
        Status::OutOfStock => -3,
        Status::RequestConflict => -9,
        Status::Corrupt => -11,
        Status::NotHeld => -12,
        Status::Expired => -13,
        Status::Confirmed => -14,
    }
}

fn letter(status: Status) -> char {
    match status {
        Status::Ok => 'o',
        Status::OkAgain => 'O',
        Status::Replayed => 'r',
        Status::LimitExceeded => 'l',
        Status::OutOfStock => 's',
        Status::RequestConflict => 'q',
        Status::Corrupt => 'c',
        Status::NotHeld => 'h',
        Status::Expired => 'v',
        Status::Confirmed => 'f',
    }
}

/// What a call replies, with `*` for a deadline (of many orders in a list), and `...` for the rest.
fn expected(sale: &Sale, before: &State, after: &State, call: Call, decided: &Decided) -> String {
    let holds = match call {
        Call::Expire { .. } => {
            let units: u8 = numbers(decided.expired).map(|hold| sale.quantity(hold)).sum();
            let left: String = numbers(decided.left).map(|hold| format!(" {} nil", request(hold))).collect();
            let (count, more) = (decided.expired.count_ones(), u8::from(decided.more));
            return format!("1 {} {count} {units} {more}{left}", after.stock);
        }
        Call::Hold { holds, .. } | Call::Settle { holds, .. } => holds,
    };
    let refused = decided.statuses.iter().filter(|status| code(**status) < 0).count();
    let letters: String = decided.statuses.iter().copied().map(letter).collect();
    let had = |hold: usize| after.had(sale.kind, sale.user(hold));
    match call {
        _ if decided.statuses.iter().all(|status| *status == Status::Corrupt)
            && (holds.is_power_of_two() || matches!(call, Call::Hold { .. })) =>
        {
            "-11 nil nil ...".to_owned()
        }
        Call::Hold { .. } if holds.is_power_of_two() => {
            let hold = holds.trailing_zeros() as usize;
            let status = decided.statuses[0];
            let deadline = if matches!(status, Status::Ok | Status::Replayed) { "*" } else { "nil" };
            format!("{} {} {} {deadline}", code(status), after.stock, had(hold))
        }
        Call::Hold { .. } => {
            // The stock before what this call takes, and after what it expired to begin with.
            let taken: u8 = numbers(holds)
                .zip(&decided.statuses)
                .filter(|(_, status)| **status == Status::Ok)
                .map(|(hold, _)| sale.quantity(hold))
                .sum();
            let has_hold = |status: &Status| matches!(status, Status::Ok | Status::Replayed);
            let deadlines: Vec<&str> =
                decided.statuses.iter().map(|status| if has_hold(status) { "*" } else { "0" }).collect();
            format!("{letters} {} {refused} {} ...", after.stock + taken, deadlines.join(","))
        }
        Call::Settle { .. } if holds.is_power_of_two() => {
            let hold = holds.trailing_zeros() as usize;
            let known = match after.records[hold] {
                Record::Tombstone if before.records[hold] == Record::Tombstone => "0 0 ".to_owned(),
                Record::Absent | Record::OverLimit | Record::SoldOut | Record::Tombstone => "nil nil nil".to_owned(),
                _ => format!("{} {} {}", had(hold), sale.quantity(hold), user(sale.user(hold))),
            };
            format!("{} {} {known}", code(decided.statuses[0]), after.stock)
        }
        _ => format!("{letters} {} {refused} ...", before.stock),
    }
}

/// Whether a reply is what was expected.
fn fits(reply: &str, expected: &str) -> bool {
    let (mut words, mut wanted) = (reply.split(' '), expected.split(' '));
    loop {
        match (words.next(), wanted.next()) {
            (None, None) | (_, Some("...")) => return true,
            (Some(word), Some(wanted)) if fits_word(word, wanted) => {}
            _ => return false,
        }
    }
}

/// Whether a word is what was expected: one of a list is each of it.
fn fits_word(word: &str, wanted: &str) -> bool {
    let is = |part: &str, wanted: &str| match wanted {
        "*" => part.len() > 12 && part.parse::<u64>().is_ok(),
        _ => part == wanted,
    };
    let (parts, wanted): (Vec<&str>, Vec<&str>) = (word.split(',').collect(), wanted.split(',').collect());
    match parts[..] {
        [one] => wanted.iter().all(|wanted| is(one, wanted)),
        _ => parts.len() == wanted.len() && parts.iter().zip(wanted).all(|(part, wanted)| is(part, wanted)),
    }
}

/// What is stored, by names: numbers that are zero or absent are left out.
type Stored = BTreeMap<String, String>;

/// What the model says is stored.
fn keys_of(sale: &Sale, state: &State) -> Stored {
    let mut stored = Stored::new();
    let mut put = |name: String, text: String| drop((text != "0").then(|| stored.insert(name, text)));
    put("stock".to_owned(), state.stock.to_string());
    put("holds".to_owned(), state.holds.to_string());
    if let Some(begun) = state.begun {
        let text = begun.stock.map_or("begun".to_owned(), |stock| format!("stock {stock} {}", begun.units));
        put("begun".to_owned(), text);
    }
    for nth in 0..3 {
        let name = user(nth);
        put(format!("units of {name}"), state.units[nth].to_string());
        put(format!("open of {name}"), state.open[nth].to_string());
        put(format!("member {name}"), (state.members >> nth & 1).to_string());
    }
    for hold in 0..sale.holds.len() {
        let (id, record, user, quantity) =
            (request(hold), state.records[hold], user(sale.user(hold)), sale.quantity(hold));
        let digest = format!("hold {quantity}\t{user}");
        let word = match record {
            Record::Absent => "",
            Record::OverLimit => "-2",
            Record::SoldOut => "-3",
            Record::Held => "held",
            Record::Confirmed => "confirmed",
            Record::Released => "released",
            Record::Expired => "expired",
            Record::Void | Record::Tombstone => "void",
        };
        match record {
            Record::Absent => {}
            Record::OverLimit | Record::SoldOut => put(id.clone(), format!("{word}\t{digest}")),
            Record::Tombstone => {
                put(id.clone(), "void\t".to_owned());
                put(format!("record of {id}"), "void 0 - ".to_owned());
            }
            _ => {
                put(id.clone(), digest);
                put(format!("record of {id}"), format!("{word} {quantity} - {user}"));
            }
        }
        let bit = 1 << hold;
        let deadline = if state.overdue & bit > 0 { "past" } else { "open" };
        put(format!("deadline of {id}"), if state.deadlines & bit > 0 { deadline.to_owned() } else { "0".to_owned() });
        // After a cut the model does not know what the ledger has.
        if state.cuts == 0 {
            let ops = [
                (Entry::Hold, "hold"),
                (Entry::Expire, "expire"),
                (Entry::Deduct, "deduct"),
                (Entry::Confirm, "confirm"),
                (Entry::Release, "release"),
            ];
            let ops: Vec<&str> =
                ops.iter().filter(|(op, _)| state.ledger[hold] & op.bit() > 0).map(|(_, name)| *name).collect();
            put(format!("ledger of {id}"), if ops.is_empty() { "0".to_owned() } else { ops.join(" ") });
        }
    }
    stored
}

/// What a server has stored.
fn stored(redis: &TestRedis, layout: Layout, state: &State) -> Stored {
    let mut stored = Stored::new();
    let mut put = |name: String, text: String| {
        drop((text != "0" && !name.contains(BYSTANDER)).then(|| stored.insert(name, text)));
    };
    put("stock".to_owned(), redis.int(&layout.stock("1")).to_string());
    put("holds".to_owned(), redis.hget(&layout.meta("1"), "holds").unwrap_or_else(|| "0".to_owned()));
    for (field, text) in redis.hgetall(&layout.requests("1")) {
        if let Some(user) = field.strip_prefix("\to:") {
            put(format!("open of {user}"), text);
        } else if let Some(id) = field.strip_prefix("\th:") {
            // Without the deadline, which is the clock's.
            let words: Vec<&str> = text.splitn(5, ' ').collect();
            put(format!("record of {id}"), format!("{} {} {} {}", words[0], words[1], words[3], words[4]));
        } else if field == "\tbegun" {
            let is_stock = text.starts_with("stock ");
            let words = if is_stock { 3 } else { 1 };
            put("begun".to_owned(), text.split(' ').take(words).collect::<Vec<_>>().join(" "));
        } else {
            put(field, text);
        }
    }
    if layout.kind != "coupon" {
        let key = if layout.kind == "hash" { layout.participants("1") } else { layout.key(6, "1") };
        redis.hgetall(&key).into_iter().for_each(|(user, units)| put(format!("units of {user}"), units));
    }
    if layout.kind != "hash" {
        redis
            .smembers(&layout.participants("1"))
            .into_iter()
            .for_each(|user| put(format!("member {user}"), "1".to_owned()));
    }
    let deadlines: Vec<(String, f64)> = redis.ask(("ZRANGE", layout.deadlines("1"), 0, -1, "WITHSCORES"));
    for (id, score) in deadlines {
        put(format!("deadline of {id}"), if score < 1000.0 { "past".to_owned() } else { "open".to_owned() });
    }
    if state.cuts == 0 {
        let mut ops: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, entry) in
            redis.xrange(&layout.ledger("1")).into_iter().filter(|(_, entry)| entry.contains_key("requests"))
        {
            for id in serde_json::from_str::<Vec<String>>(&entry["requests"]).unwrap() {
                ops.entry(id).or_default().push(entry["op"].clone());
            }
        }
        ops.into_iter().for_each(|(id, ops)| put(format!("ledger of {id}"), ops.join(" ")));
    }
    stored
}
