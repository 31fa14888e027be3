//! The sums of the removed entries of a ledger: an audit continues from there as if it had read them.

use crate::model::ledger::EntryId;
use crate::model::number::whole;
use crate::model::time::Millis;

/// The sums of all entries before one. What each user holds is in pages beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Entries that were removed since the preheat. Removing lags behind: those that are left count for nothing.
    pub removed: u64,
    /// Names its pages.
    pub name: String,
    /// How many pages there are.
    pub pages: u64,
    /// The epoch that it belongs to; in another it means nothing.
    pub epoch: u64,
    /// The first entry that is not in here: at which a ledger must continue.
    pub from: EntryId,
    /// The last that is.
    pub upto: EntryId,
    /// How many are in here, since the preheat.
    pub entries: u64,
    /// The total that they left.
    pub total: u64,
    /// The units that all users hold by them.
    pub sum: i64,
    /// When it was made, by the server's clock.
    pub at: Millis,
    /// Who made it.
    pub by: String,
}

impl Checkpoint {
    /// The sums as the script takes them.
    pub(crate) fn sums(from: EntryId, upto: EntryId, entries: u64, total: u64, sum: i64) -> String {
        format!("{from} {upto} {entries} {total} {sum}")
    }

    /// Reads the field; `None` if it is damaged.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(11, ' ');
        Some(Self {
            removed: whole(words.next()?)?,
            name: words.next()?.to_owned(),
            pages: whole(words.next()?)?,
            epoch: whole(words.next()?)?,
            from: words.next()?.parse().ok()?,
            upto: words.next()?.parse().ok()?,
            entries: whole(words.next()?)?,
            total: whole(words.next()?)?,
            sum: units(words.next()?)?,
            at: Millis::new(whole(words.next()?)?),
            by: words.next()?.to_owned(),
        })
    }
}

/// Units; negative only if the ledger is damaged.
pub(crate) fn units(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(below) => i64::try_from(whole(below)?).ok().map(|units| -units),
        None => i64::try_from(whole(text)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_whole_or_not_at_all() {
        let text = "7 0a-b 2 1 1700-0 1699-5 12 50 -3 1800 ann of ops@host";
        let read = Checkpoint::read(text).unwrap();
        assert_eq!((read.removed, &*read.name, read.pages, read.epoch), (7, "0a-b", 2, 1));
        assert_eq!((read.from.to_string(), read.upto.to_string()), ("1700-0".to_owned(), "1699-5".to_owned()));
        assert_eq!((read.entries, read.total, read.sum, &*read.by), (12, 50, -3, "ann of ops@host"));
        let sums = Checkpoint::sums(read.from, read.upto, read.entries, read.total, read.sum);
        assert!(text.contains(&format!(" {sums} ")));
        assert!(Checkpoint::read("7 x 2 1 1700-0 1699-5 12 50 -3 1800 ").is_some(), "nobody is named");
        for wrong in ["", "7 x 2 1 1700-0 1699-5 12 50 -3 1800", "7 x 2 1 1700 1699-5 12 50 3 1800 me"] {
            assert!(Checkpoint::read(wrong).is_none(), "{wrong}");
        }
    }
}
