//! The rules of a file in plain Rust: one order after the other, undisturbed.

use std::collections::{BTreeMap, BTreeSet};

use super::case::{ACTIVITIES, Case, Operation, Row};
use crate::support::{Layout, TestRedis};

/// What each request of each activity did: for whom, and with which items.
type Requests = BTreeMap<(usize, u16), (u8, Vec<(usize, u64)>)>;

/// Stock of each activity, and what each user holds of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    pub stock: Vec<u64>,
    pub held: BTreeMap<(usize, String), u64>,
}

impl State {
    pub fn new(stock: u64) -> Self {
        Self { stock: vec![stock; ACTIVITIES.len()], held: BTreeMap::new() }
    }

    pub fn of(redis: &TestRedis, layout: Layout) -> Self {
        let mut state = Self::default();
        for (nth, activity) in ACTIVITIES.iter().enumerate() {
            state.stock.push(redis.ask(("GET", layout.stock(activity))));
            let units = match layout.kind {
                "hash" => redis.hgetall(&layout.participants(activity)),
                "counter" => BTreeMap::new(),
                _ => {
                    let users = redis.smembers(&layout.participants(activity));
                    let one = |user| (user, "1".to_owned());
                    let mut units: BTreeMap<String, String> = users.into_iter().map(one).collect();
                    if layout.kind == "set" {
                        units.extend(redis.hgetall(&layout.key(6, activity)));
                    }
                    units
                }
            };
            state.held.extend(units.into_iter().map(|(user, units)| ((nth, user), units.parse().unwrap())));
        }
        state
    }

    /// What the ledgers say: units taken less units given back.
    pub fn of_ledgers(redis: &TestRedis, layout: Layout, total: u64) -> Self {
        let mut state = Self::new(total);
        for (nth, activity) in ACTIVITIES.iter().enumerate() {
            for (_, entry) in redis.xrange(&layout.ledger(activity)) {
                for order in crate::support::ledger::orders(&entry) {
                    let units: u64 = order[1].parse().unwrap();
                    state.move_units(layout, entry["op"] == "refund", nth, &order[0], units);
                }
            }
        }
        state
    }

    fn has(&self, activity: usize, user: &str) -> u64 {
        self.held.get(&(activity, user.to_owned())).copied().unwrap_or(0)
    }

    fn move_units(&mut self, layout: Layout, back: bool, activity: usize, user: &str, units: u64) {
        let stock = &mut self.stock[activity];
        *stock = if back { *stock + units } else { *stock - units };
        if !layout.has_users() {
            return;
        }
        let held = self.held.entry((activity, user.to_owned())).or_default();
        *held = if back { *held - units } else { *held + units };
        if *held == 0 {
            self.held.remove(&(activity, user.to_owned()));
        }
    }
}

impl Case {
    /// What the activities sold before the file is applied: so that refunds have something to give back.
    pub fn sold_before(&self) -> Vec<(usize, u8, u64)> {
        if self.operation != Operation::Refund {
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        let units = if self.layout.kind == "coupon" { 1 } else { 2 };
        let rows = self.rows.iter().filter(|row| row.user % 3 > 0 && seen.insert((row.items[0].0, row.user)));
        rows.take((self.stock / 2) as usize).map(|row| (row.items[0].0, row.user, units)).collect()
    }

    /// The status of each line, and the state at the end.
    pub fn undisturbed(&self) -> (Vec<&'static str>, State) {
        let mut state = State::new(self.stock);
        for (activity, user, units) in self.sold_before() {
            state.move_units(self.layout, false, activity, &user.to_string(), units);
        }
        let mut requests = Requests::new();
        let statuses = self.rows.iter().map(|row| self.decide(row, &mut state, &mut requests)).collect();
        (statuses, state)
    }

    fn decide(&self, row: &Row, state: &mut State, requests: &mut Requests) -> &'static str {
        let body = (row.user, row.items.clone());
        let known = self.request(row).and_then(|request| requests.get(&(row.items[0].0, request)));
        // Nobody is recorded who could differ.
        let is_same = known.is_some_and(|known| known.1 == body.1 && (known.0 == body.0 || !self.layout.has_users()));
        if known.is_some() {
            return if is_same { "replayed" } else { "request_conflict" };
        }
        let why = row.items.iter().find_map(|(activity, quantity)| self.refusal(row.user, *activity, *quantity, state));
        if let Some(why) = why {
            return if self.operation == Operation::MultiDeduct { "refused" } else { why };
        }
        for (activity, quantity) in &row.items {
            let back = self.operation == Operation::Refund;
            state.move_units(self.layout, back, *activity, &row.user.to_string(), *quantity);
            if let Some(request) = self.request(row) {
                requests.insert((*activity, request), body.clone());
            }
        }
        "ok"
    }

    fn refusal(&self, user: u8, activity: usize, quantity: u64, state: &State) -> Option<&'static str> {
        let had = state.has(activity, &user.to_string());
        let stock = state.stock[activity];
        if self.operation == Operation::Refund {
            let exceeds = (self.layout.has_users() && quantity > had) || stock + quantity > self.stock;
            return exceeds.then_some("exceeds_bought");
        }
        let is_over = match self.layout.kind {
            "hash" => self.limit.is_some_and(|limit| had + quantity > limit),
            "set" => had > 0,
            "coupon" => had > 0 || quantity > 1,
            _ => false,
        };
        if is_over {
            return Some("limit_exceeded");
        }
        (quantity > stock).then_some("out_of_stock")
    }
}
