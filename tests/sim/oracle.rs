//! What callers heard, and what follows from it. It reads the keys only to compare them with that.

use std::collections::{BTreeMap, BTreeSet};

use seckill::Kind;

use super::calls::Activity;
use super::keys::{Bytes, Data, Keys};

/// A promise that is broken: the rule, and what happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    pub rule: &'static str,
    pub what: String,
}

/// Breaks a rule.
pub fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { rule, what: what.into() })
}

pub const OK: i64 = 1;
pub const REPLAYED: i64 = 2;
pub const REFUSED: i64 = -1;
pub const LIMIT_EXCEEDED: i64 = -2;
pub const OUT_OF_STOCK: i64 = -3;
pub const NOT_STARTED: i64 = -5;
pub const ENDED: i64 = -6;
pub const PAUSED: i64 = -7;
pub const EXCEEDS_BOUGHT: i64 = -8;
pub const REQUEST_CONFLICT: i64 = -9;
pub const CORRUPT: i64 = -11;
pub const NOT_HELD: i64 = -12;
pub const EXPIRED: i64 = -13;
pub const CONFIRMED: i64 = -14;
pub const REVERSED: i64 = -16;

/// What the caller of an order knows of it.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Heard {
    /// Nothing: it was sent, and may have run, may run, or never will.
    #[default]
    Nothing,
    /// A first try was refused, and nothing was stored: it may be tried again.
    Rejected,
    /// A retry was refused with this status, for good.
    Refused(i64),
    /// The units are the user's until they are refunded.
    Bought,
    /// The units are the user's until this time.
    Held(u64),
    /// The hold is over and never comes back.
    Ended,
}

/// A purchase: a deduct, a hold, or a multi-order.
#[derive(Debug, Default, Clone)]
pub struct Order {
    pub is_hold: bool,
    /// A hold that is an item of an order over several slots, which no expiry ends.
    pub is_item: bool,
    pub request: String,
    /// A line of a file without a request id: only the file can be sent again, and says no more than that the line was decided.
    pub is_nameless: bool,
    /// By a drop-in, which has no ids: nobody can send it again.
    pub is_plain: bool,
    pub user: Bytes,
    /// Activities by number, with units.
    pub items: Vec<(usize, u64)>,
    pub heard: Heard,
    /// How long it is to be held.
    pub duration: u64,
    /// The first time at which a hold of it may be over, by when it was first sent.
    pub may_expire_at: u64,
    /// A release was sent: from then on nobody relies on the hold.
    pub is_releasing: bool,
    /// A confirmation was sent, and not answered since.
    pub is_confirming: bool,
    /// It was confirmed or released before its own answer came, which waits for replicas.
    pub is_settled_first: bool,
    /// A call that takes its units was cut.
    pub was_cut: bool,
    /// A repair took units from its user that order records did not have: it may be reversed.
    pub may_be_reversed: bool,
    /// A failover may have lost it, and order records have it: it is not sent again.
    pub is_lost: bool,
    /// A repair returned units of a counter, which nobody has: whatever its id says, they may be for sale again.
    pub may_be_void: bool,
    /// Another order was sent with its request id.
    pub shares_id: bool,
}

impl Order {
    /// One that was not sent yet.
    pub fn new(number: usize, user: Bytes, items: Vec<(usize, u64)>) -> Self {
        Self { request: format!("r{number}"), user, items, may_expire_at: u64::MAX, ..Self::default() }
    }

    /// Whether it has an item in an activity.
    pub fn is_in(&self, activity: usize) -> bool {
        self.items.iter().any(|(of, _)| *of == activity)
    }

    /// Whether its units are the user's now, as far as the caller knows.
    pub fn is_certain(&self, now: u64) -> bool {
        match self.heard {
            Heard::Bought => !self.is_lost,
            Heard::Held(deadline) => now < deadline && !self.is_releasing,
            _ => false,
        }
    }

