//! What survives a restart, and what a power cut.

use crate::cli::commands::doctor::fix::Fixes;
use crate::cli::commands::doctor::row::Finding;
use crate::read::health::{Info, Reading, Role};

/// Whether a restart finds the sale again.
pub(super) fn persistence(reading: &Reading, fixes: &Fixes) -> Finding {
    let info = reading.info.as_ref().ok();
    let info_says = |name: &str| info.and_then(|info| info.text(name));
    if info_says("aof_last_write_status").is_some_and(|status| status != "ok") {
        return Finding::fail(
            "the last write to the append-only file failed, so orders are refused: is the disk full?",
            fixes.administer(&["CONFIG", "GET", "dir"]),
        );
    }
    if info_says("rdb_last_bgsave_status").is_some_and(|status| status != "ok") {
        let refuses = match setting(reading, "stop-writes-on-bgsave-error") {
            Some("no") => "",
            _ => ", so orders may be refused",
        };
        return Finding::fail(
            format!("the last snapshot failed{refuses}: see the server's log; once the disk has room, save again"),
            fixes.administer(&["BGSAVE"]),
        );
    }
    let snapshots = setting(reading, "save");
    match (has_file(reading), snapshots) {
        (None, _) => Finding::skip(refused(reading)),
        (Some(true), Some("") | None) => Finding::ok("append-only file"),
        (Some(true), Some(_)) => Finding::ok("append-only file, and snapshots"),
        (Some(false), Some("")) => Finding::fail(
            "neither append-only file nor snapshots: a restart begins empty",
            fixes.set("appendonly", "yes"),
        ),
        (Some(false), Some(save)) => Finding::warn(
            format!("snapshots only (save {save}): a crash loses everything since the last one"),
            fixes.set("appendonly", "yes"),
        ),
        (Some(false), None) => Finding::skip(format!("no append-only file; for snapshots: {}", refused(reading))),
    }
}

/// How soon the append-only file is on disk.
pub(super) fn fsync(reading: &Reading, fixes: &Fixes) -> Finding {
    match has_file(reading) {
        None => return Finding::skip(refused(reading)),
        Some(false) => return Finding::skip("there is no append-only file"),
        Some(true) => {}
    }
    let copies = reading.info.as_ref().map_or(0, copies);
    let always = || fixes.set("appendfsync", "always");
    match setting(reading, "appendfsync") {
        None => Finding::skip(refused(reading)),
        Some("always") => Finding::ok("always: what was acknowledged is on disk"),
        Some(_) if setting(reading, "no-appendfsync-on-rewrite") == Some("yes") => Finding::warn(
            "no-appendfsync-on-rewrite yes: while the file is rewritten, a power cut loses up to 30 s of orders",
            fixes.set("no-appendfsync-on-rewrite", "no"),
        ),
        Some("everysec") if copies > 0 => Finding::ok("everysec, and another server has a copy"),
        Some("everysec") => {
            Finding::warn("everysec without a replica: a power cut loses up to 2 s of acknowledged orders", always())
        }
        Some("no") => Finding::fail(
            "no: the kernel decides, and a power cut loses 30 s of acknowledged orders or more",
            fixes.set("appendfsync", "everysec"),
        ),
        Some(other) => Finding::warn(format!("appendfsync {other}"), always()),
    }
}

/// Servers that hold the same data: replicas that are online, or a replica's primary.
fn copies(info: &Info) -> usize {
    match info.role() {
        Some(Role::Replica) => usize::from(info.text("master_link_status") == Some("up")),
        _ => info.replicas().iter().filter(|replica| replica.state == "online").count(),
    }
}

/// Whether there is an append-only file, as the settings say, or else INFO.
pub(super) fn has_file(reading: &Reading) -> Option<bool> {
    let set = setting(reading, "appendonly").map(|value| value == "yes");
    set.or_else(|| Some(reading.info.as_ref().ok()?.count("aof_enabled")? == 1))
}

/// A setting; `None` if it is not known.
pub(super) fn setting<'a>(reading: &'a Reading, name: &str) -> Option<&'a str> {
    reading.settings.as_ref().ok()?.get(name).map(String::as_str)
}

/// Why a setting is not known.
pub(super) fn refused(reading: &Reading) -> String {
    match &reading.settings {
        Err(why) => why.clone(),
        Ok(_) => "the server has no such setting".to_owned(),
    }
}
