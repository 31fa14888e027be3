//! Repairs: changes by a difference, each with an id of its own, so that it is applied once. Nothing is set blindly.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::audit::class::Class;
use crate::model::archive::Digest;
use crate::model::names::names;
use crate::model::number::signed;
use crate::model::{EntryId, Layout, StoredUser};

/// What an audit saw of an activity as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audited {
    /// Units left, with those that are withdrawn.
    pub stock: u64,
    /// The ledger's last entry, if there is a ledger.
    pub last: Option<EntryId>,
}

/// One repair, as a plan's file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
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
    /// The same in hexadecimal digits, if it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_hex: Option<String>,
    /// Units as they were found; it is not applied if they differ by then. `None`: unknown, or, of the stock alone, its
    /// key was gone.
    pub from: Option<u64>,
    /// Units as they should be.
    pub to: u64,
    /// By how much the stock moves.
    pub stock_change: i64,
    /// Of a repair that takes units, or returns those of a lost counter: request ids of the user that hold nothing any more. Their
    /// orders are reversed, for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversed: Option<Vec<String>>,
    /// Of a repair that raises the stock: the `gate` of the plan's other repairs of the activity, which must be in
    /// force before it. Without them more would be for sale than is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Of a repair that only raises the stock, or gives a user more than it takes from the stock: what must not have changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audited_stock: Option<u64>,
    /// The ledger's last entry by then, if there is a ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audited_entry: Option<String>,
    /// The activity's epoch when it was audited; `None` without a meta.
    pub epoch: Option<u64>,
    /// How many repairs it had seen by then; `None` without a meta.
    pub repairs: Option<u64>,
}

names! {
    /// The outcome of a repair.
    pub enum Repaired {
        /// It was only planned.
        Planned = "planned",
        /// It was applied.
        Ok = "ok",
        /// It was applied before.
        Replayed = "replayed",
        /// The user holds something else by now.
        Changed = "changed",
        /// Fewer units are left than would have to be taken.
        OutOfStock = "out_of_stock",
        /// The user would hold less than what is held open.
        ExceedsBought = "exceeds_bought",
        /// The stock would pass the total.
        ExceedsTotal = "exceeds_total",
        /// Its id was used for something else.
        RequestConflict = "request_conflict",
        /// The activity was reset or repaired since it was audited.
        Stale = "stale",
        /// There is no such activity.
        NotPreheated = "not_preheated",
        /// A key holds what it must not.
        Corrupt = "corrupt",
    }
}

impl Repaired {
    /// Whether it was applied, now or before.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Replayed)
    }
}

/// Names a set of repairs by their ids, whatever their order.
pub(crate) fn gate<'a>(ids: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut ids: Vec<&str> = ids.into_iter().collect();
    if ids.is_empty() {
        return None;
    }
    ids.sort_unstable();
    Some(Digest::of(ids.join("\n").as_bytes())[..32].to_owned())
}

/// The first repair that raises the stock though the plan lacks repairs that must come before it.
pub(crate) fn incomplete(repairs: &[Repair]) -> Option<&Repair> {
    let mut others: HashMap<_, Vec<&str>> = HashMap::new();
    for repair in repairs.iter().filter(|repair| !repair.raises_stock()) {
        others.entry(repair.audit()).or_default().push(&repair.id);
    }
    let gates: HashMap<_, _> = others.into_iter().map(|(audit, ids)| (audit, gate(ids))).collect();
    let is_incomplete = |repair: &&Repair| {
        let gate = gates.get(&repair.audit()).and_then(Option::as_ref);
        repair.after.is_some() && repair.after.as_ref() != gate
    };
    repairs.iter().find(is_incomplete)
}

impl Repair {
    /// How many a call applies; all of them are one entry of the ledger.
    pub(crate) const AT_ONCE: usize = 500;

    /// What must not have changed since the audit.
    pub fn audited(&self) -> Option<Audited> {
        let last = self.audited_entry.as_ref().and_then(|entry| entry.parse().ok());
        self.audited_stock.map(|stock| Audited { stock, last })
    }

    /// Request ids that hold nothing any more.
    pub fn reversed(&self) -> &[String] {
        self.reversed.as_deref().unwrap_or_default()
    }

    /// What the repairs of one audit of an activity have in common: they are applied together.
    pub fn audit(&self) -> (Layout, &str, Option<u64>, Option<u64>) {
        (self.layout, &self.activity, self.epoch, self.repairs)
    }

    /// Whether a user holds less after it.
    pub fn takes_units(&self) -> bool {
        self.user.is_some() && self.from.is_none_or(|from| self.to < from)
    }

    /// Whether orders end with it: a user holds less after it, or of a sale without users less is sold.
    pub(crate) fn ends_orders(&self) -> bool {
        !self.restores_stock() && self.from.is_none_or(|from| self.to < from)
    }

