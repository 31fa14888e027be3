//! What there is to say of a sale, in sentences.

use crate::audit::result::Verdict;
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::words::{between, count, counted, percent, rate, units};
use crate::cli::output::Tone;
use crate::model::number::signed;
use crate::model::time::Millis;
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
        let left = report.snapshot.stock.map_or_else(
            || "nobody knows how many units are left".to_owned(),
            |stock| format!("{} {} left", units(stock), if stock == 1 { "is" } else { "are" }),
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

/// How fast it went.
pub(super) fn pace(report: &Report) -> Option<String> {
    let peak = report.sales.peak?;
    let timeline = &report.sales.timeline;
    let within = |percent| Some(between(report.begin()?, timeline.bought_by(percent)?));
    let mut parts = Vec::new();
    // Of what came in one instant there is no average.
    if let Some(mean) = report.sales.rate() {
        parts.push(format!("half was bought within {}, 90% within {}", within(50)?, within(90)?));
        parts.push(format!("{} units a second on average", rate(mean)));
    }
    parts.push(format!("at most {} in the second of {}", count(peak.units), peak.at.clock(1000)));
    Some(parts.join(", "))
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
                count(balance.stock.unwrap_or_default()),
                signed_count(balance.sold),
                count(balance.total)
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
    let (balance, sales) = (&report.balance, &report.sales);
    let differ = |found: i64, expected: i64| {
        let (by, less) = (found.abs_diff(expected), found < expected);
        format!("{} too {}", units(by), if less { "few" } else { "many" })
    };
    match objection {
        Objection::Total => format!(
            "the total is {}, and {} by the ledger",
            count(balance.total),
            sales.total.map_or_else(|| "none".to_owned(), count)
        ),
        Objection::NoStock => "the stock key is gone".to_owned(),
        Objection::Stock => {
            let stock = balance.stock.unwrap_or_default();
            let expected = signed(balance.total) - balance.sold;
            let since = balance.since.map(|since| format!(", since {since} or shortly before"));
            format!("the stock of {} is {}{}", count(stock), differ(signed(stock), expected), since.unwrap_or_default())
        }
        Objection::Participants => {
            let counters = balance.counters.unwrap_or_default();
            format!("users hold {}, {} by the ledger", units(counters), differ(signed(counters), balance.sold))
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
    let later = report.series.as_ref()?.later?;
    let mut what = Vec::new();
    if later.bought > 0 {
        what.push(format!("{} bought", units(later.bought)));
    }
    if later.returned > 0 {
        what.push(format!("{} returned", units(later.returned)));
    }
    if what.is_empty() {
        what.push("repairs".to_owned());
    }
    let until = Millis::new(later.to.get().saturating_sub(1)).to_second();
    Some(format!("after that, until {until}: {}", what.join(", ")))
}
