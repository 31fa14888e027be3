//! What replies say, compared with what the keys say at that moment.

use seckill::Kind;

use super::calls::{Call, number, shown, shown_reply, status};
use super::history::History;
use super::keys::{Bytes, Reply};
use super::oracle::*;

impl History<'_> {
    /// Whether a first try was refused for a reason that there is. Refusals change nothing, so it still is.
    pub fn check_refusal(&self, order: usize, code: i64) -> Result<(), Broken> {
        let order = &self.oracle.orders[order];
        let is_true = match (code, self.refusals(order)?.first()) {
            (OUT_OF_STOCK, Some(Why { is_short, .. })) => *is_short,
            (LIMIT_EXCEEDED, Some(Why { is_over, .. })) => *is_over,
            _ => true,
        };
        if is_true { Ok(()) } else { broken("a refusal is true", format!("{code} for {}", order.request)) }
    }

    /// The same of several activities: each item says why it alone could not be had, or that it could, and one at least could not.
    pub fn check_multi_refusal(&self, order: usize, reply: &Reply) -> Result<(), Broken> {
        let order = &self.oracle.orders[order];
        let refusals: Vec<i64> = self.refusals(order)?.iter().map(Why::status).collect();
        let text = shown_reply(reply);
        let said = text.split(' ').skip(1).map(|item| item.split(',').next().and_then(|code| code.parse().ok()));
        let is_true = said.eq(refusals.iter().copied().map(Some)) && refusals.iter().any(|code| *code != REFUSED);
        if is_true {
            Ok(())
        } else {
            broken("a refusal is true", format!("{text} for {}: {refusals:?}", order.request))
        }
    }

    /// Why each item of an order could not be had now.
    fn refusals(&self, order: &Order) -> Result<Vec<Why>, Broken> {
        let server = self.engine.server.borrow();
        let mut refusals = Vec::new();
        for (number, units) in &order.items {
            let activity = &self.activities[*number];
            let Some(found) = Found::read(activity, &server.keys)? else { continue };
            let (held, units) = (found.held.get(&order.user).copied().unwrap_or_default(), units.cast_signed());
            let is_over = match activity.layout.kind() {
                Kind::Hash => found.limit.is_some_and(|limit| held + units > limit),
                _ => held > 0,
            };
            refusals.push(Why { is_shut: !found.is_live, is_over, is_short: found.for_sale < units });
        }
        Ok(refusals)
    }

    /// Whether the numbers of a reply are those of the keys, which it has just read or written.
    pub fn check_numbers(&self, call: &Call, reply: &Reply) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let Some(activity) = self.activities.iter().find(|it| it.keys.stock.as_bytes() == call.keys[0]) else {
            return Ok(());
        };
        let Some(found) = Found::read(activity, &server.keys)? else { return Ok(()) };
        let is_true = match call.script {
            "deduct" | "hold" | "refund" => says(reply, &found, Some(&call.args[2])),
            "settle" if matches!(&call.args[3][..], b"confirm" | b"release") => says(reply, &found, text(reply, 4)),
            "preheat" if status(reply) == Some(OK) => {
                let part = |at| text(reply, at).and_then(|text| str::from_utf8(text).ok()?.parse::<i64>().ok());
                (part(3), part(5)) == (Some(found.total), Some(found.for_sale))
            }
            "multi_deduct" => shown_reply(reply).split(' ').skip(1).zip(&self.activities).all(|(item, activity)| {
                let parts: Vec<Option<i64>> = item.split(',').map(|part| part.parse().ok()).collect();
                let found = Found::read(activity, &server.keys).ok().flatten();
                found.is_none_or(|found| agrees(parts[1], parts[2], &found, Some(&call.args[4])))
            }),
            _ => true,
        };
        let what = || format!("{} -> {}: {} for sale", shown(call), shown_reply(reply), found.for_sale);
        if is_true { Ok(()) } else { broken("a reply says what there is", what()) }
    }
}

/// Why an item could not be had.
struct Why {
    is_shut: bool,
    is_over: bool,
    is_short: bool,
}

impl Why {
    /// What the item says, if nothing is known of its request id.
    fn status(&self) -> i64 {
        match self {
            Self { is_shut: true, .. } => PAUSED,
            Self { is_over: true, .. } => LIMIT_EXCEEDED,
            Self { is_short: true, .. } => OUT_OF_STOCK,
            _ => REFUSED,
        }
    }
}

fn text(reply: &Reply, at: usize) -> Option<&Bytes> {
    match reply {
        Reply::Array(parts) => match parts.get(at) {
            Some(Reply::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a reply's stock, and what its user has, are those of the keys.
fn says(reply: &Reply, found: &Found, user: Option<&Bytes>) -> bool {
    agrees(number(reply, 1), number(reply, 2), found, user)
}

fn agrees(stock: Option<i64>, held: Option<i64>, found: &Found, user: Option<&Bytes>) -> bool {
    let has = user.and_then(|user| found.held.get(user)).copied().unwrap_or_default();
    stock.is_none_or(|stock| stock == found.for_sale) && held.is_none_or(|held| held == has)
}
