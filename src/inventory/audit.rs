//! From what was found in Redis to what it means.

use super::book::{Book, Newer};
use super::checkpoint::Checkpoint;
use super::drift::{Audit, Class, Difference, Held, MissingOrder, Proof, Verdict};
use super::id::{ActivityId, StoredUser};
use super::layout::{Kind, Layout};
use super::ledger::EntryId;
use super::order::Corrupt;
use super::repair;
use super::time::Millis;

/// What preheat wrote, as far as an audit needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Units it was preheated with, updates included.
    pub total: u64,
    /// The most units a user may hold.
    pub per_user_limit: Option<u64>,
    /// One higher with each reset.
    pub epoch: u64,
    /// How many repairs were applied.
    pub repairs: u64,
    /// Whether changes are written to the ledger.
    pub ledger: bool,
}

/// An activity at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instant {
    /// The server's clock.
    pub at: Millis,
    /// Units left.
    pub stock: Option<u64>,
    /// `None` where only a backend created it.
    pub rules: Option<Rules>,
    /// The ledger's last entry.
    pub last: Option<EntryId>,
    /// How many entries the ledger has, with those that were removed behind its checkpoint; `None` where nobody asked.
    pub length: Option<u64>,
    /// Where the ledger begins, if it was trimmed.
    pub checkpoint: Option<Checkpoint>,
}

/// A user of whom not all is as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The user's number in the book.
    pub user: u32,
    /// Units held, or the text that is no number.
    pub holds: Result<u64, String>,
    /// What the ledger said at that same instant.
    pub ledger: Option<i64>,
    /// What the order records say.
    pub orders: Option<i64>,
    /// What the ledger has that is newer than the order records.
    pub newer: Option<Newer>,
}

impl Finding {
    /// What the order records say to units held, and what that means; `None` where they agree.
    pub fn against_orders(&self, units: i64) -> Option<Class> {
        let orders = self.orders?;
        if orders == units {
            return None;
        }
        // What Redis held when the records were written.
        let then = units - self.newer.unwrap_or_default().net;
        if self.newer.is_some_and(|newer| (then + newer.low..=then + newer.high).contains(&orders)) {
            return Some(Class::Timing);
        }
        Some(match (then, orders) {
            (then, orders) if then == orders => return None,
            (_, 0) => Class::MissingOrder,
            (0, orders) if orders > 0 => Class::MissingPurchase,
            _ => Class::QuantityMismatch,
        })
    }
}

/// All that was found of one activity.
pub struct Facts {
    /// The activity.
    pub activity: ActivityId,
    /// Where its keys are.
    pub layout: Layout,
    /// How it records who bought.
    pub kind: Kind,
    /// The total that the caller says it has.
    pub total: Option<u64>,
    /// The instant up to which the book goes; `None` where there is no such activity.
    pub end: Option<Instant>,
    /// A key that is corrupt as a whole.
    pub corrupt: Option<Corrupt>,
    /// The ledger, and everybody's name.
    pub book: Book,
    /// Units that participants hold, where no ledger says it.
    pub held: Option<i64>,
    /// The newest ledger entry that an order record names.
    pub newest_named: Option<EntryId>,
    /// Whether the ledger was folded from its beginning.
    pub by_ledger: bool,
    /// Whether nothing moved that would make the rest a guess.
    pub settled: bool,
    /// Users of whom not all is as it should be.
    pub findings: Vec<Finding>,
    /// What people should know beside it.
    pub notes: Vec<String>,
}

impl Book {
    /// What is wrong with a user at the instant at which the book ends; nothing mostly.
    pub fn finding(
        &self,
        user: u32,
        holds: Result<u64, String>,
        limit: Option<u64>,
        by_ledger: bool,
    ) -> Option<Finding> {
        let ledger = by_ledger.then(|| self.units(user));
        if by_ledger && self.is_unknown(user) && holds.as_ref().is_ok_and(|units| *units > 0) {
            return None;
        }
        let finding = Finding { user, holds, ledger, orders: self.ordered(user), newer: self.newer(user) };
        let fine = match &finding.holds {
            Err(_) => false,
            Ok(units) => {
                ledger.is_none_or(|ledger| signed(*units) == ledger)
                    && limit.is_none_or(|limit| *units <= limit)
                    && finding.against_orders(signed(*units)).is_none()
            }
        };
        (!fine).then_some(finding)
    }
}

