//! The small changes of a file.

use std::fs;
use std::path::{Path, PathBuf};

/// What is in the code, and what it becomes.
const WORDS: [(&str, &str); 19] = [
    (" == ", " ~= "),
    (" ~= ", " == "),
    (" < ", " <= "),
    (" <= ", " < "),
    (" > ", " >= "),
    (" >= ", " > "),
    (" and ", " or "),
    (" or ", " and "),
    ("not ", ""),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    ("true", "false"),
    ("false", "true"),
    ("DECRBY", "INCRBY"),
    ("INCRBY", "DECRBY"),
    ("math.floor", "math.ceil"),
    ("min(", "max("),
    ("max(", "min("),
];

/// One change of one line.
pub struct Mutant {
    pub file: PathBuf,
    /// From 0.
    pub line: usize,
    pub before: String,
    pub after: String,
}

/// All changes of a file's code.
pub fn mutants_of(file: &Path) -> Vec<Mutant> {
    let text = fs::read_to_string(file).unwrap();
    let mut found = Vec::new();
    let mut is_header = text.starts_with("--[[");
    for (line, before) in text.lines().enumerate() {
        let code = before.find("--").map_or(before, |comment| &before[..comment]);
        if !is_header {
            let mut add =
                |after: String| found.push(Mutant { file: file.to_owned(), line, before: before.to_owned(), after });
            for (at, new, old) in changes(code) {
                add(format!("{}{new}{}", &before[..at], &before[at + old..]));
            }
            let statement = code.trim_start();
            if statement.starts_with("redis.call(") && statement.trim_end().ends_with(')') {
                add(String::new());
            }
            if let Some(condition) = statement.strip_prefix("if ").and_then(|rest| rest.split_once(" then")) {
                let indent = &code[..code.len() - statement.len()];
                add(format!("{indent}if not ({}) then{}", condition.0, condition.1));
            }
        }
        is_header = is_header && !before.starts_with("]]");
    }
    found
}

/// Where a word or number of a line of code is, what it becomes, and how long it was.
fn changes(code: &str) -> Vec<(usize, String, usize)> {
    let bytes = code.as_bytes();
    let is_word =
        |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.');
    let mut found = Vec::new();
    for (at, _) in code.char_indices() {
        // Commands are changed, other texts are not.
        let is_text = code[..at].matches('\'').count() % 2 == 1;
        for (old, new) in WORDS {
            let bounded = !old.starts_with(|c: char| c.is_ascii_alphabetic()) || at == 0 || !is_word(at - 1);
            if code[at..].starts_with(old) && bounded && (!is_text || old.ends_with("CRBY")) {
                found.push((at, new.to_owned(), old.len()));
            }
        }
        if !is_text && bytes[at].is_ascii_digit() && (at == 0 || !is_word(at - 1)) {
            let digits = code[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(code.len() - at);
            if let (false, Ok(number)) = (is_word(at + digits), code[at..at + digits].parse::<u64>()) {
                found.push((at, (number + 1).to_string(), digits));
            }
        }
    }
    found
}
