//! The pages that people read: what they link to exists, and a Chinese page says what its English one says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;

use crate::support::{read, root};

/// The Markdown pages in a folder, sorted.
fn pages_in(folder: &str) -> Vec<String> {
    let names = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".md"));
    names.sort();
    names
}

/// A heading with what follows it, up to the next one.
#[derive(Default)]
struct Section {
    heading: String,
    /// The lines of its code, fences included, without comments: nobody translates them.
    code: Vec<String>,
    /// The cells of each row of its tables.
    rows: Vec<Vec<String>>,
    /// All else, with the rows and the comments of the code.
    prose: String,
}

impl Section {
    fn push_prose(&mut self, line: &str) {
        self.prose += line;
        self.prose.push(' ');
    }
}

/// The sections of a page; the line by which it names its other language belongs to none.
fn sections(page: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let mut is_code = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        if !is_code && line.starts_with('#') {
            sections.push(Section { heading: line.to_owned(), ..Section::default() });
        }
        let section = sections.last_mut().unwrap();
        is_code ^= is_fence;
        if is_code || is_fence {
            let (code, comment) = line.rsplit_once(" # ").unwrap_or((line, ""));
            section.code.push(code.trim_end().to_owned());
            section.push_prose(comment);
        } else if !["[English](", "[简体中文]("].iter().any(|link| line.starts_with(link)) {
            section.push_prose(line);
            if line.starts_with("| ") {
                section.rows.push(line.split('|').map(|cell| cell.trim().to_owned()).collect());
            }
        }
    }
    sections
}

/// The texts between backticks: statuses, fields, keys, commands.
fn spans(text: &str) -> BTreeSet<String> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Options and commands, also those in comments of code.
fn options_and_commands(text: &str) -> BTreeSet<String> {
    let found = ["--", "seckill "].into_iter().flat_map(|start| {
        let rests = text.split(start).skip(1);
        rests.map(move |rest| {
            let length = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
            format!("{start}{}", &rest[..length])
        })
    });
    found.collect()
}

/// Exit codes, with how often each is named.
fn exit_codes(text: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::<&str, u32>::new();
    for rest in
        ["exit ", "exit code ", "exits with ", "退出码 "].into_iter().flat_map(|words| text.split(words).skip(1))
    {
        let code = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        *counts.entry(code).or_default() += 1;
    }
    counts.remove("");
    counts.into_iter().map(|(code, count)| format!("exit {code}, {count} times")).collect()
}

/// Limits, sizes, times and versions.
fn figures(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !".,".contains(c));
    let words = words.map(|word| word.trim_matches(['.', ',']));
    let is_figure = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || ".,".contains(c));
    words.filter(is_figure).map(str::to_owned).collect()
}

/// Whether there is a Chinese character or punctuation mark.
fn is_chinese(text: &str) -> bool {
    text.contains(|c| matches!(c, '\u{3000}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}'))
}

/// The English link as a Chinese page has it: to a Chinese page if there is one, but to the English one if it names a heading.
fn translated(link: &str, is_readme: bool) -> String {
    let is_translated = |file: &str| root().join("docs/zh").join(file).is_file();
    match link.strip_prefix("docs/") {
        Some(file) if is_readme && is_translated(file) => format!("docs/zh/{file}"),
        _ if is_readme || is_translated(link) => link.to_owned(),
        _ => format!("../{link}"),
    }
}

