//! Text from elsewhere, made safe for a terminal.
//!
//! A title may hold an escape sequence that hides a row or retitles the window, or a bidi override that makes
//! `gpj.exe` of `exe.jpg`. Shown as `\u{1b}` it does nothing.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes whatever a terminal would act on, line breaks included: the result is one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Escapes like [`escape`], but keeps line breaks and tabs, which are the structure of data, and writes `\u001b`,
/// which JSON reads back as what it was.
pub fn escape_data(text: &str) -> Cow<'_, str> {
    let acts_in_data = |c: char| acts(c) && c != '\n' && c != '\t';
    if !text.chars().any(acts_in_data) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts_in_data(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Whether nothing needs escaping, without a look at every character: nearly all ids are ASCII.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || !text.chars().any(acts)
}

/// Whether a terminal does something at this character other than show it: C0, DEL, C1, line and paragraph
/// separators, and everything that turns the direction of writing.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_not_copied() {
        for text in ["", "1001", "Double-11 phone", "双11 手机 📱", "👩‍👩‍👧", "é"] {
            assert!(matches!(escape(text), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(escape_data(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn what_a_terminal_acts_on_is_shown_instead() {
        assert_eq!(escape("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(escape("a\nb\tc\rd"), "a\\nb\\tc\\rd");
        assert_eq!(escape("\u{7f}\u{9b}1m"), "\\u{7f}\\u{9b}1m");
        assert_eq!(escape("exe.\u{202e}gpj\u{2069}"), "exe.\\u{202e}gpj\\u{2069}");
    }

    #[test]
    fn data_keeps_its_structure_and_json_its_meaning() {
        let json = serde_json::to_string(&["\u{1b}", "\u{9b}\u{202e}"]).unwrap();
        let safe = escape_data(&json);
        assert_eq!(safe, r#"["\u001b","\u009b\u202e"]"#);
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), ["\u{1b}", "\u{9b}\u{202e}"]);
        assert_eq!(escape_data("a\tb\r\n"), "a\tb\\u000d\n");
    }
}
