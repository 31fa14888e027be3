//! Transfers of three shards. Each script is one step, because a server runs it as one and its replica gets it as one; what can
//! come between are the steps of others, the loss of a reply, the death of a client, and a failover to a replica that lags.

use super::explore;

const SHARDS: usize = 3;
const CLIENTS: usize = 2;

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    /// Units arrive though no replica of the donor has the lend.
    NoWaitAtDonor,
    /// The finisher gives units without waiting.
    FinisherDoesNotWait,
    /// An id goes out of the donor's list though no replica of the home has the borrow.
    NoWaitAtHome,
    /// A script that finds its record writes nothing, so that a WAIT behind it waits for nothing.
    ReplayWritesNothing,
    /// `borrow` does not look whether the units have arrived.
    ArrivesTwice,
    /// `lend` does not look whether it has lent.
    LendsTwice,
    /// One id for the transfers of two donors.
    OneIdForTwoDonors,
    /// An id goes out of the list as soon as the units are lent.
    SettledTooEarly,
    /// Nobody looks at epochs.
    NoEpochs,
}

/// What one client wants: units of a donor for a home.
#[derive(Clone, Copy, Debug)]
struct Wish {
    donor: usize,
    home: usize,
    units: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shard {
    epoch: u8,
    stock: u8,
    bought: u8,
    /// Units that each id lent, and to whom; 0 if it did not.
    lent: [u8; CLIENTS],
    to: [u8; CLIENTS],
    /// Ids in the list of open transfers, and ids that arrived here.
    open: u8,
    arrived: u8,
}

/// Where a client, or the finisher of its transfer, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Begin,
    /// It was lent; whether that call wrote.
    Lent(u8, bool),
    /// A replica has the lend.
    Covered(u8),
    /// It has arrived; whether that call wrote.
    Arrived(bool),
    /// A replica has the borrow.
    Settling,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    /// What primaries have, and what their replicas have.
    now: [Shard; SHARDS],
    replica: [Shard; SHARDS],
    client: [At; CLIENTS],
    finisher: [At; CLIENTS],
    /// Messages that were sent, by client: a lend, a borrow with its units, a removal.
    sent_lend: u8,
    sent_borrow: [u8; CLIENTS],
    sent_settle: u8,
    failovers: u8,
    /// Shards that were reset.
    reset: u8,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next step of a client; a call whose reply is lost is that of `Late`, and a client that dies takes no more steps.
    Client(usize),
    Finisher(usize),
    /// A WAIT of a client or a finisher times out.
    TimedOut(usize),
    FinisherTimedOut(usize),
    /// A message that was sent comes again, or only now.
    LateLend(usize),
    LateBorrow(usize),
    LateSettle(usize),
    Replicate(usize),
    Failover(usize),
    Reset(usize),
    /// A user buys a unit.
    Buy(usize),
}

struct Search {
    wishes: [Wish; CLIENTS],
    stocks: [u8; SHARDS],
    flaw: Flaw,
    failovers: u8,
    resets: bool,
}

impl Search {
    fn first(&self) -> State {
        let shard = |stock| Shard { epoch: 0, stock, bought: 0, lent: [0; 2], to: [0; 2], open: 0, arrived: 0 };
        let now = self.stocks.map(shard);
        State {
            now,
            replica: now,
            client: [At::Begin; CLIENTS],
            finisher: [At::Begin; CLIENTS],
            sent_lend: 0,
            sent_borrow: [0; CLIENTS],
            sent_settle: 0,
            failovers: 0,
            reset: 0,
        }
    }

    fn id(&self, client: usize) -> usize {
        if self.flaw == Flaw::OneIdForTwoDonors { 0 } else { client }
    }

    /// A client that waits for replicas of a shard that fails over gets no reply, and sends its call again; what is not waited for is not missed.
    fn break_connections(&self, state: &mut State, shard: usize) {
        for client in 0..CLIENTS {
            let Wish { donor, home, .. } = self.wishes[client];
            let flaws = [Flaw::NoWaitAtDonor, Flaw::FinisherDoesNotWait];
            for (at, flaws) in [(&mut state.client[client], &flaws[..1]), (&mut state.finisher[client], &flaws[..])] {
                *at = match *at {
                    At::Lent(..) if donor == shard && !flaws.contains(&self.flaw) => At::Begin,
                    At::Arrived(_) if home == shard && self.flaw != Flaw::NoWaitAtHome => At::End,
                    at => at,
                };
            }
        }
    }

