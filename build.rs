//! Joins each script of `lua/` with the files it includes, and computes the SHA-1 that EVALSHA takes.
//!
//! A line `--- @include "name"` stands for the text of `lua/lib/name.lua`, which may include files of its own. A file
//! that was included before is not included again. `OUT_DIR` receives `name.lua` and `name.sha1` of each script, those of
//! `lua/drop-in/` in a directory of that name; `src/script/mod.rs` embeds them. `version.txt` is what `--version` says.

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

/// Joins the scripts of a directory; returns the name and the SHA-1 of each.
fn build(directory: &Path, target: &Path) -> Result<Vec<(String, String)>> {
    let mut scripts = Vec::new();
    fs::create_dir_all(target).map_err(|error| format!("{}: {error}", target.display()))?;
    for entry in fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))? {
        let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let mut text = String::new();
            join(&path, &mut Vec::new(), &mut text)?;
            let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
            write(&target.join(format!("{name}.lua")), &text)?;
            write(&target.join(format!("{name}.sha1")), &sha1)?;
            scripts.push((name, sha1));
        }
    }
    Ok(scripts)
}

/// What `--version` prints behind the name: the version, the commit and the SHA-1 of each script.
fn version(mut scripts: Vec<(String, String)>) -> Result<String> {
    scripts.sort();
    let number = env::var("CARGO_PKG_VERSION").map_err(|_| "cargo sets CARGO_PKG_VERSION")?;
    let lines: Vec<String> = scripts.iter().map(|(name, sha1)| format!("  {name:<14} {sha1}")).collect();
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

/// Appends the file to `text`, with what it includes in the place of the lines that include it.
fn join(path: &Path, included: &mut Vec<String>, text: &mut String) -> Result<()> {
    let source = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for (index, line) in source.lines().enumerate() {
        let Some(rest) = line.strip_prefix("--- @include") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let name = rest.strip_prefix(" \"").and_then(|rest| rest.strip_suffix('"'));
        let name =
            name.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()));
        let Some(name) = name else {
            return Err(format!("{}:{}: expected `--- @include \"name\"`", path.display(), index + 1));
        };
        if !included.iter().any(|other| other == name) {
            included.push(name.to_owned());
            join(&Path::new("lua/lib").join(format!("{name}.lua")), included, text)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