    /// It is sent, maybe once more: whatever is not decided is in doubt until an answer comes.
    pub fn note_sent(&mut self, now: u64) {
        self.may_expire_at = self.may_expire_at.min(now + self.duration);
        if self.heard == Heard::Rejected {
            self.heard = Heard::Nothing;
        }
    }

    /// A reply to a deduct, a hold or a multi-order. `is_retry`: a refusal is stored under its id.
    pub fn hear(&mut self, status: i64, deadline: Option<u64>, is_retry: bool, now: u64) -> Result<(), Broken> {
        let was_certain = self.is_certain(now);
        match (status, self.heard) {
            (OK, Heard::Bought | Heard::Ended) if self.is_settled_first => self.is_settled_first = false,
            (OK, Heard::Bought | Heard::Held(_) | Heard::Ended) => return self.broken("one id is one order", status),
            (OK | REPLAYED, Heard::Refused(_)) => return self.broken("a refused retry stays refused", status),
            (REPLAYED, Heard::Ended) => return self.broken("what has ended never comes back", status),
            (REPLAYED, Heard::Bought) => {}
            (REPLAYED, _) if self.may_be_void => self.heard = Heard::Rejected,
            (OK | REPLAYED, _) if self.is_hold => {
                let Some(deadline) = deadline else { return self.broken("a hold has a deadline", status) };
                self.heard = Heard::Held(deadline);
            }
            (OK | REPLAYED, _) => self.heard = Heard::Bought,
            (_, Heard::Bought) => return self.broken("an answer stays true", status),
            (_, Heard::Held(_)) if was_certain => return self.broken("an answer stays true", status),
            (REVERSED, _) if self.may_be_reversed => self.heard = Heard::Refused(REVERSED),
            // Of several activities a reset may make one forget it, and another order takes its id there.
            (_, Heard::Refused(before)) if before != status && !(self.shares_id && self.items.len() > 1) => {
                return self.broken("a refused retry stays refused", status);
            }
            // Only some of its activities know it, or another order was first.
            (REQUEST_CONFLICT, Heard::Nothing | Heard::Rejected | Heard::Refused(_))
                if self.shares_id || self.items.len() > 1 && self.was_cut =>
            {
                self.heard = Heard::Refused(status);
            }
            (NOT_HELD, _) if self.is_hold && self.is_releasing => self.heard = Heard::Ended,
            // A confirmation may bring it back.
            (EXPIRED, _)
                if self.is_hold
                    && (self.is_releasing || self.may_expire_at <= now || self.may_be_reversed || self.shares_id) =>
            {
                if self.heard != Heard::Ended {
                    self.heard = Heard::Held(0);
                }
            }
            (
                REFUSED | LIMIT_EXCEEDED | OUT_OF_STOCK | PAUSED | NOT_STARTED | ENDED,
                Heard::Nothing | Heard::Rejected | Heard::Refused(_),
            ) => {
                self.heard = if is_retry { Heard::Refused(status) } else { Heard::Rejected };
            }
            _ => return self.broken("an answer makes sense", status),
        }
        Ok(())
    }

    /// A reply to a confirmation.
    pub fn hear_confirm(&mut self, status: i64, now: u64) -> Result<(), Broken> {
        let was_certain = self.is_certain(now);
        self.is_settled_first |= status == OK && self.heard == Heard::Nothing;
        match (status, self.heard) {
            (OK | REPLAYED, Heard::Ended) => return self.broken("what has ended is never confirmed", status),
            (OK | REPLAYED, Heard::Refused(_)) => return self.broken("a refused retry stays refused", status),
            (OK | REPLAYED, _) => self.heard = Heard::Bought,
            (NOT_HELD | EXPIRED, Heard::Bought) => return self.broken("a confirmation is final", status),
            // It never came, or was released. A copy of the confirmation may still come behind the hold.
            (NOT_HELD, Heard::Nothing | Heard::Rejected | Heard::Refused(_)) => return Ok(()),
            (NOT_HELD, Heard::Held(0)) if self.shares_id => return Ok(()),
            (REQUEST_CONFLICT, heard) if self.shares_id && !matches!(heard, Heard::Bought | Heard::Held(1..)) => {
                return Ok(());
            }
            (NOT_HELD, _) if self.is_releasing => self.heard = Heard::Ended,
            (NOT_HELD, _) => return self.broken("an answer stays true", status),
            (EXPIRED, _) if was_certain && !self.may_be_reversed => return self.broken("an answer stays true", status),
            (EXPIRED, _) => self.heard = Heard::Ended,
            _ => return self.broken("an answer makes sense", status),
        }
        self.is_confirming = false;
        Ok(())
    }

