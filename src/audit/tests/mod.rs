//! Judgement and plan of sales that are written down in a line each.

mod judgement;
mod plan;
mod sharded;

use crate::audit::class::Class;
use crate::audit::evidence::Evidence;
use crate::audit::evidence::mismatch::Holding;
use crate::audit::judgement::judge;
use crate::audit::ledger_state::Compared;
use crate::audit::ledger_state::order_sums::OrderRows;
use crate::audit::plan::MissingOrders;
use crate::audit::plan::repair::Repair;
use crate::audit::result::{Audit, Proof, RecordedUnits, Verdict};
use crate::model::{Entry, EntryId, Layout, Meta, Millis, Snapshot};

/// A sale as an audit finds it. What is `None` was not there.
#[derive(Clone)]
pub(crate) struct Sale {
    pub layout: Layout,
    pub total: Option<u64>,
    pub stock: Option<u64>,
    pub withdrawn: Option<u64>,
    /// Users and what the ledger says of them; `None`: there is no whole ledger.
    pub ledger: Option<Vec<(&'static str, i64)>>,
    /// Users and what the order records say of them.
    pub orders: Option<Vec<(&'static str, i64)>>,
    /// Users and what their records hold; -1: a member without units, -2: no number.
    pub held: Vec<(&'static str, i64)>,
    pub named: bool,
}

/// Ten units, of which `a` holds 1 and `b` 2, and all agrees.
pub fn sale(layout: Layout) -> Sale {
    let users = vec![("a", 1), ("b", 2)];
    Sale {
        layout,
        total: Some(10),
        stock: Some(7),
        withdrawn: None,
        ledger: Some(users.clone()),
        orders: None,
        held: users,
        named: true,
    }
}

impl Sale {
    pub fn evidence(&self) -> Evidence {
        let kind = self.layout.kind();
        let mut rows = OrderRows::default();
        let compared = self.orders.as_ref().map(|orders| {
            orders.iter().for_each(|(user, units)| rows.push(user, *units, None));
            Compared::unread(None, EntryId::first_at(Millis::new(u64::MAX)), self.named)
        });
        let mut evidence = Evidence::new(&"1001".parse().unwrap(), self.layout, None, compared);
        let by_ledger = self.ledger.is_some();
        if let Some(users) = &self.ledger {
            let total = self.total.map(|total| total.to_string().into_bytes());
            let begin = Entry { total, epoch: Some(b"1".to_vec()), ..Entry::of_orders("1-0", "preheat", "") };
            evidence.ledger.add(&begin);
            for ((user, units), at) in users.iter().zip(2..) {
                let op = if *units < 0 { "refund" } else { "deduct" };
                evidence.ledger.add(&Entry::of_orders(&format!("{at}-0"), op, &format!("{user} {}", units.abs())));
            }
        }
        let meta = self.total.map(|total| Meta {
            total,
            epoch: 1,
            ledger: by_ledger,
            withdrawn: self.withdrawn,
            ..Meta::default()
        });
        let at = Millis::new(1000);
        let end = Snapshot { at, meta, ..Snapshot::sample("1001", self.stock) };
        (evidence.end, evidence.by_ledger, evidence.settled) = (Some(end), by_ledger, true);
        evidence.ledger.add_orders(&rows);
        for (user, units) in self.held.iter().filter(|_| kind.has_users()) {
            let holds = match units {
                -1 => Holding::Unknown,
                -2 => Holding::Invalid("x".to_owned()),
                units => Holding::Units(units.unsigned_abs()),
            };
            let user = evidence.ledger.user(user.as_bytes());
            evidence.ledger.mark_seen(user);
            evidence.without_units += u64::from(holds == Holding::Unknown);
            evidence.held.add(&holds, &evidence.ledger, user);
            evidence.mismatches.extend(match by_ledger {
                true => evidence.ledger.against_ledger(user, holds, None),
                false => evidence.ledger.mismatch(user, holds, None, false),
            });
        }
        for user in evidence.ledger.unseen() {
            evidence.mismatches.extend(evidence.ledger.mismatch(user, Holding::Units(0), None, by_ledger));
        }
        if by_ledger {
            evidence.compare_all();
        }
        evidence
    }

    pub fn audit(&self) -> Audit {
        judge(self.evidence(), MissingOrders::Repair)
    }

    /// Verdict, proof and differences as `class user redis ledger orders`.
    pub fn judged(&self) -> (Verdict, Proof, Vec<String>) {
        let audit = self.audit();
        let differences = audit.differences.iter().map(|difference| {
            let text = |held: &Option<RecordedUnits>| held.as_ref().map_or("-".to_owned(), ToString::to_string);
            let user = difference.user.as_ref().map_or("-".to_owned(), ToString::to_string);
            let (redis, ledger, orders) = (text(&difference.redis), text(&difference.ledger), text(&difference.orders));
            let count = difference.count.map(|count| format!(" of {count}")).unwrap_or_default();
            format!("{} {user} {redis} {ledger} {orders}{count}", difference.class.name())
        });
        (audit.verdict, audit.proof, differences.collect())
    }

    /// The repairs as `class user from to stock_change`.
    pub fn repairs(&self) -> Vec<String> {
        shown(&self.audit())
    }

    pub fn kept(&self) -> Vec<Class> {
        self.audit().plan.kept.iter().map(|(class, ..)| *class).collect()
    }
}

/// The evidence of a sale with a limit per user, whose ledger or records have all users.
pub fn limited(sale: &Sale, limit: u64) -> Evidence {
    let mut evidence = sale.evidence();
    let meta = evidence.end.as_mut().and_then(|end| end.meta.as_mut());
    meta.into_iter().for_each(|meta| meta.per_user_limit = Some(limit));
    evidence.mismatches.clear();
    for (user, units) in &sale.held {
        let user = evidence.ledger.user(user.as_bytes());
        let holds = Holding::Units(units.unsigned_abs());
        evidence.mismatches.extend(evidence.ledger.mismatch(user, holds, Some(limit), evidence.by_ledger));
    }
    evidence
}

pub fn shown(audit: &Audit) -> Vec<String> {
    let shown = |repair: &Repair| {
        let user = repair.user.as_ref().map_or("-".to_owned(), ToString::to_string);
        let from = repair.from.map_or("?".to_owned(), |from| from.to_string());
        format!("{} {user} {from} {} {:+}", repair.class.name(), repair.to, repair.stock_change)
    };
    audit.plan.repairs.iter().map(shown).collect()
}

pub const NONE: [&str; 0] = [];
