//! What inspect shows, and a run at its end: activities, participants, and who holds how many.

use crate::cli::output::row;
use crate::cli::output::{Cell, Field, Tone};
use crate::model::activity::{Snapshot, State};
use crate::model::id::StoredUser;
use crate::model::order::Bought;
use crate::model::status::Status;
use crate::model::time::Millis;

row! {
    /// One activity at one instant.
    pub struct ActivityRow as row {
        pub(crate) activity: String => Cell::text(&row.activity).tone(Tone::Strong);
        pub(crate) title: Option<String>, flexible;
        pub(crate) state: &'static str => row.state_cell();
        optional table "alert" => match row.alert {
            Some(true) => Cell::text("low").tone(Tone::Bad),
            Some(false) => Cell::text(""),
            None => Cell::unknown(),
        };
        pub(crate) total: Option<u64>;
        pub(crate) stock: Option<u64> => match row.stock {
            Some(stock) => with_parts(stock, row.stock_parts()).tone(match row.alert {
                Some(true) => Tone::Bad,
                _ if stock == 0 => Tone::Warn,
                _ => Tone::Plain,
            }),
            stock => stock.cell(),
        };
        pub(crate) sold: Option<i64> => match row.sold {
            Some(sold) if sold < 0 => Cell::number(sold).tone(Tone::Bad),
            Some(sold) => with_held(sold, row.held.unwrap_or_default()),
            sold => sold.cell(),
        };
        table "" => row.share().map_or_else(Cell::unknown, |share| Cell::bar(share).tone(Tone::Info));
        data pub(crate) buyers: Option<u64>;
        pub(crate) per_user_limit: Option<u64> as "limit";
        data pub(crate) starts_at: Option<Millis>;
        data pub(crate) ends_at: Option<Millis>;
        /// Units of open holds, which `sold` includes.
        data pub(crate) held: Option<u64>;
        /// Of a sharded activity: units on their way from one shard to another, neither in `stock` nor in `sold`.
        data pub(crate) in_transit: Option<i64>;
        /// Units of `stock` that a pause withdrew, if any.
        sparse pub(crate) withdrawn: Option<u64>;
        /// Only if something is wrong; `state` says it too.
        nested pub(crate) status: Option<Status>;
        /// Whether too few units are left: only if somebody asked.
        optional data pub(crate) alert: Option<bool>;
    }
    named activity
}

impl ActivityRow {
    /// The row of a snapshot. `held` is what all participants hold, for an activity whose total nobody knows.
    pub fn new(snapshot: &Snapshot, held: Option<u64>) -> Self {
        let (status, meta) = (snapshot.status, snapshot.meta.as_ref());
        let sound = status.is_done();
        let total = meta.map(|meta| meta.total);
        Self {
            activity: snapshot.activity.to_string(),
            title: meta.map(|meta| meta.title.clone()).filter(|title| !title.is_empty()),
            state: if sound { snapshot.state().name() } else { status.name() },
            total,
            stock: snapshot.stock,
            sold: match snapshot.sums.as_ref().map_or(total, |sums| Some(sums.total)) {
                Some(total) => snapshot.stock.and_then(|stock| less(total, stock)),
                // Of an activity that is not there, nothing is known rather than nothing sold.
                None => held.filter(|held| sound || *held > 0).and_then(|held| i64::try_from(held).ok()),
            },
            buyers: snapshot.buyers.filter(|buyers| sound || *buyers > 0),
            per_user_limit: meta.and_then(|meta| meta.per_user_limit),
            starts_at: meta.and_then(|meta| meta.starts_at),
            ends_at: meta.and_then(|meta| meta.ends_at),
            held: meta.map(|meta| meta.holds),
            in_transit: snapshot.sums.as_ref().and_then(|sums| sums.in_transit),
            withdrawn: meta.and_then(|meta| meta.withdrawn).filter(|units| *units > 0),
            status: (!sound).then_some(status),
            alert: None,
        }
    }

    /// Notes that a participant's record is no number of units.
    pub fn mark_corrupt(&mut self) {
        self.status = Some(Status::Corrupt);
        self.state = Status::Corrupt.name();
    }

    pub fn name(&self) -> &str {
        &self.activity
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.status.is_none()
    }
}

/// Negative if somebody raised the stock above the total: that is drift, and not to be hidden.
fn less(total: u64, stock: u64) -> Option<i64> {
    i64::try_from(total).ok()?.checked_sub(i64::try_from(stock).ok()?)
}

impl ActivityRow {
    /// The state, and when an upcoming activity starts.
    fn state_cell(&self) -> Cell {
        let tone = tone(self.state);
        match self.starts_at.filter(|_| self.state == State::Upcoming.name()) {
            Some(start) => Cell::text(format!("{}, starts {start}", self.state)).tone(tone).flexible(),
            None => Cell::text(self.state).tone(tone),
        }
    }

    /// What is special about units of the stock.
    fn stock_parts(&self) -> impl Iterator<Item = String> {
        let moving = self.in_transit.filter(|units| *units != 0).map(|units| format!("{units:+} in transit"));
        moving.into_iter().chain(self.withdrawn.map(|units| format!("{units} withdrawn")))
    }

    /// The share of the total that is sold.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn share(&self) -> Option<f64> {
        let (total, sold) = (self.total?, self.sold?);
        Some(if total == 0 { 0.0 } else { sold as f64 / total as f64 })
    }
}

