//! Why an input cannot be used, in the words of who wrote it: what is wrong, and where, collected, so that one run reports every mistake.

use std::io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied};
use std::{fmt, io};

use crate::cli::failure::{Exit, Failure, Result};
use crate::error::cause;

/// Standard input, where a file is named.
pub const STDIN: &str = "<stdin>";

/// A file, or what else is read, that cannot be opened or read. A wrong path is a usage error; a disk that fails is not.
pub(super) fn unreadable(name: &str, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidFilename => Exit::Usage,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, format!("cannot read {}: {}", quoted_path(name), cause(error)));
    match error.kind() {
        NotFound | IsADirectory | NotADirectory | InvalidFilename => {
            failure.hint("give the path of a file, or `-` for standard input")
        }
        _ => failure,
    }
}

/// A command that prints what is read, and failed.
pub(super) fn command_failed(kind: &str, command: &str, what: &str) -> Failure {
    Failure::failed(format!("the {kind} command {} {what}", quoted_path(command)))
}

pub(super) fn utf16(name: &str) -> Failure {
    Failure::usage(format!("{name}:1:1: the file is UTF-16, expected UTF-8")).hint(hint("UTF-16"))
}

/// What to do about a file in another encoding.
fn hint(encoding: &str) -> String {
    format!("save it as UTF-8 (spreadsheets call it `CSV UTF-8`), or convert it: `iconv -f {encoding} -t UTF-8 FILE`")
}

/// What is said of a byte that is not UTF-8, and the next step.
pub(super) fn not_utf8(byte: u8, is_gbk: bool) -> (String, Option<String>) {
    let guess = if is_gbk { ": the file seems to be GBK" } else { "" };
    (format!("byte `0x{byte:02x}` is not UTF-8{guess}"), is_gbk.then(|| hint("GBK")))
}

/// Whether an input begins as UTF-16 does: with its byte order mark, or with every other byte 0.
pub(super) fn is_utf16(head: &[u8]) -> bool {
    let is_zero = |at: usize| head.get(at) == Some(&0);
    let alternates = |first: usize| is_zero(first) && is_zero(first + 2) && !is_zero(1 - first) && !is_zero(3 - first);
    head.starts_with(b"\xff\xfe")
        || head.starts_with(b"\xfe\xff")
        || (head.len() >= 4 && (alternates(0) || alternates(1)))
}

/// Whether bytes that are not UTF-8 are probably GBK: all of them pairs that it has, and one of them a common character.
pub(super) fn is_gbk(bytes: &[u8]) -> bool {
    let (mut at, mut is_common) = (0, false);
    while let Some(lead) = bytes.get(at) {
        if lead.is_ascii() {
            at += 1;
            continue;
        }
        match (lead, bytes.get(at + 1)) {
            (0x81..=0xfe, Some(trail @ (0x40..=0x7e | 0x80..=0xfe))) => {
                is_common |= (0xa1..=0xf7).contains(lead) && *trail >= 0xa1;
            }
            _ => return false,
        }
        at += 2;
    }
    is_common
}

/// A user's text in backticks, short enough for one line and safe for a terminal.
pub(super) fn quoted(text: &str) -> String {
    quoted_up_to(60, text)
}

/// The same for the name of a file, whose end says the most. A system opens none that is longer.
pub(super) fn quoted_path(name: &str) -> String {
    quoted_up_to(4096, name)
}

