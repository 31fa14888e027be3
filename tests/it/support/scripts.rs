//! The scripts as a backend runs them: the bytes that `seckill script show` prints, called by their SHA-1.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use redis::{Client, Connection, RedisResult, Value};

use super::layout::{COUPON, LAYOUTS, Layout, PRODUCT, SECKILL, SKU};
use super::transcript::script_of;
use super::{TestRedis, seckill};

/// The names of all scripts.
pub const SCRIPTS: [&str; 23] = [
    "preheat",
    "deduct",
    "multi_deduct",
    "refund",
    "hold",
    "settle",
    "deduct_file",
    "multi_deduct_file",
    "refund_file",
    "hold_file",
    "settle_file",
    "pause",
    "snapshot",
    "repair",
    "trim",
    "adopt",
    "archive",
    "restore",
    "lend",
    "borrow",
    "peek",
    "parent",
    "preheat_shard",
];

/// The drop-in scripts, by their files in `lua/`.
pub const DROP_INS: [&str; 6] =
    ["drop-in/seckill", "drop-in/sku", "drop-in/sku-multi", "drop-in/coupon", "drop-in/product", "drop-in/hm-dianping"];

/// Every script that a server may run.
pub fn every_script() -> impl Iterator<Item = &'static str> {
    SCRIPTS.into_iter().chain(DROP_INS)
}

/// The scripts that each layout has its own build of: their files say for which kinds.
pub fn built_by_kind() -> impl Iterator<Item = &'static str> {
    let says = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(format!("{name}.lua"));
        fs::read_to_string(file).unwrap().contains("\n--- @kinds ")
    };
    SCRIPTS.into_iter().filter(move |name| says(name))
}

/// Whether a layout has a script: one that records no users has none of holds.
pub fn layout_has(layout: Layout, name: &str) -> bool {
    layout.has_users() || !name.starts_with("hold") && !name.starts_with("settle")
}

/// What `script show` prints, asked for once.
pub fn shown(name: &'static str) -> &'static str {
    shown_of(name, SECKILL)
}

/// The same for a layout.
pub fn shown_of(name: &'static str, layout: Layout) -> &'static str {
    static SHOWN: OnceLock<HashMap<(&'static str, &'static str), String>> = OnceLock::new();
    let show = |name: &'static str, layout: Layout| {
        let call = match name.strip_prefix("drop-in/") {
            Some(drop_in) => seckill(["script", "show", "--drop-in", drop_in]),
            None => seckill(["script", "show", name, "--layout", layout.name]),
        };
        ((name, layout.kind), call.code(0).stderr("").stdout)
    };
    let shown = SHOWN.get_or_init(|| {
        let layouts = |name| LAYOUTS.into_iter().filter(move |layout| layout_has(*layout, name));
        let by_kind = built_by_kind().flat_map(|name| layouts(name).map(move |layout| show(name, layout)));
        every_script().map(|name| show(name, SECKILL)).chain(by_kind).collect()
    });
    shown.get(&(name, layout.kind)).unwrap_or_else(|| &shown[&(name, SECKILL.kind)])
}

/// Every text that a server may run, with the name of its script.
pub fn every_build() -> impl Iterator<Item = (&'static str, &'static str)> {
    let by_kind = built_by_kind().flat_map(|name| [SKU, COUPON, PRODUCT].map(|layout| (name, layout)));
    let by_kind = by_kind.filter(|(name, layout)| layout_has(*layout, name));
    every_script().map(|name| (name, SECKILL)).chain(by_kind).map(|(name, layout)| (name, shown_of(name, layout)))
}

/// The commands that a script's header names, for a kind of activity.
pub fn commands(name: &'static str, kind: &str) -> Vec<String> {
    let needs = shown(name).split("Commands it needs").nth(1).unwrap().split("]]").next().unwrap();
    let needs = needs.split_once("on):").map_or(needs, |(_, commands)| commands);
    let (all, of_sets) = needs.split_once("; sets also").unwrap_or((needs, ""));
    let (of_sets, quicker) = of_sets.split_once('.').unwrap_or((of_sets, ""));
    let of_sets = if ["set", "coupon"].contains(&kind) { of_sets } else { "" };
    let words = [all, of_sets, quicker].into_iter().flat_map(|part| part.split(|c: char| !c.is_ascii_uppercase()));
    words.filter(|word| word.len() > 1).map(str::to_lowercase).collect()
}

/// One layout's activities, spoken to through the scripts alone. Each script runs as a user of the server who may do
/// what its header says, and nothing else.
pub struct Scripts {
    pub layout: Layout,
    redis: Connection,
    users: HashMap<&'static str, Connection>,
    client: Client,
    hashes: HashMap<&'static str, String>,
    /// How many files were sent.
    files: usize,
}

/// One order for `deduct` or `refund`: user, quantity, request.
pub type Order<'a> = (&'a str, &'a str, &'a str);

