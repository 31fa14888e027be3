//! What is said beside the data: notes, hints and warnings, one line each, on standard error.

use std::io::{self, Write};

use crate::cli::output::escape::escape;
use crate::cli::output::paint::{Tone, paint};
use crate::cli::output::terminal::Terminal;

impl Terminal {
    /// Something good to know; not with `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if self.notes {
            self.say("note", Tone::Strong, text.as_ref());
        }
    }

    /// The next step; not with `--quiet`.
    pub fn hint(&self, text: impl AsRef<str>) {
        if self.notes {
            self.say("hint", Tone::Info, text.as_ref());
        }
    }

    /// Something to look after; printed even with `--quiet`.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.say("warning", Tone::Warn, text.as_ref());
    }

    /// Something for who wants to know more; only with `--verbose`.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.details {
            self.say("detail", Tone::Dim, text.as_ref());
        }
    }

    /// Lines below a warning.
    pub fn line(&self, text: &str) {
        // If even that fails, there is nothing left to print to.
        let _ = io::stderr().write_all(format!("{}\n", escape(text)).as_bytes());
    }

    /// Prints one labelled line. If even that fails, there is nothing left to print to.
    pub(crate) fn say(&self, label: &str, tone: Tone, text: &str) {
        let mut line = String::new();
        paint(&mut line, &format!("{label}:"), tone, self.colours_notes);
        line.push(' ');
        line.push_str(&escape(text));
        line.push('\n');
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
