//! How an audit is shown: a row of each activity, then everything that differs.
//!
//! Of an activity that has sales, and that the order records do not name, all is one difference with a count: often the export is at fault.
//! Nothing is done about it unasked.

use serde::Serialize;

use crate::audit::class::Class;
use crate::audit::result::{Audit, Difference, MissingOrder, Proof, RecordedUnits, Verdict};
use crate::cli::commands::reconcile::ReconcileArgs;
use crate::cli::commands::repair::RepairRow;
use crate::cli::failure::Result;
use crate::cli::output::{Cell, Field, Format, Output, Printed, Row, Tone, counted, row, unencodable};
use crate::model::{ActivityId, StoredUser};

/// Notes that are printed, in all and of one activity; of more only the number is said.
const MAX_NOTES: usize = 50;
const MAX_NOTES_OF_ONE: usize = 10;

/// Differences that people see without `--differences`.
const FIRST_DIFFERENCES: usize = 20;

row! {
    /// One activity.
    struct AuditRow<'a> as row from (audit: &'a Audit) {
        activity: &'a str = audit.activity.as_str(), flexible;
        verdict: Verdict = audit.verdict;
        proof: Proof = audit.proof => Cell::text(row.proof.name());
        total: Option<u64> = audit.total;
        stock: Option<u64> = audit.stock;
        bought: Option<i64> = audit.bought;
        expected_stock: Option<i64> as "expected" = audit.expected_stock;
        stock_drift: Option<i64> as "drift" = audit.drift => match row.stock_drift {
            Some(drift) if drift != 0 => Cell::number(format!("{drift:+}")).tone(Tone::Bad),
            drift => drift.cell(),
        };
        differences: u64 = count(&audit.differences);
        sparse in_transit: Option<i64> = audit.in_transit;
    }
}

impl Field for Verdict {
    fn cell(&self) -> Cell {
        Cell::text(self.name()).tone(match self {
            Self::Match => Tone::Good,
            Self::Unproven | Self::Unsettled => Tone::Warn,
            Self::Drift | Self::NotPreheated => Tone::Bad,
        })
    }
}

row! {
    /// How many differences of a class an activity has.
    struct ClassRow<'a> as row from (audit: &'a Audit, same: &[Difference]) {
        activity: &'a str = audit.activity.as_str(), flexible;
        class: Class = same[0].class => class_cell(row.class);
        differences: u64 = count(same);
        table "it means" => Cell::text(meaning(row.class)).flexible();
    }
}

/// How many differences there are, where one may stand for many users.
pub(super) fn count(differences: &[Difference]) -> u64 {
    differences.iter().map(|difference| difference.count.unwrap_or(1)).sum()
}

/// What a class means, for people: it has room beside the longest class on 80 columns.
fn meaning(class: Class) -> &'static str {
    match class {
        Class::Conservation => "stock + holdings ≠ total",
        Class::UnbackedTransfer => "oversell ahead: units nobody lent",
        Class::CutTransfer => "a cut transfer: its units are nowhere",
        Class::StuckTransfer => "lent units that nobody got or can buy",
        Class::SplitOrder => "one item is bought, another is not",
        Class::CounterDrift => "a user's units are not the ledger's",
        Class::MissingOrder => "units taken without an order record",
        Class::MissingPurchase => "oversell ahead: Redis lacks an order",
        Class::QuantityMismatch => "Redis and order records differ",
        Class::OpenCount => "units held open are miscounted",
        Class::OverLimit => "a user holds more than the limit",
        Class::LostTail => "orders name entries that are gone",
        Class::Corrupt => "a key or field holds what it must not",
        Class::Timing => "newer than the records: no drift",
    }
}

