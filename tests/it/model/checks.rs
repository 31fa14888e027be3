//! Does a step for real, and holds the keys against what the rules say they must be.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::Step;
use super::holds;
use super::rules::{Activity, Sale, UNKNOWN};
use crate::support::backend::{buy_hash, buy_product, buy_sku, claim_coupon};
use crate::support::layout::json_call;
use crate::support::{Layout, Scripts, TestRedis};

fn user(number: usize) -> String {
    format!("u{number}")
}

fn request(number: usize) -> String {
    if number == 0 { String::new() } else { format!("r{number}") }
}

fn quantity(units: u64) -> String {
    if units == 0 { "all".to_owned() } else { units.to_string() }
}

fn mode(retry: bool) -> &'static str {
    if retry { "retry" } else { "first" }
}

fn script(refund: bool) -> &'static str {
    if refund { "refund" } else { "deduct" }
}

/// By EVALSHA: the reply as one line.
pub fn by_script(redis: &TestRedis, scripts: &mut Scripts, step: &Step) -> String {
    match step {
        Step::Preheat { mode, activity, total, limit, ledger } => {
            let limit = limit.map(|limit| if limit == 0 { String::new() } else { limit.to_string() });
            let mut fields = vec![("ledger", if *ledger { "1" } else { "0" })];
            fields.extend(limit.as_deref().map(|limit| ("per_user_limit", limit)));
            let reply = scripts.preheat_as(mode, &activity.to_string(), &total.to_string(), &fields);
            reply.split(' ').take(2).collect::<Vec<_>>().join(" ")
        }
        Step::Pause { activity, paused, withdraw } => {
            let keys = scripts.layout.keys(&activity.to_string());
            let (state, withdraw) = (if *paused { "paused" } else { "live" }, if *withdraw { "1" } else { "0" });
            let reply = scripts.call("pause", &keys, &[state, "tester", "", "0", withdraw]);
            reply.trim_end_matches(" nil").to_owned()
        }
        Step::One { refund, retry, activity, order } => {
            let (user, units, request) = (user(order.user), quantity(order.quantity), request(order.request));
            scripts.orders(script(*refund), mode(*retry), &activity.to_string(), &[(&user, &units, &request)])
        }
        Step::Orders { refund, activity, orders } => {
            let texts: Vec<[String; 3]> =
                orders.iter().map(|it| [user(it.user), quantity(it.quantity), request(it.request)]).collect();
            let orders: Vec<_> = texts.iter().map(|[user, units, request]| (&**user, &**units, &**request)).collect();
            scripts.orders(script(*refund), "first", &activity.to_string(), &orders)
        }
        Step::Multi { retry, user: buyer, request: id, items } => {
            let texts: Vec<(String, String)> =
                items.iter().map(|(activity, units)| (activity.to_string(), units.to_string())).collect();
            let items: Vec<_> = texts.iter().map(|(activity, units)| (&**activity, &**units)).collect();
            scripts.multi_deduct(mode(*retry), &user(*buyer), &request(*id), &items)
        }
        Step::Hold { retry, activity, order } => {
            let (user, units, request) = (user(order.user), quantity(order.quantity), request(order.request));
            let keys = scripts.layout.all_keys(&activity.to_string());
            let args = [scripts.layout.kind, "tester", &user, &units, &request, mode(*retry), "", "3600000"];
            let reply = scripts.call("hold", &keys, &args);
            // It is the clock's.
            match reply.rsplit_once(' ') {
                Some((rest, deadline)) if deadline.len() > 12 => format!("{rest} DEADLINE"),
                _ => reply,
            }
        }
        Step::Settle { confirms, activity, request: id } => {
            let keys = scripts.layout.all_keys(&activity.to_string());
            let reply =
                scripts.call("settle", &keys, &[scripts.layout.kind, "tester", &request(*id), step_name(*confirms)]);
            if reply.starts_with("-11 ") { "-11".to_owned() } else { reply }
        }
        Step::Expire { activity } => {
            let keys = scripts.layout.all_keys(&activity.to_string());
            scripts.call("settle", &keys, &[scripts.layout.kind, "tester", "500", "expire"])
        }
        Step::Lapse { activity, request } => lapse(redis, scripts.layout, *activity, *request),
        Step::Plain { activity, user: buyer, quantity } => {
            let sold = backend_sells(redis, scripts.layout, &activity.to_string(), &user(*buyer), *quantity);
            if sold { "sold".to_owned() } else { "not sold".to_owned() }
        }
    }
}

fn step_name(confirms: bool) -> &'static str {
    if confirms { "confirm" } else { "release" }
}

/// As if the time had passed: in the order of the ids, which the rules have too.
fn lapse(redis: &TestRedis, layout: Layout, activity: usize, id: usize) -> String {
    redis.cmd(("ZADD", layout.deadlines(&activity.to_string()), "XX", id, request(id)));
    "1".to_owned()
}

