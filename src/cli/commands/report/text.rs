//! The report for people: facts, two charts over time, then tables.

use crate::cli::commands::report::facts::{self, Fact, between, count, rate};
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::series::{Pace, Period, Series};
use crate::cli::failure::Result;
use crate::cli::output::{Output, Tone, bars, counted, wrapped};
use crate::model::time::Tick;
use crate::model::{Millis, Op, State};
use crate::report::Mark;

/// Columns if nothing bounds them, and the most and fewest that are used.
const WIDTH: usize = 100;
const MAX_WIDTH: usize = 140;
const MIN_WIDTH: usize = 40;
/// Lines of the charts.
const SOLD_LINES: usize = 8;
const RATE_LINES: usize = 6;
const RETURNED_LINES: usize = 2;
/// Columns before the text of a fact.
const NAMES: usize = 11;

pub(super) fn show(report: &Report, out: &mut Output) -> Result<()> {
    let width = out.terminal().width.unwrap_or(WIDTH).clamp(MIN_WIDTH, MAX_WIDTH);
    header(report, width, out);
    let window = window(report).map(|text| Fact { name: "window", text, tone: Tone::Plain });
    for Fact { name, text, tone } in window.into_iter().chain(facts::all(report)) {
        for (index, line) in wrapped(&text, width - NAMES).into_iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            out.parts(&[(format!("{name:<NAMES$}"), Tone::Dim), (line, tone)]);
        }
    }
    match &report.series {
        Some(series) => charts(report, series, width, out),
        None => out.line(&format!("\n{}", facts::no_orders(report))),
    }
    if !report.sales.marks.is_empty() {
        out.table(Some("Events"), &report.marks())?;
    }
    if report.sales.more_marks > 0 {
        out.note(format!("{} more events: `seckill ledger {:#}`", report.sales.more_marks, report.snapshot.activity));
    }
    let ranges = report.ranges();
    if !ranges.is_empty() {
        out.table(Some("Units a user"), &ranges)?;
    }
    if let Some(unknown) = report.users.as_ref().map(|users| users.unknown).filter(|unknown| *unknown > 0) {
        out.note(format!("of {} nobody recorded the units", counted(unknown, "user")));
    }
    let buyers = report.participants();
    if !buyers.is_empty() {
        out.table(Some("Top buyers"), &buyers)?;
    }
    out.note(format!(
        "the verdict compares sums; `seckill reconcile {:#}` is the full audit, user by user",
        report.snapshot.activity
    ));
    Ok(())
}

/// Name, title and state in one line if it has room, else the state in a line of its own.
fn header(report: &Report, width: usize, out: &mut Output) {
    let (activity, title) = (&report.snapshot.activity, &report.meta.title);
    let name = if title.is_empty() { activity.to_string() } else { format!("{activity}  {title}") };
    let state = state(report);
    if wrapped(&format!("{name}  {state}"), width).len() == 1 {
        return out.parts(&[(name, Tone::Strong), (format!("  {state}"), Tone::Dim)]);
    }
    for (text, tone) in [(name, Tone::Strong), (state, Tone::Dim)] {
        wrapped(&text, width).into_iter().for_each(|line| out.parts(&[(line, tone)]));
    }
}

/// The state; of a sale that has not ended, with the time at which it was read.
pub(super) fn state(report: &Report) -> String {
    match report.snapshot.state_name() {
        state if state == State::Ended.name() => state.to_owned(),
        state => format!("{state} at {}", report.snapshot.at.to_second()),
    }
}

/// When it was open.
pub(super) fn window(report: &Report) -> Option<String> {
    match (report.meta.starts_at, report.meta.ends_at) {
        (Some(start), Some(end)) => Some(format!("{start} to {end}")),
        (Some(start), None) => Some(format!("from {start}")),
        (None, Some(end)) => Some(format!("until {end}")),
        (None, None) => None,
    }
}

/// A chart: labels at its left, bars, and its axis.
struct Chart<'a> {
    columns: &'a [Period],
    /// Columns of the labels.
    labels: usize,
}

