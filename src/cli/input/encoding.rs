//! Bytes that are text, but not UTF-8: what they seem to be, so that the user knows what to do.

/// What to do about a file in another encoding.
pub fn hint(encoding: &str) -> String {
    format!("save it as UTF-8 (spreadsheets call it `CSV UTF-8`), or convert it: `iconv -f {encoding} -t UTF-8 FILE`")
}

/// Whether an input begins as UTF-16 does: with its byte order mark, or with every other byte 0.
pub fn is_utf16(head: &[u8]) -> bool {
    let is_zero = |at: usize| head.get(at) == Some(&0);
    let alternates = |first: usize| is_zero(first) && is_zero(first + 2) && !is_zero(1 - first) && !is_zero(3 - first);
    head.starts_with(b"\xff\xfe")
        || head.starts_with(b"\xfe\xff")
        || (head.len() >= 4 && (alternates(0) || alternates(1)))
}

/// Whether bytes that are not UTF-8 are probably GBK: all of them pairs that it has, and one of them a common character.
pub fn is_gbk(bytes: &[u8]) -> bool {
    let (mut at, mut is_common) = (0, false);
    while let Some(lead) = bytes.get(at) {
        if lead.is_ascii() {
            at += 1;
            continue;
        }
        match (lead, bytes.get(at + 1)) {
            (0x81..=0xfe, Some(trail @ (0x40..=0x7e | 0x80..=0xfe))) => {
                is_common |= (0xa1..=0xf7).contains(lead) && *trail >= 0xa1;
            }
            _ => return false,
        }
        at += 2;
    }
    is_common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_recognised() {
        for utf16 in [&b"\xff\xfea\0"[..], b"\xfe\xff\0a", b"a\0,\0", b"\0a\0,"] {
            assert!(is_utf16(utf16), "{utf16:?}");
        }
        assert!(![&b""[..], b"a", b"activity", b"a\0b,", b"\xef\xbb\xbfa"].into_iter().any(is_utf16));
        // `王小明,1`, and in Latin-1 `Ana María,1` and `José,1`.
        assert!(is_gbk(b"\xcd\xf5\xd0\xa1\xc3\xf7,1"));
        assert!(!is_gbk(b"Ana Mar\xeda,1") && !is_gbk(b"Jos\xe9,1") && !is_gbk(b"\xff7") && !is_gbk(b"a"));
    }
}
