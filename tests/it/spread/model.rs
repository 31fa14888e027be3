//! The protocol of an order of activities in several slots, without a server: every interleaving of its steps with crashes of the
//! client, a second try, the sweeper (`expire`), calls that come late or twice, and nodes that lose what no replica has.
//!
//! An item's calls and their table of states are those of `lua/settle.lua`; the order of steps is that of `sell/multi_orders.rs`.

use std::collections::HashSet;

/// Items of the order; the first is the primary.
const ITEMS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Item {
    Absent,
    Held,
    Confirmed,
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Hold,
    Confirm,
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reply {
    Ok,
    /// Sold out, or over the limit: nothing is written.
    Refused,
    Void,
    Confirmed,
}

/// What the protocol does; each may be left out, which must be noticed.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// An abort of an unknown id is kept, so that a late hold is refused.
    tombstone: bool,
    /// The primary is confirmed before the others.
    primary_first: bool,
    /// Waits for a replica after the holds, after the commit, after the abort of the primary.
    waits: [bool; 3],
    /// A call that finds its record writes it again, so that the wait covers it.
    writes_again: bool,
}

const SOUND: Rules = Rules { tombstone: true, primary_first: true, waits: [true; 3], writes_again: true };

/// An item on its node: as it is, and as its replica has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    now: Item,
    replica: Item,
    /// Whether it has nothing to sell.
    is_sold_out: bool,
}

/// Who sends calls: the client, or the sweeper for an overdue item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Holds are sent; those of these items are answered.
    Holding { done: u8, refused: bool },
    /// The primary's commit.
    Committing,
    /// The others are confirmed; these are.
    Confirming { done: u8 },
    /// The primary's abort; afterwards this item (of the sweeper), or all of them.
    Aborting { item: Option<usize> },
    /// The others are aborted; these are.
    Releasing { done: u8 },
    /// The sweeper confirms or aborts an item.
    Settling { item: usize, confirm: bool },
    /// Nobody is there, or its work is done.
    Gone,
}

/// A client whose call was executed, and whose wait has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Actor {
    phase: Phase,
    pending: Option<(usize, Reply)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; ITEMS],
    client: Actor,
    sweeper: Actor,
    /// Calls that were sent once, a bit each: they may come again at any time.
    sent: u16,
    tries_left: u8,
    failovers_left: u8,
}

fn bit(item: usize, call: Call) -> u16 {
    1 << (item * 3 + call as usize)
}

impl State {
    /// Executes a call at an item's node.
    fn execute(&mut self, item: usize, call: Call, rules: Rules) -> Reply {
        self.sent |= bit(item, call);
        let node = &mut self.nodes[item];
        let (next, reply) = match (call, node.now) {
            (Call::Hold, Item::Absent) if node.is_sold_out => (None, Reply::Refused),
            (Call::Hold, Item::Absent) => (Some(Item::Held), Reply::Ok),
            (Call::Hold, Item::Held | Item::Confirmed) => (None, Reply::Ok),
            (Call::Hold | Call::Confirm, Item::Void) => (None, Reply::Void),
            (Call::Confirm, Item::Absent) => (None, Reply::Refused),
            (Call::Confirm, Item::Held) => (Some(Item::Confirmed), Reply::Ok),
            (Call::Confirm, Item::Confirmed) => (None, Reply::Ok),
            (Call::Abort, Item::Absent) => (rules.tombstone.then_some(Item::Void), Reply::Ok),
            (Call::Abort, Item::Held) => (Some(Item::Void), Reply::Ok),
            (Call::Abort, Item::Void) => (None, Reply::Ok),
            (Call::Abort, Item::Confirmed) => (None, Reply::Confirmed),
        };
        if let Some(next) = next {
            node.now = next;
        }
        reply
    }

    /// An order is never split: what is confirmed, the primary decided.
    fn is_sound(&self) -> bool {
        let [primary, others @ ..] = self.nodes.map(|node| node.now);
        others.iter().all(|other| match (primary, other) {
            (Item::Confirmed, Item::Void) => false,
            (Item::Confirmed, _) => true,
            (_, Item::Confirmed) => false,
            _ => true,
        })
    }

