//! JSON objects as nearly all lines have them: texts with nothing escaped, integers, and objects of those. Such a line takes a
//! fraction of the time here that serde_json needs; it decides what any other line is, and what is wrong with it.

/// A value of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'t> {
    /// A string without its quotation marks.
    Text(&'t str),
    /// As it is written.
    Integer(&'t str),
    /// As it is written, from brace to brace.
    Object(&'t str),
}

/// Visits the members of the object that a text is. False if the text is not such an object or `visit` returned false: then
/// serde_json must read it, whatever was visited.
pub(super) fn each_member<'t>(text: &'t str, mut visit: impl FnMut(&'t str, Value<'t>) -> bool) -> bool {
    let mut cursor = Cursor { text, at: 0 };
    cursor.object(&mut visit).is_some() && cursor.next().is_none()
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    /// The next byte that is no white space; it is not passed.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(*byte),
            }
        }
    }

    /// Passes the next byte, which must be this one.
    fn pass(&mut self, wanted: u8) -> Option<()> {
        let is_wanted = self.next()? == wanted;
        self.at += 1;
        is_wanted.then_some(())
    }

    fn object(&mut self, visit: &mut dyn FnMut(&'t str, Value<'t>) -> bool) -> Option<()> {
        self.pass(b'{')?;
        if self.next()? == b'}' {
            return self.pass(b'}');
        }
        loop {
            let name = self.string()?;
            self.pass(b':')?;
            let value = match self.next()? {
                b'"' => Value::Text(self.string()?),
                b'{' => {
                    let start = self.at;
                    self.object(&mut |_, value| !matches!(value, Value::Object(_)))?;
                    Value::Object(&self.text[start..self.at])
                }
                _ => Value::Integer(self.integer()?),
            };
            if !visit(name, value) {
                return None;
            }
            match self.next()? {
                b',' => self.at += 1,
                _ => return self.pass(b'}'),
            }
        }
    }

    fn string(&mut self) -> Option<&'t str> {
        self.pass(b'"')?;
        let start = self.at;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => break,
                b'\\' | 0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    fn integer(&mut self) -> Option<&'t str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += usize::from(bytes[start] == b'-');
        let first = self.at;
        while bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = &bytes[first..self.at];
        // Neither a leading zero, nor a fraction or an exponent.
        let ends = matches!(bytes.get(self.at), Some(b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r'));
        (ends && !digits.is_empty() && (digits[0] != b'0' || digits.len() == 1)).then(|| &self.text[start..self.at])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn members(text: &str) -> Option<Vec<(&str, Value<'_>)>> {
        let mut members = Vec::new();
        each_member(text, |name, value| {
            members.push((name, value));
            true
        })
        .then_some(members)
    }

    #[test]
    fn a_plain_object_is_read_as_it_is_written() {
        let text =
            "{\"user\":7,\"items\": {\"a\" : 2 , \"双\":\"1\"},\t\"q\":-12,\"z\":0,\"t\":\"用 户\",\"e\":{}}\r\n";
        let expected = [
            ("user", Value::Integer("7")),
            ("items", Value::Object("{\"a\" : 2 , \"双\":\"1\"}")),
            ("q", Value::Integer("-12")),
            ("z", Value::Integer("0")),
            ("t", Value::Text("用 户")),
            ("e", Value::Object("{}")),
        ];
        assert_eq!(members(text).unwrap(), expected);
        assert_eq!(members(" { } ").unwrap(), []);
    }

    #[test]
    fn what_is_not_plain_is_left_to_serde_json() {
        for text in [
            "",
            "7",
            "\"a\"",
            "[]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{,}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1}x",
            "{\"a\":1}{}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":-01}",
            "{\"a\":1.5}",
            "{\"a\":1e3}",
            "{\"a\":+1}",
            "{\"a\":1x}",
            "{\"a\":true}",
            "{\"a\":null}",
            "{\"a\":[1]}",
            "{\"a\":{\"b\":{}}}",
            "{\"a\":{\"b\":null}}",
            "{\"a\":\"\\u0041\"}",
            "{\"a\\n\":1}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"x}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":1}\u{a0}",
            "\u{feff}{}",
        ] {
            assert_eq!(members(text), None, "{text}");
        }
        assert!(!each_member("{\"a\":1}", |_, _| false));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
        #[test]
        fn serde_json_reads_the_same(text in r#"\{("(a|b|\\\\|é| )*" ?: ?(-?0?[0-9]{0,3}|"[a\\\\x\t]?"|\{("a":[0-9-]{1,2},?){0,2}\}|null|1.5|\[\]),? ?){0,3}\} ?"#) {
            if let Some(members) = members(&text) {
                let read = serde_json::from_str::<Pairs>(&text).unwrap().0;
                prop_assert_eq!(members.len(), read.len());
                for ((name, value), (its_name, its_value)) in members.into_iter().zip(read) {
                    prop_assert_eq!(name, its_name);
                    let written = match value {
                        Value::Text(text) => format!("\"{text}\""),
                        Value::Integer(text) | Value::Object(text) => text.to_owned(),
                    };
                    prop_assert_eq!(written, its_value.get());
                }
            }
        }
    }

    /// All members of an object, also those of the same name.
    struct Pairs(Vec<(String, Box<RawValue>)>);

    impl<'de> serde::Deserialize<'de> for Pairs {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Members;
            impl<'de> serde::de::Visitor<'de> for Members {
                type Value = Pairs;
                fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    formatter.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                    let mut pairs = Vec::new();
                    while let Some(pair) = map.next_entry()? {
                        pairs.push(pair);
                    }
                    Ok(Pairs(pairs))
                }
            }
            deserializer.deserialize_map(Members)
        }
    }
}
