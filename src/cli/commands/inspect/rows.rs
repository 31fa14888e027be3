//! What inspect shows, and a run at its end: activities, participants, and who holds how many.

use crate::cli::output::{Cell, Field, Tone, row};
use crate::model::{Bought, Millis, Snapshot, State, Status, StoredUser};

row! {
    /// One activity at one instant. What all participants hold is asked only of an activity whose total nobody knows.
    pub struct ActivityRow as row from (snapshot: &Snapshot, of_participants: Option<u64>) {
        pub(crate) activity: String = snapshot.activity.to_string() => Cell::id(&row.activity);
        pub(crate) title: Option<String> = title, flexible;
        pub(crate) state: &'static str = state => row.state_cell();
        optional table "alert" => match row.alert {
            Some(true) => Cell::text("low").tone(Tone::Bad),
            Some(false) => Cell::text(""),
            None => Cell::unknown(),
        };
        pub(crate) total: Option<u64> = total;
        pub(crate) stock: Option<u64> = snapshot.stock => row.stock_cell(row.stock_parts());
        pub(crate) sold: Option<i64> = sold => match row.sold {
            Some(sold) if sold < 0 => Cell::number(sold).tone(Tone::Bad),
            Some(sold) => with_held(sold, row.held.unwrap_or_default()),
            sold => sold.cell(),
        };
        table "" => row.share().map_or_else(Cell::unknown, |share| Cell::bar(share).tone(Tone::Info));
        data pub(crate) buyers: Option<u64> = snapshot.buyers.filter(|buyers| sound || *buyers > 0);
        pub(crate) per_user_limit: Option<u64> as "limit" = meta.and_then(|meta| meta.per_user_limit);
        data pub(crate) starts_at: Option<Millis> = meta.and_then(|meta| meta.starts_at);
        data pub(crate) ends_at: Option<Millis> = meta.and_then(|meta| meta.ends_at);
        /// Units of open holds, which `sold` includes.
        data pub(crate) held: Option<u64> = meta.map(|meta| meta.holds);
        /// Of a sharded activity: units on their way from one shard to another, neither in `stock` nor in `sold`.
        data pub(crate) in_transit: Option<i64> = snapshot.sums.as_ref().and_then(|sums| sums.in_transit);
        /// Units of `stock` that a pause withdrew, if any.
        sparse pub(crate) withdrawn: Option<u64> = meta.and_then(|meta| meta.withdrawn).filter(|units| *units > 0);
        /// Only if something is wrong; `state` says it too.
        nested pub(crate) status: Option<Status> = (!sound).then_some(status);
        /// Whether too few units are left, if `--alert-below` asks.
        optional data pub(crate) alert: Option<bool> = None;
    }
    where {
        let (status, meta) = (snapshot.status, snapshot.meta.as_ref());
        let (sound, total) = (status.is_done(), meta.filter(|meta| !meta.is_adopting).map(|meta| meta.total));
        let title = meta.map(|meta| meta.title.clone()).filter(|title| !title.is_empty());
        let state = snapshot.state_name();
        let sold = match snapshot.sums.as_ref().map_or(total, |sums| Some(sums.total)) {
            Some(total) => snapshot.stock.and_then(|stock| less(total, stock)),
            // Of an activity that is not there, nothing is known rather than nothing sold.
            None => of_participants.filter(|held| sound || *held > 0).and_then(|held| i64::try_from(held).ok()),
        };
    }
    named activity
}

impl ActivityRow {
    pub fn name(&self) -> &str {
        &self.activity
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.status.is_none()
    }

    /// The state, and when an upcoming activity starts.
    fn state_cell(&self) -> Cell {
        let tone = tone(self.state);
        match self.starts_at.filter(|_| self.state == State::Upcoming.name()) {
            Some(start) => Cell::text(format!("{}, starts {start}", self.state)).tone(tone).flexible(),
            None => Cell::text(self.state).tone(tone),
        }
    }

