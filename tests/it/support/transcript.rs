//! Files of lines with what comes of each below it, in several layouts: `SNAPSHOTS=overwrite` writes that anew.
//!
//! The first line names the layouts. `# ` begins a comment; lines that begin with `| ` are the input of the one above; `hash set: ` before
//! a line runs it for these kinds only. What comes of a line is indented, with names before it if layouts differ.

use std::fs;
use std::path::Path;

use snapbox::{Assert, Data};

/// One layout, in which a file runs.
pub trait Player {
    fn kind(&self) -> &'static str;

    /// What distinguishes it from others of the file.
    fn label(&self) -> &'static str;

    /// What a line gives, with its input; empty for nothing.
    fn play(&mut self, line: &str, input: &str) -> String;
}

/// Signs that begin a line which may have `: ` itself.
const SIGNS: [&str; 6] = ["## ", "$ ", "+ ", "! ", "? ", "file "];

/// The words of a line, without quotes.
pub fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match letter {
            _ if quote == Some(letter) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(letter),
            ' ' if quote.is_none() => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// What one line gave in each of the layouts that ran it.
fn merged(found: &[(&'static str, String)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, said) in found.iter().filter(|(_, said)| !said.is_empty()) {
        match groups.iter_mut().find(|(known, _)| known == said) {
            Some((_, names)) => names.push(name),
            None => groups.push((said, vec![name])),
        }
    }
    let mut text = String::new();
    for (said, names) in &groups {
        let names = if groups.len() > 1 { format!("{}: ", names.join(" ")) } else { String::new() };
        for (index, line) in said.split('\n').enumerate() {
            let names = if index == 0 { &*names } else { "" };
            text += &format!("{}\n", format!("  {names}{line}").trim_end());
        }
    }
    text
}

/// A file as it should be.
fn replayed<P: Player>(text: &str, player: impl Fn(&str) -> Option<P>) -> String {
    let mut lines = text.lines().filter(|line| !line.starts_with("  ")).peekable();
    let head = lines.next().unwrap_or_default();
    let mut players: Vec<P> = head.split(' ').filter_map(player).collect();
    let mut now = format!("{head}\n");
    while let Some(line) = lines.next() {
        now += &format!("{line}\n");
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        let mut input = String::new();
        while let Some(line) = lines.next_if(|line| *line == "|" || line.starts_with("| ")) {
            now += &format!("{line}\n");
            input += &format!("{}\n", line.get(2..).unwrap_or_default());
        }
        let is_bare = SIGNS.iter().any(|sign| line.starts_with(sign));
        let (kinds, line) = line.split_once(": ").filter(|_| !is_bare).unwrap_or(("", line));
        let is_meant = |player: &&mut P| kinds.is_empty() || kinds.split(' ').any(|kind| kind == player.kind());
        let meant = players.iter_mut().filter(is_meant);
        now += &merged(&meant.map(|player| (player.label(), player.play(line, &input))).collect::<Vec<_>>());
    }
    now
}

/// Runs a file, and compares it with what is stored.
#[track_caller]
pub fn is_as_stored<P: Player>(path: &Path, player: impl Fn(&str) -> Option<P>) {
    let text = fs::read_to_string(path).unwrap();
    is_text_as_stored(path, &replayed(&text, player));
}

/// Compares a text with what is stored.
#[track_caller]
pub fn is_text_as_stored(path: &Path, text: &str) {
    Assert::new().action_env("SNAPSHOTS").eq(text, Data::read_from(path, None).raw());
}

/// The script of a call: many orders have more arguments than one.
pub fn script_of<T>(name: &'static str, args: &[T]) -> &'static str {
    match name {
        "deduct" if args.len() > 8 => "deduct_file",
        "refund" if args.len() > 8 => "refund_file",
        "hold" if args.len() > 11 => "hold_file",
        "settle" if args.len() > 8 => "settle_file",
        name => name,
    }
}
