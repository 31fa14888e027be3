//! Builds each script of `lua/` from its fragments, and computes the SHA-1 that EVALSHA takes.
//!
//! Lines that begin with `--- @` are for this program, and none is left:
//!
//! - `--- @include "name"`: the text of `lua/lib/name.lua`, in this place, with the indentation of this line
//! - `--- @use "name"`: the same, unless it was included or used before: functions that several files need
//! - `--- @kinds hash set`: the script is built once for each of these kinds, and named `name.kind`
//! - `--- @if word` … `--- @else` … `--- @end`: lines that stay if the kind or the script is one of the words
//! - `--- @let NAME = text`: the name stands for the text in all lines below; `KIND` is the kind, a text of Lua, `SCRIPT` the name
//!
//! `OUT_DIR` receives `name.lua` and `name.sha1` of each script, those of `lua/drop-in/` in a directory of that name;
//! `src/script/mod.rs` embeds them. `version.txt` is what `--version` says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Result<T> = std::result::Result<T, String>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=lua");
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for a build script")?);
    let scripts = build(Path::new("lua"), &target)?;
    build(Path::new("lua/drop-in"), &target.join("drop-in"))?;
    write(&target.join("version.txt"), &version(scripts)?)
}

/// Builds the scripts of a directory; returns the name and the SHA-1 of each.
fn build(directory: &Path, target: &Path) -> Result<Vec<(String, String)>> {
    let mut scripts = Vec::new();
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    for entry in fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))? {
        let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "lua") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let kinds = kinds(&path)?;
        for kind in kinds.iter().map(Some).chain(kinds.is_empty().then_some(None)) {
            let mut script = Build::of(&name, kind);
            script.add(&path, "")?;
            let sha1 = sha1_smol::Sha1::from(&script.text).digest().to_string();
            let name = kind.map_or_else(|| name.clone(), |kind| format!("{name}.{kind}"));
            write(&target.join(format!("{name}.lua")), &script.text)?;
            write(&target.join(format!("{name}.sha1")), &sha1)?;
            scripts.push((name, sha1));
        }
    }
    Ok(scripts)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The kinds that a script is built for; none if it is the same for all.
fn kinds(path: &Path) -> Result<Vec<String>> {
    let source = read(path)?;
    let list = source.lines().find_map(|line| line.strip_prefix("--- @kinds ")).unwrap_or_default();
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// What `--version` prints behind the name: the version, the commit and the SHA-1 of each script.
fn version(mut scripts: Vec<(String, String)>) -> Result<String> {
    scripts.sort();
    let number = env::var("CARGO_PKG_VERSION").map_err(|_| "cargo sets CARGO_PKG_VERSION")?;
    let lines: Vec<String> = scripts.iter().map(|(name, sha1)| format!("  {name:<19} {sha1}")).collect();
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    Ok(format!("{number}\ncommit {commit}\nscripts\n{}", lines.join("\n")))
}

/// The commit that is built: of git's work tree, or as `cargo package` noted it.
///
/// Only a release build is made again for each commit. A debug build would be too often, so it says that it may be of a
/// later commit.
fn commit() -> Option<String> {
    let root = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)?;
    if let Ok(noted) = fs::read_to_string(root.join(".cargo_vcs_info.json")) {
        let (_, rest) = noted.split_once("\"sha1\"")?;
        return rest.split('"').nth(1).map(str::to_owned);
    }
    // Not the commit of some other work tree that these sources were copied into.
    let top = git(&root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(&root).ok()? {
        return None;
    }
    let commit = git(&root, &["rev-parse", "HEAD"])?;
    if env::var("PROFILE").as_deref() != Ok("release") {
        return Some(format!("{commit}, or later: this is a debug build"));
    }
    let branch = git(&root, &["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&root, &["rev-parse", "--git-path", name]).map(|path| root.join(path))
            && path.exists()
        {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    Some(commit)
}

/// What git says; `None` if there is no git, or it refuses.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// One script that is built.
struct Build {
    /// The kind and the script: what `@if` asks for.
    words: Vec<String>,
    /// Names and the texts that they stand for.
    names: Vec<(String, String)>,
    used: Vec<String>,
    text: String,
}

impl Build {
    fn of(name: &str, kind: Option<&String>) -> Self {
        let names = kind.map(|kind| ("KIND".to_owned(), format!("'{kind}'")));
        Self {
            words: [name.to_owned()].into_iter().chain(kind.cloned()).collect(),
            names: names.into_iter().chain([("SCRIPT".to_owned(), name.to_owned())]).collect(),
            used: Vec::new(),
            text: String::new(),
        }
    }

    /// Appends a file, each line behind an indentation.
    fn add(&mut self, path: &Path, indentation: &str) -> Result<()> {
        // Of each block that is open, and of the file itself: whether its lines stay.
        let mut stays = vec![true];
        for (index, line) in read(path)?.lines().enumerate() {
            let wrong = |what: &str| format!("{}:{}: {what}: `{line}`", path.display(), index + 1);
            let is_kept = stays.iter().all(|stays| *stays);
            let text = line.trim_start();
            let Some(directive) = text.strip_prefix("--- @") else {
                if is_kept {
                    self.add_line(indentation, line);
                }
                continue;
            };
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            match word {
                "if" => stays.push(rest.split(' ').any(|wanted| self.words.iter().any(|word| word == wanted))),
                "else" if stays.len() > 1 => stays.iter_mut().next_back().into_iter().for_each(|last| *last = !*last),
                "end" if stays.len() > 1 => drop(stays.pop()),
                _ if !is_kept => {}
                "kinds" => {}
                "let" => {
                    let (name, text) = rest.split_once(" = ").ok_or_else(|| wrong("expected `NAME = text`"))?;
                    self.names.push((name.to_owned(), text.to_owned()));
                }
                "include" | "use" => {
                    let name = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                    let name = name.ok_or_else(|| wrong("expected a name in quotes"))?.to_owned();
                    let is_again = self.used.contains(&name);
                    if word == "include" || !is_again {
                        let indentation = format!("{indentation}{}", &line[..line.len() - text.len()]);
                        self.used.push(name.clone());
                        self.add(&Path::new("lua/lib").join(format!("{name}.lua")), &indentation)?;
                    }
                }
                _ => return Err(wrong("unknown, or not in a block")),
            }
        }
        if stays.len() == 1 { Ok(()) } else { Err(format!("{}: a block has no `@end`", path.display())) }
    }

    fn add_line(&mut self, indentation: &str, line: &str) {
        if !line.is_empty() {
            self.text.push_str(indentation);
        }
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let mut rest = line;
        while let Some(start) = rest.find(is_part) {
            let (before, from) = rest.split_at(start);
            let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
            let meaning = self.names.iter().rfind(|(name, _)| name == word).map_or(word, |(_, text)| text);
            self.text.push_str(before);
            self.text.push_str(meaning);
            rest = after;
        }
        self.text.push_str(rest);
        self.text.push('\n');
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
