//! Whether a cluster serves all slots.

use crate::cli::commands::doctor::fix::Fixes;
use crate::cli::commands::doctor::row::Finding;
use crate::read::health::Slots;

/// Whether anything is missing, down or open.
pub fn slots(slots: &Slots, first: &str, fixes: &Fixes) -> Finding {
    let check = || fixes.command(&["--cluster", "fix", first]);
    if slots.uncovered > 0 {
        return Finding::fail(format!("nobody serves {} of 16384 slots", slots.uncovered), check());
    }
    if slots.state.as_deref().is_some_and(|state| state != "ok") {
        return Finding::fail("the cluster refuses calls (cluster_state:fail)", check());
    }
    if !slots.failed.is_empty() {
        let found = format!("all served, but down: {}", slots.failed.join(", "));
        return Finding::fail(found, fixes.command(&["CLUSTER", "NODES"]));
    }
    if !slots.open.is_empty() {
        let found = format!("all served; left open in a move: {}", slots.open.join(", "));
        return Finding::warn(found, check());
    }
    Finding::ok(format!("all 16384 served by {} nodes", slots.members.len()))
}
