//! An activity as files: what each line is, and the manifest that describes and seals them.
//!
//! A line is a JSON array of texts. What is not UTF-8 is an object with its bytes: `{"hex":"c4e3"}`.

mod manifest;

use std::fmt;

use ring::digest::{Context, SHA256};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use crate::model::archive::manifest::{FORMAT, FileSum, Group, Manifest, Sealed, VERSION, folder_name};
use crate::model::id::{StoredUser, hex};
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
            Self::Ledger => texts >= 3 && texts % 2 == 1,
            part => texts == part.columns(kind).len(),
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
        hex(ring::digest::digest(&SHA256, bytes).as_ref())
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
        hex(self.0.finish().as_ref())
    }
}

/// A text as the server has it, in whatever encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub Vec<u8>);

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Borrowed(&self.0).serialize(serializer)
    }
}

/// The same, not copied.
struct Borrowed<'a>(&'a [u8]);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("hex", &StoredUser::new(self.0).hex())?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrHex;
        impl<'de> Visitor<'de> for TextOrHex {
            type Value = Bytes;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text, or {\"hex\":\"…\"}")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Ok(Bytes::from(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
                let Some(("hex", hex)) = map.next_entry::<&str, &str>()? else {
                    return Err(A::Error::custom("no field `hex`"));
                };
                let bytes = StoredUser::of_hex(hex).ok_or_else(|| A::Error::custom("no hexadecimal digits"))?;
                match map.next_key::<&str>()? {
                    None => Ok(Bytes(bytes.as_bytes().to_vec())),
                    Some(_) => Err(A::Error::custom("another field beside `hex`")),
                }
            }
        }
        deserializer.deserialize_any(TextOrHex)
    }
}

/// Appends a line.
pub(crate) fn encode_line(texts: &[&[u8]], line: &mut Vec<u8>) {
    line.push(b'[');
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            line.push(b',');
        }
        let is_plain = text.iter().all(|byte| (b' '..=b'~').contains(byte) && !matches!(byte, b'"' | b'\\'));
        if is_plain {
            line.push(b'"');
            line.extend_from_slice(text);
            line.push(b'"');
        } else {
            // Writing to memory does not fail.
            _ = serde_json::to_writer(&mut *line, &Borrowed(text));
        }
    }
    line.extend_from_slice(b"]\n");
}

/// Reads a line, without or with its end; `None` if it is no array of texts.
pub(crate) fn read_line(line: &[u8]) -> Option<Vec<Bytes>> {
    plain(line.trim_ascii_end()).or_else(|| serde_json::from_slice(line).ok())
}

/// Reads a line of plain ASCII, which most are, in which nothing is escaped.
fn plain(line: &[u8]) -> Option<Vec<Bytes>> {
    let inner = line.strip_prefix(b"[\"")?.strip_suffix(b"\"]")?;
    let (mut texts, mut rest) = (Vec::with_capacity(2), inner);
    loop {
        let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        let text = &rest[..end];
        if !text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return None;
        }
        texts.push(Bytes(text.to_vec()));
        if end == rest.len() {
            return Some(texts);
        }
        rest = rest[end..].strip_prefix(b"\",\"")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each part of a kind is accepted with 0 to 6 texts a line.
    fn accepted(part: Part, kind: Kind) -> Vec<usize> {
        (0..=6).filter(|texts| part.accepts(kind, *texts)).collect()
    }

    #[test]
    fn a_kind_has_the_parts_that_it_writes_each_of_the_type_of_its_key() {
        let units = "participants.jsonl requests.jsonl ledger.jsonl";
        for (kind, files, types) in [
            (Kind::Hash, units, "hash hash stream"),
            (Kind::Coupon, units, "set hash stream"),
            (Kind::Set, "participants.jsonl units.jsonl requests.jsonl ledger.jsonl", "set hash hash stream"),
            (Kind::Counter, "requests.jsonl ledger.jsonl", "hash stream"),
        ] {
            let parts = Part::of(kind).iter();
            assert_eq!(parts.clone().map(|part| part.file_name()).collect::<Vec<_>>().join(" "), files);
            assert_eq!(parts.map(|part| part.key_type(kind)).collect::<Vec<_>>().join(" "), types);
        }
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

    fn encoded(texts: &[&[u8]]) -> String {
        let mut line = Vec::new();
        encode_line(texts, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn texts_are_read_back_as_the_bytes_they_were() {
        let texts: [&[u8]; 9] =
            [b"7", b"", b"\xc4\xe3", b"\"\\\x01\0\n\x7f", "中".as_bytes(), b"a,b", b"[]", b"{\"hex\":\"00\"}", b" a "];
        let line = encoded(&texts);
        assert!(line.ends_with("]\n") && line.matches('\n').count() == 1, "{line}");
        let read: Vec<Vec<u8>> = read_line(line.as_bytes()).unwrap().into_iter().map(|text| text.0).collect();
        assert_eq!(read, texts);
        assert_eq!(encoded(&[b"7", b"\xc4\xe3"]), "[\"7\",{\"hex\":\"c4e3\"}]\n");
        assert_eq!(encoded(&[b"\"", b"\\"]), "[\"\\\"\",\"\\\\\"]\n");
        assert_eq!(Bytes::from("双11").to_string(), "双11");
    }

    #[test]
    fn a_line_is_an_array_of_texts_and_nothing_else() {
        assert_eq!(read_line(b"[]").unwrap(), []);
        for wrong in [
            "",
            "7",
            "[7]",
            "[\"7\"",
            "[\"7\",]",
            "[\"a\"\"b\"]",
            "[\"7\"] x",
            "[{\"hex\":\"c\"}]",
            "[{}]",
            "[{\"hex\":\"c4\",\"a\":\"\"}]",
            "[\"a\nb\"]",
            "[null]",
            "{}",
        ] {
            assert_eq!(read_line(wrong.as_bytes()), None, "{wrong}");
        }
        let refused = serde_json::from_str::<Bytes>("7").unwrap_err().to_string();
        assert!(refused.contains("expected a text, or {\"hex\":\"…\"}"), "{refused}");
    }
}
