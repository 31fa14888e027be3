//! The state of a sale at the end of a run: the stock, and who bought most.

use std::collections::HashSet;

use crate::cli::commands::inspect::detail::{self, ActivityDetail};
use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::error::Result;
use crate::cli::input::yaml::fixture::Fixture;
use crate::cli::output::{Cell, Output, Row, Tone, row};
use crate::model::id::ActivityId;
use crate::read::whole;
use crate::store::Store;

const MAX_ACTIVITIES: usize = 50;

/// How many participants of each.
const TOP: usize = 3;

/// Reads the activities that the fixtures define, and those that their steps name besides.
pub(super) fn read(fixtures: &[Fixture], store: &mut Store, out: &Output) -> Result<Vec<ActivityDetail>> {
    let mut seen = HashSet::new();
    let defined = fixtures.iter().flat_map(|fixture| &fixture.activities).map(|plan| &plan.id);
    let named = fixtures.iter().flat_map(|fixture| &fixture.steps).flat_map(|step| step.operation.activities());
    let mut all: Vec<ActivityId> = defined.chain(named).filter(|id| seen.insert(*id)).cloned().collect();
    if all.len() > MAX_ACTIVITIES {
        out.note(format!("the first {MAX_ACTIVITIES} of {} activities; `seckill inspect` shows all", all.len()));
        all.truncate(MAX_ACTIVITIES);
    }
    let snapshots = whole::wholes(store, &all)?;
    let mut warnings = out.warnings();
    let details = snapshots.iter().map(|snapshot| detail::read(store, &mut warnings, snapshot, TOP)).collect();
    warnings.end();
    details
}

/// Prints the stock, and who bought most of each activity.
pub(super) fn tables(details: Vec<ActivityDetail>, out: &mut Output) -> Result<()> {
    let buyers: Vec<TopRow> = details.iter().flat_map(TopRow::of).collect();
    let stock: Vec<ActivityRow> = details.into_iter().map(|detail| detail.activity).collect();
    if !stock.is_empty() {
        out.table(Some("Stock"), &stock)?;
    }
    if !buyers.is_empty() {
        out.table(Some("Participants"), &buyers)?;
    }
    Ok(())
}

row! {
    /// One of those who bought most of an activity, or how many there are besides.
    struct TopRow as row {
        activity: String => Cell::text(&row.activity).tone(Tone::Strong);
        table "user" => row.participant[0].clone();
        table "bought" => row.participant[1].clone();
        table "may buy" => row.participant[2].clone();
        hidden participant: [Cell; 3];
    }
}

impl TopRow {
    fn of(detail: &ActivityDetail) -> impl Iterator<Item = Self> {
        let more = Cell::text(format!("and {} more", detail.more)).tone(Tone::Dim);
        let more = (detail.more > 0).then(|| vec![more, Cell::text(""), Cell::text("")]);
        let participants = detail.participants.iter().map(|row| row.cells(&[])).chain(more);
        participants.filter_map(|cells| {
            Some(Self { activity: detail.activity.name().to_owned(), participant: cells.try_into().ok()? })
        })
    }
}
