//! Changes the scripts in `lua/` one small thing at a time, and prints the changes that no test notices. `scripts/mutants`
//! compiles this file with rustc alone and runs it:
//!
//!   mutate-lua BINARY TESTS [EVERY] [FILE]   with EVERY = 20 only each twentieth change; FILE such as lua/refund.lua
//!
//! Nothing is built for a change: the scripts and their SHA-1 are replaced in a copy of the binary, which the tests run
//! because `SECKILL_TEST_BINARY` names it. Comments make room for what is longer.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

/// Tests that run for every change, and those that run if it survived the first.
const STAGES: [&[&str]; 3] = [
    &["drop_ins::"],
    &["statuses::", "model::"],
    &["bulk::", "state::", "input::", "preheat::", "pause", "ledger::", "reconcile::", "run::", "race"],
];
/// These compare a script with its file, and would notice a change without running it.
const SKIPPED: [&str; 2] = ["headers::", "upstream_lua::"];
/// A change that makes the tests hang is noticed.
const PATIENCE: Duration = Duration::from_secs(600);

/// What stands in code, and what it becomes.
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

struct Mutant {
    file: PathBuf,
    /// From 0.
    line: usize,
    before: String,
    after: String,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [binary, tests, options @ ..] = &arguments[..] else {
        panic!("usage: mutate-lua BINARY TESTS [EVERY] [FILE]");
    };
    let every: usize = options.first().map_or(1, |every| every.parse().expect("EVERY is a number"));
    let only = options.get(1).map(PathBuf::from);
    let original = fs::read(binary).expect("the binary");
    let copy = env::temp_dir().join(format!("seckill-mutant-{}", std::process::id()));

    let mut files = lua_files("lua");
    files.extend(lua_files("lua/lib"));
    files.extend(lua_files("lua/drop-in"));
    let mutants: Vec<Mutant> = files.iter().filter(|file| only.as_ref().is_none_or(|only| only == *file)).flat_map(mutants_of).collect();
    let chosen: Vec<&Mutant> = mutants.iter().step_by(every).collect();
    eprintln!("{} of {} changes", chosen.len(), mutants.len());

    let (mut caught, mut survivors) = (0, 0);
    for (nth, mutant) in std::iter::once(None).chain(chosen.iter().copied().map(Some)).enumerate() {
        write_binary(&copy, &patched(&original, mutant));
        let stages = stages(mutant.map(|mutant| &*mutant.file).or(only.as_deref()));
        let is_noticed = stages.iter().any(|filters| !passes(tests, &copy, filters));
        let Some(mutant) = mutant else {
            assert!(!is_noticed, "the tests fail without any change");
            continue;
        };
        let Mutant { file, line, before, after } = mutant;
        if is_noticed {
            caught += 1;
        } else {
            survivors += 1;
            println!("SURVIVED {}:{}\n  - {}\n  + {}", file.display(), line + 1, before.trim(), after.trim());
        }
        eprintln!("{nth} of {}: {caught} caught, {survivors} survived", chosen.len());
    }
    let _ = fs::remove_file(&copy);
    println!("{caught} of {} changes are caught ({:.1} %)", chosen.len(), 100.0 * caught as f64 / chosen.len().max(1) as f64);
}

/// The tests for a change of this file: the drop-ins' for what only they have, not theirs for what only others have.
fn stages(file: Option<&Path>) -> &'static [&'static [&'static str]] {
    let Some(file) = file else { return &STAGES };
    let is_shared = file.ends_with("lib/checks.lua");
    let is_drop_in = file.starts_with("lua/drop-in") || file.ends_with("lib/drop_in.lua");
    match (is_shared, is_drop_in) {
        (true, _) => &STAGES,
        (_, true) => &STAGES[..1],
        _ => &STAGES[1..],
    }
}

fn lua_files(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("run it at the top of the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "lua"));
    files.sort();
    files
}

/// All changes of a file's code.
fn mutants_of(file: &PathBuf) -> Vec<Mutant> {
    let text = fs::read_to_string(file).unwrap();
    let mut found = Vec::new();
    let mut is_header = text.starts_with("--[[");
    for (line, before) in text.lines().enumerate() {
        let code = before.find("--").map_or(before, |comment| &before[..comment]);
        if !is_header {
            let mut add = |after: String| found.push(Mutant { file: file.clone(), line, before: before.to_owned(), after });
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
    let is_word = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.');
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

/// The binary with every script that the change is in, and its SHA-1.
fn patched(original: &[u8], mutant: Option<&Mutant>) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for script in lua_files("lua").into_iter().chain(lua_files("lua/drop-in")) {
        let before = joined(&script, None, &mut Vec::new());
        let after = joined(&script, mutant, &mut Vec::new());
        if before != after {
            let after = fitted(&after, before.len());
            replace(&mut bytes, before.as_bytes(), after.as_bytes());
            replace(&mut bytes, sha1(&before).as_bytes(), sha1(&after).as_bytes());
        }
    }
    bytes
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

/// A text of that length: comments go, and spaces follow.
fn fitted(text: &str, length: usize) -> String {
    let (header, code) = text.split_once("\n]]\n").expect("a header");
    let mut kept = format!("{header}\n]]\n");
    let mut excess = text.len().saturating_sub(length);
    for line in code.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with("--");
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

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len());
    let mut places = Vec::new();
    for at in 0..=bytes.len() - old.len() {
        if bytes[at] == old[0] && bytes[at..].starts_with(old) {
            places.push(at);
        }
    }
    assert!(!places.is_empty(), "the binary is not of these scripts: build it again");
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
}

fn sha1(text: &str) -> String {
    use std::io::Write;
    let mut process = Command::new("sha1sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha1sum");
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let printed = process.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&printed[..40]).into_owned()
}

fn write_binary(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::PermissionsExt;
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether these tests pass with that binary. The first that fails ends them all, with the servers they started.
fn passes(tests: &str, binary: &Path, filters: &[&str]) -> bool {
    let directory = binary.with_extension("tests");
    fs::create_dir_all(&directory).unwrap();
    let mut command = Command::new(tests);
    command.args(filters).env("SECKILL_TEST_BINARY", binary).env("TMPDIR", &directory).env("RUST_BACKTRACE", "0");
    for skipped in SKIPPED {
        command.args(["--skip", skipped]);
    }
    let mut process = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the tests");
    let group = format!("-{}", process.id());
    let end_all = move || Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status().unwrap();
    let (is_over, over) = mpsc::channel::<()>();
    let watch = thread::spawn({
        let end_all = end_all.clone();
        move || over.recv_timeout(PATIENCE).is_err_and(|why| why == mpsc::RecvTimeoutError::Timeout).then(end_all)
    });
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let has_failed = lines.into_iter().any(|line| line.ends_with(" ... FAILED"));
    if has_failed {
        end_all();
    }
    let passed = process.wait().unwrap().success();
    drop(is_over);
    watch.join().unwrap();
    let _ = fs::remove_dir_all(&directory);
    passed && !has_failed
}
