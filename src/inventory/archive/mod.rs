//! An activity as files: what each line is, and the manifest that describes and seals them.

mod digest;
mod line;
mod manifest;

pub use digest::Digest;
pub use line::{Bytes, InvalidLine, encode_line, read_line};
pub use manifest::{FORMAT, FileSum, Group, Manifest, Sealed, VERSION, folder_name};

use super::layout::Kind;
use super::names::names;

/// The manifest's file in the folder.
pub const MANIFEST: &str = "manifest.json";
/// The file with all sums, in the form of `sha256sum`.
pub const SUMS: &str = "SHA256SUMS";

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
