//! The rules of a sale, as plain as they can be said: maps, and one order after the other.

use std::collections::BTreeMap;

use super::history::{ACTIVITIES, Order, Step};
use super::holds::Holds;
use crate::support::Layout;

/// All activities of one layout.
pub struct Sale {
    pub layout: Layout,
    pub activities: Vec<Activity>,
}

/// One activity; `meta` is there once it is preheated.
#[derive(Clone, Default)]
pub struct Activity {
    pub meta: Option<Meta>,
    /// With what is withdrawn.
    pub stock: u64,
    pub withdrawn: Option<u64>,
    pub held: BTreeMap<usize, u64>,
    /// What each request id did: a body, and a status if it was refused.
    pub requests: BTreeMap<usize, (String, i32)>,
    pub ledger: Vec<&'static str>,
    pub holds: Holds,
    /// Whether a plain script took part: its orders are in no ledger.
    pub is_plainly_sold: bool,
}

/// What a user holds whom a plain script recorded in a set, without units.
pub const UNKNOWN: u64 = u64::MAX;

/// Units as a reply has them.
pub fn shown(units: u64) -> String {
    if units == UNKNOWN { "?".to_owned() } else { units.to_string() }
}

#[derive(Clone, Copy)]
pub struct Meta {
    pub total: u64,
    pub limit: Option<u64>,
    pub ledger: bool,
    pub paused: bool,
    pub epoch: u64,
}

pub const OK: i32 = 1;
pub const REPLAYED: i32 = 2;
const REFUSED: i32 = -1;
pub const LIMIT_EXCEEDED: i32 = -2;
pub const OUT_OF_STOCK: i32 = -3;
pub const NOT_PREHEATED: i32 = -4;
const PAUSED: i32 = -7;
const EXCEEDS_BOUGHT: i32 = -8;
const REQUEST_CONFLICT: i32 = -9;
pub const CORRUPT: i32 = -11;
const PAUSED_HERE_ONLY: i32 = -17;

impl Activity {
    pub fn note(&mut self, op: &'static str) {
        if self.meta.is_some_and(|meta| meta.ledger) {
            self.ledger.push(op);
        }
    }

    /// Why these units cannot be bought now.
    pub fn refusal(&self, layout: Layout, user: usize, quantity: u64) -> Option<i32> {
        let Some(meta) = self.meta else { return Some(NOT_PREHEATED) };
        let had = self.held.get(&user).copied().unwrap_or(0);
        let over = match layout.kind {
            "hash" => meta.limit.is_some_and(|limit| had + quantity > limit),
            "set" => had > 0,
            "coupon" => had > 0 || quantity > 1,
            _ => false,
        };
        if meta.paused {
            Some(PAUSED)
        } else if over {
            Some(LIMIT_EXCEEDED)
        } else {
            (quantity > self.stock).then_some(OUT_OF_STOCK)
        }
    }

    /// What a user has from now on.
    pub fn give(&mut self, layout: Layout, user: usize, units: u64) {
        if !layout.has_users() {
        } else if units == 0 {
            self.held.remove(&user);
        } else {
            self.held.insert(user, units);
        }
    }

    /// What is known of a request id: replayed, refused as before, or used for something else.
    pub fn settled(&self, request: usize, body: &str) -> Option<i32> {
        let (known, status) = self.requests.get(&request)?;
        Some(match (known == body, *status) {
            (true, OK) => REPLAYED,
            (true, refused) => refused,
            (false, _) => REQUEST_CONFLICT,
        })
    }

    /// One order or refund: its status, and how many units it moved.
    fn order(&mut self, layout: Layout, refund: bool, retry: bool, order: Order) -> (i32, u64) {
        let Order { user, quantity, request } = order;
        let body = format!("{refund} {user} {quantity}");
        if request > 0
            && let Some(status) = self.settled(request, &body)
        {
            return (status, 0);
        }
        let had = self.held.get(&user).copied().unwrap_or(0);
        // What is held open is not the user's to return.
        let free = had - self.holds.open(Some(user));
        let units = if quantity == 0 { free } else { quantity };
        let status = if refund {
            let total = self.meta.map_or(u64::MAX, |meta| meta.total);
            let exceeds =
                units == 0 || (layout.has_users() && units > free) || self.stock.saturating_add(units) > total;
            if exceeds { EXCEEDS_BOUGHT } else { OK }
        } else {
            self.refusal(layout, user, units).unwrap_or(OK)
        };
        if status == OK {
            self.stock = if refund { self.stock + units } else { self.stock - units };
            self.withdrawn = self.withdrawn.map(|withdrawn| withdrawn + if refund { units } else { 0 });
            let left = if had == UNKNOWN { 0 } else { had.saturating_sub(units) };
            self.give(layout, user, if refund { left } else { had + units });
        }
        if request > 0 && (status == OK || retry) {
            self.requests.insert(request, (body, status));
        }
        (status, units)
    }
}