impl Scripts {
    #[track_caller]
    pub fn of(redis: &TestRedis, layout: Layout) -> Self {
        let mut connection = redis.connection();
        let hashes = every_script()
            .map(|name| {
                let text = shown_of(name, layout);
                (name, redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut connection).unwrap())
            })
            .collect();
        Self { layout, redis: connection, users: HashMap::new(), client: redis.client(), hashes, files: 0 }
    }

    /// Any call, and its reply as one line: numbers and texts, `nil` for nothing, an error as `ERROR` with its text.
    pub fn call(&mut self, name: &'static str, keys: &[String], args: &[&str]) -> String {
        let name = script_of(name, args);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.hashes[name]).arg(keys.len()).arg(keys).arg(args);
        shown_reply(command.query(self.user(name)))
    }

    /// The connection of the user who may do what the script's header says.
    fn user(&mut self, name: &'static str) -> &mut Connection {
        let Self { layout, redis, users, client, .. } = self;
        users.entry(name).or_insert_with(|| {
            let mut rules = redis::cmd("ACL");
            rules.arg("SETUSER").arg(name).arg(&["reset", "on", "nopass", "~*", "+evalsha"]);
            for command in commands(name, layout.kind) {
                rules.arg(format!("+{command}"));
            }
            rules.exec(redis).unwrap();
            let mut connection = client.get_connection().unwrap();
            redis::cmd("AUTH").arg(name).arg("any").exec(&mut connection).unwrap();
            connection
        })
    }

    /// Runs a text of the test's own, with the reply as [`call`](Self::call) has it.
    pub fn eval(&mut self, text: &str, keys: &[String], args: &[&str]) -> String {
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(keys.len()).arg(keys).arg(args);
        shown_reply(command.query(&mut self.redis))
    }

    /// Sends a command as some other client would.
    #[track_caller]
    pub fn send(&mut self, command: &[&str]) {
        redis::Cmd::new().arg(command).exec(&mut self.redis).unwrap();
    }

    /// Creates an activity without a limit (but for that of its kind), a title or a window.
    #[track_caller]
    pub fn preheat(&mut self, activity: &str, total: &str) {
        self.preheat_with(activity, total, &[]);
    }

    /// The same with fields of meta: `per_user_limit`, `title`, `starts_at`, `ends_at`, `ledger`.
    #[track_caller]
    pub fn preheat_with(&mut self, activity: &str, total: &str, fields: &[(&str, &str)]) {
        let reply = self.preheat_as("create", activity, total, fields);
        assert!(reply.starts_with("1 create "), "{reply}");
    }

    /// Any preheat: `create`, `update` or `reset`.
    pub fn preheat_as(&mut self, mode: &str, activity: &str, total: &str, fields: &[(&str, &str)]) -> String {
        let layout = self.layout;
        let given = |name: &str| {
            let found = fields.iter().find(|(field, _)| *field == name);
            found.map(|(_, text)| format!("={text}")).unwrap_or_default()
        };
        let limit = if layout.records_once() { "=1".to_owned() } else { given("per_user_limit") };
        let (title, starts, ends, ledger) = (given("title"), given("starts_at"), given("ends_at"), given("ledger"));
        let args = [layout.kind, "tester", "", mode, "0", total, &limit, &title, &starts, &ends, &ledger];
        // As backends call it that know no more arguments, unless it is given.
        let if_total = fields.iter().find(|(field, _)| *field == "if_total").map(|(_, total)| *total);
        let args: Vec<&str> = args.into_iter().chain(if_total).collect();
        self.call("preheat", &layout.all_keys(activity), &args)
    }

    /// One order, as the tool sends it.
    pub fn deduct(&mut self, activity: &str, order: Order<'_>) -> String {
        self.orders("deduct", "first", activity, &[order])
    }

    /// One refund, as the tool sends it.
    pub fn refund(&mut self, activity: &str, order: Order<'_>) -> String {
        self.orders("refund", "first", activity, &[order])
    }

    /// Orders of one activity in one call of `deduct` or `refund`: if there are several, those of a new file.
    pub fn orders(&mut self, script: &'static str, mode: &str, activity: &str, orders: &[Order<'_>]) -> String {
        let kind = self.layout.kind;
        let keys = self.layout.keys(activity);
        if let &[(user, quantity, request)] = orders {
            let more = if mode == "first" { &[][..] } else { &[mode] };
            return self.call(script, &keys, &[&[kind, "tester", user, quantity, request], more].concat());
        }
        let column = |of: fn(&Order<'_>) -> String| orders.iter().map(of).collect::<Vec<_>>().join("\t");
        let users = column(|(user, _, _)| (*user).to_owned());
        let quantities = column(|(_, quantity, _)| (*quantity).to_owned());
        let requests = column(|(_, _, request)| (*request).to_owned());
        let borrow = match mode {
            "first" => "",
            "borrow" => "borrow",
            mode => panic!("a file has no mode {mode}"),
        };
        self.files += 1;
        let (job, lines) = (format!("file{}", self.files), format!("1-{}", orders.len()));
        let rules: Option<String> = redis::cmd("HGET").arg(&keys[1]).arg("rules").query(&mut self.redis).unwrap();
        let epoch = rules.as_deref().and_then(|rules| rules.split(' ').nth(2)).unwrap_or_default();
        let args =
            [kind, "tester", &users, &quantities, &job, "d", epoch, "0", &lines, &requests, "1", "", "", "", borrow];
        self.call(script, &keys, &args)
    }

    /// One order of several activities, `(activity, quantity)` each.
    pub fn multi_deduct(&mut self, mode: &str, user: &str, request: &str, items: &[(&str, &str)]) -> String {
        let keys: Vec<String> = items.iter().flat_map(|(activity, _)| self.layout.keys(activity)).collect();
        let mut args = vec![self.layout.kind, "tester", mode, "", user, request];
        args.extend(items.iter().map(|(_, quantity)| *quantity));
        self.call("multi_deduct", &keys, &args)
    }
}

