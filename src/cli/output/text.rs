//! Text for people: safe for a terminal, in colour, as wide as there is room.
//!
//! A title may hold an escape sequence that hides a row or retitles the window, or a bidi override that makes
//! `gpj.exe` of `exe.jpg`. Shown as `\u{1b}` it does nothing.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use tabled::grid::util::string::get_string_width;
use uuid::Uuid;

/// Escapes whatever a terminal would act on, line breaks included: the result is one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    // Most of what is shown.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Cow::Borrowed(text);
    }
    replaced(text, acts, |safe, c| safe.extend(c.escape_default()))
}

/// The text, with each character that acts put into it in another way.
pub(crate) fn replaced(text: &str, acts: impl Fn(char) -> bool, put: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(&acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { put(&mut safe, c) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Escapes like [`escape`], but keeps line breaks and tabs, which are the structure of data, and writes `\u001b`,
/// which JSON reads back as what it was.
pub fn escape_data(text: &str) -> Cow<'_, str> {
    let acts_in_data = |c: char| acts(c) && c != '\n' && c != '\t';
    replaced(text, acts_in_data, |safe, c| _ = write!(safe, "\\u{:04x}", u32::from(c)))
}

/// Whether a terminal does something at this character other than show it: C0, DEL, C1, line and paragraph
/// separators, and everything that turns the direction of writing.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a text means, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
    Warn,
    Info,
    Dim,
    Strong,
}

/// Appends a text in the colour of its tone. The sixteen colours of the terminal's own theme stay readable on
/// both light and dark backgrounds.
pub(crate) fn paint(line: &mut String, text: &str, tone: Tone, coloured: bool) {
    let code = match tone {
        Tone::Plain => "",
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Warn => "33",
        Tone::Info => "36",
        Tone::Dim => "2",
        Tone::Strong => "1",
    };
    if !coloured || code.is_empty() || text.is_empty() {
        line.push_str(text);
        return;
    }
    for part in ["\u{1b}[", code, "m", text, "\u{1b}[0m"] {
        line.push_str(part);
    }
}

/// Columns that a text takes on a terminal: two for 中 and most emoji.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { get_string_width(text) }
}

/// A text in at most that many columns, with `…` at the cut, never in the middle of an emoji.
pub(crate) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let (mut end, mut used) = (0, 0);
    for (start, c) in text.char_indices() {
        let before = used;
        used = width(&text[..start + c.len_utf8()]);
        // A character that adds no width belongs to the one before it.
        if used > before {
            end = start;
        }
        if used >= columns {
            break;
        }
    }
    if columns == 0 { Cow::Borrowed("") } else { Cow::Owned(format!("{}…", &text[..end])) }
}

/// The same, but of a UUIDv7 the end is kept: it begins with the time, and so do all others of that second.
pub(crate) fn cut_id(text: &str, columns: usize) -> Cow<'_, str> {
    let is_shorter = (1..text.len()).contains(&columns);
    let is_by_time = || text.len() == UUID && Uuid::try_parse(text).is_ok_and(|id| id.get_version_num() == 7);
    match is_shorter && is_by_time() {
        true => Cow::Owned(format!("…{}", &text[text.len() - (columns - 1)..])),
        false => cut(text, columns),
    }
}

/// Characters of a UUID with hyphens.
const UUID: usize = 36;

/// Wraps a text at a width in columns. What is in backticks is one word: a command that is broken could not be copied.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut is_quoted = false;
    let words = text.split(|c| {
        is_quoted ^= c == '`';
        c == ' ' && !is_quoted
    });
    filled(words, columns)
}

/// Lines of words, of that many columns; a word that is longer gets a line of its own.
pub(crate) fn filled<W: AsRef<str>>(words: impl IntoIterator<Item = W>, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A message behind its label, in lines of that many columns if something bounds them.
pub(crate) fn labelled(label: (&str, Tone), text: &str, columns: Option<usize>, coloured: bool) -> String {
    let (name, tone) = label;
    let joined = hanging(&format!("{name}: {}", escape(text)), columns);
    let mut message = String::new();
    paint(&mut message, &format!("{name}:"), tone, coloured);
    message.push_str(joined.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).unwrap_or(&joined));
    message.push('\n');
    message
}

/// A line, wrapped at a width in columns if something bounds it; continued lines are indented further.
pub fn hanging(line: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return line.to_owned() };
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let further = format!("\n{:1$}", "", indent + INDENT);
    format!("{:indent$}{}", "", wrapped(text, columns.saturating_sub(indent + INDENT)).join(&further))
}

/// How much further in.
const INDENT: usize = 2;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lines of a bar chart, from the top: a bar a column, as high as its value is of `full`. What is not zero
/// is seen.
pub fn bars(values: &[f64], full: f64, height: usize) -> Vec<String> {
    let eighths = |value: f64| {
        let share = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
        let drawn = (share * (height * 8) as f64).floor() as usize;
        if value > 0.0 { drawn.max(1) } else { 0 }
    };
    let heights: Vec<usize> = values.iter().map(|value| eighths(*value)).collect();
    let line = |above: usize| heights.iter().map(|height| EIGHTHS[height.saturating_sub(above * 8).min(8)]).collect();
    (0..height).rev().map(line).collect()
}

