//! What this process may show, decided once: colour, width, notes, progress, questions.

use std::env;
use std::io::{self, IsTerminal};

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
}

impl Terminal {
    /// What the flags, the environment and the three streams say.
    pub fn new(color: ColorChoice, quiet: bool, verbose: bool) -> Self {
        let shows_data = io::stdout().is_terminal();
        let shows_notes = io::stderr().is_terminal();
        Self {
            shows_data,
            redraws: shows_data && !is_dumb(),
            width: columns(env::var("COLUMNS").ok().as_deref()).or_else(measured),
            colours_data: coloured(color, shows_data),
            colours_notes: coloured(color, shows_notes),
            notes: !quiet,
            details: verbose && !quiet,
            progress: shows_notes && !quiet && !is_dumb(),
            is_read: shows_notes,
            asks: shows_notes && io::stdin().is_terminal(),
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

/// The width of the terminal that standard output is.
fn measured() -> Option<usize> {
    size().map(|(columns, _)| columns).filter(|columns| *columns > 0)
}

/// Columns and rows of the terminal that standard output is; 0 if it does not say.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
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
