//! What would set right what an audit found. Changes by a difference, each with an id of its own; nothing is set
//! blindly.
//!
//! Order records are believed over Redis. Without them, a counter that stock moved with is never undone: a backend
//! sold those units past the ledger, and undoing would sell them again.

use serde::{Deserialize, Serialize};

use super::audit::{Facts, Finding, limit, signed};
use super::drift::Class;
use super::id::StoredUser;
use super::layout::{Kind, Layout};

/// One repair, as a plan keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PlanRow", into = "PlanRow")]
pub struct Repair {
    /// Names it, so that it is applied once.
    pub id: String,
    /// The layout of the keys.
    pub layout: Layout,
    /// The activity.
    pub activity: String,
    /// What it repairs.
    pub class: Class,
    /// Whose units; `None` for the stock alone.
    pub user: Option<StoredUser>,
    /// Units as they were found; it is not applied if they differ by then. `None`: unknown, or, of the stock alone, its
    /// key was gone.
    pub from: Option<u64>,
    /// Units as they should be.
    pub to: u64,
    /// By how much the stock moves.
    pub stock_change: i64,
    /// The activity's epoch when it was audited; `None` without a meta.
    pub epoch: Option<u64>,
    /// How many repairs it had seen by then; `None` without a meta.
    pub repairs: Option<u64>,
}

/// A repair in a plan file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanRow {
    id: String,
    layout: Layout,
    activity: String,
    class: Class,
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_hex: Option<String>,
    from: Option<u64>,
    to: u64,
    stock_change: i64,
    epoch: Option<u64>,
    repairs: Option<u64>,
}

impl From<Repair> for PlanRow {
    fn from(repair: Repair) -> Self {
        let user = repair.user.as_ref();
        Self {
            user: user.and_then(StoredUser::text).map(str::to_owned),
            user_hex: user.and_then(StoredUser::user_hex),
            id: repair.id,
            layout: repair.layout,
            activity: repair.activity,
            class: repair.class,
            from: repair.from,
            to: repair.to,
            stock_change: repair.stock_change,
            epoch: repair.epoch,
            repairs: repair.repairs,
        }
    }
}

impl TryFrom<PlanRow> for Repair {
    type Error = String;

    fn try_from(row: PlanRow) -> Result<Self, Self::Error> {
        let user = match (row.user, row.user_hex) {
            (Some(_), Some(_)) => return Err("user and user_hex: give one of them".to_owned()),
            (user, None) => user.map(StoredUser::new),
            (None, Some(hex)) => match StoredUser::of_hex(&hex) {
                Some(user) => Some(user),
                None => {
                    let hex = hex.escape_debug();
                    return Err(format!("user_hex: `{hex}` is not hexadecimal digits, two a byte"));
                }
            },
        };
        Ok(Self {
            user,
            id: row.id,
            layout: row.layout,
            activity: row.activity,
            class: row.class,
            from: row.from,
            to: row.to,
            stock_change: row.stock_change,
            epoch: row.epoch,
            repairs: row.repairs,
        })
    }
}

/// What became of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repaired {
    /// It was only planned.
    Planned,
    /// It was applied.
    Ok,
    /// It was applied before.
    Replayed,
    /// The user holds something else by now.
    Changed,
    /// Fewer units are left than would have to be taken.
    OutOfStock,
    /// The stock would pass the total.
    ExceedsTotal,
    /// Its id was used for something else.
    RequestConflict,
    /// The activity was reset or repaired since it was audited.
    Stale,
    /// There is no such activity.
    NotPreheated,
    /// A key holds what it must not.
    Corrupt,
}

impl Repaired {
    /// Its name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Ok => "ok",
            Self::Replayed => "replayed",
            Self::Changed => "changed",
            Self::OutOfStock => "out_of_stock",
            Self::ExceedsTotal => "exceeds_total",
            Self::RequestConflict => "request_conflict",
            Self::Stale => "stale",
            Self::NotPreheated => "not_preheated",
            Self::Corrupt => "corrupt",
        }
    }

    /// Whether it is in force, now or before.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Replayed)
    }
}

/// What to do about an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What can be repaired.
    pub repairs: Vec<Repair>,
    /// What cannot, how often, and why.
    pub kept: Vec<(Class, usize, &'static str)>,
}

impl Plan {
    fn keep(&mut self, class: Class, why: &'static str) {
        match self.kept.iter_mut().find(|(known, _, known_why)| (*known, *known_why) == (class, why)) {
            Some((_, count, _)) => *count += 1,
            None => self.kept.push((class, 1, why)),
        }
    }
}

/// What the stock says about the counters that differ from the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// It moved with all of them.
    With,
    /// It moved with none of them.
    Without,
    /// It moved with some of them, or with something else.
    Unclear,
}