/// Whether a backend's plain script sells so many.
fn backend_sells(redis: &TestRedis, layout: Layout, activity: &str, user: &str, quantity: u64) -> bool {
    if !redis.exists(&layout.stock(activity)) {
        return false; // some of these scripts crash
    }
    let quantity = i64::try_from(quantity).unwrap();
    match layout.name {
        "seckill" => buy_hash(redis, activity, user, quantity, 100).0 == 1,
        "sku" => buy_sku(redis, activity, user, quantity) >= 0,
        "coupon" => claim_coupon(redis, activity, user) == 1,
        _ => buy_product(redis, activity, quantity) == 1,
    }
}

/// Through the binary: the status in its words.
pub fn by_binary(redis: &TestRedis, layout: Layout, step: &Step) -> String {
    let with_request = |line: String, id: usize| if id == 0 { line } else { format!("{line} --request r{id}") };
    let line = match step {
        Step::Preheat { mode, activity, total, limit, ledger } => {
            let limit = limit.map(|limit| if limit == 0 { "null".to_owned() } else { limit.to_string() });
            let limit = limit.map(|limit| format!(", per_user_limit: {limit}")).unwrap_or_default();
            let fixture = format!(
                "layout: {}\nactivities: [{{id: {activity}, stock: {total}, ledger: {ledger}{limit}}}]\n",
                layout.name
            );
            let flag: &[&str] = match *mode {
                "update" => &["--update"],
                "reset" => &["--reset", "--yes"],
                _ => &[],
            };
            let rows = redis.seckill(["preheat", "-", "-o", "json"]).args(flag).stdin(&fixture).run().json();
            return status(&rows[0]);
        }
        Step::Pause { activity, paused, withdraw } => {
            let withdraw = if *withdraw { " --withdraw-stock" } else { "" };
            format!("{} {activity}{withdraw}", if *paused { "pause" } else { "resume" })
        }
        Step::One { refund, activity, order, .. } => {
            let units = if order.quantity == 0 { "--all".to_owned() } else { format!("--quantity {}", order.quantity) };
            with_request(format!("{} {activity} --user {} {units}", script(*refund), user(order.user)), order.request)
        }
        Step::Multi { user: buyer, request: id, items, .. } => {
            let items: Vec<String> = items.iter().map(|(activity, units)| format!("{activity}={units}")).collect();
            with_request(format!("multi-deduct --user {} {}", user(*buyer), items.join(" ")), *id)
        }
        Step::Hold { activity, order, .. } => {
            let line = format!("hold {activity} --user {} --quantity {} --for 1h", user(order.user), order.quantity);
            with_request(line, order.request)
        }
        Step::Settle { confirms, activity, request: id } => {
            format!("{} {activity} --request {}", step_name(*confirms), request(*id))
        }
        Step::Expire { activity } => {
            let rows = json_call(redis, layout, &format!("expire {activity}")).run().json();
            // A row is of what expired or could not.
            return if rows == Value::Array(Vec::new()) { "ok".to_owned() } else { status(&rows[0]) };
        }
        Step::Lapse { activity, request } => {
            lapse(redis, layout, *activity, *request);
            return "ok".to_owned();
        }
        Step::Orders { .. } | Step::Plain { .. } => unreachable!("{step:?} is not for the binary"),
    };
    let value = json_call(redis, layout, &line).run().json();
    status(if value.is_array() { &value[0] } else { &value })
}

fn status(row: &Value) -> String {
    row["status"].as_str().unwrap_or("none").to_owned()
}

/// The word for the status that a script's reply begins with.
pub fn status_of(step: &Step, reply: &str) -> String {
    let word = match reply.split(' ').next().unwrap() {
        "1" => "ok",
        "2" => "replayed",
        "-1" => "refused",
        "-2" => "limit_exceeded",
        "-3" => "out_of_stock",
        "-4" => "not_preheated",
        "-7" => "paused",
        "-8" => "exceeds_bought",
        "-9" => "request_conflict",
        "-10" => "exists",
        "-11" => "corrupt",
        "-12" => "not_held",
        "-13" => "expired",
        "-14" => "confirmed",
        "-16" => "reversed",
        "-17" => "paused_here_only",
        other => panic!("{other} of {step:?}"),
    };
    word.to_owned()
}

/// The first key that is not what the rules say.
pub fn keys_differ(redis: &TestRedis, sale: &Sale) -> Option<String> {
    sale.activities.iter().enumerate().find_map(|(id, it)| differs(redis, sale.layout, &id.to_string(), it))
}

