//! `seckill ledger trim`: remove old entries, and keep every audit exact.

use std::collections::BTreeSet;

use crate::admin::trim::{self, Sums, Trim, Untrimmed};
use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Cell, Output, Tone, counted, row};
use crate::cli::shared::hints;
use crate::cli::shared::outcome::warn_of_corrupt;
use crate::cli::shared::selection::{self, expand};
use crate::model::{ActivityId, EntryId, GivenTime, Millis, Status};
use crate::store::Store;

/// Remove old entries of ledgers; audits stay exact
///
/// The units of each user, total and stock of the removed entries are stored as a checkpoint, where audits begin. The
/// sale continues meanwhile. Entries that a consumer group has not acknowledged are kept (`unread`, exit 3), and so is
/// the last entry. After an interruption, the same command resumes.
///
/// The single orders are lost: who bought when, by which request. Order records that are older than what was removed
/// cannot be compared any more. Request ids stay, so no order is applied twice.
#[derive(Debug, clap::Args)]
#[command(override_usage = "seckill ledger trim [OPTIONS] ACTIVITY...|--all --before TIME")]
#[command(after_long_help = "
seckill ledger trim 1001 --before 2026-11-12 --dry-run
seckill ledger trim 1001 --before 2026-11-12
# Keep a week of all preheated activities: one question
seckill ledger trim --all --before 7d
")]
pub struct TrimArgs {
    /// Activities whose ledgers to trim, or patterns such as 'sku-*'
    #[arg(value_name = "ACTIVITY", required_unless_present = "all")]
    pub(super) activities: Vec<ActivityId>,
    /// Trim the ledgers of all preheated activities
    #[arg(long, conflicts_with = "activities")]
    all: bool,
    /// Remove entries older than this
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, or 1h (ago).
    #[arg(long, value_name = "TIME")]
    before: GivenTime,
    #[command(flatten)]
    pub(super) mutating: Mutating,
}

row! {
    struct TrimRow<'a> as row from (id: &'a ActivityId, trim: &Trim, holders: Option<usize>) {
        activity: &'a str = id.as_str(), flexible;
        status: &'static str = trim.status.name()
            => Cell::text(row.status).tone(if row.status == OK { Tone::Good } else { Tone::Bad });
        removed: u64 = 0;
        users: Option<usize> = holders;
        from: Option<EntryId> as "begins at" = None;
        time: Option<Millis> = None;
    }
    changed if row.removed > 0
}

const OK: &str = "ok";
/// A consumer group still needs what should go.
const UNREAD: &str = "unread";

/// What is to be done to one ledger.
struct Planned<'a> {
    activity: &'a ActivityId,
    trim: Trim,
    /// Entries that would be removed, and users who hold something by them; `None` if no new checkpoint is needed.
    counts: Option<(u64, usize)>,
    /// The sums themselves, until another ledger is read: those of many would fill the memory.
    sums: Option<Sums>,
}

impl<'a> Planned<'a> {
    /// Nothing is written.
    fn new(activity: &'a ActivityId, before: Millis, store: &mut Store) -> Result<Self> {
        let trim = trim::plan_trim(store, activity, before)?;
        let sums = match trim.needs_checkpoint() {
            true => Some(trim::sum_up(store, activity, &trim)?.map_err(|why| untrimmed(activity, why))?),
            false => None,
        };
        let counts = sums.as_ref().map(|sums| (sums.entries, sums.users));
        Ok(Self { activity, trim, counts, sums })
    }

    fn has_work(&self) -> bool {
        self.counts.is_some() || self.trim.is_unfinished()
    }
}

/// Trims.
pub fn run(args: &TrimArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let named = expand(selection::resolve(&args.activities, store)?, store)?;
    let activities: Vec<&ActivityId> = named.iter().collect();
    hints::none_preheated(&named, store, out);
    let before = args.before.at(|| store.now())?;
    let mut asked = match args.mutating.dry_run || args.mutating.yes {
        true => None,
        false => ask(&activities, before, store, out)?,
    };
    let mut run = Run { args, store, out, rows: Vec::new(), held: Vec::new() };
    let mut failures = Vec::new();
    for activity in &activities {
        let planned = asked.take().map_or_else(|| Planned::new(activity, before, run.store), Ok);
        match planned.and_then(|planned| run.apply(planned)) {
            Ok(()) => {}
            // Of this ledger: the others can be trimmed all the same.
            Err(failure) if failure.is_own() => failures.push(failure),
            Err(error) => return run.finish(activities.len(), failures, Some(error)),
        }
    }
    run.finish(activities.len(), failures, None)
}

/// One question about all ledgers, before anything is removed. Returns what it planned, if that is of one ledger.
fn ask<'a>(
    activities: &[&'a ActivityId],
    before: Millis,
    store: &mut Store,
    out: &Output,
) -> Result<Option<Planned<'a>>> {
    let mut all = Vec::new();
    for activity in activities {
        match Planned::new(activity, before, store) {
            Ok(planned) => all.push(planned),
            Err(failure) if failure.is_own() && activities.len() > 1 => {}
            Err(error) => return Err(error),
        }
        if activities.len() > 1 {
            all.iter_mut().for_each(|planned| planned.sums = None);
        }
    }
    let work: Vec<&Planned<'_>> = all.iter().filter(|planned| planned.has_work()).collect();
    if !work.is_empty() {
        out.confirm(&question(&work, before), false)?;
    }
    Ok(if activities.len() == 1 { all.pop() } else { None })
}