impl Sale {
    pub fn new(layout: Layout) -> Self {
        Self { layout, activities: vec![Activity::default(); ACTIVITIES] }
    }

    /// Does a step, and says what a script replies to it.
    pub fn apply(&mut self, step: &Step) -> String {
        let layout = self.layout;
        match step {
            Step::Preheat { mode, activity, total, limit, ledger } => {
                self.activities[*activity].preheat(layout, mode, *total, *limit, *ledger)
            }
            Step::Pause { activity, paused, withdraw } => self.activities[*activity].pause(*paused, *withdraw),
            Step::One { refund, retry, activity, order } => {
                let it = &mut self.activities[*activity];
                if it.meta.is_none() {
                    return format!("{NOT_PREHEATED} nil nil");
                }
                let (status, units) = it.order(layout, *refund, *retry, *order);
                if status == OK {
                    it.note(if *refund { "refund" } else { "deduct" });
                }
                let mut reply = format!("{status} {}", it.stock);
                if layout.has_users() {
                    reply += &format!(" {}", shown(it.held.get(&order.user).copied().unwrap_or(0)));
                }
                if layout.has_users() && *refund {
                    let shown = if order.quantity > 0 { order.quantity } else { units };
                    let known = order.quantity > 0 || status == OK;
                    reply += &if known { format!(" {shown}") } else { " nil".to_owned() };
                }
                reply
            }
            Step::Orders { refund, activity, orders } => self.activities[*activity].orders(layout, *refund, orders),
            Step::Multi { retry, user, request, items } => self.multi(*retry, *user, *request, items),
            Step::Hold { retry, activity, order } => self.activities[*activity].take_hold(layout, *retry, *order),
            Step::Settle { confirms, activity, request } => {
                self.activities[*activity].settle(layout, *confirms, *request)
            }
            Step::Expire { activity } => self.activities[*activity].expire(layout, 500),
            Step::Lapse { activity, request } => {
                self.activities[*activity].holds.lapse(*request);
                OK.to_string()
            }
            Step::Plain { activity, user, quantity } => {
                let sold = self.activities[*activity].plain(layout, *user, *quantity);
                if sold { "sold".to_owned() } else { "not sold".to_owned() }
            }
        }
    }

    /// Whether a purchase finds an activity that is corrupt, because units were sold and nobody is recorded: so it is
    /// if too few of an unknown number of units were refunded. Other tests hold what it is answered.
    pub fn has_lost_records(&self, step: &Step) -> bool {
        let is_lost = |activity: usize| {
            let it = &self.activities[activity];
            self.layout.has_users() && it.held.is_empty() && it.meta.is_some_and(|meta| meta.total > it.stock)
        };
        match step {
            Step::One { refund: false, activity, .. } | Step::Orders { refund: false, activity, .. } => {
                is_lost(*activity)
            }
            Step::Hold { activity, .. } => is_lost(*activity),
            // Of what is expired it takes the units again.
            Step::Settle { confirms: true, activity, request } => {
                is_lost(*activity) && self.activities[*activity].holds.is_expired(*request)
            }
            Step::Multi { items, .. } => items.iter().any(|(activity, _)| is_lost(*activity)),
            _ => false,
        }
    }

    fn multi(&mut self, retry: bool, user: usize, request: usize, items: &[(usize, u64)]) -> String {
        let layout = self.layout;
        let mut asked: Vec<String> =
            items.iter().map(|(activity, quantity)| format!("{activity}={quantity}")).collect();
        asked.sort();
        let body = format!("multi {user} {asked:?}");
        let mut whys: Vec<Option<i32>> = Vec::new();
        let (mut known, mut conflict, mut refused) = (0, false, false);
        for (activity, quantity) in items {
            let it = &self.activities[*activity];
            let past = if request > 0 && it.meta.is_some() { it.settled(request, &body) } else { None };
            known += usize::from(past == Some(REPLAYED));
            conflict |= past == Some(REQUEST_CONFLICT);
            whys.push(it.refusal(layout, user, *quantity));
            refused |= past == Some(REFUSED);
        }
        let status = if known == items.len() {
            REPLAYED
        } else if conflict || known > 0 {
            for why in whys.iter_mut().filter(|why| **why != Some(NOT_PREHEATED)) {
                *why = Some(REQUEST_CONFLICT);
            }
            REFUSED
        } else if refused || whys.iter().any(Option::is_some) {
            REFUSED
        } else {
            OK
        };
        let mut reply = status.to_string();
        for ((activity, quantity), why) in items.iter().zip(whys) {
            let it = &mut self.activities[*activity];
            if status == OK {
                it.stock -= quantity;
                let had = it.held.get(&user).copied().unwrap_or(0);
                it.give(layout, user, had + quantity);
                it.note("deduct");
            }
            let keeps = status == OK || (status == REFUSED && retry && !conflict && known == 0);
            if request > 0 && keeps && it.meta.is_some() {
                it.requests.insert(request, (body.clone(), status));
            }
            let replied = if status == REFUSED { why.unwrap_or(REFUSED) } else { status };
            let bought = shown(it.held.get(&user).copied().unwrap_or(0));
            reply += &match (it.meta, layout.has_users()) {
                (None, _) => format!(" {replied},,"),
                (_, true) => format!(" {replied},{},{bought}", it.stock),
                (_, false) => format!(" {replied},{},", it.stock),
            };
        }
        reply
    }
}

