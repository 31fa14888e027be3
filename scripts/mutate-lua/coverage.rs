//! Which tests run which line. Each test runs once, on a build of scripts in which every statement writes to the server's log
//! its line; what a test takes is measured by that, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::running::end_group;
use crate::scripts::{all_files, temporary};

/// Modules that run no script, or only as others do, and those that compare a script with its file.
const SKIPPED: [&str; 20] = [
    "backends::",
    "bench::",
    "calls::",
    "cluster::",
    "context::",
    "doctor::",
    "documents::",
    "harness::",
    "layers::",
    "metrics::",
    "options::",
    "packaging::",
    "report::",
    "secrets::",
    "sentinel::",
    "shell::",
    "snapshots::",
    "statuses::headers::",
    "statuses::upstream_lua::",
    "watch::",
];
const PATIENCE: Duration = Duration::from_secs(300);
pub struct Test {
    pub name: String,
    pub seconds: f64,
    /// File and line, from 0, where a statement begins.
    lines: BTreeSet<(PathBuf, usize)>,
}

impl Test {
    /// How much of what it runs is in that file.
    pub fn share_of(&self, file: &Path) -> f64 {
        self.lines.iter().filter(|(of, _)| of == file).count() as f64 / self.lines.len().max(1) as f64
    }
}

pub struct Coverage {
    pub tests: Vec<Test>,
    probes: BTreeMap<PathBuf, Vec<usize>>,
}

impl Coverage {
    /// What `file` has; tests that it does not know run first, and all of them if a script has changed.
    pub fn read(file: &Path, tests: &str, binary: &Path, server: &str) -> Self {
        let sources: String = all_files().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let digest = crate::scripts::sha1(&sources);
        let known = fs::read_to_string(file).unwrap_or_default();
        let known: BTreeMap<&str, &str> = match known.split_once('\n') {
            Some((of, lines)) if of == digest => {
                lines.lines().filter_map(|line| line.split_once('\t').map(|(name, _)| (name, line))).collect()
            }
            _ => BTreeMap::new(),
        };
        let listed = Command::new(tests).arg("--list").output().expect("the tests").stdout;
        let listed = String::from_utf8(listed).unwrap();
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let names: Vec<&str> = names.filter(|name| !SKIPPED.iter().any(|skipped| name.starts_with(skipped))).collect();
        let new: Vec<&str> = names.iter().copied().filter(|name| !known.contains_key(name)).rev().collect();
        let mut lines: BTreeMap<String, String> =
            names.iter().filter_map(|name| Some(((*name).to_owned(), (*known.get(name)?).to_owned()))).collect();
        let (todo, done) = (Arc::new(Mutex::new(new)), Mutex::new(&mut lines));
        std::thread::scope(|scope| {
            for worker in 0..crate::running::at_once() {
                let (todo, done, digest) = (todo.clone(), &done, &digest);
                scope.spawn(move || {
                    loop {
                        let Some(name) = todo.lock().unwrap().pop() else { break };
                        let line = line_of(name, tests, binary, server, worker);
                        eprintln!("{}", line.chars().take(120).collect::<String>());
                        let mut done = done.lock().unwrap();
                        done.insert(name.to_owned(), line);
                        let text: String = done.values().map(|line| format!("{line}\n")).collect();
                        fs::write(file, format!("{digest}\n{text}")).unwrap();
                    }
                });
            }
        });
        let tests = lines.values().map(|line| parsed(line)).collect();
        let probes =
            all_files().into_iter().map(|file| (file.clone(), places(&fs::read_to_string(file).unwrap()))).collect();
        Self { tests, probes }
    }

