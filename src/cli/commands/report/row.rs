//! The report for programs.

use serde::Serialize;

use crate::audit::result::Verdict;
use crate::cli::commands::inspect::rows::ParticipantRow;
use crate::cli::commands::report::series::Period;
use crate::cli::output::Cell;
use crate::cli::output::columns;
use crate::model::ledger::Op;
use crate::model::time::Millis;
use crate::report::Mark;
use crate::report::balance::Objection;

/// What fits in a row.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub activity: String,
    pub title: Option<String>,
    pub state: &'static str,
    pub total: u64,
    pub stock: Option<u64>,
    /// Units that users hold, by the ledger.
    pub sold: i64,
    pub buyers: Option<u64>,
    pub per_user_limit: Option<u64>,
    pub starts_at: Option<Millis>,
    pub ends_at: Option<Millis>,
    /// The first entry that is left of a ledger that was trimmed, or whose beginning is lost.
    pub since: Option<Millis>,
    /// Units sold before that.
    pub sold_before: i64,
    pub first_order: Option<Millis>,
    pub last_order: Option<Millis>,
    pub last_refund: Option<Millis>,
    pub sold_out_at: Option<Millis>,
    /// Seconds since the window began, else since the first order.
    pub sold_out_in: Option<f64>,
    pub orders: u64,
    pub bought: u64,
    pub refunds: u64,
    pub returned: u64,
    /// Of the orders, those that began as holds, and how many of them were confirmed.
    pub holds: u64,
    pub confirmed: u64,
    /// Units of holds that were released or expired.
    pub released: u64,
    /// When half of what was bought was, to a period of the timeline or less.
    pub half_bought_at: Option<Millis>,
    /// Units a second until the sell-out, or the last order.
    pub rate: Option<f64>,
    /// The most units in one second.
    pub peak_rate: Option<u64>,
    pub peak_at: Option<Millis>,
    pub verdict: Verdict,
    /// `sums`: nothing is compared user by user.
    pub proof: &'static str,
    pub objection: Option<Objection>,
    /// Units that participants hold; null if that was not compared.
    pub held: Option<u64>,
    /// Seconds of a period of the timeline.
    pub period: Option<f64>,
}

columns!(_row: Figures {
    data activity;
    data title;
    data state;
    data total;
    data stock;
    data sold;
    data buyers;
    data per_user_limit;
    data starts_at;
    data ends_at;
    data since;
    data sold_before;
    data first_order;
    data last_order;
    data last_refund;
    data sold_out_at;
    data sold_out_in;
    data orders;
    data bought;
    data refunds;
    data returned;
    data holds;
    data confirmed;
    data released;
    data half_bought_at;
    data rate;
    data peak_rate;
    data peak_at;
    data verdict;
    data proof;
    data objection;
    data held;
    data period;
});

/// Everything.
#[derive(Debug, Serialize)]
pub struct ReportRow {
    #[serde(flatten)]
    pub figures: Figures,
    pub timeline: Vec<Period>,
    pub marks: Vec<MarkRow>,
    pub more_marks: u64,
    pub units_a_user: Vec<RangeRow>,
    /// Users whose units nobody recorded.
    pub unknown_users: u64,
    pub top_buyers: Vec<ParticipantRow>,
}

columns!(_row: ReportRow {
    data figures;
    data timeline;
    data marks;
    data more_marks;
    data units_a_user;
    data unknown_users;
    data top_buyers;
});

/// Something other than an order.
#[derive(Debug, Serialize)]
pub struct MarkRow {
    pub time: Millis,
    pub op: Op,
    pub quantity: Option<i64>,
    pub stock: Option<u64>,
    pub by: Option<String>,
    pub reason: Option<String>,
    #[serde(skip)]
    pub total_before: Option<u64>,
}

columns!(row: MarkRow {
    time => Cell::text(row.time.to_second().to_string());
    op as "event" => Cell::text(row.what()).flexible();
    data quantity;
    data stock;
    by => text(row.by.as_ref());
    reason => text(row.reason.as_ref());
}, sparse = true);

fn text(text: Option<&String>) -> Cell {
    Cell::text(text.map(String::as_str).unwrap_or_default()).flexible()
}

impl MarkRow {
    pub fn new(mark: &Mark) -> Self {
        let Mark { time, op, quantity, total_before, stock, by, reason } = mark.clone();
        Self { time, op, quantity, stock, by, reason, total_before }
    }

    /// What was done, in words.
    pub fn what(&self) -> String {
        use crate::cli::commands::report::words::{count, units};
        let number = self.quantity.unwrap_or_default();
        let size = number.unsigned_abs();
        match (self.op, self.total_before) {
            (Op::Preheat, _) => format!("preheat of {}", units(size)),
            (Op::Adopt, _) => format!("taken over, total {}", count(size)),
            (Op::Update, Some(before)) if before != size => format!("total {} to {}", count(before), count(size)),
            (Op::Update, _) => "update of limit, title or window".to_owned(),
            (Op::Pause, _) if number > 0 => format!("pause, {} withdrawn", units(size)),
            (Op::Resume, _) if number > 0 => format!("resume, {} returned", units(size)),
            (Op::Repair, _) => format!("repair, {number:+} held"),
            (op, _) => op.name().to_owned(),
        }
    }
}

/// Users who hold from so many units to so many.
#[derive(Debug, Serialize)]
pub struct RangeRow {
    pub from: u64,
    pub to: u64,
    pub users: u64,
    #[serde(skip)]
    pub share: f64,
}

columns!(row: RangeRow {
    from as "units" => Cell::text(row.label());
    data to;
    users;
    table "" => Cell::bar(row.share).tone(crate::cli::output::Tone::Info);
});

impl RangeRow {
    pub fn label(&self) -> String {
        use crate::cli::commands::report::words::count;
        match self.from == self.to {
            true => count(self.from),
            false => format!("{} to {}", count(self.from), count(self.to)),
        }
    }
}
