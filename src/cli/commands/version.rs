//! `seckill version`: which build this is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::args::Global;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::{Format, Output};

/// Print the version, the commit and the scripts of this build
///
/// Backends that call scripts by their SHA-1 compare them before a sale.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
seckill version
# The script that a backend calls
seckill version -o json | jq -r '.scripts[\"deduct.hash\"]'
")]
pub struct VersionArgs {}

/// What `--version` prints behind the name.
pub const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/version.txt"));

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: &'static str,
    /// The SHA-1 of each script by its name.
    scripts: BTreeMap<&'static str, &'static str>,
}

/// Prints it.
pub fn run(_: VersionArgs, _: &Global, out: &mut Output) -> Result<Exit> {
    if out.format() == Format::Table {
        out.text(&format!("seckill {TEXT}\n"));
        return Ok(Exit::Done);
    }
    let (head, scripts) = TEXT.split_once("\nscripts\n").unwrap_or((TEXT, ""));
    let (version, commit) = head.split_once("\ncommit ").unwrap_or((head, ""));
    let scripts = scripts.lines().filter_map(|line| line.trim().split_once(' '));
    let scripts = scripts.map(|(name, sha1)| (name, sha1.trim_start())).collect();
    out.document(&Version { version, commit, scripts })?;
    Ok(Exit::Done)
}
