//! SHA-1 as the scripts compute it: names things, and protects nothing.

use std::fmt::Write as _;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The SHA-1 of a text in hexadecimal, 40 digits.
pub(crate) fn sha1_hex(text: &str) -> String {
    let mut hex = String::with_capacity(40);
    for byte in digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref() {
        // Writing to a String cannot fail.
        _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_sha1sum_says() {
        assert_eq!(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
