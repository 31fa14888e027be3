//! The ledgers that are read, and how far: all that is there, then, with `--follow`, what comes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::admin::activities;
use crate::cli::commands::ledger::{ShowArgs, Since, rows_of};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Output, RowStream, Warnings};
use crate::cli::shared::hints;
use crate::cli::shared::selection::{ActivitySelector, each_merged, expand};
use crate::error::StoreError;
use crate::model::{ActivityId, Entry, EntryId, Snapshot, Status};
use crate::read::{ledger, snapshot};
use crate::store::Store;

/// How often new ledgers are looked for.
const REFRESH: Duration = Duration::from_secs(2);

pub(super) struct Sources {
    /// Activities and the entry that each was read up to.
    pub ledgers: Vec<(ActivityId, EntryId)>,
    /// The activities before anything was read.
    seen: Vec<Snapshot>,
    /// Entries before it are not wanted.
    since: EntryId,
    /// What is wanted.
    wanted: ActivitySelector,
    /// The activities: of a sharded one the ledgers are those of its shards.
    names: Vec<ActivityId>,
    /// All whose ledgers were wanted so far, also those that were left out.
    known: HashSet<ActivityId>,
    /// When new ones were looked for.
    looked: Instant,
    pub faults: Faults,
}

/// What is not there or cannot be read, named as it is found.
pub(super) struct Faults {
    warnings: Warnings,
    any: bool,
}

impl Faults {
    /// Says how many were not named, and whether there were any.
    pub(super) fn end(self) -> bool {
        self.warnings.end();
        self.any
    }

    fn add(&mut self, what: impl AsRef<str>) {
        self.warnings.warn(what);
        self.any = true;
    }

    /// Names an entry whose orders cannot be read.
    pub(super) fn check(&mut self, activity: &ActivityId, entry: &Entry) {
        if let Some(why) = entry.fault() {
            self.add(format!("`{activity}` is corrupt: ledger entry `{}` cannot be read: {why}", entry.id));
        }
    }
}

/// Where the ledgers of the next activity end, from one of them on: those of the shards of an activity are read as one.
pub(super) fn end_of_activity(ledgers: &[(ActivityId, EntryId)], from: usize) -> usize {
    let Some(parent) = ledgers[from].0.parent().map(|(parent, _)| parent) else { return from + 1 };
    let is_other = |(activity, _): &(ActivityId, EntryId)| activity.parent().is_none_or(|(other, _)| other != parent);
    from + ledgers[from..].iter().position(is_other).unwrap_or(ledgers.len() - from)
}

impl Sources {
    /// The ledgers of the activities that were named, each once, or else of all that were preheated. Reports what is
    /// not there, what is corrupt or has no ledger, and what was trimmed. With `follow`, a pattern waits for what fits it.
    ///
    /// # Errors
    /// Any of the store's; the only activity that was named is not there, or its ledger cannot be read.
    pub(super) fn find(
        named: &[ActivityId],
        since: Option<Since>,
        follow: bool,
        store: &mut Store,
        out: &Output,
    ) -> Result<Self> {
        let wanted = ActivitySelector::new(named)?;
        let mut faults = Faults { warnings: out.warnings(), any: false };
        let names = match follow {
            true => wanted.fitting(store, &mut faults.warnings)?,
            false => wanted.activities(store)?,
        };
        let (is_all, looked) = (named.is_empty(), Instant::now());
        let since = since.map_or(Ok(EntryId::ZERO), |since| since.after(store))?;
        let activities = expand(names.clone(), store)?;
        let known = activities.iter().cloned().collect();
        let seen = snapshot::snapshots(store, &activities)?;
        let mut sources = Self { ledgers: Vec::new(), seen: Vec::new(), since, wanted, names, known, looked, faults };
        hints::warn_of_replica(store, out);
        if is_all {
            hints::none_preheated(&activities, store, out);
        }
        for snapshot in &seen {
            let activity = &snapshot.activity;
            let (corrupt, last) = (hints::corrupt(snapshot), ledger::last_to_read(store, snapshot));
            if last.is_none() && (corrupt.is_some() || snapshot.status == Status::NotPreheated) {
                if corrupt.is_none() {
                    hints::other_layouts([activity], store, out);
                }
                let missing = corrupt.unwrap_or_else(|| format!("`{activity}` is not_preheated: it has no ledger"));
                if activities.len() == 1 && !is_all && !(follow && sources.wanted.needs_index()) {
                    return Err(Failure::new(Exit::Refused, missing));
                }
                sources.faults.add(missing);
                continue;
            }
            if let Some(corrupt) = corrupt {
                // A follower waits for the ledger that an adoption begins.
                sources.faults.any |= corrupt.contains("its entries were lost");
                out.warn(corrupt);
            }
            if last.is_none() && !is_all {
                let why =
                    if snapshot.is_archived() { "is archived: its ledger is in its files" } else { "has no ledger" };
                out.note(format!("`{activity}` {why}"));
            }
            // Behind the checkpoint of an adoption nothing is removed.
            let checkpoint = snapshot.meta.as_ref().and_then(|meta| meta.checkpoint.as_ref());
            let checkpoint = checkpoint.filter(|checkpoint| checkpoint.removed > 0);
            if let Some(checkpoint) = checkpoint {
                let by = if checkpoint.by.is_empty() { String::new() } else { format!(" by {}", checkpoint.by) };
                let (upto, at) = (checkpoint.upto.at(), checkpoint.at);
                out.note(format!("entries of `{activity}` up to {upto} were trimmed at {at}{by}"));
            }
            // What a trim has not removed yet is gone all the same.
            let trimmed = checkpoint.map_or(EntryId::ZERO, |checkpoint| checkpoint.upto);
            sources.ledgers.push((activity.clone(), since.max(trimmed)));
        }
        sources.seen = seen;
        Ok(sources)
    }

