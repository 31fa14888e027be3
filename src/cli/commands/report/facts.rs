//! What there is to say of a sale, in sentences, with its numbers and times in words.

use indicatif::HumanCount;

use crate::audit::result::Verdict;
use crate::cli::commands::report::read::Report;
use crate::cli::output::{Tone, plural};
use crate::model::Millis;
use crate::model::number::signed;
use crate::report::Objection;

/// A name, and what is said about it.
pub(super) struct Fact {
    pub name: &'static str,
    pub text: String,
    pub tone: Tone,
}

impl Fact {
    fn new(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), tone: Tone::Plain }
    }
}

/// Everything, the most important first.
pub(super) fn all(report: &Report) -> Vec<Fact> {
    let mut facts = vec![sold(report), sold_out(report)];
    facts.extend(pace(report).map(|text| Fact::new("pace", text)));
    facts.push(Fact::new("orders", orders(report)));
    facts.extend(holds(report).map(|text| Fact::new("holds", text)));
    facts.push(Fact::new("refunds", refunds(report)));
    facts.extend(since(report).map(|text| Fact { tone: Tone::Warn, ..Fact::new("known", text) }));
    facts.push(Fact { tone: tone(report), ..Fact::new("verdict", verdict(report)) });
    facts
}

/// Units; negative only if the ledger is damaged.
fn signed_count(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

fn sold(report: &Report) -> Fact {
    let (sold, total) = (report.sales.sold, report.meta.total);
    let share = u64::try_from(sold).map_or_else(|_| "below 0%".to_owned(), |sold| percent(sold, total));
    Fact::new("sold", format!("{} of {} ({share})", signed_count(sold), units(total)))
}

fn sold_out(report: &Report) -> Fact {
    let Some(at) = report.sales.sold_out_at else {
        if report.snapshot.stock == Some(0) {
            return Fact::new("sold out", "yes, when is not known");
        }
        let moving = match report.snapshot.sums.as_ref().and_then(|sums| sums.in_transit) {
            Some(moving @ 1..) => format!(", {} of them in transit between shards", signed_count(moving)),
            _ => String::new(),
        };
        let left = report.snapshot.stock.map_or_else(
            || "nobody knows how many units are left".to_owned(),
            |stock| format!("{} {} left{moving}", units(stock), if stock == 1 { "is" } else { "are" }),
        );
        return Fact::new("sold out", format!("no: {left}"));
    };
    let after = match (report.opened_at(), report.sales.first_order) {
        (Some(start), _) => format!(", {} after the start", between(start, at)),
        (None, Some(first)) if first < at => format!(", {} after the first order", between(first, at)),
        _ => String::new(),
    };
    Fact::new("sold out", format!("{at}{after}"))
}

/// What is said of a sale without an order, instead of charts.
pub(super) fn no_orders(report: &Report) -> &'static str {
    match report.since() {
        Some(_) => "Nobody has bought anything since then.",
        None => "Nobody has bought anything yet.",
    }
}

/// How fast it went.
pub(super) fn pace(report: &Report) -> Option<String> {
    let peak = report.sales.peak?;
    let within = |percent| Some(between(report.begin()?, report.sales.bought_by(percent)?));
    let mut parts = Vec::new();
    // Of what came in one instant there is no average.
    if let Some(mean) = report.sales.rate() {
        parts.push(format!("half was bought within {}, 90% within {}", within(50)?, within(90)?));
        // Of a fraction of a second it may exceed what any second had.
        if mean <= peak.units as f64 {
            parts.push(format!("{} units a second on average", rate(mean)));
        }
    }
    parts.push(format!("at most {} in the second of {}", count(peak.units), moment(report, peak.at)));
    Some(parts.join(", "))
}

/// A second of the sale, with its day if orders came on more than one, as below the charts.
pub(super) fn moment(report: &Report, at: Millis) -> String {
    let (first, last) = (report.sales.first_order, report.sales.last_order);
    let is_one_day = first.map(Millis::date) == last.map(Millis::date);
    let day = if is_one_day { String::new() } else { at.date() + " " };
    day + &at.clock(1000)
}

fn orders(report: &Report) -> String {
    let orders = counted(report.sales.orders, "order");
    let buyers = report.snapshot.buyers.map(|buyers| {
        format!("; {} {} units now", counted(buyers, "user"), if buyers == 1 { "holds" } else { "hold" })
    });
    format!("{orders} of {}{}", units(report.sales.bought), buyers.unwrap_or_default())
}

fn refunds(report: &Report) -> String {
    let sales = &report.sales;
    if sales.refunds == 0 {
        return "none".to_owned();
    }
    let share = percent(sales.returned, sales.bought);
    let returned = units(sales.returned);
    format!("{} returned {returned} ({share} of what was bought)", counted(sales.refunds, "refund"))
}

/// How holds ended, in units.
fn holds(report: &Report) -> Option<String> {
    let (sales, held) = (&report.sales, report.meta.holds);
    let open = if held > 0 { format!(", {} held", units(held)) } else { String::new() };
    (sales.holds > 0 || sales.released > 0 || sales.confirmed > 0).then(|| {
        format!(
            "{} of {}; {} confirmed, {} released or expired{open}",
            counted(sales.holds, "hold"),
            units(sales.held),
            counted(sales.confirmed, "hold"),
            units(sales.released)
        )
    })
}

/// Since when orders are known.
pub(super) fn since(report: &Report) -> Option<String> {
    let since = report.since()?.to_second();
    let before = signed_count(report.sales.sold_at_begin);
    Some(match &report.meta.checkpoint {
        Some(checkpoint) if checkpoint.removed > 0 => {
            format!("since {since} only: older entries were trimmed, of {before} units")
        }
        Some(_) => format!("since {since} only: taken over with {before} units sold"),
        None => format!("since {since} only: older entries are gone"),
    })
}

