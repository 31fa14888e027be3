//! Which rows of a long table the screen shows.

use std::ops::Range;

use crate::cli::output::Key;

/// The part of the rows that the last frame showed.
#[derive(Debug, Default)]
pub(super) struct Scroll {
    first: usize,
    /// Rows that had room.
    page: usize,
    /// Rows that there were.
    count: usize,
}

impl Scroll {
    /// Moves, if the key does that and there is more to see; returns whether it did.
    pub(super) fn press(&mut self, key: Key) -> bool {
        let to = match key {
            Key::Up => self.first.saturating_sub(1),
            Key::Down => self.first + 1,
            Key::PageUp => self.first.saturating_sub(self.page),
            Key::PageDown => self.first + self.page,
            Key::Home => 0,
            Key::End => self.count,
            Key::Letter(_) => return false,
        };
        let to = to.min(self.last());
        std::mem::replace(&mut self.first, to) != to
    }

    /// The rows to show, with room for a page of them.
    pub(super) fn window(&mut self, count: usize, page: usize) -> Range<usize> {
        (self.count, self.page) = (count, page);
        self.first = self.first.min(self.last());
        self.first..(self.first + page).min(count)
    }

    /// The first row of the last page.
    fn last(&self) -> usize {
        self.count.saturating_sub(self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_move_as_far_as_there_are_rows() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.window(10, 4), 0..4);
        let mut after = |key| {
            let moved = scroll.press(key);
            (moved, scroll.window(10, 4))
        };
        assert_eq!(after(Key::Up), (false, 0..4));
        assert_eq!(after(Key::Down), (true, 1..5));
        assert_eq!(after(Key::PageDown), (true, 5..9));
        assert_eq!(after(Key::PageDown), (true, 6..10));
        assert_eq!(after(Key::Down), (false, 6..10));
        assert_eq!(after(Key::PageUp), (true, 2..6));
        assert_eq!(after(Key::End), (true, 6..10));
        assert_eq!(after(Key::Home), (true, 0..4));
        assert_eq!(after(Key::Letter(b'x')), (false, 0..4));
    }

    #[test]
    fn fewer_rows_or_more_room_show_the_last_page_whole() {
        let mut scroll = Scroll::default();
        scroll.window(10, 4);
        scroll.press(Key::End);
        assert_eq!(scroll.window(10, 7), 3..10);
        assert_eq!(scroll.window(5, 7), 0..5);
        assert_eq!(scroll.window(5, 0), 0..0);
        assert!(!scroll.press(Key::Home));
    }
}
