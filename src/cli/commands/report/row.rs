//! The report for programs.

use crate::audit::result::Verdict;
use crate::cli::commands::inspect::rows::ParticipantRow;
use crate::cli::commands::report::series::Period;
use crate::cli::output::Cell;
use crate::cli::output::row;
use crate::model::ledger::Op;
use crate::model::time::Millis;
use crate::report::Mark;
use crate::report::Objection;

row! {
    /// What fits in a row.
    pub(super) struct Figures as _row {
        data pub activity: String;
        data pub title: Option<String>;
        data pub state: &'static str;
        data pub total: u64;
        data pub stock: Option<u64>;
        /// Units bought and not returned, by the ledger, open holds included.
        data pub sold: i64;
        data pub buyers: Option<u64>;
        data pub per_user_limit: Option<u64>;
        data pub starts_at: Option<Millis>;
        data pub ends_at: Option<Millis>;
        /// The first entry that is left of a ledger that was trimmed, or whose beginning is lost.
        data pub since: Option<Millis>;
        /// Units sold before that.
        data pub sold_before: i64;
        data pub first_order: Option<Millis>;
        data pub last_order: Option<Millis>;
        data pub last_refund: Option<Millis>;
        data pub sold_out_at: Option<Millis>;
        /// Seconds since the window began, else since the first order.
        data pub sold_out_in: Option<f64>;
        data pub orders: u64;
        data pub bought: u64;
        data pub refunds: u64;
        data pub returned: u64;
        /// Of the orders, those that began as holds, and how many of them were confirmed.
        data pub holds: u64;
        data pub confirmed: u64;
        /// Units of holds that were released or expired.
        data pub released: u64;
        /// When half of what was bought was, to a period of the timeline or less.
        data pub half_bought_at: Option<Millis>;
        /// Units a second until the sell-out, or the last order.
        data pub rate: Option<f64>;
        /// The most units in one second.
        data pub peak_rate: Option<u64>;
        data pub peak_at: Option<Millis>;
        data pub verdict: Verdict;
        /// `sums`: nothing is compared user by user.
        data pub proof: &'static str;
        data pub objection: Option<Objection>;
        /// Units of open holds, which `sold` includes.
        data pub held: u64;
        /// The sum of the participants' counters; null if it was not compared.
        data pub counters: Option<u64>;
        /// Seconds of a period of the timeline.
        data pub period: Option<f64>;
    }
}

row! {
    /// Everything.
    pub(super) struct ReportRow as _row {
        flat pub figures: Figures;
        data pub timeline: Vec<Period>;
        data pub marks: Vec<MarkRow>;
        data pub more_marks: u64;
        data pub units_a_user: Vec<RangeRow>;
        /// Users whose units nobody recorded.
        data pub unknown_users: u64;
        data pub top_buyers: Vec<ParticipantRow>;
    }
}

row! {
    /// Something other than an order.
    pub(super) struct MarkRow as row {
        /// In full on any terminal: a report is read long after.
        pub time: Millis => Cell::text(row.time.to_second().to_string());
        pub op: Op as "event" => Cell::text(row.what()).flexible();
        data pub quantity: Option<i64>;
        data pub stock: Option<u64>;
        pub by: Option<String>, flexible;
        pub reason: Option<String>, flexible;
        hidden pub total_before: Option<u64>;
    }
}

impl MarkRow {
    pub(super) fn new(mark: &Mark) -> Self {
        let Mark { time, op, quantity, total_before, stock, by, reason } = mark.clone();
        Self { time, op, quantity, stock, by, reason, total_before }
    }

    /// What was done, in words.
    pub(super) fn what(&self) -> String {
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
            (Op::Repair, _) => format!("repair, {number:+} bought"),
            (op, _) => op.name().to_owned(),
        }
    }
}

row! {
    /// Users whose units are in a range.
    pub(super) struct RangeRow as row {
        pub from: u64 as "units" => Cell::text(row.label());
        data pub to: u64;
        pub users: u64;
        table "" => Cell::bar(row.share).tone(crate::cli::output::Tone::Info);
        hidden pub share: f64;
    }
}

impl RangeRow {
    pub(super) fn label(&self) -> String {
        use crate::cli::commands::report::words::count;
        match self.from == self.to {
            true => count(self.from),
            false => format!("{} to {}", count(self.from), count(self.to)),
        }
    }
}
