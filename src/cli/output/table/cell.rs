//! One cell of a table for people.

use std::borrow::Cow;
use std::fmt::Display;

use crate::cli::input::window;
use crate::cli::output::text::{cut, cut_id, escape, width, wrapped};
use crate::model::{Millis, Status};

pub use crate::cli::output::text::Tone;

#[derive(Debug, Clone)]
pub struct Cell {
    pub(crate) content: Content,
    pub(crate) tone: Tone,
    pub(crate) flexible: bool,
    pub(crate) minor: bool,
    pub(crate) wraps: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// From left to right.
    Text(String),
    /// Aligned at its last digit.
    Number(String),
    /// A share from 0 to 1, drawn.
    Bar(f64),
    /// A time, as it is written if there is room. Without, it is relative to now if it has an instant (`in 16 h`), else the time
    /// of day (`20:00:00`).
    Time(String, Option<Millis>),
}

/// Shown if nothing is known.
const UNKNOWN: &str = "-";

/// Columns up to which an id is never cut: it is what people type.
const WHOLE_ID: usize = 24;

impl Cell {
    /// A text, from wherever: control characters in it are escaped.
    pub fn text(text: impl Into<String>) -> Self {
        let text: String = text.into();
        let text = match escape(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(safe) => safe,
        };
        Self::of(Content::Text(text))
    }

    /// The id of the activity that a row is about. A long one may be cut, or it would leave no room for the rest.
    pub fn id(id: &str) -> Self {
        let cell = Self::text(id).tone(Tone::Strong);
        if cell.width() > WHOLE_ID { cell.flexible() } else { cell }
    }

    pub fn number(number: impl Display) -> Self {
        Self::of(Content::Number(number.to_string()))
    }

    /// A number, or a dash if it is not known.
    pub fn known(number: Option<impl Display>) -> Self {
        number.map_or_else(|| Self::number(UNKNOWN).tone(Tone::Dim), Self::number)
    }

    /// A share from 0 to 1 as a bar and a percentage; it is smaller if the terminal is narrow.
    pub fn bar(share: f64) -> Self {
        Self::of(Content::Bar(share.clamp(0.0, 1.0)))
    }

    /// A time to the second: the id beside it has the milliseconds. Where that has no room, `in 16 h` or `3 min ago`.
    pub fn time(at: Millis) -> Self {
        let at = at.to_second();
        Self::of(Content::Time(at.to_string(), Some(at)))
    }

    /// The time of a row that is printed then, below earlier ones. Where it has no room, the time of day: `now` would soon be
    /// wrong.
    pub fn printed_at(at: Millis) -> Self {
        Self::of(Content::Time(at.to_second().to_string(), None))
    }

    pub fn unknown() -> Self {
        Self::text(UNKNOWN).tone(Tone::Dim)
    }

    pub fn status(status: Status) -> Self {
        let tone = match status {
            Status::Ok => Tone::Good,
            Status::Replayed => Tone::Info,
            Status::NotStarted | Status::Ended | Status::Paused | Status::PausedHereOnly => Tone::Warn,
            _ => Tone::Bad,
        };
        Self::text(status.name()).tone(tone)
    }

    /// A user, by bytes if they are no text.
    pub fn user(text: Option<&str>, hex: Option<&String>) -> Self {
        hex.map_or_else(|| Self::text(text.unwrap_or_default()), |hex| Self::text(format!("hex:{hex}")))
    }

    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Its column is the first to go if the terminal is narrow.
    #[must_use]
    pub fn minor(mut self) -> Self {
        self.minor = true;
        self
    }

    /// May be cut if the terminal is narrow.
    #[must_use]
    pub fn flexible(mut self) -> Self {
        self.flexible = true;
        self
    }

    /// Takes more lines if the terminal is narrow. In the rows of a stream it is cut.
    #[must_use]
    pub fn wraps(mut self) -> Self {
        self.wraps = true;
        self.flexible()
    }

    fn of(content: Content) -> Self {
        Self { content, tone: Tone::Plain, flexible: false, minor: false, wraps: false }
    }

