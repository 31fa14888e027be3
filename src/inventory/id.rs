//! Names of activities, users and requests. They are bytes, never numbers: `7`, `07` and `+7` are three users.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// What is wrong with a text that should be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}", shown(text))]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

/// The offending text, short enough for one line and safe for a terminal.
fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let short: String = text.chars().take(MOST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\""))
}

/// Defines one kind of id: a text with a rule, read by `parse`, shown as it was written.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $expected:expr, $fits:expr) => {
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
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if Self::fits(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.to_owned(), expected: Self::EXPECTED })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }
    };
}

id! {
    /// Names one flash sale. Braces are refused because they would move a key to another cluster slot.
    ActivityId,
    "an activity id: 1 to 128 bytes without white space, control characters, `{` or `}`",
    |text| (1..=128).contains(&text.len())
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '{' || c == '}')
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

impl RequestId {
    /// A new id that nobody has used: a UUIDv7, so that ids sort by time.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_exactly_as_written() {
        for text in ["1001", "0123", "1e3", "no", "双11-手机", "a.b:c"] {
            assert_eq!(text.parse::<ActivityId>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn an_activity_id_has_no_space_and_no_braces() {
        for text in ["", "a b", "a\tb", "{a}", "a\u{7}", "a\u{3000}b", &"x".repeat(129)] {
            assert!(text.parse::<ActivityId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_user_id_has_no_white_space_at_its_ends() {
        assert!("Ana María".parse::<UserId>().is_ok());
        for text in ["", " 7", "7 ", "7\n", "a\u{0}b", "\u{a0}7", &"x".repeat(257)] {
            assert!(text.parse::<UserId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_request_id_is_printable_ascii() {
        assert!("order-17 retry".parse::<RequestId>().is_ok());
        for text in ["", "é", "a\tb", &"x".repeat(129)] {
            assert!(text.parse::<RequestId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_error_shows_the_text_short_and_escaped() {
        let long = "x".repeat(500);
        let message = format!("\u{1b}[31m{long}").parse::<UserId>().unwrap_err().to_string();
        assert!(message.starts_with("`\\u{1b}[31mxxx"), "{message}");
        assert!(message.len() < 250, "{message}");
    }
}