/// What nobody translates, and differs.
fn differences(english: &str, chinese: &str, is_readme: bool) -> Vec<String> {
    let (english, chinese) = (sections(english), sections(chinese));
    let mut found = Vec::new();
    if english.len() != chinese.len() {
        found.push(format!("{} sections, but {}", english.len(), chinese.len()));
    }
    for (english, chinese) in english.iter().zip(&chinese) {
        let mut differ = |what: &str, ours: &dyn Debug, theirs: &dyn Debug| {
            found.push(format!("{} ({}): {what}: {ours:?}, but {theirs:?}", chinese.heading, english.heading));
        };
        if english.code != chinese.code {
            let only = |code: &[String], other: &[String]| -> Vec<String> {
                code.iter().filter(|line| !other.contains(line)).cloned().collect()
            };
            differ("code", &only(&english.code, &chinese.code), &only(&chinese.code, &english.code));
        }
        let our_links = links(&english.prose).into_iter().map(|link| translated(link, is_readme)).collect();
        let their_links = links(&chinese.prose).into_iter().map(str::to_owned).collect();
        for (what, ours, theirs) in [
            ("between backticks", spans(&english.prose), spans(&chinese.prose)),
            ("options", options_and_commands(&english.prose), options_and_commands(&chinese.prose)),
            ("exit codes", exit_codes(&english.prose), exit_codes(&chinese.prose)),
            ("links", our_links, their_links),
        ] {
            if ours != theirs {
                differ(what, &(&ours - &theirs), &(&theirs - &ours));
            }
        }
        // A number that is a word in English may be a figure in Chinese.
        let (ours, theirs) = (figures(&english.prose), figures(&chinese.prose));
        if !ours.is_subset(&theirs) {
            differ("figures", &(&ours - &theirs), &(&theirs - &ours));
        }
        if english.rows.len() != chinese.rows.len() {
            differ("rows", &english.rows.len(), &chinese.rows.len());
        }
        for (ours, theirs) in english.rows.iter().zip(&chinese.rows) {
            let is_same = |(our, their): (&String, &String)| {
                if is_chinese(their) { spans(our) == spans(their) } else { our == their }
            };
            if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(is_same) {
                differ("row", ours, theirs);
            }
        }
    }
    found
}

fn links(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")).collect()
}

#[test]
fn a_chinese_page_has_the_code_tables_codes_and_links_of_its_english_one() {
    let mut found = differences(&read("README.md"), &read("README.zh-CN.md"), true);
    let pages = pages_in("docs/zh");
    assert!(pages.len() > 5, "{pages:?}");
    for name in pages {
        let chinese = read(format!("docs/zh/{name}"));
        let differences = differences(&read(format!("docs/{name}")), &chinese, false);
        found.extend(differences.into_iter().map(|difference| format!("docs/zh/{name}: {difference}")));
        assert!(chinese.contains(&format!("\n[English](../{name})\n")), "docs/zh/{name} does not link to docs/{name}");
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_change_of_one_page_alone_is_a_difference() {
    for (name, old, new) in [
        ("reconcile.md", "| `over_limit` |", "| `over_limits` |"),
        ("reconcile.md", "| 3 |", "| 4 |"),
        ("reconcile.md", "\n| `drift` |", "\n"),
        ("reconcile.md", "`--max-repairs`", "`--most-repairs`"),
        ("reconcile.md", "`seckill repair FILE`", "`seckill mend FILE`"),
        ("reconcile.md", "`refused`", "`denied`"),
        ("reconcile.md", " shop.db ", " store.db "),
        ("reconcile.md", "5 s", "6 s"),
        ("reconcile.md", "\n## ", "\n"),
        ("monitoring.md", "acl.md)", "limits.md)"),
    ] {
        let (english, chinese) = (read(format!("docs/{name}")), read(format!("docs/zh/{name}")));
        assert!(english.contains(old) && chinese.contains(old), "{old}");
        assert_ne!(differences(&english.replacen(old, new, 1), &chinese, false), [""; 0], "{old} in English");
        assert_ne!(differences(&english, &chinese.replacen(old, new, 1), false), [""; 0], "{old} in Chinese");
    }
    assert_ne!(differences("exit 7, `ok`", "`ok`，退出码 6", false), [""; 0]);
    assert_eq!(differences("`ok`, exit 7", "退出码 7，`ok`", false), [""; 0]);
    assert_ne!(differences("```\nls # not --all\n```", "```\nls # 不加 --most\n```", false), [""; 0]);
    assert_eq!(differences("```\nls # not --all\n```", "```\nls # 不加 --all\n```", false), [""; 0]);
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let folders = ["docs", "docs/zh"].into_iter();
    let mut pages: Vec<PathBuf> = folders
        .flat_map(|folder| pages_in(folder).into_iter().map(move |page| root().join(folder).join(page)))
        .collect();
    pages.extend(["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
    let mut count = 0;
    for page in pages {
        let text = read(&page);
        for link in links(&text) {
            let file = link.split('#').next().unwrap();
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: nothing is at `{link}`", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "{count} links");
}

/// A page of `docs/` that nobody links to is found by nobody.
#[test]
fn every_page_is_linked_from_the_readme_of_its_language() {
    for (readme, folder) in [("README.md", "docs"), ("README.zh-CN.md", "docs/zh")] {
        let text = read(readme);
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap()) {
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            let is_linked = entry.path().is_dir() || text.contains(&format!("({path})"));
            assert!(is_linked, "{readme} links to {path} nowhere");
        }
    }
}
