//! Random histories of sales: the real scripts, audits and repairs, over simulated keys and a simulated clock, with calls that
//! are lost, late, sent again, and cut after any write. An oracle knows what callers heard, and that must stay true.
//!
//! Nights run the real client beside that: `night.rs` is the crowd, `work.rs` what its processes do with the library, `world.rs` the network and the clock between them.
//!
//! To read it: `history.rs` is what happens, `damage.rs` what happens to keys, `oracle.rs` what must hold, `replies.rs` and `equal.rs` what
//! replies must say, `audit.rs` the real audits; `script.rs` and `keys.rs` are the server, which `fidelity.rs` compares with a real one, and
//! `slots.rs` a cluster; `one_wrong.rs` has what scripts reply to calls with one thing wrong, and to calls one after the other; `broken.rs` breaks rules that the histories must
//! notice; `lua_5_4.rs` compares the scripts in both versions of Lua.
//!
//! `SECKILL_SIM_HISTORIES=1000000 cargo test -p sim` runs more of them, from seed `SECKILL_SIM_SEED` on; `make sim SECONDS=600 SEED=7` runs
//! them for ten minutes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that meets the unexpected should fail loudly, and say why on stderr"
)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod archive;
mod audit;
mod broken;
mod calls;
mod cjson;
mod damage;
mod equal;
mod fidelity;
mod history;
mod keys;
mod lua_5_4;
mod night;
mod one_wrong;
mod oracle;
mod random;
mod replica;
mod replies;
mod script;
mod search;
mod server;
#[path = "../it/support/server_binary.rs"]
mod server_binary;
mod shards;
mod slots;
#[path = "../it/support/transcript.rs"]
mod transcript;
mod work;
mod world;
