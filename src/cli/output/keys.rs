//! The keys of a screen: letters, and those that move, which a terminal sends as several bytes.

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Letter(u8),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

const ESCAPE: u8 = 0x1b;
/// Longer sequences are no keys.
const MAX_SEQUENCE: usize = 16;

/// Finds keys in the bytes that a terminal sends. A read may end in the middle of a key.
#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    begun: Vec<u8>,
}

impl KeyReader {
    /// The keys that these bytes end; what is no key is skipped.
    pub(crate) fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.push(*byte)).collect()
    }

    fn push(&mut self, byte: u8) -> Option<Key> {
        match (self.begun.len(), byte) {
            (_, ESCAPE) => self.begun = vec![ESCAPE],
            (1, b'[' | b'O') => self.begun.push(byte),
            // The escape key alone does nothing.
            (0 | 1, _) => {
                self.begun.clear();
                return Some(Key::Letter(byte));
            }
            (..MAX_SEQUENCE, b' '..=b'?') => self.begun.push(byte),
            _ => return moving(&std::mem::take(&mut self.begun)[2..], byte),
        }
        None
    }
}

/// The key of a sequence's parameters and its last byte. Modifiers beside an arrow change nothing.
fn moving(parameters: &[u8], last: u8) -> Option<Key> {
    match (parameters, last) {
        (_, b'A') => Some(Key::Up),
        (_, b'B') => Some(Key::Down),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        (_, b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (_, b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_move_have_several_sequences() {
        let keys = |text: &str| KeyReader::default().keys(text.as_bytes());
        assert_eq!(keys("\x1b[A\x1bOA\x1b[1;5A"), [Key::Up; 3]);
        assert_eq!(keys("\x1b[B\x1b[5~\x1b[6~"), [Key::Down, Key::PageUp, Key::PageDown]);
        assert_eq!(keys("\x1b[H\x1bOH\x1b[1~\x1b[7~"), [Key::Home; 4]);
        assert_eq!(keys("\x1b[F\x1bOF\x1b[4~\x1b[8~"), [Key::End; 4]);
        assert_eq!(keys("q\x0c"), [Key::Letter(b'q'), Key::Letter(0x0c)]);
    }

    #[test]
    fn what_is_no_key_is_skipped_and_the_next_one_is_found() {
        let long = format!("\x1b[{}", "1".repeat(40));
        for before in ["\x1b", "\x1b[C", "\x1b[2~", "\x1b[<0;1;2M", "\x1b\x1b[Z", &long] {
            let keys = KeyReader::default().keys(format!("{before}\x1b[Bq").as_bytes());
            assert_eq!(keys[keys.len() - 2..], [Key::Down, Key::Letter(b'q')], "{before:?}");
        }
        assert_eq!(KeyReader::default().keys(b"\x1bq"), [Key::Letter(b'q')]);
    }

    #[test]
    fn a_key_may_come_in_two_reads() {
        let sequence = b"\x1b[6~";
        for cut in 0..sequence.len() {
            let mut reader = KeyReader::default();
            let mut keys = reader.keys(&sequence[..cut]);
            keys.extend(reader.keys(&sequence[cut..]));
            assert_eq!(keys, [Key::PageDown], "{cut}");
        }
    }
}
