//! The row of `archive`.

use std::path::Path;

use crate::admin::archive::Archivable;
use crate::cli::commands::archive::refused::Refused;
use crate::cli::output::{Cell, Tone, row};
use crate::model::activity::State;
use crate::model::archive::{Manifest, Part};
use crate::model::id::ActivityId;
use crate::model::status::Status;

row! {
    /// The outcome for one activity.
    pub(super) struct ArchiveRow<'a> as row {
        activity: &'a str, flexible;
        status: &'static str => Cell::text(row.status).tone(row.tone());
        state: Option<String>;
        users: Option<u64>;
        requests: Option<u64>;
        entries: Option<u64>;
        bytes: Option<u64>;
        pub(super) folder: Option<String>, flexible;
    }
    changed if row.is_new()
}

impl<'a> ArchiveRow<'a> {
    /// What is in its files.
    pub(super) fn archived(activity: &'a ActivityId, status: Status, manifest: &Manifest, folder: &Path) -> Self {
        let lines = |part| Some(manifest.lines(part));
        Self {
            activity: activity.as_str(),
            status: status.name(),
            state: Some(State::Archived.name().to_owned()),
            users: manifest.buyers,
            requests: lines(Part::Requests),
            entries: lines(Part::Ledger),
            bytes: Some(manifest.files.iter().map(|file| file.bytes).sum()),
            folder: Some(folder.display().to_string()),
        }
    }

    /// What would be in them.
    pub(super) fn planned(activity: &'a ActivityId, found: &Archivable, folder: &Path) -> Self {
        let [requests, entries, users] = found.counts();
        Self {
            activity: activity.as_str(),
            status: Status::Ok.name(),
            state: Some(found.state.clone()),
            users: Some(users),
            requests: Some(requests),
            entries: Some(entries),
            bytes: None,
            folder: Some(folder.display().to_string()),
        }
    }

    /// It is as it was.
    pub(super) fn refused(activity: &'a ActivityId, refused: &Refused) -> Self {
        let state = match refused {
            Refused::Archived(_) => Some(State::Archived.name().to_owned()),
            Refused::NotOver(state) => Some(state.clone()),
            _ => None,
        };
        let status = refused.status();
        let activity = activity.as_str();
        Self { activity, status, state, users: None, requests: None, entries: None, bytes: None, folder: None }
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
