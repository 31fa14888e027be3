//! `seckill archive`: after the sale, move an activity into files.

mod row;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use crate::admin::archive::{self, Archivable, ArchiveFiles, ArchiveResult, Unarchivable};
use crate::cli::args::Mutating;
use crate::cli::commands::archive::row::{ArchiveRow, explain};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::archive::{Archive, find};
use crate::cli::interrupt;
use crate::cli::output::format::archive::{ArchiveDirectory, ArchiveWriter};
use crate::cli::output::{Output, Progress, counted};
use crate::cli::shared::selection::{MAX_NAMED, expand};
use crate::cli::shared::{hints, selection};
use crate::error::StoreError;
use crate::model::archive::{Digest, FileSum, Manifest, Part, Sealed, folder_name};
use crate::model::{ActivityId, Layout, Status, option, shell_quoted};
use crate::store::Store;

/// Move activities that are over into files; free the server
///
/// Of each activity that has ended or is paused, whose audit is `match`, whose consumer groups have read everything and of
/// which nothing is held: its participants, requests and ledger are written to a folder of DIR with their SHA-256, and
/// read back. Then all its keys but the meta are removed, in one step that does nothing if anybody wrote to them since. From
/// then on its state is `archived`, and purchases return `ended`. All shards of an activity are looked at before the first
/// is archived.
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

/// Archives.
pub fn run(args: &ArchiveArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    if let Some(file) = args.to.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
        return Err(Failure::failed(format!("cannot write into `{}`: it is no directory", file.display()))
            .hint("give `--to` the path of a directory; it is made if it is missing"));
    }
    let named = expand(selection::resolve(&args.activities, store)?, store)?;
    let wholes =
        named.chunk_by(|one, next| store.layout().whole(one) == store.layout().whole(next)).collect::<Vec<_>>();
    let (rows, archived_before, refusals, archived) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut run = Run { args, store, out, rows, archived_before, refusals, archived };
    let due = run.due(&wholes)?;
    if args.mutating.dry_run || due.is_empty() {
        return run.finish(None);
    }
    // What is half written is removed.
    interrupt::stop_gracefully();
    let directory = ArchiveDirectory::open(&args.to)?;
    let failed = due.into_iter().try_for_each(|activity| run.archive(activity, &directory)).err();
    run.finish(failed)
}

