//! Layouts of shops that name their keys themselves: by patterns, with `<id>` in the place of the activity's id.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::model::id::ActivityId;
use crate::model::layout::Kind;

/// The parts of an activity that only we have: their keys are named from the stock key.
const OWN: [&str; 5] = ["meta", "requests", "ledger", "units", "deadlines"];

/// The keys of a shop: where it keeps units and buyers, and how it records these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CustomLayout {
    kind: Kind,
    stock: Pattern,
    participants: Option<Pattern>,
    index: String,
}

/// As it is written in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    kind: Kind,
    keys: WrittenKeys,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenKeys {
    stock: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    participants: Option<String>,
}

impl CustomLayout {
    /// The layout, of which there is one however often it is named.
    ///
    /// # Errors
    /// What is wrong with it: users are recorded and nothing says where, or the other way round, or both keys are one.
    pub fn new(kind: Kind, stock: Pattern, participants: Option<Pattern>) -> Result<&'static Self, String> {
        match &participants {
            None if kind.has_users() => {
                return Err(format!(
                    "`participants` is missing, the key that has the users: kind `{kind}` records them"
                ));
            }
            Some(_) if !kind.has_users() => {
                return Err(format!("`participants` is given, but kind `{kind}` records no users: leave it out"));
            }
            Some(participants)
                if OWN.iter().map(|part| stock.with(part)).chain([stock.clone()]).any(|own| own == *participants) =>
            {
                return Err(format!(
                    "`participants` is `{participants}`, which is the name of another key: `stock`, or one of ours"
                ));
            }
            _ => {}
        }
        let index = format!("{stock}:activities");
        Ok(once(Self { kind, stock, participants, index }))
    }

    /// How it records participants.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The key of the units left.
    pub fn stock(&self) -> &Pattern {
        &self.stock
    }

    /// The key of who bought, if anybody is recorded.
    pub fn participants(&self) -> Option<&Pattern> {
        self.participants.as_ref()
    }

    /// The set of all activities that were preheated.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The key of this activity that would also be one of another activity, or the index. Of two activities that cannot both
    /// be there, that with the shorter id can.
    pub fn taken(&self, activity: &ActivityId) -> Option<String> {
        let patterns: Vec<Pattern> = OWN
            .iter()
            .map(|part| self.stock.with(part))
            .chain([self.stock.clone()])
            .chain(self.participants.clone())
            .collect();
        patterns.iter().find_map(|pattern| {
            let key = pattern.key(activity);
            let of_shorter = |other: &Pattern| {
                let id = other.id_in(&key);
                id.is_some_and(|id| (id.len(), id) < (activity.as_str().len(), activity.as_str()))
            };
            (key == self.index || patterns.iter().any(of_shorter)).then_some(key)
        })
    }

    pub(crate) fn written(&self) -> Written {
        let participants = self.participants.as_ref().map(ToString::to_string);
        Written { kind: self.kind, keys: WrittenKeys { stock: self.stock.to_string(), participants } }
    }
}

impl Written {
    pub(crate) fn layout(self) -> Result<&'static CustomLayout, String> {
        let Self { kind, keys } = self;
        let participants = keys.participants.map(|text| text.parse()).transpose()?;
        CustomLayout::new(kind, keys.stock.parse()?, participants)
    }
}

/// Keeps a layout for as long as the process lives, so that a layout is a value that is copied; equal ones once.
fn once(layout: CustomLayout) -> &'static CustomLayout {
    static ALL: Mutex<Vec<&'static CustomLayout>> = Mutex::new(Vec::new());
    let mut all = ALL.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = all.iter().find(|known| ***known == layout) {
        return known;
    }
    let kept: &'static CustomLayout = Box::leak(Box::new(layout));
    all.push(kept);
    kept
}

const ID: &str = "<id>";
/// The longest pattern, in bytes: far below what a server takes, and short enough for a message.
const LONGEST: usize = 256;

/// The name of a key, with `<id>` in the place of the activity's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    /// Where `<id>` begins.
    id: usize,
}

