//! The slot of a key: which of the 16,384 parts of a cluster's keys it belongs to.

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: that of its hash tag, the first text between braces, if it has one.
pub fn slot(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag(key)) % SLOTS
}

/// The one slot of several keys; `None` if they are in several.
pub(crate) fn common_slot<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Option<u16> {
    let mut keys = keys.into_iter().map(|key| slot(key.as_ref()));
    let first = keys.next()?;
    keys.all(|slot| slot == first).then_some(first)
}

fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    match memchr::memchr(b'}', &key[open + 1..]) {
        None | Some(0) => key,
        Some(length) => &key[open + 1..open + 1 + length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // 0x31C3 is what its reference code computes of `123456789`.
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!((slot(b"foo"), slot(b"")), (12_182, 0));
        assert_eq!(slot(b"foo{}{bar}"), crc16::State::<crc16::XMODEM>::calculate(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"a}b{"), crc16::State::<crc16::XMODEM>::calculate(b"a}b{") % SLOTS);
    }

    #[test]
    fn keys_with_one_tag_have_one_slot() {
        assert_eq!(common_slot(["a{1}", "b{1}"]), Some(slot(b"1")));
        assert_eq!(common_slot(["a", "b"]), None);
        assert_eq!(common_slot([""; 0]), None);
    }
}
