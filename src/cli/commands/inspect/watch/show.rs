//! The frame that a person sees, and which rows of a long table it has.

use std::ops::Range;
use std::time::{Duration, Instant};

use indicatif::HumanCount;

use crate::cli::commands::inspect::watch::board::Board;
use crate::cli::commands::inspect::watch::forecast::Forecast;
use crate::cli::commands::inspect::watch::row::{Alarm, SPARE, WatchRow};
use crate::cli::output::{Frame, Key, Tone, counted};
use crate::error::StoreError;
use crate::model::{Op, State};
use crate::read::stats::info::Role;
use crate::read::watch::NewestOrder;

/// Alarms that are shown in a line each.
const ALARMS: usize = 5;
/// Newest orders that are shown even if rows have no room because of them.
const ORDERS: usize = 5;
/// With fewer lines than this, rows come first.
const TALL: usize = 20;
/// Lines around the rows: a blank one, headings, a rule, and the line below.
const AROUND_ROWS: usize = 4;
/// Lines above the orders: a blank one and a title.
const ABOVE_ORDERS: usize = 2;

/// What does not change from frame to frame.
pub(super) struct Title {
    pub server: String,
    pub layout: &'static str,
    pub every: Duration,
    /// Whether keys are explained.
    pub explains: bool,
}

/// Draws all that has room, the most important first.
pub(super) fn draw(board: &Board, title: &Title, scroll: &mut Scroll, frame: &mut Frame) {
    header(board, title, frame);
    totals(board, title, frame);
    scripts(board, frame);
    lost(board, title, frame);
    alarms(board, frame);
    let left = frame.room().saturating_sub(AROUND_ROWS + board.rows.len().max(1) + ABOVE_ORDERS);
    let orders = left.max(if frame.room() >= TALL { ORDERS } else { 0 }).min(board.newest.len());
    let below = 1 + if orders > 0 { orders + ABOVE_ORDERS } else { 0 };
    frame.blank();
    if board.rows.is_empty() {
        frame.line(&[("no activity to show", Tone::Dim)]);
    }
    let shown = scroll.window(board.rows.len(), frame.rows_with_room(below));
    let hidden = frame.table(&board.rows[shown.clone()], SPARE);
    footer(title, (shown.start, board.rows.len() - shown.end), &hidden, frame);
    if orders > 0 {
        frame.blank();
        frame.line(&[("NEWEST ORDERS", Tone::Strong)]);
        newest(board, orders, frame);
    }
}

/// Where this is from, and the server's clock.
fn header(board: &Board, title: &Title, frame: &mut Frame) {
    let figures = &board.servers.figures;
    let mut parts = vec![(title.server.clone(), Tone::Strong)];
    let mut add = |text: String, tone: Tone| parts.extend([(" · ".to_owned(), Tone::Dim), (text, tone)]);
    match (figures.asked, figures.role) {
        (2.., _) => add(format!("{} primaries", figures.asked), Tone::Plain),
        (_, Some(Role::Replica)) => add("replica: may lag behind".to_owned(), Tone::Bad),
        (_, Some(role)) => add(role.name().to_owned(), Tone::Plain),
        (_, None) => {}
    }
    figures.product.iter().for_each(|product| add(product.clone(), Tone::Plain));
    add(format!("layout {}", title.layout), Tone::Plain);
    let now = board.at.to_second().to_string();
    frame.line_with(&parts, &[&now, clock(&now)]);
}

/// The sums of all activities.
fn totals(board: &Board, title: &Title, frame: &mut Frame) {
    let rows = &board.rows;
    let mut states: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        match states.iter_mut().find(|(state, _)| *state == row.activity.state) {
            Some((_, count)) => *count += 1,
            None => states.push((row.activity.state, 1)),
        }
    }
    let order = |state: &str| [State::Live, State::SoldOut].iter().position(|known| known.name() == state);
    states.sort_by_key(|(state, _)| order(state).unwrap_or(2));
    let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let of_states = if rows.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
    let every = format!("every {}", humantime::format_duration(title.every));
    frame.line_with(&[(counted(rows.len(), "activity") + &of_states, Tone::Plain)], &[&every]);
    let sum = |of: fn(&WatchRow) -> Option<u64>| rows.iter().filter_map(of).fold(0, u64::saturating_add);
    let stock = sum(|row| row.activity.stock);
    let sold = sum(|row| row.activity.sold.and_then(|sold| u64::try_from(sold).ok()));
    let mut parts = vec![(format!("{} units left, {} sold", HumanCount(stock), HumanCount(sold)), Tone::Plain)];
    let rates: Vec<f64> = rows.iter().filter_map(|row| row.rate).collect();
    if !rates.is_empty() {
        parts.push((format!(", {} units/s", per_second(rates.iter().sum())), Tone::Strong));
    }
    let soonest = rows.iter().filter_map(|row| match row.forecast? {
        Forecast::SoldOutIn(time) => Some((time, row)),
        Forecast::EndsWith(_) => None,
    });
    if let Some((time, row)) = soonest.min_by_key(|(time, _)| *time) {
        let next = format!(" · next sold out: {} {}", row.activity.name(), Forecast::SoldOutIn(time));
        parts.push((next, Tone::Plain));
    }
    frame.line(&parts);
}