fn shown_reply(reply: RedisResult<Value>) -> String {
    match reply {
        Ok(value) => line(&value),
        Err(error) => format!("ERROR {} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
    }
}

/// A reply as one line.
pub fn line(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Array(values) => values.iter().map(line).collect::<Vec<_>>().join(" "),
        other => panic!("a script replied {other:?}"),
    }
}

/// The script with an error in place of what follows its `index` write.
pub fn cut_after(name: &'static str, index: usize) -> String {
    cut_text(shown(name), index)
}

/// The same of the script that a call with these arguments runs.
pub fn cut_call(name: &'static str, layout: Layout, args: &[&str], index: usize) -> String {
    cut_text(shown_of(script_of(name, args), layout), index)
}

fn cut_text(text: &str, index: usize) -> String {
    let (header, code) = text.split_once("]]\n").unwrap();
    let wrapper = format!(
        "local server, writes = redis, 0\n\
         local reads = {{GET=1, HGET=1, HMGET=1, TYPE=1, EXISTS=1, TIME=1, XLEN=1, ZMSCORE=1, ZRANGEBYSCORE=1, SMISMEMBER=1,\n\
         HGETALL=1, HLEN=1, SCARD=1, HEXISTS=1, PTTL=1, XRANGE=1, XREVRANGE=1, XINFO=1, XPENDING=1}}\n\
         local function cuts(name)\n\
           return function(command, ...)\n\
             if not reads[command] then\n\
               if writes == {index} then error('CUT') end\n\
               writes = writes + 1\n\
             end\n\
             return server[name](command, ...)\n\
           end\n\
         end\n\
         local redis = setmetatable({{call = cuts('call'), pcall = cuts('pcall')}}, {{__index = redis}})\n"
    );
    format!("{header}]]\n{wrapper}{code}")
}
