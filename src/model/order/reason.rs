//! Why somebody changes something, for the ledger.

use std::str::FromStr;

/// The longest reason, in bytes: each order of a file may have its own.
pub(crate) const MAX_REASON: usize = 1024;

/// Why somebody changes something: free text of at most [`MAX_REASON`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason(String);

impl Reason {
    /// What a text must be, for errors.
    pub(crate) const EXPECTED: &'static str = "a reason of 1 to 1,024 bytes";

    /// The text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl FromStr for Reason {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.len() {
            0 => Err(format!("it is empty, expected {}", Self::EXPECTED)),
            1..=MAX_REASON => Ok(Self(text.to_owned())),
            length => Err(format!("it has {length} bytes, expected {}", Self::EXPECTED)),
        }
    }
}

/// A reason of the command line.
///
/// # Errors
/// It is empty or too long.
pub(crate) fn given(text: &str) -> Result<String, String> {
    text.parse().map(Reason::into_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_1_to_1024_bytes() {
        for text in ["a".to_owned(), "价".repeat(341), "b".repeat(MAX_REASON)] {
            assert_eq!(given(&text).as_ref(), Ok(&text));
        }
        assert_eq!(given(""), Err("it is empty, expected a reason of 1 to 1,024 bytes".to_owned()));
        assert!(given(&"价".repeat(342)).unwrap_err().starts_with("it has 1026 bytes"));
    }
}
