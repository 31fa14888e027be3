//! Names of activities, users and requests. They are bytes, never numbers: `7`, `07` and `+7` are three users.

pub(crate) mod interner;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is no id, number or time as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}", shown(text))]
pub struct InvalidText {
    text: String,
    expected: &'static str,
}

impl InvalidText {
    /// What it is, and what it should be.
    pub(crate) fn new(text: impl Into<String>, expected: &'static str) -> Self {
        Self { text: text.into(), expected }
    }
}

/// The offending text, short enough for one line and safe for a terminal.
fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let short: String = text.chars().take(MOST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""))
}

/// A word of a command in a hint, as a shell takes it.
pub(crate) fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./:,+@%".contains(c);
    // zsh looks up what follows `=` at the beginning.
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with('=') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// An option of a command in a hint.
pub(crate) fn option(name: &str, value: impl fmt::Display) -> String {
    let value = value.to_string();
    format!("{name}{}{}", if value.starts_with('-') { '=' } else { ' ' }, shell_quoted(&value))
}

/// Defines one kind of id: a text with a rule, read by `parse`, shown as it was written.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $expected:expr, $fits:expr) => {
        id! { $(#[$doc])* $name, $expected, $fits, str::to_owned }
    };
    ($(#[$doc:meta])* $name:ident, $expected:expr, $fits:expr, $argument:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What a text must be, for errors.
            pub const EXPECTED: &'static str = $expected;

            /// The text, as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether a text keeps the rule.
            pub fn fits(text: &str) -> bool {
                let fits: fn(&str) -> bool = $fits;
                fits(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidText;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                if Self::fits(&text) { Ok(Self(text)) } else { Err(InvalidText::new(text, Self::EXPECTED)) }
            }
        }

        /// `{:#}` is an argument of a command, as a shell takes it.
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let argument: fn(&str) -> String = $argument;
                match formatter.alternate() {
                    true => formatter.write_str(&shell_quoted(&argument(&self.0))),
                    false => formatter.pad(&self.0),
                }
            }
        }
    };
}

id! {
    /// Names one flash sale. Braces are refused because they would move a key to another cluster slot.
    ActivityId,
    "an activity id: 1 to 128 bytes without white space, control characters, `{` or `}`",
    |text| (1..=128).contains(&text.len())
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '{' || c == '}'),
    as_pattern
}

id! {
    /// Names a buyer.
    UserId,
    "a user id: 1 to 256 bytes without control characters or white space at either end",
    |text| (1..=256).contains(&text.len()) && text.trim().len() == text.len() && !text.chars().any(char::is_control)
}

id! {
    /// Names one wish, so that sending it again changes nothing.
    RequestId,
    "a request id: 1 to 128 printable ASCII characters",
    |text| (1..=128).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Characters that mean something in a pattern.
const SPECIAL: [char; 3] = ['*', '?', '['];

/// An id as commands take it that read patterns: in brackets what is special there, and a dash that would begin an option.
fn as_pattern(id: &str) -> String {
    let is_special = |at: usize, c: char| SPECIAL.contains(&c) || at == 0 && c == '-';
    id.char_indices().map(|(at, c)| if is_special(at, c) { format!("[{c}]") } else { c.to_string() }).collect()
}

impl ActivityId {
    /// The id that a pattern is, if all that is special there is in brackets.
    pub(crate) fn of_pattern(pattern: &Self) -> Option<Self> {
        let (mut id, mut rest) = (String::new(), pattern.0.chars());
        while let Some(c) = rest.next() {
            match c {
                '[' => {
                    let inner = rest.next().filter(|inner| SPECIAL.contains(inner) || *inner == '-')?;
                    (rest.next()? == ']').then(|| id.push(inner))?;
                }
                '*' | '?' => return None,
                _ => id.push(c),
            }
        }
        Some(Self(id))
    }

    /// An id that was validated when it was read, and kept as bytes since.
    pub fn validated(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The shard of this activity with a number.
    #[must_use]
    pub fn shard(&self, number: u32) -> Self {
        Self(format!("{self}#{number}"))
    }

    /// The activity of which this is a shard, and its number; `None` if it is none.
    pub fn parent(&self) -> Option<(Self, u32)> {
        let (parent, digits) = self.is_part().then(|| self.0.rsplit_once('#')).flatten()?;
        let number = digits.parse::<u32>().ok().filter(|number| number.to_string() == digits)?;
        (!parent.is_empty()).then(|| (Self(parent.to_owned()), number))
    }

    /// The activity that a shard is of; itself, if it is none.
    #[must_use]
    pub(crate) fn whole(&self) -> Self {
        self.parent().map_or_else(|| self.clone(), |(parent, _)| parent)
    }

    /// Whether it ends in `#` and digits, as the name of a part of an activity does.
    pub fn is_part(&self) -> bool {
        let digits = self.0.rsplit_once('#').map(|(_, digits)| digits);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

impl RequestId {
    /// An id that was validated when it was read, and kept as a text since.
    pub(crate) fn validated(text: String) -> Self {
        Self(text)
    }

    /// The id that a UUID is.
    pub(crate) fn of_uuid(uuid: uuid::Uuid) -> Self {
        Self(uuid.to_string())
    }
}

/// Bytes as lower-case hexadecimal digits, two a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A user id as a server has it: bytes that another system may have written in another encoding than UTF-8. Outputs
/// show [`text`](Self::text) as `user`, null if there is none, and then [`user_hex`](Self::user_hex) beside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "String")]
pub struct StoredUser(Vec<u8>);

impl StoredUser {
    /// Whatever the bytes are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id, if it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The bytes as lower-case hexadecimal digits, two a byte.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// The field `user_hex`: only if the id is not UTF-8.
    pub fn user_hex(&self) -> Option<String> {
        if self.text().is_none() { Some(self.hex()) } else { None }
    }

    /// Reads what [`hex`](Self::hex) writes, in lower or upper case; `None` for anything else.
    pub fn of_hex(hex: &str) -> Option<Self> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? * 16 + digit(*low)?)).collect();
        bytes.filter(|_| rest.is_empty()).map(Self)
    }

    /// Whether the scripts accept it: as a [`UserId`], but in any encoding.
    pub fn fits(&self) -> bool {
        let is_control = |byte: &u8| byte.is_ascii_control();
        let ends = [self.0.first(), self.0.last()];
        (1..=256).contains(&self.0.len()) && !self.0.iter().any(is_control) && !ends.contains(&Some(&b' '))
    }
}

impl From<String> for StoredUser {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&UserId> for StoredUser {
    fn from(user: &UserId) -> Self {
        Self(user.0.clone().into_bytes())
    }
}

impl fmt::Display for StoredUser {
    /// For people: the id, or its bytes as `hex:c4e3`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => formatter.pad(text),
            None => formatter.pad(&format!("hex:{}", self.hex())),
        }
    }
}

