//! A header that drifts misleads: it and the code name the same keys and arguments, and what is shown is what runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use seckill::Status;
use seckill::internals::call_code;

use crate::support::scripts::{
    DROP_INS, SCRIPTS, built_by_kind, commands, every_build, every_script, layout_has, shown, shown_of,
};
use crate::support::{LAYOUTS, SECKILL, TestRedis, seckill};

/// It takes several activities, and computes their keys.
const COMPUTED: &str = "drop-in/sku-multi";

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
                let Ok(first) = first.parse::<u32>() else { continue };
                found.extend(first..=last.parse().unwrap_or(first));
            }
            None => found.extend(inside.parse::<u32>().ok()),
        }
    }
    found
}

/// What all builds of a script do, without their headers.
fn code(name: &str) -> String {
    let builds = every_build().filter(|(of, _)| *of == name);
    builds.map(|(_, text)| text.split_once("]]\n").unwrap().1).collect()
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
    for name in every_script() {
        if name == "drop-in/sku-multi" {
            continue; // it takes any number of both
        }
        let own = source(&format!("{name}.lua"));
        let header = own.split("]]\n").next().unwrap();
        let code = code(name);
        for (what, computed) in [("KEYS", false), ("ARGV", code.contains(" + i]"))] {
            // It sets them for each activity, as `deduct_file` has them.
            if name == "multi_deduct_file" && what == "ARGV" {
                continue;
            }
            let (said, used) = (numbers(header, what), numbers(&code, what));
            let has_none = name == "peek" && what == "ARGV";
            assert!(has_none || !said.is_empty() && !used.is_empty(), "{name}: {what}");
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

/// What follows `call(` and `pcall(` in a line, also if they are local names of the server's functions.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |at: usize| line[..at].trim_end_matches('p').ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices("call(").filter(move |(at, _)| !is_name(*at)).map(|(at, found)| &line[at + found.len()..])
}

/// The first argument of a call that begins here, and what follows it.
fn first_argument(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (c == ',' && depth == 0) || depth < 0
    });
    Some(text.split_at(end?))
}

#[test]
fn scripts_of_one_activity_use_only_literal_keys() {
    for (name, text) in every_build() {
        let code = text.split_once("]]\n").unwrap().1;
        for line in code.lines().filter(|line| !line.trim_start().starts_with("--")) {
            for call in calls(line) {
                let Some((command, rest)) = first_argument(call) else { continue };
                // Lua's own pcall, and commands without a key or with a word before it.
                if !command.contains('\'') || ["'TIME'", "'XINFO'", "'XGROUP'"].contains(&command) {
                    continue;
                }
                assert!(rest.starts_with(", KEYS["), "{name}: {}", line.trim());
            }
            for key in line.split("KEYS[").skip(1).filter(|_| name != COMPUTED) {
                let number = key.split(']').next().unwrap();
                assert!(number.parse::<u32>().is_ok(), "{name}: {}", line.trim());
            }
            assert!(!line.contains("unpack(KEYS"), "{name}: {}", line.trim());
        }
    }
}

#[test]
fn every_command_that_is_called_is_in_the_header_and_no_other() {
    for name in every_script() {
        let (header, code) = (shown(name).split_once("]]\n").unwrap().0, code(name));
        let own = source(&format!("{name}.lua"));
        let needs = commands(name, "set");
        let is_said = |command: &str| needs.contains(&command.to_lowercase());
        for command in calls(&own).filter_map(|call| call.strip_prefix('\'')?.split('\'').next()) {
            assert!(is_said(command), "{name}: {command} is called, and not in the header");
        }
        for command in &needs {
            let quoted = format!("'{}'", command.to_uppercase());
            assert!(code.contains(&quoted), "{name}: {command} is in the header, and not called");
        }
        let title = name.trim_start_matches("drop-in/");
        assert!(header.starts_with(&format!("--[[\n  {title}: ")), "{name}");
    }
}

#[test]
fn codes_have_one_home() {
    let home = source("lib/codes.lua");
    let mut codes: Vec<(String, i64)> = Vec::new();
    // The id of an entry is no code.
    for line in home.lines().filter_map(|line| line.strip_prefix("local ")).filter(|line| !line.contains('\'')) {
        let (names, numbers) = line.split_once(" = ").unwrap();
        let numbers = numbers.split(", ").map(|number| number.parse().unwrap());
        codes.extend(names.split(", ").map(str::to_owned).zip(numbers));
    }
    let named = Status::ALL.iter().map(|status| (status.name().to_uppercase(), status.code()));
    let of_calls = [
        ("GAP", call_code::GAP),
        ("OTHER_EPOCH", call_code::OTHER_EPOCH),
        ("OTHER_JOB", call_code::OTHER_JOB),
        ("STALE", call_code::STALE),
        ("UNREAD", call_code::UNREAD),
    ];
    let expected: Vec<_> = named.chain(of_calls.map(|(name, code)| (name.to_owned(), code))).collect();
    assert_eq!(codes, expected);
    for name in SCRIPTS {
        let code = shown(name).split_once("]]\n").unwrap().1;
        assert!(code.starts_with(&home), "{name}: the codes come first");
        for line in code[home.len()..].lines().filter(|line| !line.trim_start().starts_with("--")) {
            let is_literal = ["{-", "return -", "'-1", "'-2", "{1,", "{2,"].iter().any(|text| line.contains(text));
            assert!(!is_literal, "{name}: a code of its own: {}", line.trim());
            let redefines = codes.iter().any(|(code, _)| line.contains(&format!("local {code}")));
            assert!(!redefines, "{name}: a code of its own: {}", line.trim());
        }
    }
}

