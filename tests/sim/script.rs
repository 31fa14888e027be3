//! Runs the scripts in Lua 5.1, with `redis` and `cjson` as a server has them, over keys in memory; or in Lua 5.4, as Dragonfly
//! does (its `src/core/interpreter.cc` and `interpreter_polyfill.h`, commit f8eca6d).

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::rc::Rc;

use mlua::state::{GcIncParams, GcMode};
use mlua::{Error, Function, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value};
use seckill::internals::{DROP_INS, REWRITE, Script};

use super::cjson;
use super::keys::{Bytes, Context, Keys, Reply, is_write, keys_of, takes};
use super::replica::Write;

pub const IS_LUA_5_4: bool = cfg!(feature = "lua54");

const DENIED: &str = "ERR The user executing the script can't run this command or subcommand";
const NO_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// What the base library of Lua keeps in a server.
const BASE: [&str; 21] = [
    "assert",
    "coroutine",
    "error",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "getmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "string",
    "table",
    "math",
];

/// Every script that a server may run, in all kinds.
pub fn every_script() -> impl Iterator<Item = &'static Script> {
    Script::every().into_iter().chain(&DROP_INS)
}

/// The one server of a history: its keys, its clock, and how the call that runs is going.
#[derive(Default)]
pub struct Server {
    pub keys: Keys,
    /// The clock in microseconds. It does not move while a script runs.
    pub us: u64,
    /// After how many writes the next call is cut; `None`: it is not.
    pub cut_after: Option<u32>,
    /// The writes of the last call.
    pub writes: u32,
    /// All writes so far, of scripts or not.
    pub all_writes: u64,
    /// The SHA-1 of scripts that were loaded since the server lost all; `None`: it never did.
    pub loaded: Option<BTreeSet<Bytes>>,
    /// What the last call wrote, while replicas may want it.
    pub log: Option<Vec<Write>>,
    /// The keys that the last call wrote, while a connection watches some.
    pub touched: Option<Vec<Bytes>>,
    /// Whether a replica follows.
    pub is_followed: bool,
    /// The commands of a transaction that has begun.
    pub queued: Option<Vec<Vec<Bytes>>>,
    /// What the caller may not run.
    pub denied: Option<Right>,
    /// While scripts are held to it that they look for each right before they write.
    pub rights: Option<Rights>,
    was_cut: bool,
    protocol_3: bool,
}

/// A command, at one key or at all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub command: String,
    pub key: Option<Bytes>,
}

/// What the script that runs may do, and how it knows.
#[derive(Debug, Default)]
pub struct Rights {
    script: &'static str,
    /// What it asked for, or ran.
    pub known: BTreeSet<Right>,
    has_written: bool,
    /// What it wrote behind its first write, without having asked: it would end there, half done, if it might not.
    pub unasked: BTreeSet<Right>,
}

impl Rights {
    /// A script runs a command, and ends if it may not.
    fn runs(&mut self, command: &str, args: &[Bytes]) {
        // Activities of a file are decided one after the other. Each begins with its stock.
        self.has_written &= command != "GET" || !matches!(self.script, "deduct_file" | "refund_file");
        if !is_write(command) {
            return;
        }
        for right in rights_of(command, args) {
            let is_command_enough =
                asks_at_one_key(self.script, command) && self.known.iter().any(|known| known.command == right.command);
            if self.has_written && !self.known.contains(&right) && !is_command_enough {
                self.unasked.insert(right.clone());
            }
            self.known.insert(right);
        }
        // Behind what was cut, and is finished now, the call itself begins.
        let is_finished =
            command == "HDEL" && args[1..].iter().any(|field| field == b"\tbegun" || field == b"\tmoving");
        self.has_written = !is_finished;
    }
}

/// Whether a script asks for a command at one key and runs it at others: each question takes time of an order. Rights for one key
/// only are the exception.
pub fn asks_at_one_key(script: &str, command: &str) -> bool {
    matches!(script, "deduct" | "hold") && matches!(command, "HSET" | "HDEL")
}

