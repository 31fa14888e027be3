//! One frame of a screen: lines that fit its width, and a table whose columns keep their place.

use tabled::grid::util::string::get_line_width;

use crate::cli::output::cell::{cut, width};
use crate::cli::output::escape::escape;
use crate::cli::output::paint::{Tone, paint};
use crate::cli::output::rows::Row;
use crate::cli::output::table::Table;

/// The lines of a screen, from the top.
pub struct Frame {
    width: usize,
    height: usize,
    coloured: bool,
    lines: Vec<String>,
    /// How wide each column was at most.
    floors: Vec<usize>,
}

impl Frame {
    pub(crate) fn new(width: usize, height: usize, coloured: bool, floors: Vec<usize>) -> Self {
        Self { width, height, coloured, lines: Vec::new(), floors }
    }

    /// Whether a text fits in a line.
    pub fn fits(&self, text: &str) -> bool {
        width(text) <= self.width
    }

    /// Lines that there is still room for.
    pub fn room(&self) -> usize {
        self.height.saturating_sub(self.lines.len())
    }

    pub fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A line of texts, each in its tone, cut at the edge; none if there is no room.
    pub fn line<T: AsRef<str>>(&mut self, parts: &[(T, Tone)]) {
        self.line_with(parts, &[]);
    }

    /// The same with the first of some texts that has room at the right edge.
    pub fn line_with<T: AsRef<str>>(&mut self, parts: &[(T, Tone)], right: &[&str]) {
        if self.room() == 0 {
            return;
        }
        let (mut line, mut left) = (String::new(), self.width);
        for (text, tone) in parts {
            let text = escape(text.as_ref());
            let shown = cut(&text, left);
            left = left.saturating_sub(width(&shown));
            paint(&mut line, &shown, *tone, self.coloured);
        }
        if let Some(right) = right.iter().find(|right| width(right) < left) {
            line.extend(std::iter::repeat_n(' ', left - width(right)));
            paint(&mut line, right, Tone::Dim, self.coloured);
        }
        self.lines.push(line);
    }

    /// A table of the rows that have room if so many lines stay free below it. So many last columns go before titles and
    /// bars are made hard to read. Returns how many rows are shown, and the headings of the columns that have no room.
    pub fn table<R: Row>(&mut self, rows: &[R], free: usize, spare: usize) -> (usize, Vec<String>) {
        // Headings and a rule.
        let shown = rows.len().min(self.room().saturating_sub(free + 2));
        if shown == 0 {
            return (0, Vec::new());
        }
        let cells: Vec<_> = rows[..shown].iter().map(Row::cells).collect();
        let table = Table::steady(R::HEADINGS, &cells, (self.width, spare), self.coloured, &mut self.floors);
        self.lines.extend(table.page(&cells).lines().map(str::to_owned));
        (shown, table.hidden().to_vec())
    }

    /// The text of the screen, which erases what was behind its lines, and the widths that the next frame keeps.
    pub(crate) fn end(mut self) -> (String, Vec<usize>) {
        self.lines.resize(self.height, String::new());
        for line in &mut self.lines {
            // At the end of a full line the cursor is still on its last character.
            if get_line_width(line) < self.width {
                line.push_str("\u{1b}[K");
            }
        }
        (self.lines.join("\r\n"), self.floors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Cell;
    use crate::cli::output::columns;

    #[derive(serde::Serialize)]
    struct Line {
        name: &'static str,
        units: u64,
    }

    columns!(row: Line {
        name => Cell::text(row.name).flexible();
        units;
    });

    fn lines(frame: Frame) -> Vec<String> {
        frame.end().0.lines().map(|line| line.replace("\u{1b}[K", "")).collect()
    }

    #[test]
    fn a_line_is_cut_at_the_edge_and_its_end_is_left_out_first() {
        let mut frame = Frame::new(10, 3, false, Vec::new());
        frame.line_with(&[("双十一", Tone::Plain), (" ok", Tone::Good)], &["9:15"]);
        frame.line_with(&[("a", Tone::Plain)], &["today, 9:15", "9:15"]);
        frame.line(&[("evil \u{1b}[2J and more", Tone::Plain)]);
        frame.line(&[("no room", Tone::Plain)]);
        assert_eq!(lines(frame), ["双十一 ok", "a     9:15", "evil \\u{1…"]);
    }

    #[test]
    fn what_was_behind_a_line_is_erased_unless_the_line_is_full() {
        let mut frame = Frame::new(5, 3, true, Vec::new());
        for text in ["12345", "1234", "双十1"] {
            frame.line(&[(text, Tone::Bad)]);
        }
        let (text, _) = frame.end();
        assert_eq!(text.lines().map(|line| line.ends_with("\u{1b}[K")).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_table_takes_the_rows_that_have_room_and_keeps_its_widths() {
        let rows = [Line { name: "a", units: 123_456 }, Line { name: "b", units: 1 }, Line { name: "c", units: 1 }];
        let mut frame = Frame::new(40, 6, false, Vec::new());
        assert_eq!(frame.table(&rows, 2, 0), (2, Vec::new()));
        let floors = frame.floors.clone();
        assert_eq!(lines(frame)[2..4], ["a     123456", "b          1"]);
        let mut frame = Frame::new(40, 6, false, floors);
        frame.table(&rows[1..2], 0, 0);
        assert_eq!(lines(frame)[2], "b          1");
    }

    #[test]
    fn a_screen_without_room_shows_what_it_can() {
        for (width, height) in [(1, 1), (2, 3), (5, 4)] {
            let mut frame = Frame::new(width, height, false, Vec::new());
            frame.line(&[("header", Tone::Strong)]);
            frame.table(&[Line { name: "a", units: 1 }], 1, 1);
            let lines = lines(frame);
            assert!(
                lines.len() <= height && lines.iter().all(|line| crate::cli::output::frame::width(line) <= width),
                "{lines:?}"
            );
        }
    }
}
