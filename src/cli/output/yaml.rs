//! YAML whose strings are strings to every reader.
//!
//! serde_yaml writes for YAML 1.2, where a user called `no` needs no quotes. PyYAML and others still read 1.1, where it
//! is false, `12:30` is 750 and `1_000` a thousand. So whatever is not clearly a word is quoted, as in JSON, which both
//! versions read alike.

use serde::Serialize;
use serde_yaml::Value;

use super::escape::escape_data;
use super::sink::OutputError;

/// Appends a value as a block that begins where the text ends.
pub(super) fn encode(value: &impl Serialize, text: &mut Vec<u8>) -> Result<(), OutputError> {
    block(&serde_yaml::to_value(value)?, 0, text)
}

/// Appends a value as one item of a sequence.
pub(super) fn encode_item(value: &impl Serialize, text: &mut Vec<u8>) -> Result<(), OutputError> {
    text.extend_from_slice(b"- ");
    block(&serde_yaml::to_value(value)?, 2, text)
}

/// Appends a value whose first line is indented already.
fn block(value: &Value, indent: usize, text: &mut Vec<u8>) -> Result<(), OutputError> {
    match value {
        Value::Mapping(fields) if !fields.is_empty() => {
            for (place, (name, field)) in fields.iter().enumerate() {
                if place > 0 {
                    blank(indent, text);
                }
                scalar(name, text)?;
                text.push(b':');
                if is_scalar(field) {
                    text.push(b' ');
                    block(field, indent, text)?;
                } else {
                    text.push(b'\n');
                    blank(indent + 2, text);
                    block(field, indent + 2, text)?;
                }
            }
        }
        Value::Sequence(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    blank(indent, text);
                }
                text.extend_from_slice(b"- ");
                block(item, indent + 2, text)?;
            }
        }
        _ => {
            scalar(value, text)?;
            text.push(b'\n');
        }
    }
    Ok(())
}

fn blank(indent: usize, text: &mut Vec<u8>) {
    text.resize(text.len() + indent, b' ');
}

/// Whether a value takes no lines of its own.
fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Mapping(fields) => fields.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        _ => true,
    }
}

/// Appends what JSON writes in the same way; a word goes without quotes.
fn scalar(value: &Value, text: &mut Vec<u8>) -> Result<(), OutputError> {
    match value {
        Value::String(word) if is_word(word) => text.extend_from_slice(word.as_bytes()),
        _ => text.extend_from_slice(escape_data(&serde_json::to_string(value)?).as_bytes()),
    }
    Ok(())
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
            r#"{"activity": {"id": "1", "title": null}, "rows": [{"user": "no", "a": [[1, "x"], []]}, 7, {}], "none": [], "n": -1.5}"#,
        )
        .unwrap();
        let mut text = Vec::new();
        encode(&value, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), value, "{text}");
        assert!(text.starts_with("activity:\n  id: \"1\"\n  title: null\nrows:\n  - user: \"no\"\n"), "{text}");
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
