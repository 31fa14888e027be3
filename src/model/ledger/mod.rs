//! The ledger: one entry for everything that changed an activity. Its columns are split into the
//! texts of each order.

pub(crate) mod checkpoint;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::model::names::names;
use crate::model::number::{MAX_UNITS, signed, whole, whole_bytes};
use crate::model::time::Millis;

/// Names an entry: the server's clock in Unix ms, and a number within that millisecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    millis: u64,
    number: u64,
}

impl EntryId {
    /// Before all entries.
    pub const ZERO: Self = Self { millis: 0, number: 0 };

    /// The last that a stream can have: no entry comes behind it.
    pub const LAST: Self = Self { millis: u64::MAX, number: u64::MAX };

    /// When it was written.
    pub fn at(self) -> Millis {
        Millis::new(self.millis)
    }

    /// The last that could be written before an instant.
    pub fn before(at: Millis) -> Self {
        Self::first_at(at).previous()
    }

    /// The id right before this one.
    pub fn previous(self) -> Self {
        match (self.number.checked_sub(1), self.millis.checked_sub(1)) {
            (Some(number), _) => Self { number, ..self },
            (None, Some(millis)) => Self { millis, number: u64::MAX },
            (None, None) => Self::ZERO,
        }
    }

    /// The first that could be written at an instant.
    pub fn first_at(at: Millis) -> Self {
        Self { millis: at.get(), number: 0 }
    }
}

impl FromStr for EntryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once('-')
            .and_then(|(millis, number)| Some(Self { millis: whole(millis)?, number: whole(number)? }))
            .ok_or_else(|| format!("`{}` is not a ledger entry's id, such as 1762790400000-0", text.escape_debug()))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.millis, self.number)
    }
}

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

names! {
    /// What an entry says was done.
    pub enum Op {
        /// The activity began, with a total.
        Preheat = "preheat",
        /// It was taken over, with a total: what was before is in a checkpoint, or in the ledger.
        Adopt = "adopt",
        /// Its total, limit, title or window moved.
        Update = "update",
        /// Units were taken.
        Deduct = "deduct",
        /// Units came back.
        Refund = "refund",
        /// Units were taken with a deadline.
        Hold = "hold",
        /// Units that were held are bought.
        Confirm = "confirm",
        /// Units that were held came back.
        Release = "release",
        /// Units that were held came back, because nobody confirmed them in time.
        Expire = "expire",
        /// Purchases were refused from here on.
        Pause = "pause",
        /// Purchases were allowed again.
        Resume = "resume",
        /// A shard took units out, for another shard.
        Lend = "lend",
        /// A shard got units that another one lent.
        Borrow = "borrow",
        /// What users hold was set right.
        Repair = "repair",
    }
}

/// The entry of a ledger, with the fields that its texts may have.
macro_rules! entry {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        /// One entry as the server keeps it. Texts stay bytes until somebody wants them.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Entry {
            /// Its name.
            pub id: EntryId,
            /// What was done.
            pub op: Vec<u8>,
            $($(#[$doc])* pub $field: Option<Vec<u8>>,)*
        }

        impl Entry {
            /// A field as the server has it.
            pub(crate) fn set(&mut self, name: &[u8], text: Vec<u8>) {
                match name {
                    b"op" => self.op = text,
                    $($name => self.$field = Some(text),)*
                    _ => (),
                }
            }
        }
    };
}

entry! {
    /// Who did it.
    by = b"by",
    /// Why.
    reason = b"reason",
    /// Units left after it.
    stock = b"stock",
    /// The total from here on, of a preheat, an update, and a transfer between shards.
    total = b"total",
    /// Units that a pause withdrew from the stock, or that a resume returned.
    withdrawn = b"withdrawn",
    /// The epoch that a preheat began.
    epoch = b"epoch",
    /// Users of its orders, or of its repairs: texts with tabs between.
    users = b"users",
    /// Units of each order: texts with tabs between, or one text for all.
    quantity = b"quantity",
    /// Request ids of the orders, empty for none: texts with tabs between.
    requests = b"requests",
    /// Why, order by order: texts with tabs between.
    reasons = b"reasons",
    /// Units held before each repair: texts with tabs between.
    from = b"from",
    /// Units held after each repair: texts with tabs between.
    to = b"to",
    /// By how much a repair moved the stock.
    stock_change = b"stock_change",
    /// Request ids that a repair took back: texts with tabs between.
    reversed = b"reversed",
    /// The job of a file of orders.
    job = b"job",
    /// The file's lines of these orders: `first-last`, or each of them.
    lines = b"lines",
    /// The id of a transfer between shards.
    transfer = b"transfer",
    /// The number of the other shard of a transfer.
    shard = b"shard",
    /// The units of a transfer.
    units = b"units",
    /// Of an item of an order of activities in several slots, the stock key of the item that decides it.
    primary = b"primary",
    /// Of that item's hold, the stock keys of the other items, with spaces between.
    items = b"items",
}

