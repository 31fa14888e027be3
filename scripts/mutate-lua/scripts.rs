//! The scripts as `build.rs` joins them, and a binary in which a change replaces them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::changes::Mutant;

/// Comments that tests cut a script at.
const MARKS: [&str; 3] = ["-- Quick path", "-- Includes.", "-- Reference path."];

/// A binary, and where its scripts are.
pub struct Binary {
    bytes: Vec<u8>,
    scripts: Vec<Script>,
}

struct Script {
    path: PathBuf,
    text: String,
    texts_at: Vec<usize>,
    hashes_at: Vec<usize>,
}

impl Binary {
    pub fn read(path: &str) -> Self {
        let bytes = fs::read(path).expect("the binary");
        let scripts = lua_files("lua").into_iter().chain(lua_files("lua/drop-in")).map(|path| {
            let text = joined(&path, None, &mut Vec::new());
            let [texts_at, hashes_at] = [text.as_str(), &sha1(&text)].map(|part| places(&bytes, part.as_bytes()));
            assert!(
                !texts_at.is_empty() && !hashes_at.is_empty(),
                "the binary is not of these scripts: build it again"
            );
            Script { path, text, texts_at, hashes_at }
        });
        Self { scripts: scripts.collect(), bytes }
    }

    /// Writes the binary with every script that the change is in, and its SHA-1. Without a change, only comments differ.
    pub fn write(&self, to: &Path, mutant: Option<&Mutant>) {
        let mut bytes = self.bytes.clone();
        for script in &self.scripts {
            let mut after = joined(&script.path, mutant, &mut Vec::new());
            if mutant.is_none() {
                after += "\n\n\n\n\n\n\n\n";
            }
            if after != script.text {
                let after = fitted(&after, script.text.len());
                let hash = sha1(&after);
                script.texts_at.iter().for_each(|&at| bytes[at..at + after.len()].copy_from_slice(after.as_bytes()));
                script.hashes_at.iter().for_each(|&at| bytes[at..at + hash.len()].copy_from_slice(hash.as_bytes()));
            }
        }
        let _ = fs::remove_file(to);
        fs::write(to, bytes).unwrap();
        make_executable(to);
    }
}

/// Every file, in order of their names.
pub fn all_files() -> Vec<PathBuf> {
    ["lua", "lua/lib", "lua/drop-in"].into_iter().flat_map(lua_files).collect()
}

fn lua_files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("run it at the top of the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "lua"));
    files.sort();
    files
}

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let starts = 0..=bytes.len() - wanted.len();
    starts.filter(|&at| bytes[at] == wanted[0] && bytes[at..].starts_with(wanted)).collect()
}

/// As `build.rs` joins it.
fn joined(path: &Path, mutant: Option<&Mutant>, included: &mut Vec<String>) -> String {
    let source = fs::read_to_string(path).unwrap();
    let mut text = String::new();
    for (line, mut part) in source.lines().enumerate() {
        if let Some(mutant) = mutant.filter(|mutant| mutant.file == path && mutant.line == line) {
            part = &mutant.after;
        }
        match part.strip_prefix("--- @include \"") {
            None => text.extend([part, "\n"]),
            Some(name) => {
                let name = name.trim_end_matches('"').to_owned();
                if !included.contains(&name) {
                    included.push(name.clone());
                    text += &joined(Path::new(&format!("lua/lib/{name}.lua")), mutant, included);
                }
            }
        }
    }
    text
}

/// A text of that length: comments go, and empty lines follow.
fn fitted(text: &str, length: usize) -> String {
    let (header, code) = text.split_once("\n]]\n").expect("a header");
    let mut kept = format!("{header}\n]]\n");
    let mut excess = text.len().saturating_sub(length);
    for line in code.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with("--") && !MARKS.iter().any(|mark| line.starts_with(mark));
        if is_comment && excess > 0 {
            excess = excess.saturating_sub(line.len());
        } else {
            kept += line;
        }
    }
    assert!(kept.len() <= length, "no comment to leave out");
    kept.extend(std::iter::repeat_n('\n', length - kept.len()));
    kept
}

pub fn sha1(text: &str) -> String {
    use std::io::Write;
    let mut process = Command::new("sha1sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha1sum");
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let printed = process.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&printed[..40]).into_owned()
}

pub fn make_executable(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A path of this process, short enough for sockets.
pub fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("skm{}{name}", std::process::id()))
}
