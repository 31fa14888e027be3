//! Tables for people: how wide each column is, and which ones a narrow terminal has no room for.
//!
//! tabled draws them, and holds a whole table in memory to do so. What comes after the first page of a long one is therefore drawn
//! line by line, to the widths of that page.

pub(super) mod cell;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::style::HorizontalLine;
use tabled::settings::{Alignment, Padding, Style};

use crate::cli::output::table::cell::{BAR_WIDTH, Cell, Content, PERCENT_WIDTH};
use crate::cli::output::text::{Tone, cut, paint, width};
use crate::model::time::RELATIVE_WIDTH;

/// A table whose columns are decided, once.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<TableColumn>,
    /// Headings of the columns that have no room.
    pub(crate) hidden: Vec<String>,
    /// Whether a cell that is too long is cut; else it pushes the rest of its line to the right.
    bounded: bool,
    coloured: bool,
}

impl Table {
    /// Columns that this one of the rows' columns has; `None` if it is hidden.
    pub(crate) fn room(&self, index: usize) -> Option<usize> {
        self.columns.iter().find(|column| column.index == index).map(|column| column.width)
    }

    /// The headings and the first rows.
    pub(crate) fn page(&self, rows: &[Vec<Cell>]) -> String {
        let mut builder = Builder::with_capacity(rows.len() + 1, self.columns.len());
        builder.push_record(self.columns.iter().map(|column| self.heading(column)));
        for row in rows {
            builder.push_record(self.columns.iter().map(|column| self.cell(&row[column.index], column)));
        }
        let mut table = builder.build();
        table
            .with(Style::empty().horizontals([(1, HorizontalLine::new('─'))]))
            .with(Padding::new(0, GAP, 0, 0))
            .modify(Columns::last(), Padding::zero());
        for (at, _) in self.columns.iter().enumerate().filter(|(_, column)| column.right) {
            table.modify(Columns::one(at), Alignment::right());
        }
        // The blanks after the last column would wrap on a terminal that has just become narrower.
        table.to_string().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    /// A heading as wide as its column, so that tabled cannot find a narrower one.
    fn heading(&self, column: &TableColumn) -> String {
        let heading = cut(&column.heading, column.width);
        let blank = " ".repeat(column.width - width(&heading));
        let mut text = String::new();
        paint(&mut text, &heading, Tone::Strong, self.coloured);
        if column.right { blank + &text } else { text + &blank }
    }

    /// A cell, over as many lines as it needs.
    fn cell(&self, cell: &Cell, column: &TableColumn) -> String {
        let mut text = String::new();
        for (index, line) in cell.lines(column.width).iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "\n" });
            paint(&mut text, line, cell.tone, self.coloured);
        }
        text
    }

    /// One more row, to the same widths.
    pub(crate) fn line(&self, row: &[Cell]) -> String {
        let (mut line, mut owed) = (String::new(), 0);
        for (at, column) in self.columns.iter().enumerate() {
            let cell = &row[column.index];
            let columns = if self.bounded { column.width } else { column.width.max(cell.width()) };
            let shown = cell.shown(columns);
            let blank = column.width.saturating_sub(width(&shown));
            let (before, after) = if column.right { (blank, 0) } else { (0, blank) };
            let gap = if at == 0 { 0 } else { GAP };
            line.extend(std::iter::repeat_n(' ', owed + gap + before));
            paint(&mut line, &shown, cell.tone, self.coloured);
            owed = after;
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Spaces between two columns.
pub(crate) const GAP: usize = 2;

/// Columns of a title that is cut and still says what it names.
const LEGIBLE: usize = 12;

/// The columns as wide as what they hold.
fn natural(headings: &[&str], rows: &[Vec<Cell>]) -> Vec<TableColumn> {
    headings.iter().enumerate().map(|(index, heading)| TableColumn::new(index, heading, rows)).collect()
}

/// One column as it is drawn.
#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    pub(crate) index: usize,
    pub(crate) heading: String,
    pub(crate) width: usize,
    pub(crate) right: bool,
    bar: bool,
    time: bool,
    flexible: bool,
    minor: bool,
    empty: bool,
}

impl Table {
    /// Fits the columns to these rows, and to a width if there is one. Others like them can follow.
    pub(crate) fn new(headings: &[&str], rows: &[Vec<Cell>], most: Option<usize>, coloured: bool) -> Self {
        let columns = natural(headings, rows);
        let mut fitted = Self { columns, hidden: Vec::new(), bounded: most.is_some(), coloured };
        if let Some(most) = most {
            // What says nothing goes first.
            let is_tight = fitted.total() > most;
            let goes = |column: &mut TableColumn| is_tight && column.empty && column.index > 0;
            let empty: Vec<TableColumn> = fitted.columns.extract_if(.., goes).collect();
            fitted.narrow(most);
            fitted.hidden.extend(empty.into_iter().map(|column| column.heading));
        }
        fitted
    }

    /// The same with columns that are no narrower than they were before, if there is room; what they would take now is
    /// kept for the next time. This many of the last columns go before titles and bars become hard to read.
    pub(crate) fn steady(
        headings: &[&str],
        rows: &[Vec<Cell>],
        (most, spare): (usize, usize),
        coloured: bool,
        floors: &mut Vec<usize>,
    ) -> Self {
        let mut columns = natural(headings, rows);
        floors.resize(columns.len(), 0);
        for (column, floor) in columns.iter_mut().zip(floors) {
            *floor = column.width.max(*floor);
            column.width = *floor;
        }
        let mut fitted = Self { columns, hidden: Vec::new(), bounded: true, coloured };
        for _ in 0..spare {
            let given = |column: &TableColumn| match column {
                TableColumn { bar: true, .. } => column.width.saturating_sub(BAR_WIDTH - 5),
                TableColumn { flexible: true, .. } => column.width.saturating_sub(LEGIBLE),
                _ => 0,
            };
            if fitted.total() <= most + fitted.columns.iter().map(given).sum::<usize>() {
                break;
            }
            fitted.hidden.extend(fitted.columns.pop().map(|column| column.heading));
        }
        fitted.narrow(most);
        fitted
    }

    /// Makes it fit. What loses least goes first: a bar is legible when it is short, a time when it is relative to now, a
    /// title when it is cut; a number that is cut is a lie, so its column goes as a whole, minor ones before a title is cut
    /// short and others after it, the last one first.
    fn narrow(&mut self, most: usize) {
        let mut natural: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let mut gone = Vec::new();
        loop {
            self.shrink(most, |column| column.bar.then_some(BAR_WIDTH - 5));
            self.shorten_times(most);
            self.shrink(most, |column| column.flexible.then_some(LEGIBLE));
            let minor = self.columns.iter().rposition(|column| column.minor);
            if minor.is_none() {
                self.shrink(most, |column| column.flexible.then_some(8));
                self.shrink(most, |column| column.bar.then_some(PERCENT_WIDTH));
                self.shrink(most, |column| column.flexible.then_some(4));
            }
            if self.total() <= most || self.columns.len() == 1 {
                break;
            }
            let goes = minor.unwrap_or(self.columns.len() - 1);
            natural.remove(goes);
            gone.push(self.columns.remove(goes));
            // The room it leaves may be enough for what was cut.
            for (column, natural) in self.columns.iter_mut().zip(&natural) {
                column.width = *natural;
            }
        }
        gone.sort_by_key(|column| column.index);
        // Those that `steady` left out were to the right of these.
        self.hidden.extend(gone.into_iter().rev().map(|column| column.heading));
        self.hidden.retain(|heading| !heading.is_empty());
        self.hidden.reverse();
        if let [only] = self.columns.as_mut_slice() {
            only.width = only.width.min(most);
        }
    }

    /// Makes times relative to now, the last column first.
    fn shorten_times(&mut self, most: usize) {
        let mut total = self.total();
        for column in self.columns.iter_mut().rev().filter(|column| column.time) {
            let short = RELATIVE_WIDTH.max(width(&column.heading));
            if total > most && column.width > short {
                total -= column.width - short;
                column.width = short;
            }
        }
    }

    /// Takes what is too much from the columns that can give, down to the least each can do with.
    fn shrink(&mut self, most: usize, least: impl Fn(&TableColumn) -> Option<usize>) {
        let mut excess = self.total().saturating_sub(most);
        while excess > 0 {
            // From the widest, so that a long title does not starve a short one.
            let widest =
                self.columns.iter_mut().filter(|column| least(column).is_some_and(|least| column.width > least));
            let Some(column) = widest.max_by_key(|column| column.width) else { return };
            column.width -= 1;
            excess -= 1;
        }
    }

    fn total(&self) -> usize {
        let widths: usize = self.columns.iter().map(|column| column.width).sum();
        widths + GAP * self.columns.len().saturating_sub(1)
    }
}

impl TableColumn {
    fn new(index: usize, heading: &str, rows: &[Vec<Cell>]) -> Self {
        let cells = || rows.iter().filter_map(|row| row.get(index));
        let heading = heading.to_uppercase();
        Self {
            index,
            width: cells().map(Cell::width).max().unwrap_or(0).max(width(&heading)),
            right: cells().any(|cell| matches!(cell.content, Content::Number(_))),
            bar: cells().any(|cell| matches!(cell.content, Content::Bar(_))),
            time: cells().any(|cell| matches!(cell.content, Content::Time(..))),
            flexible: cells().any(|cell| cell.flexible),
            minor: cells().any(|cell| cell.minor),
            empty: cells().all(|cell| cell.width() == 0),
            heading,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    fn rows() -> Vec<Vec<Cell>> {
        let row = |id: &str, title: &str, share: f64, left: u64| {
            vec![Cell::text(id), Cell::text(title).flexible(), Cell::bar(share), Cell::number(left)]
        };
        vec![
            row("1001", "Double-11 phone", 0.5, 50),
            row("双11", "手机 📱 家庭装 👩‍👩‍👧", 1.0, 0),
            row("c", "evil \u{1b}[2J", 0.0, 123_456),
        ]
    }

    fn drawn(most: Option<usize>) -> String {
        Table::new(&["activity", "title", "sold", "left"], &rows(), most, false).page(&rows())
    }

    #[test]
    fn chinese_and_emoji_are_aligned() {
        let expected = "\
ACTIVITY  TITLE              SOLD               LEFT
────────────────────────────────────────────────────
1001      Double-11 phone    █████░░░░░  50%      50
双11      手机 📱 家庭装 👩‍👩‍👧  ██████████ 100%       0
c         evil \\u{1b}[2J     ░░░░░░░░░░   0%  123456
";
        assert_eq!(drawn(None), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for most in 1..60 {
            for line in drawn(Some(most)).lines() {
                assert!(width(line) <= most, "{most}: {line}");
            }
        }
    }

    #[test]
    fn a_cell_that_wraps_is_shown_whole_beside_the_others() {
        let rows = [
            vec![Cell::text("clock"), Cell::text("ok"), Cell::text("0.5 ms behind this machine").wraps()],
            vec![Cell::text("memory"), Cell::text("warn"), Cell::text("without maxmemory").flexible()],
        ];
        let expected = "\
CHECK   STATUS  FOUND
─────────────────────────────
clock   ok      0.5 ms behind
                this machine
memory  warn    without maxm…
";
        assert_eq!(Table::new(&["check", "status", "found"], &rows, Some(29), false).page(&rows), expected);
    }

    #[test]
    fn a_later_line_looks_like_one_of_the_page() {
        for most in (1..60).map(Some).chain([None]) {
            for coloured in [false, true] {
                let table = Table::new(&["activity", "title", "sold", "left"], &rows(), most, coloured);
                let lines: String = rows().iter().map(|row| table.line(row)).collect();
                let page = table.page(&rows());
                assert_eq!(page.lines().skip(2).collect::<Vec<_>>(), lines.lines().collect::<Vec<_>>(), "{most:?}");
            }
        }
    }

    /// The widths of the columns that have room, and the names of those that have none.
    fn fit<const N: usize>(names: [&str; N], row: [Cell; N], most: usize) -> (Vec<usize>, Vec<String>) {
        let fitted = Table::new(&names, &[row.into()], Some(most), false);
        (fitted.columns.iter().map(|column| column.width).collect(), fitted.hidden)
    }

    const NAMES: [&str; 4] = ["activity", "title", "share", "left"];

    #[test]
    fn an_id_is_cut_only_if_it_would_leave_no_room_for_the_rest() {
        let of = |id: &str| fit(NAMES, [Cell::id(id), Cell::text("phone"), Cell::bar(0.5), Cell::number(50)], 40);
        assert_eq!(of("2026-11-11-phone-256-red").0[0], 24);
        assert_eq!(of(&"long".repeat(24)), (vec![15, 5, 10, 4], Vec::new()));
    }

    fn sold() -> [Cell; 4] {
        [Cell::text("1001"), Cell::text("Double-11 phone").flexible(), Cell::bar(0.5), Cell::number(50)]
    }

    #[test]
    fn what_loses_least_is_narrowed_first_and_a_number_is_left_out_rather_than_cut() {
        for (most, widths) in [
            (48, &[8, 15, 15, 4][..]),
            (43, &[8, 15, 10, 4]),
            (36, &[8, 8, 10, 4]),
            (30, &[8, 8, 4, 4]),
            (26, &[8, 4, 4, 4]),
            (5, &[5]),
        ] {
            assert_eq!(fit(NAMES, sold(), most).0, widths, "{most}");
        }
        let (widths, hidden) = fit(NAMES, sold(), 20);
        assert_eq!((widths.len(), hidden), (3, vec!["LEFT".to_owned()]));
    }

    #[test]
    fn spare_columns_go_before_a_title_is_cut_short_and_widths_stay() {
        let mut floors = vec![0, 20];
        let mut fit = |most, spare| {
            let fitted = Table::steady(&NAMES, &[sold().into()], (most, spare), false, &mut floors);
            fitted.columns.iter().map(|column| column.width).collect::<Vec<_>>()
        };
        assert_eq!(fit(80, 2), [8, 20, 15, 4]);
        assert_eq!(fit(40, 2), [8, 12, 10, 4]);
        assert_eq!(fit(39, 2), [8, 17, 10]);
        assert_eq!(fit(39, 0), [8, 11, 10, 4]);
        assert_eq!(fit(20, 2), [8, 10]);
    }

    #[test]
    fn an_empty_column_goes_before_anything_is_cut() {
        let row = || [Cell::text("a user of a shop").flexible(), Cell::text(""), Cell::number(50)];
        let fit = |most| fit(["user", "reason", "left"], row(), most);
        assert!(fit(30).1.is_empty());
        assert_eq!(fit(29), (vec![16, 4], vec!["REASON".to_owned()]));
    }

    #[test]
    fn a_minor_column_goes_before_a_title_is_cut_short_and_before_the_last_one() {
        let row = || [Cell::text("Double-11 phone").flexible(), Cell::text("1".repeat(36)).minor(), Cell::number(50)];
        let widths = |most| fit(["title", "request", "left"], row(), most).0;
        assert_eq!((widths(56), widths(55)), (vec![12, 36, 4], vec![15, 4]));
        let row = || [Cell::text("lua"), Cell::number("1.5").minor(), Cell::number(50), Cell::text("ok")];
        let hidden = |most| fit(["strategy", "mean", "errors", "verdict"], row(), most).1;
        assert_eq!([31, 30, 25].map(|most| hidden(most).join(" ")), ["", "MEAN", "MEAN"]);
        assert_eq!(hidden(24), ["MEAN", "VERDICT"]);
    }

    #[test]
    fn times_are_relative_before_a_column_is_cut_or_dropped() {
        let time = || Cell::time(Millis::new(0));
        let row = || [Cell::text("a user of a shop").flexible(), time(), time(), Cell::number(50)];
        let fit = |most| fit(["user", "begin", "end", "left"], row(), most);
        for (most, widths) in
            [(76, [16, 25, 25, 4]), (75, [16, 25, 11, 4]), (48, [16, 11, 11, 4]), (47, [15, 11, 11, 4])]
        {
            assert_eq!(fit(most).0, widths, "{most}");
        }
        assert_eq!(fit(30).1, ["LEFT"]);
    }
}