    /// The script `lend` with the id of a client; `need` 0 begins nothing. Gives the units and whether it wrote.
    fn lend(&self, state: &mut State, client: usize, need: u8) -> Option<(u8, bool)> {
        let (wish, id) = (self.wishes[client], self.id(client));
        let donor = &mut state.now[wish.donor];
        if donor.epoch != 0 && self.flaw != Flaw::NoEpochs {
            return None;
        }
        if donor.lent[id] > 0 && (self.flaw != Flaw::LendsTwice || need == 0) {
            return Some((donor.lent[id], self.flaw != Flaw::ReplayWritesNothing));
        }
        let units = need.min(donor.stock);
        if units == 0 {
            return None;
        }
        donor.stock -= units;
        donor.lent[id] = units;
        donor.to[id] = u8::try_from(wish.home).unwrap();
        if self.flaw != Flaw::SettledTooEarly {
            donor.open |= 1 << id;
        }
        Some((units, true))
    }

    /// The script `borrow`; `None` if it is refused, else whether it wrote.
    fn borrow(&self, state: &mut State, client: usize, units: u8) -> Option<bool> {
        let (wish, id) = (self.wishes[client], self.id(client));
        let home = &mut state.now[wish.home];
        if home.epoch != 0 && self.flaw != Flaw::NoEpochs {
            return None;
        }
        if home.arrived & (1 << id) != 0 && self.flaw != Flaw::ArrivesTwice {
            return Some(self.flaw != Flaw::ReplayWritesNothing);
        }
        home.arrived |= 1 << id;
        home.stock += units;
        Some(true)
    }

    /// `lend` with the id as finished.
    fn settle(&self, state: &mut State, client: usize) {
        let donor = &mut state.now[self.wishes[client].donor];
        if donor.epoch == 0 {
            donor.open &= !(1 << self.id(client));
        }
    }

    /// A WAIT behind a call. It covers what the call wrote, and with it all before; nothing if it wrote nothing.
    fn wait(state: &mut State, shard: usize, wrote: bool) {
        if wrote {
            state.replica[shard] = state.now[shard];
        }
    }

    /// The next step of a client, or of the finisher, which begins nothing.
    fn step(&self, state: &mut State, client: usize, at: At, is_finisher: bool) -> At {
        let wish = self.wishes[client];
        let waits = match is_finisher {
            true => !matches!(self.flaw, Flaw::FinisherDoesNotWait | Flaw::NoWaitAtDonor),
            false => self.flaw != Flaw::NoWaitAtDonor,
        };
        match at {
            At::Begin => {
                if !is_finisher {
                    state.sent_lend |= 1 << client;
                }
                match self.lend(state, client, if is_finisher { 0 } else { wish.units }) {
                    Some((units, wrote)) => At::Lent(units, wrote),
                    None => At::End,
                }
            }
            At::Lent(units, wrote) => {
                if waits {
                    Self::wait(state, wish.donor, wrote);
                }
                At::Covered(units)
            }
            At::Covered(units) => {
                state.sent_borrow[client] = units;
                self.borrow(state, client, units).map_or(At::End, At::Arrived)
            }
            At::Arrived(wrote) => {
                if self.flaw != Flaw::NoWaitAtHome {
                    Self::wait(state, wish.home, wrote);
                }
                At::Settling
            }
            At::Settling => {
                state.sent_settle |= 1 << client;
                self.settle(state, client);
                At::End
            }
            At::End => At::End,
        }
    }

