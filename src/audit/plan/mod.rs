//! From the evidence to a plan of repairs. The stock goes up only on proof: complete order records, or a whole ledger
//! that equals every counter.
//!
//! Order records override Redis. Without them, a counter that the stock moved with is never undone: a backend sold those
//! units past the ledger, and undoing would sell them again.

mod changes;
pub(crate) mod repair;

use crate::audit::plan::changes::{Change, Changes};

use crate::audit::class::Class;
use crate::audit::evidence::Evidence;
use crate::audit::ledger_state::transfers::BrokenTransfer;
use crate::audit::plan::repair::{Audited, Repair, gate};
use crate::model::layout::Kind;

/// What is done about units that no order record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOrders {
    /// They are among the repairs, which give them back.
    Repair,
    /// They are delivered again, so they are no repairs.
    Emit,
}

/// What to do about an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairPlan {
    /// What can be repaired: what lowers the stock comes first.
    pub repairs: Vec<Repair>,
    /// Transfers between shards of which the other side can be made up for.
    pub transfers: Vec<BrokenTransfer>,
    /// What cannot, how often, and why.
    pub kept: Vec<(Class, usize, &'static str)>,
}

/// Plans the repairs of an activity. `is_unrecorded`: the order records don't mention it, though it sold.
pub(crate) fn plan(evidence: &Evidence, is_unrecorded: bool, missing_orders: MissingOrders) -> RepairPlan {
    let mut plan = RepairPlan::default();
    if evidence.end.is_none() {
        return plan;
    }
    if evidence.corrupt.is_some() || !evidence.ledger.unreadable.is_empty() {
        plan.keep(Class::Corrupt, "a key that is corrupt must be corrected first");
        return plan;
    }
    if !evidence.settled || evidence.ledger.orders_too_old() {
        return plan;
    }
    if is_unrecorded && !evidence.ledger.lists_users() {
        return plan;
    }
    if evidence.damaged_hold.is_some() {
        plan.keep(Class::Corrupt, "a hold that is damaged must be corrected first");
        return plan;
    }
    let mut changes = Changes::new(evidence, missing_orders);
    changes.open_counts();
    if evidence.kind == Kind::Counter {
        changes.counter();
    } else {
        changes.users();
    }
    let Changes { mut plan, changes, .. } = changes;
    plan.name(evidence, changes);
    for _ in &evidence.split_orders {
        plan.keep(Class::SplitOrder, "sell what is missing, or refund what is bought, by hand");
    }
    if evidence.lost_tail() && plan.repairs.is_empty() {
        plan.keep(Class::LostTail, "nothing restores entries; the order records show what was lost");
    }
    plan
}

/// The stock and the ledger's end as audited, which a repair that adds to what was promised or is for sale requires unchanged:
/// whatever was sold since, by a backend past the ledger too, or returned, must not be there twice. A stock key that is gone is required to be gone.
fn audited(evidence: &Evidence) -> Option<Audited> {
    let end = evidence.end.as_ref()?;
    let has_ledger = end.rules.is_some_and(|rules| rules.ledger);
    Some(Audited { stock: end.stock?, last: end.last.filter(|_| has_ledger) })
}

impl RepairPlan {
    /// Adds what is planned for another part of the same activity.
    pub fn extend(&mut self, other: Self) {
        self.repairs.extend(other.repairs);
        self.transfers.extend(other.transfers);
        for (class, count, why) in other.kept {
            (0..count).for_each(|_| self.keep(class, why));
        }
    }

    /// Records what is not repaired, and why.
    pub fn keep(&mut self, class: Class, why: &'static str) {
        match self.kept.iter_mut().find(|(known, _, known_why)| (*known, *known_why) == (class, why)) {
            Some((_, count, _)) => *count += 1,
            None => self.kept.push((class, 1, why)),
        }
    }

    /// Puts changes in order and gives them their names.
    fn name(&mut self, evidence: &Evidence, changes: Vec<Change>) {
        let rules = evidence.rules();
        // Without a meta nothing counts the repairs, so the instant of the audit distinguishes one from the next.
        let at = evidence.end.as_ref().filter(|_| rules.is_none()).map_or(0, |end| end.at.get());
        let repair = |change: Change| Repair {
            id: String::new(),
            layout: evidence.layout,
            activity: evidence.activity.to_string(),
            class: change.class,
            audited: if change.needs_stock_as_audited() { audited(evidence) } else { None },
            user: change.user,
            from: change.from,
            to: change.to,
            stock_change: change.stock_change,
            reversed: change.reversed,
            after: None,
            epoch: rules.map(|rules| rules.epoch),
            repairs: rules.map(|rules| rules.repairs),
        };
        self.repairs = changes.into_iter().map(|change| repair(change).named(at)).collect();
        let key = |repair: &Repair| (repair.stock_change >= 0, repair.user.is_some(), -repair.stock_change);
        self.repairs.sort_by(|one, other| (key(one), &one.user).cmp(&(key(other), &other.user)));
        let (raising, first): (Vec<&Repair>, Vec<&Repair>) =
            self.repairs.iter().partition(|repair| repair.raises_stock());
        let after = if raising.is_empty() { None } else { gate(first.iter().map(|repair| repair.id.as_str())) };
        self.repairs
            .iter_mut()
            .filter(|repair| repair.raises_stock())
            .for_each(|repair| repair.after.clone_from(&after));
    }
}