fn quoted_up_to(max: usize, text: &str) -> String {
    let mut shown = String::from("`");
    for character in text.chars().take(max) {
        match character {
            '\'' | '"' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown.push_str(if text.chars().nth(max).is_some() { "…`" } else { "`" });
    shown
}

/// The known name that a mistaken one was probably meant to be, as a hint.
pub(super) fn did_you_mean(given: &str, known: &[&str]) -> Option<String> {
    // `perUserLimit`, `per-user-limit` and `limit` are all meant to be `per_user_limit`.
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let given = plain(given);
    let likeness = |name: &&&str| {
        let name = plain(name);
        let part = given.len() > 2 && (name.contains(&given) || given.contains(&name));
        if part { 1.0 } else { strsim::jaro_winkler(&given, &name) }
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.8).then(|| format!("did you mean `{best}`?"))
}

/// Names in backticks, with commas.
pub(super) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// What serde_json says, without its own count of lines.
pub(super) fn json_message(error: &serde_json::Error) -> String {
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// How many problems of one file are shown; of the others only the number.
const MAX_SHOWN: usize = 10;

/// A place in a file, as editors count it: from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub line: usize,
    pub column: usize,
}

impl Location {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

#[derive(Debug)]
pub struct Problem {
    at: Location,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Problem {
    /// What is wrong there: the offending text, and what was expected.
    pub fn new(at: Location, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    /// The same, but of its whole line.
    pub(super) fn of_line(mut self) -> Self {
        self.at.column = 1;
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// A problem was reported, and the caller has nothing to add.
#[derive(Debug, Clone, Copy)]
pub struct Reported;

#[derive(Debug)]
pub struct Problems {
    file: String,
    shown: Vec<Problem>,
    hidden: usize,
}

impl Problems {
    /// None yet, of a file that messages call by this name.
    pub fn of(file: impl Into<String>) -> Self {
        Self { file: file.into(), shown: Vec::new(), hidden: 0 }
    }

    /// The error of a file that has one problem.
    pub fn only(file: &str, problem: Problem) -> Failure {
        Failure { hint: problem.hint, ..Failure::usage(format!("{file}:{}: {}", problem.at, problem.message)) }
    }

    /// Whether only the number of further problems matters.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= MAX_SHOWN
    }

    pub fn any(&self) -> bool {
        !self.shown.is_empty()
    }

    pub fn report(&mut self, problem: Problem) -> Reported {
        if self.is_full() {
            self.hidden += 1;
        } else {
            self.shown.push(problem);
        }
        Reported
    }

    /// One error for all of them, in the order of the file.
    ///
    /// # Errors
    /// There is at least one problem.
    pub fn end(mut self) -> Result<()> {
        self.shown.sort_by_key(|problem| (problem.at.line, problem.at.column));
        let shown = |problem: &Problem| format!("{}:{}: {}", self.file, problem.at, problem.message);
        match self.shown.as_slice() {
            [] => Ok(()),
            [only] => Err(Failure { hint: only.hint.clone(), ..Failure::usage(shown(only)) }),
            several => {
                let mut message = format!("{} problems in `{}`", several.len() + self.hidden, self.file);
                // One hint for all of them is said once.
                let common =
                    several[0].hint.clone().filter(|hint| several.iter().all(|it| it.hint.as_ref() == Some(hint)));
                for problem in several {
                    let own = problem.hint.as_ref().filter(|_| common.is_none());
                    let hint = own.map(|hint| format!(" ({hint})")).unwrap_or_default();
                    message.push_str(&format!("\n  {}{hint}", shown(problem)));
                }
                if self.hidden > 0 {
                    message.push_str(&format!("\n  … and {} more", self.hidden));
                }
                Err(Failure { hint: common, ..Failure::usage(message) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_recognised() {
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0,\0", b"\0a\0,"] {
            assert!(is_utf16(utf16), "{utf16:?}");
        }
        assert!(![&b""[..], b"a", b"activity", b"a\0b,", b"\xef\xbb\xbfa"].into_iter().any(is_utf16));
        // `王小明,1`, and in Latin-1 `Ana María,1` and `José,1`.
        assert!(is_gbk(b"\xcd\xf5\xd0\xa1\xc3\xf7,1"));
        assert!(!is_gbk(b"Ana Mar\xeda,1") && !is_gbk(b"Jos\xe9,1") && !is_gbk(b"\xff7") && !is_gbk(b"a"));
    }

    #[test]
    fn a_mistaken_name_is_recognised() {
        let known = ["id", "title", "stock", "per_user_limit", "starts_at"];
        for (given, meant) in [
            ("perUserLimit", "per_user_limit"),
            ("limit", "per_user_limit"),
            ("stok", "stock"),
            ("start_at", "starts_at"),
        ] {
            assert_eq!(did_you_mean(given, &known), Some(format!("did you mean `{meant}`?")));
        }
        assert_eq!(did_you_mean("colour", &known), None);
    }

    #[test]
    fn a_quoted_text_is_short_and_safe() {
        assert_eq!(quoted("a\u{1b}[31m\"b\""), "`a\\u{1b}[31m\"b\"`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
        assert_eq!(quoted_path(&"x".repeat(100)).chars().count(), 102);
    }

    fn at(line: usize) -> Location {
        Location { line, column: 3 }
    }

    #[test]
    fn many_problems_are_shown_in_order_and_those_past_ten_are_counted() {
        let mut problems = Problems::of("sale.yaml");
        for line in (1..=12).rev() {
            problems.report(Problem::new(at(line), "no"));
        }
        let message = problems.end().unwrap_err().to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "12 problems in `sale.yaml`");
        assert_eq!(lines[1], "  sale.yaml:3:3: no");
        assert_eq!(lines[11], "  … and 2 more");
    }
}
