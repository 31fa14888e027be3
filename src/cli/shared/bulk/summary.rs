//! The summary of a run: orders and units by activity and status. Its counts add up to the lines.

use crate::cli::error::Result;
use crate::cli::output::{Cell, Output, OutputError, Tone, row};
use crate::model::id::ActivityId;
use crate::model::id::interner::Interner;
use crate::model::status::Status;

/// No other entry, or units that nobody knows.
const NONE: u32 = u32::MAX;
const UNKNOWN: u64 = u64::MAX;

/// How an order counts: under its status, or as refused before this run.
type Counted = Option<Status>;

/// Orders of one activity that ended with the same status.
#[derive(Debug, Clone, Copy)]
struct Entry {
    orders: u64,
    units: u64,
    /// The least and the largest quantity among them.
    least: u32,
    most: u32,
    /// The next entry of the activity.
    next: u32,
    counted: Counted,
}

/// Orders and units of activities by number. A file may name a million of them: each has some entries in one list.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    first: Vec<u32>,
    entries: Vec<Entry>,
}

impl Tallies {
    /// An empty summary with room for this many activities.
    pub(crate) fn of_activities(count: usize) -> Self {
        Self { first: vec![NONE; count], entries: Vec::with_capacity(count) }
    }

    /// One order more.
    pub(crate) fn add(&mut self, activity: usize, counted: Counted, units: u32) {
        let entry = self.entry(activity, counted);
        entry.orders += 1;
        entry.units += u64::from(units);
        entry.least = entry.least.min(units);
        entry.most = entry.most.max(units);
    }

    /// The entry of an activity, made if there is none.
    #[allow(clippy::cast_possible_truncation)] // Four billion entries do not fit into memory.
    fn entry(&mut self, activity: usize, counted: Counted) -> &mut Entry {
        if self.first.len() <= activity {
            self.first.resize(activity + 1, NONE);
        }
        let mut at = self.first[activity];
        while at != NONE && self.entries[at as usize].counted != counted {
            at = self.entries[at as usize].next;
        }
        if at == NONE {
            at = self.entries.len() as u32;
            let next = std::mem::replace(&mut self.first[activity], at);
            self.entries.push(Entry { orders: 0, units: 0, least: u32::MAX, most: 0, next, counted });
        }
        &mut self.entries[at as usize]
    }

    /// Counts some of the replayed orders of an activity as refused before. The server keeps their number, not their
    /// quantities: so the units are known only if all orders have the same.
    pub(crate) fn split_replayed(&mut self, activity: usize, refused_before: u64) {
        let replayed = self.entry(activity, Some(Status::Replayed));
        let refused = refused_before.min(replayed.orders);
        if refused == 0 {
            return;
        }
        let quantity = replayed.least;
        let is_known = replayed.least == replayed.most;
        let all = refused == replayed.orders;
        let units = if all { replayed.units } else { refused * u64::from(quantity) };
        replayed.orders -= refused;
        replayed.units = if is_known || all { replayed.units - units } else { UNKNOWN };
        let before = self.entry(activity, None);
        before.orders += refused;
        before.units = if is_known || all { before.units + units } else { UNKNOWN };
    }

    /// The entries of an activity in the order of their statuses.
    fn of(&self, activity: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut at = self.first.get(activity).copied().unwrap_or(NONE);
        while at != NONE {
            let entry = self.entries[at as usize];
            at = entry.next;
            entries.extend((entry.orders > 0).then_some(entry));
        }
        entries.sort_by_key(|entry| (entry.counted.is_none(), entry.counted));
        entries
    }

    /// Whether anything was refused, now or before.
    pub(crate) fn is_refused(&self) -> bool {
        self.entries.iter().any(|entry| entry.orders > 0 && !entry.counted.is_some_and(Status::is_done))
    }
}

/// What is said at the end of a run.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) names: Interner,
    pub(crate) tallies: Tallies,
}

