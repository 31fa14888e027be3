//! `seckill archive`: after the sale, move an activity into files.
//! Writes the files of one activity, reads them back, and removes its keys, if nobody changed it meanwhile.

mod row;

use std::path::PathBuf;

use crate::admin::archive::{self, Archivable, Removed, Rest};
use crate::audit::judgement::judge;
use crate::audit::plan::MissingOrders;
use crate::audit::read::{self, shards};
use crate::audit::result::Verdict;
use crate::cli::args::Mutating;
use crate::cli::commands::archive::row::{ArchiveRow, Refused};
use crate::cli::failure::{Exit, Failure, Result, shell_quoted};
use crate::cli::input::archive::Archive;
use crate::cli::interrupt;
use crate::cli::output::format::archive::ArchiveDirectory;
use crate::cli::output::{Output, counted};
use crate::cli::shared::outcome::warn_of_corrupt;
use crate::cli::shared::selection::{expand, find};
use crate::cli::shared::{hints, selection};
use crate::error::StoreError;
use crate::model::archive::{Digest, FORMAT, FileSum, Manifest, VERSION, folder_name};
use crate::model::number::signed;
use crate::model::{ActivityId, Layout, PackedRules, Status};
use crate::store::Store;

/// Move activities that are over into files; free the server
///
/// Of each activity that has ended or is paused, whose audit is `match`, whose consumer groups have read everything and of
/// which nothing is held: its participants, requests and ledger are written to a folder of DIR with their SHA-256, and
/// read back. Then all its keys but the meta are removed, in one step that does nothing if anybody wrote to them since. From
/// then on its state is `archived`, and purchases return `ended`.
///
/// `preheat --restore DIR` brings it back. Killed anywhere, the same command resumes; nothing is lost.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# See whether it can be archived, and how much it is
seckill archive 1001 --to /backup/sales --dry-run
# Two activities, after a question
seckill archive 1001 1002 --to /backup/sales
# Bring one back
seckill preheat --restore /backup/sales/1001.seckill.1
")]
pub struct ArchiveArgs {
    /// Activities to archive, or patterns such as 'sku-*'
    #[arg(required = true, value_name = "ACTIVITY")]
    pub(super) activities: Vec<ActivityId>,
    /// Directory that gets a folder for each activity
    ///
    /// It is made if it is missing. Files hold who bought: only their owner can read them.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    pub(super) mutating: Mutating,
}

/// Activities that a hint names; if they are more, it is of all that the directory has of the layout.
const MAX_NAMED: usize = 5;

/// How often an activity is read if it is written to meanwhile.
const TRIES: usize = 3;

/// Archives.
pub fn run(args: &ArchiveArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let named = expand(selection::resolve(&args.activities, store)?, store)?;
    let activities: Vec<&ActivityId> = named.iter().collect();
    let mut run = Run { args, store, out, rows: Vec::new(), refusals: Vec::new(), archived: Vec::new() };
    if args.mutating.dry_run {
        activities.into_iter().try_for_each(|activity| run.plan(activity, true).map(|_| ()))?;
        return run.finish(None);
    }
    let mut due = activities;
    if !args.mutating.yes {
        due = run.ask(&due)?;
        if due.is_empty() {
            return run.finish(None);
        }
    }
    // What is half written is removed.
    interrupt::stop_gracefully();
    let directory = ArchiveDirectory::open(&args.to)?;
    let failed = due.into_iter().try_for_each(|activity| run.archive(activity, &directory)).err();
    run.finish(failed)
}

/// What was asked for, unless it is done already or refused.
type Checked<T> = std::result::Result<T, Refused>;

struct Run<'a> {
    args: &'a ArchiveArgs,
    store: &'a mut Store,
    out: &'a mut Output,
    rows: Vec<ArchiveRow<'a>>,
    refusals: Vec<(&'a ActivityId, Refused)>,
    /// What was archived now.
    archived: Vec<&'a ActivityId>,
}