struct Run<'a> {
    args: &'a TrimArgs,
    store: &'a mut Store,
    out: &'a mut Output,
    rows: Vec<TrimRow<'a>>,
    /// Activities and the groups that need entries of theirs.
    held: Vec<(&'a ActivityId, String)>,
}

impl<'a> Run<'a> {
    /// Does what was planned, unless it is a dry run, and keeps the row.
    fn apply(&mut self, planned: Planned<'a>) -> Result<()> {
        let Planned { activity, trim, counts, sums } = planned;
        let mutating = &self.args.mutating;
        let mut row = TrimRow::new(activity, &trim, counts.map(|(_, users)| users));
        if trim.status != Status::Ok {
            warn_of_corrupt(&mut self.out.warnings(), trim.corrupt.as_ref());
            self.rows.push(row);
            return Ok(());
        }
        if trim.from.is_none() && !self.args.all {
            self.out.note(format!("`{activity}` has no ledger"));
        }
        let mut held_by = trim.held_by.clone();
        if mutating.dry_run {
            row.removed = counts.map_or(0, |(entries, _)| entries);
        } else if sums.is_some() || trim.is_unfinished() {
            if let Some(sums) = &sums {
                let switched = trim::switch(self.store, activity, &trim, sums, mutating.reason.as_deref())?;
                switched.map_err(|why| untrimmed(activity, why))?;
            }
            let (removed, group) = trim::cut(self.store, activity, &trim)?;
            row.removed = removed;
            held_by = group.or(held_by);
        }
        let unchanged = trim.checkpoint.as_ref().filter(|_| counts.is_none()).map(|checkpoint| checkpoint.from);
        row.from = unchanged.or(trim.from);
        row.time = row.from.map(EntryId::at);
        row.status = if held_by.is_some() { UNREAD } else { OK };
        self.held.extend(held_by.map(|group| (activity, group)));
        self.rows.push(row);
        Ok(())
    }

    /// Shows the rows, also of what was done before an error; then what they have no room for.
    fn finish(self, count: usize, mut failures: Vec<Failure>, error: Option<Failure>) -> Result<Exit> {
        let failed = error.or_else(|| failures.pop());
        let shown = self.out.array_until(&self.rows, failed);
        let mut hints = BTreeSet::new();
        for failure in failures {
            self.out.warn(failure.message);
            hints.extend(failure.hint);
        }
        hints.iter().for_each(|hint| self.out.hint(hint));
        for (activity, group) in &self.held {
            let of = if count > 1 { format!(" of `{activity}`") } else { String::new() };
            self.out.warn(format!(
                "the consumer group `{group}`{of} has not read and acknowledged all that is older, so what it needs was kept"
            ));
        }
        if let Some((activity, _)) = self.held.first() {
            self.out.hint(format!(
                "let it read on, or, if nobody reads it any more, remove it: `XGROUP DESTROY` on the ledger of `{activity}`"
            ));
        }
        shown?;
        Ok(Exit::done_if(self.rows.iter().all(|row| row.status == OK)))
    }
}

fn question(work: &[&Planned<'_>], before: Millis) -> String {
    if let [planned] = work {
        let activity = planned.activity;
        let upto = planned.trim.from.map(|from| from.at().to_string()).unwrap_or_default();
        return match planned.counts {
            Some((entries, _)) => {
                format!("Remove {} of `{activity}`, older than {upto}, for good?", counted(entries, "ledger entry"))
            }
            None => format!("Remove what an unfinished trim left of the ledger of `{activity}`, for good?"),
        };
    }
    let entries: u64 = work.iter().filter_map(|planned| planned.counts).map(|(entries, _)| entries).sum();
    let activities: Vec<&ActivityId> = work.iter().map(|planned| planned.activity).collect();
    let which = selection::in_words(&activities);
    format!("Remove {} of {which}, older than {before}, for good?", counted(entries, "ledger entry"))
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
        .hint(match activity.parent() {
            None => {
                format!("{} begins a ledger from what participants hold", hints::preheat(activity, "--adopt"))
            }
            Some(_) => "an audit of it is `unsettled`; `preheat --reset` begins anew".to_owned(),
        }),
        Untrimmed::Overdrawn => Failure::failed(format!(
            "more units of `{activity}` came back than users whose units nobody recorded can have held; nothing was removed"
        ))
        .hint("`seckill reconcile` with all order records first; if that is a match, a later `--before` includes the repair, once an order came after it"),
        Untrimmed::Unreadable(id, why) => {
            Failure::failed(format!("ledger entry `{id}` of `{activity}` cannot be read: {why}; nothing was removed"))
                .hint("it is evidence: `seckill reconcile` first, or trim what is older than it")
        }
    }
}
