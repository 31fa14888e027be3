//! All interleavings: breadth first over the states, from an activity that nobody has bought from.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::rules::{Call, Decided, Status, Step, decide};
use super::state::{CONFIRMED, Client, EXPIRED, REFUSED, RELEASED, State};
use super::{Flaw, Sale, numbers};

/// One thing that happens next. All but `Delay` and `Overdue` are a call, which may be cut.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The first message of a hold arrives, and its reply is read.
    Hold(usize),
    /// Its reply is lost.
    HoldLost(usize),
    /// It does not arrive for now.
    Delay,
    /// It arrives after all, behind any number of retries.
    Late(usize),
    Retry(usize),
    /// Retries of all holds in one call.
    RetryAll,
    /// One or all holds. Each may come at any time and any number of times, as retries and late messages do.
    Settle(Step, u8),
    Expire(usize),
    /// The deadline of a hold passes.
    Overdue(usize),
}

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Search {
    pub sale: Sale,
    pub flaw: Flaw,
    /// How many scripts may be cut.
    pub cuts: u8,
    /// The hold whose client is followed: what it sends, and what it heard. Of the others, every message may come at any
    /// time, which is more than clients do. What is promised of a hold concerns no other one, so it is enough that each is
    /// the one that is followed, one search after the other.
    pub of: usize,
}

/// An event, with the number of writes after which it was cut.
pub type Happened = (Event, Option<usize>);

/// Every state that can be reached, and how.
pub struct Found {
    pub states: Vec<(State, usize, Option<Happened>)>,
    pub transitions: usize,
}

impl Found {
    /// The shortest history that leads to a state.
    pub fn history(&self, mut nth: usize) -> Vec<Happened> {
        let mut history = Vec::new();
        while let (_, before, Some(happened)) = self.states[nth] {
            history.push(happened);
            nth = before;
        }
        history.reverse();
        history
    }
}

impl Search {
    /// What may happen in a state.
    pub fn events(&self, state: &State) -> Vec<Event> {
        let mut events = vec![Event::Expire(1), Event::Expire(500)];
        for hold in 0..self.sale.holds.len() {
            match state.client {
                _ if hold != self.of => events.extend([Event::Late(hold), Event::Retry(hold)]),
                Client::Idle => events.extend([Event::Hold(hold), Event::HoldLost(hold), Event::Delay]),
                Client::RetriesFirst => events.extend([Event::Late(hold), Event::Retry(hold)]),
                Client::Retries => events.push(Event::Retry(hold)),
                Client::Answered => {}
            }
            if state.deadlines & !state.overdue & (1 << hold) != 0 {
                events.push(Event::Overdue(hold));
            }
            let steps = [Step::Confirm, Step::Release, Step::Abort];
            events.extend(steps.map(|step| Event::Settle(step, 1 << hold)));
        }
        if self.sale.holds.len() > 1 {
            events.extend([Step::Confirm, Step::Release].map(|step| Event::Settle(step, self.sale.all())));
            if matches!(state.client, Client::Retries | Client::RetriesFirst) {
                events.push(Event::RetryAll);
            }
        }
        events
    }

    /// The call that an event is.
    pub fn call(&self, event: Event) -> Option<Call> {
        let hold = |is_retry, holds| Some(Call::Hold { is_retry, holds });
        match event {
            Event::Hold(nth) | Event::HoldLost(nth) | Event::Late(nth) => hold(false, 1 << nth),
            Event::Retry(nth) => hold(true, 1 << nth),
            Event::RetryAll => hold(true, self.sale.all()),
            Event::Settle(step, holds) => Some(Call::Settle { step, holds }),
            Event::Expire(most) => Some(Call::Expire { most }),
            Event::Delay | Event::Overdue(_) => None,
        }
    }

    pub fn decide(&self, state: &State, call: Call) -> Decided {
        decide(&self.sale, state, call, self.flaw)
    }

    /// What becomes of a state, and the rule that this broke.
    pub fn after(&self, state: &State, (event, cut): Happened) -> Result<State, String> {
        let decided = self.call(event).map(|call| self.decide(state, call)).unwrap_or_default();
        let mut next = *state;
        for write in decided.writes.iter().take(cut.unwrap_or(usize::MAX)) {
            next.write(write)?;
        }
        self.close(&mut next, event, cut.is_some(), &decided)?;
        Ok(next)
    }