    /// The stock, marked if too few units are left or none, and what is special about some of them.
    pub(crate) fn stock_cell(&self, parts: impl IntoIterator<Item = String>) -> Cell {
        match self.stock {
            Some(stock) if self.alert == Some(true) => with_parts(stock, parts).tone(Tone::Bad),
            Some(0) => with_parts(0, parts).tone(Tone::Warn),
            Some(stock) => with_parts(stock, parts),
            None => self.stock.cell(),
        }
    }

    /// What is special about units of the stock.
    fn stock_parts(&self) -> impl Iterator<Item = String> {
        let moving = self.in_transit.filter(|units| *units != 0).map(|units| format!("{units:+} in transit"));
        moving.into_iter().chain(self.withdrawn.map(|units| format!("{units} withdrawn")))
    }

    /// The share of the total that is sold.
    pub(crate) fn share(&self) -> Option<f64> {
        let (total, sold) = (self.total?, self.sold?);
        Some(if total == 0 { 0.0 } else { sold as f64 / total as f64 })
    }
}

/// Negative if the stock was raised above the total: that is drift, and not to be hidden.
fn less(total: u64, stock: u64) -> Option<i64> {
    i64::try_from(total).ok()?.checked_sub(i64::try_from(stock).ok()?)
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
    /// What a user holds, and may still buy if there is a limit.
    pub struct ParticipantRow as row from (id: &[u8], bought: Bought, limit: Option<u64>) {
        pub(crate) user: StoredUser = user, flexible;
        pub(crate) bought: Bought = bought;
        left: Option<u64> as "may buy" = left(limit, bought) => left_cell(row.left);
        sparse user_hex: Option<String> = user_hex;
    }
    where {
        let user = StoredUser::new(id);
        let user_hex = user.user_hex();
    }
}

row! {
    /// One participant among all of them.
    pub struct BuyerRow<'a> as row from (of: &'a str, id: &'a [u8], units: Option<Bought>) {
        activity: &'a str = of;
        user: Option<&'a str> = text => Cell::user(row.user, row.user_hex.as_ref());
        /// `None` if the record is no number.
        bought: Option<Bought> = units;
        /// Of an id that is not UTF-8.
        sparse user_hex: Option<String> = text.is_none().then(|| StoredUser::new(id).hex());
    }
    where { let text = std::str::from_utf8(id).ok(); }
}

row! {
    /// What a user who was asked for holds of an activity.
    pub struct HolderRow as row from (snapshot: &Snapshot, user: &str, recorded: Option<Bought>, held: u64) {
        activity: String = snapshot.activity.to_string() => Cell::id(&row.activity);
        user: String = user.to_owned(), flexible;
        bought: Option<Bought> = bought => match row.bought {
            Some(Bought::Units(units)) => with_held(units, row.held),
            bought => bought.cell(),
        };
        per_user_limit: Option<u64> as "limit" = limit;
        left: Option<u64> as "may buy" = bought.and_then(|bought| left(limit, bought)) => left_cell(row.left);
        /// Units of open holds, which `bought` includes.
        data held: u64 = held;
        nested status: Option<Status> = (!sound).then_some(snapshot.status);
    }
    where {
        // Who has no record bought nothing, unless the activity does not exist, or is in files.
        let sound = snapshot.status.is_done();
        let bought = recorded.or((sound && !snapshot.is_archived()).then_some(Bought::Units(0)));
        let limit = snapshot.meta.as_ref().and_then(|meta| meta.per_user_limit);
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

    #[test]
    fn of_an_activity_that_is_not_there_nothing_is_known() {
        let gone = Snapshot { status: Status::NotPreheated, ..Snapshot::sample("0123", None) };
        let json = serde_json::to_value(ActivityRow::new(&gone, Some(0))).unwrap();
        assert_eq!((&json["status"], &json["state"]), (&"not_preheated".into(), &"not_preheated".into()));
        assert!(json["sold"].is_null() && json["buyers"].is_null());
        assert_eq!(HolderRow::new(&gone, "7", None, 0).bought, None);
    }

    #[test]
    fn a_stock_above_the_total_is_not_hidden() {
        assert_eq!(less(5, 7), Some(-2));
    }
}
