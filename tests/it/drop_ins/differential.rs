//! Random calls: on all that is sane a drop-in replies and writes what the plain script does, and on the rest what a few lines
//! of Rust say.
//!
//! `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose other histories, and more of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use redis::Value;

use super::{ALL, COUPON, Caller, DropIn, HM_DIANPING, SECKILL, SKU, are_equal};
use crate::model::runner;
use crate::support::TestRedis;

const USERS: [&str; 6] = ["7", "07", "a b", "王小明", "7.0", "+7"];

/// Arguments that a shop sends.
fn sane(drop_in: DropIn) -> BoxedStrategy<Vec<Vec<u8>>> {
    let user = || proptest::sample::select(&USERS[..]).prop_map(str::to_owned);
    let quantity = || (1..5_u64).prop_map(|units| units.to_string());
    let limit = (0..7_u64).prop_map(|units| units.to_string());
    let args = match drop_in.name {
        "seckill" => (user(), quantity(), limit).prop_map(|(user, units, limit)| vec![user, units, limit]).boxed(),
        "sku" => (quantity(), user()).prop_map(|(units, user)| vec![units, user]).boxed(),
        "sku-multi" => (quantity(), quantity()).prop_map(|(one, two)| vec![one, two]).boxed(),
        "coupon" => user().prop_map(|user| vec![user]).boxed(),
        "hm-dianping" => (user(), user()).prop_map(|(user, order)| vec!["1".to_owned(), user, order]).boxed(),
        _ => quantity().prop_map(|units| vec![units]).boxed(),
    };
    args.prop_map(|args| args.into_iter().map(String::into_bytes).collect()).boxed()
}

#[test]
fn on_sane_calls_a_drop_in_is_the_plain_script() {
    let (redis, other) = (TestRedis::start(), TestRedis::start());
    for drop_in in ALL {
        let history = (0..30_u64, proptest::collection::vec(sane(drop_in), 1..40));
        let (ours, plain) = (Caller::of(&redis, drop_in), Caller::plain(&other, drop_in));
        let run = |(stock, calls): (u64, Vec<Vec<Vec<u8>>>)| {
            for server in [&redis, &other] {
                server.cmd("FLUSHALL");
                drop_in.stock(server, &stock.to_string());
            }
            for args in &calls {
                let replies = (ours.call(drop_in.keys, args), plain.call(drop_in.keys, args));
                prop_assert_eq!(&replies.0, &replies.1, "{} {:?} of {:?}", drop_in.name, args, calls);
            }
            are_equal(&redis, &other);
            Ok(())
        };
        runner(30, drop_in.name).run(&history, run).unwrap();
    }
}

/// What a key of numbers holds, or the record of the users.
#[derive(Clone, Debug, PartialEq)]
enum Stock {
    Absent,
    Text(Vec<u8>),
    List,
}

#[derive(Clone, Debug, PartialEq)]
enum Record {
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    List,
}

/// The rules once more.
#[derive(Clone, Debug, PartialEq)]
struct Shop {
    stocks: Vec<Stock>,
    record: Record,
}

const MOST: u64 = 9_007_199_254_740_991;

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let number = text.parse::<u64>().ok().filter(|number| *number <= MOST)?;
    (number.to_string() == text).then_some(number)
}

fn quantity(text: &[u8]) -> Result<u64, &'static str> {
    number(text).filter(|number| (1..=1_000_000_000).contains(number)).ok_or("USAGE")
}

fn user(text: &[u8]) -> Result<&[u8], &'static str> {
    let is_good = (1..=256).contains(&text.len())
        && !text.iter().any(u8::is_ascii_control)
        && text.first() != Some(&b' ')
        && text.last() != Some(&b' ');
    is_good.then_some(text).ok_or("USAGE")
}

impl Shop {
    fn units(&self, at: usize, absent: &'static str) -> Result<u64, &'static str> {
        match &self.stocks[at] {
            Stock::Absent => Err(absent),
            Stock::Text(text) => number(text).ok_or("CORRUPT"),
            Stock::List => Err("CORRUPT"),
        }
    }

    fn take(&mut self, at: usize, units: u64) -> u64 {
        let left = self.units(at, "").unwrap() - units;
        self.stocks[at] = Stock::Text(left.to_string().into_bytes());
        left
    }

    fn is_member(&self, user: &[u8]) -> Result<bool, &'static str> {
        match &self.record {
            Record::Set(users) => Ok(users.contains(user)),
            _ => Err("CORRUPT"),
        }
    }

    fn join(&mut self, user: &[u8]) {
        if let Record::Set(users) = &mut self.record {
            users.insert(user.to_vec());
        }
    }

