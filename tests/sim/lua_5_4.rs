//! The scripts reply and write in Lua 5.4, which Dragonfly has, what they do in Lua 5.1, which Redis and Valkey have.
//!
//! A process has one of them (feature `lua51` or `lua54` of this package), so the one of 5.1 leaves a file that the other one compares
//! with what it sees: `make lua54` runs both. If histories differ, `SECKILL_SIM_SEED=SEED SECKILL_SIM_HISTORIES=1 make lua54` writes
//! each call of one, its reply, and the keys that it leaves.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use super::history::{self, Plan};
use super::script::{Engine, IS_LUA_5_4, every_script, sha1_hex};
use super::search::{Run, setting};
use super::{night, shards};

const HISTORIES: u64 = 500;

/// A line for each history: its seed, and the digest of what was called, replied and left; of a single one all of that.
fn digests(run: Run, count: u64) -> String {
    let engine = Rc::new(Engine::new(|_, text| text.to_owned()));
    let first = setting("SECKILL_SIM_SEED", 0);
    let one = |seed: u64| {
        engine.transcript.replace(Some(String::new()));
        let ended = run(&engine, &Plan::of(seed), None);
        let transcript = engine.transcript.take().expect("it was begun");
        let whole = format!("{transcript}{ended:?}\n{:#?}\n", engine.server.borrow().keys);
        if count == 1 { whole } else { format!("seed {seed} {}\n", sha1_hex(whole.as_bytes())) }
    };
    // Its first line says what can be compared.
    let scripts: String = every_script().map(|script| script.sha1).collect();
    let head = format!("{count} histories from seed {first} of scripts {}\n", sha1_hex(scripts.as_bytes()));
    head + &(first..first + count).map(one).collect::<String>()
}

fn compare(run: Run, name: &str, divisor: u64) {
    let ours = digests(run, setting("SECKILL_SIM_HISTORIES", HISTORIES).div_ceil(divisor));
    let path = |lua: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{lua}.txt"));
    let written = path(if IS_LUA_5_4 { "lua54" } else { "lua51" });
    fs::write(&written, &ours).unwrap_or_else(|error| panic!("{}: {error}", written.display()));
    if !IS_LUA_5_4 {
        return;
    }
    let theirs = fs::read_to_string(path("lua51")).unwrap_or_default();
    let (head, older) = (ours.lines().next(), "what Lua 5.1 left is older, or absent: `make lua54` runs both");
    assert_eq!(theirs.lines().next(), head, "{older}");
    let differing: Vec<(&str, &str)> = theirs.lines().zip(ours.lines()).filter(|(one, other)| one != other).collect();
    let shown = differing.iter().take(3).collect::<Vec<_>>();
    assert!(ours == theirs, "{} lines of 5.1 and 5.4 differ, in {}: {shown:#?}", differing.len(), written.display());
}

#[test]
fn each_lua_makes_the_same_of_histories_of_a_sale() {
    compare(history::run, "sale", 1);
}

#[test]
fn each_lua_makes_the_same_of_histories_of_shards() {
    compare(shards::run, "shards", 5);
}

#[test]
fn each_lua_makes_the_same_of_nights_of_the_client() {
    compare(night::run, "nights", 5);
}