    /// Nobody is there, and no call will come: nothing is held that only one of them could end.
    fn is_settled(&self) -> bool {
        let states = self.nodes.map(|node| node.now);
        states.iter().all(|state| *state == Item::Confirmed) || !states.contains(&Item::Confirmed)
    }
}

/// The calls that a client may send next.
fn calls(phase: Phase, rules: Rules) -> Vec<(usize, Call)> {
    let missing =
        |done: u8, call| (0..ITEMS).filter(move |item| done & (1 << item) == 0).map(move |item| (item, call)).collect();
    match phase {
        Phase::Holding { done, .. } => missing(done, Call::Hold),
        Phase::Committing if rules.primary_first => vec![(0, Call::Confirm)],
        Phase::Committing => (0..ITEMS).map(|item| (item, Call::Confirm)).collect(),
        Phase::Confirming { done } => missing(done, Call::Confirm),
        Phase::Aborting { .. } => vec![(0, Call::Abort)],
        Phase::Releasing { done } => missing(done, Call::Abort),
        Phase::Settling { item, confirm } => vec![(item, if confirm { Call::Confirm } else { Call::Abort })],
        Phase::Gone => Vec::new(),
    }
}

/// What a client does after a reply.
fn after(phase: Phase, item: usize, reply: Reply) -> Phase {
    let all = (1 << ITEMS) - 1;
    match phase {
        Phase::Holding { done, refused } => {
            let (done, refused) = (done | 1 << item, refused || reply != Reply::Ok);
            match (done == all, refused) {
                (true, true) => Phase::Aborting { item: None },
                (true, false) => Phase::Committing,
                (false, _) => Phase::Holding { done, refused },
            }
        }
        Phase::Committing if reply == Reply::Ok => Phase::Confirming { done: 1 << item },
        Phase::Committing => Phase::Aborting { item: None },
        Phase::Confirming { done } if done | 1 << item == all => Phase::Gone,
        Phase::Confirming { done } => Phase::Confirming { done: done | 1 << item },
        Phase::Aborting { item: None } if reply == Reply::Confirmed => Phase::Confirming { done: 1 },
        Phase::Aborting { item: None } => Phase::Releasing { done: 1 },
        Phase::Aborting { item: Some(0) } => Phase::Gone,
        Phase::Aborting { item: Some(item) } => Phase::Settling { item, confirm: reply == Reply::Confirmed },
        Phase::Releasing { done } if done | 1 << item == all => Phase::Gone,
        Phase::Releasing { done } => Phase::Releasing { done: done | 1 << item },
        Phase::Settling { .. } | Phase::Gone => Phase::Gone,
    }
}

/// Which of the three waits follows a call, if any.
fn wait_of(phase: Phase) -> Option<usize> {
    match phase {
        Phase::Holding { .. } => Some(0),
        Phase::Committing => Some(1),
        Phase::Aborting { .. } => Some(2),
        _ => None,
    }
}