    /// A reply to a release.
    pub fn hear_release(&mut self, status: i64) -> Result<(), Broken> {
        self.is_settled_first |= status == OK && self.heard == Heard::Nothing;
        match (status, self.heard) {
            (OK | REPLAYED | NOT_HELD | EXPIRED, Heard::Bought) => self.broken("a confirmation is final", status),
            (OK | REPLAYED | EXPIRED, _) => {
                self.heard = Heard::Ended;
                Ok(())
            }
            (NOT_HELD, _) | (CONFIRMED, Heard::Bought) => Ok(()),
            (REQUEST_CONFLICT, heard) if self.shares_id && !matches!(heard, Heard::Bought | Heard::Held(1..)) => Ok(()),
            (CONFIRMED, _) if self.is_confirming => {
                self.heard = Heard::Bought;
                Ok(())
            }
            _ => self.broken("an answer makes sense", status),
        }
    }

    fn broken<T>(&self, rule: &'static str, status: i64) -> Result<T, Broken> {
        let rule = if status == CORRUPT { "nothing becomes corrupt" } else { rule };
        broken(rule, format!("{status} for {}, where callers heard {:?}", self.request, self.heard))
    }
}

/// Units that go back from a user.
#[derive(Debug, Clone)]
pub struct Refund {
    pub request: String,
    pub activity: usize,
    pub user: Bytes,
    pub units: u64,
    pub heard: Heard,
    /// Whether the caller knew for certain that the user had them.
    pub is_due: bool,
    /// An order was sent with its request id.
    pub shares_id: bool,
}

impl Refund {
    /// One that was not sent yet.
    pub fn new(request: String, activity: usize, (user, units): (Bytes, u64), is_due: bool) -> Self {
        Self { request, activity, user, units, heard: Heard::Nothing, is_due, shares_id: false }
    }

    /// It is sent, maybe once more. If it was rejected before, it counts again: the user may have the units by now, but whether they
    /// are due, nobody looked.
    pub fn note_sent(&mut self) {
        if self.heard == Heard::Rejected {
            (self.heard, self.is_due) = (Heard::Nothing, false);
        }
    }

    /// Whether the units may be gone.
    pub fn counts(&self) -> bool {
        matches!(self.heard, Heard::Nothing | Heard::Ended)
    }

    /// A reply to a refund. One that was applied is `Ended`.
    pub fn hear(&mut self, status: i64, is_retry: bool) -> Result<(), Broken> {
        let rule = match (status, self.heard) {
            (OK, Heard::Ended) => "one id is one refund",
            (OK | REPLAYED, Heard::Refused(_)) => "a refused retry stays refused",
            (OK | REPLAYED, _) => {
                self.heard = Heard::Ended;
                return Ok(());
            }
            (EXCEEDS_BOUGHT, Heard::Ended) => "an answer stays true",
            (EXCEEDS_BOUGHT, Heard::Nothing | Heard::Rejected) if self.is_due => "a refusal is true",
            (REQUEST_CONFLICT, Heard::Ended) => "an answer stays true",
            (REQUEST_CONFLICT, _) if !self.shares_id => "an answer makes sense",
            (EXCEEDS_BOUGHT | REQUEST_CONFLICT, heard) => {
                self.heard = if is_retry || matches!(heard, Heard::Refused(_)) {
                    Heard::Refused(status)
                } else {
                    Heard::Rejected
                };
                return Ok(());
            }
            _ => "an answer makes sense",
        };
        broken(rule, format!("{status} for refund {}, where callers heard {:?}", self.request, self.heard))
    }
}