struct Run<'a> {
    args: &'a ArchiveArgs,
    store: &'a mut Store,
    out: &'a mut Output,
    rows: Vec<ArchiveRow<'a>>,
    /// What was archived earlier. Keys that a cut left of it are removed once the question is answered.
    archived_before: Vec<(&'a ActivityId, Unarchivable)>,
    refusals: Vec<(&'a ActivityId, Unarchivable)>,
    /// What was archived now.
    archived: Vec<&'a ActivityId>,
}

impl<'a> Run<'a> {
    /// The activities that can be archived, after a question unless `--yes` answers it. All shards of one are audited before the first
    /// is archived; with `--yes` an activity without shards is audited only when it is archived.
    fn due(&mut self, wholes: &[&'a [ActivityId]]) -> Result<Vec<&'a ActivityId>> {
        let (mut due, mut buyers, mut entries) = (Vec::new(), 0, 0);
        let Mutating { dry_run, yes, .. } = self.args.mutating;
        for shards in wholes {
            if let ([activity], true, false) = (shards, yes, dry_run) {
                due.push(activity);
                continue;
            }
            for (activity, found) in self.plan(shards)? {
                let [_, of_ledger, participants] = found.counts();
                (buyers, entries) = (buyers + participants, entries + of_ledger);
                due.push(activity);
            }
        }
        if !dry_run && !yes && !due.is_empty() {
            let question = format!(
                "Archive {} to `{}`, {} and {}, and remove the keys from `{}`?",
                selection::in_words(&due),
                self.args.to.display(),
                counted(buyers, "buyer"),
                counted(entries, "ledger entry"),
                self.store.server_name()
            );
            self.out.confirm(&question, false)?;
        }
        let archived_before = std::mem::take(&mut self.archived_before);
        archived_before.into_iter().try_for_each(|(activity, why)| self.refuse(activity, why))?;
        Ok(due)
    }

    /// Checks an activity, or all shards of one, without writing anything, and gives those that can be archived: none, if one of
    /// them cannot be. Keeps the rows of what is refused, and of a dry run those of what would be done.
    fn plan(&mut self, shards: &'a [ActivityId]) -> Result<Vec<(&'a ActivityId, Archivable)>> {
        let mut checked = Vec::with_capacity(shards.len());
        for activity in shards {
            checked.push((activity, self.check(activity)?));
        }
        if shards.len() > 1 && checked.iter().all(|(_, checked)| checked.is_ok()) {
            let whole = self.store.layout().whole(&shards[0]);
            if let Err(why) = archive::audit_whole(self.store, &whole)? {
                checked[0].1 = Err(why);
            }
        }
        let reasons = checked.iter().filter_map(|(_, checked)| checked.as_ref().err());
        let refusal = reasons.filter(|why| why.refuses_whole()).map(row::status).next();
        let (mut ready, dry_run) = (Vec::new(), self.args.mutating.dry_run);
        for (activity, checked) in checked {
            match (checked, refusal) {
                (Ok(_), Some(status)) => self.rows.push(ArchiveRow::new(activity, status, None)),
                (Ok(found), None) => {
                    if dry_run {
                        self.rows.push(ArchiveRow::planned(activity, &found, &self.folder(activity, &found)));
                    }
                    ready.push((activity, found));
                }
                (Err(why @ Unarchivable::Archived(_)), _) if !dry_run => self.archived_before.push((activity, why)),
                (Err(why), _) => self.refuse(activity, why)?,
            }
        }
        Ok(ready)
    }

    /// Whether an activity can be archived to this directory. Nothing is written.
    fn check(&mut self, activity: &ActivityId) -> Result<ArchiveResult<Archivable>> {
        let found = match archive::find_archivable(self.store, activity)? {
            Ok(found) => found,
            refused => return Ok(refused),
        };
        refuse_to_overwrite(&self.folder(activity, &found), found.archive.as_deref())?;
        let progress = self.out.progress("auditing", 0);
        let audited = archive::audit(self.store, activity)?;
        progress.finish();
        Ok(audited.map(|_| found))
    }

    /// Where the archive of an activity belongs.
    fn folder(&self, activity: &ActivityId, found: &Archivable) -> PathBuf {
        self.args.to.join(folder(activity, self.store.layout(), found.epoch))
    }

    /// Archives one activity, and keeps its row.
    fn archive(&mut self, activity: &'a ActivityId, directory: &ArchiveDirectory) -> Result<()> {
        let (layout, out) = (self.store.layout(), &*self.out);
        let mut files =
            Folder { activity, layout, directory, out, name: String::new(), writer: None, progress: None, lines: 0 };
        let archived = archive::archive(self.store, activity, self.args.mutating.reason.as_deref(), &mut files);
        let archived = archived.map_err(|failure: Failure| match failure.store() {
            Some(StoreError::Permission { may_be_cut: true, .. }) => {
                failure.hint("the server has everything, or the files do: give the user the rights of docs/acl.md, then the same command ends it")
            }
            _ => failure,
        })?;
        let folder = directory.folder(&files.name);
        drop(files);
        match archived {
            Ok(sealed) => {
                self.rows.push(ArchiveRow::archived(activity, Status::Ok, &sealed.manifest, &folder));
                self.archived.push(activity);
                Ok(())
            }
            Err(why) => self.refuse(activity, why),
        }
    }

    /// Keeps the row of what is not archived now. What is archived already in this directory is verified.
    fn refuse(&mut self, activity: &'a ActivityId, mut why: Unarchivable) -> Result<()> {
        if let Unarchivable::Archived(found) = &why {
            let folder = self.folder(activity, found);
            let here = folder
                .is_dir()
                .then(|| Archive::open(&folder))
                .and_then(|opened| opened.map_err(|failure| self.out.warn(failure.message)).ok());
            if let Some(archive) = here.filter(|it| Some(it.sealed.sha256.as_str()) == found.sha256()) {
                archive.verify(|_| {})?;
                if self.args.mutating.dry_run || archive::remove_rest(self.store, activity, found)? {
                    let manifest = &archive.sealed.manifest;
                    self.rows.push(ArchiveRow::archived(activity, Status::Replayed, manifest, &folder));
                    return Ok(());
                }
                why = Unarchivable::Reused;
            }
        }
        self.rows.push(ArchiveRow::refused(activity, &why));
        self.refusals.push((activity, why));
        Ok(())
    }

    /// What `preheat --restore` takes to bring back what was archived now, and nothing else of the directory; `None` if it takes each folder
    /// by itself, because one of an earlier sale is beside it, or those of others and these are too many to name.
    fn to_restore(&self) -> Option<String> {
        let mut new = self.rows.iter().filter(|row| row.is_new()).filter_map(|row| row.folder.as_deref());
        if let (Some(folder), None) = (new.next(), new.next()) {
            return Some(shell_quoted(folder));
        }
        let layout = self.store.layout();
        let wholes: BTreeSet<ActivityId> = self.archived.iter().map(|activity| layout.whole(activity)).collect();
        let there = find(&self.args.to).ok()?;
        let ours = there
            .iter()
            .filter(|it| it.sealed.manifest.layout == layout && wholes.contains(&layout.whole(&it.id)))
            .map(|it| &it.id);
        let (count, ids) = (ours.clone().count(), ours.collect::<HashSet<_>>());
        let directory = shell_quoted(&self.args.to.display().to_string());
        if wholes.len() > MAX_NAMED {
            return (count == ids.len() && count == there.len()).then_some(directory);
        }
        // A layout of a file has no name; one that was given is named anyway.
        let named = Layout::named(layout.name()).filter(|_| !self.out.options.starts_with(" -l "));
        let named = named.map(|layout| format!(" --layout {}", layout.name())).unwrap_or_default();
        let flags: String = wholes.iter().map(|whole| format!(" {}", option("--activity", whole))).collect();
        (count == ids.len()).then(|| format!("{directory}{named}{flags}"))
    }

    /// Shows the rows, also of what was done before an error; then what they have no room for.
    fn finish(self, failed: Option<Failure>) -> Result<Exit> {
        let dry_run = self.args.mutating.dry_run;
        let shown = self.out.array_until(&self.rows, failed);
        self.refusals.iter().for_each(|(activity, why)| explain(why, activity, self.out));
        let is_missing = |why: &Unarchivable| matches!(why, Unarchivable::Status(Status::NotPreheated, _));
        let missing = self.refusals.iter().filter(|(_, why)| is_missing(why));
        hints::other_layouts(missing.map(|(activity, _)| *activity), self.store, self.out);
        hints::warn_of_dry_replica(dry_run, self.store, self.out);
        shown?;
        if !dry_run && self.rows.iter().any(ArchiveRow::is_new) {
            self.out.note(match self.to_restore() {
                Some(what) => format!("`seckill preheat --restore {what}` brings it back"),
                None => "`seckill preheat --restore FOLDER` brings each back by its folder: other archives are in the \
                         directory"
                    .to_owned(),
            });
        }
        Ok(Exit::done_if(self.rows.iter().all(ArchiveRow::is_done)))
    }
}

/// Refuses to replace an archive of anything but what an earlier run of this one, which was cut short, has written: `name`
/// is the one in the meta.
fn refuse_to_overwrite(path: &Path, name: Option<&str>) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let what = match Archive::open(path) {
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

/// The name of the folder of an archive.
fn folder(activity: &ActivityId, layout: Layout, epoch: u64) -> String {
    folder_name(activity, layout, epoch, |id| Digest::of(id.as_bytes())[..16].to_owned())
}

/// The folder of an archive that is being made.
struct Folder<'a> {
    activity: &'a ActivityId,
    layout: Layout,
    directory: &'a ArchiveDirectory,
    out: &'a Output,
    name: String,
    writer: Option<ArchiveWriter<'a>>,
    /// The bar of what is done now.
    progress: Option<Progress>,
    lines: u64,
}

impl Folder<'_> {
    fn check_interrupt(&self) -> Result<()> {
        if interrupt::requested() { Err(interrupted(self.activity)) } else { Ok(()) }
    }
}

impl ArchiveFiles for Folder<'_> {
    type Failure = Failure;

    fn check(&mut self, found: &Archivable) -> Result<()> {
        self.check_interrupt()?;
        self.name = folder(self.activity, self.layout, found.epoch);
        refuse_to_overwrite(&self.directory.folder(&self.name), found.archive.as_deref())?;
        self.progress = Some(self.out.progress("auditing", 0));
        Ok(())
    }

    fn begin(&mut self, found: &Archivable) -> Result<()> {
        self.writer = None;
        self.writer = Some(self.directory.begin(&self.name, self.layout.kind())?);
        self.progress = Some(self.out.progress("writing", found.counts().iter().sum()));
        self.lines = 0;
        Ok(())
    }

    fn line(&mut self, part: Part, texts: &[&[u8]]) -> Result<()> {
        self.lines += 1;
        if self.lines.is_multiple_of(1000) {
            self.progress.iter().for_each(|progress| progress.inc(1000));
            self.check_interrupt()?;
        }
        self.writer.iter_mut().try_for_each(|writer| writer.line(part, texts))
    }

    fn end(&mut self) -> Result<Vec<FileSum>> {
        self.writer.as_mut().map_or_else(|| Ok(Vec::new()), ArchiveWriter::finish)
    }

    fn publish(&mut self, manifest: Manifest) -> Result<Sealed> {
        let writer = self.writer.take().ok_or_else(|| Failure::failed("no file was begun".to_owned()))?;
        let sealed = writer.seal(manifest)?;
        let progress = self.progress.insert(self.out.progress("reading back", self.lines));
        Archive::open(writer.path())?.verify(|lines| progress.inc(lines))?;
        self.progress = None;
        self.check_interrupt()?;
        writer.publish().map(|()| sealed)
    }

    fn withdraw(&mut self) -> Result<()> {
        self.directory.withdraw(&self.name)
    }
}