/// The colour of a state; every other word is a status that is wrong.
pub(crate) fn tone(state: &str) -> Tone {
    let tones = [
        (State::Live, Tone::Good),
        (State::SoldOut, Tone::Strong),
        (State::Upcoming, Tone::Info),
        (State::Paused, Tone::Warn),
        (State::Ended, Tone::Dim),
        (State::Archived, Tone::Dim),
    ];
    tones.into_iter().find_map(|(known, tone)| (known.name() == state).then_some(tone)).unwrap_or(Tone::Bad)
}

row! {
    pub struct ParticipantRow as row {
        user: StoredUser => Cell::text(row.user.to_string()), flexible;
        bought: Bought;
        left: Option<u64> as "may buy" => left_cell(row.left);
        sparse user_hex: Option<String>;
    }
}

impl ParticipantRow {
    /// What a user holds, and may still buy if there is a limit.
    pub fn new(user: &[u8], bought: Bought, limit: Option<u64>) -> Self {
        let user = StoredUser::new(user);
        Self { user_hex: user.user_hex(), user, bought, left: left(limit, bought) }
    }
}

row! {
    /// One participant among all of them.
    pub struct BuyerRow<'a> as row {
        activity: &'a str;
        user: Option<&'a str> => row.user_cell();
        /// `None` if the record is no number.
        bought: Option<Bought>;
        /// Of an id that is not UTF-8.
        sparse user_hex: Option<String>;
    }
}

impl<'a> BuyerRow<'a> {
    /// What a user holds.
    pub fn new(activity: &'a str, user: &'a [u8], bought: Option<Bought>) -> Self {
        let text = std::str::from_utf8(user).ok();
        let user_hex = text.is_none().then(|| StoredUser::new(user).hex());
        Self { activity, user: text, bought, user_hex }
    }

    fn user_cell(&self) -> Cell {
        let hex = || self.user_hex.as_ref().map(|hex| format!("hex:{hex}"));
        Cell::text(self.user.map(str::to_owned).or_else(hex).unwrap_or_default())
    }
}

row! {
    /// What a user who was asked for holds of an activity.
    pub struct HolderRow as row {
        activity: String => Cell::text(&row.activity).tone(Tone::Strong);
        user: String, flexible;
        bought: Option<Bought> => match row.bought {
            Some(Bought::Units(units)) => with_held(units, row.held),
            bought => bought.cell(),
        };
        per_user_limit: Option<u64> as "limit";
        left: Option<u64> as "may buy" => left_cell(row.left);
        /// Units of open holds, which `bought` includes.
        data held: u64;
        nested status: Option<Status>;
    }
}

impl HolderRow {
    /// The row of a user. Who has no record bought nothing, unless the activity does not exist, or is in files.
    pub fn new(snapshot: &Snapshot, user: &str, bought: Option<Bought>, held: u64) -> Self {
        let sound = snapshot.status.is_done();
        let bought = bought.or((sound && !snapshot.is_archived()).then_some(Bought::Units(0)));
        let per_user_limit = snapshot.meta.as_ref().and_then(|meta| meta.per_user_limit);
        Self {
            activity: snapshot.activity.to_string(),
            user: user.to_owned(),
            bought,
            per_user_limit,
            left: bought.and_then(|bought| left(per_user_limit, bought)),
            held,
            status: (!sound).then_some(snapshot.status),
        }
    }
}

/// A number of units, with how many of them are of open holds, if any.
fn with_held(units: impl std::fmt::Display, held: u64) -> Cell {
    with_parts(units, (held > 0).then(|| format!("{held} held")))
}

/// A number of units, with what is special about some of them.
fn with_parts(units: impl std::fmt::Display, parts: impl IntoIterator<Item = String>) -> Cell {
    let parts: Vec<String> = parts.into_iter().collect();
    match parts.is_empty() {
        true => Cell::number(units),
        false => Cell::number(format!("{units} ({})", parts.join(", "))),
    }
}

/// What a user may still buy: nothing if the units are unknown, because then the limit is one order.
fn left(limit: Option<u64>, bought: Bought) -> Option<u64> {
    limit.map(|limit| bought.units().map_or(0, |units| limit.saturating_sub(units)))
}

fn left_cell(left: Option<u64>) -> Cell {
    match left {
        Some(0) => Cell::number(0).tone(Tone::Warn),
        left => Cell::known(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(status: Status, stock: Option<u64>) -> Snapshot {
        let activity = "0123".parse().unwrap();
        Snapshot {
            activity,
            status,
            corrupt: None,
            stock,
            meta: None,
            buyers: Some(0),
            ledger_last: None,
            sums: None,
            at: Millis::new(0),
        }
    }

    #[test]
    fn of_an_activity_that_is_not_there_nothing_is_known() {
        let json = serde_json::to_value(ActivityRow::new(&snapshot(Status::NotPreheated, None), Some(0))).unwrap();
        assert_eq!((&json["status"], &json["state"]), (&"not_preheated".into(), &"not_preheated".into()));
        assert!(json["sold"].is_null() && json["buyers"].is_null());
        assert_eq!(HolderRow::new(&snapshot(Status::NotPreheated, None), "7", None, 0).bought, None);
    }

    #[test]
    fn without_a_total_sold_is_what_participants_hold() {
        let row = ActivityRow::new(&snapshot(Status::Ok, Some(5)), Some(3));
        assert_eq!((row.sold, row.total, row.state, row.is_sound()), (Some(3), None, "live", true));
    }

    #[test]
    fn a_stock_above_the_total_is_not_hidden() {
        assert_eq!(less(5, 7), Some(-2));
    }
}
