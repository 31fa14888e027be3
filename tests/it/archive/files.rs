//! The files: what they are, that they are verified before anything is written, and that a full disk loses nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::Shop;
use crate::support::{LAYOUTS, SECKILL};

#[test]
fn sha256sum_checks_them_and_each_line_is_json() {
    for layout in LAYOUTS {
        let shop = Shop::open(layout);
        shop.archive().code(0);
        let folder = shop.folder();
        let checked = Command::new("sha256sum").args(["-c", "SHA256SUMS"]).current_dir(&folder).output().unwrap();
        assert!(checked.status.success(), "{layout:?}: {checked:?}");
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
        assert_eq!((&manifest["format"], &manifest["version"]), (&"seckill-archive".into(), &1.into()));
        assert_eq!((&manifest["by"], &manifest["title"]), (&"tester@test".into(), &"phone".into()), "{layout:?}");
        for file in manifest["files"].as_array().unwrap() {
            let text = fs::read_to_string(folder.join(file["file"].as_str().unwrap())).unwrap();
            assert_eq!(file["lines"], text.lines().count(), "{layout:?}: {file}");
            assert!(text.lines().all(|line| serde_json::from_str::<Vec<serde_json::Value>>(line).is_ok()));
        }
        // Who bought is nobody else's business.
        for path in [folder.clone(), folder.join("requests.jsonl"), folder.join("manifest.json")] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{path:?}");
        }
    }
}

#[test]
fn a_reason_is_in_the_manifest_and_in_the_meta() {
    let shop = Shop::open(SECKILL);
    shop.archive().args(["--reason", "season over"]).code(0);
    let manifest = fs::read_to_string(shop.folder().join("manifest.json")).unwrap();
    assert!(manifest.contains("\"reason\": \"season over\""), "{manifest}");
    shop.call("inspect 1").code(0).stderr_has("by tester@test: season over");
    shop.restore().args(["--reason", "complaint 7"]).code(0);
    let restored = shop.redis.hget(&SECKILL.meta("1"), "restored").unwrap();
    assert!(restored.ends_with(" tester@test: complaint 7"), "{restored}");
}

#[test]
fn a_file_that_is_not_as_it_was_written_restores_nothing() {
    let shop = Shop::open(SECKILL);
    shop.archive().code(0);
    let before = shop.redis.dump_all();
    let spoil = |file: &str, how: &dyn Fn(Vec<u8>) -> Vec<u8>, words: &str| {
        let path = shop.folder().join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, how(whole.clone())).unwrap();
        shop.restore().code(2).stdout_is("").stderr_has(words);
        shop.redis.assert_unchanged_since(&before);
        fs::write(&path, whole).unwrap();
    };
    let flip = |mut bytes: Vec<u8>| {
        let at = bytes.iter().position(|byte| *byte == b'a').unwrap();
        bytes[at] = b'b';
        bytes
    };
    for file in ["participants.jsonl", "requests.jsonl", "ledger.jsonl"] {
        spoil(file, &flip, "is not as it was archived: its SHA-256 is");
        spoil(file, &|bytes| bytes[..bytes.len() - 3].to_vec(), "not a JSON array of texts");
        spoil(
            file,
            &|bytes| [bytes, b"[\"x\",\"1\"]\n".to_vec()].concat(),
            if file == "ledger.jsonl" { "array" } else { "lines and" },
        );
        let path = shop.folder().join(file);
        fs::rename(&path, shop.folder().join("aside")).unwrap();
        shop.restore().code(2).stderr_has(file).stderr_has("take another copy of the archive");
        fs::rename(shop.folder().join("aside"), &path).unwrap();
    }
    spoil("manifest.json", &flip, "");
    let other_title = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace("phone", "other").into_bytes();
    spoil("manifest.json", &other_title, "its SHA-256 is not the one in `SHA256SUMS`");
    let newer =
        |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace("\"version\": 1", "\"version\": 2").into_bytes();
    spoil("manifest.json", &newer, "it is of version 2");
    spoil("manifest.json", &|_| b"{}".to_vec(), "is no manifest of an archive");
    spoil("SHA256SUMS", &|_| Vec::new(), "SHA256SUMS");
    shop.restore().code(0);
}

#[test]
fn a_directory_that_cannot_be_written_or_holds_nothing_is_named() {
    let shop = Shop::open(SECKILL);
    let before = shop.state();
    let file = shop.directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        shop.call("archive 1 --yes --to").args([&path]).code(1).stderr_has("cannot write");
    }
    // Something of that name is there already, and is no archive.
    fs::create_dir(shop.folder()).unwrap();
    fs::write(shop.folder().join("mine"), "x").unwrap();
    shop.archive().code(2).stderr_has("holds something else");
    assert_eq!(fs::read_to_string(shop.folder().join("mine")).unwrap(), "x");
    assert_eq!(shop.state(), before);
    for path in [shop.to().to_owned(), shop.to().to_owned() + "/nowhere", file.display().to_string()] {
        shop.call("preheat --restore").args([&path]).code(2).stdout_is("").stderr_has(&path);
    }
    shop.call("preheat --restore").args([shop.to(), "--update"]).code(2);
    shop.call("preheat --restore").args([shop.to(), "sale.yaml"]).code(2);
    shop.call("archive 1").code(2).stderr_has("--to");
}

#[test]
fn an_archive_without_its_manifest_is_damaged() {
    let shop = Shop::open(SECKILL);
    shop.archive().code(0);
    fs::remove_file(shop.folder().join("manifest.json")).unwrap();
    shop.call("preheat --restore").args([shop.to()]).code(2).stderr_has("manifest.json");
    // Sums of something else are no archive.
    fs::remove_file(shop.folder().join("ledger.jsonl")).unwrap();
    shop.call("preheat --restore").args([shop.to()]).code(2).stderr_has("holds no archive");
}