    /// Whether more is for sale after it: such repairs come last.
    pub fn raises_stock(&self) -> bool {
        self.stock_change > 0 || self.restores_stock()
    }

    /// Whether it creates a stock key that is gone.
    pub fn restores_stock(&self) -> bool {
        self.user.is_none() && self.from.is_none()
    }

    /// Whether it adds to what was promised or is for sale: units that the stock lacked, and that may be back there.
    pub(crate) fn needs_stock_as_audited(&self) -> bool {
        let gained = self.user.as_ref().and(self.from).map_or(0, |from| signed(self.to).saturating_sub(signed(from)));
        gained.saturating_add(self.stock_change) > 0 && (self.user.is_none() || gained > 0)
    }

    /// Its id, made from all that it does to an activity as it was audited. `at` distinguishes repairs of an activity
    /// without meta, whose repairs nothing counts. Ids are stored: a test pins the text that they are made from.
    pub fn named(mut self, at: u64) -> Self {
        if self.reversed().is_empty() && !self.takes_units() {
            self.reversed = None;
        }
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let mut text = vec![
            "repair".to_owned(),
            self.layout.name().to_owned(),
            self.activity.clone(),
            self.class.name().to_owned(),
            self.user.as_ref().map_or_else(|| "-".to_owned(), StoredUser::hex),
            number(self.from),
            self.to.to_string(),
            self.stock_change.to_string(),
            number(self.epoch),
            number(self.repairs),
            at.to_string(),
        ];
        // An id may hold a space, and no tab.
        text.extend((!self.reversed().is_empty()).then(|| self.reversed().join("\t")));
        self.id = format!("repair:{}", &Digest::of(text.join(" ").as_bytes())[..32]);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Repair {
        /// One of a user whose id is not UTF-8, without an id yet.
        pub(crate) fn sample() -> Self {
            Self {
                id: String::new(),
                layout: Layout::Sku,
                activity: "1001".to_owned(),
                class: Class::QuantityMismatch,
                user: Some(StoredUser::new(&b"\xc4\xe3"[..])),
                from: Some(2),
                to: 1,
                stock_change: 1,
                user_hex: None,
                reversed: None,
                after: None,
                audited_stock: None,
                audited_entry: None,
                epoch: Some(3),
                repairs: None,
            }
        }
    }

    #[test]
    fn stock_is_raised_by_more_units_or_by_a_new_key() {
        let raises = |user: bool, from, stock_change| {
            let repair = Repair::sample();
            Repair { user: repair.user.clone().filter(|_| user), from, stock_change, ..repair }.raises_stock()
        };
        assert_eq!([1, 0, -1].map(|change| raises(true, Some(2), change)), [true, false, false]);
        assert_eq!([raises(false, None, 0), raises(true, None, 0), raises(false, Some(1), 0)], [true, false, false]);
        assert!(Repaired::Ok.is_done() && Repaired::Replayed.is_done() && !Repaired::Planned.is_done());
    }

    #[test]
    fn ids_and_gates_are_pinned() {
        // `printf 'repair sku 1001 quantity_mismatch c4e3 2 1 1 3 - 7' | sha256sum`
        assert_eq!(Repair::sample().named(7).id, "repair:ff91848f00ff2d45800e1bbfcbec7d62");
        assert_ne!(Repair::sample().named(8).id, Repair::sample().named(7).id);
        // `printf 'repair sku 1001 quantity_mismatch c4e3 2 1 1 3 - 7 o 1\to2' | sha256sum`
        let reversed = ["o 1", "o2"].map(str::to_owned).to_vec();
        assert_eq!(
            Repair { reversed: Some(reversed), ..Repair::sample() }.named(7).id,
            "repair:dff8d01d72107f4478251cc3584307dd"
        );
        assert_eq!(gate(["b", "a"]), gate(["a", "b"]));
        assert_eq!(gate(["a", "b"]).as_deref(), Some("7e18f737311b2dc3b2f269dd78396b03"));
        assert_eq!(gate([]), None);
    }

    #[test]
    fn a_plan_that_lacks_what_must_come_before_a_raise_is_incomplete() {
        let lower = |units: i64| Repair { stock_change: -units, ..Repair::sample() }.named(0);
        let mut raise = Repair { to: 0, ..Repair::sample() }.named(0);
        let before = [lower(1), lower(2)];
        raise.after = gate(before.iter().map(|repair| repair.id.as_str()));
        let [one, two] = before;
        assert_eq!(incomplete(&[raise.clone(), two.clone(), one.clone()]), None);
        assert_eq!(incomplete(&[one.clone(), two.clone()]), None);
        assert_eq!(incomplete(&[one.clone(), raise.clone()]), Some(&raise));
        assert_eq!(incomplete(&[raise.clone()]), Some(&raise));
        let elsewhere = Repair { activity: "1002".to_owned(), ..two.clone() };
        assert_eq!(incomplete(&[one, elsewhere, raise.clone()]), Some(&raise));
    }
}