/// Script calls of all callers.
fn scripts(board: &Board, frame: &mut Frame) {
    let figures = &board.servers.figures;
    if figures.refused {
        return frame.line(&[("script calls unknown: this user may not ask INFO", Tone::Dim)]);
    }
    if board.lost.is_some() || figures.answered < figures.asked {
        return frame.line(&[("script calls unknown: a server does not answer", Tone::Dim)]);
    }
    let Some(calls) = figures.calls else {
        return frame.line(&[("script calls of all callers: counting…", Tone::Dim)]);
    };
    let mut parts = vec![(format!("script calls of all callers: {}/s", per_second(calls)), Tone::Plain)];
    if let Some(success) = figures.success {
        parts.push((format!(", {} ok", percent(success)), if success < 0.995 { Tone::Bad } else { Tone::Plain }));
    }
    if let Some(errors) = figures.errors.filter(|errors| *errors > 0.0) {
        parts.push((format!(", {} errors/s", per_second(errors)), Tone::Bad));
        // The errors of all commands, scripts included.
        let names: Vec<&str> = figures.names.iter().take(2).map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            parts.push((format!(" ({})", names.join(", ")), Tone::Bad));
        }
    }
    let known = [("p50", figures.p50), ("p99", figures.p99), ("p99.9", figures.p99_9)];
    let known: Vec<String> = known.iter().filter_map(|(name, ms)| Some(format!("{name} {}", millis((*ms)?)))).collect();
    if known.is_empty() {
        return frame.line(&parts);
    }
    let latency = format!("{} ms since the server's start", known.join(", "));
    let line: String = parts.iter().map(|(text, _)| text.as_str()).chain([" · ", &latency]).collect();
    if frame.fits(&line) {
        parts.push((format!(" · {latency}"), Tone::Dim));
        frame.line(&parts);
    } else {
        frame.line(&parts);
        frame.line(&[(latency, Tone::Dim)]);
    }
}

/// That a server is lost, and how old everything is.
fn lost(board: &Board, title: &Title, frame: &mut Frame) {
    let seconds = |since: Instant| humantime::format_duration(Duration::from_secs(since.elapsed().as_secs()));
    let Some((error, since)) = &board.lost else {
        if let Some(since) = board.overdue(title.every) {
            let text = format!("WAITING for {}: all below is as of {}", seconds(since), board.at.to_second());
            frame.line(&[(text, Tone::Warn)]);
        }
        return;
    };
    // One that is busy or loads its data is there.
    let (word, then) = match error {
        StoreError::Server { .. } => ("NO DATA", "asking again"),
        _ => ("LOST", "connecting again"),
    };
    let lost = seconds(*since);
    let old = board.rows.iter().filter(|row| row.is_old).count();
    let which = match old == board.rows.len() {
        true => format!("all below is as of {}", board.at.to_second()),
        false => format!("{old} of {} activities are old", board.rows.len()),
    };
    frame.line(&[(format!("{word} for {lost}: {which}; {then}"), Tone::Bad)]);
    frame.line(&[(format!("     {error}"), Tone::Bad)]);
}

/// What an operator should look at, the worst first.
fn alarms(board: &Board, frame: &mut Frame) {
    let mut found: Vec<(Alarm, &WatchRow)> =
        board.rows.iter().flat_map(|row| row.alarms.iter().map(move |alarm| (*alarm, row))).collect();
    found.sort_by_key(|(alarm, _)| *alarm);
    let most = ALARMS.min(frame.room() / 4).max(1);
    let shown = if found.len() > most { most - 1 } else { found.len() };
    for (alarm, row) in &found[..shown] {
        let Some(view) = board.views.get(row.activity.name()) else { continue };
        let parts = [
            ("! ".to_owned(), alarm.tone()),
            (row.activity.name().to_owned(), Tone::Strong),
            (format!("  {}", alarm.sentence(view, &row.activity)), alarm.tone()),
        ];
        frame.line(&parts);
    }
    if found.len() > shown {
        let mut counts: Vec<String> = Vec::new();
        for same in found[shown..].chunk_by(|one, other| one.0 == other.0) {
            counts.push(format!("{} {}", same.len(), same[0].0.name()));
        }
        frame.line(&[(format!("! and {}", counts.join(", ")), Tone::Warn)]);
    }
}