impl Instant {
    /// Whether somebody bought or gave back within the last second.
    pub fn is_live(&self) -> bool {
        self.last.is_some_and(|last| self.at.get().saturating_sub(last.at().get()) < 1000)
    }
}

impl Facts {
    /// Whether order records name ledger entries newer than the ledger's last.
    pub fn lost_tail(&self) -> bool {
        let Some(end) = &self.end else { return false };
        end.rules.is_some_and(|rules| rules.ledger)
            && self.newest_named.is_some_and(|named| end.last.is_none_or(|last| named > last))
    }
}

/// Units as a number that may be compared with one below zero.
pub fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// What is done about units that no order record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOrders {
    /// They are among the repairs, which give them back.
    Repair,
    /// They are delivered again, so they are no repairs.
    Emit,
}

/// Says what the facts mean.
pub fn judge(mut facts: Facts, missing_orders: MissingOrders) -> Audit {
    let instant = facts.end.clone();
    let rules = instant.as_ref().and_then(|instant| instant.rules);
    let stock = instant.as_ref().and_then(|instant| instant.stock);
    let total = facts.total.or(rules.map(|rules| rules.total));
    if let (Kind::Counter, Some(end)) = (facts.kind, &facts.end) {
        // What is not there was sold, to whomever.
        let sold = total.zip(end.stock).map(|(total, stock)| total.saturating_sub(stock));
        let nobody = facts.book.user(b"");
        let ledger = facts.by_ledger.then(|| facts.book.units(nobody));
        let holds = sold.or(ledger.and_then(|units| u64::try_from(units).ok()));
        facts.findings.extend(holds.and_then(|units| facts.book.finding(nobody, Ok(units), None, false)));
    }
    let bought = bought(&facts, total, stock);
    let expected = total.zip(bought).map(|(total, bought)| signed(total) - bought);
    let drift = stock.zip(expected).map(|(stock, expected)| signed(stock) - expected);

    let mut differences = Vec::new();
    whole(&mut facts, drift, &mut differences);
    let limit = limit(facts.kind, rules);
    for finding in &facts.findings {
        of_user(finding, &facts, limit, &mut differences);
    }
    differences.sort_by(|one, other| (one.class, &one.user).cmp(&(other.class, &other.user)));

    let known = facts.kind.has_users() && total.is_some() && stock.is_some() && bought.is_some();
    let proof = match (facts.settled, facts.by_ledger, facts.book.has_orders(), known) {
        (false, ..) => Proof::None,
        (_, true, ..) => Proof::Ledger,
        (_, _, true, _) => Proof::Orders,
        (.., true) => Proof::Total,
        _ => Proof::None,
    };
    let verdict = match (&facts.end, &facts.corrupt) {
        (None, None) => Verdict::NotPreheated,
        _ if differences.iter().any(|difference| difference.class != Class::Timing) => Verdict::Drift,
        _ if !facts.settled || facts.book.orders_too_old() => Verdict::Unsettled,
        _ if proof == Proof::None => Verdict::Unproven,
        _ => Verdict::Match,
    };
    let mut plan = repair::plan(&facts, drift);
    let is_missing = |repair: &mut repair::Repair| {
        matches!(repair.class, Class::MissingOrder | Class::QuantityMismatch) && repair.from > Some(repair.to)
    };
    let missing = match missing_orders {
        MissingOrders::Repair => {
            plan.repairs.iter().cloned().filter_map(|mut repair| is_missing(&mut repair).then_some(repair)).collect()
        }
        MissingOrders::Emit => plan.repairs.extract_if(.., is_missing).collect::<Vec<_>>(),
    };
    let missing_orders = missing
        .into_iter()
        .map(|repair| MissingOrder { user: repair.user, quantity: repair.from.unwrap_or_default() - repair.to })
        .collect();
    Audit {
        activity: facts.activity,
        plan,
        missing_orders,
        verdict,
        proof,
        total,
        stock,
        bought,
        expected_stock: expected,
        drift,
        differences,
        notes: facts.notes,
    }
}

