//! The slots of a night's cluster: which node serves which, and slots that move from one to the other, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seckill::internals::slot;

use super::history::Plan;
use super::keys::{self, Bytes, Keys, Reply, integer};
use super::night;
use super::script::Engine;

const SLOTS: u16 = 16_384;
/// Where the nodes are: the first is the seed.
const HOST: &str = "simulated";
const PORT: u16 = 6379;

/// A slot on its way.
struct Move {
    to: usize,
    /// Keys that are there.
    moved: BTreeSet<Bytes>,
}

/// How many nodes serve slots.
pub const NODES: usize = 2;

/// Two nodes, each at one of two places: where it is not, there is its replica, if it has one.
pub struct Slots {
    /// Of slots that are not where they were at first.
    owners: BTreeMap<u16, usize>,
    moves: BTreeMap<u16, Move>,
    places: [usize; NODES],
    /// The nodes that a replica follows.
    pub followed: [bool; NODES],
    /// The SHA-1 of scripts that there are at each place.
    pub loaded: [BTreeSet<Bytes>; 2 * NODES],
}

/// The place that a process connects to.
pub fn place_at(endpoint: &str) -> usize {
    let port = endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(PORT);
    usize::from(port - PORT)
}

/// Which node is at a place, or its replica.
pub fn node_at(place: usize) -> usize {
    place % NODES
}

fn port(place: usize) -> u16 {
    PORT + place as u16
}

/// The keys of a command.
fn keys_of(command: &[Bytes]) -> &[Bytes] {
    let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
    match name.as_str() {
        "EVALSHA" | "EVAL" => {
            let count = integer(&command[2]).and_then(|count| usize::try_from(count).ok()).expect("a number of keys");
            &command[3..3 + count]
        }
        "XREAD" => &command[4..5],
        "SCRIPT" | "ROLE" | "CLUSTER" | "WAIT" | "ASKING" | "MULTI" | "EXEC" => &[],
        name => keys::keys_of(name, &command[1..]),
    }
}

impl Default for Slots {
    fn default() -> Self {
        let (places, followed) = ([0, 1], [false; NODES]);
        Self { owners: BTreeMap::new(), moves: BTreeMap::new(), places, followed, loaded: Default::default() }
    }
}

impl Slots {
    /// A node has lost its scripts.
    pub fn forget_scripts(&mut self, node: usize) {
        self.loaded[self.places[node]].clear();
    }

    /// Whether a node is at a place, and not its replica.
    pub fn is_primary(&self, place: usize) -> bool {
        self.places[node_at(place)] == place
    }

    /// Whether a key is at a node.
    pub fn is_served(&self, node: usize, key: &Bytes) -> bool {
        match self.moves.get(&slot(key)) {
            Some(Move { to, moved }) if moved.contains(key) => *to == node,
            _ => self.owner(slot(key)) == node,
        }
    }

    /// The replica of a node takes over where it is, with these keys.
    pub fn promote(&mut self, node: usize, keys: &mut Keys, promoted: Keys) {
        keys.0.retain(|key, _| !self.is_served(node, key));
        keys.0.extend(promoted.0);
        self.places[node] = (self.places[node] + NODES) % (2 * NODES);
    }

    fn owner(&self, slot: u16) -> usize {
        self.owners.get(&slot).copied().unwrap_or_else(|| usize::from(slot >= SLOTS / 2))
    }

    /// What a node, or its replica, replies to a command that it does not run.
    pub fn reply(&self, place: usize, command: &[Bytes], asks: bool, keys: &Keys) -> Option<Reply> {
        let (node, is_replica) = (node_at(place), !self.is_primary(place));
        match (command[0].as_slice(), command.get(1).map(Vec::as_slice)) {
            (b"ASKING", _) => return Some(Reply::Status("OK")),
            (b"CLUSTER", Some(b"SLOTS")) => return Some(self.map()),
            (b"CLUSTER", Some(b"NODES")) => return Some(Reply::text(&self.nodes())),
            (b"WAIT", _) if is_replica => {
                return Some(Reply::Error("ERR WAIT cannot be used with replica instances.".to_owned()));
            }
            (b"ROLE", _) if is_replica => {
                return Some(Reply::Array(["slave", HOST, "6379", "connected", "0"].map(Reply::text).into()));
            }
            _ => {}
        }
        let names = keys_of(command);
        let of = slot(names.first()?);
        if names.iter().any(|key| slot(key) != of) {
            return Some(Reply::Error("CROSSSLOT Keys in request don't hash to the same slot".to_owned()));
        }
        let refusal = |text: String| Some(Reply::Error(text));
        let try_again = || refusal("TRYAGAIN Multiple keys request during rehashing of slot".to_owned());
        let owner = self.owner(of);
        match self.moves.get(&of) {
            _ if is_replica => refusal(format!("MOVED {of} {HOST}:{}", port(self.places[owner]))),
            None if owner == node => None,
            Some(Move { to, moved }) if owner == node => {
                let is_here = |key: &&Bytes| keys.0.contains_key(*key) && !moved.contains(*key);
                match names.iter().filter(is_here).count() {
                    here if here == names.len() => None,
                    0 => refusal(format!("ASK {of} {HOST}:{}", port(self.places[*to]))),
                    _ => try_again(),
                }
            }
            Some(Move { to, moved }) if *to == node && asks => {
                let is_here = |key: &Bytes| keys.0.contains_key(key) && moved.contains(key);
                if names.len() > 1 && !names.iter().all(is_here) { try_again() } else { None }
            }
            _ => refusal(format!("MOVED {of} {HOST}:{}", port(self.places[owner]))),
        }
    }