    fn events(&self, state: &State) -> Vec<Event> {
        let mut events = Vec::new();
        for client in 0..CLIENTS {
            if state.client[client] != At::End {
                events.push(Event::Client(client));
            }
            if matches!(state.client[client], At::Lent(..)) {
                events.push(Event::TimedOut(client));
            }
            let donor = &state.now[self.wishes[client].donor];
            // A client that finds the id in the donor's list.
            let is_open = donor.open & (1 << self.id(client)) != 0;
            if state.finisher[client] != At::End && (is_open || state.finisher[client] != At::Begin) {
                events.push(Event::Finisher(client));
            }
            if matches!(state.finisher[client], At::Lent(..) | At::Arrived(_)) {
                events.push(Event::FinisherTimedOut(client));
            }
            if state.sent_lend & (1 << client) != 0 {
                events.push(Event::LateLend(client));
            }
            if state.sent_borrow[client] > 0 {
                events.push(Event::LateBorrow(client));
            }
            if state.sent_settle & (1 << client) != 0 {
                events.push(Event::LateSettle(client));
            }
        }
        for shard in 0..SHARDS {
            // What is bought is as little in transit as what is in stock: looked at without failovers.
            if self.failovers == 0 {
                events.push(Event::Buy(shard));
            } else {
                events.push(Event::Replicate(shard));
                if state.failovers < self.failovers {
                    events.push(Event::Failover(shard));
                }
            }
            if self.resets && state.reset & (1 << shard) == 0 {
                events.push(Event::Reset(shard));
            }
        }
        events
    }

    fn after(&self, state: &State, event: Event) -> Option<State> {
        let mut next = *state;
        match event {
            Event::Client(client) => next.client[client] = self.step(&mut next, client, state.client[client], false),
            Event::Finisher(client) => {
                let at = self.step(&mut next, client, state.finisher[client], true);
                next.finisher[client] = at;
            }
            // The same lend again, with its id, and another WAIT.
            Event::TimedOut(client) => next.client[client] = At::Begin,
            Event::FinisherTimedOut(client) => next.finisher[client] = At::Begin,
            Event::LateLend(client) => drop(self.lend(&mut next, client, self.wishes[client].units)),
            Event::LateBorrow(client) => drop(self.borrow(&mut next, client, state.sent_borrow[client])),
            Event::LateSettle(client) => self.settle(&mut next, client),
            Event::Replicate(shard) => next.replica[shard] = state.now[shard],
            Event::Failover(shard) => {
                next.now[shard] = state.replica[shard];
                next.failovers += 1;
                self.break_connections(&mut next, shard);
            }
            Event::Reset(shard) => {
                let stock = self.stocks[shard];
                next.now[shard] = Shard { epoch: 1, stock, bought: 0, lent: [0; 2], to: [0; 2], open: 0, arrived: 0 };
                next.replica[shard] = next.now[shard];
                next.reset |= 1 << shard;
            }
            Event::Buy(shard) => {
                let shard = &mut next.now[shard];
                if shard.stock == 0 || self.resets {
                    return None;
                }
                (shard.stock, shard.bought) = (shard.stock - 1, shard.bought + 1);
            }
        }
        Some(next)
    }

    /// Units that were lent and have not arrived, by id and donor.
    fn in_transit(state: &State) -> Vec<(usize, usize, u8)> {
        let mut found = Vec::new();
        for (donor, shard) in state.now.iter().enumerate() {
            for id in 0..CLIENTS {
                let home = &state.now[usize::from(shard.to[id])];
                if shard.lent[id] > 0 && home.arrived & (1 << id) == 0 {
                    found.push((id, donor, shard.lent[id]));
                }
            }
        }
        found
    }

    fn check(&self, state: &State) -> Result<(), String> {
        // Between the resets of two shards, units are of two sales.
        if state.reset != 0 && state.reset != 7 {
            return Ok(());
        }
        let all: u8 = self.stocks.iter().sum();
        let here: u8 = state.now.iter().map(|shard| shard.stock + shard.bought).sum();
        let transit = Self::in_transit(state);
        let units = here + transit.iter().map(|(_, _, units)| units).sum::<u8>();
        if units != all {
            return Err(format!("{units} units of {all}"));
        }
        match transit.iter().find(|(id, donor, _)| state.now[*donor].open & (1 << id) == 0) {
            Some((id, ..)) => Err(format!("id {id} is on its way and in no list")),
            None => Ok(()),
        }
    }

