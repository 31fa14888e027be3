//! How an audit is shown: a summary of each activity, then everything that differs.

use anyhow::Result;
use serde::Serialize;

use super::verdict;
use crate::commands::repair::RepairRow;
use crate::inventory::drift::{Audit, Class, Difference, Held, Verdict};
use crate::inventory::id::StoredUser;
use crate::output::{Cell, Format, Output, Row, Tone};

/// One activity in a summary.
#[derive(Debug, Serialize)]
struct ActivityRow<'a> {
    activity: &'a str,
    verdict: Verdict,
    total: Option<u64>,
    stock: Option<u64>,
    bought: Option<i64>,
    expected_stock: Option<i64>,
    drift: Option<i64>,
}

impl<'a> ActivityRow<'a> {
    fn new(audit: &'a Audit) -> Self {
        Self {
            activity: audit.activity.as_str(),
            verdict: audit.verdict,
            total: audit.total,
            stock: audit.stock,
            bought: audit.bought,
            expected_stock: audit.expected_stock,
            drift: audit.drift,
        }
    }
}

impl Row for ActivityRow<'_> {
    const FIELDS: &'static [&'static str] =
        &["activity", "verdict", "total", "stock", "bought", "expected_stock", "drift"];
    const HEADINGS: &'static [&'static str] = &["activity", "verdict", "total", "stock", "bought", "expected", "drift"];

    fn cells(&self) -> Vec<Cell> {
        let tone = match self.verdict {
            Verdict::Match => Tone::Good,
            Verdict::Unproven | Verdict::Unsettled => Tone::Warn,
            Verdict::Drift | Verdict::NotPreheated => Tone::Bad,
        };
        let drift = match self.drift {
            Some(drift) if drift != 0 => Cell::number(format!("{drift:+}")).tone(Tone::Bad),
            drift => Cell::known(drift),
        };
        vec![
            Cell::text(self.activity).flexible(),
            Cell::text(self.verdict.name()).tone(tone),
            Cell::known(self.total),
            Cell::known(self.stock),
            Cell::known(self.bought),
            Cell::known(self.expected_stock),
            drift,
        ]
    }
}

/// How many differences of a class an activity has.
#[derive(Debug, Serialize)]
struct ClassRow<'a> {
    activity: &'a str,
    class: Class,
    differences: usize,
}

impl Row for ClassRow<'_> {
    const FIELDS: &'static [&'static str] = &["activity", "class", "differences"];
    const HEADINGS: &'static [&'static str] = &["activity", "class", "differences", "it means"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.activity).flexible(),
            class(self.class),
            Cell::number(self.differences),
            Cell::text(self.class.meaning()).flexible(),
        ]
    }
}

/// One thing that differs.
#[derive(Debug, Serialize)]
struct DifferenceRow<'a> {
    activity: &'a str,
    user: Option<&'a StoredUser>,
    class: Class,
    redis: Option<&'a Held>,
    ledger: Option<&'a Held>,
    orders: Option<&'a Held>,
}

impl<'a> DifferenceRow<'a> {
    fn new(audit: &'a Audit, difference: &'a Difference) -> Self {
        Self {
            activity: audit.activity.as_str(),
            user: difference.user.as_ref(),
            class: difference.class,
            redis: difference.redis.as_ref(),
            ledger: difference.ledger.as_ref(),
            orders: difference.orders.as_ref(),
        }
    }
}

impl Row for DifferenceRow<'_> {
    const FIELDS: &'static [&'static str] = &["activity", "user", "class", "redis", "ledger", "orders"];
    const HEADINGS: &'static [&'static str] = &["activity", "user", "class", "redis", "ledger", "orders"];

    fn cells(&self) -> Vec<Cell> {
        let said = |held: Option<&Held>| match held {
            Some(Held::Text(text)) => Cell::text(text).flexible(),
            units => Cell::known(units),
        };
        vec![
            Cell::text(self.activity).flexible(),
            self.user.map_or_else(Cell::unknown, |user| Cell::text(user.to_string()).flexible()),
            class(self.class),
            said(self.redis),
            said(self.ledger),
            said(self.orders),
        ]
    }
}

fn class(class: Class) -> Cell {
    Cell::text(class.name()).tone(if class == Class::Timing { Tone::Dim } else { Tone::Bad })
}

/// All of it, as one value.
#[derive(Serialize)]
struct Document<'a> {
    verdict: Verdict,
    activities: Vec<ActivityRow<'a>>,
    differences: Vec<DifferenceRow<'a>>,
    /// Only where repairs were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<&'a [RepairRow]>,
}

/// Says what people should know beside the figures.
pub fn tell(audits: &[Audit], out: &Output) {
    for audit in audits {
        for note in &audit.notes {
            out.warn(format!("{}: {note}", audit.activity));
        }
    }
    let drifted = |audit: &Audit| audit.differences.iter().any(|difference| difference.class == Class::CounterDrift);
    if audits.iter().any(drifted) {
        out.hint(
            "a backend that sells with a script of its own writes no ledger: preheat its activities with `ledger: false`",
        );
    }
}

/// Shows audits: nested for `json` and `yaml`, tables for people, and for the flat formats what differs.
pub fn report(audits: &[Audit], repairs: Option<&[RepairRow]>, out: &mut Output) -> Result<()> {
    let differences = || {
        audits.iter().flat_map(|audit| audit.differences.iter().map(|difference| DifferenceRow::new(audit, difference)))
    };
    match out.format() {
        Format::Json | Format::Yaml => {
            out.keep_changes(repairs.unwrap_or_default())?;
            return out.document(&Document {
                verdict: verdict(audits),
                activities: audits.iter().map(ActivityRow::new).collect(),
                differences: differences().collect(),
                repairs,
            });
        }
        Format::Table => {
            let rows: Vec<ActivityRow<'_>> = audits.iter().map(ActivityRow::new).collect();
            out.table(None, &rows)?;
            let classes: Vec<ClassRow<'_>> = audits.iter().flat_map(classes).collect();
            if classes.is_empty() {
                return Ok(());
            }
            out.table(Some("what differs"), &classes)?;
            out.line("")?;
        }
        Format::Jsonl | Format::Csv | Format::Tsv => (),
    }
    let mut rows = out.stream()?;
    for row in differences() {
        rows.push(&row)?;
    }
    rows.finish()
}

/// How many differences of each class; they are sorted by class.
fn classes(audit: &Audit) -> impl Iterator<Item = ClassRow<'_>> {
    audit.differences.chunk_by(|one, other| one.class == other.class).map(|same| ClassRow {
        activity: audit.activity.as_str(),
        class: same[0].class,
        differences: same.len(),
    })
}