    /// What a call leaves beside its writes.
    fn close(&self, next: &mut State, event: Event, is_cut: bool, decided: &Decided) -> Result<(), String> {
        match event {
            Event::Hold(_) if !is_cut => next.client = Client::Answered,
            // What is cut replies an error, so that the client sends it again.
            Event::Hold(hold) | Event::HoldLost(hold) | Event::Late(hold) if hold == self.of => {
                next.client = Client::Retries;
            }
            Event::Delay => next.client = Client::RetriesFirst,
            Event::Overdue(hold) => next.overdue |= 1 << hold,
            Event::Expire(500) if !is_cut && next.overdue != 0 => {
                return Err("what is overdue is still so after `expire`".to_owned());
            }
            _ => {}
        }
        if is_cut {
            next.cuts += 1;
            next.ledger = [0; 3];
        } else {
            self.tell(next, event, decided);
        }
        Ok(())
    }

    /// Goes through all states. An error is a history that breaks a rule.
    pub fn run(&self) -> Result<Found, String> {
        let first = State::new(&self.sale);
        let mut known: HashSet<State, BuildHasherDefault<Mix>> = HashSet::default();
        let mut found = Found { states: vec![(first, 0, None)], transitions: 0 };
        known.insert(first);
        let mut nth = 0;
        while nth < found.states.len() {
            let state = found.states[nth].0;
            for event in self.events(&state) {
                let decided = self.call(event).map(|call| self.decide(&state, call)).unwrap_or_default();
                let (mut next, count) = (state, decided.writes.len());
                // Cut before its first write, or behind its last one, it is a message that is lost, or its reply.
                for writes in 0..=count {
                    let broken = if writes > 0 { next.write(&decided.writes[writes - 1]) } else { Ok(()) };
                    let is_cut = writes < count;
                    if broken.is_ok() && is_cut && (writes == 0 || state.cuts == self.cuts) {
                        continue;
                    }
                    let mut then = next;
                    let broken = broken.and_then(|()| self.close(&mut then, event, is_cut, &decided));
                    found.transitions += 1;
                    if broken.is_ok() && known.contains(&then) {
                        continue;
                    }
                    broken.and_then(|()| then.check(&self.sale, self.of)).map_err(|rule| {
                        let history: String =
                            found.history(nth).iter().map(|happened| format!("  {happened:?}\n")).collect();
                        let cut = if is_cut {
                            format!(", cut after {writes} of {:?}", decided.writes)
                        } else {
                            String::new()
                        };
                        format!("{rule}\nafter\n{history}and then {event:?}{cut}\nin {state:?}")
                    })?;
                    known.insert(then);
                    found.states.push((then, nth, Some((event, is_cut.then_some(writes)))));
                }
            }
            nth += 1;
        }
        Ok(found)
    }

    /// Remembers what a reply promises about the hold that is followed.
    fn tell(&self, next: &mut State, event: Event, decided: &Decided) {
        let (step, holds) = match self.call(event) {
            // Nobody reads the reply to a message that was given up.
            Some(Call::Hold { holds, .. }) if !matches!(event, Event::HoldLost(_) | Event::Late(_)) => (None, holds),
            Some(Call::Settle { step, holds }) => (Some(step), holds),
            _ => return,
        };
        if holds & (1 << self.of) == 0 {
            return;
        }
        let nth = numbers(holds).position(|hold| hold == self.of).unwrap();
        next.heard |= match (step, decided.statuses[nth]) {
            (None, Status::LimitExceeded | Status::OutOfStock) => REFUSED,
            (Some(Step::Confirm), Status::Ok | Status::OkAgain | Status::Replayed) => CONFIRMED,
            (Some(Step::Confirm), Status::Expired) => EXPIRED,
            (Some(Step::Release | Step::Abort), Status::Ok | Status::Replayed) => RELEASED,
            _ => 0,
        };
    }
}

/// A quick hash: tests are not optimized.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
