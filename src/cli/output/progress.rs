//! How far long work has come: a bar on standard error, if it is a terminal.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

use crate::cli::output::terminal::Terminal;

/// A bar that any thread may move. It is gone when the last clone is, or at [`finish`](Self::finish).
#[derive(Debug, Clone)]
pub struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(terminal: &Terminal, label: &str, total: u64) -> Self {
        if !terminal.progress {
            return Self(ProgressBar::hidden());
        }
        let template = match (terminal.colours_notes, total) {
            (_, 0) => "{msg} {human_pos}  {rate}/s",
            (true, _) => "{msg} {bar:24.green/dim} {human_pos}/{human_len}  {rate}/s  {eta} left",
            (false, _) => "{msg} {bar:24} {human_pos}/{human_len}  {rate}/s  {eta} left",
        };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
                // A bar that cannot be drawn is no reason to stop.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let _ = write!(text, "{}", HumanCount(state.per_sec() as u64));
            })
            .progress_chars("██░");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10))
            .with_style(style)
            .with_message(label.to_owned())
            .with_finish(ProgressFinish::AndClear);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub fn inc(&self, done: u64) {
        self.0.inc(done);
    }

    /// Prints something while the bar is out of the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
