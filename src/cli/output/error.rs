//! What went wrong, said once: what failed, on what, why, and the next step.

use std::io::{self, Write};

use clap::error::ErrorKind;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::format::Format;
use crate::cli::output::sink::{in_words, stdout_failure};
use crate::cli::output::terminal::{ColorChoice, Terminal};
use crate::cli::output::text::{Tone, escape, hanging, labelled, paint};

/// Prints a failure to standard error and returns its exit code. With json, jsonl and yaml it is one JSON object.
pub fn report(failure: &Failure, format: Format, color: ColorChoice) -> Exit {
    let _ = io::stderr().write_all(text(failure, format, color).as_bytes());
    failure.exit
}

/// What is printed of a failure.
pub(super) fn text(failure: &Failure, format: Format, color: ColorChoice) -> String {
    if format.is_nested() { document(failure) } else { lines(failure, color) }
}

/// Prints what clap has to say: help and version to standard output, a usage error like every other error.
/// `correction` is a better hint than clap's.
pub fn report_usage(error: &clap::Error, correction: Option<String>, format: Format, color: ColorChoice) -> Exit {
    if !error.use_stderr() {
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => report(&stdout_failure(&error), format, color),
            _ => Exit::Done,
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !format.is_nested() {
        let _ = error.print();
        return Exit::Usage;
    }
    let mut failure = usage(&without_logins(&error.render().to_string()));
    failure.hint = correction.or(failure.hint);
    report(&failure, format, color)
}

/// clap's paragraphs as a failure: what is wrong, and as the hint its tip, or how the command is used.
fn usage(text: &str) -> Failure {
    // Each way to call a command has a line of its own.
    let text = text.replace("\n       seckill ", " | seckill ");
    let mut paragraphs = text.split("\n\n").map(one_line);
    let first = paragraphs.next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(&first).to_owned();
    let rest: Vec<String> = paragraphs.collect();
    let found = |prefix: &str| rest.iter().find_map(|paragraph| paragraph.strip_prefix(prefix));
    let hint = found("tip: ")
        .map_or_else(|| found("Usage: ").map(|usage| format!("usage: {usage}")), |tip| Some(tip.to_owned()));
    let failure = Failure::usage(message);
    hint.into_iter().fold(failure, Failure::hint)
}

/// A text whose URLs have no login: an argument in the wrong place is quoted in errors, and may be a URL.
fn without_logins(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        let end = after.find([' ', '\'', '`', '\n']).unwrap_or(after.len());
        shown += before;
        match after[..end].rfind('@') {
            Some(login) => {
                shown += "***";
                rest = &after[login..];
            }
            None => rest = after,
        }
    }
    shown + rest
}

/// A paragraph without its line breaks and indents.
fn one_line(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The failure for machines: one line of JSON.
fn document(failure: &Failure) -> String {
    let object = serde_json::to_string(failure).unwrap_or_default();
    format!("{}\n", crate::cli::output::text::escape_data(&object))
}

/// The failure for people: the changes that standard output lost, the message and the hint.
fn lines(failure: &Failure, color: ColorChoice) -> String {
    let mut text = String::new();
    let Terminal { colours_notes: coloured, notes_width: width, .. } = Terminal::new(color, false, false);
    for change in failure.changes.iter().flatten() {
        paint(&mut text, "changed:", Tone::Strong, coloured);
        text.extend([" ", &escape(&in_words(change)), "\n"]);
    }
    let parts = [("error", Tone::Bad, Some(&failure.message)), ("hint", Tone::Info, failure.hint.as_ref())];
    for (label, tone, said) in parts {
        // A message may have lines: every mistake of a fixture has its own.
        let Some((first, rest)) = said.map(|said| said.split_once('\n').unwrap_or((said, ""))) else { continue };
        text += &labelled((label, tone), first, width, coloured);
        rest.lines().for_each(|line| text.extend([&hanging(&escape(line), width), "\n"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_in_the_wrong_place_is_quoted_without_its_login() {
        let text = "unexpected argument 'redis://me:se@cret@h:1/0' found, unix:///a and rediss://:x@h";
        let shown = "unexpected argument 'redis://***@h:1/0' found, unix:///a and rediss://***@h";
        assert_eq!(without_logins(text), shown);
    }
}
