//! Modules depend in one direction: each room of `src` on those above it in ARCHITECTURE.md, and no two modules of one folder on
//! each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{files_below, root};

/// What each module of a directory uses of its siblings.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The module path of a file below `src`: `sell/bulk/mod.rs` is `[sell, bulk]`.
fn module(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Absolute paths of all modules that a file names by `crate::`, `super::` or `seckill::`.
fn used(module: &[String], text: &str) -> BTreeSet<Vec<String>> {
    // Tests may look at everything.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|l| format!("{l}\n")).collect();
    let mut found = BTreeSet::new();
    for (root, prefix) in [("crate", Vec::new()), ("seckill", Vec::new()), ("super", module.to_vec())] {
        for (at, _) in code.match_indices(&format!("{root}::")) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            expand(&code[at..], &prefix, &mut found);
        }
    }
    found
}

/// Adds every path of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str, base: &[String], found: &mut BTreeSet<Vec<String>>) {
    let mut path = base.to_vec();
    let mut rest = tree;
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        match &rest[..end] {
            "super" => drop(path.pop()),
            "crate" | "seckill" | "self" => (),
            name => path.push(name.to_owned()),
        }
        rest = &rest[end..];
        let Some(next) = rest.strip_prefix("::") else { break };
        if let Some(group) = next.strip_prefix('{') {
            let mut depth = 0;
            let end = group.find(|c| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth < 0
            });
            let (mut depth, mut start) = (0, 0);
            let group = &group[..end.unwrap()];
            for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
                depth += i32::from(c == '{') - i32::from(c == '}');
                if c == ',' && depth == 0 {
                    expand(group[start..at].trim(), &path, found);
                    start = at + 1;
                }
            }
            return;
        }
        rest = next;
    }
    found.insert(path);
}

/// The modules below `src` with their texts.
fn modules() -> Vec<(Vec<String>, String)> {
    let root = root().join("src");
    let module_of = |file: &PathBuf| module(file.strip_prefix(&root).unwrap());
    let sources = files_below(&root).into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs"));
    sources.map(|file| (module_of(&file), fs::read_to_string(file).unwrap())).collect()
}

/// For each directory below `src`: which of its modules use which.
fn uses() -> BTreeMap<Vec<String>, Uses> {
    let files = modules();
    let modules: BTreeSet<&Vec<String>> = files.iter().map(|(module, _)| module).collect();
    let mut levels: BTreeMap<Vec<String>, Uses> = BTreeMap::new();
    for (module, text) in files.iter().filter(|(module, _)| module.last().is_some_and(|last| last != "tests")) {
        for path in used(module, text) {
            let shared = module.iter().zip(&path).take_while(|(one, other)| one == other).count();
            // A module and what is in it belong together, in both directions.
            let (Some(own), Some(other)) = (module.get(shared), path.get(shared)) else { continue };
            if modules.contains(&path[..=shared].to_vec()) {
                levels
                    .entry(path[..shared].to_vec())
                    .or_default()
                    .entry(own.clone())
                    .or_default()
                    .insert(other.clone());
            }
        }
    }
    levels
}

/// A path from a module back to itself.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    fn walk(at: &str, uses: &Uses, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(start) = path.iter().position(|seen| seen == at) {
            path.drain(..start);
            return true;
        }
        if !done.insert(at.to_owned()) {
            return false;
        }
        path.push(at.to_owned());
        let found = uses.get(at).into_iter().flatten().any(|next| walk(next, uses, path, done));
        if !found {
            path.pop();
        }
        found
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|start| {
        let mut path = Vec::new();
        walk(start, uses, &mut path, &mut done).then_some(path)
    })
}

#[test]
fn a_use_tree_is_every_path_in_it() {
    let module = ["sell".to_owned(), "bulk".to_owned()];
    let code = "use super::{keys::Keys, call::{self, Again}};\nfn f() { crate::model::id::of(1) }\n// crate::cli::x\n";
    let paths: Vec<String> = used(&module, code).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["model::id::of", "sell::call", "sell::call::Again", "sell::keys::Keys"]);
    let circular = Uses::from([("a".into(), ["b".into()].into()), ("b".into(), ["a".into()].into())]);
    assert_eq!(circle(&circular).unwrap(), ["a", "b"]);
}

/// The rooms of `src`, from the bottom up.
const FLOORS: [&str; 14] = [
    "model",
    "error",
    "script",
    "redis",
    "shards",
    "store",
    "read",
    "sell",
    "audit",
    "admin",
    "report",
    "bench",
    "cli",
    "internals",
];

#[test]
fn each_room_uses_only_those_above_it() {
    let rooms = &uses()[&Vec::new()];
    let floor =
        |room: &str| FLOORS.iter().position(|name| *name == room).unwrap_or_else(|| panic!("{room} has no floor"));
    for (room, used) in rooms.iter().filter(|(room, _)| !["lib", "main"].contains(&room.as_str())) {
        let above: Vec<&String> = used.iter().filter(|other| floor(other) > floor(room)).collect();
        assert!(above.is_empty(), "{room} uses {above:?}, which are above it");
    }
}

/// All others send calls by `redis/call/`, which alone knows what may be sent again.
#[test]
fn who_has_connections_of_their_own_watches_keys_scans_or_looks_for_faults() {
    let is_connection = |path: &Vec<String>| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        path.starts_with(&["redis", "connection", "Connection"]) || path.starts_with(&["redis", "cluster", "server"])
    };
    let has_own = |(module, text): &(Vec<String>, String)| {
        let is_below = ["redis", "bench"].contains(&&*module[0]);
        (!is_below && used(module, text).iter().any(is_connection)).then(|| module.join("::"))
    };
    let mut found: Vec<String> = modules().iter().filter_map(has_own).collect();
    found.sort();
    let health = ["read::health", "read::health::rights", "read::health::slots"];
    assert_eq!(found, [&["admin::archive", "audit::read::page_reader"][..], &health].concat());
}

#[test]
fn no_modules_of_one_level_use_each_other_in_a_circle() {
    let circles: Vec<String> = uses()
        .iter()
        .filter_map(|(level, uses)| Some(format!("{}: {}", level.join("::"), circle(uses)?.join(" → "))))
        .collect();
    assert!(circles.is_empty(), "{circles:#?}");
}
