//! A header that drifts misleads: it and the code name the same keys and arguments, and what is shown is what runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::scripts::{SCRIPTS, shown};
use crate::support::{LAYOUTS, TestRedis, seckill};

fn source(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(name)).unwrap()
}

/// The numbers in `NAME[…]`: `[3]`, `[8..12]`, `[at + 5]`. Anything else is computed, and gives nothing.
fn numbers(text: &str, name: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for rest in text.split(&format!("{name}[")).skip(1) {
        let inside = rest.split(']').next().unwrap().trim_start_matches("sale.").trim_start_matches("at + ");
        match inside.split_once("..") {
            Some((first, last)) => {
                let first = first.parse::<u32>().unwrap();
                found.extend(first..=last.parse().unwrap_or(first));
            }
            None => found.extend(inside.parse::<u32>().ok()),
        }
    }
    found
}

/// What of the header is only said to be there, and read by nobody.
fn unread(header: &str, name: &str) -> BTreeSet<u32> {
    let lines = header.lines().filter(|line| {
        let text = line.split(']').nth(1).unwrap_or_default().trim();
        line.contains(&format!("{name}[")) && (text == "empty" || text.contains("nothing is read"))
    });
    lines.flat_map(|line| numbers(line, name)).collect()
}

#[test]
fn header_and_code_name_the_same_keys_and_arguments() {
    for name in SCRIPTS {
        let own = source(&format!("{name}.lua"));
        let header = own.split("]]\n").next().unwrap();
        let code = shown(name).replace(header, "");
        for (what, computed) in [("KEYS", false), ("ARGV", code.contains(" + i]"))] {
            let (said, used) = (numbers(header, what), numbers(&code, what));
            assert!(!said.is_empty() && !used.is_empty(), "{name}: {what}");
            let silent: Vec<_> = used.difference(&said).collect();
            assert!(silent.is_empty(), "{name}: the header is silent about {what}{silent:?}");
            let unread = unread(header, what);
            let forgotten: Vec<_> = said.difference(&used).filter(|number| !unread.contains(*number)).collect();
            // `ARGV[6 + i]`, and a list that is read from somewhere on, are used without a number of their own.
            let open = computed || header.contains("..] ");
            assert!(open || forgotten.is_empty(), "{name}: the header promises {what}{forgotten:?}");
        }
    }
}

#[test]
fn keys_are_never_built_nor_renamed_in_lua() {
    for name in SCRIPTS {
        for call in shown(name).split("redis.call('").chain(shown(name).split("redis.pcall('")).skip(1) {
            let Some((command, rest)) = call.split_once('\'') else { continue };
            // One has no key, and the other names what it asks for first.
            if ["TIME", "XINFO"].contains(&command) || !command.chars().all(|c| c.is_ascii_uppercase()) {
                continue;
            }
            let literal = rest.starts_with(", KEYS[") || rest.starts_with(", unpack(KEYS)");
            assert!(literal, "{name}: {command}{}", rest.lines().next().unwrap());
        }
    }
}

#[test]
fn every_command_that_is_called_is_in_the_header() {
    for name in SCRIPTS {
        let header = source(&format!("{name}.lua"));
        let needs = header.split("Commands it needs").nth(1).unwrap().split("]]").next().unwrap().to_owned();
        let own = header.split("]]\n").nth(1).unwrap().to_owned();
        for call in own.split("redis.call('").skip(1) {
            let command = call.split('\'').next().unwrap();
            let said = needs.split(|c: char| !c.is_ascii_alphabetic()).any(|word| word == command);
            assert!(said, "{name}: {command} is called, and not in the header");
        }
    }
}

/// The file with what it includes in place of each `--- @include "name"`, each part once.
fn joined(file: &str, included: &mut BTreeSet<String>) -> String {
    let part = |line: &str| match line.strip_prefix("--- @include \"") {
        None => line.to_owned(),
        Some(name) => {
            let name = name.trim_end().trim_end_matches('"');
            let is_new = included.insert(name.to_owned());
            if is_new { joined(&format!("lib/{name}.lua"), included) } else { String::new() }
        }
    };
    source(file).split_inclusive('\n').map(part).collect()
}

#[test]
fn show_prints_the_header_first_and_what_a_script_includes_in_its_place() {
    for name in SCRIPTS {
        assert!(shown(name).starts_with(&format!("--[[\n  {name}: ")), "{name}");
        assert!(!shown(name).contains("@include"), "{name}");
        assert_eq!(shown(name), joined(&format!("{name}.lua"), &mut BTreeSet::new()), "{name}");
    }
}

#[test]
fn the_embedded_sha1_is_what_the_server_computes() {
    let redis = TestRedis::start();
    let list = seckill(["script", "list", "-o", "json"]).code(0).stderr("").json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, SCRIPTS);
    for row in list.as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let text = seckill(["script", "show", name]).code(0).stderr("").stdout;
        let sha1: String = redis.ask(("SCRIPT", "LOAD", text));
        assert_eq!(row["sha1"], sha1, "{name}");
    }
}

#[test]
fn load_puts_every_script_into_the_servers_cache() {
    let redis = TestRedis::start();
    let list = redis.seckill(["script", "load", "-o", "json"]).code(0).stderr("").json();
    for row in list.as_array().unwrap() {
        let there: Vec<bool> = redis.ask(("SCRIPT", "EXISTS", row["sha1"].as_str().unwrap()));
        assert_eq!(there, [true], "{row}");
    }
}

#[test]
fn the_list_has_the_keys_of_the_layout() {
    for layout in LAYOUTS {
        let list = seckill(["script", "list", "-o", "json", "-l", layout.name]).code(0).json();
        for row in list.as_array().unwrap() {
            let keys = row["keys"].as_str().unwrap();
            assert!(keys.starts_with(&layout.keys("<id>").join(" ")), "{row}");
        }
    }
}

#[test]
fn a_script_that_is_not_there_is_a_usage_error_that_names_those_that_are() {
    let outcome = seckill(["script", "show", "audti"]).code(2).stdout_is("");
    for name in SCRIPTS {
        assert!(outcome.stderr.contains(name), "{}", outcome.stderr);
    }
}