impl Activity {
    fn orders(&mut self, layout: Layout, refund: bool, orders: &[Order]) -> String {
        if self.meta.is_none() {
            return format!("{NOT_PREHEATED} nil nil");
        }
        let before = self.stock;
        let (mut letters, mut refused, mut moved, mut bought) = (String::new(), 0, false, String::new());
        for order in orders {
            let (status, _) = self.order(layout, refund, false, *order);
            letters.push(match status {
                OK => 'o',
                REPLAYED => 'r',
                LIMIT_EXCEEDED => 'l',
                OUT_OF_STOCK => 's',
                PAUSED => 'p',
                EXCEEDS_BOUGHT => 'x',
                _ => 'q',
            });
            refused += u32::from(status < 0);
            moved |= status == OK;
            bought += &format!(" {}", shown(self.held.get(&order.user).copied().unwrap_or(0)));
        }
        if moved {
            self.note(if refund { "refund" } else { "deduct" });
        }
        format!("{letters} {before} {refused}{bought}")
    }

    /// A plain script sees the stock that is not withdrawn, no pause and no limit but one order a user in sets.
    fn plain(&mut self, layout: Layout, user: usize, quantity: u64) -> bool {
        let had = self.held.get(&user).copied().unwrap_or(0);
        let in_reach = self.stock - self.withdrawn.unwrap_or(0);
        if self.meta.is_none() || quantity > in_reach || (layout.records_once() && had > 0) {
            return false;
        }
        self.stock -= quantity;
        self.give(layout, user, if layout.kind == "set" { UNKNOWN } else { had + quantity });
        self.is_plainly_sold = true;
        true
    }

    fn pause(&mut self, paused: bool, withdraw: bool) -> String {
        let Some(meta) = &mut self.meta else { return NOT_PREHEATED.to_string() };
        let was_paused = std::mem::replace(&mut meta.paused, paused);
        let withdrawn = self.withdrawn;
        let moved = if paused && withdraw {
            let in_reach = self.stock - withdrawn.unwrap_or(0);
            (withdrawn.is_none() || in_reach > 0).then_some(in_reach)
        } else {
            withdrawn.filter(|_| !paused)
        };
        match moved {
            Some(_) if paused => self.withdrawn = Some(self.stock),
            Some(_) => self.withdrawn = None,
            None => {}
        }
        let is_here_only = paused && !meta.ledger && self.withdrawn.is_none_or(|withdrawn| withdrawn < self.stock);
        let changed = was_paused != paused || moved.is_some();
        if changed {
            self.note(if paused { "pause" } else { "resume" });
        }
        let status = if is_here_only {
            PAUSED_HERE_ONLY
        } else if changed {
            OK
        } else {
            REPLAYED
        };
        let state = if paused {
            "paused"
        } else if self.stock == 0 {
            "sold_out"
        } else {
            "live"
        };
        format!("{status} {state} {}", moved.unwrap_or(0))
    }

    /// Only the status and what was done: the rest of the reply is fields, which other tests hold.
    fn preheat(&mut self, layout: Layout, mode: &str, total: u64, given: Option<u64>, ledger: bool) -> String {
        let given = if layout.records_once() { Some(1) } else { given };
        let limit = given.filter(|limit| *limit > 0);
        let Some(old) = self.meta.filter(|_| mode != "reset") else {
            let epoch = self.meta.map_or(0, |meta| meta.epoch) + 1;
            let done = if mode == "reset" && self.meta.is_some() { "reset" } else { "create" };
            if mode != "update" || self.meta.is_none() {
                *self = Self::default();
            }
            self.meta = Some(Meta { total, limit, ledger, paused: false, epoch });
            self.stock = total;
            self.note("preheat");
            return format!("{OK} {done}");
        };
        let limit = if mode == "update" && given.is_none() { old.limit } else { limit };
        if (old.total, old.limit, old.ledger) == (total, limit, ledger) {
            return format!("{OK} unchanged");
        }
        if mode == "create" || old.ledger != ledger {
            return "-10 refused".to_owned();
        }
        let Some(stock) = (self.stock + total).checked_sub(old.total) else {
            return format!("{OUT_OF_STOCK} refused");
        };
        // What is withdrawn shrinks before the stock does, and grows instead of it.
        self.withdrawn = self.withdrawn.map(|withdrawn| (withdrawn + total).saturating_sub(old.total));
        self.stock = stock;
        self.meta = Some(Meta { total, limit, ..old });
        self.note("update");
        format!("{OK} update")
    }
}