    /// The tests that run a line, by number.
    pub fn of(&self, file: &Path, line: usize) -> Vec<usize> {
        let text = fs::read_to_string(file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let indent = |line: usize| lines[line].len() - lines[line].trim_start().len();
        // A line that continues a statement, or closes a block, is deeper than what begins it or as deep.
        let start = self.probes[file].iter().rev().find(|&&probe| probe <= line && indent(probe) <= indent(line));
        let is_run = |test: &Test| start.is_some_and(|start| test.lines.contains(&(file.to_owned(), *start)));
        (0..self.tests.len()).filter(|&test| is_run(&self.tests[test])).collect()
    }
}

/// Runs one test: its name, seconds, whether it passed, and the lines.
fn line_of(name: &str, tests: &str, binary: &Path, server: &str, worker: usize) -> String {
    let directory = temporary(&format!("{worker}"));
    fs::create_dir_all(&directory).unwrap();
    let wrapper = directory.join("server");
    let script = format!(
        "#!/bin/bash\nexec {server} \"$@\" > >(exec perl -ne 'BEGIN {{ $| = 1 }} if (/ COV (\\S+)/) {{ \
         print STDERR \"$1\\n\" unless $seen{{$1}}++ }} else {{ print }}' 2>>{}/covered)\n",
        directory.display()
    );
    fs::write(&wrapper, script).unwrap();
    crate::scripts::make_executable(&wrapper);
    let begun = Instant::now();
    let mut command = Command::new(tests);
    command
        .args(["--exact", name])
        .env("SECKILL_TEST_BINARY", binary)
        .env("TMPDIR", &directory)
        .env("SECKILL_TEST_SERVER", &wrapper);
    let mut process = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the tests");
    let group = process.id();
    let status = loop {
        match process.try_wait().unwrap() {
            Some(status) => break status.success(),
            None if begun.elapsed() > PATIENCE => {
                end_group(group);
                process.wait().unwrap();
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    // Until the last of the log is read.
    for _ in 0..100 {
        let is_there =
            Command::new("kill").args(["-0", "--", &format!("-{group}")]).stderr(Stdio::null()).status().unwrap();
        if !is_there.success() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let covered = fs::read_to_string(directory.join("covered")).unwrap_or_default();
    let covered: BTreeSet<&str> = covered.lines().filter(|line| line.starts_with("lua/")).collect();
    let _ = fs::remove_dir_all(&directory);
    let covered = covered.into_iter().collect::<Vec<_>>().join(" ");
    format!("{name}\t{seconds:.3}\t{}\t{covered}", if status { "passed" } else { "FAILED" })
}

fn parsed(line: &str) -> Test {
    let [name, seconds, _, covered] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("no test: {line}") };
    let place = |word: &str| word.rsplit_once(':').map(|(file, line)| (PathBuf::from(file), line.parse().unwrap()));
    Test {
        name: name.to_owned(),
        seconds: seconds.parse().unwrap(),
        lines: covered.split(' ').filter_map(place).collect(),
    }
}

/// Writes the scripts so that every statement writes its line to the log once a call.
pub fn instrument(directory: &Path) {
    for file in all_files() {
        let text = fs::read_to_string(&file).unwrap();
        let starts = places(&text);
        let mut noted = String::new();
        let mut has_helper = !text.starts_with("--[[");
        for (number, line) in text.lines().enumerate() {
            if starts.contains(&number) {
                let indent = line.len() - line.trim_start().len();
                noted += &format!("{}note_line('{}:{number}') {}\n", &line[..indent], file.display(), &line[indent..]);
            } else {
                noted += &format!("{line}\n");
            }
            if !has_helper && line.starts_with("]]") {
                has_helper = true;
                noted += "local noted_lines = {} local function note_line(line) if not noted_lines[line] then \
                         noted_lines[line] = true redis.log(redis.LOG_WARNING, 'COV ' .. line) end end\n";
            }
        }
        fs::write(directory.join(&file), noted).unwrap();
    }
}

/// The lines of a file that begin a statement.
fn places(text: &str) -> Vec<usize> {
    const GO_ON: [&str; 14] =
        ["end", "else", "elseif", "until", "and", "or", "not", "then", "do", "function", "..", "+", ")", "}"];
    let mut found = Vec::new();
    let (mut depth, mut is_open) = (0_i32, false);
    let mut is_header = text.starts_with("--[[");
    for (number, line) in text.lines().enumerate() {
        let code = line.find("--").map_or(line, |comment| &line[..comment]).trim();
        if !is_header && !code.is_empty() {
            let word: String = code.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if depth == 0 && !is_open && !word.is_empty() && !GO_ON.contains(&&*word) {
                found.push(number);
            }
            let outside = code.split('\'').step_by(2).collect::<String>();
            depth += outside.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum::<i32>();
            is_open = [" and", " or", "..", "=", ",", " +", " -", "(", "{"].iter().any(|end| code.ends_with(end));
        }
        is_header = is_header && !line.starts_with("]]");
    }
    found
}
