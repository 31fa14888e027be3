//! The pages that people read: what they link to exists, and the two languages of the README say the same.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the fences of a page enclose, with the language that they name.
fn code_blocks(text: &str) -> Vec<String> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.map(str::to_owned).collect()
}

/// What nobody translates in tables: cells that are code or figures.
fn cells(text: &str) -> Vec<&str> {
    let cells = text.lines().filter(|line| line.starts_with("| ")).flat_map(|row| row.split('|').map(str::trim));
    let is_code =
        |cell: &str| cell.len() > 2 && cell.matches('`').count() == 2 && cell.starts_with('`') && cell.ends_with('`');
    let is_figure = |cell: &str| {
        cell.starts_with(|c: char| c.is_ascii_digit()) && cell.chars().all(|c| "0123456789./ ".contains(c))
    };
    cells.filter(|cell| is_code(cell) || is_figure(cell)).collect()
}

fn links(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")).collect()
}

#[test]
fn the_chinese_readme_has_the_same_code_tables_and_links() {
    let english = read(&root().join("README.md"));
    let chinese = read(&root().join("README.zh-CN.md"));
    let blocks = code_blocks(&english);
    assert!(blocks.len() > 8, "{blocks:?}");
    assert_eq!(blocks, code_blocks(&chinese));
    let found = cells(&english);
    assert!(found.len() > 40, "{found:?}");
    assert_eq!(found, cells(&chinese));
    let without_itself = |text| links(text).into_iter().filter(|link| !link.starts_with("README")).collect::<Vec<_>>();
    assert_eq!(without_itself(&english), without_itself(&chinese));
    let headings = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    let (ours, theirs) = (headings(&english), headings(&chinese));
    assert_eq!(ours, theirs, "a section is missing in one of them");
}

#[test]
fn every_link_of_a_page_leads_to_a_file() {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
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
fn every_page_is_linked_from_the_readme() {
    let readme = read(&root().join("README.md"));
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(readme.contains(&format!("(docs/{name})")), "README.md links to docs/{name} nowhere");
    }
}
