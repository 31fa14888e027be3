//! Upstream Redis compiles its own Lua, which is stricter than the system's that Debian links: it refuses `[[` inside a
//! long comment, and the server refuses a script that writes a global. Both are found in the text, on any server.

use std::collections::BTreeSet;

use crate::support::scripts::every_build;

/// All that a script may name without declaring it: the server's tables and what Lua 5.1 has in its sandbox.
const KNOWN: &str = "KEYS ARGV redis cjson string table math type tonumber tostring ipairs pcall coroutine pairs next unpack \
                    setmetatable select";

const KEYWORDS: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
];

/// Splits a script into names, numbers and single signs; strings become `""`. An error names what upstream refuses.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let after_dashes = rest.strip_prefix("--").unwrap_or(rest);
        let is_comment = after_dashes.len() < rest.len();
        let taken = if let Some(inside) = after_dashes.strip_prefix("[[") {
            let (inside, _) = inside.split_once("]]").ok_or("a long bracket is never closed")?;
            if inside.contains("[[") {
                return Err(format!("`[[` inside [[…]]: {}", inside.split("[[").nth(1).unwrap_or_default()));
            }
            found.extend((!is_comment).then(|| "\"\"".to_owned()));
            rest.len() - after_dashes.len() + inside.len() + 4
        } else if is_comment {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' || first == '\'' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let closes = c == first && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            });
            found.push("\"\"".to_owned());
            end.ok_or("a string is never closed")? + 2
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            found.push(rest[..length].to_owned());
            length
        } else {
            found.extend((!first.is_whitespace()).then(|| first.to_string()));
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    Ok(found)
}

/// The names that a script uses outside the block that declares them.
fn globals(tokens: &[String]) -> BTreeSet<&str> {
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let is_name = |text: &str| text.starts_with(|c: char| c.is_alphabetic() || c == '_') && !KEYWORDS.contains(&text);
    // The names from here on, with commas between, or `...`, and where they end.
    let list = |mut at: usize| {
        let mut names = BTreeSet::new();
        while is_name(token(at)) || [",", "."].contains(&token(at)) {
            names.extend(is_name(token(at)).then(|| token(at)));
            at += 1;
        }
        (names, at)
    };
    // Each block with its names, and whether it is a function's: that one counts as a bracket, so that an assignment
    // in it is no key of a table around it.
    let mut blocks: Vec<(BTreeSet<&str>, bool)> = vec![(KNOWN.split_whitespace().collect(), false)];
    let (mut loop_names, mut brackets, mut unknown) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < tokens.len() {
        let (now, mut next) = (token(at), at + 1);
        let is_known = |name: &str| blocks.iter().any(|(names, _)| names.contains(name));
        match now {
            "{" | "(" | "[" => brackets.push(now),
            "}" | ")" | "]" => drop(brackets.pop()),
            "local" if token(next) == "function" => {
                blocks.last_mut().unwrap().0.insert(token(next + 1));
            }
            "local" => {
                let (names, end) = list(next);
                blocks.last_mut().unwrap().0.extend(names);
                next = end;
            }
            "for" => (loop_names, next) = list(next),
            "function" => {
                if is_name(token(next)) {
                    unknown.extend((!is_known(token(next))).then(|| token(next)));
                    next += 1;
                }
                let (names, end) = list(next + 1);
                brackets.push("function");
                blocks.push((names, true));
                next = end + 1;
            }
            "do" | "then" | "repeat" => blocks.push((std::mem::take(&mut loop_names), false)),
            "else" => blocks.last_mut().unwrap().0.clear(),
            "elseif" | "until" => drop(blocks.pop()),
            "end" => {
                let ends_function = blocks.pop().is_some_and(|(_, is_function)| is_function);
                brackets.truncate(brackets.len() - usize::from(ends_function));
            }
            _ if is_name(now) => {
                let is_field = at > 0 && [".", ":"].contains(&token(at - 1));
                let is_key = brackets.last() == Some(&"{") && token(next) == "=" && token(next + 1) != "=";
                unknown.extend((!is_field && !is_key && !is_known(now)).then_some(now));
            }
            _ => {}
        }
        at = next;
    }
    assert!(blocks.len() == 1 && brackets.is_empty(), "this check lost count of the blocks");
    unknown
}

#[test]
fn no_script_uses_a_global_or_a_long_bracket_in_another() {
    for (name, text) in every_build() {
        let tokens = tokens(text).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(globals(&tokens), BTreeSet::new(), "{name}");
    }
}