row! {
    /// One thing that differs.
    struct DifferenceRow<'a> as row from (activity: &'a str, it: &'a Difference) {
        /// What concerns a shard as a whole can be audited and repaired there.
        activity: &'a str = it.shard.as_ref().map_or(activity, ActivityId::as_str), flexible;
        user: Option<&'a StoredUser> = it.user.as_ref() => match row.count {
            Some(count) => Cell::text(format!("({})", counted(count, "user"))).flexible(),
            None => row.user.cell().flexible(),
        };
        class: Class = it.class => class_cell(row.class);
        redis: Option<&'a RecordedUnits> = it.redis.as_ref() => match (row.user, row.redis) {
            // A member of a set without units.
            (Some(_), None) => Cell::number("?").tone(Tone::Warn),
            (_, held) => held_cell(held),
        };
        ledger: Option<&'a RecordedUnits> = it.ledger.as_ref() => held_cell(row.ledger);
        orders: Option<&'a RecordedUnits> = it.orders.as_ref() => held_cell(row.orders);
        data count: Option<u64> = it.count;
        sparse user_hex: Option<String> = it.user.as_ref().and_then(StoredUser::user_hex);
    }
}

fn held_cell(held: Option<&RecordedUnits>) -> Cell {
    match held {
        Some(RecordedUnits::Text(text)) => Cell::text(text).flexible(),
        units => Cell::known(units),
    }
}

fn class_cell(class: Class) -> Cell {
    Cell::text(class.name()).tone(if class == Class::Timing { Tone::Info } else { Tone::Bad })
}

/// Everything, for the nested formats.
#[derive(Serialize)]
struct Document<'a> {
    verdict: Verdict,
    activities: Vec<AuditRow<'a>>,
    differences: Vec<DifferenceRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<Vec<Printed<'a, RepairRow>>>,
}

/// Prints what is in no row, on standard error.
pub(super) fn warn(audits: &[Audit], accepts_unproven: bool, out: &Output) {
    let mut printed = 0;
    let total: usize = audits.iter().map(|audit| audit.notes.len()).sum();
    for audit in audits {
        let most = MAX_NOTES_OF_ONE.min(MAX_NOTES - printed);
        for note in audit.notes.iter().take(most) {
            out.warn(format!("{}: {note}", audit.activity));
            printed += 1;
        }
    }
    for audit in audits {
        if let Some(units @ 1..) = audit.in_transit {
            let (unit, is) = if units == 1 { ("unit", "is") } else { ("units", "are") };
            out.note(format!("{units} {unit} of `{}` {is} in transit between its shards: in no stock", audit.activity));
        }
    }
    if total > printed {
        out.warn(format!("{} more such warnings are not shown", total - printed));
    }
    let has = |class| audits.iter().any(|audit| audit.differences.iter().any(|difference| difference.class == class));
    if has(Class::CounterDrift) {
        out.hint(
            "a backend that sells with a script of its own writes no ledger: preheat its activities with `ledger: false`",
        );
    }
    let unproven = || audits.iter().filter(|audit| audit.verdict == Verdict::Unproven);
    if !accepts_unproven && unproven().next().is_some() {
        // A total that is known and proves nothing would prove nothing again.
        let lacks_total = unproven().any(|audit| audit.total.is_none() && audit.bought.is_some());
        let or_total = if lacks_total { " or `--total N`" } else { "" };
        out.hint(format!(
            "nothing differs, and nothing proves it either: give order records that name it (`--orders FILE`){or_total}, or accept it \
             with `--accept unproven`"
        ));
    }
}

/// Shows audits: nested for `json` and `yaml`, tables for people, and rows of activities or of differences for the flat formats.
/// `repairs` is the outcome of the repairs; `None` without `--fix`. The flat formats have rows of differences, and people see all of
/// them, if they are wanted.
pub(super) fn show(
    audits: &[Audit],
    repairs: Option<&[RepairRow]>,
    args: &ReconcileArgs,
    out: &mut Output,
) -> Result<()> {
    if out.format() == Format::Table {
        return tables(audits, args.differences, out);
    }
    out.keep_changes(repairs.unwrap_or_default())?;
    let rows = audits.iter().map(AuditRow::new);
    match out.format() {
        Format::Json | Format::Yaml => {
            // What is in a document does not pass through the output, which would mark the rows of a dry run.
            let printed = |row| Printed { row, renaming: None, is_dry: args.fix.mutating.dry_run };
            out.document(&Document {
                verdict: Verdict::worst(audits.iter().map(|audit| audit.verdict)),
                activities: rows.collect(),
                differences: differences(audits).collect(),
                repairs: repairs.map(|rows| rows.iter().map(printed).collect()),
            })
        }
        _ if args.differences => stream(differences(audits), out),
        _ => stream(rows, out),
    }
}