/// Everything that callers heard.
#[derive(Default)]
pub struct Oracle {
    pub orders: Vec<Order>,
    pub refunds: Vec<Refund>,
    /// When the step `expire` last ran: it looks again later at what it leaves.
    pub expired_at: u64,
}

/// How long the step `expire` leaves alone what it does not end, in ms.
const POSTPONED: u64 = 5000;

impl Oracle {
    /// Units of an activity that each user was promised for certain.
    pub fn promised(&self, activity: usize, now: u64) -> BTreeMap<&[u8], i64> {
        self.sums(activity, |order| order.is_certain(now))
    }

    /// The same of what can be refunded, and what order records have: without what is held open.
    pub fn bought(&self, activity: usize) -> BTreeMap<&[u8], i64> {
        self.sums(activity, |order| order.heard == Heard::Bought)
    }

    /// The same without what a failover may have lost.
    pub fn kept(&self, activity: usize) -> BTreeMap<&[u8], i64> {
        self.sums(activity, |order| order.heard == Heard::Bought && !order.is_lost)
    }

    fn sums(&self, activity: usize, counts: impl Fn(&Order) -> bool) -> BTreeMap<&[u8], i64> {
        let mut sums: BTreeMap<&[u8], i64> = BTreeMap::new();
        for order in self.orders.iter().filter(|order| counts(order)) {
            for (_, units) in order.items.iter().filter(|(of, _)| *of == activity) {
                *sums.entry(&order.user).or_default() += units.cast_signed();
            }
        }
        for refund in self.refunds.iter().filter(|refund| refund.activity == activity && refund.counts()) {
            *sums.entry(&refund.user).or_default() -= refund.units.cast_signed();
        }
        sums
    }

    /// An activity is reset: nothing that was answered is true any more, and what is sent again is as good as new.
    pub fn forget(&mut self, activity: usize) {
        for order in self.orders.iter_mut().filter(|order| order.is_in(activity)) {
            // A copy of a confirmation may still come, and find a hold that was made since.
            let heard = if order.is_plain { Heard::Rejected } else { Heard::Nothing };
            (order.heard, order.is_confirming, order.is_lost) = (heard, order.is_hold, false);
        }
        for refund in self.refunds.iter_mut().filter(|refund| refund.activity == activity) {
            (refund.heard, refund.is_due) = (Heard::Nothing, false);
        }
    }

    /// A reply to a refund. One of units that the user was not known to have may have taken those that another one waits for.
    pub fn hear_refund(&mut self, number: usize, status: i64, is_retry: bool) -> Result<(), Broken> {
        self.refunds[number].hear(status, is_retry)?;
        let Refund { user, heard, is_due, .. } = self.refunds[number].clone();
        if heard == Heard::Ended && !is_due {
            self.refunds.iter_mut().filter(|refund| refund.user == user).for_each(|refund| refund.is_due = false);
        }
        Ok(())
    }

