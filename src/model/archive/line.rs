//! A line of a file: a JSON array of texts. What is not UTF-8 is an object with its bytes: `{"hex":"c4e3"}`.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::id::StoredUser;

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

/// A line that is no array of texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an array of texts")]
pub(crate) struct InvalidLine;

/// Reads a line, without or with its end.
///
/// # Errors
/// It is something else.
pub(crate) fn read_line(line: &[u8]) -> Result<Vec<Bytes>, InvalidLine> {
    plain(line.trim_ascii_end()).map_or_else(|| serde_json::from_slice(line).map_err(|_| InvalidLine), Ok)
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
            assert_eq!(read_line(wrong.as_bytes()), Err(InvalidLine), "{wrong}");
        }
        let refused = serde_json::from_str::<Bytes>("7").unwrap_err().to_string();
        assert!(refused.contains("expected a text, or {\"hex\":\"…\"}"), "{refused}");
    }
}
