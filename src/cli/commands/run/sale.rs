//! How a sale stands at the end of a run: the stock, and who bought most.

use std::collections::HashSet;

use serde::Serialize;

use crate::cli::commands::inspect::look::{self, Sight};
use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::error::Result;
use crate::cli::input::fixture::{Fixture, Operation};
use crate::cli::output::{Cell, Output, Row, Tone};
use seckill::inventory::id::ActivityId;
use seckill::store::Store;

/// How many activities are shown.
const MOST_ACTIVITIES: usize = 50;

/// How many participants of each.
const TOP: usize = 3;

/// Looks at what the fixtures define, and at what their steps name besides.
pub fn look(fixtures: &[Fixture], store: &mut Store, out: &Output) -> Result<Vec<Sight>> {
    let mut seen = HashSet::new();
    let defined = fixtures.iter().flat_map(|fixture| &fixture.activities).map(|plan| &plan.id);
    let named = fixtures.iter().flat_map(|fixture| &fixture.steps).flat_map(|step| activities(&step.operation));
    let mut all: Vec<ActivityId> = defined.chain(named).filter(|id| seen.insert(*id)).cloned().collect();
    if all.len() > MOST_ACTIVITIES {
        out.note(format!("the first {MOST_ACTIVITIES} of {} activities; `seckill inspect` shows all", all.len()));
        all.truncate(MOST_ACTIVITIES);
    }
    let snapshots = store.snapshots(&all)?;
    let mut warnings = out.warnings();
    let sights = snapshots.iter().map(|snapshot| look::look(store, &mut warnings, snapshot, TOP)).collect();
    warnings.end();
    sights
}

/// The activities that an operation names.
pub fn activities(operation: &Operation) -> Vec<&ActivityId> {
    match operation {
        Operation::Deduct(order) => vec![&order.activity],
        Operation::Refund(refund) => vec![&refund.activity],
        Operation::MultiDeduct(order) => order.items.iter().map(|(activity, _)| activity).collect(),
        Operation::Rush(rush) => vec![&rush.activity],
        Operation::Reconcile { activity, .. }
        | Operation::Pause { activity, .. }
        | Operation::Resume { activity, .. } => vec![activity],
    }
}

/// Prints the stock, and who bought most of each activity.
pub fn tables(sights: Vec<Sight>, out: &mut Output) -> Result<()> {
    let buyers: Vec<TopRow> = sights.iter().flat_map(TopRow::of).collect();
    let stock: Vec<ActivityRow> = sights.into_iter().map(|sight| sight.activity).collect();
    if !stock.is_empty() {
        out.table(Some("Stock"), &stock)?;
    }
    if !buyers.is_empty() {
        out.table(Some("Participants"), &buyers)?;
    }
    Ok(())
}

/// One of those who bought most of an activity, or how many there are besides.
#[derive(Serialize)]
struct TopRow {
    activity: String,
    #[serde(skip)]
    cells: Vec<Cell>,
}

impl TopRow {
    fn of(sight: &Sight) -> impl Iterator<Item = Self> {
        let more = (sight.more > 0).then(|| {
            let text = Cell::text(format!("and {} more", sight.more)).tone(Tone::Dim);
            vec![text, Cell::text(""), Cell::text("")]
        });
        let rows = sight.participants.iter().map(Row::cells).chain(more);
        rows.map(|cells| Self { activity: sight.activity.name().to_owned(), cells })
    }
}

impl Row for TopRow {
    const FIELDS: &'static [&'static str] = &["activity", "user", "bought", "left"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        std::iter::once(Cell::text(&self.activity).tone(Tone::Strong)).chain(self.cells.iter().cloned()).collect()
    }
}
