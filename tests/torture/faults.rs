//! What the network and the machine do to the tool and the server, all of it drawn from the seed.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::chaos::{Chaos, Foreign};
use crate::failovers;
use crate::history::History;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::servers::{Servers, writes_of};
use crate::support::{Fault, Proxy};

/// Changes stock and the counter of one buyer, if both allow it and others are left who hold units.
const FOREIGN: &str = "local stock, by = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[3]) \
    local change = tonumber(ARGV[1]) * by \
    if stock + change < 0 then return end \
    local kind = redis.call('TYPE', KEYS[2]).ok \
    if kind == 'none' or redis.call(kind == 'hash' and 'HLEN' or 'SCARD', KEYS[2]) < 4 then return end \
    if ARGV[2] ~= '0' then \
        local users = redis.call('HKEYS', KEYS[2]) \
        table.sort(users) \
        local units = tonumber(redis.call('HGET', KEYS[2], users[2])) + tonumber(ARGV[2]) * by \
        if units < 0 then return end \
        if units == 0 then redis.call('HDEL', KEYS[2], users[2]) else redis.call('HSET', KEYS[2], users[2], units) end \
    end \
    if change ~= 0 then redis.call('INCRBY', KEYS[1], change) end";

/// How the writes of a call end in an append-only file.
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// How stock and counter change.
fn effect(write: Foreign) -> (&'static str, &'static str) {
    match write {
        Foreign::StockShrinks => ("-1", "0"),
        Foreign::StockGrows => ("1", "0"),
        Foreign::CounterShrinks => ("0", "-1"),
        Foreign::CounterGrows => ("0", "1"),
        Foreign::PlainSale => ("-1", "1"),
    }
}

/// What clients wait for a reply. Short, because some replies never come.
pub const TIMEOUT: &str = "600ms";

/// Lets so many percent of an actor's commands meet a fault. Calls come late or twice only if `resends`: the tool sends
/// nothing again that reads.
pub fn arm(proxy: &Proxy, mut rng: Rng, (percent, is_cluster): (usize, bool), resends: bool) {
    proxy.decide(move |command| {
        let hits = rng.percent(percent);
        // Drawn in any case, so that one decision does not move all later ones.
        let (kind, bytes, ms) = (rng.below(if is_cluster { 32 } else { 28 }), rng.below(200), rng.range(1, 120));
        if !hits {
            return None;
        }
        let is_script = command == "EVALSHA";
        Some(match kind {
            0..3 => Fault::LoseRequest,
            3..6 => Fault::LoseReply,
            6..8 => Fault::CutRequest(bytes),
            8..10 => Fault::CutReply(bytes % 30),
            10..15 => Fault::Delay(Duration::from_millis(ms)),
            15 => Fault::HangReply,
            16 => Fault::StallReply(bytes % 30),
            17..19 if resends && is_script => Fault::Late,
            19..22 if resends && is_script => Fault::Later,
            22..25 if resends && is_script => Fault::Twice,
            25 if is_script => Fault::Refuse("NOSCRIPT No matching script."),
            26 if is_script => Fault::Refuse("BUSY Redis is busy running a script."),
            27 if is_script => Fault::Refuse("LOADING Redis is loading the dataset in memory"),
            28 if is_script => Fault::Refuse("TRYAGAIN Multiple keys request during rehashing of slot"),
            29 if is_script => Fault::Refuse("CLUSTERDOWN Hash slot not served"),
            30 if is_script => Fault::Refuse("MASTERDOWN Link with MASTER is down"),
            31 if is_script => Fault::Refuse("READONLY You can't write against a read only replica."),
            _ => return None,
        })
    });
}

/// Does what the plan has, each when so many calls have ended. `first` is the length of the data that is never lost.
pub fn wreak(servers: &mut Servers, history: &History, schedule: &Schedule, first: usize) {
    for (after, chaos) in &schedule.chaos {
        if !history.wait_for(*after) {
            return;
        }
        history.note(&format!("{chaos:?} begins"));
        match (chaos, &mut *servers) {
            (Chaos::Pair { .. } | Chaos::Move { .. }, Servers::Cluster(cluster)) => {
                failovers::wreak(chaos, cluster, history, schedule);
            }
            (Chaos::Kill, Servers::One(redis)) => {
                redis.kill9();
                redis.restart();
            }
            (Chaos::Loss { bytes }, Servers::One(redis)) => {
                redis.kill9();
                let path = writes_of(redis);
                let mut writes = fs::read(&path).unwrap();
                writes.truncate(writes.len().saturating_sub(*bytes).max(first));
                // Behind a whole call: a server that starts with half of one in its file may mix it with a later one.
                let end = memchr::memmem::rfind(&writes, EXEC).map_or(0, |at| at + EXEC.len());
                writes.truncate(end.max(first));
                fs::write(&path, writes).unwrap();
                redis.restart();
            }
            (Chaos::Freeze { ms }, Servers::One(redis)) => {
                redis.freeze();
                thread::sleep(Duration::from_millis(*ms));
                redis.thaw();
            }
            (Chaos::Foreign { activity, write, units }, servers) => {
                let (layout, id) = (schedule.layout, &schedule.activities[*activity].id);
                let keys = (layout.stock(id), layout.participants(id));
                let redis = servers.of(&keys.0);
                let (stock, counter) = effect(*write);
                redis.cmd(("EVAL", FOREIGN, 2, keys, stock, counter, units.to_string()));
            }
            (Chaos::FlushScripts, servers) => each(servers, &["SCRIPT", "FLUSH"]),
            (Chaos::KillClients, servers) => each(servers, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]),
            (chaos, _) => panic!("{chaos:?} is of other servers"),
        }
        history.note(&format!("{chaos:?} ended"));
    }
}

fn each(servers: &Servers, command: &[&str]) {
    match servers {
        Servers::One(redis) => drop(redis.cmd(command)),
        Servers::Cluster(cluster) => cluster.nodes().iter().for_each(|node| drop(node.cmd(command))),
    }
}