impl Server {
    fn may_run(&self, command: &str, args: &[Bytes]) -> bool {
        let is_denied = |denied: &Right| {
            denied.command == command && denied.key.as_ref().is_none_or(|key| keys_of(command, args).contains(key))
        };
        !self.denied.as_ref().is_some_and(is_denied)
    }

    /// Runs a command, and keeps it for replicas if it wrote something.
    pub fn run(&mut self, name: &str, args: Vec<Bytes>) -> Reply {
        let context = self.context();
        let reply = self.keys.run(name, &args, context);
        if is_write(name) && !matches!(reply, Reply::Error(_)) {
            self.touched.iter_mut().for_each(|touched| touched.extend_from_slice(keys_of(name, &args)));
            if let Some(log) = &mut self.log {
                log.push(Write { name: name.to_owned(), args, context });
            }
        }
        reply
    }

    pub fn context(&self) -> Context {
        Context { us: self.us, protocol_3: self.protocol_3 }
    }

    pub fn now_ms(&self) -> u64 {
        self.us / 1000
    }
}

/// The scripts, compiled, and the server that they run on.
pub struct Engine {
    lua: Lua,
    pub server: Rc<RefCell<Server>>,
    scripts: HashMap<&'static str, (&'static str, Function)>,
    globals: Table,
    /// Each call with its reply, while runs of both versions of Lua are compared.
    pub transcript: RefCell<Option<String>>,
}

/// An error reply of a command, on its way through Lua.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl Engine {
    /// `edit` gets each script's name and text, and gives what is run.
    pub fn new(edit: impl Fn(&str, &str) -> String) -> Self {
        Self::compile(edit).unwrap_or_else(|error| panic!("a script does not compile: {error}"))
    }

    fn compile(edit: impl Fn(&str, &str) -> String) -> Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Of 5.1 they are in the base library. Dragonfly has none: what needs them is compared all the same.
        #[cfg(feature = "lua54")]
        let libraries = libraries | StdLib::COROUTINE;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let server = Rc::new(RefCell::new(Server::default()));
        let globals = lua.create_table()?;
        for name in BASE {
            globals.raw_set(name, lua.globals().get::<Value>(name)?)?;
        }
        if IS_LUA_5_4 {
            globals.raw_set("unpack", lua.globals().get::<Table>("table")?.get::<Value>("unpack")?)?;
        }
        globals.raw_set("redis", redis(&lua, &server)?)?;
        globals.raw_set("cjson", cjson::library(&lua)?)?;
        let environment = guarded(&lua, &globals)?;
        let mut scripts = HashMap::new();
        // What a client rewrites an activity with has no file, and is always sent as text.
        let rewrite = ("rewrite", REWRITE, REWRITE);
        for (name, sha1, text) in every_script().map(|it| (it.name, it.sha1, it.text)).chain([rewrite]) {
            let text = edit(name, text);
            let function = lua.load(text).set_name(name).set_environment(environment.clone()).into_function()?;
            scripts.insert(sha1, (name, function));
        }
        // Most of what there is are the scripts, and they stay. After a long time without a collection, memory is in no cache.
        lua.gc_collect()?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(400).step_multiplier(1000)));
        Ok(Self { lua, server, scripts, globals, transcript: RefCell::default() })
    }

    /// Forgets all keys.
    pub fn reset(&self) {
        *self.server.borrow_mut() = Server { us: 1_700_000_000_000_000, ..Server::default() };
    }

    /// Runs the script with a SHA-1 before edits; `None` if it was cut, which whoever called it does not get to know.
    pub fn run(&self, sha1: &str, keys: &[Bytes], args: &[Bytes]) -> Option<Reply> {
        let reply = self.answer(sha1, keys, args);
        if let Some(transcript) = &mut *self.transcript.borrow_mut() {
            let texts: Vec<String> = keys.iter().chain(args).map(|text| text.escape_ascii().to_string()).collect();
            let (writes, script) = (self.server.borrow().writes, self.scripts[sha1].0);
            writeln!(transcript, "{script} {} -> {reply:?}, {writes} writes", texts.join(" "))
                .expect("memory takes it");
        }
        reply
    }

    fn answer(&self, sha1: &str, keys: &[Bytes], args: &[Bytes]) -> Option<Reply> {
        self.globals.raw_set("KEYS", self.list(keys)).expect("a table takes a list");
        self.globals.raw_set("ARGV", self.list(args)).expect("a table takes a list");
        {
            let mut server = self.server.borrow_mut();
            (server.protocol_3, server.writes, server.was_cut) = (false, 0, false);
            if let Some(rights) = &mut server.rights {
                *rights = Rights { script: self.scripts[sha1].0, ..Rights::default() };
            }
        }
        let (_, function) = self.scripts.get(sha1).unwrap_or_else(|| panic!("no script has the SHA-1 {sha1}"));
        let done = function.call::<Value>(());
        let mut server = self.server.borrow_mut();
        server.cut_after = None;
        if server.was_cut {
            return None;
        }
        Some(match done {
            Ok(value) => replied(&value),
            Err(error) => match error.chain().find_map(|cause| cause.downcast_ref::<Raised>()) {
                Some(Raised(text)) => Reply::Error(text.clone()),
                None => Reply::Error(format!("ERR {error}")),
            },
        })
    }

    fn list(&self, texts: &[Bytes]) -> Table {
        let texts = texts.iter().map(|text| self.lua.create_string(text).expect("a text fits"));
        self.lua.create_sequence_from(texts).expect("a list fits")
    }
}

