//! Where the shared keys are and how participants are recorded: the contracts of systems in production. Shops that name
//! their keys themselves do so by patterns, with `<id>` in the place of the activity's id.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::id::ActivityId;
use crate::model::names::names;

/// One contract of keys. The four first are in wide use; `cluster` keeps an activity in one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// A hash of user to units, with a limit per user.
    #[default]
    Seckill,
    /// A set of buyers per SKU: one order each, of any quantity.
    Sku,
    /// A set of coupon holders: one coupon each.
    Coupon,
    /// A bare counter: no users, no limit.
    Product,
    /// As seckill, with all keys of an activity in one cluster slot.
    Cluster,
    /// Keys that a shop names itself.
    Custom(&'static CustomLayout),
}

impl Layout {
    /// The layouts that have a name.
    pub const NAMED: [Self; 5] = [Self::Seckill, Self::Sku, Self::Coupon, Self::Product, Self::Cluster];

    /// Its name; of a custom layout, the pattern of its stock key.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seckill => "seckill",
            Self::Sku => "sku",
            Self::Coupon => "coupon",
            Self::Product => "product",
            Self::Cluster => "cluster",
            Self::Custom(custom) => custom.stock.as_str(),
        }
    }

    /// What a layout with a name is for, in a line.
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Seckill => "A hash of user to units, with a limit per user",
            Self::Sku => "A set of buyers per SKU: one order each, of any quantity",
            Self::Coupon => "A set of coupon holders: one coupon each",
            Self::Product => "A bare counter: no users, no limit",
            Self::Cluster => "As seckill, with all keys of an activity in one cluster slot",
            Self::Custom(_) => "Keys that a file names",
        }
    }

    /// The layout of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|layout| layout.name() == name)
    }

    /// How it records participants.
    pub fn kind(self) -> Kind {
        match self {
            Self::Seckill | Self::Cluster => Kind::Hash,
            Self::Sku => Kind::Set,
            Self::Coupon => Kind::Coupon,
            Self::Product => Kind::Counter,
            Self::Custom(custom) => custom.kind,
        }
    }

    /// The activity of which this id names a shard; the same id if it names none.
    pub fn whole(self, activity: &ActivityId) -> ActivityId {
        if self == Self::Cluster { activity.whole() } else { activity.clone() }
    }

    /// Checks that it can keep an activity of this id. A shard's own name is for reading alone: what is sold there would be sold past
    /// the activity.
    ///
    /// # Errors
    /// Why not.
    pub fn check_id(self, activity: &ActivityId) -> Result<(), String> {
        match self {
            Self::Cluster if activity.is_part() => Err(match activity.parent() {
                Some((parent, _)) => format!("`{activity}` is a shard of `{parent}`: name the activity"),
                None => {
                    format!("activity `{activity}`: in the layout `cluster` no id ends in `#` and digits: shards do")
                }
            }),
            Self::Custom(custom) => match custom.taken(activity) {
                Some(key) => Err(format!(
                    "activity `{activity}`: in the layout `{}` its key `{key}` would be one of another activity",
                    self.name()
                )),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A layout by its name, or with all its keys, so that a reader needs no file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LayoutForm {
    Named(String),
    Custom(Written),
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Custom(custom) => {
                let participants = custom.participants.as_ref().map(ToString::to_string);
                let keys = WrittenKeys { stock: custom.stock.to_string(), participants };
                Written { kind: custom.kind, keys }.serialize(serializer)
            }
            named => serializer.serialize_str(named.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match LayoutForm::deserialize(deserializer)? {
            LayoutForm::Named(name) => Self::named(&name)
                .ok_or_else(|| D::Error::unknown_variant(&name, &["seckill", "sku", "coupon", "product", "cluster"])),
            LayoutForm::Custom(Written { kind, keys }) => {
                let layout = || {
                    let participants = keys.participants.as_deref().map(str::parse).transpose()?;
                    CustomLayout::new(kind, keys.stock.parse()?, participants)
                };
                layout().map(Self::Custom).map_err(D::Error::custom)
            }
        }
    }
}

names! {
    /// How a layout records who bought, by the names that the scripts know.
    #[derive(Default, Hash)]
    pub enum Kind {
        /// A hash: user to units.
        #[default]
        Hash = "hash",
        /// A set of users; units that are not 1 are stored beside it.
        Set = "set",
        /// A set of users, one unit each.
        Coupon = "coupon",
        /// Nobody is recorded.
        Counter = "counter",
    }
}

impl Kind {
    /// What a kind must be, for errors.
    pub const EXPECTED: &'static str = "one of `hash`, `set`, `coupon`, `counter`";

    /// Whether users are recorded at all.
    pub fn has_users(self) -> bool {
        self != Self::Counter
    }

    /// Whether a user is recorded once, so that the limit counts orders and is always 1.
    pub fn records_once(self) -> bool {
        matches!(self, Self::Set | Self::Coupon)
    }
}

/// The parts of an activity that only we have: their keys are named from the stock key.
const OWN: [&str; 5] = ["meta", "requests", "ledger", "units", "deadlines"];

/// The keys of a shop: where it keeps units and buyers, and how it records these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CustomLayout {
    /// How it records participants.
    pub(crate) kind: Kind,
    /// The key of the units left.
    pub(crate) stock: Pattern,
    /// The key of who bought, if anybody is recorded.
    pub(crate) participants: Option<Pattern>,
    /// The set of all activities that were preheated.
    pub(crate) index: String,
}

/// As it is written in files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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

    fn counter(stock: &str) -> Layout {
        Layout::Custom(CustomLayout::new(Kind::Counter, stock.parse().unwrap(), None).unwrap())
    }

    #[test]
    fn a_layout_is_found_by_its_name_and_says_what_it_is_for() {
        for layout in Layout::NAMED {
            assert_eq!(Layout::named(layout.name()), Some(layout));
            assert_eq!(format!("{layout:>9}|"), format!("{:>9}|", layout.name()));
            assert!(Layout::NAMED.iter().all(|other| (other.purpose() == layout.purpose()) == (*other == layout)));
        }
        assert_eq!(Layout::Coupon.purpose(), "A set of coupon holders: one coupon each");
        assert_eq!(Layout::named("Seckill"), None);
    }

    #[test]
    fn a_custom_layout_is_named_by_its_stock_key() {
        let layout = counter("named:<id>:left");
        assert_eq!((layout.name(), &*layout.to_string()), ("named:<id>:left", "named:<id>:left"));
        assert_eq!((layout.kind(), Layout::named(layout.name())), (Kind::Counter, None));
        let Layout::Custom(custom) = layout else { unreachable!() };
        assert_eq!((&*custom.index, &custom.participants), ("named:<id>:left:activities", &None));
        let users = CustomLayout::new(Kind::Set, "s:<id>".parse().unwrap(), Some("p:<id>".parse().unwrap())).unwrap();
        assert_eq!(users.participants.as_ref().map(Pattern::as_str), Some("p:<id>"));
    }

    #[test]
    fn sets_record_a_user_once_and_a_counter_nobody() {
        let facts = Kind::ALL.iter().map(|kind| (kind.has_users(), kind.records_once()));
        assert!(facts.eq([(true, false), (true, true), (true, true), (false, false)]));
    }

    fn layout(kind: Kind, stock: &str, participants: Option<&str>) -> Result<&'static CustomLayout, String> {
        CustomLayout::new(kind, stock.parse()?, participants.map(str::parse).transpose()?)
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
