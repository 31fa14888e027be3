//! `seckill pause` and `seckill resume`: refuse every purchase for a while, and allow them again.

use anyhow::Result;
use serde::Serialize;

use crate::cli::Mutating;
use crate::inventory::failure::Exit;
use crate::inventory::id::ActivityId;
use crate::inventory::status::Status;
use crate::output::{Cell, Output, Row};
use crate::store::Store;

/// Refuse every purchase of an activity for a while
///
/// Purchases answer `paused`; refunds and audits go on. A backend's own script does not look at it.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    which: Which,
}

/// Allow purchases of a paused activity again
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Activities
    #[arg(required = true, value_name = "ACTIVITY")]
    activities: Vec<ActivityId>,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    mutating: Mutating,
}

/// One activity, and how it ended.
#[derive(Debug, Serialize)]
struct PauseRow<'a> {
    activity: &'a str,
    status: Status,
    state: Option<&'static str>,
}

impl Row for PauseRow<'_> {
    const FIELDS: &'static [&'static str] = &["activity", "status", "state"];
    const HEADINGS: &'static [&'static str] = &["activity", "status", "state"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.activity).flexible(),
            Cell::status(self.status),
            Cell::text(self.state.unwrap_or_default()),
        ]
    }

    fn is_change(&self) -> bool {
        self.status == Status::Ok
    }
}

/// Pauses.
pub fn pause(args: &PauseArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    set(&args.which, true, store, out)
}

/// Resumes.
pub fn resume(args: &ResumeArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    set(&args.which, false, store, out)
}

fn set(which: &Which, paused: bool, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let mut rows = Vec::with_capacity(which.activities.len());
    for activity in &which.activities {
        let (status, corrupt) = store.set_paused(activity, paused, which.reason.as_deref(), which.mutating.dry_run)?;
        super::rows::tell_corrupt(out, corrupt.as_ref());
        let state = status.is_done().then_some(if paused { "paused" } else { "resumed" });
        rows.push(PauseRow { activity: activity.as_str(), status, state });
    }
    out.set_dry_run(which.mutating.dry_run);
    out.array(&rows)?;
    if paused && rows.iter().any(|row| row.status.is_done()) {
        out.note("a backend that sells with a script of its own does not look at this: pause it there too");
    }
    let refused = rows.iter().any(|row| !row.status.is_done());
    Ok(if refused { Exit::Refused } else { Exit::Done })
}