/// What had no room: rows above and below, and columns.
fn footer(title: &Title, (above, below): (usize, usize), hidden: &[String], frame: &mut Frame) {
    let mut texts = Vec::new();
    for (count, place) in [(above, "above"), (below, "below")] {
        if count > 0 {
            texts.push(format!("{count} more {place}"));
        }
    }
    let keys: &[&str] = match (title.explains, texts.is_empty()) {
        (false, _) => &[],
        (true, true) => &["q quits"],
        (true, false) => &["arrows scroll · q quits", "q quits"],
    };
    if !hidden.is_empty() {
        texts.push(format!("no room for {}", hidden.join(", ")));
    }
    frame.line_with(&[(texts.join(" · "), Tone::Dim)], keys);
}

fn newest(board: &Board, most: usize, frame: &mut Frame) {
    let orders = || board.newest.iter().take(most);
    let widest =
        |text: fn(&NewestOrder) -> String| orders().map(|order| text(order).chars().count()).max().unwrap_or(0);
    let (activity, user) = (widest(|order| order.activity.to_string()), widest(|order| order.user.to_string()));
    for order in orders() {
        let what = match (order.op, order.quantity) {
            (Op::Refund, Some(units)) => format!("returned {units}"),
            (Op::Hold, Some(units)) => format!("holds {units}"),
            (Op::Confirm, Some(units)) => format!("confirmed {units}"),
            (Op::Release, Some(units)) => format!("released {units}"),
            (Op::Expire, Some(units)) => format!("let {units} expire"),
            (_, Some(units)) => format!("bought {units}"),
            (op, None) => op.name().to_owned(),
        };
        let at = order.id.at().to_second().to_string();
        frame.line(&[
            (clock(&at).to_owned(), Tone::Dim),
            (format!("  {:<activity$}", order.activity.as_str()), Tone::Strong),
            (format!("  {:<user$}", order.user.to_string()), Tone::Plain),
            (format!("  {what}"), if order.op.returns() { Tone::Warn } else { Tone::Dim }),
        ]);
    }
}

/// The time of day in a time as it is shown everywhere.
fn clock(time: &str) -> &str {
    time.get(11..19).unwrap_or(time)
}

/// A rate in three digits or so.
fn per_second(rate: f64) -> String {
    if rate == 0.0 {
        "0".to_owned()
    } else if rate.abs() < 99.95 {
        format!("{rate:.1}")
    } else if rate < 0.0 {
        format!("{rate:.0}")
    } else {
        HumanCount(rate.round() as u64).to_string()
    }
}

/// A share that never reads 100 % unless it is.
fn percent(share: f64) -> String {
    if share >= 1.0 { "100%".to_owned() } else { format!("{:.2}%", (share * 1e4).floor() / 1e2) }
}

fn millis(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

/// The part of the rows that the last frame showed.
#[derive(Debug, Default)]
pub(super) struct Scroll {
    first: usize,
    /// Rows that had room.
    page: usize,
    /// Rows that there were.
    count: usize,
}

impl Scroll {
    /// Moves, if the key does that and there is more to see; returns whether it did.
    pub(super) fn press(&mut self, key: Key) -> bool {
        let to = match key {
            Key::Up => self.first.saturating_sub(1),
            Key::Down => self.first + 1,
            Key::PageUp => self.first.saturating_sub(self.page),
            Key::PageDown => self.first + self.page,
            Key::Home => 0,
            Key::End => self.count,
            Key::Letter(_) => return false,
        };
        let to = to.min(self.last());
        std::mem::replace(&mut self.first, to) != to
    }

    /// The rows to show, with room for a page of them.
    pub(super) fn window(&mut self, count: usize, page: usize) -> Range<usize> {
        (self.count, self.page) = (count, page);
        self.first = self.first.min(self.last());
        self.first..(self.first + page).min(count)
    }

    /// The first row of the last page.
    fn last(&self) -> usize {
        self.count.saturating_sub(self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_move_as_far_as_there_are_rows() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.window(10, 4), 0..4);
        let mut after = |key| {
            let moved = scroll.press(key);
            (moved, scroll.window(10, 4))
        };
        assert_eq!(after(Key::Up), (false, 0..4));
        assert_eq!(after(Key::Down), (true, 1..5));
        assert_eq!(after(Key::PageDown), (true, 5..9));
        assert_eq!(after(Key::PageDown), (true, 6..10));
        assert_eq!(after(Key::Down), (false, 6..10));
        assert_eq!(after(Key::PageUp), (true, 2..6));
        assert_eq!(after(Key::End), (true, 6..10));
        assert_eq!(after(Key::Home), (true, 0..4));
        assert_eq!(after(Key::Letter(b'x')), (false, 0..4));
    }

    #[test]
    fn fewer_rows_or_more_room_show_the_last_page_whole() {
        let mut scroll = Scroll::default();
        scroll.window(10, 4);
        scroll.press(Key::End);
        assert_eq!(scroll.window(10, 7), 3..10);
        assert_eq!(scroll.window(5, 7), 0..5);
        assert_eq!(scroll.window(5, 0), 0..0);
        assert!(!scroll.press(Key::Home));
    }
}
