//! Where the shared keys are and how participants are recorded: the contracts of systems in production.

mod custom;

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::id::ActivityId;
pub(crate) use crate::model::layout::custom::{CustomLayout, Pattern};
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
            Self::Custom(custom) => custom.stock().as_str(),
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
            Self::Custom(custom) => custom.kind(),
        }
    }

    /// The activity of which this id names a shard; the same id if it names none.
    pub fn whole(self, activity: &ActivityId) -> ActivityId {
        let parent = if self == Self::Cluster { activity.parent() } else { None };
        parent.map_or_else(|| activity.clone(), |(parent, _)| parent)
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
    Custom(custom::Written),
}

impl Serialize for Layout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Custom(custom) => custom.written().serialize(serializer),
            named => serializer.serialize_str(named.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Layout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match LayoutForm::deserialize(deserializer)? {
            LayoutForm::Named(name) => Self::named(&name)
                .ok_or_else(|| D::Error::unknown_variant(&name, &["seckill", "sku", "coupon", "product", "cluster"])),
            LayoutForm::Custom(written) => written.layout().map(Self::Custom).map_err(D::Error::custom),
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
        assert_eq!((custom.index(), custom.participants()), ("named:<id>:left:activities", None));
        let users = CustomLayout::new(Kind::Set, "s:<id>".parse().unwrap(), Some("p:<id>".parse().unwrap())).unwrap();
        assert_eq!(users.participants().map(Pattern::as_str), Some("p:<id>"));
    }

    #[test]
    fn an_id_whose_keys_would_be_of_another_activity_is_refused() {
        let layout = counter("checked:<id>");
        let refused = layout.check_id(&"1:meta".parse().unwrap()).unwrap_err();
        assert!(refused.contains("its key `checked:1:meta` would be one of another activity"), "{refused}");
        assert_eq!(layout.check_id(&"1".parse().unwrap()), Ok(()));
        assert_eq!(Layout::Sku.check_id(&"1:meta".parse().unwrap()), Ok(()));
    }

    #[test]
    fn sets_record_a_user_once_and_a_counter_nobody() {
        let facts = Kind::ALL.iter().map(|kind| (kind.has_users(), kind.records_once()));
        assert!(facts.eq([(true, false), (true, true), (true, true), (false, false)]));
    }
}