impl Summary {
    /// Whether no order counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.tallies.entries.iter().all(|entry| entry.orders == 0)
    }

    /// The first activities that do not exist, `most` at most.
    pub(crate) fn missing(&self, most: usize) -> Vec<ActivityId> {
        let is_missing = |activity: &usize| {
            self.tallies.of(*activity).iter().any(|entry| entry.counted == Some(Status::NotPreheated))
        };
        let missing = (0..self.names.count()).filter(is_missing).take(most);
        missing.filter_map(|activity| self.name(activity).parse().ok()).collect()
    }

    /// The activities of which orders are applied, now or before.
    pub(crate) fn applied(&self) -> impl Iterator<Item = ActivityId> {
        let is_done = |entry: &Entry| entry.counted.is_some_and(Status::is_done);
        let applied = (0..self.names.count()).filter(move |activity| self.tallies.of(*activity).iter().any(is_done));
        applied.filter_map(|activity| self.name(activity).parse().ok())
    }

    #[allow(clippy::cast_possible_truncation)] // There are fewer names than that.
    fn name(&self, activity: usize) -> &str {
        std::str::from_utf8(self.names.name(activity as u32)).unwrap_or_default()
    }

    /// Prints a row for each activity and status.
    pub(crate) fn show(&self, out: &mut Output) -> Result<(), OutputError> {
        let mut rows = out.stream::<SummaryRow<'static>>()?;
        for activity in 0..self.names.count() {
            let name = self.name(activity);
            for entry in self.tallies.of(activity) {
                rows.push_borrowed(&SummaryRow::new(name, &entry))?;
            }
        }
        rows.finish()
    }
}

row! {
    /// What is shown of an entry.
    struct SummaryRow<'a> as row from (activity: &'a str, entry: &Entry) {
        activity: &'a str = activity, flexible;
        status: &'static str = entry.counted.map_or("refused_before", Status::name)
            => row.counted.map_or_else(|| Cell::text(row.status).tone(Tone::Bad), Cell::status);
        orders: u64 = entry.orders;
        /// `None` if nobody kept them.
        units: Option<u64> = Some(entry.units).filter(|units| *units != UNKNOWN);
        hidden counted: Counted = entry.counted;
    }
    changed if row.counted == Some(Status::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(tallies: &Tallies, activity: usize) -> Vec<(&'static str, u64, Option<u64>)> {
        let row = |entry: &Entry| SummaryRow::new("a", entry);
        tallies.of(activity).iter().map(row).map(|row| (row.status, row.orders, row.units)).collect()
    }

    #[test]
    fn counts_add_up_whatever_was_refused_before() {
        let mut tallies = Tallies::default();
        for (activity, status, units) in
            [(1, Status::OutOfStock, 2), (0, Status::Replayed, 3), (1, Status::Ok, 4), (0, Status::Replayed, 3)]
        {
            tallies.add(activity, Some(status), units);
        }
        assert_eq!(rows(&tallies, 1), [("ok", 1, Some(4)), ("out_of_stock", 1, Some(2))]);
        tallies.split_replayed(0, 1);
        assert_eq!(rows(&tallies, 0), [("replayed", 1, Some(3)), ("refused_before", 1, Some(3))]);
        tallies.split_replayed(1, 7);
        assert_eq!(rows(&tallies, 1).len(), 2, "nothing was replayed there");
        assert!(tallies.is_refused());
    }

    #[test]
    fn units_are_unknown_only_if_quantities_differ() {
        let mut tallies = Tallies::default();
        tallies.add(0, Some(Status::Replayed), 1);
        tallies.add(0, Some(Status::Replayed), 2);
        assert!(!tallies.is_refused());
        tallies.split_replayed(0, 1);
        assert_eq!(rows(&tallies, 0), [("replayed", 1, None), ("refused_before", 1, None)]);
        let mut all = Tallies::default();
        all.add(0, Some(Status::Replayed), 1);
        all.add(0, Some(Status::Replayed), 2);
        all.split_replayed(0, 5);
        assert_eq!(rows(&all, 0), [("refused_before", 2, Some(3))]);
    }
}
