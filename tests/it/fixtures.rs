//! Fixtures that are not valid: each is refused with its place, its text and what was expected, and nothing is written.
//!
//! A file under `bad/` says itself what must be reported: `#! 4:12: text` means `FILE:4:12: text`, and `#? text`
//! and a `#!` without a place for that text anywhere on stderr.

use std::fs;
use std::path::PathBuf;

use crate::support::{TestRedis, root, seckill};

fn bad() -> PathBuf {
    root().join("tests/it/bad")
}

/// What a file says must be reported about it.
fn promised(name: &str, text: &str) -> Vec<String> {
    let mut promised = Vec::new();
    for line in text.lines() {
        if let Some(said) = line.strip_prefix("#! ") {
            let place = said.split(':').take(2).all(|part| part.parse::<u32>().is_ok());
            promised.push(if place { format!("{name}:{said}") } else { said.to_owned() });
        }
        promised.extend(line.strip_prefix("#? ").map(str::to_owned));
    }
    promised
}

#[test]
fn every_bad_fixture_is_refused_with_its_place_and_writes_nothing() {
    let redis = TestRedis::start();
    let empty = redis.dump_all();
    let mut files: Vec<PathBuf> = fs::read_dir(bad()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 30, "{files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(&file).unwrap();
        let mut promised = promised(name, &String::from_utf8_lossy(&bytes));
        match name {
            "empty.yaml" => promised.push("empty.yaml:1:1: the file holds nothing".to_owned()),
            "not_utf8.yaml" => promised.push("not_utf8.yaml:3:12: byte `0xff` is not UTF-8".to_owned()),
            _ => {}
        }
        assert!(!promised.is_empty(), "{name} promises nothing");
        for command in ["run", "preheat"] {
            let mut outcome = redis.seckill([command, name]).in_dir(&bad()).code(2).stdout_is("");
            for text in &promised {
                outcome = outcome.stderr_has(text);
            }
        }
        redis.assert_unchanged_since(&empty);
    }
}

#[test]
fn no_server_is_needed_to_refuse_a_fixture() {
    seckill(["run", "negative_stock.yaml"]).in_dir(&bad()).code(2).stderr_has("negative_stock.yaml:4:12:");
    seckill(["run", "no-such.yaml"]).code(2).stderr_has("cannot read `no-such.yaml`: no such file or directory");
}

#[test]
fn what_the_layout_cannot_hold_is_refused_wherever_the_layout_comes_from() {
    let redis = TestRedis::start();
    let empty = redis.dump_all();
    let fixture = "activities: [{id: c, stock: 1, per_user_limit: 2}]";
    for call in [redis.seckill(["run", "-", "-l", "coupon"]), redis.seckill(["run", "-"]).env("SECKILL_LAYOUT", "sku")]
    {
        call.stdin(fixture).code(2).stderr_has("<stdin>:1:48: per_user_limit: `2` is not 1");
    }
    redis.assert_unchanged_since(&empty);
}
