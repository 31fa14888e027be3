//! The rules of holds: units with a deadline, and how they end.

use std::collections::{BTreeMap, BTreeSet};

use super::history::Order;
use super::rules::{Activity, CORRUPT, LIMIT_EXCEEDED, NOT_PREHEATED, OK, OUT_OF_STOCK, REPLAYED, shown};
use crate::support::{Layout, TestRedis};

const NOT_HELD: i32 = -12;
const EXPIRED: i32 = -13;
const CONFIRMED: i32 = -14;

/// The most that a hold expires before it gives up.
const MOST_EXPIRED: usize = 16;

/// All holds of an activity, by request id.
#[derive(Clone, Default)]
pub struct Holds {
    all: BTreeMap<usize, Hold>,
    /// Those whose deadline is over, and that nobody looked at since.
    overdue: BTreeSet<usize>,
}

#[derive(Clone)]
struct Hold {
    user: usize,
    quantity: u64,
    /// As it is stored.
    state: &'static str,
}

impl Holds {
    /// Units that a user, or anybody, has open.
    pub fn open(&self, user: Option<usize>) -> u64 {
        let open = self.all.values().filter(|hold| hold.state == "held" && user.is_none_or(|user| hold.user == user));
        open.map(|hold| hold.quantity).sum()
    }

    /// The deadline of a hold passes.
    pub fn lapse(&mut self, request: usize) {
        if self.all.get(&request).is_some_and(|hold| hold.state == "held") {
            self.overdue.insert(request);
        }
    }

    pub fn is_expired(&self, request: usize) -> bool {
        self.all.get(&request).is_some_and(|hold| hold.state == "expired")
    }

    fn end(&mut self, request: usize, state: &'static str) {
        self.all.get_mut(&request).unwrap().state = state;
        self.overdue.remove(&request);
    }
}

impl Activity {
    /// Holds units, and first expires what is overdue if it is short.
    pub fn take_hold(&mut self, layout: Layout, retry: bool, order: Order) -> String {
        let Order { user, quantity, request } = order;
        if self.meta.is_none() {
            return format!("{NOT_PREHEATED} nil nil");
        }
        let body = format!("hold {user} {quantity}");
        let known = self.settled(request, &body);
        let status = match (known, self.holds.all.get(&request)) {
            (Some(REPLAYED), Some(hold)) => match hold.state {
                "held" | "confirmed" => REPLAYED,
                "released" => NOT_HELD,
                _ => EXPIRED,
            },
            (Some(status), _) => status,
            (None, _) => {
                let is_short = |status| matches!(status, Some(LIMIT_EXCEEDED | OUT_OF_STOCK));
                let mut refusal = self.refusal(layout, user, quantity);
                if is_short(refusal) && !self.holds.overdue.is_empty() {
                    self.expire(layout, MOST_EXPIRED);
                    refusal = self.refusal(layout, user, quantity);
                }
                refusal.unwrap_or(OK)
            }
        };
        if status == OK {
            self.stock -= quantity;
            self.give(layout, user, self.held.get(&user).copied().unwrap_or(0) + quantity);
            self.holds.all.insert(request, Hold { user, quantity, state: "held" });
            self.note("hold");
        }
        if known.is_none() && (status == OK || retry) {
            self.requests.insert(request, (body, status));
        }
        let deadline = if matches!(status, OK | REPLAYED) { "DEADLINE" } else { "nil" };
        format!("{status} {} {} {deadline}", self.stock, shown(self.held.get(&user).copied().unwrap_or(0)))
    }

    /// Confirms or releases a hold.
    pub fn settle(&mut self, layout: Layout, confirms: bool, request: usize) -> String {
        if self.meta.is_none() {
            return format!("{NOT_PREHEATED} nil nil");
        }
        let Some(Hold { user, quantity, state }) = self.holds.all.get(&request).cloned() else {
            return format!("{NOT_HELD} {} nil nil nil", self.stock);
        };
        let had = self.held.get(&user).copied().unwrap_or(0);
        let status = match (state, confirms) {
            ("held", true) => {
                self.holds.end(request, "confirmed");
                self.note("confirm");
                OK
            }
            ("held", false) if self.stock + quantity > self.meta.unwrap().total => return CORRUPT.to_string(),
            ("held", false) => {
                self.give_back(layout, request, "released");
                self.note("release");
                OK
            }
            ("confirmed", true) | ("released", false) => REPLAYED,
            ("confirmed", false) => CONFIRMED,
            ("released", true) => NOT_HELD,
            ("expired", true) if self.can_take_again(layout, had, quantity) => {
                self.stock -= quantity;
                let left = |withdrawn: u64| withdrawn.saturating_sub(quantity);
                self.withdrawn = self.withdrawn.map(left);
                self.give(layout, user, had + quantity);
                self.holds.end(request, "confirmed");
                self.note("deduct");
                OK
            }
            ("expired", _) => {
                self.holds.end(request, "void");
                EXPIRED
            }
            _ => EXPIRED,
        };
        let bought = shown(self.held.get(&user).copied().unwrap_or(0));
        format!("{status} {} {bought} {quantity} u{user}", self.stock)
    }

