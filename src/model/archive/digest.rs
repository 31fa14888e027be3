//! SHA-256, as `sha256sum` prints it.

use std::fmt::Write;

use ring::digest::{Context, SHA256};

/// A digest of bytes that come one after the other.
#[derive(Clone)]
pub(crate) struct Digest(Context);

impl Default for Digest {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Digest {
    /// Of these bytes alone, in hexadecimal digits.
    pub(crate) fn of(bytes: &[u8]) -> String {
        let mut digest = Self::default();
        digest.add(bytes);
        digest.finish()
    }

    /// The first 16 bytes of the digest of these bytes alone.
    pub(crate) fn bytes_of(bytes: &[u8]) -> [u8; 16] {
        let digest = ring::digest::digest(&SHA256, bytes);
        std::array::from_fn(|at| digest.as_ref()[at])
    }

    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |mut hex, byte| {
            // Writing to memory does not fail.
            _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn it_is_what_sha256sum_prints() {
        assert_eq!(Digest::of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut digest = Digest::default();
        digest.add(b"a");
        digest.add(b"bc");
        assert_eq!(digest.finish(), Digest::of(b"abc"));
    }
}