    fn run(&self) -> Result<usize, String> {
        explore(
            self.first(),
            |state| self.events(state),
            |state, event| self.after(state, event),
            |state| {
                self.check(state)?;
                // Wherever all clients have died, finishers bring every unit home.
                let mut then = *state;
                for client in 0..CLIENTS {
                    let mut at = At::Begin;
                    while state.reset == 0 && then.now[self.wishes[client].donor].open & (1 << self.id(client)) != 0 {
                        at = self.step(&mut then, client, at, true);
                        if at == At::End {
                            break;
                        }
                    }
                }
                match Self::in_transit(&then).is_empty() || state.reset != 0 {
                    true => self.check(&then),
                    false => Err("the finisher leaves units on their way".to_owned()),
                }
            },
        )
    }
}

/// Two homes that need units of one donor, and two donors for one home.
const ONE_DONOR: [Wish; 2] = [Wish { donor: 0, home: 1, units: 1 }, Wish { donor: 0, home: 2, units: 1 }];
const TWO_DONORS: [Wish; 2] = [Wish { donor: 0, home: 1, units: 1 }, Wish { donor: 2, home: 1, units: 1 }];
/// What one lends the other one lends on.
const CHAIN: [Wish; 2] = [Wish { donor: 0, home: 1, units: 1 }, Wish { donor: 1, home: 2, units: 1 }];

fn search(wishes: [Wish; 2], stocks: [u8; 3], flaw: Flaw, failovers: u8) -> Search {
    Search { wishes, stocks, flaw, failovers, resets: false }
}

#[test]
fn no_unit_is_lost_or_sold_twice_whoever_dies_and_whatever_comes_late() {
    for (wishes, stocks) in [(ONE_DONOR, [2, 0, 0]), (TWO_DONORS, [1, 0, 1]), (CHAIN, [1, 0, 0])] {
        let states =
            search(wishes, stocks, Flaw::None, 0).run().unwrap_or_else(|broken| panic!("{wishes:?}: {broken}"));
        assert!(states > 300, "only {states} states");
    }
}

#[test]
fn a_failover_at_any_time_loses_no_unit_and_sells_none_twice() {
    for (wishes, stocks) in [(TWO_DONORS, [1, 0, 0]), (CHAIN, [1, 0, 0])] {
        let states =
            search(wishes, stocks, Flaw::None, 1).run().unwrap_or_else(|broken| panic!("{wishes:?}: {broken}"));
        assert!(states > 300, "only {states} states");
    }
}

#[test]
fn a_reset_at_any_time_gets_nothing_of_before() {
    let search = Search { resets: true, ..search(ONE_DONOR, [2, 0, 0], Flaw::None, 0) };
    search.run().unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn each_broken_rule_of_transfers_is_noticed() {
    let (one, two, chain) = ((ONE_DONOR, [2, 0, 0]), (TWO_DONORS, [1, 0, 1]), (CHAIN, [1, 0, 0]));
    for (flaw, (wishes, stocks), failovers, rule) in [
        (Flaw::NoWaitAtDonor, chain, 1, "2 units of 1"),
        (Flaw::FinisherDoesNotWait, chain, 1, "2 units of 1"),
        (Flaw::NoWaitAtHome, chain, 1, "in no list"),
        (Flaw::ReplayWritesNothing, chain, 1, "2 units of 1"),
        (Flaw::ArrivesTwice, chain, 0, "2 units of 1"),
        (Flaw::LendsTwice, one, 0, "1 units of 2"),
        (Flaw::OneIdForTwoDonors, two, 0, "1 units of 2"),
        (Flaw::SettledTooEarly, chain, 0, "in no list"),
    ] {
        let broken = search(wishes, stocks, flaw, failovers).run().err().unwrap_or_default();
        assert!(broken.contains(rule), "{flaw:?} is noticed by nothing, or by another rule: {broken}");
    }
    let search = Search { resets: true, ..search(CHAIN, [1, 0, 0], Flaw::NoEpochs, 0) };
    let broken = search.run().err().unwrap_or_default();
    assert!(broken.contains("units of 1"), "{broken}");
}