/// The file with what it includes in place of each `--- @use "name"`, each part once, and of each `--- @include "name"`, without
/// what is of other scripts.
fn joined(script: &str, file: &str, included: &mut BTreeSet<String>) -> String {
    let (mut stays, mut names, mut text) = (vec![true], Vec::new(), String::new());
    for line in source(file).lines() {
        let trimmed = line.trim_start();
        let directive = trimmed.strip_prefix("--- @").map(|text| text.split_once(' ').unwrap_or((text, "")));
        let is_kept = stays.iter().all(|stays| *stays);
        match directive {
            Some(("if", words)) => stays.push(words.split(' ').any(|word| word == script)),
            Some(("else", _)) => *stays.last_mut().unwrap() ^= true,
            Some(("end", _)) => drop(stays.pop()),
            _ if !is_kept => {}
            Some(("let", rest)) => names.push(rest.to_owned()),
            Some(("use" | "include", part)) => {
                let name = part.trim_matches('"');
                if included.insert(name.to_owned()) || directive.unwrap().0 == "include" {
                    let indentation = &line[..line.len() - trimmed.len()];
                    for line in joined(script, &format!("lib/{name}.lua"), included).lines() {
                        text += &format!("{}\n", format!("{indentation}{line}").trim_end());
                    }
                }
            }
            Some((word, _)) => panic!("{file} has @{word}"),
            None => text += &format!("{line}\n"),
        }
    }
    names
        .iter()
        .filter_map(|line| line.split_once(" = "))
        .fold(text, |text, (name, meaning)| text.replace(name, meaning))
}

#[test]
fn a_script_is_its_file_with_the_includes() {
    let redis = TestRedis::start();
    let list = seckill(["script", "list", "-o", "json"]).code(0).stderr("").json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, SCRIPTS);
    for row in list.as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let text = seckill(["script", "show", name]).code(0).stderr("").stdout;
        if built_by_kind().any(|built| built == name) {
            continue;
        }
        assert!(
            text == joined(name, &format!("{name}.lua"), &mut BTreeSet::new()),
            "{name} is not its file with the includes"
        );
        let sha1: String = redis.ask(("SCRIPT", "LOAD", &text));
        assert_eq!(row["sha1"], sha1, "{name}");
    }
}

#[test]
fn each_layout_has_its_own_build_of_a_script_and_nothing_of_other_kinds() {
    let redis = TestRedis::start();
    for name in built_by_kind() {
        for layout in LAYOUTS.into_iter().filter(|layout| layout_has(*layout, name)) {
            let text = seckill(["script", "show", name, "--layout", layout.name]).code(0).stderr("").stdout;
            let list = seckill(["script", "list", "-o", "json", "-l", layout.name]).code(0).json();
            let row = list.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
            assert_eq!(row["sha1"], redis.ask::<String>(("SCRIPT", "LOAD", &text)), "{layout:?} {name}");
            let (_, code) = text.split_once("]]\n").unwrap();
            assert!(!code.contains("--- @"), "{layout:?} {name}: a line for the builder is left");
            // Names that stand for a text are words of capitals that no code declares.
            let words_for_texts = "KIND SCRIPT OP FITS KEY_COUNT DEADLINES SHOWN SHOWN_AFTER PARTICIPANTS RECORDED HELD ASKED \
                                   LETTER PLAIN IS_NEW SELLS MAY_UNMARK NOW MOST HELD_AFTER \
                                   GIVEN HOLDERS HOLDERS_UNITS MAY_BE_WITHDRAWN";
            for word in words_for_texts.split(' ') {
                let mut words = code.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                assert!(words.all(|found| found != word), "{layout:?} {name}: {word} stands for nothing");
            }
            let kind = layout.kind;
            assert!(code.contains(&format!("ARGV[1] ~= '{kind}'")), "{layout:?} {name}");
            let with_units = ["deduct", "multi_deduct", "hold"].contains(&name) && kind == "set";
            assert_eq!(code.contains("'HSET', KEYS[6], user"), with_units, "{layout:?} {name}");
            assert_eq!(text == shown_of(name, SECKILL), kind == "hash", "{layout:?} {name}");
        }
    }
}

#[test]
fn a_drop_in_is_its_file_with_what_it_includes() {
    let redis = TestRedis::start();
    let list = seckill(["script", "list", "--drop-in", "-o", "json"]).code(0).stderr("").json();
    let names: Vec<String> =
        list.as_array().unwrap().iter().map(|row| format!("drop-in/{}", row["name"].as_str().unwrap())).collect();
    assert_eq!(names, DROP_INS);
    for (name, row) in DROP_INS.into_iter().zip(list.as_array().unwrap()) {
        assert!(shown(name) == joined(name, &format!("{name}.lua"), &mut BTreeSet::new()), "{name}");
        assert_eq!(row["sha1"], redis.ask::<String>(("SCRIPT", "LOAD", shown(name))), "{name}");
    }
    let keys: Vec<&str> = list.as_array().unwrap().iter().map(|row| row["keys"].as_str().unwrap()).collect();
    let expected = [
        "seckill:stock:<id> seckill:participants:<id>",
        "stock:<id> bought:<id>",
        "stock:<id> … for each SKU",
        "coupon:stock:<id> coupon:user:<id>",
        "product_stock_<id>",
        "seckill:stock:<id> seckill:order:<id> stream.orders",
    ];
    assert_eq!(keys, expected);
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