    /// The reply of a call, or the kind of the error; then nothing changes.
    fn apply(&mut self, drop_in: DropIn, args: &[Vec<u8>]) -> Result<String, &'static str> {
        let before = self.clone();
        let keys = drop_in.keys.len();
        if args.len() != drop_in.good.len() {
            return Err("USAGE");
        }
        let reply = match drop_in.name {
            "seckill" => {
                let (user, units, limit) = (user(&args[0])?, quantity(&args[1])?, number(&args[2]).ok_or("USAGE")?);
                let stock = self.units(0, "NOT_PREHEATED")?;
                let Record::Hash(held) = &mut self.record else { return Err("CORRUPT") };
                let had = held.get(user).map_or(Some(0), |text| number(text)).ok_or("CORRUPT")?;
                if had + units > limit {
                    return Ok("0 超过个人限购".to_owned());
                }
                if units > stock {
                    return Ok("0 库存不足".to_owned());
                }
                held.insert(user.to_vec(), (had + units).to_string().into_bytes());
                self.take(0, units);
                "1 成功".to_owned()
            }
            "sku" => {
                let (units, user) = (quantity(&args[0])?, user(&args[1])?);
                let stock = self.units(0, "NOT_PREHEATED")?;
                if self.is_member(user)? {
                    return Ok("-2".to_owned());
                }
                if units > stock {
                    return Ok("-1".to_owned());
                }
                self.join(user);
                self.take(0, units).to_string()
            }
            "sku-multi" => {
                let wanted: Vec<u64> = args.iter().map(|arg| quantity(arg)).collect::<Result<_, _>>()?;
                let stocks: Vec<u64> = (0..keys).map(|at| self.units(at, "NOT_PREHEATED")).collect::<Result<_, _>>()?;
                let short = (0..keys).filter(|at| wanted[*at] > stocks[*at]);
                let short: Vec<String> = short.map(|at| format!("{}={}", drop_in.keys[at], stocks[at])).collect();
                if !short.is_empty() {
                    return Ok(short.join(" "));
                }
                for (at, units) in wanted.into_iter().enumerate() {
                    self.take(at, units);
                }
                String::new()
            }
            "coupon" => {
                let user = user(&args[0])?;
                let (stock, has_one) = (self.units(0, "NOT_PREHEATED")?, self.is_member(user)?);
                if stock == 0 {
                    return Ok("0".to_owned());
                }
                if has_one {
                    return Ok("2".to_owned());
                }
                self.join(user);
                self.take(0, 1);
                "1".to_owned()
            }
            "hm-dianping" => {
                let (_, user, _) = (user(&args[0])?, user(&args[1])?, user(&args[2])?);
                let (stock, has_one) = (self.units(0, "NOT_PREHEATED")?, self.is_member(user)?);
                if stock == 0 || has_one {
                    return Ok(if stock == 0 { "1" } else { "2" }.to_owned());
                }
                self.join(user);
                self.take(0, 1);
                "0".to_owned()
            }
            _ => {
                let units = quantity(&args[0])?;
                match self.units(0, "-1") {
                    Err("-1") => return Ok("-1".to_owned()),
                    Err(kind) => return Err(kind),
                    Ok(stock) if units > stock => return Ok("0".to_owned()),
                    Ok(_) => self.take(0, units),
                };
                "1".to_owned()
            }
        };
        assert_ne!(before, *self, "what is applied changes something");
        Ok(reply)
    }

    /// Makes the server's keys what they are here.
    fn write(&self, redis: &TestRedis, drop_in: DropIn) {
        redis.cmd("FLUSHALL");
        for (key, stock) in drop_in.stocks().iter().zip(&self.stocks) {
            match stock {
                Stock::Absent => {}
                Stock::Text(text) => drop(redis.cmd(("SET", *key, &text[..]))),
                Stock::List => drop(redis.cmd(("RPUSH", *key, "1"))),
            }
        }
        let Some(key) = record_key(drop_in) else { return };
        match &self.record {
            Record::Hash(held) => {
                held.iter().for_each(|(user, units)| drop(redis.cmd(("HSET", key, &user[..], &units[..]))))
            }
            Record::Set(users) => users.iter().for_each(|user| drop(redis.cmd(("SADD", key, &user[..])))),
            Record::List => drop(redis.cmd(("RPUSH", key, "1"))),
        }
    }

    /// What the server holds.
    fn read(redis: &TestRedis, drop_in: DropIn, was: &Self) -> Self {
        let stocks = drop_in.stocks().iter().map(|key| match redis.try_ask::<Value>(("GET", *key)) {
            Ok(Value::Nil) => Stock::Absent,
            Ok(Value::BulkString(text)) => Stock::Text(text),
            _ => Stock::List,
        });
        let record = match (&was.record, record_key(drop_in)) {
            (Record::Hash(_), Some(key)) => Record::Hash(redis.ask(("HGETALL", key))),
            (Record::Set(_), Some(key)) => Record::Set(redis.ask(("SMEMBERS", key))),
            (other, _) => other.clone(),
        };
        Self { stocks: stocks.collect(), record }
    }
}