#[test]
fn the_check_finds_globals_and_nested_long_brackets() {
    let found = |text: &str| tokens(text).map(|tokens| globals(&tokens).into_iter().map(str::to_owned).collect());
    let refused = |text: &str| found(text).unwrap_err();
    assert!(refused("--[[ a page: `[[\"user\",\"units\"]]` ]] return 1").contains("user"));
    assert!(refused("local a = [[ b [[ c ]]").contains('c'));
    let global = |text: &str| -> Vec<String> { found(text).unwrap() };
    assert_eq!(global("local a = '[[' -- [[\nreturn a .. \"]] \\\" b\""), [""; 0]);
    assert_eq!(global("local a = {b = 1, c = {d = 2}, ['e'] = 3} return a.b + a.c.d"), [""; 0]);
    assert_eq!(global("total = 1"), ["total"]);
    assert_eq!(global("if KEYS[1] then local a = 1 else return a end return a"), ["a"]);
    assert_eq!(global("for i, v in ipairs(ARGV) do local w = v end return i, w"), ["i", "w"]);
    assert_eq!(global("function f(a) return a end local function g() b = 1 end"), ["b", "f"]);
    assert_eq!(global("local t = {f = function(x) y = x end, z = 1}"), ["y"]);
    assert_eq!(global("while true do local n = 1 end return n == m"), ["m", "n"]);
}

/// What scripts do that the proxies of some clouds refuse, and which ones do it; all others do not. `docs/servers.md` says so.
const NEEDS: [(&str, &[&str]); 1] = [("a key that is no KEYS[n]", &["drop-in/sku-multi"])];

/// What a script needs of these.
fn needs(text: &str) -> BTreeSet<&'static str> {
    let code = text.split_once("]]\n").map_or(text, |(_, code)| code);
    let tokens = tokens(text).unwrap();
    let token = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut found = BTreeSet::new();
    for at in (0..tokens.len()).filter(|at| token(*at) == "redis" && ["call", "pcall"].contains(&token(at + 2))) {
        let (is_called, is_literal) = (token(at + 3) == "(", token(at + 4) == "\"\"");
        // Some have no key, and some a second word before it.
        let has_key = token(at + 5) == ",";
        let key = if token(at + 6) == "\"\"" && token(at + 7) == "," { at + 8 } else { at + 6 };
        let is_key = token(key) == "KEYS" && token(key + 2).parse::<u8>().is_ok() && token(key + 3) == "]";
        found.extend((!is_called).then_some("another name of redis.call"));
        found.extend((is_called && !is_literal).then_some("a command that it chooses"));
        found.extend((is_called && is_literal && has_key && !is_key).then_some("a key that is no KEYS[n]"));
    }
    found.extend(tokens.iter().any(|token| token == "setresp").then_some("setresp"));
    found.extend(["'HSCAN'", "'SSCAN'"].iter().any(|name| code.contains(name)).then_some("HSCAN or SSCAN"));
    found
}

#[test]
fn no_other_script_needs_what_strict_proxies_refuse() {
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, text) in every_build() {
        found.extend(needs(text).into_iter().map(|need| (need, name)));
    }
    let known = NEEDS.iter().flat_map(|(need, names)| names.iter().map(|name| (*need, *name)));
    assert_eq!(found, known.collect());
}

#[test]
fn what_strict_proxies_refuse_is_found() {
    let found = |text: &str| needs(text).into_iter().collect::<Vec<_>>();
    assert_eq!(found("--[[ x ]]\nlocal now = redis.call('TIME') return redis.pcall('GET', KEYS[12])"), [""; 0]);
    assert_eq!(found("return redis.call(command, KEYS[1])"), ["a command that it chooses"]);
    assert_eq!(found("return redis.call('GET', KEYS[at + 1])"), ["a key that is no KEYS[n]"]);
    assert_eq!(found("local call = redis.call"), ["another name of redis.call"]);
    assert_eq!(found("redis.setresp(3) return redis.call('SSCAN', KEYS[1], 0)"), ["HSCAN or SSCAN", "setresp"]);
    assert_eq!(found("return redis.call('XGROUP', 'CREATE', key)"), ["a key that is no KEYS[n]"]);
    assert_eq!(found("return redis.call('XINFO', 'GROUPS', KEYS[4])"), [""; 0]);
}