fn charts(report: &Report, series: &Series, width: usize, out: &mut Output) {
    let sold = |period: &Period| period.sold.max(0) as f64;
    let most_sold = series.periods.iter().map(sold).fold(0.0, f64::max);
    let most_total = series.periods.iter().filter_map(|period| period.total).max().unwrap_or(0) as f64;
    let full = most_sold.max(most_total).max(1.0);
    // The labels of both charts are as wide as the widest number can be.
    let narrow = series.columns(MAX_WIDTH);
    let pace = Pace::of(&narrow);
    let peak = |columns: &[Period]| columns.iter().map(|column| pace.bought(column)).fold(0.0, f64::max);
    let labels = count_of(full).len().max(count_of(peak(&narrow)).len()).max(5);
    let columns = series.columns(width - labels - 2);
    let chart = Chart { columns: &columns, labels };
    let marks: Vec<&Mark> = report.sales.marks.iter().filter(|mark| letter(mark).is_some()).collect();

    let shown: Vec<f64> = columns.iter().map(sold).collect();
    out.line("");
    out.parts(&[("Units sold", Tone::Strong)]);
    chart.draw(&shown, full, count_of, SOLD_LINES, Tone::Info, out);
    chart.axis(series, &marks, out);

    let rates: Vec<f64> = columns.iter().map(|column| pace.bought(column)).collect();
    let most = peak(&columns).max(f64::MIN_POSITIVE);
    out.line("");
    out.parts(&[(format!("Units {}", pace.name), Tone::Strong)]);
    chart.draw(&rates, most, rate, RATE_LINES, Tone::Good, out);
    let returns: Vec<f64> = columns.iter().map(|column| pace.returned(column)).collect();
    let most_returned = returns.iter().copied().fold(0.0, f64::max);
    chart.axis(series, &[], out);
    if most_returned > 0.0 {
        out.line("");
        out.parts(&[(format!("Units returned {}", pace.name), Tone::Strong)]);
        chart.draw(&returns, most_returned, rate, RETURNED_LINES, Tone::Warn, out);
        chart.axis(series, &[], out);
    }
    let column = Millis::new(series.width * (series.periods.len() as u64).div_ceil(columns.len() as u64));
    let mut notes =
        vec![format!("time in {}; a column is {} at most", series.from.zone(), between(Millis::new(0), column))];
    notes.extend(facts::later(report));
    for line in wrapped(&notes.join("; "), width) {
        out.parts(&[(line, Tone::Dim)]);
    }
}

fn count_of(number: f64) -> String {
    count(number.round() as u64)
}

impl Chart<'_> {
    /// Bars that are as high as `full` at most, with labels of the whole and the half of it if there is room.
    fn draw(&self, values: &[f64], full: f64, label: fn(f64) -> String, height: usize, tone: Tone, out: &mut Output) {
        for (index, line) in bars(values, full, height).into_iter().enumerate() {
            let label = match index {
                0 => label(full),
                index if index * 2 == height && height > RETURNED_LINES => label(full / 2.0),
                _ => String::new(),
            };
            let edge = if label.is_empty() { '│' } else { '┤' };
            out.parts(&[(format!("{label:>width$} {edge}", width = self.labels), Tone::Dim), (line, tone)]);
        }
    }

    /// The column of an instant.
    fn column(&self, at: Millis) -> Option<usize> {
        self.columns.iter().position(|column| (column.from..column.to).contains(&at))
    }

    /// The axis with its ticks, the times below it, and the letters of marks.
    fn axis(&self, series: &Series, marks: &[&Mark], out: &mut Output) {
        let count = self.columns.len();
        let ticks: Vec<(usize, Tick)> = Millis::ticks(series.from, series.to, (count / 12).max(1))
            .into_iter()
            .filter_map(|tick| Some((self.column(tick.at)?, tick)))
            .collect();
        let mut line: Vec<char> = vec!['─'; count];
        ticks.iter().for_each(|(at, _)| line[*at] = '┬');
        let line: String = line.into_iter().collect();
        out.parts(&[(format!("{:>width$} ┼{line}", 0, width = self.labels), Tone::Dim)]);
        let mut labels = String::new();
        for (at, tick) in &ticks {
            // A label begins below its tick, if it fits and the one before is over.
            let (used, fits) = (labels.chars().count(), at + tick.label.len() <= count);
            if fits && (used == 0 || *at > used) {
                labels.extend(std::iter::repeat_n(' ', at - used));
                labels.push_str(&tick.label);
            }
        }
        out.parts(&[(format!("{:>width$}  {labels}", "", width = self.labels), Tone::Dim)]);
        let mut letters: Vec<char> = vec![' '; count];
        for mark in marks {
            if let Some((at, letter)) = self.column(mark.time).zip(letter(mark)) {
                letters[at] = if letters[at] == ' ' || letters[at] == letter { letter } else { '*' };
            }
        }
        let letters: String = letters.into_iter().collect();
        if !letters.trim().is_empty() {
            out.parts(&[
                (format!("{:>width$}  ", "", width = self.labels), Tone::Plain),
                (letters.trim_end().to_owned(), Tone::Warn),
            ]);
            let meanings = "P pause, R resume, U update, F repair, * several: see Events";
            out.parts(&[(format!("{:>width$}  {meanings}", "", width = self.labels), Tone::Dim)]);
        }
    }
}

/// The letter of a mark on the axis of time.
pub(super) fn letter(mark: &Mark) -> Option<char> {
    match mark.op {
        Op::Pause => Some('P'),
        Op::Resume => Some('R'),
        Op::Update => Some('U'),
        Op::Repair => Some('F'),
        _ => None,
    }
}