/// The library `redis`.
fn redis(lua: &Lua, server: &Rc<RefCell<Server>>) -> Result<Table> {
    let redis = lua.create_table()?;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let server = Rc::clone(server);
        redis.set(name, lua.create_function(move |lua, args| command(lua, &server, args, raises))?)?;
    }
    if !IS_LUA_5_4 {
        let server = Rc::clone(server);
        redis.set("acl_check_cmd", lua.create_function(move |_, args| may_run(&server, &args))?)?;
    }
    let sha1hex = |_: &Lua, text: mlua::LuaString| Ok(sha1_hex(&text.as_bytes()));
    redis.set("sha1hex", lua.create_function(sha1hex)?)?;
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        let reply = move |lua: &Lua, text: mlua::LuaString| lua.create_table_from([(field, text)]);
        redis.set(name, lua.create_function(reply)?)?;
    }
    Ok(redis)
}

pub fn sha1_hex(text: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Globals as a server guards them: an unknown one cannot be read, and none can be written.
fn guarded(lua: &Lua, globals: &Table) -> Result<Table> {
    let refuse = |what: &'static str| {
        lua.create_function(move |_, (_, name): (Value, mlua::LuaString)| -> Result<()> {
            Err(Error::runtime(format!("Script attempted to {what} global variable '{}'", name.to_string_lossy())))
        })
    };
    let unknown = lua.create_table()?;
    unknown.set("__index", refuse("access nonexistent")?)?;
    globals.set_metatable(Some(unknown))?;
    let (environment, proxy) = (lua.create_table()?, lua.create_table()?);
    proxy.set("__index", globals)?;
    proxy.set("__newindex", refuse("write")?)?;
    environment.set_metatable(Some(proxy))?;
    Ok(environment)
}

/// A command and its arguments, as a script gives them; `None` if one is no text.
fn words(args: &MultiValue) -> Option<(String, Vec<Bytes>)> {
    let mut texts: Vec<Bytes> = Vec::with_capacity(args.len());
    for value in args {
        texts.push(match value {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Number(number) => cjson::number(*number, 17).into_bytes(),
            Value::Integer(number) => number.to_string().into_bytes(),
            _ => return None,
        });
    }
    let name = String::from_utf8(texts.remove(0)).expect("a command has a name");
    Some((name, texts))
}

