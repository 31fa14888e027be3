//! Tables for people.
//!
//! tabled draws them, and holds a whole table in memory to do so. What comes after the first page of a long one is
//! therefore drawn line by line, to the widths of that page.

pub(super) mod cell;
pub(in crate::cli::output) mod fit;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::style::HorizontalLine;
use tabled::settings::{Alignment, Padding, Style};

use crate::cli::output::table::cell::Cell;
use crate::cli::output::table::fit::{GAP, TableColumn, TableLayout};
use crate::cli::output::text::{Tone, cut, paint, width};

/// A table whose columns are decided.
#[derive(Debug)]
pub(crate) struct Table {
    fitted: TableLayout,
    coloured: bool,
}

impl Table {
    /// A table with columns for these rows, and for others like them.
    pub(crate) fn new(headings: &[&str], rows: &[Vec<Cell>], most: Option<usize>, coloured: bool) -> Self {
        Self { fitted: TableLayout::new(headings, rows, most), coloured }
    }

    /// The same with columns that are no narrower than before, and a number of last ones that may go early.
    pub(crate) fn steady(
        headings: &[&str],
        rows: &[Vec<Cell>],
        (most, spare): (usize, usize),
        coloured: bool,
        floors: &mut Vec<usize>,
    ) -> Self {
        Self { fitted: TableLayout::steady(headings, rows, (most, spare), floors), coloured }
    }

    /// Headings of the columns that have no room.
    pub(crate) fn hidden(&self) -> &[String] {
        &self.fitted.hidden
    }

    /// Columns that this one of the rows' columns has; `None` if it is hidden.
    pub(crate) fn room(&self, index: usize) -> Option<usize> {
        self.fitted.columns.iter().find(|column| column.index == index).map(|column| column.width)
    }

    /// The headings and the first rows.
    pub(crate) fn page(&self, rows: &[Vec<Cell>]) -> String {
        let columns = &self.fitted.columns;
        let mut builder = Builder::with_capacity(rows.len() + 1, columns.len());
        builder.push_record(columns.iter().map(|column| self.heading(column)));
        for row in rows {
            builder.push_record(
                columns
                    .iter()
                    .map(|column| row.get(column.index).map_or_else(String::new, |cell| self.cell(cell, column))),
            );
        }
        let mut table = builder.build();
        table
            .with(Style::empty().horizontals([(1, HorizontalLine::new('─'))]))
            .with(Padding::new(0, GAP, 0, 0))
            .modify(Columns::last(), Padding::zero());
        for (at, _) in columns.iter().enumerate().filter(|(_, column)| column.right) {
            table.modify(Columns::one(at), Alignment::right());
        }
        // The blanks after the last column would wrap on a terminal that has just become narrower.
        table.to_string().lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    /// Appends one more row, to the same widths.
    pub(crate) fn line(&self, row: &[Cell], line: &mut String) {
        let mut owed = 0;
        for (at, column) in self.fitted.columns.iter().enumerate() {
            let Some(cell) = row.get(column.index) else { continue };
            let columns = if self.fitted.bounded { column.width } else { column.width.max(cell.width()) };
            let shown = cell.shown(columns);
            let blank = column.width.saturating_sub(width(&shown));
            let (before, after) = if column.right { (blank, 0) } else { (0, blank) };
            let gap = if at == 0 { 0 } else { GAP };
            line.extend(std::iter::repeat_n(' ', owed + gap + before));
            paint(line, &shown, cell.tone, self.coloured);
            owed = after;
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
    }

    /// A heading as wide as its column, so that tabled cannot find a narrower one.
    fn heading(&self, column: &TableColumn) -> String {
        let heading = cut(&column.heading, column.width);
        let blank = " ".repeat(column.width - width(&heading));
        let mut text = String::new();
        if column.right {
            text.push_str(&blank);
        }
        paint(&mut text, &heading, Tone::Strong, self.coloured);
        if !column.right {
            text.push_str(&blank);
        }
        text
    }

    fn cell(&self, cell: &Cell, column: &TableColumn) -> String {
        let mut text = String::new();
        for (index, line) in cell.lines(column.width).iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "\n" });
            paint(&mut text, line, cell.tone, self.coloured);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let mut lines = String::new();
                for row in rows() {
                    table.line(&row, &mut lines);
                }
                let page = table.page(&rows());
                assert_eq!(page.lines().skip(2).collect::<Vec<_>>(), lines.lines().collect::<Vec<_>>(), "{most:?}");
            }
        }
    }
}
