//! Whole numbers as they are written: `0` or `[1-9][0-9]*`, and nothing else.
//!
//! `1e3`, `0x10`, `+5`, ` 5 ` and `007` are refused everywhere (command line, YAML, files), because
//! what one program reads as 1000 another reads as 1.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::model::id::InvalidText;

/// The largest count that Lua holds exactly: 2^53 - 1.
pub(crate) const MAX_UNITS: u64 = 9_007_199_254_740_991;

/// The largest quantity of one order.
pub(crate) const MAX_QUANTITY: u64 = 1_000_000_000;

/// Reads `0` or `[1-9][0-9]*`; `None` for anything else, and for what is past 64 bits.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let plain = text == "0"
        || (text.as_bytes().first().is_some_and(|first| (b'1'..=b'9').contains(first))
            && text.bytes().all(|byte| byte.is_ascii_digit()));
    if plain { text.parse().ok() } else { None }
}

/// The same for a text that may be in any encoding.
pub(crate) fn whole_bytes(text: &[u8]) -> Option<u64> {
    whole(std::str::from_utf8(text).ok()?)
}

/// Units as a number that may be compared with one below zero.
pub(crate) fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// Reads plain digits within bounds, for options whose number is no count of units.
pub(crate) fn between<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = whole(text).filter(|number| (least..=most).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("expected a whole number from {least} to {most}, without sign or leading zero"))
    }
}

/// Defines one kind of count: a number within bounds that is read from plain digits only.
macro_rules! count {
    ($(#[$doc:meta])* $name:ident($number:ty), $least:expr, $most:expr, $expected:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name($number);

        impl $name {
            /// What a text must be, for errors.
            pub const EXPECTED: &'static str = $expected;

            /// `None` outside the bounds.
            pub fn new(number: $number) -> Option<Self> {
                ($least..=$most).contains(&number).then_some(Self(number))
            }

            /// The number.
            pub fn get(self) -> $number {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                whole(text)
                    .and_then(|number| number.try_into().ok())
                    .and_then(Self::new)
                    .ok_or_else(|| InvalidText::new(text, Self::EXPECTED))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

count! {
    /// A count of units: a stock or a total; 0 to 2^53 - 1.
    Units(u64), 0, MAX_UNITS, "a whole number from 0 to 9007199254740991, without sign or leading zero"
}

count! {
    /// The units of one order: 1 to 1,000,000,000.
    Quantity(u64), 1, MAX_QUANTITY, "a whole number from 1 to 1000000000, without sign or leading zero"
}

count! {
    /// The most units that a user may hold: 1 to 2^53 - 1.
    Limit(u64), 1, MAX_UNITS, "a whole number from 1 to 9007199254740991, without sign or leading zero"
}

count! {
    /// How many shards an activity may have.
    ShardCount(usize), 2, 256, "a number of shards from 2 to 256"
}

impl Units {
    /// None.
    pub const ZERO: Self = Self(0);
}

impl Quantity {
    /// One unit.
    pub const ONE: Self = Self(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_has_2_to_256_shards() {
        for (text, count) in [("2", Some(2)), ("256", Some(256)), ("1", None), ("257", None), ("02", None), ("", None)]
        {
            assert_eq!(text.parse::<ShardCount>().ok().map(ShardCount::get), count, "{text:?}");
        }
    }

    #[test]
    fn only_plain_digits_are_numbers() {
        for text in ["0", "1", "10", "9007199254740991"] {
            assert_eq!(whole(text).map(|number| number.to_string()).as_deref(), Some(text));
        }
        for text in
            ["", "-5", "+5", "007", "00", "1e3", "0x10", " 5", "5 ", "1.5", "nan", "inf", "٣", "99999999999999999999"]
        {
            assert_eq!(whole(text), None, "{text:?}");
        }
    }

    #[test]
    fn bounds_are_those_of_the_interface() {
        assert!("0".parse::<Units>().is_ok());
        assert!("9007199254740991".parse::<Units>().is_ok());
        assert!("9007199254740992".parse::<Units>().is_err());
        assert!("0".parse::<Quantity>().is_err());
        assert!("1000000000".parse::<Quantity>().is_ok());
        assert!("1000000001".parse::<Quantity>().is_err());
        assert!("0".parse::<Limit>().is_err());
    }
}
