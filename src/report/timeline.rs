//! What a sale moved over time, in constant memory: buckets, merged into wider ones whenever they become too many.
//!
//! The narrow buckets of the beginning are kept beside the wide ones: a sale of three seconds is still shown exactly if its
//! last refund comes days later.

use crate::model::Millis;
use crate::model::time::{DAY, HOUR, MINUTE, SECOND};

/// Widths of buckets in milliseconds. Each is a multiple of the one before, and a time that people count in.
const WIDTHS: [u64; 26] = [
    2,
    10,
    20,
    100,
    200,
    SECOND,
    2 * SECOND,
    10 * SECOND,
    20 * SECOND,
    MINUTE,
    2 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    HOUR,
    2 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    10 * DAY,
    20 * DAY,
    100 * DAY,
    200 * DAY,
    1_000 * DAY,
    10_000 * DAY,
    100_000 * DAY,
    1_000_000 * DAY,
];

/// Buckets of one width: about as many as a picture has room for.
pub(crate) const MOST: usize = 720;

/// The shortest time that is shown.
const LEAST_SPAN: u64 = SECOND;

/// The share of all purchases after which a sale may end before its last order, in percent: a few late orders must not
/// press the rush into one bucket.
const NEARLY_ALL: u128 = 98;

/// Units that moved in a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnitMoves {
    /// Units that were bought.
    pub bought: u64,
    /// Units that were returned.
    pub returned: u64,
    /// By how much the units that users hold changed, repairs included.
    pub sold: i64,
    /// By how much the total changed.
    pub total: i64,
}

impl UnitMoves {
    fn sum(buckets: &[Self]) -> Self {
        let mut sum = Self::default();
        buckets.iter().for_each(|bucket| sum.add(bucket));
        sum
    }

    /// Adds what happened in another time.
    pub(crate) fn add(&mut self, other: &Self) {
        self.bought = self.bought.saturating_add(other.bought);
        self.returned = self.returned.saturating_add(other.returned);
        self.sold = self.sold.saturating_add(other.sold);
        self.total = self.total.saturating_add(other.total);
    }
}

/// Everything since the first order, a refund or an expiry among them.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// The second of the first order, in Unix milliseconds.
    begin: u64,
    /// When something moved last.
    end: u64,
    /// Buckets of each width so far; the last of them is being filled, and those before cover the beginning alone.
    levels: Vec<Vec<UnitMoves>>,
}

/// A part of a timeline in buckets of one width.
#[derive(Debug, Clone)]
pub(crate) struct Span<'a> {
    /// When the first bucket begins.
    pub from: Millis,
    /// How wide a bucket is, in milliseconds.
    pub width: u64,
    /// The buckets from there on; behind the last one nothing happened, up to the end of the span.
    pub buckets: &'a [UnitMoves],
    /// When the span ends.
    pub to: Millis,
    /// When something moved last, in the span or after it.
    pub last: Millis,
    /// What happened after it.
    pub later: UnitMoves,
}

impl Timeline {
    /// Whether nothing was added yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Adds what happened at an instant, which is not before the last one.
    pub(crate) fn add(&mut self, at: Millis, moved: UnitMoves) {
        let at = at.get();
        if self.levels.is_empty() {
            self.begin = at - at % SECOND;
            self.levels.push(Vec::new());
        }
        self.end = self.end.max(at);
        let since = at.saturating_sub(self.begin);
        loop {
            let level = self.levels.len() - 1;
            let index = usize::try_from(since / WIDTHS[level]).unwrap_or(usize::MAX);
            let is_widest = level + 1 == WIDTHS.len();
            if index < MOST || is_widest {
                let index = index.min(MOST - 1);
                let buckets = &mut self.levels[level];
                if buckets.len() <= index {
                    buckets.resize(index + 1, UnitMoves::default());
                }
                buckets[index].add(&moved);
                return;
            }
            self.widen();
        }
    }

