//! `-o prometheus`, and what `contrib/` makes of it.

mod contrib;
mod file;
mod sale;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{TestRedis, root};

/// The samples of a family, without the labels that all have.
fn samples(text: &str, family: &str) -> Vec<String> {
    let of_family = |line: &&str| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let common = |line: &str| {
        let (_, rest) = line.split_once("layout=\"").unwrap();
        let (_, rest) = rest.split_once('"').unwrap();
        rest.trim_start_matches([',', '}', ' ']).replace("} ", " ")
    };
    text.lines().filter(of_family).map(common).collect()
}

#[track_caller]
fn metrics(redis: &TestRedis, args: &[&str], code: i32) -> String {
    redis.seckill([]).args(args).args(["-o", "prometheus"]).code(code).stdout
}

/// Prometheus' own tool, if this machine has it. If `make test` could fetch it, it must be there.
fn promtool() -> Option<PathBuf> {
    let fetched = root().join(".servers/promtool");
    let found = match std::env::var("SECKILL_TEST_PROMTOOL") {
        Ok(name) if name == "skip" => None,
        Ok(path) if !path.is_empty() => {
            assert!(Path::new(&path).is_file(), "SECKILL_TEST_PROMTOOL={path}: no such file");
            Some(PathBuf::from(path))
        }
        _ => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let mut places = std::env::split_paths(&path).map(|dir| dir.join("promtool")).chain([fetched]);
            places.find(|file| file.is_file())
        }
    };
    if found.is_none() {
        eprintln!("note: skipped, because this machine has no promtool");
    }
    found
}

fn run(tool: &Path, args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn assert_metrics_are_valid(text: &str) {
    let Some(promtool) = promtool() else { return };
    let ended = run(&promtool, &["check", "metrics"], text);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && said.is_empty(), "{said}\n{text}");
}