impl Op {
    /// Whether it takes units of users.
    pub fn takes(self) -> bool {
        matches!(self, Self::Deduct | Self::Hold)
    }

    /// Whether it gives units of users back.
    pub fn returns(self) -> bool {
        matches!(self, Self::Refund | Self::Release | Self::Expire)
    }
}

impl Entry {
    /// An entry of which only the name is known.
    pub(crate) fn new(id: EntryId) -> Self {
        Self { id, ..Self::default() }
    }

    /// What was done, if the name of it is known.
    pub(crate) fn known_op(&self) -> Option<Op> {
        Op::named(std::str::from_utf8(&self.op).ok()?)
    }

    /// The same.
    ///
    /// # Errors
    /// Its name is not known.
    pub(crate) fn readable_op(&self) -> Result<Op, String> {
        let unknown = || format!("unknown operation `{}`", String::from_utf8_lossy(&self.op).escape_debug());
        self.known_op().ok_or_else(unknown)
    }

    /// A field for people; `None` if it is empty, too.
    pub(crate) fn text(field: Option<&[u8]>) -> Option<String> {
        field.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).filter(|text| !text.is_empty())
    }

    /// A field of digits, as far as anything is counted.
    pub(crate) fn count(field: Option<&[u8]>) -> Option<u64> {
        whole_bytes(field?).filter(|count| *count <= MAX_UNITS)
    }

    /// The number of the other shard of a transfer.
    pub(crate) fn other_shard(&self) -> Option<u32> {
        u32::try_from(Self::count(self.shard.as_deref())?).ok()
    }

    /// By how much it moved the stock, if it is an order, a transfer, a repair, a pause or what ends one; `None` of anything else,
    /// and if it cannot be read.
    pub(crate) fn stock_change(&self) -> Option<i64> {
        let units = || i64::try_from(Self::count(self.units.as_deref())?).ok();
        let sign = match self.known_op()? {
            Op::Lend => return units().map(|units| -units),
            Op::Borrow => return units(),
            Op::Repair => return checkpoint::units(std::str::from_utf8(self.stock_change.as_deref()?).ok()?),
            Op::Deduct | Op::Hold => -1,
            Op::Refund | Op::Release | Op::Expire => 1,
            // The stock counts what is withdrawn, and not what is held.
            Op::Pause | Op::Resume | Op::Confirm => return Some(0),
            _ => return None,
        };
        Some(sign * self.quantities(&self.order_units().ok()?).ok()?.iter().sum::<i64>())
    }

    /// What names its orders that have no request id, if it is of a job: `<job>:<line>` of each.
    pub(crate) fn line_names(&self, count: usize) -> Vec<String> {
        let text = |field: &Option<Vec<u8>>| String::from_utf8(field.clone()?).ok();
        let Some((job, named)) = text(&self.job).zip(text(&self.lines)) else { return Vec::new() };
        lines(&named, count).into_iter().map(|line| format!("{job}:{line}")).collect()
    }

    /// Request ids that a repair took back; none if they cannot be read.
    pub(crate) fn reversed_ids(&self) -> Vec<String> {
        let ids = self.reversed.as_deref().map(|ids| column(ids).map(|id| String::from_utf8(id.to_vec())).collect());
        ids.and_then(Result::ok).unwrap_or_default()
    }

    /// Its orders, one after the other: user, quantity, request, reason; of a repair user, from, to.
    ///
    /// # Errors
    /// Which column is not a list of as many texts as there are users.
    pub(crate) fn rows(&self) -> Result<Vec<OrderTexts<'_>>, String> {
        let mut rows = self.order_units()?;
        fill(&mut rows, 2, "requests", self.requests.as_deref())?;
        fill(&mut rows, 3, "reasons", self.reasons.as_deref())?;
        Ok(rows)
    }

    /// Why its orders cannot be read, if they cannot.
    pub(crate) fn fault(&self) -> Option<String> {
        self.readable_op().and_then(|_| self.quantities(&self.rows()?)).err()
    }

    /// Its orders without their request ids and reasons: all that changes who holds what.
    ///
    /// # Errors
    /// Which column is not a list of as many texts as there are users.
    pub(crate) fn order_units(&self) -> Result<Vec<OrderTexts<'_>>, String> {
        let Some(users) = &self.users else { return Ok(Vec::new()) };
        let mut rows: Vec<_> = column(users).map(|user| OrderTexts([Some(user), None, None, None])).collect();
        match self.quantity.as_deref() {
            Some(quantity) if !quantity.contains(&TAB) => rows.iter_mut().for_each(|row| row.0[1] = Some(quantity)),
            quantities => fill(&mut rows, 1, "quantity", quantities)?,
        }
        fill(&mut rows, 1, "from", self.from.as_deref())?;
        fill(&mut rows, 2, "to", self.to.as_deref())?;
        Ok(rows)
    }

    /// The units of each of its orders.
    ///
    /// # Errors
    /// That of one is no number, or they come to more than an activity can have. What users held before a repair may.
    pub(crate) fn quantities(&self, orders: &[OrderTexts<'_>]) -> Result<Vec<i64>, String> {
        let counts: Option<Vec<i64>> = orders.iter().map(|order| order.quantity()).collect();
        let counts = counts.ok_or("an order without a quantity")?;
        let sum = counts.iter().copied().fold(0, i64::saturating_add);
        if sum > signed(MAX_UNITS) && self.known_op() != Some(Op::Repair) {
            return Err(format!("orders that add up to more than {MAX_UNITS} units"));
        }
        Ok(counts)
    }
}

