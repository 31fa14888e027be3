//! What was told of each line, so that a second reading of the input, after the server forgot some of it, contradicts
//! none of it.

/// The lines that were told of, from the first to the last.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: u64,
    /// Those that were refused, a bit a line.
    refused: Vec<u64>,
    /// How many were told of as done, and are refused now.
    pub(super) refused_again: u64,
}

impl Told {
    /// Whether a line was refused: it stays so, and is not tried again.
    pub(super) fn is_refused(&self, line: u64) -> bool {
        let (word, bit) = place(line);
        self.refused.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Takes note of what became of a line; false where it was told of before.
    pub(super) fn note(&mut self, line: u64, is_done: bool) -> bool {
        let is_news = line > self.last;
        self.last = self.last.max(line);
        if !is_done {
            self.refused_again += u64::from(!is_news);
            let (word, bit) = place(line);
            if self.refused.len() <= word {
                self.refused.resize(word + 1, 0);
            }
            self.refused[word] |= bit;
        }
        is_news
    }
}

/// Which word holds a line, and where.
fn place(line: u64) -> (usize, u64) {
    #[allow(clippy::cast_possible_truncation)] // So many lines do not exist.
    let word = (line / 64) as usize;
    (word, 1 << (line % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_of_once_and_what_was_refused_stays_so() {
        let mut told = Told::default();
        for (line, is_done) in [(1, true), (2, false), (64, true), (130, false)] {
            assert!(told.note(line, is_done));
        }
        assert_eq!([1, 2, 64, 130, 9_999].map(|line| told.is_refused(line)), [false, true, false, true, false]);
        assert!(!told.note(1, true) && told.refused_again == 0);
        assert!(!told.note(64, false) && told.refused_again == 1 && told.is_refused(64));
        assert!(told.note(131, true));
    }
}