fn differs(redis: &TestRedis, layout: Layout, id: &str, it: &Activity) -> Option<String> {
    let check = |what: &str, found: String, expected: String| {
        (found != expected).then(|| format!("{what} of {id}: {found}, expected {expected}"))
    };
    let stock = it.meta.map(|_| (it.stock - it.withdrawn.unwrap_or(0)).to_string());
    let mut fields = BTreeMap::new();
    if let Some(meta) = it.meta {
        for (field, value) in
            [("total", meta.total), ("epoch", meta.epoch), ("repairs", 0), ("ledger", meta.ledger.into())]
        {
            fields.insert(field.to_owned(), value.to_string());
        }
        fields.insert("state".to_owned(), if meta.paused { "paused" } else { "live" }.to_owned());
        fields.extend(meta.limit.map(|limit| ("per_user_limit".to_owned(), limit.to_string())));
        fields.extend(it.withdrawn.map(|units| ("withdrawn".to_owned(), units.to_string())));
    }
    let held: BTreeMap<String, u64> = it.held.iter().map(|(number, units)| (user(*number), *units)).collect();
    let requests: Vec<String> = it.requests.keys().map(|number| request(*number)).collect();
    let found_requests: Vec<String> =
        redis.hgetall(&layout.requests(id)).into_keys().filter(|it| !it.starts_with('\t')).collect();
    let ops: Vec<String> = redis.xrange(&layout.ledger(id)).iter().map(|(_, entry)| entry["op"].clone()).collect();
    check("stock", format!("{:?}", redis.get(&layout.stock(id))), format!("{stock:?}"))
        .or_else(|| check("meta", format!("{:?}", meta_without_holds(redis, layout, id)), format!("{fields:?}")))
        .or_else(|| check("participants", format!("{:?}", participants(redis, layout, id)), format!("{held:?}")))
        .or_else(|| check("requests", format!("{:?}", uuidless(found_requests)), format!("{requests:?}")))
        .or_else(|| check("ledger", format!("{ops:?}"), format!("{:?}", it.ledger)))
        .or_else(|| {
            let (stored, expected) = holds::stored_and_expected(redis, layout, id, &it.holds);
            check("holds", stored, expected)
        })
        .or_else(|| folded(redis, layout, id, it))
}

fn meta_without_holds(redis: &TestRedis, layout: Layout, id: &str) -> BTreeMap<String, String> {
    let mut meta = redis.meta(&layout.meta(id));
    meta.remove("holds");
    meta
}

/// Request ids that the tool made up are left out: 36 characters, where ours have two.
fn uuidless(requests: Vec<String>) -> Vec<String> {
    requests.into_iter().filter(|request| request.len() < 10).collect()
}

fn participants(redis: &TestRedis, layout: Layout, id: &str) -> BTreeMap<String, u64> {
    let number = |text: String| text.parse().unwrap();
    match layout.kind {
        "hash" => {
            redis.hgetall(&layout.participants(id)).into_iter().map(|(user, units)| (user, number(units))).collect()
        }
        "counter" => BTreeMap::new(),
        _ => {
            let units = if layout.kind == "set" { redis.hgetall(&layout.key(6, id)) } else { BTreeMap::new() };
            let members = redis.smembers(&layout.participants(id));
            assert!(units.keys().all(|user| members.contains(user)), "units of no member: {units:?}");
            members
                .into_iter()
                .map(|user| {
                    let alone = if layout.kind == "set" { UNKNOWN } else { 1 };
                    let held = units.get(&user).map_or(alone, |text| number(text.clone()));
                    (user, held)
                })
                .collect()
        }
    }
}

/// Folds the ledger: it must give what everyone holds, and the stock.
fn folded(redis: &TestRedis, layout: Layout, id: &str, it: &Activity) -> Option<String> {
    it.meta.filter(|meta| meta.ledger && !it.is_plainly_sold)?;
    let (mut total, mut held) = (0, BTreeMap::<String, i64>::new());
    for (_, entry) in redis.xrange(&layout.ledger(id)) {
        if let Some(text) = entry.get("total") {
            total = text.parse::<i64>().unwrap();
        }
        let sign = match &*entry["op"] {
            "refund" | "release" | "expire" => -1,
            "confirm" => 0,
            _ => 1,
        };
        for order in crate::support::ledger::orders(&entry) {
            *held.entry(order[0].clone()).or_default() += sign * order[1].parse::<i64>().unwrap();
        }
    }
    let sold: i64 = held.values().sum();
    if total - sold != i64::try_from(it.stock).unwrap() {
        return Some(format!("ledger of {id}: gives stock {}, expected {}", total - sold, it.stock));
    }
    held.retain(|_, units| *units != 0);
    let expected: BTreeMap<String, i64> =
        it.held.iter().map(|(number, units)| (user(*number), i64::try_from(*units).unwrap())).collect();
    (layout.has_users() && held != expected).then(|| format!("ledger of {id}: gives {held:?}, expected {expected:?}"))
}