/// Stock changes between consecutive entries that no entry explains. The newest entry comes first; what was before a repair of the
/// stock, or of what users hold, is settled.
pub(crate) fn unexplained_changes(entries: &[Entry]) -> Vec<i64> {
    let after = |entry: &Entry| i64::try_from(Entry::count(entry.stock.as_deref())?).ok();
    let settles = |entry: &Entry| {
        entry.known_op() == Some(Op::Repair) && (entry.users.is_some() || entry.stock_change() != Some(0))
    };
    let since_repair = entries.windows(2).take_while(|pair| !settles(&pair[0]));
    let between = since_repair.filter_map(|pair| {
        // What is no order says itself where the stock begins anew.
        let expected = after(&pair[1])? + pair[0].stock_change()?;
        Some(after(&pair[0])? - expected)
    });
    between.filter(|units| *units != 0).collect()
}

/// The lines that a text names: `first-last`, or each of them; nothing if they are not that many.
fn lines(text: &str, count: usize) -> Vec<u64> {
    let lines: Option<Vec<u64>> = match text.split_once('-') {
        Some((first, last)) => {
            whole(first).zip(whole(last)).map(|(first, last)| (first..=last).take(count + 1).collect())
        }
        None => text.split(' ').map(whole).collect(),
    };
    lines.filter(|lines| lines.len() == count).unwrap_or_default()
}

/// One order of an entry, as texts. They are bytes: a backend may name its users in another encoding than UTF-8.
#[derive(Debug, Clone)]
pub(crate) struct OrderTexts<'a>(pub [Option<&'a [u8]>; 4]);

impl OrderTexts<'_> {
    /// The user; empty if none is recorded.
    pub(crate) fn user(&self) -> &[u8] {
        self.0[0].unwrap_or_default()
    }

    /// Its units; of a repair, those before it.
    pub(crate) fn quantity(&self) -> Option<i64> {
        self.count(1)
    }

    /// What its user held before a repair.
    pub(crate) fn from(&self) -> Option<i64> {
        self.count(1)
    }

    /// What its user holds after a repair.
    pub(crate) fn to(&self) -> Option<i64> {
        self.count(2)
    }

    /// The request id; of a repair, what its user holds after it.
    pub(crate) fn request(&self) -> Option<&str> {
        self.text(2)
    }

    /// Why, if the order says it.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.text(3)
    }

    fn count(&self, at: usize) -> Option<i64> {
        whole(self.text(at)?).filter(|count| *count <= MAX_UNITS).map(signed)
    }

    /// The text at an index; `None` if it is empty, missing or not UTF-8.
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        std::str::from_utf8(self.0.get(at).copied()??).ok().filter(|text| !text.is_empty())
    }
}

/// What separates the texts of a column: no id, quantity or reason has one.
const TAB: u8 = b'\t';

/// The texts of a column, in any encoding.
pub(crate) fn column(texts: &[u8]) -> impl Iterator<Item = &[u8]> {
    texts.split(|byte| *byte == TAB)
}

/// Puts the texts of a column, if there is one, into each row at an index.
pub(crate) fn fill<'a>(
    rows: &mut [OrderTexts<'a>],
    at: usize,
    name: &str,
    texts: Option<&'a [u8]>,
) -> Result<(), String> {
    let Some(texts) = texts else { return Ok(()) };
    let count = column(texts).count();
    if count != rows.len() {
        return Err(format!("{name}: {count} texts for {} users", rows.len()));
    }
    rows.iter_mut().zip(column(texts)).for_each(|(row, text)| row.0[at] = Some(text));
    Ok(())
}