    /// Compares the promises with an activity.
    pub fn check(&self, number: usize, activity: &Activity, keys: &Keys, now: u64) -> Result<(), Broken> {
        let Some(found) = Found::read(activity, keys)?.filter(|found| !found.is_archived) else { return Ok(()) };
        self.check_items(number, activity, keys)?;
        let promised = self.promised(number, now);
        let sum: i64 = promised.values().map(|units| (*units).max(0)).sum();
        if sum + found.for_sale > found.most {
            let what = format!("{}: {sum} promised and {} for sale of {}", activity.id, found.for_sale, found.most);
            return broken("never more than there is", what);
        }
        for (user, units) in promised.into_iter().filter(|_| activity.layout.kind().has_users()) {
            let name = String::from_utf8_lossy(user);
            let held = found.held.get(user).copied().unwrap_or_default();
            if held < units {
                let what = format!("{}: {name} was promised {units} and has {held}", activity.id);
                return broken("an answer stays true", what);
            }
            // Of who is recorded once it is the number of orders.
            let limit = found.limit.filter(|_| activity.layout.kind() == Kind::Hash);
            if limit.is_some_and(|limit| units > limit) {
                return broken("limits hold", format!("{}: {name} was promised {units}", activity.id));
            }
        }
        Ok(())
    }

    /// Whether the ledger, which nobody trimmed, names each order and refund that was answered. An order that was cut may lack its
    /// entry, but what is written down first never does: a refund, and the payment of a hold that was not over.
    pub fn check_entries(&self, number: usize, activity: &Activity, keys: &Keys) -> Result<(), Broken> {
        if Found::read(activity, keys)?.is_none_or(|found| !found.has_ledger) {
            return Ok(());
        }
        let named = named_by(keys.0.get(activity.keys.ledger.as_bytes()));
        let is_named =
            |ops: &[&str], request: &str| ops.iter().any(|op| named.contains(&(op.as_bytes(), request.as_bytes())));
        for order in self.orders.iter().filter(|order| order.is_in(number) && order.heard == Heard::Bought) {
            let ops: &[&str] = if order.is_hold { &["confirm", "deduct"] } else { &["deduct"] };
            if !order.was_cut && !order.is_nameless && !is_named(ops, &order.request) {
                return broken("the ledger names what was answered", format!("{ops:?} of {}", order.request));
            }
        }
        for refund in self.refunds.iter().filter(|refund| refund.activity == number && refund.heard == Heard::Ended) {
            if !is_named(&["refund"], &refund.request) {
                return broken("the ledger names what was answered", format!("refund {}", refund.request));
            }
        }
        Ok(())
    }

    /// Whether the step `expire` will name each item of an order over several slots as soon as it is overdue: only that step may
    /// put it off, because whoever runs it decides the order.
    fn check_items(&self, number: usize, activity: &Activity, keys: &Keys) -> Result<(), Broken> {
        let deadlines = activity.keys.deadlines.as_ref().and_then(|key| keys.0.get(key.as_bytes()));
        let Some(Data::Sorted(deadlines)) = deadlines else { return Ok(()) };
        for item in self.orders.iter().filter(|order| order.is_item && order.items[0].0 == number) {
            let (Heard::Held(deadline), Some(due)) = (item.heard, deadlines.get(item.request.as_bytes())) else {
                continue;
            };
            if *due as u64 > deadline.max(self.expired_at + POSTPONED) {
                return broken("an overdue item is named", format!("{}: due at {due}, not {deadline}", item.request));
            }
        }
        Ok(())
    }
}

/// What the entries of a ledger did, and the request ids of it.
fn named_by(ledger: Option<&Data>) -> BTreeSet<(&[u8], &[u8])> {
    let mut named = BTreeSet::new();
    let Some(Data::Stream(ledger)) = ledger else { return named };
    for entry in ledger.entries.values() {
        let field = |name: &[u8]| entry.chunks(2).find(|field| field[0] == name).map(|field| &field[1][..]);
        let (op, requests) = (field(b"op").unwrap_or_default(), field(b"requests").unwrap_or_default());
        named.extend(requests.split(|byte| *byte == b'\t').map(|request| (op, request)));
    }
    named
}

/// What the keys of an activity say.
pub struct Found {
    /// Stock and what is withdrawn.
    pub for_sale: i64,
    pub total: i64,
    /// The total, or that of all shards, while it is raised in one after the other.
    pub most: i64,
    pub limit: Option<i64>,
    /// Whether nobody has paused it.
    pub is_live: bool,
    /// When it may be bought, Unix ms, from that on and until then; of shards, each.
    windows: Vec<[Option<u64>; 2]>,
    /// Whether files have what it was.
    pub is_archived: bool,
    pub has_ledger: bool,
    pub epoch: String,
    pub held: BTreeMap<Bytes, i64>,
}