/// What is wrong with the activity as a whole.
fn whole(facts: &mut Facts, drift: Option<i64>, differences: &mut Vec<Difference>) {
    let mut say = |class, redis, ledger, orders| {
        differences.push(Difference { user: None, class, redis, ledger, orders, count: None })
    };
    for (id, why) in &facts.book.unreadable {
        say(Class::Corrupt, Some(Held::Text(id.to_string())), None, None);
        facts.notes.push(format!("ledger entry `{id}` cannot be read: {why}"));
    }
    if let Some(corrupt) = &facts.corrupt {
        say(Class::Corrupt, Some(Held::Text(corrupt.key.clone())), None, None);
        facts.notes.push(format!("key `{}` {}", corrupt.key, corrupt.what));
        return;
    }
    let Some(instant) = &facts.end else { return };
    let other_total = facts.by_ledger && instant.rules.map(|rules| rules.total) != facts.book.total;
    if instant.stock.is_none() || facts.settled && (drift.is_some_and(|drift| drift != 0) || other_total) {
        let by_ledger =
            facts.by_ledger.then(|| Held::Units(signed(facts.book.total.unwrap_or_default()) - facts.book.sum));
        say(Class::Conservation, instant.stock.map(|stock| Held::Units(signed(stock))), by_ledger, None);
    }
    if instant.stock.is_none() {
        facts.notes.push("its stock key is gone, though it was preheated".to_owned());
    }
    if let Some(named) = facts.newest_named.filter(|_| facts.lost_tail()) {
        let last = instant.last.map(|last| Held::Text(last.to_string()));
        say(Class::LostTail, None, last, Some(Held::Text(named.to_string())));
        facts.notes.push(format!(
            "order records name ledger entries up to `{named}`, and the ledger ends before: was there a failover?"
        ));
    }
}

/// What is wrong with one user.
fn of_user(finding: &Finding, facts: &Facts, limit: Option<u64>, differences: &mut Vec<Difference>) {
    let mut say = |class, redis| {
        let name = facts.book.users.name(finding.user);
        let user = facts.kind.has_users().then(|| StoredUser::new(name));
        let (ledger, orders) = (finding.ledger.map(Held::Units), finding.orders.map(Held::Units));
        differences.push(Difference { user, class, redis: Some(redis), ledger, orders, count: None });
    };
    match &finding.holds {
        Err(text) => say(Class::Corrupt, Held::Text(text.clone())),
        Ok(units) => {
            let held = Held::Units(signed(*units));
            if finding.ledger.is_some_and(|ledger| ledger != signed(*units)) {
                say(Class::CounterDrift, held.clone());
            }
            if limit.is_some_and(|limit| *units > limit) {
                say(Class::OverLimit, held.clone());
            }
            // A blur compared with order records would show differences that are none.
            if let Some(class) = finding.against_orders(signed(*units)).filter(|_| facts.settled) {
                say(class, held);
            }
        }
    }
}

/// The limit, where the layout counts units by it.
pub fn limit(kind: Kind, rules: Option<Rules>) -> Option<u64> {
    rules.and_then(|rules| rules.per_user_limit).filter(|_| kind == Kind::Hash)
}

/// Units that participants hold at the end: what the ledger says, and by how much each counter differs from it.
fn bought(facts: &Facts, total: Option<u64>, stock: Option<u64>) -> Option<i64> {
    if facts.by_ledger {
        let differ = |finding: &Finding| match (&finding.holds, finding.ledger) {
            (Ok(units), Some(ledger)) => signed(*units) - ledger,
            (Err(_), Some(ledger)) => -ledger,
            _ => 0,
        };
        return Some(facts.book.sum + facts.findings.iter().map(differ).sum::<i64>());
    }
    // Nobody is recorded and nothing was written down: what is not there was sold.
    facts.held.or_else(|| {
        total.zip(stock).filter(|(total, stock)| stock <= total).map(|(total, stock)| signed(total) - signed(stock))
    })
}
