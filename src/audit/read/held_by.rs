//! Who holds what, as replies say it: users and units, kept as they came and read when they are looked at.

use redis::Value;

use crate::audit::evidence::mismatch::Holding;
use crate::model::number::whole;

/// Who holds what, in the form in which it came.
pub(crate) enum HeldBy {
    /// Users and units in turn, joined by zero bytes.
    Joined(Vec<u8>),
    /// Users and units in turn; or units alone, of users that were asked for.
    List(Vec<Value>),
    /// As the scan itself gave them.
    Scanned(ScannedPage),
}

/// A page as the scan itself gave it.
pub(crate) struct ScannedPage {
    pub(crate) texts: Vec<u8>,
    /// Where each text ends.
    pub(crate) ends: Vec<usize>,
    /// Whether units follow each user; else each holds one.
    pub(crate) has_units: bool,
}

impl ScannedPage {
    /// Users and what each holds.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], Holding)> {
        let text = |at: usize| &self.texts[if at == 0 { 0 } else { self.ends[at - 1] }..self.ends[at]];
        let width = if self.has_units { 2 } else { 1 };
        (0..self.ends.len() / width).map(move |index| {
            (text(index * width), if width == 2 { holding(text(index * 2 + 1)) } else { Holding::Units(1) })
        })
    }
}

impl HeldBy {
    /// Users and what each holds.
    pub(crate) fn pairs(&self) -> Box<dyn Iterator<Item = (&[u8], Holding)> + '_> {
        match self {
            Self::Joined(bytes) => {
                let mut parts = bytes.split(|byte| *byte == 0);
                Box::new(std::iter::from_fn(move || Some((parts.next()?, holding(parts.next()?)))))
            }
            Self::List(values) => Box::new(values.chunks(2).filter_map(|pair| match pair {
                [Value::BulkString(user), Value::BulkString(units)] => Some((&user[..], holding(units))),
                _ => None,
            })),
            Self::Scanned(page) => Box::new(page.pairs()),
        }
    }

    /// The units of users that were asked for.
    pub(crate) fn units(&self) -> &[Value] {
        match self {
            Self::Joined(_) | Self::Scanned(_) => &[],
            Self::List(values) => values,
        }
    }

    /// Takes a joined reply apart; `None` if a user has a zero byte.
    pub(crate) fn joined(mut bytes: Vec<u8>) -> Option<Self> {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let count: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        bytes.drain(..=space);
        if count == 0 {
            return Some(Self::List(Vec::new()));
        }
        let parts = bytes.iter().filter(|byte| **byte == 0).count() + 1;
        (parts == count).then_some(Self::Joined(bytes))
    }
}

/// What a record holds: `?` is a member of a set without units.
pub(crate) fn holding(bytes: &[u8]) -> Holding {
    const SHOWN: usize = 64;
    match std::str::from_utf8(bytes).ok().and_then(whole) {
        Some(units) => Holding::Units(units),
        None if bytes == b"?" => Holding::Unknown,
        None => Holding::Invalid(String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned()),
    }
}