    /// A command ran at the node that a slot goes to: what it made is there.
    pub fn note_run(&mut self, node: usize, command: &[Bytes]) {
        for key in keys_of(command) {
            if let Some(Move { moved, .. }) = self.moves.get_mut(&slot(key)).filter(|it| it.to == node) {
                moved.insert(key.clone());
            }
        }
    }

    /// A slot begins to move to the other node; false if it is on its way already.
    pub fn begin_move(&mut self, slot: u16) -> bool {
        let to = 1 - self.owner(slot);
        self.moves.insert(slot, Move { to, moved: BTreeSet::new() }).is_none_or(|before| {
            self.moves.insert(slot, before);
            false
        })
    }

    /// Moves one key of a slot, and gives its name, or, if none is left, the slot.
    pub fn move_key(&mut self, of: u16, keys: &Keys) -> Option<Bytes> {
        let Move { to, moved } = self.moves.get_mut(&of)?;
        let next = keys.0.keys().find(|key| !moved.contains(*key) && slot(key) == of).cloned();
        match &next {
            Some(key) => _ = moved.insert(key.clone()),
            None => {
                self.owners.insert(of, *to);
                self.moves.remove(&of);
            }
        }
        next
    }

    /// `CLUSTER SLOTS`.
    fn map(&self) -> Reply {
        let number = |number: u16| Reply::Int(number.into());
        // A range begins in the middle, and at a slot that moved and behind it.
        let moved = self.owners.keys().flat_map(|slot| [*slot, slot + 1]);
        let begins: BTreeSet<u16> = [0, SLOTS / 2].into_iter().chain(moved).filter(|slot| *slot < SLOTS).collect();
        let ends = begins.iter().skip(1).map(|next| next - 1).chain([SLOTS - 1]);
        let ranges = begins.iter().zip(ends).map(|(first, last)| (*first, last, self.owner(*first)));
        let range = |(first, last, node): (u16, u16, usize)| {
            let at = |place| Reply::Array(vec![Reply::text(HOST), number(port(place)), Reply::text(&id(place))]);
            let places = std::iter::once(self.places[node]).chain(self.replica_of(node));
            Reply::Array([number(first), number(last)].into_iter().chain(places.map(at)).collect())
        };
        Reply::Array(ranges.map(range).collect())
    }

    /// Where the replica of a node is.
    fn replica_of(&self, node: usize) -> Option<usize> {
        self.followed[node].then_some((self.places[node] + NODES) % (2 * NODES))
    }

    /// `CLUSTER NODES`, as far as the client reads it.
    fn nodes(&self) -> String {
        let line = |place, role: &str, of: &str| {
            format!("{} {HOST}:{}@1 {role} {of} 0 0 1 connected\n", id(place), port(place))
        };
        let lines = |node| {
            let place = self.places[node];
            let replica = self.replica_of(node).map(|replica| line(replica, "slave", &id(place)));
            line(place, "master", "-") + &replica.unwrap_or_default()
        };
        (0..NODES).map(lines).collect()
    }
}

#[test]
fn nights_on_a_cluster_meet_each_redirection() {
    let engine = Rc::new(Engine::new(|_, text| text.to_owned()));
    let mut missing = vec!["MOVED ", "ASK ", "TRYAGAIN ", "ASKING", "EXECABORT "];
    for plan in (0..3000).map(Plan::of) {
        let mut story = Vec::new();
        night::run(&engine, &plan, Some(&mut story)).expect("no promise is broken");
        missing.retain(|word| !story.iter().any(|line| line.contains(word)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("no night meets {missing:?}");
}

fn id(place: usize) -> String {
    format!("node{place}")
}
