//! Warnings of which there may be one per activity: one wrong client damages hundreds of keys in the same way.

use crate::cli::output::terminal::Terminal;

/// The most warnings that are printed.
const MOST: usize = 20;

/// Prints the first warnings and counts the rest.
#[derive(Debug)]
pub struct Warnings {
    terminal: Terminal,
    count: usize,
}

impl Warnings {
    pub(crate) fn new(terminal: Terminal) -> Self {
        Self { terminal, count: 0 }
    }

    /// One warning more.
    pub fn warn(&mut self, text: impl AsRef<str>) {
        self.count += 1;
        if self.count <= MOST {
            self.terminal.warn(text);
        }
    }

    /// One note more; not with `--quiet`.
    pub fn note(&mut self, text: impl AsRef<str>) {
        self.count += 1;
        if self.count <= MOST {
            self.terminal.note(text);
        }
    }

    /// Says how many were not printed.
    pub fn end(self) {
        if self.count > MOST {
            self.terminal.warn(format!("and {} more like these", self.count - MOST));
        }
    }
}
