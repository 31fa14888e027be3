//! The report for programs.

use crate::audit::result::Verdict;
use crate::cli::commands::inspect::rows::ParticipantRow;
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::series::{Period, Series};
use crate::cli::output::{Cell, row};
use crate::model::{Millis, Op};
use crate::report::units_a_user::UnitRange;
use crate::report::{Mark, Objection};

row! {
    /// What fits in a row.
    pub(super) struct Figures as _row from (report: &Report) {
        data pub activity: String = snapshot.activity.to_string();
        data pub title: Option<String> = Some(meta.title.clone()).filter(|title| !title.is_empty());
        data pub state: &'static str = snapshot.state_name();
        data pub total: u64 = meta.total;
        data pub stock: Option<u64> = snapshot.stock;
        /// Units bought and not returned, by the ledger, open holds included.
        data pub sold: i64 = sales.sold;
        data pub buyers: Option<u64> = snapshot.buyers;
        data pub per_user_limit: Option<u64> = meta.per_user_limit;
        data pub starts_at: Option<Millis> = meta.starts_at;
        data pub ends_at: Option<Millis> = meta.ends_at;
        /// The first entry that is left of a ledger that was trimmed, or whose beginning is lost.
        data pub since: Option<Millis> = report.since();
        /// Units sold before that.
        data pub sold_before: i64 = sales.sold_at_begin;
        data pub first_order: Option<Millis> = sales.first_order;
        data pub last_order: Option<Millis> = sales.last_order;
        data pub last_refund: Option<Millis> = sales.last_refund;
        data pub sold_out_at: Option<Millis> = sales.sold_out_at;
        /// Seconds since the window began, else since the first order.
        data pub sold_out_in: Option<f64> = sold_out.map(|(end, begin)| seconds(end.get() - begin.get()));
        data pub orders: u64 = sales.orders;
        data pub bought: u64 = sales.bought;
        data pub refunds: u64 = sales.refunds;
        data pub returned: u64 = sales.returned;
        /// Of the orders, those that began as holds, and how many of them were confirmed.
        data pub holds: u64 = sales.holds;
        data pub confirmed: u64 = sales.confirmed;
        /// Units of holds that were released or expired.
        data pub released: u64 = sales.released;
        /// When half of what was bought was, to a period of the timeline or less.
        data pub half_bought_at: Option<Millis> = sales.bought_by(50);
        /// Units a second until the sell-out, or the last order.
        data pub rate: Option<f64> = sales.rate().map(|rate| (rate * 1e4).round() / 1e4);
        /// The most units in one second.
        data pub peak_rate: Option<u64> = sales.peak.map(|peak| peak.units);
        data pub peak_at: Option<Millis> = sales.peak.map(|peak| peak.at);
        data pub verdict: Verdict = balance.verdict();
        /// `sums`: nothing is compared user by user.
        data pub proof: &'static str = "sums";
        data pub objection: Option<Objection> = balance.objection;
        /// Units of open holds, which `sold` includes.
        data pub held: u64 = meta.holds;
        /// The sum of the participants' counters; null if it was not compared.
        data pub counters: Option<u64> = balance.counters;
        /// Seconds of a period of the timeline.
        data pub period: Option<f64> = report.series.as_ref().map(|series| seconds(series.width));
    }
    where {
        let Report { meta, sales, balance, snapshot, .. } = report;
        let sold_out = sales.sold_out_at.zip(report.begin());
    }
}

row! {
    /// Everything.
    pub(super) struct ReportRow as _row from (report: &Report) {
        flat pub figures: Figures = Figures::new(report);
        data pub timeline: Vec<Period> = report.series.as_ref().map(Series::moving).unwrap_or_default();
        data pub marks: Vec<MarkRow> = report.marks();
        data pub more_marks: u64 = report.sales.more_marks;
        data pub units_a_user: Vec<RangeRow> = report.ranges();
        /// Users whose units nobody recorded.
        data pub unknown_users: u64 = report.users.as_ref().map_or(0, |users| users.unknown);
        data pub top_buyers: Vec<ParticipantRow> = report.participants();
    }
}

row! {
    /// Something other than an order.
    pub(super) struct MarkRow as row from (mark: &Mark) {
        /// In full on any terminal: a report is read long after.
        pub time: Millis = mark.time => Cell::text(row.time.to_second().to_string());
        pub op: Op as "event" = mark.op => Cell::text(row.what()).flexible();
        data pub quantity: Option<i64> = mark.quantity;
        data pub stock: Option<u64> = mark.stock;
        pub by: Option<String> = mark.by.clone(), flexible;
        pub reason: Option<String> = mark.reason.clone(), flexible;
        hidden pub total_before: Option<u64> = mark.total_before;
    }
}

impl MarkRow {
    /// What was done, in words.
    pub(super) fn what(&self) -> String {
        use crate::cli::commands::report::facts::{count, units};
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
    pub(super) struct RangeRow as row from (range: &UnitRange, all: u64) {
        pub from: u64 as "units" = range.from => Cell::text(row.label());
        data pub to: u64 = range.to;
        pub users: u64 = range.users;
        table "" => Cell::bar(row.share).tone(crate::cli::output::Tone::Info);
        hidden pub share: f64 = range.users as f64 / all.max(1) as f64;
    }
}

impl RangeRow {
    pub(super) fn label(&self) -> String {
        use crate::cli::commands::report::facts::count;
        match self.from == self.to {
            true => count(self.from),
            false => format!("{} to {}", count(self.from), count(self.to)),
        }
    }
}

impl Report {
    pub(super) fn marks(&self) -> Vec<MarkRow> {
        self.sales.marks.iter().map(MarkRow::new).collect()
    }

    pub(super) fn ranges(&self) -> Vec<RangeRow> {
        let Some(users) = &self.users else { return Vec::new() };
        users.ranges().iter().map(|range| RangeRow::new(range, users.users())).collect()
    }

    pub(super) fn participants(&self) -> Vec<ParticipantRow> {
        self.buyers.rows(self.meta.per_user_limit)
    }
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