/// Plans the repairs of an activity whose stock is `drift` above what it should be.
pub fn plan(facts: &Facts, drift: Option<i64>) -> Plan {
    let mut plan = Plan::default();
    let Some(end) = &facts.end else { return plan };
    let rules = end.rules;
    let limit = limit(facts.kind, rules);
    let other_total = facts.total.is_some() && rules.is_some_and(|rules| Some(rules.total) != facts.total)
        || facts.by_ledger && rules.map(|rules| rules.total) != facts.book.total;
    if facts.corrupt.is_some() || !facts.book.unreadable.is_empty() || end.stock.is_none() {
        plan.keep(Class::Corrupt, "a key that is corrupt must be looked at first");
        return plan;
    }
    if !facts.settled || facts.book.orders_too_old() {
        return plan;
    }
    // Units that neither stock nor participants have.
    let missing = -drift.unwrap_or_default();
    let drifted: i64 = facts.findings.iter().filter_map(Finding::drift).sum();
    let any_drifted = facts.findings.iter().any(|finding| finding.drift().is_some_and(|drift| drift != 0));
    let moved = match (missing, any_drifted) {
        (0, _) | (_, false) => Moved::With,
        _ if drifted == -missing => Moved::Without,
        _ => Moved::Unclear,
    };
    let add = |plan: &mut Plan, class, user: Option<&str>, from: i64, to: i64, change: i64| {
        let (Ok(from), Ok(to)) = (u64::try_from(from), u64::try_from(to)) else {
            return plan.keep(class, "the sums are below zero");
        };
        let mut repair = Repair {
            id: String::new(),
            layout: facts.layout,
            activity: facts.activity.to_string(),
            class,
            user: user.map(StoredUser::new),
            from: Some(from),
            to,
            stock_change: change,
            epoch: rules.map(|rules| rules.epoch),
            repairs: rules.map(|rules| rules.repairs),
        };
        // Without a meta nothing counts the repairs, so the instant of the audit tells one from the next.
        let at = if rules.is_none() { end.at.get() } else { 0 };
        let digest = blake3::hash(format!("{at} {repair:?}").as_bytes()).to_hex();
        repair.id = format!("repair:{}", &digest[..32]);
        plan.repairs.push(repair);
    };

    for finding in &facts.findings {
        let Ok(units) = &finding.holds else {
            plan.keep(Class::Corrupt, "a record that is no number must be looked at first");
            continue;
        };
        let units = signed(*units);
        let against = finding.against_orders(units).filter(|class| *class != Class::Timing);
        let drifts = finding.drift().is_some_and(|drift| drift != 0);
        if facts.kind == Kind::Counter {
            // What the ledger says was sold, what the records say, and what the stock says.
            let ledger = if facts.by_ledger { facts.book.units(finding.user) } else { units };
            if let (Some(class), Some(orders)) = (against, finding.orders) {
                let to = orders + finding.newer.unwrap_or_default().net;
                add(&mut plan, class, None, ledger, to, units - to);
            }
            continue;
        }
        if limit.is_some_and(|limit| units > signed(limit)) {
            plan.keep(Class::OverLimit, "only a refund can take units from a customer");
        }
        let Ok(user) = std::str::from_utf8(facts.book.users.name(finding.user)) else { continue };
        let (class, to) = match (against, finding.orders) {
            (Some(class), Some(orders)) if orders < 0 => {
                plan.keep(class, "the order records of a user sum up below zero");
                continue;
            }
            (Some(class), Some(orders)) => (class, orders + finding.newer.unwrap_or_default().net),
            (_, Some(_)) if drifts => (Class::CounterDrift, units),
            (_, None) if drifts => match (moved, finding.ledger) {
                (Moved::With, _) => (Class::CounterDrift, units),
                (Moved::Without, Some(ledger)) => (Class::CounterDrift, ledger),
                _ => {
                    plan.keep(
                        Class::CounterDrift,
                        "stock moved with some counters only: order records would tell which",
                    );
                    continue;
                }
            },
            _ => continue,
        };
        let change = match (moved, finding.ledger) {
            (Moved::Without, Some(ledger)) => ledger - to,
            _ => units - to,
        };
        add(&mut plan, class, Some(user), units, to, change);
    }

    if other_total {
        plan.keep(Class::Conservation, "the totals differ: `preheat --update` sets the total");
    } else if missing != 0 && moved != Moved::Without && facts.kind != Kind::Counter {
        if moved == Moved::Unclear && !facts.book.has_orders() {
            plan.keep(Class::Conservation, "stock moved with some counters only: order records would tell which");
        } else {
            add(&mut plan, Class::Conservation, None, 0, 0, missing);
        }
    } else if missing != 0 && facts.kind == Kind::Counter && plan.repairs.is_empty() {
        // Fewer than the ledger says: sold past it, so it is noted. More: they would be sold twice.
        let sold = facts.book.sum;
        match missing > 0 {
            true => add(&mut plan, Class::Conservation, None, sold, sold + missing, 0),
            false => add(&mut plan, Class::Conservation, None, sold, sold, missing),
        }
    }
    // What lowers the stock where it is too high comes first, then what raises it, then what needs it.
    plan.repairs.sort_by_key(|repair| (repair.user.is_some() || repair.stock_change > 0, -repair.stock_change));
    if facts.lost_tail() && plan.repairs.is_empty() {
        plan.keep(Class::LostTail, "nothing brings entries back; the order records tell what was lost");
    }
    plan
}

impl Finding {
    /// By how much the counter is above the ledger.
    fn drift(&self) -> Option<i64> {
        Some(signed(*self.holds.as_ref().ok()?) - self.ledger?)
    }
}