/// People see the first differences, or `all_differences`.
fn tables(audits: &[Audit], all_differences: bool, out: &mut Output) -> Result<()> {
    stream(audits.iter().map(AuditRow::new), out)?;
    let classes: Vec<ClassRow<'_>> = audits.iter().flat_map(classes).collect();
    if classes.is_empty() {
        return Ok(());
    }
    out.table(Some("what differs"), &classes)?;
    let all: usize = audits.iter().map(|audit| audit.differences.len()).sum();
    let most = if all_differences { all } else { FIRST_DIFFERENCES };
    stream(differences(audits).take(most), out)?;
    if all > most {
        out.note(format!("{} more differences; `--differences` shows all", all - most));
    }
    Ok(())
}

fn differences(audits: &[Audit]) -> impl Iterator<Item = DifferenceRow<'_>> {
    audits.iter().flat_map(|audit| {
        let activity = audit.activity.as_str();
        audit.differences.iter().map(move |difference| DifferenceRow::new(activity, difference))
    })
}

fn stream<T: Row>(rows: impl Iterator<Item = T>, out: &mut Output) -> Result<()> {
    let mut stream = out.stream::<T>()?;
    for row in rows {
        stream.push(&row)?;
    }
    stream.finish()
}

/// How many differences of each class; they are sorted by class.
fn classes(audit: &Audit) -> impl Iterator<Item = ClassRow<'_>> {
    audit.differences.chunk_by(|one, other| one.class == other.class).map(|same| ClassRow::new(audit, same))
}

/// Notes about single activities; of more only the number is said.
const MAX_LEFT_OUT: usize = 5;

/// Says which activities `--fix` and `--emit` leave out: neither the command line names them nor any order row, and they have
/// sales that are missing there.
pub(super) fn note_left_out(left_out: &[ActivityId], out: &Output) {
    for activity in left_out.iter().take(MAX_LEFT_OUT) {
        out.note(format!("`{activity}` was left out: it has sales, and the order records have no row of it"));
    }
    if left_out.len() > MAX_LEFT_OUT {
        out.note(format!("{} more such activities were left out", left_out.len() - MAX_LEFT_OUT));
    }
    if let Some(activity) = left_out.first() {
        out.hint(format!(
            "is the export incomplete? If these orders are missing indeed, name the activity: `seckill reconcile {activity:#} …`"
        ));
    }
}

row! {
    /// An order that no record has.
    struct EmittedRow<'a> as row from (activity: &'a str, missing: &'a MissingOrder) {
        activity: &'a str = activity;
        user: Option<&'a StoredUser> = missing.user.as_ref(), flexible;
        quantity: u64 = missing.quantity;
        sparse user_hex: Option<String> = missing.user.as_ref().and_then(StoredUser::user_hex);
    }
}

/// Prints what is to be delivered again, a JSON object a line unless another format is asked for.
pub(super) fn emit(audits: &[Audit], out: &mut Output) -> Result<()> {
    let mut rows = audits.iter().flat_map(|audit| {
        let activity = audit.activity.as_str();
        audit.missing_orders.iter().map(move |missing| EmittedRow::new(activity, missing))
    });
    if out.format() == Format::Table {
        return rows.try_for_each(|row| {
            out.line(&serde_json::to_string(&row).map_err(unencodable)?);
            Ok(())
        });
    }
    stream(rows, out)
}
