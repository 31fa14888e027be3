//! The row of `archive`; and why an activity is not archived now, with what to do about it.

use std::path::Path;

use crate::admin::archive::{Archivable, Unarchivable};
use crate::audit::result::Verdict;
use crate::cli::output::{Cell, Output, Tone, counted, row};
use crate::cli::shared::hints;
use crate::cli::shared::outcome::warn_of_corrupt;
use crate::model::activity::Archived;
use crate::model::archive::{Manifest, Part};
use crate::model::{ActivityId, State, Status};

row! {
    /// The outcome for one activity.
    pub(super) struct ArchiveRow<'a> as row from (id: &'a ActivityId, outcome: &'static str, state_name: Option<String>) {
        activity: &'a str = id.as_str(), flexible;
        status: &'static str = outcome => Cell::text(row.status).tone(row.tone());
        state: Option<String> = state_name;
        users: Option<u64> = None;
        requests: Option<u64> = None;
        entries: Option<u64> = None;
        bytes: Option<u64> = None;
        pub(super) folder: Option<String> = None, flexible;
    }
    changed if row.is_new()
}

impl<'a> ArchiveRow<'a> {
    /// What is in its files.
    pub(super) fn archived(activity: &'a ActivityId, status: Status, manifest: &Manifest, folder: &Path) -> Self {
        let lines = |part| Some(manifest.lines(part));
        Self {
            users: manifest.buyers,
            requests: lines(Part::Requests),
            entries: lines(Part::Ledger),
            bytes: Some(manifest.files.iter().map(|file| file.bytes).sum()),
            folder: Some(folder.display().to_string()),
            ..Self::new(activity, status.name(), Some(State::Archived.to_string()))
        }
    }

    /// What would be in them.
    pub(super) fn planned(activity: &'a ActivityId, found: &Archivable, folder: &Path) -> Self {
        let [requests, entries, users] = found.counts();
        Self {
            users: Some(users),
            requests: Some(requests),
            entries: Some(entries),
            folder: Some(folder.display().to_string()),
            ..Self::new(activity, Status::Ok.name(), Some(found.state.clone()))
        }
    }

    /// It is as it was.
    pub(super) fn refused(activity: &'a ActivityId, why: &Unarchivable) -> Self {
        let state = match why {
            Unarchivable::Archived(_) | Unarchivable::Reused => Some(State::Archived.to_string()),
            Unarchivable::NotOver(live, state) if live == activity => Some(state.clone()),
            _ => None,
        };
        Self::new(activity, status(why), state)
    }

    /// Whether it was archived now.
    pub(super) fn is_new(&self) -> bool {
        self.status == Status::Ok.name()
    }

    /// Whether its files are there: written now or before.
    pub(super) fn is_done(&self) -> bool {
        self.is_new() || self.status == Status::Replayed.name()
    }

    fn tone(&self) -> Tone {
        match self.is_done() {
            true if self.is_new() => Tone::Good,
            true => Tone::Info,
            false => Tone::Bad,
        }
    }
}

/// The field `status` of what is not archived now.
pub(super) fn status(why: &Unarchivable) -> &'static str {
    match why {
        Unarchivable::Archived(_) => Status::Ended.name(),
        Unarchivable::NotOver(..) => "not_ended",
        Unarchivable::Held(_) => "held",
        Unarchivable::UnreadGroup(_) => "unread",
        Unarchivable::Lent(_) => "in_transit",
        Unarchivable::Verdict(verdict) => verdict.name(),
        Unarchivable::Changed | Unarchivable::Reused => "changed",
        Unarchivable::Status(status, _) => status.name(),
    }
}

/// What a row of what is not archived now has no room for.
pub(super) fn explain(why: &Unarchivable, activity: &ActivityId, out: &Output) {
    // Most of what can be done about a shard is done to all of them.
    let whole = activity.whole();
    let reset = hints::preheat(&whole, "--stock N --reset");
    match why {
        Unarchivable::Status(Status::Corrupt | Status::NotPreheated, corrupt) => {
            warn_of_corrupt(&mut out.warnings(), corrupt.as_ref());
        }
        Unarchivable::Archived(found) => {
            let archived = found.archive.as_deref().and_then(Archived::read);
            let by = archived.iter().map(|it| &it.by).find(|by| !by.is_empty()).map(|by| format!(" by {by}"));
            let when =
                archived.as_ref().map(|it| format!(" at {}", it.at)).unwrap_or_default() + &by.unwrap_or_default();
            out.warn(format!("`{activity}` was archived{when}, and not to this directory"));
            out.hint("give the directory of its files; `preheat --restore DIR` brings it back");
        }
        Unarchivable::NotOver(live, state) => {
            out.warn(format!("`{live}` is {state}, and only what has ended or is paused is archived"));
            out.hint(format!(
                "`seckill pause {whole:#}` refuses purchases; `--withdraw-stock` stops plain scripts too"
            ));
        }
        Unarchivable::Held(units) => {
            out.warn(format!("held open, neither sold nor free: {} of `{activity}`", counted(*units, "unit")));
            out.hint(format!("`seckill expire {whole:#}` returns those whose time is over"));
        }
        Unarchivable::UnreadGroup(group) => {
            out.warn(format!("the consumer group `{group}` has not read and acknowledged all of `{activity}`"));
            out.hint(format!(
                "let it read on, or, if nobody reads it any more, remove it: `XGROUP DESTROY` on the ledger of `{activity}`"
            ));
        }
        Unarchivable::Lent(donor) => {
            out.warn(format!("`{donor}` lent units that may not have arrived, so no shard of `{whole}` is archived"));
            out.hint(format!("`seckill reconcile {whole:#} --fix` finishes transfers"));
        }
        Unarchivable::Verdict(verdict) => {
            out.warn(format!("the audit of `{whole}` is {verdict}: only what is a match is archived"));
            out.hint(match verdict {
                Verdict::Unproven => format!(
                    "`{activity}` has no ledger, and nothing else proves what was sold of it: keep its order records; {reset} begins \
                     another sale"
                ),
                Verdict::Unsettled => format!(
                    "`seckill reconcile {whole:#}` says why; {} takes over a ledger without its beginning",
                    hints::preheat(&whole, "--adopt")
                ),
                _ => format!("`seckill reconcile {whole:#}` shows what differs, and `--fix` repairs it"),
            });
        }
        Unarchivable::Changed => {
            out.warn(format!("another client wrote to `{activity}` each time that it was read; nothing was removed"));
            out.hint("the same command tries again; refunds and a backend's own scripts write to it");
        }
        Unarchivable::Reused => {
            out.warn(format!(
                "`{activity}` was archived to this directory, and another client wrote to its keys since: no file has that, and nothing was \
                 removed"
            ));
            out.hint(format!(
                "{reset} begins the next sale of it, without what is there now; `preheat --restore` brings back this one once those \
                 keys are deleted (all but the meta)"
            ));
        }
        Unarchivable::Status(status, _) => {
            out.warn(format!("an adoption of `{activity}` is unfinished ({status}), so it has no whole ledger yet"));
            out.hint(format!("{} resumes the adoption", hints::preheat(activity, "--adopt")));
        }
    }
}
