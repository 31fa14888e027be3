//! What a plan says of a field that an activity may be without.

use std::fmt;
use std::str::FromStr;

/// What becomes of a limit, or of one end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldChange<T> {
    /// The plan says nothing: an update keeps the value, and a new activity has none.
    #[default]
    Keep,
    /// The activity has no value afterwards.
    Clear,
    /// The activity has this value afterwards.
    Set(T),
}

impl<T> FieldChange<T> {
    /// The value that it sets.
    pub fn value(self) -> Option<T> {
        self.over(None)
    }

    /// The value afterwards, of the one that an update keeps.
    pub fn over(self, kept: Option<T>) -> Option<T> {
        match self {
            Self::Keep => kept,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    /// The same change of another type.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> FieldChange<U> {
        match self {
            Self::Keep => FieldChange::Keep,
            Self::Clear => FieldChange::Clear,
            Self::Set(value) => FieldChange::Set(convert(value)),
        }
    }

    /// Whether the plan says anything.
    pub fn is_given(&self) -> bool {
        !matches!(self, Self::Keep)
    }
}

/// A value that is absent keeps what there is.
impl<T> From<Option<T>> for FieldChange<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Keep, Self::Set)
    }
}

/// What options and cells say: `none`, or a value.
impl<T: FromStr<Err: fmt::Display>> FromStr for FieldChange<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Clear),
            _ => text.parse().map(Self::Set).map_err(|why| format!("{why}, or none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::number::Limit;

    #[test]
    fn a_word_clears_a_number_sets_and_nothing_keeps() {
        let read = |text: &str| text.parse::<FieldChange<Limit>>();
        assert_eq!(read("none"), Ok(FieldChange::Clear));
        assert_eq!(read("2").map(FieldChange::value), Ok(Limit::new(2)));
        for text in ["", "None", "null", "0", "nothing"] {
            let why = read(text).unwrap_err();
            assert!(why.ends_with(", or none") && why.starts_with(&format!("`{text}` is not")), "{why}");
        }
    }

    #[test]
    fn only_what_is_not_given_keeps_what_there_is() {
        let after = |change: FieldChange<u64>| (change.is_given(), change.over(Some(1)), change.over(None));
        assert_eq!(after(None.into()), (false, Some(1), None));
        assert_eq!(after(FieldChange::Clear), (true, None, None));
        assert_eq!(after(Some(2).into()), (true, Some(2), Some(2)));
        assert_eq!(FieldChange::Clear.map(|number: u64| number + 1), FieldChange::Clear);
        assert_eq!(FieldChange::Set(1).map(|number: u64| number + 1), FieldChange::Set(2));
    }
}