/// All states that one step leads to.
fn next(state: &State, rules: Rules) -> Vec<State> {
    let mut found = Vec::new();
    for is_client in [true, false] {
        let actor = if is_client { state.client } else { state.sweeper };
        let put =
            |state: &mut State, actor: Actor| if is_client { state.client = actor } else { state.sweeper = actor };
        if let Some((item, reply)) = actor.pending {
            // The wait ends: a replica has what the call wrote, and what was there, if it was written again.
            let mut waited = *state;
            let node = &mut waited.nodes[item];
            if wait_of(actor.phase).is_some_and(|wait| rules.waits[wait])
                && (rules.writes_again || reply != Reply::Confirmed)
            {
                node.replica = node.now;
            }
            put(&mut waited, Actor { phase: after(actor.phase, item, reply), pending: None });
            found.push(waited);
        } else {
            for (item, call) in calls(actor.phase, rules) {
                let mut called = *state;
                let reply = called.execute(item, call, rules);
                put(&mut called, Actor { pending: Some((item, reply)), ..actor });
                found.push(called);
                // The call is under way when its sender is gone: it may come late.
                let mut lost = *state;
                lost.sent |= bit(item, call);
                put(&mut lost, Actor { phase: Phase::Gone, pending: None });
                found.push(lost);
            }
        }
        if actor.phase != Phase::Gone {
            let mut crashed = *state;
            put(&mut crashed, Actor { phase: Phase::Gone, pending: None });
            found.push(crashed);
        }
    }
    if state.client.phase == Phase::Gone && state.tries_left > 0 {
        let client = Actor { phase: Phase::Holding { done: 0, refused: false }, pending: None };
        found.push(State { client, tries_left: state.tries_left - 1, ..*state });
    }
    // A deadline may be over at any time.
    if state.sweeper.phase == Phase::Gone {
        for item in (0..ITEMS).filter(|item| state.nodes[*item].now == Item::Held) {
            let sweeper = Actor { phase: Phase::Aborting { item: Some(item) }, pending: None };
            found.push(State { sweeper, ..*state });
        }
    }
    // Calls that come late or twice; nobody reads their replies.
    for item in 0..ITEMS {
        for call in [Call::Hold, Call::Confirm, Call::Abort] {
            if state.sent & bit(item, call) != 0 {
                let mut late = *state;
                late.execute(item, call, rules);
                found.push(late);
            }
        }
    }
    // A replica takes over: what it has not is lost, and a client that waited there asks again.
    if state.failovers_left > 0 {
        for item in 0..ITEMS {
            let mut failed = State { failovers_left: state.failovers_left - 1, ..*state };
            failed.nodes[item].now = failed.nodes[item].replica;
            for actor in [&mut failed.client, &mut failed.sweeper] {
                if actor.pending.is_some_and(|(at, _)| at == item) {
                    actor.pending = None;
                }
            }
            found.push(failed);
        }
    }
    found
}

/// Goes through all states that can be reached: how many, and the first in which an order is split.
fn explore(rules: Rules, failovers: u8, sold_out: Option<usize>) -> (usize, Option<State>) {
    let node = |item| Node { now: Item::Absent, replica: Item::Absent, is_sold_out: Some(item) == sold_out };
    let gone = Actor { phase: Phase::Gone, pending: None };
    let start = State {
        nodes: [node(0), node(1), node(2)],
        client: gone,
        sweeper: gone,
        sent: 0,
        tries_left: 2,
        failovers_left: failovers,
    };
    let (mut seen, mut waiting) = (HashSet::from([start]), vec![start]);
    while let Some(state) = waiting.pop() {
        let after = next(&state, rules);
        let is_over = state.client.phase == Phase::Gone
            && state.sweeper.phase == Phase::Gone
            && state.nodes.iter().all(|node| node.now != Item::Held);
        if !state.is_sound() || is_over && !state.is_settled() {
            return (seen.len(), Some(state));
        }
        waiting.extend(after.into_iter().filter(|state| seen.insert(*state)));
    }
    (seen.len(), None)
}

#[test]
fn an_order_is_never_split_whatever_is_lost_late_or_repeated() {
    for sold_out in [None, Some(0), Some(1)] {
        let (states, split) = explore(SOUND, 0, sold_out);
        assert!(split.is_none(), "{split:?}");
        assert!(states > 500, "{states}");
    }
}

#[test]
fn an_order_is_never_split_by_two_failovers() {
    let (states, split) = explore(SOUND, 2, None);
    assert!(split.is_none(), "{split:?}");
    assert!(states > 50_000, "{states}");
}

#[test]
fn each_rule_that_is_left_out_splits_an_order() {
    let is_noticed = |rules, failovers, sold_out| explore(rules, failovers, sold_out).1.is_some();
    assert!(is_noticed(Rules { tombstone: false, ..SOUND }, 0, None), "a late hold after an abort");
    assert!(is_noticed(Rules { primary_first: false, ..SOUND }, 0, None));
    for wait in 0..3 {
        let mut rules = SOUND;
        rules.waits[wait] = false;
        assert!(is_noticed(rules, 2, None), "wait {wait}");
    }
    assert!(is_noticed(Rules { writes_again: false, ..SOUND }, 2, None));
}
