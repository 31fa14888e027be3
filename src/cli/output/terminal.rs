//! What this process may show, decided once: colour, width, notes, progress, questions.

use std::io::{BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::{env, io};

use crate::cli::failure::{Failure, Result};
use crate::cli::output::text::{Tone, escape, hanging, labelled};
use crate::error::cause;
use crate::model::option;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set; everywhere if CLICOLOR_FORCE is
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What may be shown, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminal {
    /// Data is seen by a person: control characters in it are escaped, and rows appear at once.
    pub shows_data: bool,
    /// Data may be drawn in place of data that was drawn before.
    pub redraws: bool,
    /// Columns a table may take; `None` if nothing bounds it.
    pub width: Option<usize>,
    /// Columns a message may take; `None` if nobody reads it on a terminal.
    pub notes_width: Option<usize>,
    /// Tables are coloured.
    pub colours_data: bool,
    /// Notes, hints and errors are coloured.
    pub colours_notes: bool,
    /// Notes are printed.
    pub notes: bool,
    /// Details are printed.
    pub details: bool,
    /// Progress is drawn.
    pub progress: bool,
    /// A person reads notes and errors.
    pub is_read: bool,
    /// A question would be seen, and could be answered.
    pub asks: bool,
    /// The options of commands that messages name.
    pub options: &'static str,
}

impl Terminal {
    /// What the flags, the environment and the three streams say.
    pub fn new(color: ColorChoice, quiet: bool, verbose: bool) -> Self {
        let shows_data = io::stdout().is_terminal();
        let shows_notes = io::stderr().is_terminal();
        Self {
            shows_data,
            redraws: shows_data && !is_dumb(),
            width: width().or_else(|| measured(&io::stdout())),
            notes_width: if shows_notes { width().or_else(|| measured(&io::stderr())) } else { None },
            colours_data: coloured(color, shows_data),
            colours_notes: coloured(color, shows_notes),
            notes: !quiet,
            details: verbose && !quiet,
            progress: shows_notes && !quiet && !is_dumb(),
            is_read: shows_notes,
            asks: shows_notes && io::stdin().is_terminal(),
            options: "",
        }
    }
}

/// Whether a stream is coloured.
pub(crate) fn coloured(choice: ColorChoice, is_terminal: bool) -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    decide(
        choice,
        is_terminal && !is_dumb(),
        env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        set("CLICOLOR_FORCE"),
    )
}

/// The flag beats the environment; there, NO_COLOR beats CLICOLOR_FORCE, which beats what the stream is.
fn decide(choice: ColorChoice, is_terminal: bool, no_color: bool, force: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => !no_color && (force || is_terminal),
    }
}

/// Whether the terminal says that it can do nothing but print.
fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// The columns that a text asks for; nothing for 0 and for what is no number.
fn columns(text: Option<&str>) -> Option<usize> {
    text?.parse().ok().filter(|columns| *columns > 0)
}

/// The width that the environment asks for.
fn width() -> Option<usize> {
    columns(env::var("COLUMNS").ok().as_deref())
}

/// The width of the terminal that a stream is.
pub(super) fn measured(stream: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(size.ws_col.into()).filter(|columns| *columns > 0)
}

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

    /// A message whose commands of this tool can be typed as they are.
    pub(super) fn with_options(&self, text: &str) -> String {
        text.replace("`seckill ", &format!("`seckill{} ", self.options))
    }

    /// Prints a labelled message. If even that fails, there is nothing left to print to.
    pub(crate) fn say(&self, label: &str, tone: Tone, text: &str) {
        let message = labelled((label, tone), &self.with_options(text), self.notes_width, self.colours_notes);
        let _ = io::stderr().write_all(message.as_bytes());
    }
}

/// The most warnings that are printed.
const MAX_WARNINGS: usize = 20;

/// Columns for an answer such as `yes`, and the space before it.
const ANSWER_WIDTH: usize = 4;

