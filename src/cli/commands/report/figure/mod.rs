//! The report as a picture: figures, the sale over time (`plot`), and side by side, as bars, units a user and the largest buyers.

mod plot;

use crate::audit::result::Verdict;
use crate::cli::commands::inspect::rows::ParticipantRow;
use crate::cli::commands::report::facts::{self, between, count, counted, moment, percent, units};
use crate::cli::commands::report::figure::plot::short;
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::text::{state, window};
use crate::cli::output::format::svg::{Px, Svg, fitted, text_width};
use crate::cli::output::plural;
use crate::cli::output::text::filled;

/// The picture's width, and the room at its edges.
const WIDTH: f64 = 960.0;
const EDGE: f64 = 32.0;
/// Sizes of text.
const BODY: f64 = 13.0;
const SMALL: f64 = 12.0;
const VALUE: f64 = 21.0;
const TITLE: f64 = 22.0;
/// How much wider bold text is.
const BOLD: f64 = 1.12;

/// Colours for light and for dark surroundings. Viewers without the second part show the first.
const STYLE: &str = "
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Noto Sans CJK SC',sans-serif;font-size:13px;fill:#1f1e1c}
.title{font-size:22px;font-weight:600}.value{font-size:21px;font-weight:600}.head{font-size:14px;font-weight:600}
.small{font-size:12px}.dim{font-size:12px;fill:#66645f}.end{text-anchor:end}.mid{text-anchor:middle}
.page{fill:#ffffff}.tile{fill:#f5f4f1}.grid{stroke:#e4e2dd}.axis{stroke:#a3a19b}
.sold{fill:none;stroke:#2a6fc9;stroke-width:2;stroke-linejoin:round}.area{fill:#2a6fc9;fill-opacity:.14}
.bought{fill:#2a6fc9}.returned{fill:#c8621a}.total{fill:none;stroke:#66645f;stroke-dasharray:5 4}
.paused{fill:#1f1e1c;fill-opacity:.06}.mark{stroke:#66645f;stroke-dasharray:2 3}.dot{fill:#66645f}
.soldout{stroke:#1f1e1c}.good{fill:#1f7a3f}.bad{fill:#b3261e}.warn{fill:#8f5a00}
.tip{fill:#1f1e1c;fill-opacity:0}.tip:hover{fill-opacity:.08}
@media (prefers-color-scheme:dark){
text{fill:#eceae5}.dim{fill:#a8a69f}
.page{fill:#191918}.tile{fill:#252523}.grid{stroke:#363532}.axis{stroke:#74726c}
.sold{stroke:#5b9df0}.area{fill:#5b9df0;fill-opacity:.2}.bought{fill:#5b9df0}.returned{fill:#ee8f4a}
.total{stroke:#a8a69f}.paused{fill:#eceae5;fill-opacity:.1}.mark{stroke:#a8a69f}.dot{fill:#a8a69f}
.soldout{stroke:#eceae5}.good{fill:#5cc481}.bad{fill:#ff8a80}.warn{fill:#e6b04d}
.tip{fill:#eceae5}
}
";

/// The whole picture.
pub(super) fn draw(report: &Report) -> String {
    let lists: Vec<List> = [users(report), top_buyers(report)].into_iter().filter(|it| !it.rows.is_empty()).collect();
    let longest = lists.iter().map(|list| list.rows.len()).max();
    let notes = notes(report);
    let top = 178.0;
    let plots = if report.series.is_some() { plot::HEIGHT } else { 60.0 };
    let below = top + plots;
    let noted = below + longest.map_or(0.0, |rows| 52.0 + ROW * rows as f64);
    let height = noted + 22.0 + 19.0 * notes.len() as f64;
    let name = name(report);
    let mut svg = Svg::new((WIDTH, height), &format!("Sale of {name}"), &description(report), STYLE);
    svg.shape("rect", &[("class", &"page"), ("width", &Px(WIDTH)), ("height", &Px(height))], None);
    header(report, &name, &mut svg);
    tiles(report, &mut svg);
    match &report.series {
        Some(series) => plot::draw(report, series, top, &mut svg),
        None => svg.write(EDGE, top + 30.0, "dim", facts::no_orders(report)),
    }
    let half = (WIDTH - 2.0 * EDGE - GAP) / 2.0;
    for (list, index) in lists.iter().zip(0i32..) {
        list.draw(EDGE + f64::from(index) * (half + GAP), below, half, &mut svg);
    }
    for (line, index) in notes.iter().zip(0i32..) {
        svg.write(EDGE, noted + 12.0 + 19.0 * f64::from(index), "dim", line);
    }
    svg.finish()
}

/// What the activity is called.
fn name(report: &Report) -> String {
    match report.meta.title.is_empty() {
        true => report.snapshot.activity.to_string(),
        false => format!("{} ({})", report.meta.title, report.snapshot.activity),
    }
}

/// All facts, for who cannot see the picture.
fn description(report: &Report) -> String {
    let facts: Vec<String> = facts::all(report).iter().map(|fact| format!("{}: {}.", fact.name, fact.text)).collect();
    facts.join(" ")
}

fn header(report: &Report, name: &str, svg: &mut Svg) {
    svg.write(EDGE, 46.0, "title", &fitted(name, WIDTH - 2.0 * EDGE, TITLE * BOLD));
    let mut parts = vec![state(report)];
    parts.extend(window(report).map(|window| format!("window {window}")));
    parts.extend(facts::since(report).map(|since| format!("known {since}")));
    svg.write(EDGE, 69.0, "dim", &fitted(&parts.join(" · "), WIDTH - 2.0 * EDGE, SMALL));
}

/// A figure with its name above and a detail below.
struct Tile {
    name: &'static str,
    value: String,
    class: &'static str,
    detail: String,
}

fn tiles(report: &Report, svg: &mut Svg) {
    let all = [sold(report), sold_out(report), peak(report), buyers(report), returned(report), verdict(report)];
    let gap = 10.0;
    let width = (WIDTH - 2.0 * EDGE - gap * 5.0) / 6.0;
    let room = width - 20.0;
    for (tile, index) in all.into_iter().zip(0i32..) {
        let x = EDGE + f64::from(index) * (width + gap);
        let left = x + 12.0;
        let tip = format!("{}: {}, {}", tile.name, tile.value, tile.detail);
        svg.rect("tile", (x, 86.0), (width, 76.0), 6.0, Some(&tip));
        svg.write(left, 106.0, "dim", tile.name);
        let class = format!("value {}", tile.class);
        svg.write(left, 131.0, class.trim_end(), &fitted(&tile.value, room, VALUE * BOLD));
        svg.write(left, 151.0, "dim", &fitted(&tile.detail, room, SMALL));
    }
}

/// A number that has room.
fn large(number: u64) -> String {
    if number < 1_000_000 { count(number) } else { short(number as f64) }
}

fn few(number: u64, noun: &str) -> String {
    format!("{} {}", large(number), plural(number, noun))
}

fn tile(name: &'static str, value: impl Into<String>, detail: impl Into<String>) -> Tile {
    Tile { name, value: value.into(), class: "", detail: detail.into() }
}

fn sold(report: &Report) -> Tile {
    let sold = u64::try_from(report.sales.sold).unwrap_or_default();
    tile("Sold", percent(sold, report.meta.total), few(sold, "unit"))
}

fn sold_out(report: &Report) -> Tile {
    let Some(at) = report.sales.sold_out_at else {
        return match report.snapshot.stock {
            Some(0) => tile("Sold out", "yes", "when is not known"),
            Some(stock) => tile("Sold out", "no", format!("{} left", few(stock, "unit"))),
            None => tile("Sold out", "no", ""),
        };
    };
    match (report.opened_at(), report.sales.first_order) {
        (Some(start), _) => tile("Sold out in", between(start, at), "after the start"),
        (None, Some(first)) => tile("Sold out in", between(first, at), "since first order"),
        (None, None) => tile("Sold out", at.clock(1000), ""),
    }
}

fn peak(report: &Report) -> Tile {
    match report.sales.peak {
        Some(peak) => tile("Most in a second", large(peak.units), format!("at {}", moment(report, peak.at))),
        None => tile("Most in a second", "-", "no orders"),
    }
}

fn buyers(report: &Report) -> Tile {
    let orders = few(report.sales.orders, "order");
    match report.snapshot.buyers {
        Some(buyers) => tile("Users with units", large(buyers), orders),
        None => tile("Orders", large(report.sales.orders), few(report.sales.bought, "unit")),
    }
}

fn returned(report: &Report) -> Tile {
    let sales = &report.sales;
    match sales.refunds {
        0 => tile("Units returned", "0", "no refunds"),
        _ => tile(
            "Units returned",
            large(sales.returned),
            format!("{} of bought", percent(sales.returned, sales.bought)),
        ),
    }
}

fn verdict(report: &Report) -> Tile {
    let verdict = report.balance.verdict();
    let (class, detail) = match verdict {
        Verdict::Match => ("good", "the sums agree"),
        Verdict::Drift => ("bad", "see below"),
        _ => ("warn", "see below"),
    };
    Tile { class, ..tile("Verdict", verdict.name(), detail) }
}

/// What the figures rest on, in lines that fit.
fn notes(report: &Report) -> Vec<String> {
    let activity = &report.snapshot.activity;
    let mut notes: Vec<String> = facts::pace(report).map(|pace| format!("Pace: {pace}.")).into_iter().collect();
    notes.push(format!("Verdict by sums, {}.", facts::verdict(report)));
    notes.push(format!("The full audit, user by user, is `seckill reconcile {activity:#}`."));
    let room = WIDTH - 2.0 * EDGE;
    // A line ends a letter's height before the edge.
    let columns = ((room - SMALL) / text_width(" ", SMALL)) as usize + 1;
    notes.iter().flat_map(|note| filled(note.split(' ').map(|word| fitted(word, room, SMALL)), columns)).collect()
}

/// Rows of a list.
const MAX_ROWS: usize = 10;
const ROW: f64 = 22.0;
/// Room between the lists.
const GAP: f64 = 40.0;

struct Row {
    name: String,
    /// Of the longest bar.
    share: f64,
    value: String,
}

/// What is known of users; without rows in layouts without them.
struct List {
    head: String,
    rows: Vec<Row>,
}

impl List {
    fn draw(&self, x: f64, top: f64, width: f64, svg: &mut Svg) {
        svg.write(x, top + 22.0, "head", &fitted(&self.head, width, 14.0));
        let widest =
            |text: fn(&Row) -> &str| self.rows.iter().map(|row| text_width(text(row), BODY)).fold(0.0, f64::max);
        let names = widest(|row| &row.name).min(width * 0.4);
        let values = widest(|row| &row.value);
        let (left, room) = (x + names + 12.0, width - names - values - 22.0);
        for (row, row_index) in self.rows.iter().zip(0i32..) {
            let y = top + 36.0 + ROW * f64::from(row_index);
            let tip = format!("{}: {}", row.name, row.value);
            svg.write(x, y + 13.0, "", &fitted(&row.name, names + 8.0, BODY));
            let long = (room * row.share).max(2.0);
            svg.rect("bought", (left, y + 2.0), (long, 14.0), 2.0, Some(&tip));
            svg.write(left + long + 8.0, y + 13.0, "dim", &row.value);
        }
    }
}

fn users(report: &Report) -> List {
    let ranges = report.ranges();
    let all: u64 = ranges.iter().map(|range| range.users).sum();
    let most = ranges.iter().map(|range| range.users).max().unwrap_or(1);
    // Of many ranges the first are shown, and the rest as one.
    let shown = if ranges.len() > MAX_ROWS { MAX_ROWS - 1 } else { ranges.len() };
    let row = |name, users| Row {
        name,
        share: (users as f64 / most as f64).min(1.0),
        value: format!("{} ({})", count(users), percent(users, all)),
    };
    let mut rows: Vec<Row> = ranges[..shown].iter().map(|range| row(range.label(), range.users)).collect();
    if let Some(next) = ranges.get(shown) {
        let users = ranges[shown..].iter().map(|range| range.users).sum();
        rows.push(row(format!("{} and more", count(next.from)), users));
    }
    let unknown = report.users.as_ref().map_or(0, |users| users.unknown);
    let head = match unknown {
        0 => "Units a user".to_owned(),
        unknown => format!("Units a user (of {} not recorded)", counted(unknown, "user")),
    };
    List { head, rows }
}

fn top_buyers(report: &Report) -> List {
    let buyers = report.participants();
    let most = buyers.iter().filter_map(|buyer| buyer.bought.units()).max().unwrap_or(1).max(1);
    let row = |buyer: &ParticipantRow| Row {
        name: buyer.user.to_string(),
        share: buyer.bought.units().map_or(0.0, |held| held as f64 / most as f64),
        value: buyer.bought.units().map_or_else(|| "?".to_owned(), units),
    };
    List { head: "Top buyers".to_owned(), rows: buyers.iter().take(MAX_ROWS).map(row).collect() }
}
