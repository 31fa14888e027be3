//! A few numbers for each user of millions: two bytes for a small one, which nearly all are.

use hashbrown::HashMap;

/// Marks a row that is in `large`.
const LARGE: i16 = i16::MIN;

/// Rows of `N` numbers, by the user's index. A row that was never written is all zeros.
#[derive(Debug, Clone)]
pub(crate) struct Column<const N: usize> {
    small: Vec<[i16; N]>,
    /// Rows with a number that two bytes do not hold.
    large: HashMap<u32, [i64; N]>,
}

impl<const N: usize> Default for Column<N> {
    fn default() -> Self {
        Self { small: Vec::new(), large: HashMap::new() }
    }
}

impl<const N: usize> Column<N> {
    /// The row of a user.
    pub(crate) fn get(&self, user: u32) -> [i64; N] {
        match self.small.get(user as usize) {
            None => [0; N],
            Some(row) if row[0] == LARGE => self.large.get(&user).copied().unwrap_or([0; N]),
            Some(row) => row.map(i64::from),
        }
    }

    /// Replaces the row of a user.
    pub(crate) fn set(&mut self, user: u32, row: [i64; N]) {
        let at = user as usize;
        if at >= self.small.len() {
            if row == [0; N] {
                return;
            }
            self.small.resize(at + 1, [0; N]);
        }
        let mut small = [LARGE; N];
        for (small, number) in small.iter_mut().zip(row) {
            match i16::try_from(number) {
                Ok(number) if number != LARGE => *small = number,
                _ => {
                    self.small[at] = [LARGE; N];
                    self.large.insert(user, row);
                    return;
                }
            }
        }
        if self.small[at][0] == LARGE {
            self.large.remove(&user);
        }
        self.small[at] = small;
    }

    /// The rows up to the last that was written, in the users' order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, [i64; N])> {
        (0u32..).take(self.small.len()).map(|user| (user, self.get(user)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_was_written_last_whatever_its_size() {
        let mut column = Column::<2>::default();
        let sizes = [0, 1, -1, 32_767, 32_768, -32_767, -32_768, -32_769, i64::MAX, i64::MIN, 5, 0];
        for (at, number) in sizes.into_iter().enumerate() {
            let rows = [[number, 7], [7, number], [number, number]];
            for row in rows {
                column.set(3, row);
                assert_eq!(column.get(3), row, "step {at}");
                assert_eq!((column.get(2), column.get(4)), ([0, 0], [0, 0]));
            }
        }
        assert!(column.large.is_empty(), "a number that became small again leaves nothing behind");
    }

    #[test]
    fn a_row_that_was_never_written_is_zeros_and_takes_no_memory() {
        let mut column = Column::<1>::default();
        column.set(1000, [0]);
        assert_eq!((column.get(1000), column.small.len(), column.iter().count()), ([0], 0, 0));
        column.set(2, [9]);
        assert_eq!(column.iter().collect::<Vec<_>>(), [(0, [0]), (1, [0]), (2, [9])]);
    }
}
