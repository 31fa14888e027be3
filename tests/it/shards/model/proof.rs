//! The proof that a sale is sold out: two looks at all shards, one by one, while units are transferred, sold and returned. Whoever is
//! refused must be able to name an instant at which too few units existed.

use super::explore;

const SHARDS: usize = 3;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// One look is enough.
    OneLook,
    /// Units in transit do not count.
    TransitIsNothing,
    /// Nobody looks whether a ledger grew.
    LedgersAreIgnored,
    /// The second look begins before the first has ended.
    LooksOverlap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    stock: [u8; SHARDS],
    /// Entries of each ledger.
    ledger: [u8; SHARDS],
    /// One transfer at a time: donor, home and units; the id is in the donor's list until it is settled.
    transfer: Option<(u8, u8, u8)>,
    has_arrived: bool,
    /// Others may do so much more.
    budget: u8,
    /// The shards that each look has seen, and what it saw: units, and the ledgers of the first.
    seen: [u8; 2],
    units: [u8; 2],
    ledgers: [u8; SHARDS],
    has_grown: bool,
    /// Units that existed at the end of the first look, and the fewest since the look began.
    between: u8,
    fewest: u8,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Look number, shard.
    Look(usize, usize),
    Lend(usize, usize),
    Arrive,
    Settle,
    Buy(usize),
    Return(usize),
}

impl State {
    fn exists(&self) -> u8 {
        let transit = self.transfer.filter(|_| !self.has_arrived).map_or(0, |(_, _, units)| units);
        self.stock.iter().sum::<u8>() + transit
    }

    /// Whether the order is refused, if fewer than `quantity` units prove it.
    fn is_refused(&self, quantity: u8, flaw: Flaw) -> bool {
        let first = self.seen[0] == 7 && self.units[0] < quantity;
        match flaw {
            Flaw::OneLook => first,
            _ => {
                first
                    && self.seen[1] == 7
                    && self.units[1] < quantity
                    && (!self.has_grown || flaw == Flaw::LedgersAreIgnored)
            }
        }
    }
}

fn events(state: &State, flaw: Flaw) -> Vec<Event> {
    let mut events = Vec::new();
    for shard in 0..SHARDS {
        if state.seen[0] & (1 << shard) == 0 {
            events.push(Event::Look(0, shard));
        }
        let may_begin = state.seen[0] == 7 || flaw == Flaw::LooksOverlap && state.seen[0] & (1 << shard) != 0;
        if may_begin && state.seen[1] & (1 << shard) == 0 {
            events.push(Event::Look(1, shard));
        }
        if state.budget > 0 {
            events.extend([Event::Buy(shard), Event::Return(shard)]);
            events.extend((0..SHARDS).filter(|home| *home != shard).map(|home| Event::Lend(shard, home)));
        }
    }
    if state.transfer.is_some() {
        events.push(if state.has_arrived { Event::Settle } else { Event::Arrive });
    }
    events
}

fn after(state: &State, event: Event, flaw: Flaw) -> Option<State> {
    let mut next = *state;
    match event {
        Event::Look(look, shard) => {
            next.seen[look] |= 1 << shard;
            let open = state.transfer.filter(|(donor, _, _)| usize::from(*donor) == shard);
            let open = open.filter(|_| flaw != Flaw::TransitIsNothing).map_or(0, |(_, _, units)| units);
            next.units[look] += state.stock[shard] + open;
            if look == 0 {
                next.ledgers[shard] = state.ledger[shard];
                next.between = state.exists();
            } else {
                next.has_grown |= state.ledger[shard] != state.ledgers[shard];
            }
            return Some(next);
        }
        Event::Lend(donor, home) => {
            if state.stock[donor] == 0 || state.transfer.is_some() {
                return None;
            }
            next.stock[donor] -= 1;
            next.ledger[donor] += 1;
            next.transfer = Some((u8::try_from(donor).unwrap(), u8::try_from(home).unwrap(), 1));
            next.has_arrived = false;
            next.budget -= 1;
        }
        Event::Arrive => {
            let (_, home, units) = state.transfer?;
            next.stock[usize::from(home)] += units;
            next.ledger[usize::from(home)] += 1;
            next.has_arrived = true;
        }
        Event::Settle => next.transfer = None,
        Event::Buy(shard) => {
            next.stock[shard] = state.stock[shard].checked_sub(1)?;
            next.ledger[shard] += 1;
            next.budget -= 1;
        }
        Event::Return(shard) => {
            next.stock[shard] += 1;
            next.ledger[shard] += 1;
            next.budget -= 1;
        }
    }
    next.fewest = next.fewest.min(next.exists());
    Some(next)
}

/// Looks at all interleavings of an order of `quantity` units.
fn run(stock: [u8; SHARDS], quantity: u8, flaw: Flaw) -> Result<usize, String> {
    let first = State {
        stock,
        ledger: [0; SHARDS],
        transfer: None,
        has_arrived: false,
        budget: 3,
        seen: [0; 2],
        units: [0; 2],
        ledgers: [0; SHARDS],
        has_grown: false,
        between: 0,
        fewest: stock.iter().sum(),
    };
    explore(
        first,
        |state| events(state, flaw),
        |state, event| after(state, event, flaw),
        |state| match state.is_refused(quantity, flaw) {
            true if state.fewest >= quantity => {
                Err(format!("refused, though {} units were always there", state.fewest))
            }
            true if flaw == Flaw::None && state.between >= quantity => {
                Err("refused, though it was not so between".to_owned())
            }
            _ => Ok(()),
        },
    )
}

#[test]
fn whoever_is_refused_can_name_an_instant_with_too_few_units() {
    for (stock, quantity) in [([1, 0, 0], 1), ([0, 1, 1], 2)] {
        let states = run(stock, quantity, Flaw::None).unwrap_or_else(|broken| panic!("{stock:?} {quantity}: {broken}"));
        assert!(states > 1_000, "only {states} states");
    }
}

#[test]
fn each_broken_rule_of_the_proof_is_noticed() {
    for flaw in [Flaw::OneLook, Flaw::TransitIsNothing, Flaw::LedgersAreIgnored, Flaw::LooksOverlap] {
        let broken = run([1, 0, 0], 1, flaw).err().unwrap_or_default();
        assert!(broken.starts_with("refused, though 1 units were always there"), "{flaw:?} is not noticed: {broken}");
    }
}
