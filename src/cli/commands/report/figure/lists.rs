//! Units a user and the largest buyers, side by side, as bars with names.

use crate::cli::commands::report::figure::{BODY, EDGE, WIDTH};
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::words::{count, percent, units};
use crate::cli::output::format::svg::{Px, Svg, fitted, text_width};

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

struct List {
    head: String,
    rows: Vec<Row>,
}

/// What is known of users; nothing in layouts without them.
pub(super) struct Lists(Vec<List>);

impl Lists {
    pub(super) fn new(report: &Report) -> Self {
        Self([users(report), buyers(report)].into_iter().filter(|list| !list.rows.is_empty()).collect())
    }

    pub(super) fn height(&self) -> f64 {
        let rows = self.0.iter().map(|list| list.rows.len()).max();
        rows.map_or(0.0, |rows| 52.0 + ROW * rows as f64)
    }

    pub(super) fn draw(&self, top: f64, svg: &mut Svg) {
        let width = (WIDTH - 2.0 * EDGE - GAP) / 2.0;
        for (list, row_index) in self.0.iter().zip(0i32..) {
            list.draw(EDGE + f64::from(row_index) * (width + GAP), top, width, svg);
        }
    }
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
            let bar: &[(&str, &dyn std::fmt::Display)] = &[
                ("class", &"bought"),
                ("x", &Px(left)),
                ("y", &Px(y + 2.0)),
                ("width", &Px(long)),
                ("height", &Px(14.0)),
                ("rx", &Px(2.0)),
            ];
            svg.shape_with_tip("rect", bar, &tip);
            svg.write(left + long + 8.0, y + 13.0, "dim", &row.value);
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn users(report: &Report) -> List {
    let ranges = report.ranges();
    let all: u64 = ranges.iter().map(|range| range.users).sum();
    let most = ranges.iter().map(|range| range.users).max().unwrap_or(1);
    // Of many ranges the first are shown, and the rest as one.
    let shown = if ranges.len() > MAX_ROWS { MAX_ROWS - 1 } else { ranges.len() };
    let mut rows: Vec<Row> = ranges[..shown]
        .iter()
        .map(|range| Row {
            name: range.label(),
            share: range.users as f64 / most as f64,
            value: format!("{} ({})", count(range.users), percent(range.users, all)),
        })
        .collect();
    if let Some(next) = ranges.get(shown) {
        let users: u64 = ranges[shown..].iter().map(|range| range.users).sum();
        rows.push(Row {
            name: format!("{} and more", count(next.from)),
            share: (users as f64 / most as f64).min(1.0),
            value: format!("{} ({})", count(users), percent(users, all)),
        });
    }
    let unknown = report.users.as_ref().map_or(0, |users| users.unknown);
    let head = match unknown {
        0 => "Units a user".to_owned(),
        unknown => format!("Units a user (of {} users not recorded)", count(unknown)),
    };
    List { head, rows }
}

#[allow(clippy::cast_precision_loss)]
fn buyers(report: &Report) -> List {
    let most = report.buyers.iter().filter_map(|(_, units)| *units).max().unwrap_or(1).max(1);
    let rows = report.buyers.iter().take(MAX_ROWS).map(|(user, held)| Row {
        name: user.to_string(),
        share: held.map_or(0.0, |held| held as f64 / most as f64),
        value: held.map_or_else(|| "?".to_owned(), units),
    });
    List { head: "Top buyers".to_owned(), rows: rows.collect() }
}