impl Serialize for StoredUser {
    /// The field `user`: null if the id is not UTF-8.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_each_word_as_it_is() {
        assert_eq!(shell_quoted("seckill:stock:1"), "seckill:stock:1");
        assert_eq!(shell_quoted("seckill:{1}:stock"), "'seckill:{1}:stock'");
        assert_eq!(shell_quoted("it's"), "'it'\\''s'");
        assert_eq!(shell_quoted(""), "''");
        let id: ActivityId = "a$1".parse().unwrap();
        assert_eq!(format!("`{id}` {id:#}"), "`a$1` 'a$1'");
        assert_eq!(shell_quoted("=ls"), "'=ls'");
        assert_eq!([option("--id", "-x"), option("--id", "a b")], ["--id=-x", "--id 'a b'"]);
    }

    #[test]
    fn an_argument_finds_the_activity_alone_that_it_names() {
        for (id, argument) in [("v*", "'v[*]'"), ("-all", "'[-]all'"), ("a?[b]-", "'a[?][[]b]-'"), ("a]", "'a]'")] {
            let id: ActivityId = id.parse().unwrap();
            assert_eq!(format!("{id:#}"), argument);
            let pattern: ActivityId = argument.trim_matches('\'').parse().unwrap();
            assert!(glob::Pattern::new(pattern.as_str()).unwrap().matches(id.as_str()));
            assert_eq!(ActivityId::of_pattern(&pattern), Some(id));
        }
        for pattern in ["a*", "?", "[ab]", "[!*]", "a["] {
            assert_eq!(ActivityId::of_pattern(&pattern.parse().unwrap()), None);
        }
    }

    #[test]
    fn an_error_shows_at_most_sixty_characters() {
        let shown = |length: usize| " ".repeat(length).parse::<ActivityId>().unwrap_err().to_string();
        assert!(shown(60).starts_with(&format!("`{}`", " ".repeat(60))));
        assert!(shown(61).starts_with(&format!("`{}…`", " ".repeat(60))));
    }

    #[test]
    fn a_stored_user_is_bytes_and_prints_as_text_or_hex() {
        let user = StoredUser::new(&b"\xc4\xe3"[..]);
        assert_eq!(user.as_bytes(), b"\xc4\xe3");
        assert_eq!((user.text(), user.hex(), user.user_hex()), (None, "c4e3".to_owned(), Some("c4e3".to_owned())));
        assert_eq!((user.to_string(), serde_json::json!(user)), ("hex:c4e3".to_owned(), serde_json::Value::Null));
        assert_eq!(StoredUser::of_hex("C4e3"), Some(user));
        let user = StoredUser::new("\u{4f60}");
        assert_eq!((user.text(), user.user_hex()), (Some("\u{4f60}"), None));
        assert_eq!((user.to_string(), serde_json::json!(user)), ("\u{4f60}".to_owned(), serde_json::json!("\u{4f60}")));
        for hex in ["c", "c4e", "+1", "xy", " c4e3"] {
            assert_eq!(StoredUser::of_hex(hex), None, "{hex:?}");
        }
    }

    #[test]
    fn a_stored_user_that_no_script_accepts_is_unusual() {
        for user in [&b"a"[..], b"a b", b"\xc4\xe3", &[b'x'; 256]] {
            assert!(StoredUser::new(user).fits(), "{user:?}");
        }
        for user in [&b""[..], b" a", b"a ", b"a\0b", b"\ta", b"a\x7f", &[b'x'; 257]] {
            assert!(!StoredUser::new(user).fits(), "{user:?}");
        }
    }
}
