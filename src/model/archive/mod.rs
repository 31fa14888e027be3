//! An activity as files: what each line is, and the manifest that describes and seals them.

mod line;
mod manifest;

use std::fmt::Write;

use ring::digest::{Context, SHA256};

pub(crate) use crate::model::archive::line::{Bytes, encode_line, read_line};
pub(crate) use crate::model::archive::manifest::{FORMAT, FileSum, Group, Manifest, Sealed, VERSION, folder_name};
use crate::model::layout::Kind;
use crate::model::names::names;

/// The manifest's file in the folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The file with all sums, in the form of `sha256sum`.
pub(crate) const SUMS: &str = "SHA256SUMS";

names! {
    /// A key of an activity that is a file of an archive. Stock and meta are in the manifest.
    pub enum Part {
        /// Who holds units.
        Participants = "participants",
        /// Units of the members of a set.
        Units = "units",
        /// Request ids, jobs and the pages of a checkpoint.
        Requests = "requests",
        /// Everything that changed the activity.
        Ledger = "ledger",
    }
}

impl Part {
    /// The parts of a kind.
    pub fn of(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Counter => &[Self::Requests, Self::Ledger],
            Kind::Set => &[Self::Participants, Self::Units, Self::Requests, Self::Ledger],
            Kind::Hash | Kind::Coupon => &[Self::Participants, Self::Requests, Self::Ledger],
        }
    }

    /// Whether a line is one member, and not a field with its value.
    pub fn is_set(self, kind: Kind) -> bool {
        self == Self::Participants && kind.records_once()
    }

    /// The type of the key.
    pub fn key_type(self, kind: Kind) -> &'static str {
        match self {
            Self::Ledger => "stream",
            part if part.is_set(kind) => "set",
            _ => "hash",
        }
    }

    /// What the texts of a line are, in turn.
    pub fn columns(self, kind: Kind) -> &'static [&'static str] {
        match self {
            part if part.is_set(kind) => &["user"],
            Self::Participants | Self::Units => &["user", "units"],
            Self::Requests => &["request", "order"],
            Self::Ledger => &["id", "field", "value", "field", "value", "…"],
        }
    }

    /// The file's name.
    pub fn file_name(self) -> String {
        format!("{self}.jsonl")
    }

    /// Whether a line can be of it, by the number of its texts.
    pub fn accepts(self, kind: Kind, texts: usize) -> bool {
        match self {
            part if part.is_set(kind) => texts == 1,
            Self::Ledger => texts >= 3 && texts % 2 == 1,
            _ => texts == 2,
        }
    }
}

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
    use super::*;

    /// Whether each part of a kind is accepted with 0 to 6 texts a line.
    fn accepted(part: Part, kind: Kind) -> Vec<usize> {
        (0..=6).filter(|texts| part.accepts(kind, *texts)).collect()
    }

    #[test]
    fn a_kind_has_the_parts_that_it_writes() {
        let names = |kind| Part::of(kind).iter().map(|part| part.file_name()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(Kind::Hash), "participants.jsonl requests.jsonl ledger.jsonl");
        assert_eq!(names(Kind::Coupon), names(Kind::Hash));
        assert_eq!(names(Kind::Set), "participants.jsonl units.jsonl requests.jsonl ledger.jsonl");
        assert_eq!(names(Kind::Counter), "requests.jsonl ledger.jsonl");
    }

    #[test]
    fn a_part_has_the_type_of_its_key() {
        let types = |kind| Part::of(kind).iter().map(|part| part.key_type(kind)).collect::<Vec<_>>().join(" ");
        assert_eq!(types(Kind::Hash), "hash hash stream");
        assert_eq!(types(Kind::Coupon), "set hash stream");
        assert_eq!(types(Kind::Set), "set hash hash stream");
        assert_eq!(types(Kind::Counter), "hash stream");
    }

    #[test]
    fn a_line_has_as_many_texts_as_its_part_has_columns() {
        for &kind in Kind::ALL {
            for &part in Part::of(kind).iter().filter(|part| **part != Part::Ledger) {
                assert_eq!(accepted(part, kind), [part.columns(kind).len()], "{part} {kind}");
            }
            // An id, and at least one field with its value.
            assert_eq!(accepted(Part::Ledger, kind), [3, 5]);
            assert_eq!(Part::Ledger.columns(kind)[..3], ["id", "field", "value"]);
        }
        let columns = |part: Part, kind| part.columns(kind).join(" ");
        assert_eq!(columns(Part::Participants, Kind::Set), "user");
        assert_eq!(columns(Part::Participants, Kind::Hash), "user units");
        assert_eq!(columns(Part::Units, Kind::Set), "user units");
        assert_eq!(columns(Part::Requests, Kind::Counter), "request order");
    }

    #[test]
    fn it_is_what_sha256sum_prints() {
        assert_eq!(Digest::of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut digest = Digest::default();
        digest.add(b"a");
        digest.add(b"bc");
        assert_eq!(digest.finish(), Digest::of(b"abc"));
    }
}