    /// Begins the next width with the buckets so far, merged.
    fn widen(&mut self) {
        let level = self.levels.len() - 1;
        let ratio = usize::try_from(WIDTHS[level + 1] / WIDTHS[level]).unwrap_or(1);
        let merged = self.levels[level].chunks(ratio).map(UnitMoves::sum).collect();
        self.levels.push(merged);
    }

    /// When a percentage of all purchases was made, to the width of a bucket.
    pub(crate) fn bought_by(&self, percent: u8) -> Option<Millis> {
        let bought: u128 = self.levels.last()?.iter().map(|bucket| u128::from(bucket.bought)).sum();
        (bought > 0).then(|| Millis::new(self.when((bought * u128::from(percent)).div_ceil(100))))
    }

    /// The part that is worth looking at: all of it, unless nearly everything was bought in the first third of the time.
    /// Then it ends soon after that.
    pub(crate) fn span(&self) -> Option<Span<'_>> {
        let all = self.levels.last()?;
        let bought: u128 = all.iter().map(|bucket| u128::from(bucket.bought)).sum();
        let mut to = self.end + 1;
        let early = self.when((bought * NEARLY_ALL).div_ceil(100)) - self.begin;
        if bought > 0 && early.saturating_mul(3) < to - self.begin {
            to = self.begin + early + early / 5;
        }
        Some(self.up_to(to.max(self.begin + LEAST_SPAN)))
    }

    /// When a number of units was bought: the end of the narrowest bucket that is known to reach it.
    fn when(&self, wanted: u128) -> u64 {
        for (buckets, width) in self.levels.iter().zip(WIDTHS) {
            let mut sum = 0;
            for (bucket, index) in buckets.iter().zip(1..) {
                sum += u128::from(bucket.bought);
                if sum >= wanted {
                    return self.begin + width * index;
                }
            }
        }
        // Never: the widest buckets have all that was bought.
        self.end
    }

    /// All up to an instant, in the narrowest buckets that reach so far.
    fn up_to(&self, to: u64) -> Span<'_> {
        let needed = |width: u64| usize::try_from((to - self.begin).div_ceil(width)).unwrap_or(usize::MAX);
        let last = self.levels.len() - 1;
        let level = (0..last).find(|level| needed(WIDTHS[*level]) <= MOST).unwrap_or(last);
        let (buckets, width) = (&self.levels[level], WIDTHS[level]);
        let count = needed(width).min(MOST);
        let buckets = &buckets[..count.min(buckets.len())];
        let (all, shown) = (UnitMoves::sum(&self.levels[last]), UnitMoves::sum(buckets));
        let later = UnitMoves {
            bought: all.bought - shown.bought,
            returned: all.returned - shown.returned,
            sold: all.sold.saturating_sub(shown.sold),
            total: all.total - shown.total,
        };
        let to = self.begin.saturating_add(width.saturating_mul(u64::try_from(count).unwrap_or(u64::MAX)));
        Span { from: Millis::new(self.begin), width, buckets, to: Millis::new(to), last: Millis::new(self.end), later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bought: u64) -> UnitMoves {
        UnitMoves { bought, sold: i64::try_from(bought).unwrap(), ..UnitMoves::default() }
    }

    fn sum(span: &Span<'_>) -> u64 {
        span.buckets.iter().map(|bucket| bucket.bought).sum()
    }

    #[test]
    fn each_width_is_a_multiple_of_the_one_before() {
        assert!(WIDTHS.windows(2).all(|pair| pair[0] < pair[1] && pair[1] % pair[0] == 0));
    }

    #[test]
    fn memory_does_not_grow_with_the_sale() {
        let mut timeline = Timeline::default();
        let mut at = 1_700_000_000_123;
        for index in 0..200_000u64 {
            timeline.add(Millis::new(at), one(1));
            at += 1 + index * index % 90_001 * index / 10;
        }
        assert!(timeline.levels.len() <= WIDTHS.len());
        assert!(timeline.levels.iter().all(|buckets| buckets.len() <= MOST && buckets.capacity() <= 2 * MOST));
        let span = timeline.span().unwrap();
        assert_eq!(sum(&span) + span.later.bought, 200_000, "nothing is lost");
    }

    #[test]
    fn where_nothing_was_bought_all_of_it_is_shown() {
        let returned = |units| UnitMoves { returned: units, ..UnitMoves::default() };
        for first in [returned(1), one(1)] {
            let mut timeline = Timeline::default();
            timeline.add(Millis::new(10_000), returned(1));
            timeline.add(Millis::new(3_610_000), first);
            assert_eq!(timeline.span().unwrap().later, UnitMoves::default());
        }
    }

    #[test]
    fn buckets_are_as_narrow_as_the_time_allows() {
        let mut timeline = Timeline::default();
        for second in 0..60 {
            timeline.add(Millis::new(10_000 + second * 1000), one(5));
        }
        let span = timeline.span().unwrap();
        assert_eq!((span.from, span.width, span.to), (Millis::new(10_000), 100, Millis::new(69_100)));
        assert_eq!((span.buckets[0], span.buckets[1], span.buckets[10]), (one(5), UnitMoves::default(), one(5)));
        assert_eq!((sum(&span), span.later), (300, UnitMoves::default()));
        assert_eq!([50, 90].map(|percent| timeline.bought_by(percent).unwrap().get()), [39_100, 63_100]);
    }

    #[test]
    fn a_late_refund_does_not_press_the_rush_into_one_bucket() {
        let mut timeline = Timeline::default();
        for index in 0..3000 {
            timeline.add(Millis::new(5_000 + index), one(1));
        }
        timeline.add(Millis::new(8_000), UnitMoves { returned: 2, sold: -2, total: 7, ..UnitMoves::default() });
        let late = UnitMoves { returned: 1, sold: -1, total: 4, ..UnitMoves::default() };
        timeline.add(Millis::new(5_000 + 3 * DAY), late);
        let span = timeline.span().unwrap();
        assert_eq!((span.width, span.later), (10, late));
        assert_eq!(sum(&span), 3000);
        assert!(span.to.get() < 5_000 + 4_000, "{}", span.to.get());
    }

    #[test]
    fn one_order_is_shown_in_a_second() {
        let mut timeline = Timeline::default();
        assert!(timeline.is_empty() && timeline.span().is_none());
        timeline.add(Millis::new(7_999), one(3));
        let span = timeline.span().unwrap();
        assert_eq!((span.from, span.to, sum(&span)), (Millis::new(7_000), Millis::new(8_000), 3));
    }

    #[test]
    fn times_at_the_end_of_the_calendar_fit() {
        let mut timeline = Timeline::default();
        timeline.add(Millis::new(0), one(1));
        timeline.add(Millis::new(253_402_300_799_999), one(1));
        timeline.add(Millis::new(u64::MAX), one(1));
        let span = timeline.span().unwrap();
        assert_eq!(sum(&span) + span.later.bought, 3);
        assert!(timeline.levels.iter().all(|buckets| buckets.len() <= MOST));
    }

    #[test]
    fn buckets_are_widened_once_there_are_too_many() {
        for (last, width) in [(1439, 2), (1440, 10)] {
            let mut timeline = Timeline::default();
            timeline.add(Millis::new(5_000), one(1));
            timeline.add(Millis::new(5_000 + last), one(100));
            let span = timeline.span().unwrap();
            assert_eq!((span.width, sum(&span)), (width, 101), "{last}");
        }
    }

    #[test]
    fn a_span_ends_early_only_if_nearly_all_was_bought_in_its_first_third() {
        for (last, late, ends) in [(2_999, 1, 8_000), (3_000, 1, 6_200), (3_000, 10, 8_010)] {
            let mut timeline = Timeline::default();
            timeline.add(Millis::new(5_000), one(1));
            timeline.add(Millis::new(5_998), one(99));
            timeline.add(Millis::new(5_000 + last), one(late));
            assert_eq!(timeline.span().unwrap().to.get(), ends, "{last} {late}");
        }
    }
}
