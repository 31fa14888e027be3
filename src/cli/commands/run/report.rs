//! What a run shows when it is over: its steps, and the state of the sale, with who bought most.

use std::collections::HashSet;

use serde::Serialize;

use crate::cli::commands::inspect::detail::{self, ActivityDetail};
use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::failure::Result;
use crate::cli::input::yaml::fixture::{Expectation, Fixture, FixtureOperation, OfActivity, Step};
use crate::cli::output::{Cell, Format, Output, Row, Tone, row};
use crate::model::{ActivityId, Corrupt, Order, Quantity, Status, Wish};
use crate::read::whole;
use crate::store::Store;

row! {
    pub(super) struct StepRow as row from (number: usize, of: &Step) {
        step: usize = number;
        operation: &'static str = of.operation.name() => Cell::text(&row.operation_words).flexible();
        /// `None` if the step was only planned.
        status: Option<&'static str> = None => row.status.map_or_else(Cell::unknown, |word| row.ended(word));
        expected: Option<String> = of.expect.as_ref().map(expected) => match row.expected_words.as_str() {
            "" => Cell::unknown(),
            expected => Cell::text(expected).tone(Tone::Dim).flexible(),
        };
        passed: Option<bool> = None => match row.passed {
            Some(true) => Cell::text("✓").tone(Tone::Good),
            Some(false) => Cell::text("✗").tone(Tone::Bad),
            None => Cell::unknown(),
        };
        /// The operation with all that belongs to it, for people.
        hidden operation_words: String = in_full(&of.operation);
        hidden expected_words: String = of.expect.as_ref().map(expected).unwrap_or_default();
        /// What came of it, for people, if the expectation does not say it.
        hidden result: String = String::new();
    }
    changed if row.operation != "reconcile"
        && row.status.and_then(Status::named).is_none_or(|status| status == Status::Ok)
}

impl StepRow {
    /// A step that was done.
    ///
    /// `passed` is `None` if an interrupt came before it could end as expected.
    pub(super) fn done(number: usize, step: &Step, observed: &Observed, passed: Option<bool>) -> Self {
        let result = match step.expect {
            None if observed.short.is_empty() => in_words(&observed.counts),
            _ => observed.short.clone(),
        };
        // What the status says already is not said again.
        let expected_words = match &step.expect {
            Some(Expectation { counts, .. }) if passed == Some(true) && !counts.is_empty() => in_words(counts),
            other => other.as_ref().map(expected).unwrap_or_default(),
        };
        Self { status: Some(observed.word), passed, result, expected_words, ..Self::new(number, step) }
    }

    /// `refused: phone out_of_stock`: the status, and what the expectation leaves open. A refusal that was expected
    /// is not bad.
    fn ended(&self, word: &'static str) -> Cell {
        let colon = if self.result.is_empty() { "" } else { ": " };
        let done = word == "match" || Status::named(word).is_some_and(Status::is_done);
        Cell::text(format!("{word}{colon}{}", self.result)).flexible().tone(match (self.passed, done) {
            (Some(false), _) => Tone::Bad,
            (_, true) => Tone::Good,
            (_, false) => Tone::Warn,
        })
    }
}

/// `ok, stock 48`: an expectation in words.
fn expected(expectation: &Expectation) -> String {
    let counts = in_words(&expectation.counts);
    match expectation.word {
        Some(word) if counts.is_empty() => word.to_owned(),
        Some(word) => format!("{word}, {counts}"),
        None => counts,
    }
}

/// Whom an operation is for, if anybody.
fn of(user: Option<&impl std::fmt::Display>) -> String {
    user.map(|user| format!(" for {user}")).unwrap_or_default()
}

/// An operation in words: `deduct phone=2 for 12345`.
fn in_full(operation: &FixtureOperation) -> String {
    let named = |activity: &ActivityId, quantity: Quantity| match quantity {
        Quantity::ONE => activity.to_string(),
        _ => format!("{activity}={quantity}"),
    };
    match operation {
        FixtureOperation::Place(Order { activity, user, wish, request, .. }) => {
            let of = of(user.as_ref());
            let what = match wish {
                Wish::Buy { quantity, .. } => named(activity, *quantity) + &of,
                Wish::Hold { quantity, hold_for } => format!("{}{of} ({hold_for})", named(activity, *quantity)),
                Wish::Confirm | Wish::Release => format!("{activity}: {request}"),
                Wish::Refund(refund) => match refund.units() {
                    Some(units) => named(activity, units) + &of,
                    None => format!("all {activity}{of}"),
                },
            };
            format!("{} {what}", wish.name())
        }
        FixtureOperation::MultiDeduct(order) => {
            let items: Vec<_> = order.items.iter().map(|(activity, quantity)| named(activity, *quantity)).collect();
            format!("multi_deduct {}{}", items.join(" "), of(order.user.as_ref()))
        }
        FixtureOperation::Rush(rush) => {
            let items: Vec<_> = rush.items.iter().map(|(activity, quantity)| named(activity, *quantity)).collect();
            let who = if rush.same_user { "orders of one user" } else { "users" };
            format!("rush {}: {} {who}", items.join(" "), rush.users)
        }
        FixtureOperation::OfActivity(OfActivity { task, activity, wait: Some(wait), .. }) => {
            format!("{task} {activity} after {wait}")
        }
        FixtureOperation::OfActivity(OfActivity { task, activity, .. }) => format!("{task} {activity}"),
    }
}

/// Prints the steps in the order in which they were done; if `with_sale` is set and the format has room, with the state of the sale.
pub(super) fn show(
    steps: &[StepRow],
    fixtures: &[Fixture],
    store: &mut Store,
    out: &mut Output,
    with_sale: bool,
) -> Result<()> {
    match out.format() {
        Format::Table => {
            if !steps.is_empty() {
                out.array(steps)?;
            }
            if with_sale { tables(read(fixtures, store, out)?, out) } else { Ok(()) }
        }
        Format::Json | Format::Yaml => {
            out.keep_changes(steps)?;
            let activities = if with_sale { read(fixtures, store, out)? } else { Vec::new() };
            out.document(&Document { steps, activities })
        }
        _ => out.array(steps),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    steps: &'a [StepRow],
    activities: Vec<ActivityDetail>,
}

#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The name of its status, or of its verdict.
    pub word: &'static str,
    /// Counts that can be expected; those of absent keys are not among them.
    pub counts: Vec<(&'static str, u64)>,
    /// Which items of a multi-deduct fell short, in words.
    pub short: String,
    pub corrupt: Option<Corrupt>,
    /// Whether Ctrl-C ended it before it was done.
    pub cut_short: bool,
}

/// The counts that are there.
pub(super) fn known<const N: usize>(counts: [(&'static str, Option<u64>); N]) -> Vec<(&'static str, u64)> {
    counts.into_iter().filter_map(|(name, count)| Some((name, count?))).collect()
}

/// `stock 48, bought 2`: some counts in words.
pub(super) fn in_words(counts: &[(&str, u64)]) -> String {
    let words: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

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
        activity: String => Cell::id(&row.activity);
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
