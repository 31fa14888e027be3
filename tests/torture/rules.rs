//! The rules of a sale in plain Rust: what an order must be answered, and what it changes.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::holds::Hold;
use crate::schedule::{Operation, Order};
use crate::support::Layout;

/// One activity.
#[derive(Debug, Clone, Default)]
pub struct Sale {
    pub exists: bool,
    /// Units left, withdrawn ones included.
    pub stock: u64,
    pub withdrawn: u64,
    pub total: u64,
    pub limit: Option<u64>,
    pub paused: bool,
    pub ledger: bool,
    pub epoch: u64,
    /// With what is held open.
    pub held: BTreeMap<Rc<str>, u64>,
    /// By request id.
    pub holds: BTreeMap<Rc<str>, Hold>,
    pub requests: HashMap<Rc<str>, Known>,
    /// The watermark of each file.
    pub lines: HashMap<usize, u64>,
    /// Units that were sold to each user, by whomever, once something else wrote to the keys: stock and `held` then are
    /// what the keys say. Below zero if a user gave back what only a damaged counter promised.
    pub truth: Option<BTreeMap<Rc<str>, i64>>,
}

/// What a request id did.
#[derive(Debug, Clone)]
pub struct Known {
    pub order: Rc<Order>,
    /// The refusal that is kept, or `None` if it was applied.
    pub refusal: Option<&'static str>,
}

/// What an order is answered: a status, and for each item status, stock and bought.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: &'static str,
    pub items: Vec<(&'static str, Option<u64>, Option<u64>)>,
}

impl Sale {
    pub fn has(&self, user: &str) -> u64 {
        self.held.get(user).copied().unwrap_or(0)
    }

    pub fn set(&mut self, user: &str, units: u64) {
        if units == 0 {
            self.held.remove(user);
        } else if let Some(held) = self.held.get_mut(user) {
            *held = units;
        } else {
            self.held.insert(user.into(), units);
        }
    }

    /// What the request id of an order says about it.
    fn settled(&self, order: &Order) -> Option<&'static str> {
        let known = self.requests.get(order.request.as_str()).filter(|_| !order.request.is_empty())?;
        let same = *known.order == *order;
        Some(if same { known.refusal.unwrap_or("replayed") } else { "request_conflict" })
    }

    /// Why so many units cannot be bought now.
    fn refusal(&self, layout: Layout, user: &str, units: u64) -> Option<&'static str> {
        let had = self.has(user);
        let is_over = match layout.kind {
            "hash" => self.limit.is_some_and(|limit| had + units > limit),
            "set" => had > 0,
            "coupon" => had > 0 || units > 1,
            _ => false,
        };
        if !self.exists {
            Some("not_preheated")
        } else if self.paused {
            Some("paused")
        } else if is_over {
            Some("limit_exceeded")
        } else {
            (units > self.stock).then_some("out_of_stock")
        }
    }

    /// Units that an order asks for here.
    pub fn units(&self, order: &Order, asked: u64) -> u64 {
        if order.operation == Operation::Refund && asked == 0 {
            self.has(&order.user).saturating_sub(self.open(&order.user))
        } else {
            asked
        }
    }

    fn status(&self, layout: Layout, order: &Order, asked: u64) -> &'static str {
        if !self.exists {
            return "not_preheated";
        }
        if order.operation.ends() {
            return self.end(layout, order);
        }
        if let Some(settled) = self.settled(order) {
            let is_held = order.operation == Operation::Hold && settled == "replayed";
            return if is_held { self.held_before(&order.request) } else { settled };
        }
        if matches!(order.operation, Operation::Deduct | Operation::Hold) {
            return self.refusal(layout, &order.user, asked).unwrap_or("ok");
        }
        let units = self.units(order, asked);
        let exceeds = units == 0
            || (layout.has_users() && units + self.open(&order.user) > self.has(&order.user))
            || self.stock + units > self.total;
        if exceeds { "exceeds_bought" } else { "ok" }
    }

    pub fn item(
        &self,
        layout: Layout,
        order: &Order,
        status: &'static str,
    ) -> (&'static str, Option<u64>, Option<u64>) {
        let hold = self.holds.get(order.request.as_str()).filter(|_| order.operation.ends());
        let user = if order.operation.ends() { hold.map(|hold| &*hold.user) } else { Some(order.user.as_str()) };
        let bought = user.filter(|_| self.exists && layout.has_users()).map(|user| self.has(user));
        (status, self.exists.then_some(self.stock), bought)
    }
}

pub fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap()
}

/// What an order must be answered by activities in this state; if it is `ok`, before it is applied.
pub fn decide(layout: Layout, sales: &[Rc<Sale>], order: &Order) -> Answer {
    if order.operation != Operation::Multi {
        let (activity, asked) = order.items[0];
        let sale = &sales[activity];
        let status = sale.status(layout, order, asked);
        return Answer { status, items: vec![sale.item(layout, order, status)] };
    }
    let settled: Vec<_> = order.items.iter().map(|(activity, _)| sales[*activity].settled(order)).collect();
    let known = settled.iter().filter(|it| **it == Some("replayed")).count();
    let conflicts = known < order.items.len() && (known > 0 || settled.contains(&Some("request_conflict")));
    let reasons: Vec<_> =
        order.items.iter().map(|(index, units)| sales[*index].refusal(layout, &order.user, *units)).collect();
    let status = if known == order.items.len() {
        "replayed"
    } else if conflicts || settled.contains(&Some("refused")) || reasons.iter().any(Option::is_some) {
        "refused"
    } else {
        "ok"
    };
    let items = order.items.iter().zip(reasons).map(|((activity, _), reason)| {
        let reason = match status {
            "refused" if conflicts && reason != Some("not_preheated") => "request_conflict",
            "refused" => reason.unwrap_or("refused"),
            other => other,
        };
        sales[*activity].item(layout, order, reason)
    });
    Answer { status, items: items.collect() }
}

/// Applies an order that is `ok`, and says what it is answered.
pub fn apply(layout: Layout, sales: &mut [Rc<Sale>], order: &Rc<Order>) -> Answer {
    let mut items = Vec::new();
    for (activity, asked) in &order.items {
        let sale = Rc::make_mut(&mut sales[*activity]);
        let (units, had) = (sale.units(order, *asked), sale.has(&order.user));
        let is_refund = order.operation == Operation::Refund;
        sale.stock = if is_refund { sale.stock + units } else { sale.stock - units };
        if layout.has_users() {
            sale.set(&order.user, if is_refund { had - units } else { had + units });
        }
        if let Some(truth) = &mut sale.truth {
            let held = truth.entry(order.user.as_str().into()).or_default();
            *held += if is_refund { -signed(units) } else { signed(units) };
        }
        if order.operation == Operation::Hold {
            let hold = Hold { state: "held".to_owned(), user: order.user.as_str().into(), units };
            sale.holds.insert(order.request.as_str().into(), hold);
        }
        if !order.request.is_empty() {
            sale.requests.insert(order.request.as_str().into(), Known { order: Rc::clone(order), refusal: None });
        }
        items.push(sale.item(layout, order, "ok"));
    }
    Answer { status: "ok", items }
}

/// Keeps the refusal of a request that may have been sent before.
pub fn keep_refusal(sales: &mut [Rc<Sale>], order: &Rc<Order>, refusal: &'static str) {
    for (activity, _) in &order.items {
        let known = Known { order: Rc::clone(order), refusal: Some(refusal) };
        Rc::make_mut(&mut sales[*activity]).requests.insert(order.request.as_str().into(), known);
    }
}
