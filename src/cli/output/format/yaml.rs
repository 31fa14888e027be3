//! YAML whose strings are strings to every reader.
//!
//! serde_yaml writes the document, but quotes for YAML 1.2, in which a user called `no` needs no quotes. PyYAML and
//! others still read 1.1, in which it is false, `12:30` is 750 and `1_000` a thousand. So whatever is not clearly a word is quoted
//! as in JSON, which both versions read as the same text.

use anyhow::Result;
use serde::Serialize;
use serde_yaml::Value;

use crate::cli::output::text::escape_data;

/// Around a number, marks the place of a quoted text until serde_yaml has written the document: two names of one mapping must
/// differ meanwhile. No word has a capital letter.
const MARK: char = 'Q';

/// Appends a value as a document.
pub(crate) fn encode(value: &impl Serialize, text: &mut Vec<u8>) -> Result<()> {
    let mut quoted = Vec::new();
    let value = mark(serde_yaml::to_value(value)?, &mut quoted)?;
    let written = serde_yaml::to_string(&value)?;
    let mut parts = written.split(MARK);
    text.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    while let (Some(index), Some(part)) = (parts.next(), parts.next()) {
        let quoted = index.parse::<usize>().ok().and_then(|index| quoted.get(index));
        text.extend_from_slice(quoted.map_or("", String::as_str).as_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    Ok(())
}

/// Replaces each text that is no plain word by a mark, and keeps it, quoted.
fn mark(value: Value, quoted: &mut Vec<String>) -> Result<Value> {
    Ok(match value {
        Value::String(text) if !is_word(&text) => {
            quoted.push(escape_data(&serde_json::to_string(&text)?).into_owned());
            Value::String(format!("{MARK}{}{MARK}", quoted.len() - 1))
        }
        Value::Sequence(items) => {
            Value::Sequence(items.into_iter().map(|item| mark(item, quoted)).collect::<Result<_>>()?)
        }
        Value::Mapping(fields) => Value::Mapping(
            fields
                .into_iter()
                .map(|(name, field)| Ok((mark(name, quoted)?, mark(field, quoted)?)))
                .collect::<Result<_>>()?,
        ),
        other => other,
    })
}

/// Whether no version of YAML reads a text as something else than itself.
fn is_word(text: &str) -> bool {
    const TAKEN: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !TAKEN.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_value_is_what_it_was() {
        let value: Value = serde_yaml::from_str(
            r#"{"activity": {"id": "1", "title": null}, "rows": [{"user": "no", "a": [[1, "x"], []]}, 7, {}], "none": [], "n": -1.5, "no": 1, "userId": 2}"#,
        )
        .unwrap();
        let mut text = Vec::new();
        encode(&value, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), value, "{text}");
        assert!(text.starts_with("activity:\n  id: \"1\"\n  title: null\nrows:\n- user: \"no\"\n"), "{text}");
    }

    #[test]
    fn an_id_is_a_string_to_every_reader() {
        for id in
            ["no", "y", "0123", "1e3", "0x10", "12:30", "1_000", "2026-11-11", "~", "", "-", "a: b", "\u{9b}\n", "Null"]
        {
            let mut text = Vec::new();
            encode(&[id], &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.starts_with("- \"") && text.ends_with("\"\n"), "{text}");
            assert_eq!(serde_yaml::from_str::<Vec<String>>(&text).unwrap(), [id]);
        }
    }
}
