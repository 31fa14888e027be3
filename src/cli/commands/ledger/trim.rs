//! `seckill ledger trim`: remove old entries, and keep every audit exact.

use serde::Serialize;

use crate::cli::Mutating;
use crate::cli::commands::rows::warn_of_corrupt;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::{Cell, Output, Tone, columns};
use seckill::inventory::id::ActivityId;
use seckill::inventory::ledger::EntryId;
use seckill::inventory::status::Status;
use seckill::inventory::time::{GivenTime, Millis};
use seckill::store::Store;
use seckill::store::trim::{Sums, Trim, Untrimmed};

/// Remove old entries of a ledger; audits stay exact
///
/// The units of each user, total and stock of the removed entries are stored as a checkpoint, where audits begin. The
/// sale continues meanwhile. Entries that a consumer group has not acknowledged are kept (`unread`, exit 3), and so is
/// the last entry. After an interruption, the same command resumes.
///
/// The single orders are lost: who bought when, by which request. Order records that are older than what was removed
/// cannot be compared any more. Request ids stay, so no order is applied twice.
#[derive(Debug, clap::Args)]
pub struct TrimArgs {
    /// Activity whose ledger to trim
    #[arg(value_name = "ACTIVITY")]
    activity: ActivityId,
    /// Remove entries older than this
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, or 1h (ago).
    #[arg(long, value_name = "TIME")]
    before: GivenTime,
    #[command(flatten)]
    mutating: Mutating,
}

impl TrimArgs {
    pub fn mutating(&self) -> &Mutating {
        &self.mutating
    }
}

#[derive(Debug, Serialize)]
struct TrimRow<'a> {
    activity: &'a str,
    status: &'static str,
    removed: u64,
    users: Option<usize>,
    from: Option<EntryId>,
    time: Option<Millis>,
}

columns!(row: TrimRow<'_> {
    activity => Cell::text(row.activity).flexible();
    status => Cell::text(row.status).tone(if row.status == OK { Tone::Good } else { Tone::Bad });
    removed;
    users;
    from as "begins at";
    time;
}, changed if row.removed > 0);

const OK: &str = "ok";
/// A consumer group still needs what should go.
const UNREAD: &str = "unread";

/// Trims.
pub fn run(args: &TrimArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    store.require_replicas(args.mutating.wait_replicas);
    let activity = &args.activity;
    let before = args.before.at(|| store.now())?;
    let trim = store.plan_trim(activity, before)?;
    let mut row = TrimRow {
        activity: activity.as_str(),
        status: trim.status.name(),
        removed: 0,
        users: None,
        from: None,
        time: None,
    };
    if trim.status != Status::Ok {
        warn_of_corrupt(&mut out.warnings(), trim.corrupt.as_ref());
        out.array(std::slice::from_ref(&row))?;
        return Ok(Exit::Refused);
    }
    if trim.from.is_none() {
        out.note(format!("`{activity}` has no ledger"));
    }
    let sums = match trim.needs_checkpoint() {
        true => Some(store.sum_up(activity, &trim)?.map_err(|why| untrimmed(activity, why))?),
        false => None,
    };
    let mut held_by = trim.held_by.clone();
    if args.mutating.dry_run {
        row.removed = sums.as_ref().map_or(0, |sums| sums.entries);
    } else if sums.is_some() || trim.is_unfinished() {
        out.confirm(&question(activity, &trim, sums.as_ref()), args.mutating.yes)?;
        if let Some(sums) = &sums {
            store
                .switch(activity, &trim, sums, args.mutating.reason.as_deref())?
                .map_err(|why| untrimmed(activity, why))?;
        }
        let (removed, group) = store.cut(activity, &trim)?;
        row.removed = removed;
        held_by = group.or(held_by);
    }
    let unchanged = trim.checkpoint.as_ref().filter(|_| sums.is_none()).map(|checkpoint| checkpoint.from);
    row.from = unchanged.or(trim.from);
    row.time = row.from.map(EntryId::at);
    row.users = sums.map(|sums| sums.users);
    row.status = if held_by.is_some() { UNREAD } else { OK };
    out.set_dry_run(args.mutating.dry_run);
    out.array(std::slice::from_ref(&row))?;
    if let Some(group) = held_by {
        out.warn(format!(
            "the consumer group `{group}` has not read and acknowledged all that is older, so what it needs was kept"
        ));
        out.hint(format!(
            "let it read on, or, if nobody reads it any more, remove it: `XGROUP DESTROY` on the ledger of `{activity}`"
        ));
        return Ok(Exit::Refused);
    }
    Ok(Exit::Done)
}

fn question(activity: &ActivityId, trim: &Trim, sums: Option<&Sums>) -> String {
    let upto = trim.from.map(|from| from.at().to_string()).unwrap_or_default();
    match sums {
        Some(sums) => {
            format!("Remove {} ledger entries of `{activity}`, older than {upto}, for good?", sums.entries)
        }
        None => format!("Remove what an unfinished trim left of the ledger of `{activity}`, for good?"),
    }
}

fn untrimmed(activity: &ActivityId, why: Untrimmed) -> Failure {
    match why {
        Untrimmed::Stale => {
            Failure::failed(format!("`{activity}` was reset, trimmed by somebody else, or lost data meanwhile"))
                .hint("what was not removed is still there; audits are as exact as before")
        }
        Untrimmed::Headless => Failure::failed(format!(
            "the ledger of `{activity}` does not begin with its preheat, nor continue a checkpoint: what is gone cannot \
             be written down"
        ))
        .hint("an audit of it is `unsettled`; `preheat --reset` begins anew"),
        Untrimmed::Unreadable(id, why) => {
            Failure::failed(format!("ledger entry `{id}` of `{activity}` cannot be read: {why}; nothing was removed"))
                .hint("it is evidence: `seckill reconcile` first, or trim what is older than it")
        }
    }
}
