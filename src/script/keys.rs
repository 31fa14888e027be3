//! Where everything about an activity is kept: the one place that builds keys.

use crate::model::archive::Part;
use crate::model::slot::{common_slot, slot};
use crate::model::{ActivityId, Kind, Layout};

/// All keys of one activity.
///
/// | | `seckill` | `sku` | `coupon` | `product` | `cluster` |
/// | --- | --- | --- | --- | --- | --- |
/// | stock | `seckill:stock:<id>` | `stock:<id>` | `coupon:stock:<id>` | `product_stock_<id>` | `seckill:{<id>}:stock` |
/// | participants | `seckill:participants:<id>` | `bought:<id>` | `coupon:user:<id>` | | `seckill:{<id>}:participants` |
/// | ours | `seckill:meta:<id>` | `sku:meta:<id>` | `coupon:meta:<id>` | `product_meta_<id>` | `seckill:{<id>}:meta` |
///
/// A custom layout names the two first; ours are `<stock>:meta` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Whose keys they are.
    pub activity: ActivityId,
    /// The activity that they are of as a shard; the same, if it is none.
    pub whole: ActivityId,
    /// `KEYS[1]`: units left, a string.
    pub stock: String,
    /// `KEYS[2]`: what preheat wrote, a hash.
    pub meta: String,
    /// `KEYS[3]`: request ids, jobs, and the pages of a checkpoint, a hash.
    pub requests: String,
    /// `KEYS[4]`: everything that changed the activity, a stream.
    pub ledger: String,
    /// `KEYS[5]`: who bought, a hash or a set.
    pub participants: Option<String>,
    /// `KEYS[6]`: units of the members of a set, a hash.
    pub units: Option<String>,
    /// The last of the `KEYS` of scripts that know holds: request ids by deadline, a sorted set.
    pub deadlines: Option<String>,
}

impl Keys {
    /// The keys of an activity in a layout.
    pub fn of(layout: Layout, activity: &ActivityId) -> Self {
        let own = |part: &str| Self::own(layout, activity, part);
        let (before, after) = Self::stock_pattern(layout);
        let participants = match layout {
            Layout::Seckill | Layout::Cluster => Some(own("participants")),
            Layout::Sku => Some(format!("bought:{activity}")),
            Layout::Coupon => Some(own("user")),
            Layout::Product => None,
            Layout::Custom(custom) => custom.participants.as_ref().map(|participants| participants.key(activity)),
        };
        let units = (layout.kind() == Kind::Set).then(|| own("units"));
        let deadlines = layout.kind().has_users().then(|| own("deadlines"));
        Self {
            activity: activity.clone(),
            whole: layout.whole(activity),
            stock: format!("{before}{activity}{after}"),
            meta: own("meta"),
            requests: own("requests"),
            ledger: own("ledger"),
            participants,
            units,
            deadlines,
        }
    }

    /// The key that a load test locks an activity by. No script knows it.
    pub fn lock(layout: Layout, activity: &ActivityId) -> String {
        Self::own(layout, activity, "lock")
    }

    fn own(layout: Layout, activity: &ActivityId, part: &str) -> String {
        match layout {
            Layout::Seckill => format!("seckill:{part}:{activity}"),
            Layout::Sku => format!("sku:{part}:{activity}"),
            Layout::Coupon => format!("coupon:{part}:{activity}"),
            Layout::Product => format!("product_{part}_{activity}"),
            Layout::Cluster => format!("seckill:{{{activity}}}:{part}"),
            Layout::Custom(custom) => format!("{}:{part}", custom.stock.key(activity)),
        }
    }

    /// All keys of the activity, in the order of the `KEYS` of scripts that know holds.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.in_order().chain(self.deadlines.as_deref())
    }

    /// In the order of the `KEYS` of the other scripts.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        [&self.stock, &self.meta, &self.requests, &self.ledger]
            .into_iter()
            .chain(self.participants.as_ref())
            .chain(self.units.as_ref())
            .map(String::as_str)
    }

    /// The key that is a file of an archive.
    pub fn of_part(&self, part: Part) -> &str {
        match part {
            Part::Participants => self.participants.as_deref().unwrap_or_default(),
            Part::Units => self.units.as_deref().unwrap_or_default(),
            Part::Requests => &self.requests,
            Part::Ledger => &self.ledger,
        }
    }

    /// `KEYS[number]`, for messages.
    pub fn numbered(&self, number: usize) -> &str {
        self.all().nth(number.wrapping_sub(1)).unwrap_or("?")
    }

    /// The slot of all keys; `None` if they are in several, which no node of a cluster serves in one call.
    pub fn slot(&self) -> Option<u16> {
        common_slot(self.all())
    }

    /// Those of stock and meta alone.
    pub fn stock_and_meta(self) -> (String, String) {
        (self.stock, self.meta)
    }

    /// Over how many slots a layout spreads an activity.
    pub fn slots(layout: Layout) -> usize {
        let keys = Self::of(layout, &ActivityId::validated(b"1"));
        let slots: std::collections::HashSet<u16> = keys.in_order().map(|key| slot(key.as_bytes())).collect();
        slots.len()
    }

    /// The set of all activities that were preheated in a layout.
    pub fn index(layout: Layout) -> &'static str {
        match layout {
            Layout::Seckill => "seckill:activities",
            Layout::Sku => "sku:activities",
            Layout::Coupon => "coupon:activities",
            Layout::Product => "product:activities",
            Layout::Cluster => "seckill:cluster:activities",
            Layout::Custom(custom) => &custom.index,
        }
    }

    /// What the stock keys of a layout look like: the text before the id and the text after it.
    pub fn stock_pattern(layout: Layout) -> (&'static str, &'static str) {
        match layout {
            Layout::Seckill => ("seckill:stock:", ""),
            Layout::Sku => ("stock:", ""),
            Layout::Coupon => ("coupon:stock:", ""),
            Layout::Product => ("product_stock_", ""),
            Layout::Cluster => ("seckill:{", "}:stock"),
            Layout::Custom(custom) => custom.stock.parts(),
        }
    }

    /// The activity or the shard that has a stock key; `None` if it is none of this layout.
    pub fn activity_of(layout: Layout, stock: &str) -> Option<ActivityId> {
        let (before, after) = Self::stock_pattern(layout);
        stock.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
    }
}