    /// Returns overdue holds; so many at most.
    pub fn expire(&mut self, layout: Layout, most: usize) -> String {
        let Some(meta) = self.meta else { return format!("{NOT_PREHEATED} nil nil") };
        let due: Vec<usize> = self.holds.overdue.iter().copied().take(most).collect();
        let (mut count, mut returned, mut left) = (0, 0, String::new());
        for request in &due {
            let quantity = self.holds.all[request].quantity;
            // More than there are: something is wrong, and nobody returns it.
            if self.stock + quantity > meta.total {
                self.holds.overdue.remove(request);
                left += &format!(" r{request} nil");
                continue;
            }
            self.give_back(layout, *request, "expired");
            (count, returned) = (count + 1, returned + quantity);
        }
        if count > 0 {
            self.note("expire");
        }
        format!("1 {} {count} {returned} {}{left}", self.stock, u8::from(due.len() == most))
    }

    fn give_back(&mut self, layout: Layout, request: usize, state: &'static str) {
        let Hold { user, quantity, .. } = self.holds.all[&request];
        self.stock += quantity;
        self.withdrawn = self.withdrawn.map(|withdrawn| withdrawn + quantity);
        self.give(layout, user, self.held[&user] - quantity);
        self.holds.end(request, state);
    }

    fn can_take_again(&self, layout: Layout, had: u64, quantity: u64) -> bool {
        let is_free = match layout.kind {
            "hash" => self.meta.unwrap().limit.is_none_or(|limit| had + quantity <= limit),
            _ => had == 0,
        };
        quantity <= self.stock && is_free
    }
}

/// What is stored of holds, and what the rules say: states, open units by user, their sum, deadlines.
pub fn stored_and_expected(redis: &TestRedis, layout: Layout, id: &str, holds: &Holds) -> (String, String) {
    let (mut records, mut open) = (BTreeMap::new(), BTreeMap::new());
    for (field, text) in redis.hgetall(&layout.requests(id)) {
        if let Some(user) = field.strip_prefix("\to:") {
            open.insert(user.to_owned(), text);
        } else if let Some(request) = field.strip_prefix("\th:") {
            let words: Vec<&str> = text.splitn(5, ' ').collect();
            records.insert(request.to_owned(), format!("{} {} {} {}", words[0], words[1], words[3], words[4]));
        }
    }
    let sum = redis.hget(&layout.meta(id), "holds").unwrap_or_else(|| "0".to_owned());
    let deadlines: BTreeSet<String> = redis.ask(("ZRANGE", layout.deadlines(id), 0, -1));
    let is_held = |(request, hold): (&usize, &Hold)| (hold.state == "held").then(|| format!("r{request}"));
    let expected_records: BTreeMap<String, String> = holds
        .all
        .iter()
        .map(|(request, hold)| (format!("r{request}"), format!("{} {} - u{}", hold.state, hold.quantity, hold.user)))
        .collect();
    let users: BTreeSet<usize> = holds.all.values().map(|hold| hold.user).collect();
    let units =
        users.into_iter().map(|user| (format!("u{user}"), holds.open(Some(user)))).filter(|(_, units)| *units > 0);
    let expected_open: BTreeMap<String, String> = units.map(|(user, units)| (user, units.to_string())).collect();
    let expected_deadlines: BTreeSet<String> = holds.all.iter().filter_map(is_held).collect();
    let expected = (expected_records, expected_open, holds.open(None).to_string(), expected_deadlines);
    (format!("{:?}", (records, open, sum, deadlines)), format!("{expected:?}"))
}