    /// Warns of activities that lost rows while all were read, and returns whether there are any.
    pub(super) fn warn_of_missing_rows(&mut self, store: &mut Store) -> Result<bool> {
        hints::warn_of_missing_rows(&self.seen, self.since, store, &mut self.faults.warnings)
    }

    /// Whether nothing is left to follow.
    pub(super) fn is_over(&self) -> bool {
        self.ledgers.is_empty() && !self.wanted.needs_index()
    }

    /// Leaves out the ledgers whose keys have another type now, if that is what failed.
    ///
    /// # Errors
    /// Any other failure.
    pub(super) fn leave_out(&mut self, failure: Failure, store: &mut Store) -> Result<()> {
        if !failure.store().is_some_and(StoreError::is_wrong_type) {
            return Err(failure);
        }
        let count = self.ledgers.len();
        self.ledgers.retain(|(activity, _)| {
            let read = ledger::entries_behind(store, activity, EntryId::LAST);
            let is_left_out = read.is_err_and(|error| error.is_wrong_type());
            if is_left_out {
                let key = store.keys(activity).ledger;
                self.faults
                    .add(format!("`{activity}` is corrupt: key `{key}` is of the wrong type: expected a stream"));
            }
            !is_left_out
        });
        if self.ledgers.len() == count { Err(failure) } else { Ok(()) }
    }

    /// Looks for ledgers that are new, if the last look was long enough ago: of activities that were preheated meanwhile, if all
    /// or those of a pattern are wanted, and of other shards, which a reset makes.
    pub(super) fn refresh(&mut self, store: &mut Store) -> Result<()> {
        if self.looked.elapsed() < REFRESH {
            return Ok(());
        }
        if self.wanted.needs_index() {
            self.names = self.wanted.among(&activities::preheated(store)?);
        }
        let found =
            expand(self.names.clone(), store)?.into_iter().filter(|activity| self.known.insert(activity.clone()));
        self.ledgers.extend(found.map(|activity| (activity, self.since)));
        self.looked = Instant::now();
        self.faults.warnings.end();
        self.faults.warnings.next_round();
        Ok(())
    }
}

/// Shows the ledgers one activity after the other, each oldest entry first; if wanted, then what is added, as it comes, until
/// Ctrl-C or until nobody reads any more.
pub(super) fn show(sources: &mut Sources, args: &ShowArgs, store: &mut Store, rows: &mut RowStream<'_>) -> Result<()> {
    let (mut from, only) = (0, args.user.as_ref());
    loop {
        // New ones are read up to their end first, like those before.
        while from < sources.ledgers.len() {
            let upto = end_of_activity(&sources.ledgers, from);
            let faults = &mut sources.faults;
            let merged = each_merged(&mut sources.ledgers[from..upto], None, store, |activity, _, entry| {
                faults.check(activity, entry);
                rows_of(activity, entry, only).try_for_each(|(row, _)| rows.push(&row))?;
                Ok(!interrupt::requested() && !rows.is_lost())
            });
            from = upto;
            if let Err(failure) = merged {
                sources.leave_out(failure, store)?;
                from = 0;
            }
        }
        if !args.follow {
            return Ok(());
        }
        rows.flush()?;
        if interrupt::requested() || rows.reader_left() || sources.is_over() {
            return Ok(());
        }
        let news = match ledger::ledger_news(store, &sources.ledgers) {
            Ok(news) => news,
            Err(error) => {
                sources.leave_out(error.into(), store)?;
                from = sources.ledgers.len();
                continue;
            }
        };
        for (ledger, page) in news {
            let (activity, after) = &mut sources.ledgers[ledger];
            for entry in &page {
                sources.faults.check(activity, entry);
                rows_of(activity, entry, only).try_for_each(|(row, _)| rows.push(&row))?;
                *after = entry.id;
            }
        }
        sources.refresh(store)?;
    }
}