/// The first of some names in backticks, and how many more there are.
pub fn named<T: std::fmt::Display>(names: &[T], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `1 call`, `2 calls`, `2 entries`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", plural(count, noun))
}

/// A noun after a number.
pub fn plural(count: u64, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) if !noun.ends_with("ey") => format!("{stem}ies"),
        _ => format!("{noun}s"),
    }
}

/// Bytes in the largest unit that leaves a digit before the point.
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| count >= *size) else { return format!("{count} B") };
    let tenths = count.saturating_mul(10) / size;
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if tenth == 0 || whole >= 100 => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// A duration in its largest two units, such as `2d 3h`; below a second in ms.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 {
        let micros = duration.as_micros();
        return if micros >= 10_000 {
            format!("{} ms", micros / 1000)
        } else {
            format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
        };
    }
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let mut rest = seconds;
    let mut words = Vec::new();
    for (unit, size) in units {
        if rest >= size {
            words.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    words.truncate(2);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown: Vec<String> = [0, 1023, 1024, 1_300_000, 268_435_456, 64 << 30].into_iter().map(bytes).collect();
        assert_eq!(shown, ["0 B", "1023 B", "1 KB", "1.2 MB", "256 MB", "64 GB"]);
        let of = |millis| duration(Duration::from_millis(millis));
        assert_eq!(
            [of(0), of(7), of(12), of(1000), of(61_000), of(93_784_000)],
            ["0.0 ms", "7.0 ms", "12 ms", "1s", "1m 1s", "1d 2h"]
        );
    }

    #[test]
    fn a_noun_after_a_number_is_plural_but_after_one() {
        assert_eq!([counted(1, "entry"), counted(2, "entry"), counted(0, "key")], ["1 entry", "2 entries", "0 keys"]);
    }

    #[test]
    fn a_cut_text_fits_and_says_that_it_was_cut() {
        assert_eq!(cut("Double-11 phone", 15), "Double-11 phone");
        assert_eq!(cut("Double-11 phone", 9), "Double-1…");
        assert_eq!(cut("双十一手机", 10), "双十一手机");
        assert_eq!(cut("双十一手机", 9), "双十一手…");
        assert_eq!(cut("双十一手机", 8), "双十一…");
        assert_eq!(cut("双十一", 1), "…");
        assert_eq!(cut("abc", 0), "");
        for columns in 0..12 {
            assert!(width(&cut("a双é👩‍👩‍👧b📱c", columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn of_a_uuid_that_begins_with_the_time_the_end_is_kept() {
        let v7 = "01a20a42-11e2-7015-a099-6892085230bd";
        assert_eq!([36, 10, 2, 1].map(|columns| cut_id(v7, columns)), [v7, "…2085230bd", "…d", "…"]);
        assert_eq!(cut_id(v7, 0), "");
        let v4 = v7.replace("-7015", "-4015");
        for text in [&v4, "01a20a42-11e2-7015-a099-6892085230bd:17", "order-778-of-the-night"] {
            assert_eq!(cut_id(text, 10), cut(text, 10));
        }
    }

    #[test]
    fn an_emoji_is_cut_whole() {
        assert_eq!(cut("👩‍👩‍👧family", 4), "👩‍👩‍👧f…");
        assert_eq!(cut("a👩‍👩‍👧family", 3), "a…");
        assert_eq!(cut("👍🏽👍🏽👍🏽", 5), "👍🏽👍🏽…");
        assert_eq!(cut("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}…");
    }

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

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("abcdef gh", 4), ["abcdef", "gh"]);
        assert_eq!(wrapped("双十一 手机", 6), ["双十一", "手机"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("a `b c` d", 5), ["a", "`b c`", "d"]);
        assert_eq!(wrapped("a `b c d e` f", 5), ["a", "`b c d e`", "f"]);
    }

    #[test]
    fn a_message_is_wrapped_behind_its_label() {
        let said = |columns| labelled(("hint", Tone::Info), "give `--to DIR` to archive it", columns, false);
        assert_eq!(said(None), "hint: give `--to DIR` to archive it\n");
        assert_eq!(said(Some(24)), "hint: give `--to DIR`\n  to archive it\n");
        let coloured = labelled(("error", Tone::Bad), "no\u{1b} server", Some(10), true);
        assert_eq!(coloured, "\u{1b}[31merror:\u{1b}[0m\n  no\\u{1b}\n  server\n");
    }

    #[test]
    fn what_continues_a_line_is_indented_further() {
        assert_eq!(hanging("  a.csv:2:6: no `user id`", Some(16)), "  a.csv:2:6:\n    no `user id`");
        assert_eq!(hanging("  a b", Some(20)), "  a b");
        assert_eq!(hanging("- a b", None), "- a b");
    }

    #[test]
    fn bars_are_as_high_as_their_share_and_never_vanish() {
        let values = [0.0, 0.001, 0.5, 1.0, 2.0, 3.0, 4.0, 9.0];
        assert_eq!(bars(&values, 4.0, 2), ["     ▄██", " ▁▂▄████"]);
        assert_eq!(bars(&[3.0, 0.0], 0.0, 1), ["▁ "]);
        assert!(bars(&[], 1.0, 2).iter().all(String::is_empty));
    }
}