/// Prints the first warnings, each once, and counts the rest.
#[derive(Debug)]
pub struct Warnings {
    terminal: Terminal,
    count: usize,
    printed: Vec<String>,
}

impl Warnings {
    pub(crate) fn new(terminal: Terminal) -> Self {
        Self { terminal, count: 0, printed: Vec::new() }
    }

    /// One warning more.
    pub fn warn(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if self.printed.iter().any(|printed| printed == text) {
            return;
        }
        self.count += 1;
        if self.count <= MAX_WARNINGS {
            self.terminal.warn(text);
            self.printed.push(text.to_owned());
        }
    }

    /// Of a service: another round, with as many warnings as the one before, but for those that are printed.
    pub fn next_round(&mut self) {
        self.count = 0;
    }

    /// Says how many were not printed so far.
    pub fn end(&self) {
        if self.count > MAX_WARNINGS {
            self.terminal.warn(format!("and {} more like these", self.count - MAX_WARNINGS));
        }
    }

    /// One note more; not with `--quiet`.
    pub fn note(&mut self, text: impl AsRef<str>) {
        self.count += 1;
        if self.count <= MAX_WARNINGS {
            self.terminal.note(text);
        }
    }
}

impl Terminal {
    /// Asks before something is lost; `yes` has answered already. Without a terminal it refuses instead of waiting
    /// for an answer that cannot come.
    pub fn confirm(&self, question: &str, yes: bool) -> Result<()> {
        if yes {
            return Ok(());
        }
        if !self.asks {
            return Err(Failure::usage(format!("needs confirmation, but stdin is no terminal: {question}"))
                .hint("`--yes` answers for scripts; `--dry-run` shows what would happen"));
        }
        let question = format!("{question} [y/N]");
        let answer = self.ask(&question)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::failed("not confirmed, so nothing was changed")),
        }
    }

    /// Asks for the name of a protected context. A yes that was given beforehand is for other questions.
    pub fn confirm_name(&self, name: &str, shown: &str) -> Result<()> {
        if !self.asks {
            return Err(Failure::usage(format!(
                "`{name}` is protected: its change needs confirmation, but stdin is no terminal"
            ))
            .hint(format!("`{}` answers for scripts; `--yes` alone does not", option("--confirm", name))));
        }
        let question = format!("{shown} is protected. Type `{name}` to change it:");
        let answer = self.ask(&question)?;
        match answer.trim() == name {
            true => Ok(()),
            false => Err(Failure::failed("that is not its name, so nothing was changed")),
        }
    }

    fn ask(&self, question: &str) -> Result<String> {
        // The last line leaves room for the answer.
        let width = self.notes_width.map(|width| width.saturating_sub(ANSWER_WIDTH));
        let ask = || {
            let mut stderr = io::stderr().lock();
            write!(stderr, "{} ", hanging(&escape(question), width))?;
            stderr.flush()?;
            let mut answer = String::new();
            io::stdin().lock().read_line(&mut answer)?;
            if !answer.ends_with('\n') {
                writeln!(stderr)?;
            }
            Ok(answer)
        };
        ask().map_err(|error: io::Error| Failure::failed(format!("cannot ask: {}", cause(&error))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_beats_the_environment_and_no_color_beats_force() {
        assert!(decide(ColorChoice::Always, false, true, false));
        assert!(!decide(ColorChoice::Never, true, false, true));
        assert!(decide(ColorChoice::Auto, true, false, false));
        assert!(!decide(ColorChoice::Auto, false, false, false));
        assert!(decide(ColorChoice::Auto, false, false, true));
        assert!(!decide(ColorChoice::Auto, true, true, true));
    }

    #[test]
    fn columns_that_say_nothing_are_as_if_not_set() {
        assert_eq!(columns(Some("40")), Some(40));
        for text in [None, Some(""), Some("0"), Some("wide"), Some("-1")] {
            assert_eq!(columns(text), None);
        }
    }
}
