//! `inspect --user U --why` without an activity: all that a user did, activity by activity.

use crate::admin::activities;
use crate::cli::commands::inspect::entries::{last, may_name, needle};
use crate::cli::commands::ledger::rows::{LedgerRow, each_row};
use crate::cli::error::{Error, Result};
use crate::cli::failure::Exit;
use crate::cli::output::Output;
use crate::cli::output::text::counted;
use crate::cli::shared::hints;
use crate::model::id::{ActivityId, UserId};
use crate::model::ledger::EntryId;
use crate::read::history::TrimmedUnits;
use crate::read::{history, ledger, snapshot};
use crate::store::Store;

/// Activities without a ledger that are named; of more only the number is.
const MAX_NAMED: usize = 5;

/// Streams a row of the ledger for each order of the user.
pub(super) fn run(user: &UserId, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let activities = activities::preheated(store)?;
    if activities.is_empty() {
        out.note(format!("nothing was preheated in the layout `{}`", store.layout().name()));
    }
    let mut snapshots = snapshot::snapshots(store, &activities)?;
    for snapshot in &mut snapshots {
        // Of a sharded activity the home has all that the user did.
        let home = snapshot.home(user.as_str().as_bytes());
        if home != snapshot.activity {
            *snapshot = snapshot::snapshot(store, &home)?;
        }
    }
    hints::warn_of_replica(store, out);
    let terminal = out.terminal();
    let needle = needle(user.as_str());
    let mut without: Vec<&ActivityId> = Vec::new();
    let mut rows = out.stream::<LedgerRow>()?;
    for (activity, snapshot) in activities.iter().zip(&snapshots) {
        let home = &snapshot.activity;
        let Some(last) = last(snapshot) else {
            without.push(activity);
            continue;
        };
        let checkpoint = snapshot.meta.as_ref().and_then(|meta| meta.checkpoint.as_ref());
        if let Some(checkpoint) = checkpoint {
            let held = match history::carried(store, home, checkpoint, user.as_str().as_bytes())? {
                TrimmedUnits::Units(0) if checkpoint.removed == 0 => None,
                TrimmedUnits::Units(held) => {
                    Some(format!("`{user}` held {} by then", counted(u64::try_from(held).unwrap_or_default(), "unit")))
                }
                TrimmedUnits::Unknown => Some(format!("`{user}` held units whose number nobody recorded")),
                TrimmedUnits::Damaged => Some(format!("what they say of `{user}` is gone")),
            };
            if let Some(held) = held {
                let what = if checkpoint.removed == 0 { "begins at" } else { "is trimmed up to" };
                terminal
                    .note(format!("the ledger of `{activity}` {what} {}: {held}", checkpoint.upto.at().to_second()));
            }
        }
        let after = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
        let mut pushed = Ok(());
        ledger::each_entry(store, home, after, last, |entry| {
            if may_name(entry.users.as_deref(), needle.as_deref()) {
                pushed = each_row(activity, entry, Some(user), |row| Ok::<_, Error>(rows.push(&row)?));
            }
            pushed.is_ok() && !rows.is_lost()
        })?;
        pushed?;
    }
    rows.finish()?;
    if !without.is_empty() {
        let named: Vec<String> = without.iter().take(MAX_NAMED).map(|activity| format!("`{activity}`")).collect();
        let more = match without.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        out.note(format!("no ledger, so what was bought there is not listed: {}{more}", named.join(", ")));
    }
    Ok(Exit::Done)
}
