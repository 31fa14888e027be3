//! Why an input cannot be used, in the words of who wrote it.

use std::io;
use std::io::ErrorKind::{IsADirectory, NotFound, PermissionDenied};

use crate::cli::failure::{Exit, Failure};
use crate::error::cause;

/// A file, or what else is read, that cannot be opened or read. A wrong path is a usage error; a disk that fails is not.
pub(super) fn unreadable(name: &str, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        NotFound | PermissionDenied | IsADirectory => Exit::Usage,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, format!("cannot read {}: {}", quoted_path(name), cause(error)));
    match error.kind() {
        NotFound => failure.hint("give the path of a file, or `-` for standard input"),
        _ => failure,
    }
}

/// A command that prints what is read, and failed.
pub(super) fn command_failed(kind: &str, command: &str, what: &str) -> Failure {
    Failure::failed(format!("the {kind} command `{}` {what}", command.escape_debug()))
}

pub(super) fn utf16(name: &str) -> Failure {
    Failure::usage(format!("{name}:1:1: the file is UTF-16, expected UTF-8")).hint(hint("UTF-16"))
}

/// What to do about a file in another encoding.
pub(super) fn hint(encoding: &str) -> String {
    format!("save it as UTF-8 (spreadsheets call it `CSV UTF-8`), or convert it: `iconv -f {encoding} -t UTF-8 FILE`")
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
}