/// Texts that are no plain value of any kind, or only of some.
const HOSTILE: [&[u8]; 48] = [
    b"",
    b"0",
    b"00",
    b"007",
    b"1e3",
    b"-5",
    b"+5",
    b" 5",
    b"5 ",
    b"0x10",
    b"1.5",
    b"nan",
    b"inf",
    b"9 9 9",
    b"1 2 3",
    b"3 2 1",
    b"1 1",
    b"1  2",
    b"1-3",
    b"3-1",
    b"1-1",
    b"5-",
    b"-",
    b"2-3-4",
    b"1,2",
    b"999999999",
    b"1000000000",
    b"1000000001",
    b"9999999999999",
    b"99999999999999",
    b"9007199254740991",
    b"9007199254740992",
    b"99999999999999999999",
    b"all",
    b"\"",
    b"a\"b",
    b"a\\b",
    b"\\u0041",
    b"tab\there",
    b"\x01",
    b"\x7f",
    b"\xff\xfe",
    "用户".as_bytes(),
    b"[]",
    b"[1,2]",
    b"[\"1\"",
    b"{}",
    b"null",
];

fn record_key(drop_in: DropIn) -> Option<&'static str> {
    [SECKILL, SKU, COUPON, HM_DIANPING].contains(&drop_in).then(|| drop_in.keys[1])
}

fn any_text() -> BoxedStrategy<Vec<u8>> {
    let hostile = proptest::sample::select(&HOSTILE[..]).prop_map(<[u8]>::to_vec);
    let number = (0..12_u64).prop_map(|number| number.to_string().into_bytes());
    prop_oneof![2 => hostile, 3 => number, 1 => Just(MOST.to_string().into_bytes())].boxed()
}

fn shops(drop_in: DropIn) -> BoxedStrategy<Shop> {
    let stock = prop_oneof![1 => Just(Stock::Absent), 1 => Just(Stock::List), 12 => any_text().prop_map(Stock::Text)];
    let user = || prop_oneof![4 => proptest::sample::select(&USERS[..]).prop_map(|user| user.as_bytes().to_vec()), 1 => any_text()];
    let record = match drop_in.name {
        "seckill" => proptest::collection::btree_map(user(), any_text(), 0..6).prop_map(Record::Hash).boxed(),
        "sku" | "coupon" | "hm-dianping" => proptest::collection::btree_set(user(), 0..4).prop_map(Record::Set).boxed(),
        _ => Just(Record::List).boxed(),
    };
    let record = prop_oneof![12 => record, 1 => Just(Record::List)];
    let stocks = proptest::collection::vec(stock, drop_in.stocks().len());
    (stocks, record).prop_map(|(stocks, record)| Shop { stocks, record }).boxed()
}

/// Arguments of a shop with some replaced by what nobody should send, or one too many or too few.
fn any_args(drop_in: DropIn) -> BoxedStrategy<Vec<Vec<u8>>> {
    let edit = (any::<prop::sample::Index>(), any_text());
    (sane(drop_in), proptest::collection::vec(edit, 0..2), 0..30_u8)
        .prop_map(|(mut args, edits, count)| {
            for (at, text) in edits {
                let at = at.index(args.len());
                args[at] = text;
            }
            match count {
                0 => drop(args.pop()),
                1 => args.push(b"1".to_vec()),
                _ => {}
            }
            args
        })
        .boxed()
}

#[test]
fn on_hostile_calls_and_damaged_data_a_drop_in_keeps_the_rules() {
    let redis = TestRedis::start();
    for drop_in in ALL {
        let caller = Caller::of(&redis, drop_in);
        let run = |(mut shop, calls): (Shop, Vec<Vec<Vec<u8>>>)| {
            shop.write(&redis, drop_in);
            for args in &calls {
                let was = shop.clone();
                let expected = shop.apply(drop_in, args);
                let reply = caller.call(drop_in.keys, args);
                match expected {
                    Ok(expected) => prop_assert_eq!(reply, expected, "{} {:?} on {:?}", drop_in.name, args, was),
                    Err(kind) => {
                        let is_kind = reply.starts_with(&format!("ERROR {kind} "));
                        prop_assert!(is_kind, "{} {:?} on {:?}: {} is no {}", drop_in.name, args, was, reply, kind);
                    }
                }
                let found = Shop::read(&redis, drop_in, &shop);
                prop_assert_eq!(&found, &shop, "{} {:?} on {:?}", drop_in.name, args, was);
            }
            Ok(())
        };
        let histories = (shops(drop_in), proptest::collection::vec(any_args(drop_in), 1..5));
        runner(150, drop_in.name).run(&histories, run).unwrap();
    }
}
