//! The slots of a night's cluster: which node serves which, and slots that move from one to the other, key by key.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use seckill::internals::slot;

use super::history::Plan;
use super::keys::{Bytes, Keys, Reply, integer};
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

/// Two nodes without replicas.
#[derive(Default)]
pub struct Slots {
    /// Of slots that are not where they were at first.
    owners: BTreeMap<u16, usize>,
    moves: BTreeMap<u16, Move>,
    /// The SHA-1 of scripts that each node has.
    pub loaded: [BTreeSet<Bytes>; 2],
}

/// The node that a process connects to.
pub fn node_at(endpoint: &str) -> usize {
    let port = endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(PORT);
    usize::from(port - PORT)
}

fn port(node: usize) -> u16 {
    PORT + node as u16
}

/// The keys of a command.
fn keys_of(command: &[Bytes]) -> &[Bytes] {
    match command[0].to_ascii_uppercase().as_slice() {
        b"EVALSHA" | b"EVAL" => {
            let count = integer(&command[2]).and_then(|count| usize::try_from(count).ok()).expect("a number of keys");
            &command[3..3 + count]
        }
        b"XREAD" => &command[4..5],
        b"XINFO" => &command[2..3],
        b"TIME" | b"SCRIPT" | b"ROLE" | b"CLUSTER" | b"WAIT" | b"ASKING" | b"MULTI" | b"EXEC" => &[],
        _ => &command[1..2],
    }
}

impl Slots {
    fn owner(&self, slot: u16) -> usize {
        self.owners.get(&slot).copied().unwrap_or_else(|| usize::from(slot >= SLOTS / 2))
    }

    /// What a node replies to a command that it does not run.
    pub fn reply(&self, node: usize, command: &[Bytes], asks: bool, keys: &Keys) -> Option<Reply> {
        match (command[0].as_slice(), command.get(1).map(Vec::as_slice)) {
            (b"ASKING", _) => return Some(Reply::Status("OK")),
            (b"CLUSTER", Some(b"SLOTS")) => return Some(self.map()),
            (b"CLUSTER", Some(b"NODES")) => return Some(Reply::text(&nodes())),
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
            None if owner == node => None,
            Some(Move { to, moved }) if owner == node => {
                let is_here = |key: &&Bytes| keys.0.contains_key(*key) && !moved.contains(*key);
                match names.iter().filter(is_here).count() {
                    here if here == names.len() => None,
                    0 => refusal(format!("ASK {of} {HOST}:{}", port(*to))),
                    _ => try_again(),
                }
            }
            Some(Move { to, moved }) if *to == node && asks => {
                let is_here = |key: &Bytes| keys.0.contains_key(key) && moved.contains(key);
                if names.len() > 1 && !names.iter().all(is_here) { try_again() } else { None }
            }
            _ => refusal(format!("MOVED {of} {HOST}:{}", port(owner))),
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

    /// Moves one key of a slot, or, if none is left, the slot; true if it is not done.
    pub fn move_key(&mut self, of: u16, keys: &Keys) -> bool {
        let Some(Move { to, moved }) = self.moves.get_mut(&of) else { return false };
        let next = keys.0.keys().find(|key| !moved.contains(*key) && slot(key) == of);
        match next {
            Some(key) => moved.insert(key.clone()),
            None => {
                self.owners.insert(of, *to);
                self.moves.remove(&of).is_none()
            }
        }
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
            let node = vec![Reply::text(HOST), number(port(node)), Reply::text(&id(node))];
            Reply::Array(vec![number(first), number(last), Reply::Array(node)])
        };
        Reply::Array(ranges.map(range).collect())
    }
}

#[test]
fn nights_on_a_cluster_meet_each_redirection() {
    let engine = Rc::new(Engine::new(|_, text| text.to_owned()));
    let mut story = Vec::new();
    for plan in (0..300).map(Plan::of) {
        night::run(&engine, &plan, Some(&mut story)).expect("no promise is broken");
    }
    for word in ["MOVED ", "ASK ", "TRYAGAIN ", "ASKING", "EXECABORT "] {
        assert!(story.iter().any(|line| line.contains(word)), "no night meets {word}");
    }
}

fn id(node: usize) -> String {
    format!("node{node}")
}

/// `CLUSTER NODES`, as far as the client reads it: no node has a replica.
fn nodes() -> String {
    let line = |node| format!("{} {HOST}:{}@1 master - 0 0 1 connected\n", id(node), port(node));
    [0, 1].map(line).concat()
}
