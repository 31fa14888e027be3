//! Drop-in scripts: the KEYS, ARGV and replies of the plain scripts that shops run, and a refusal of all that those get
//! wrong.

mod beside;
mod contract;
mod faults;
mod hostile;

use std::cell::RefCell;

use redis::{Connection, Value};

use crate::support::TestRedis;
use crate::support::scripts::{commands, line, shown};

/// A drop-in, the plain script whose place it takes, and the keys of an activity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DropIn {
    /// As in `script show --drop-in`.
    name: &'static str,
    file: &'static str,
    plain: &'static str,
    keys: &'static [&'static str],
    /// Arguments that buy a unit, at most the second, for user `7`.
    good: &'static [&'static str],
    /// Where the user is in the arguments, and the quantity.
    user: Option<usize>,
    quantity: Option<usize>,
}

const SECKILL: DropIn = DropIn {
    name: "seckill",
    file: "drop-in/seckill",
    plain: include_str!("../backend/hash.lua"),
    keys: &["seckill:stock:1", "seckill:participants:1"],
    good: &["7", "1", "2"],
    user: Some(0),
    quantity: Some(1),
};
const SKU: DropIn = DropIn {
    name: "sku",
    file: "drop-in/sku",
    plain: include_str!("../backend/sku.lua"),
    keys: &["stock:1", "bought:1"],
    good: &["1", "7"],
    user: Some(1),
    quantity: Some(0),
};
const SKU_MULTI: DropIn = DropIn {
    name: "sku-multi",
    file: "drop-in/sku-multi",
    plain: include_str!("../backend/sku_multi.lua"),
    keys: &["stock:1", "stock:2"],
    good: &["1", "1"],
    user: None,
    quantity: Some(0),
};
const COUPON: DropIn = DropIn {
    name: "coupon",
    file: "drop-in/coupon",
    plain: include_str!("../backend/coupon.lua"),
    keys: &["coupon:stock:1", "coupon:user:1"],
    good: &["7"],
    user: Some(0),
    quantity: None,
};
const PRODUCT: DropIn = DropIn {
    name: "product",
    file: "drop-in/product",
    plain: include_str!("../backend/product.lua"),
    keys: &["product_stock_1"],
    good: &["1"],
    user: None,
    quantity: Some(0),
};
const HM_DIANPING: DropIn = DropIn {
    name: "hm-dianping",
    file: "drop-in/hm-dianping",
    plain: include_str!("../backend/hm_dianping.lua"),
    keys: &["seckill:stock:1", "seckill:order:1", "stream.orders"],
    good: &["1", "7", "900"],
    user: Some(1),
    quantity: None,
};
const ALL: [DropIn; 6] = [SECKILL, SKU, SKU_MULTI, COUPON, PRODUCT, HM_DIANPING];

impl DropIn {
    /// Stocks are all keys of `sku-multi`, else the first one.
    fn stocks(&self) -> &'static [&'static str] {
        if *self == SKU_MULTI { self.keys } else { &self.keys[..1] }
    }

    /// Puts that many units into each stock.
    fn stock(&self, redis: &TestRedis, units: &str) {
        for key in self.stocks() {
            redis.cmd(("SET", *key, units));
        }
    }
}

/// Both servers hold the same, but for the ids of a stream's entries, which are lost by this.
fn are_equal(redis: &TestRedis, other: &TestRedis) {
    for server in [redis, other] {
        let entries: Vec<(String, Vec<String>)> = server.ask(("XRANGE", HM_DIANPING.keys[2], "-", "+"));
        server.cmd(("DEL", HM_DIANPING.keys[2]));
        for (_, fields) in entries {
            server.cmd(("RPUSH", HM_DIANPING.keys[2], fields));
        }
    }
    redis.assert_unchanged_since(&other.dump_all());
}

/// Runs a script as a user of the server who may do what its header says, and nothing else.
struct Caller {
    connection: RefCell<Connection>,
    text: String,
}

impl Caller {
    #[track_caller]
    fn of(redis: &TestRedis, drop_in: DropIn) -> Self {
        Self::with(redis, shown(drop_in.file), &commands(drop_in.file, "set"))
    }

    /// The plain script, which may do anything.
    #[track_caller]
    fn plain(redis: &TestRedis, drop_in: DropIn) -> Self {
        Self { connection: redis.connection().into(), text: drop_in.plain.to_owned() }
    }

    /// Any text as a user with these rights: names of commands, or selectors in parentheses.
    #[track_caller]
    fn with(redis: &TestRedis, text: &str, rights: &[String]) -> Self {
        let user = format!("u{}", rights.join("").replace(['(', ')', ' '], "_"));
        let mut rules = ["reset", "on", "nopass", "~*", "+eval"].map(str::to_owned).to_vec();
        rules.extend(
            rights.iter().map(|right| if right.starts_with('(') { right.clone() } else { format!("+{right}") }),
        );
        redis.cmd(("ACL", "SETUSER", &user, rules));
        let mut connection = redis.connection();
        redis::cmd("AUTH").arg(&user).arg("any").exec(&mut connection).unwrap();
        Self { connection: connection.into(), text: text.to_owned() }
    }

    /// The reply as one line; of a list, its texts with a space between; `ERROR` and its text.
    fn call<K: AsRef<[u8]>, A: AsRef<[u8]>>(&self, keys: &[K], args: &[A]) -> String {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text).arg(keys.len());
        for word in keys.iter().map(AsRef::as_ref).chain(args.iter().map(AsRef::as_ref)) {
            command.arg(word);
        }
        match command.query::<Value>(&mut self.connection.borrow_mut()) {
            Ok(value) => line(&value),
            Err(error) => format!("ERROR {} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
        }
    }
}

#[track_caller]
fn is_error(reply: &str, kind: &str, part: &str) {
    assert!(
        reply.starts_with(&format!("ERROR {kind} ")) && reply.contains(part),
        "expected {kind} with {part:?}: {reply}"
    );
}