/// `redis.acl_check_cmd`.
fn may_run(server: &RefCell<Server>, args: &MultiValue) -> Result<bool> {
    if server.borrow().denied.is_none() && server.borrow().rights.is_none() {
        return Ok(true);
    }
    let (name, texts) = words(args).ok_or_else(|| Error::runtime(NO_ARGUMENT))?;
    let server = &mut *server.borrow_mut();
    assert!(takes(&name, &texts), "a script asks for the right to {name} {texts:?}");
    let may_run = server.may_run(&name, &texts);
    if let Some(rights) = server.rights.as_mut().filter(|_| may_run) {
        rights.known.extend(rights_of(&name, &texts));
    }
    Ok(may_run)
}

/// The rights that a command takes: one for each key.
fn rights_of(name: &str, args: &[Bytes]) -> Vec<Right> {
    keys_of(name, args).iter().map(|key| Right { command: name.to_owned(), key: Some(key.clone()) }).collect()
}

/// `redis.call` and `redis.pcall`.
fn command(lua: &Lua, server: &Rc<RefCell<Server>>, args: MultiValue, raises: bool) -> Result<Value> {
    let Some((name, texts)) = words(&args) else { return refuse(lua, NO_ARGUMENT.to_owned(), raises) };
    let name = name.as_str();
    let server = &mut *server.borrow_mut();
    if !server.may_run(name, &texts) {
        return refuse(lua, DENIED.to_owned(), raises);
    }
    if let Some(rights) = server.rights.as_mut().filter(|_| raises) {
        rights.runs(name, &texts);
    }
    if is_write(name) {
        // Nothing of a script that is cut runs, whatever it catches.
        server.was_cut |= server.cut_after == Some(server.writes);
        server.writes += 1;
        server.all_writes += 1;
    }
    if server.was_cut {
        return Err(Error::runtime("cut"));
    }
    match server.run(name, texts) {
        Reply::Error(text) => refuse(lua, text, raises),
        reply => given(lua, reply, server.protocol_3),
    }
}

/// What a script gets for a command that the server refuses.
fn refuse(lua: &Lua, text: String, raises: bool) -> Result<Value> {
    if raises { Err(Error::external(Raised(text))) } else { given(lua, Reply::Error(text), false) }
}

/// A reply as Lua gets it. What is absent is false, but nil in protocol 3, which leaves holes in lists.
fn given(lua: &Lua, reply: Reply, protocol_3: bool) -> Result<Value> {
    let pair = |name: &str, text: &str| lua.create_table_from([(name, text)]).map(Value::Table);
    match reply {
        Reply::Nil if protocol_3 => Ok(Value::Nil),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Int(number) => Ok(Value::Integer(number)),
        Reply::Text(text) => lua.create_string(&text).map(Value::String),
        Reply::Status(text) => pair("ok", text),
        Reply::Error(text) => pair("err", &text),
        Reply::Double(score) => lua.create_table_from([("double", score)]).map(Value::Table),
        Reply::Array(parts) => {
            let list = lua.create_table_with_capacity(parts.len(), 0)?;
            for (at, part) in parts.into_iter().enumerate() {
                list.raw_set(at + 1, given(lua, part, protocol_3)?)?;
            }
            Ok(Value::Table(list))
        }
    }
}

/// What a script returned as the client gets it: numbers are cut to whole ones (those of Lua 5.4 that are no integers are texts),
/// false is nil, and a nil ends a list.
fn replied(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::Text(text.as_bytes().to_vec()),
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) if IS_LUA_5_4 => Reply::text(&cjson::number(*number, 17)),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::Table(table) => {
            let text = |field: &str| match table.raw_get::<Value>(field) {
                Ok(Value::String(text)) => Some(text.to_string_lossy()),
                _ => None,
            };
            if let Some(error) = text("err") {
                return Reply::Error(error.trim_start_matches('-').to_owned());
            }
            if let Some(status) = text("ok") {
                return Reply::text(&status);
            }
            let parts = (1..).map_while(|at| match table.raw_get::<Value>(at) {
                Ok(Value::Nil) | Err(_) => None,
                Ok(part) => Some(replied(&part)),
            });
            Reply::Array(parts.collect())
        }
        _ => Reply::Nil,
    }
}