impl Found {
    /// Whether it may be bought at that time.
    pub fn is_open(&self, now: u64) -> bool {
        let is_open = |[starts, ends]: &[Option<u64>; 2]| {
            starts.is_none_or(|starts| starts <= now) && ends.is_none_or(|ends| now < ends)
        };
        self.windows.iter().all(is_open)
    }

    /// `None` if there is no such activity. Of one that is sharded the parent has the rules, and each shard its units.
    pub fn read(activity: &Activity, keys: &Keys) -> Result<Option<Self>, Broken> {
        let Some(mut found) = Self::read_one(activity, keys)? else { return Ok(None) };
        let mut totals = 0;
        for part in &activity.parts {
            let Some(part) = Self::read_one(part, keys)? else { continue };
            found.is_archived |= part.is_archived;
            (found.for_sale, totals) = (found.for_sale + part.for_sale, totals + part.total);
            // An update removes the limit from one after the other.
            found.limit = found.limit.filter(|_| part.limit.is_some());
            found.held.extend(part.held);
            found.windows.extend(part.windows);
        }
        found.most = found.most.max(totals);
        Ok(Some(found))
    }

    fn read_one(activity: &Activity, keys: &Keys) -> Result<Option<Self>, Broken> {
        let names = &activity.keys;
        let rules = keys.field(&names.meta, b"rules").map(|rules| String::from_utf8_lossy(rules).into_owned());
        let made = activity.made_elsewhere.filter(|_| keys.get(&names.stock).is_some());
        let Some(rules) = rules.or_else(|| made.map(|total| format!("live 0 1 - {total} - -"))) else {
            return Ok(None);
        };
        let rules: Vec<&str> = rules.split(' ').collect();
        let number = |text: Option<&Bytes>| {
            let text = text.map_or("0".into(), |text| String::from_utf8_lossy(text));
            match text.parse::<i64>() {
                Ok(number) if number >= 0 => Ok(number),
                _ => broken("numbers are numbers", format!("{}: `{text}`", activity.id)),
            }
        };
        let for_sale = number(keys.get(&names.stock))? + number(keys.field(&names.meta, b"withdrawn"))?;
        let participants = names.participants.as_ref().and_then(|key| keys.0.get(key.as_bytes()));
        let held = match participants {
            Some(Data::Hash(users)) => users
                .iter()
                .map(|(user, units)| Ok((user.clone(), number(Some(units))?)))
                .collect::<Result<_, Broken>>()?,
            Some(Data::Set(users)) => {
                let units = |user: &Bytes| match &names.units {
                    // A drop-in does not say how many.
                    Some(units) => keys.field(units, user).map_or(Ok(i64::MAX), |units| number(Some(units))),
                    None => Ok(1),
                };
                users.iter().map(|user| Ok((user.clone(), units(user)?))).collect::<Result<_, Broken>>()?
            }
            _ => BTreeMap::new(),
        };
        let total = rules[4].parse().expect("rules have a total");
        // Until an adoption is at its end, it has no total that counts.
        let made = made.filter(|_| keys.field(&names.meta, b"adopt").is_some());
        Ok(Some(Self {
            for_sale,
            total,
            most: made.unwrap_or(total),
            limit: rules[3].parse().ok(),
            is_live: rules[0] == "live",
            windows: vec![[rules[5].parse().ok(), rules[6].parse().ok()]],
            // A shard that was removed keeps rules of nothing.
            is_archived: rules[0] == "archived" && !(rules[1] == "0" && rules[4] == "0"),
            has_ledger: rules[1] == "1",
            epoch: rules[2].to_owned(),
            held,
        }))
    }
}
