//! From what was found in Redis to what it means.

use super::book::Book;
use super::drift::{Audit, Class, Difference, Held, Verdict};
use super::id::ActivityId;
use super::layout::Kind;
use super::ledger::EntryId;
use super::order::Corrupt;

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
    /// Units left.
    pub stock: Option<u64>,
    /// `None` where only a backend created it.
    pub rules: Option<Rules>,
    /// The ledger's last entry.
    pub last: Option<EntryId>,
    /// How many entries the ledger has.
    pub length: u64,
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
}

/// All that was found of one activity.
pub struct Facts {
    /// The activity.
    pub activity: ActivityId,
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
        let fine = match &holds {
            Err(_) => false,
            Ok(units) => {
                ledger.is_none_or(|ledger| signed(*units) == ledger) && limit.is_none_or(|limit| *units <= limit)
            }
        };
        (!fine).then_some(Finding { user, holds, ledger })
    }
}

/// Units as a number that may be compared with one below zero.
pub fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// Says what the facts mean.
pub fn judge(mut facts: Facts) -> Audit {
    let mut differences = Vec::new();
    let mut whole =
        |class, redis, ledger| differences.push(Difference { user: None, class, redis, ledger, orders: None });
    if let Some(corrupt) = &facts.corrupt {
        whole(Class::Corrupt, Some(Held::Text(corrupt.key.clone())), None);
        facts.notes.push(format!("key `{}` {}", corrupt.key, corrupt.what));
    }
    for (id, why) in &facts.book.unreadable {
        whole(Class::Corrupt, Some(Held::Text(id.to_string())), None);
        facts.notes.push(format!("ledger entry `{id}` cannot be read: {why}"));
    }

    let instant = facts.end.as_ref();
    let rules = instant.and_then(|instant| instant.rules);
    let stock = instant.and_then(|instant| instant.stock);
    let total = facts.total.or(rules.map(|rules| rules.total));
    let bought = bought(&facts, total, stock);
    let expected = total.zip(bought).map(|(total, bought)| signed(total) - bought);
    let drift = stock.zip(expected).map(|(stock, expected)| signed(stock) - expected);
    let by_ledger = facts.by_ledger.then(|| signed(facts.book.total.unwrap_or_default()) - facts.book.sum);
    if instant.is_some() && facts.corrupt.is_none() {
        let other_total = facts.by_ledger && rules.map(|rules| rules.total) != facts.book.total;
        if stock.is_none() || facts.settled && (drift.is_some_and(|drift| drift != 0) || other_total) {
            whole(Class::Conservation, stock.map(|stock| Held::Units(signed(stock))), by_ledger);
        }
    }
    if stock.is_none() && instant.is_some() && facts.corrupt.is_none() {
        facts.notes.push("its stock key is gone, though it was preheated".to_owned());
    }

    let limit = limit(facts.kind, rules);
    for finding in &facts.findings {
        let mut say = |class, redis| {
            let user = Some(String::from_utf8_lossy(facts.book.users.name(finding.user)).into_owned());
            differences.push(Difference { user, class, redis: Some(redis), ledger: finding.ledger, orders: None });
        };
        match &finding.holds {
            Err(text) => say(Class::Corrupt, Held::Text(text.clone())),
            Ok(units) => {
                if finding.ledger.is_some_and(|ledger| ledger != signed(*units)) {
                    say(Class::CounterDrift, Held::Units(signed(*units)));
                }
                if limit.is_some_and(|limit| *units > limit) {
                    say(Class::OverLimit, Held::Units(signed(*units)));
                }
            }
        }
    }
    differences.sort_by(|one, other| (one.class, &one.user).cmp(&(other.class, &other.user)));

    let verdict = match (&facts.end, &facts.corrupt) {
        (None, None) => Verdict::NotPreheated,
        _ if !differences.is_empty() => Verdict::Drift,
        _ if !facts.settled => Verdict::Unsettled,
        _ => Verdict::Match,
    };
    Audit {
        activity: facts.activity,
        verdict,
        total,
        stock,
        bought,
        expected_stock: expected,
        drift,
        differences,
        notes: facts.notes,
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