    /// Columns that it takes if there is room.
    pub(crate) fn width(&self) -> usize {
        match &self.content {
            Content::Text(text) | Content::Number(text) | Content::Time(text, _) => width(text),
            Content::Bar(_) => BAR_WIDTH,
        }
    }

    /// Whether nothing of it is lost in that many columns: a short bar says what a long one does.
    pub(crate) fn is_complete(&self, columns: usize) -> bool {
        self.wraps || matches!(self.content, Content::Bar(_)) || self.width() <= columns
    }

    /// Its text in lines of at most that many columns: one, unless it wraps.
    pub(crate) fn lines(&self, columns: usize) -> Vec<Cow<'_, str>> {
        match &self.content {
            Content::Text(text) if self.wraps && self.width() > columns => {
                let lines = wrapped(text, columns).into_iter();
                lines.map(|line| Cow::Owned(cut(&line, columns).into_owned())).collect()
            }
            _ => vec![self.shown(columns)],
        }
    }

    /// Its text in at most that many columns.
    pub(crate) fn shown(&self, columns: usize) -> Cow<'_, str> {
        match &self.content {
            Content::Text(text) => cut_id(text, columns),
            Content::Number(text) => cut(text, columns),
            Content::Time(text, _) if width(text) <= columns => Cow::Borrowed(text),
            Content::Time(_, Some(at)) => Cow::Owned(cut(&at.relative_to(window::now()), columns).into_owned()),
            Content::Time(text, None) => {
                // `2026-11-21T20:00:00+08:00`
                let day_begins = text.find('T').map_or(0, |at| at + 1);
                cut(text.get(day_begins..day_begins + 8).unwrap_or(text), columns)
            }
            Content::Bar(share) => Cow::Owned(cut(&bar(*share, columns), columns).into_owned()),
        }
    }
}

/// Columns of a bar if there is room: ten blocks, a space, `100%`.
pub(crate) const BAR_WIDTH: usize = 10 + 1 + PERCENT_WIDTH;

pub(crate) const PERCENT_WIDTH: usize = 4;

/// A share as blocks and a percentage, in that many columns. Only what is whole reads 100%, and only nothing 0%.
fn bar(share: f64, columns: usize) -> String {
    let percent =
        if share > 0.0 && share < 0.01 { "<1%".to_owned() } else { format!("{:.0}%", (share * 100.0).floor()) };
    let blocks = columns.saturating_sub(PERCENT_WIDTH + 1).min(BAR_WIDTH);
    if blocks == 0 {
        return format!("{percent:>PERCENT_WIDTH$}");
    }
    let full = (share * blocks as f64).floor() as usize;
    format!("{}{} {percent:>PERCENT_WIDTH$}", "█".repeat(full), "░".repeat(blocks - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_never_says_more_than_was_sold() {
        assert_eq!(bar(0.0, 15), "░░░░░░░░░░   0%");
        assert_eq!(bar(0.001, 15), "░░░░░░░░░░  <1%");
        assert_eq!(bar(0.5, 15), "█████░░░░░  50%");
        assert_eq!(bar(0.999, 15), "█████████░  99%");
        assert_eq!(bar(1.0, 15), "██████████ 100%");
        assert_eq!(bar(0.5, 10), "██░░░  50%");
        assert_eq!(bar(0.5, 5), " 50%");
    }

    #[test]
    fn a_time_without_room_is_relative_to_now() {
        let cell = Cell::time(Millis::new(window::now().get() + 16 * 3_600_000));
        assert_eq!(cell.shown(25).len(), 25);
        assert_eq!(
            (cell.shown(24), cell.shown(11), cell.shown(4)),
            ("in 16 h".into(), "in 16 h".into(), "in …".into())
        );
    }

    #[test]
    fn a_row_that_is_printed_now_has_the_time_of_day() {
        let cell = Cell::printed_at(Millis::new(1_000));
        let (whole, short) = (cell.shown(25), cell.shown(11));
        assert_eq!((whole.len(), short.len()), (25, 8));
        assert!(whole.contains(&*short) && short.ends_with(":01"), "{whole}: {short}");
    }

    #[test]
    fn a_cell_of_text_is_one_safe_line() {
        assert_eq!(Cell::text("a\u{1b}[2J\nb").shown(80), "a\\u{1b}[2J\\nb");
    }
}
