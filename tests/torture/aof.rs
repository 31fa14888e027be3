//! The server's append-only file: every write in the order in which it happened, one group per script call.
//!
//! Its length is the clock of a round. A server with `appendfsync always` writes before it replies, so a reply that was
//! read depends on nothing beyond the length measured afterwards, and it needs no connection to measure.

use std::fs;
use std::path::{Path, PathBuf};

/// The writes of one command or script call.
#[derive(Debug, Clone)]
pub struct Group {
    /// Length of the file once this group is in it.
    pub end: u64,
    pub commands: Vec<Vec<String>>,
}

/// The file that grows: in a directory of its own since Redis 7.0.
pub fn path_in(dir: &Path) -> PathBuf {
    let old = dir.join("appendonly.aof");
    if old.is_file() {
        return old;
    }
    let files = fs::read_dir(dir.join("appendonlydir")).expect("an append-only file");
    let mut grows: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    grows.retain(|path| path.to_string_lossy().ends_with(".incr.aof"));
    grows.sort();
    grows.pop().expect("an append-only file")
}

/// All complete groups. A group that a kill tore is left out, as the server does when it starts.
pub fn groups(bytes: &[u8]) -> Vec<Group> {
    let mut groups = Vec::new();
    let (mut at, mut open) = (0, None);
    while let Some((command, next)) = take_command(bytes, at) {
        at = next;
        match command.first().map(String::as_str) {
            Some("MULTI") => open = Some(Vec::new()),
            Some("EXEC") => groups.push(Group { end: at as u64, commands: open.take().unwrap_or_default() }),
            _ => match &mut open {
                Some(commands) => commands.push(command),
                None => groups.push(Group { end: at as u64, commands: vec![command] }),
            },
        }
    }
    groups
}

/// One command and where the next one begins; `None` at the end, or if the rest is torn.
fn take_command(bytes: &[u8], mut at: usize) -> Option<(Vec<String>, usize)> {
    while bytes.get(at) == Some(&b'#') {
        at += bytes[at..].iter().position(|byte| *byte == b'\n')? + 1; // an annotation
    }
    let (count, mut at) = take_number(bytes, at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = take_number(bytes, at, b'$')?;
        words.push(String::from_utf8_lossy(bytes.get(start..start + length)?).into_owned());
        at = start + length + 2;
    }
    (at <= bytes.len()).then(|| {
        words[0].make_ascii_uppercase();
        (words, at)
    })
}

fn take_number(bytes: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let line = rest.iter().position(|byte| *byte == b'\r')?;
    assert_eq!(rest[0], sign, "the append-only file is damaged at byte {at}");
    let number = std::str::from_utf8(&rest[1..line]).unwrap().parse().unwrap();
    (rest.len() >= line + 2).then_some((number, at + line + 2))
}