fn tone(report: &Report) -> Tone {
    match report.balance.verdict() {
        Verdict::Match => Tone::Good,
        Verdict::Drift => Tone::Bad,
        _ => Tone::Warn,
    }
}

/// Whether it adds up, and by what.
pub(super) fn verdict(report: &Report) -> String {
    let balance = &report.balance;
    let verdict = balance.verdict();
    let why = match balance.objection {
        None => {
            let sum = format!(
                "{} in stock + {} sold = {}",
                count(report.snapshot.stock.unwrap_or_default()),
                signed_count(report.sales.sold),
                count(report.meta.total)
            );
            let users = match (&report.users, balance.counters) {
                (None, _) => "",
                (Some(_), Some(_)) => ", as users hold",
                (Some(users), None) if users.unknown > 0 => "; what some users hold is not recorded",
                (Some(_), None) => "; the sale continued, so what users hold was not compared",
            };
            format!("{sum}{users}")
        }
        Some(objection) => against(report, objection),
    };
    format!("{verdict}: {why}")
}

fn against(report: &Report, objection: Objection) -> String {
    let (balance, sales, total) = (&report.balance, &report.sales, report.meta.total);
    let differ = |found: i64, expected: i64| {
        let (by, less) = (found.abs_diff(expected), found < expected);
        format!("{} too {}", units(by), if less { "few" } else { "many" })
    };
    match objection {
        Objection::Total => format!(
            "the total is {}, and {} by the ledger",
            count(total),
            sales.total.map_or_else(|| "none".to_owned(), count)
        ),
        Objection::NoStock => "the stock key is gone".to_owned(),
        Objection::Stock => {
            let stock = report.snapshot.stock.unwrap_or_default();
            let expected = signed(total).saturating_sub(sales.sold);
            let since = balance.since.map(|since| format!(", since {since} or shortly before"));
            format!("the stock of {} is {}{}", count(stock), differ(signed(stock), expected), since.unwrap_or_default())
        }
        Objection::Participants => {
            let counters = balance.counters.unwrap_or_default();
            format!("users hold {}, {} by the ledger", units(counters), differ(signed(counters), sales.sold))
        }
        Objection::NoBeginning => "the ledger lost its beginning, so nothing proves the sums".to_owned(),
        Objection::Unreadable => match &sales.unreadable {
            Some((id, why)) => format!("ledger entry {id} cannot be read: {why}"),
            None => "a ledger entry cannot be read".to_owned(),
        },
    }
}

/// What the charts leave out.
pub(super) fn later(report: &Report) -> Option<String> {
    let series = report.series.as_ref()?;
    let (shown, later) = (series.periods.last()?, series.later?);
    let mut what = Vec::new();
    if later.bought > 0 {
        what.push(format!("{} bought", units(later.bought)));
    }
    if later.returned > 0 {
        what.push(format!("{} returned", units(later.returned)));
    }
    if later.sold.saturating_sub(shown.sold) != signed(later.bought) - signed(later.returned) {
        what.push("repairs".to_owned());
    }
    // Of a total that is not known nothing else shows.
    if later.total != shown.total || what.is_empty() {
        what.push("a change of the total".to_owned());
    }
    let until = Millis::new(later.to.get().saturating_sub(1)).to_second();
    Some(format!("after that, until {until}: {}", what.join(", ")))
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `1 unit`, `12,345 units`.
pub(super) fn units(number: u64) -> String {
    counted(number, "unit")
}

pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number, noun))
}

/// A share that reads 100% only if it is, and 0% only if it is nothing.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    match share {
        0.0 => "0%".to_owned(),
        share if share < 0.1 => "<0.1%".to_owned(),
        share if share >= 100.0 => format!("{share:.0}%"),
        share => format!("{:.1}%", (share * 10.0).floor() / 10.0),
    }
}

/// A rate in three digits or so.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 0.0001 => "<0.0001".to_owned(),
        rate if rate < 0.1 => format!("{rate:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// The time between two instants: `3.412s`, or in two units, `1h 2m`.
pub(super) fn between(from: Millis, to: Millis) -> String {
    let millis = to.get().saturating_sub(from.get());
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}s", millis as f64 / 1000.0),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{}d {}h", count(days), hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_rounded_to_all_or_nothing() {
        let shares = [(0, 9), (1, 100_000), (999_999, 1_000_000), (5, 5), (7, 5), (1, 3), (0, 0)];
        let shown = shares.map(|(part, whole)| percent(part, whole));
        assert_eq!(shown, ["0%", "<0.1%", "99.9%", "100%", "140%", "33.3%", "0%"]);
    }

    #[test]
    fn times_and_rates_have_the_digits_that_are_needed() {
        let took = |millis: u64| between(Millis::new(5), Millis::new(5 + millis));
        assert_eq!([0, 412, 3000, 59_999, 61_999].map(took), ["0s", "0.412s", "3s", "59.999s", "1m 1s"]);
        assert_eq!([3_600_000, 86_399_999, 730_800_000].map(took), ["1h 0m", "23h 59m", "8d 11h"]);
        assert_eq!([0.002_91, 0.05, 0.000_001].map(rate), ["0.0029", "0.05", "<0.0001"]);
        assert_eq!([0.0, 0.25, 9.94, 9.96, 12_345.6].map(rate), ["0", "0.2", "9.9", "10", "12,346"]);
        assert_eq!((units(1), units(12_345)), ("1 unit".to_owned(), "12,345 units".to_owned()));
    }
}
