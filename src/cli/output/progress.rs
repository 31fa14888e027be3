//! The bar of a long run: how far it is, how fast, how long it takes.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{
    HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle, TermLike,
};

use crate::cli::output::terminal::{Terminal, measured};

/// A bar that any thread may move. It is gone when the last clone is, or at [`finish`](Self::finish).
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    label: String,
    total: u64,
}

impl Progress {
    pub(crate) fn new(terminal: &Terminal, label: &str, total: u64) -> Self {
        // Of one step a bar can only say that it is not done yet.
        let bar = if terminal.progress && total != 1 { drawn(terminal, label, total) } else { ProgressBar::hidden() };
        Self { bar, label: label.to_owned(), total }
    }

    pub fn inc(&self, done: u64) {
        self.bar.inc(done);
    }

    /// Leaves out the steps that were done before the run began: bar, rate and time left are of the others.
    pub fn set_done_before(&self, steps: u64) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(self.total.saturating_sub(steps));
        self.bar.set_message(format!("{}, {} done before", self.label, HumanCount(steps)));
        if self.bar.position() == 0 {
            self.bar.reset_eta();
        }
    }

    /// Prints something while the bar is out of the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn drawn(terminal: &Terminal, label: &str, total: u64) -> ProgressBar {
    let template = match (terminal.colours_notes, total) {
        (_, 0) => "{msg} {human_pos}  {rate}/s",
        (true, _) => "{msg} {wide_bar:.green/dim} {human_pos}/{human_len}  {rate}/s{left}",
        (false, _) => "{msg} {wide_bar} {human_pos}/{human_len}  {rate}/s{left}",
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
        })
        .with_key("left", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // Before anything is done nobody knows.
            if state.per_sec() > 0.0 {
                let _ = write!(text, "  {:#} left", HumanDuration(state.eta()));
            }
        })
        .progress_chars("██░");
    let line = Box::new(StatusLine::default());
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::term_like_with_hz(line, 10))
        .with_style(style)
        .with_message(label.to_owned())
        .with_finish(ProgressFinish::AndClear);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The last line of a terminal that may be resized at any time.
///
/// A terminal that becomes narrower wraps the lines that it shows, and nobody knows whether it did. So the cursor waits at
/// the begin of the line: whatever it was wrapped to is below, and erased before the next line is drawn.
#[derive(Debug, Default)]
struct StatusLine {
    unwritten: Mutex<String>,
}

/// A longer bar says no more.
const MAX_WIDTH: u16 = 80;
/// Erases from the begin of the line to the end of the screen.
const ERASE: &str = "\r\u{1b}[J";
/// What is written in between is cut at the edge.
const NO_WRAP: &str = "\u{1b}[?7l";
const WRAP: &str = "\u{1b}[?7h";

impl StatusLine {
    fn add(&self, parts: &[&str]) -> io::Result<()> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).extend(parts.iter().copied());
        Ok(())
    }
}

impl TermLike for StatusLine {
    fn width(&self) -> u16 {
        let columns = measured(&io::stderr()).and_then(|columns| u16::try_from(columns).ok());
        columns.unwrap_or(MAX_WIDTH).min(MAX_WIDTH)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        // The cursor is there already, and what is behind the text was erased.
        if text == "\r" || text.bytes().all(|byte| byte == b' ') {
            return Ok(());
        }
        self.add(&[NO_WRAP, text, WRAP, "\r"])
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(&[text, "\n"])
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add(&[ERASE])
    }

    fn flush(&self) -> io::Result<()> {
        let text = std::mem::take(&mut *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner));
        io::stderr().write_all(text.as_bytes())
    }

    // There is one line, and it is drawn from its begin.

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
}