impl Pattern {
    /// What a pattern must be, for errors.
    pub const EXPECTED: &'static str = "the name of a key of 5 to 256 printable characters without spaces, with `<id>` once, such as \"shop:{<id>}:left\"";

    /// The key of an activity.
    pub fn key(&self, activity: &ActivityId) -> String {
        let (before, after) = self.parts();
        format!("{before}{activity}{after}")
    }

    /// The text before the id and the text after it.
    pub fn parts(&self) -> (&str, &str) {
        (&self.text[..self.id], &self.text[self.id + ID.len()..])
    }

    /// The id in a key of this pattern.
    pub fn id_in<'k>(&self, key: &'k str) -> Option<&'k str> {
        let (before, after) = self.parts();
        key.strip_prefix(before)?.strip_suffix(after).filter(|id| !id.is_empty())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern of keys that are named from the keys of this one.
    pub fn with(&self, part: &str) -> Self {
        Self { text: format!("{}:{part}", self.text), id: self.id }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_bad = |c: char| c.is_whitespace() || c.is_control();
        let mut at = text.match_indices(ID).map(|(at, _)| at);
        match (at.next(), at.next()) {
            (Some(id), None) if text.len() > ID.len() && text.len() <= LONGEST && !text.contains(is_bad) => {
                Ok(Self { text: text.to_owned(), id })
            }
            _ => Err(format!("expected {}", Self::EXPECTED)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(kind: Kind, stock: &str, participants: Option<&str>) -> Result<&'static CustomLayout, String> {
        CustomLayout::new(kind, stock.parse()?, participants.map(str::parse).transpose()?)
    }

    #[test]
    fn users_need_a_key_of_their_own_and_a_counter_has_none() {
        assert!(layout(Kind::Hash, "s:<id>", Some("p:<id>")).is_ok());
        assert!(layout(Kind::Counter, "s:<id>", None).is_ok());
        for (kind, participants, why) in [
            (Kind::Set, None, "`participants` is missing"),
            (Kind::Counter, Some("p:<id>"), "leave it out"),
            (Kind::Hash, Some("s:<id>"), "the name of another key"),
            (Kind::Hash, Some("s:<id>:meta"), "the name of another key"),
        ] {
            let error = layout(kind, "s:<id>", participants).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_pattern_has_the_id_once_and_no_space() {
        for bad in ["", "<id>", "stock", "<id>:<id>", "a <id>", "a\t<id>", &format!("{}<id>", "x".repeat(253))] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
        let pattern: Pattern = "shop:{<id>}:left".parse().unwrap();
        assert_eq!(pattern.key(&"7".parse().unwrap()), "shop:{7}:left");
        assert_eq!(
            (pattern.id_in("shop:{7}:left"), pattern.id_in("shop:{7}:lef"), pattern.id_in("shop:{}:left")),
            (Some("7"), None, None)
        );
    }

    #[test]
    fn of_two_activities_that_share_a_key_the_shorter_id_is_the_good_one() {
        let counter = layout(Kind::Counter, "stock:<id>", None).unwrap();
        let taken = |id: &str| counter.taken(&id.parse().unwrap());
        assert_eq!(taken("1:meta").as_deref(), Some("stock:1:meta"));
        assert_eq!((taken("1"), taken("1:left"), taken("meta")), (None, None, None));
        let hash = layout(Kind::Hash, "s:<id>", Some("s:<id>:who")).unwrap();
        assert!(hash.taken(&"1:who".parse().unwrap()).is_some());
        let equal = layout(Kind::Hash, "s:<id>", Some("<id>:p")).unwrap();
        assert_eq!(["s:1", "1:p"].map(|id| equal.taken(&id.parse().unwrap()).is_some()), [true, false]);
        assert!(counter.taken(&"<id>:activities".parse().unwrap()).is_some());
        let tagged = layout(Kind::Hash, "s:{<id>}", Some("p:{<id>}")).unwrap();
        assert_eq!(tagged.taken(&"1:meta".parse().unwrap()), None);
    }

    #[test]
    fn equal_layouts_are_one() {
        let again = || layout(Kind::Counter, "once:<id>", None).unwrap();
        assert!(std::ptr::eq(again(), again()));
    }
}
