//! The printed calls as texts: keys, arguments and codes are those of the tool, in every language and layout.

use seckill::Status;

use super::language::{LANGUAGES, SCRIPTS, SHARDED, printed, scripts_of};
use crate::support::scripts::SCRIPTS as ALL_SCRIPTS;
use crate::support::{CLUSTER, LAYOUTS, SKU, seckill};

/// The code of a key, as each language writes it.
fn key(language: &str, pattern: &str) -> String {
    let (before, after) = pattern.split_once("<id>").unwrap();
    let end = |joint: &str, quote: char| match after {
        "" => String::new(),
        after => format!(" {joint} {quote}{after}{quote}"),
    };
    match language {
        "python" => {
            format!("f\"{}{{activity}}{}\"", before.replace('{', "{{"), after.replace('}', "}}"))
        }
        "node" => format!("`{before}${{activity}}{after}`"),
        "php" => format!("'{before}' . $activity{}", end(".", '\'')),
        _ => format!("\"{before}\" + activity{}", end("+", '"')),
    }
}

#[test]
fn keys_and_kind_are_those_of_the_layout() {
    for layout in LAYOUTS {
        for language in LANGUAGES {
            for &script in scripts_of(layout.name) {
                let text = printed(script, language, layout.name);
                let mut rest = &*text;
                let knows_holds = ["hold", "settle"].contains(&script);
                for pattern in if knows_holds { layout.all_keys("<id>") } else { layout.keys("<id>") } {
                    let key = key(language, &pattern);
                    let (_, after) =
                        rest.split_once(&key).unwrap_or_else(|| panic!("{language} {script}: {key}\n{text}"));
                    rest = after;
                }
                let quote = if language == "php" { '\'' } else { '"' };
                let kind = format!("{quote}{}{quote}, ", layout.kind);
                assert_eq!(text.matches(&kind).count(), 1, "{language} {script}: {kind}");
                // A connection may serve two layouts.
                let is_shared = language == "node" && !text.contains(&format!("_{}(keys.length", layout.kind));
                assert!(!is_shared, "{script}: the name of the command");
                let of = if layout.kind == "hash" { String::new() } else { format!(" -l {}", layout.name) };
                assert!(text.contains(&format!("script show {script}{of} ")), "{language} {script}: its text");
            }
        }
    }
    assert_eq!(key("python", &CLUSTER.stock("<id>")), "f\"seckill:{{{activity}}}:stock\"");
    assert_eq!(key("go", &CLUSTER.stock("<id>")), "\"seckill:{\" + activity + \"}:stock\"");
    assert_eq!(key("php", &SKU.stock("<id>")), "'stock:' . $activity");
}

#[test]
fn every_status_of_a_script_is_there_with_its_code_and_meaning() {
    for script in SCRIPTS {
        let header = crate::support::scripts::shown(script).split("]]\n").next().unwrap();
        for language in LANGUAGES {
            let text = printed(script, language, "seckill").to_lowercase().replace('_', "");
            for status in Status::ALL.iter().copied() {
                let name = status.name().replace('_', "");
                let line = header
                    .lines()
                    .find(|line| line.trim_start().starts_with(&format!("{} {}  ", status.code(), status.name())));
                let is_code = |line: &&str| {
                    let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
                    words.contains(&&*name) && words.contains(&&*status.code().to_string())
                };
                assert_eq!(text.lines().any(|line| is_code(&line)), line.is_some(), "{language} {script}: {status}");
                if let Some(line) = line {
                    let meaning = line.split_once(&format!("{}  ", status.name())).unwrap().1.trim();
                    assert!(text.contains(&meaning.to_lowercase().replace('_', "")), "{language} {script}: {meaning}");
                }
            }
        }
    }
}

#[track_caller]
fn assert_clean(language: &str, script: &str, text: &str) {
    for line in text.lines() {
        assert!(!line.starts_with('%') && !line.contains(['«', '»']), "{language} {script}: {line}");
        assert!(line == line.trim_end() && line.chars().count() <= 160, "{language} {script}: {line}");
    }
    assert!(text.contains(&format!("seckill script show {script}")), "{language} {script}: where to get it");
}

#[test]
fn nothing_of_a_template_is_left_and_lines_have_no_blanks_at_their_ends() {
    for language in LANGUAGES {
        for script in SCRIPTS {
            assert_clean(language, &format!("{script} "), &printed(script, language, "seckill"));
        }
    }
}

#[test]
fn the_call_for_sharded_activities_is_of_the_layout_that_has_them() {
    for language in SHARDED {
        let text = printed("borrow", language, "seckill");
        assert_eq!(text, printed("borrow", language, "cluster"));
        for pattern in CLUSTER.keys("<id>") {
            assert!(text.contains(&key(language, &pattern)), "{language}: {pattern}");
        }
        assert_clean(language, "$script", &text);
    }
}

#[test]
fn scripts_of_the_tool_alone_have_no_call() {
    let known = |script: &&str| SCRIPTS.contains(script) || ["lend", "borrow", "peek"].contains(script);
    for script in ALL_SCRIPTS.into_iter().filter(|script| !known(script)) {
        let refused = seckill(["script", "show", script, "--lang", "go"]).code(2).stdout_is("");
        refused.stderr_has("for this tool alone").stderr_has("seckill ");
    }
    for script in ["hold", "settle"] {
        for text in [&["--lang", "go"][..], &[]] {
            let refused = seckill(["script", "show", script, "-l", "product"]).args(text).code(2).stdout_is("");
            refused.stderr_has("records no users who could hold units");
        }
    }
    seckill(["script", "list", "-l", "product", "-o", "name"]).code(0).stdout_lacks("hold").stdout_lacks("settle");
    for script in ["peek", "lend"] {
        seckill(["script", "show", script, "--lang", "go"]).code(2).stderr_has("script show borrow --lang");
    }
    for language in LANGUAGES.into_iter().filter(|language| !SHARDED.contains(language)) {
        seckill(["script", "show", "borrow", "--lang", language]).code(2).stderr_has("java-jedis, go and python");
    }
    seckill(["script", "show", "deduct", "--lang", "perl"]).code(2).stderr_has("java-jedis");
    seckill(["script", "show", "--drop-in", "sku", "--lang", "go"]).code(2).stdout_is("");
    seckill(["script", "show", "sku"]).code(2).stderr_has("script show --drop-in sku");
}
