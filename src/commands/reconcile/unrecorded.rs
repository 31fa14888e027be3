//! Activities with sales of which the order records have no row. A user each would hide all else, and often it is the
//! export that is at fault: so it is one difference with a count, and nothing is done about it unasked.

use crate::inventory::drift::{Audit, Class, Difference, Held};
use crate::inventory::id::ActivityId;
use crate::output::Output;

/// Notes about single activities; of more only the number is said.
const MOST_NOTES: usize = 5;

/// Activities that `--fix` and `--emit` leave out.
#[derive(Default)]
pub struct LeftOut(Vec<ActivityId>);

impl LeftOut {
    /// Takes an audit of an activity without order rows: makes its missing orders one difference and, unless the
    /// command line names it, drops its repairs.
    pub fn take(&mut self, audit: &mut Audit, is_named: bool) {
        if !audit.differences.iter().any(|difference| difference.class == Class::MissingOrder) {
            return;
        }
        collapse(&mut audit.differences);
        if !is_named {
            audit.plan.repairs.clear();
            audit.missing_orders.clear();
            self.0.push(audit.activity.clone());
        }
    }

    /// Says which they are.
    pub fn tell(&self, out: &Output) {
        for activity in self.0.iter().take(MOST_NOTES) {
            out.note(format!("`{activity}` was left out: it has sales, and the order records have no row of it"));
        }
        if self.0.len() > MOST_NOTES {
            out.note(format!("{} more such activities were left out", self.0.len() - MOST_NOTES));
        }
        if let Some(activity) = self.0.first() {
            out.hint(format!(
                "is the export incomplete? If these orders are missing indeed, name the activity: \
                 `seckill reconcile {activity} …`"
            ));
        }
    }
}

/// Makes all missing orders one difference, with the number of users and the sum of their units.
fn collapse(differences: &mut Vec<Difference>) {
    let is_missing = |difference: &Difference| difference.class == Class::MissingOrder;
    let Some(first) = differences.iter().position(is_missing) else { return };
    let sum = |side: fn(&Difference) -> &Option<Held>| {
        let units = |difference| match side(difference) {
            Some(Held::Units(units)) => Some(*units),
            _ => None,
        };
        let known: Option<Vec<i64>> = differences.iter().filter(|one| is_missing(one)).map(units).collect();
        known.map(|units| Held::Units(units.into_iter().fold(0, i64::saturating_add)))
    };
    let (redis, ledger) = (sum(|difference| &difference.redis), sum(|difference| &difference.ledger));
    let users = differences.iter().filter(|difference| is_missing(difference) && difference.user.is_some()).count();
    let count = u64::try_from(users).ok().filter(|users| *users > 0);
    let orders = Some(Held::Units(0));
    let one = Difference { user: None, class: Class::MissingOrder, redis, ledger, orders, count };
    differences[first] = one;
    let mut kept = 0..;
    differences.retain(|difference| {
        let at = kept.next().unwrap_or_default();
        at == first || !is_missing(difference)
    });
}
