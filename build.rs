//! Joins each script of `lua/` with the files it includes, and computes the SHA-1 that EVALSHA takes.
//!
//! A line `--- @include "name"` stands for the text of `lua/lib/name.lua`, which may include files of its own. A file
//! that was included before is not included again. `OUT_DIR` receives `name.lua` and `name.sha1` of each script, those of
//! `lua/drop-in/` in a directory of that name; `src/store/scripts.rs` embeds them.

use std::path::{Path, PathBuf};
use std::{env, fs};

type Result<T> = std::result::Result<T, String>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=lua");
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for a build script")?);
    build(Path::new("lua"), &target)?;
    build(Path::new("lua/drop-in"), &target.join("drop-in"))
}

/// Joins the scripts of a directory.
fn build(directory: &Path, target: &Path) -> Result<()> {
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
        }
    }
    Ok(())
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