impl<'a> Run<'a> {
    /// Checks an activity without writing anything, and keeps its row: of what is refused, and with `keeps` also of what
    /// would be done.
    fn plan(&mut self, activity: &'a ActivityId, keeps: bool) -> Result<Option<Archivable>> {
        let checked = match self.check(activity)? {
            Ok(found) => self.audit(activity)?.map(|_| found),
            refused => refused,
        };
        match checked {
            Ok(found) => {
                if keeps {
                    let folder = self.args.to.join(self.folder(activity, found.epoch));
                    self.rows.push(ArchiveRow::planned(activity, &found, &folder));
                }
                Ok(Some(found))
            }
            Err(refused) => {
                self.keep(activity, refused);
                Ok(None)
            }
        }
    }

    /// One question about all that can be archived; gives those.
    fn ask(&mut self, activities: &[&'a ActivityId]) -> Result<Vec<&'a ActivityId>> {
        let (mut ready, mut buyers, mut entries) = (Vec::new(), 0, 0);
        for activity in activities {
            if let Some(found) = self.plan(activity, false)? {
                ready.push(*activity);
                let [_, of_ledger, participants] = found.counts();
                (buyers, entries) = (buyers + participants, entries + of_ledger);
            }
        }
        if ready.is_empty() {
            return Ok(ready);
        }
        let question = format!(
            "Archive {} to `{}`, {} and {}, and remove the keys from `{}`?",
            selection::in_words(&ready),
            self.args.to.display(),
            counted(buyers, "buyer"),
            counted(entries, "ledger entry"),
            self.store.server_name()
        );
        self.out.confirm(&question, false)?;
        Ok(ready)
    }

    /// What an activity is. One that is archived already in this directory is verified.
    fn check(&mut self, activity: &ActivityId) -> Result<Checked<Archivable>> {
        let found = archive::plan_archive(self.store, activity)?;
        let refused = match found.status {
            Status::Ok => match (Refused::of(&found), self.open_transfer(activity)?) {
                (Some(refused), _) => refused,
                (None, Some(donor)) => Refused::Lent(donor),
                (None, None) => return Ok(Ok(found)),
            },
            Status::Ended => {
                let folder = self.args.to.join(self.folder(activity, found.epoch));
                match Archive::open(&folder) {
                    Ok(archive) if Some(archive.sealed.sha256.as_str()) == found.sha256() => {
                        archive.verify(|_| {})?;
                        if !self.args.mutating.dry_run {
                            archive::remove_rest(self.store, activity, &found)?;
                        }
                        Refused::Done(Box::new(archive.sealed.manifest), folder)
                    }
                    _ => Refused::Archived(found.archive),
                }
            }
            Status::Corrupt => {
                warn_of_corrupt(&mut self.out.warnings(), found.corrupt.as_ref());
                Refused::Status(Status::Corrupt)
            }
            status => Refused::Status(status),
        };
        Ok(Err(refused))
    }

    /// Of a shard, the one that lent units which nobody knows to have arrived, be it to this shard or to another: what is in files
    /// can get none.
    fn open_transfer(&mut self, activity: &ActivityId) -> Result<Option<ActivityId>> {
        let Some((parent, _)) = activity.parent() else { return Ok(None) };
        let sharded = find(std::slice::from_ref(&parent), self.store)?;
        for shard in sharded.get(&parent).iter().flat_map(|shards| shards.ids(&parent)) {
            if shards::open_transfers(self.store, &shard)? > 0 {
                return Ok(Some(shard));
            }
        }
        Ok(None)
    }

    /// Audits an activity: what proves it, if it is a match.
    fn audit(&mut self, activity: &ActivityId) -> Result<Checked<String>> {
        let progress = self.out.progress("auditing", 0);
        let audit = judge(read::audit(self.store, activity, None, None)?, MissingOrders::Repair);
        progress.finish();
        Ok(match audit.verdict {
            Verdict::Match => Ok(audit.proof.name().to_owned()),
            verdict => Err(Refused::Verdict(verdict)),
        })
    }

    /// Archives one activity, and keeps its row.
    fn archive(&mut self, activity: &'a ActivityId, directory: &ArchiveDirectory) -> Result<()> {
        for _ in 0..TRIES {
            if interrupt::requested() {
                return Err(interrupted(activity));
            }
            let found = match self.check(activity)? {
                Ok(found) => found,
                Err(refused) => {
                    self.keep(activity, refused);
                    return Ok(());
                }
            };
            let folder = self.folder(activity, found.epoch);
            not_another(directory, &folder, found.archive.as_deref())?;
            match self.write(activity, directory, &folder)? {
                Ok(row) => {
                    self.rows.push(row);
                    self.archived.push(activity);
                    return Ok(());
                }
                Err(Refused::Changed) => {}
                Err(refused) => {
                    self.keep(activity, refused);
                    return Ok(());
                }
            }
        }
        self.keep(activity, Refused::Changed);
        Ok(())
    }

    fn folder(&self, activity: &ActivityId, epoch: u64) -> String {
        folder_name(activity, self.store.layout(), epoch, |id| Digest::of(id.as_bytes())[..16].to_owned())
    }

    /// Keeps the row of what is not archived now.
    fn keep(&mut self, activity: &'a ActivityId, refused: Refused) {
        self.rows.push(match &refused {
            Refused::Done(manifest, folder) => ArchiveRow::archived(activity, Status::Replayed, manifest, folder),
            refused => ArchiveRow::refused(activity, refused),
        });
        self.refusals.push((activity, refused));
    }

    /// What `preheat --restore` takes to bring back what was archived now, whatever else is in the directory.
    fn to_restore(&self) -> String {
        let new: Vec<&ArchiveRow<'_>> = self.rows.iter().filter(|row| row.is_new()).collect();
        if let [ArchiveRow { folder: Some(folder), .. }] = &new[..] {
            return shell_quoted(folder);
        }
        let layout = self.store.layout();
        let mut flags: Vec<String> = Vec::new();
        for activity in &self.archived {
            let flag = format!(" --activity {}", shell_quoted(layout.whole(activity).as_str()));
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        if flags.len() > MAX_NAMED {
            flags.clear();
        }
        // A layout of a file has no name.
        let named = Layout::named(layout.name()).map(|layout| format!(" --layout {}", layout.name()));
        let directory = shell_quoted(&self.args.to.display().to_string());
        format!("{directory}{}{}", named.unwrap_or_default(), flags.concat())
    }

    /// Shows the rows, also of what was done before an error; then what they have no room for.
    fn finish(self, failed: Option<Failure>) -> Result<Exit> {
        let dry_run = self.args.mutating.dry_run;
        if failed.is_none() || !self.rows.is_empty() {
            self.out.array(&self.rows)?;
        }
        for (activity, refused) in &self.refusals {
            refused.explain(activity, self.out);
        }
        let missing = self.refusals.iter().filter(|(_, refused)| refused.is_missing());
        hints::other_layouts(missing.map(|(activity, _)| *activity), self.store, self.out);
        if let Some(error) = failed {
            return Err(error);
        }
        if !dry_run && self.rows.iter().any(ArchiveRow::is_new) {
            self.out.note(format!("`seckill preheat --restore {}` brings it back", self.to_restore()));
        }
        Ok(Exit::done_if(self.rows.iter().all(ArchiveRow::is_done)))
    }
}

/// Refuses to replace an archive of anything but what an earlier run of this one, which was cut short, has written: `name`
/// is the one in the meta.
fn not_another(directory: &ArchiveDirectory, folder: &str, name: Option<&str>) -> Result<()> {
    let path = directory.folder(folder);
    if !path.exists() {
        return Ok(());
    }
    let what = match Archive::open(&path) {
        Ok(archive) if Some(archive.sealed.manifest.name.as_str()) == name => return Ok(()),
        Ok(archive) => format!("another archive of it, made at {}", archive.sealed.manifest.archived_at),
        Err(_) => "something else".to_owned(),
    };
    Err(Failure::usage(format!("`{}` holds {what}; nothing was removed", path.display()))
        .hint("give another directory: an archive is never overwritten"))
}

fn interrupted(activity: &ActivityId) -> Failure {
    Failure::new(Exit::Interrupted, format!("interrupted: `{activity}` is as it was"))
        .hint("the same command archives what is left")
}

impl<'a> Run<'a> {
    /// Watches the keys, audits, writes the files, reads them back, publishes them and removes the keys.
    pub(crate) fn write(
        &mut self,
        activity: &'a ActivityId,
        directory: &ArchiveDirectory,
        folder: &str,
    ) -> Result<Checked<ArchiveRow<'a>>> {
        let kind = self.store.layout().kind();
        let mut watch = archive::watch_keys(self.store, activity)?;
        let audited = match self.check(activity)? {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        };
        let proof = match self.audit(activity)? {
            Ok(proof) => proof,
            Err(refused) => return Ok(Err(refused)),
        };
        let name = uuid::Uuid::now_v7().to_string();
        let Some(name) = archive::mark_archive(self.store, activity, &audited, &name)? else {
            return Ok(Err(Refused::Changed));
        };
        let name = name.as_str();
        archive::watch_meta(&mut watch)?;
        let found = match self.check(activity)? {
            Ok(found) if found.seen == audited.seen && found.epoch == audited.epoch => found,
            Ok(_) => return Ok(Err(Refused::Changed)),
            Err(refused) => return Ok(Err(refused)),
        };
        let mut writer = directory.begin(folder, kind)?;
        let counts = found.counts();
        let progress = self.out.progress("writing", counts.iter().sum());
        let mut lines = 0;
        let rest = archive::dump_watched(self.store, &mut watch, |part, texts| {
            lines += 1;
            if lines % 1000 == 0 {
                progress.inc(1000);
                if interrupt::requested() {
                    return Err(interrupted(activity));
                }
            }
            writer.line(part, texts)
        })?;
        progress.finish();
        let store = &*self.store;
        let files = writer.finish(|part| archive::key_of_part(store, activity, part))?;
        let manifest = self.manifest(activity, &found, name, proof, rest, files)?;
        // A member came twice, or something is not as it was: what would be removed is not what was written.
        if !found.is_as(&manifest) {
            return Ok(Err(Refused::Changed));
        }
        let sealed = writer.seal(manifest)?;
        let progress = self.out.progress("reading back", counts.iter().sum());
        Archive::open(writer.path())?.verify(|lines| progress.inc(lines))?;
        progress.finish();
        if interrupt::requested() {
            return Err(interrupted(activity));
        }
        writer.publish()?;
        let reason = self.args.mutating.reason.as_deref();
        let removed = archive::remove_watched(self.store, activity, watch, &found, name, &sealed.sha256, reason);
        match removed {
            Ok(Removed::Done) => {
                let path = directory.folder(folder);
                Ok(Ok(ArchiveRow::archived(activity, Status::Ok, &sealed.manifest, &path)))
            }
            Ok(Removed::Changed) => {
                directory.withdraw(folder)?;
                Ok(Err(Refused::Changed))
            }
            // The files may be all that is left.
            Err(error @ StoreError::Unknown { .. }) => Err(error.into()),
            Err(error) => {
                directory.withdraw(folder)?;
                Err(error.into())
            }
        }
    }

    fn manifest(
        &mut self,
        activity: &ActivityId,
        found: &Archivable,
        name: &str,
        proof: String,
        rest: Rest,
        files: Vec<FileSum>,
    ) -> Result<Manifest> {
        let field = |name: &str| {
            let found = rest.meta.iter().find(|(field, _)| field.0 == name.as_bytes());
            found.map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let rules: PackedRules = field("rules").parse().map_err(anyhow::Error::from)?;
        let left = number(&rest.stock) + number(&field("withdrawn"));
        let at = serde_json::to_value(self.store.now()?).map_err(anyhow::Error::from)?;
        let [_, _, buyers] = found.counts();
        let layout = self.store.layout();
        Ok(Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            activity: activity.to_string(),
            title: field("title"),
            layout,
            epoch: rules.epoch,
            state: found.state.clone(),
            total: rules.total,
            left,
            sold: signed(rules.total) - signed(left),
            buyers: layout.kind().has_users().then_some(buyers),
            proof,
            name: name.to_owned(),
            archived_at: at.as_str().unwrap_or_default().to_owned(),
            by: self.store.operator().to_owned(),
            reason: self.args.mutating.reason.clone(),
            server: self.store.server_name().to_owned(),
            tool: concat!("seckill ", env!("CARGO_PKG_VERSION")).to_owned(),
            stock: rest.stock,
            meta: rest.meta,
            groups: rest.groups,
            last_entry: rest.last,
            files,
        })
    }
}
