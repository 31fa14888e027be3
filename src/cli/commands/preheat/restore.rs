//! `preheat --restore`: bring archived activities back from their files.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::admin::restore::{self, Meddled, Pages, Restorable};
use crate::cli::args::Mutating;
use crate::cli::commands::preheat::{PreheatArgs, explain};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::archive::{Archive, find};
use crate::cli::input::yaml::layouts;
use crate::cli::interrupt;
use crate::cli::output::{Output, Progress, named};
use crate::cli::shared::fix::PreheatFlags;
use crate::cli::shared::hints;
use crate::cli::shared::outcome::{until_failed, warn_of_corrupt};
use crate::cli::shared::selection::MAX_NAMED;
use crate::cli::shared::session::Session;
use crate::model::archive::Part;
use crate::model::{Action, ActivityId, Layout, Preheated, Status, StoredState};
use crate::read::snapshot;
use crate::shards;
use crate::store::Store;

/// Verifies the files, then restores one activity after the other.
pub(super) fn run(directory: &Path, args: &PreheatArgs, session: &mut Session) -> Result<Exit> {
    let of_flag = session.global.layout.as_deref().map(layouts::given).transpose()?;
    let wanted = wanted(directory, args, of_flag)?;
    let layout = wanted[0].sealed.manifest.layout;
    if wanted.iter().any(|it| it.sealed.manifest.layout != layout) {
        return Err(Failure::usage(format!("`{}` has archives of several layouts", directory.display()))
            .hint(format!("choose one by `--layout` (a shop's own keys: by their file): {}", names(&wanted))));
    }
    let layout = session.layout(Some(layout))?;
    for archive in &wanted {
        let progress = session.out.progress("verifying", lines(archive));
        archive.verify(|lines| progress.inc(lines))?;
        progress.finish();
    }
    // A sharded activity is in files by its shards.
    let mut store = session.store_to_change(layout, &args.mutating, [])?;
    let out = &mut session.out;
    interrupt::stop_gracefully();
    let (results, failed) = until_failed(wanted.iter().map(|it| restore(it, args, &mut store, out)));
    // A page that is refused comes behind others.
    let mut failed = failed.map(Failure::in_part);
    if failed.is_none() && !args.mutating.dry_run {
        failed = hint_parents(&wanted, &mut store, out).err();
        note_pauses(&wanted, &results, &args.only, layout, out);
    }
    explain::show(&results, failed, out)
}

/// Says which came back paused, as they were archived. Of a shard that was named alone others may be archived still, which no
/// `resume` ends.
fn note_pauses(restored: &[Archive], results: &[Preheated], only: &[ActivityId], layout: Layout, out: &Output) {
    let is_paused =
        |archive: &Archive| archive.sealed.manifest.rules().is_some_and(|rules| rules.state == StoredState::Paused);
    let paused: BTreeSet<ActivityId> = restored
        .iter()
        .zip(results)
        .filter(|(it, result)| result.action == Action::Restore && is_paused(it))
        .filter(|(it, _)| layout.whole(&it.id) == it.id || !only.contains(&it.id))
        .map(|(it, _)| layout.whole(&it.id))
        .collect();
    if !paused.is_empty() {
        let paused: Vec<ActivityId> = paused.into_iter().collect();
        let quoted: Vec<String> = paused.iter().map(|id| format!("{id:#}")).collect();
        let quoted = if quoted.len() > MAX_NAMED { "ACTIVITY".to_owned() } else { quoted.join(" ") };
        out.note(format!("paused, as before: {}; `seckill resume {quoted}` ends that", named(&paused, MAX_NAMED)));
    }
}

/// Says how to make the parents that the server does not have: files have the shards alone.
fn hint_parents(restored: &[Archive], store: &mut Store, out: &Output) -> Result<()> {
    let layout = store.layout();
    let parent_of = |it: &Archive| Some(layout.whole(&it.id)).filter(|whole| *whole != it.id);
    let parents: BTreeSet<ActivityId> = restored.iter().filter_map(parent_of).collect();
    for parent in parents {
        if snapshot::snapshot(store, &parent)?.meta.is_some() {
            continue;
        }
        let shards: Vec<&Archive> = restored.iter().filter(|it| layout.whole(&it.id) == parent).collect();
        let total: u64 = shards.iter().map(|it| it.sealed.manifest.total).sum();
        let numbers: BTreeSet<u32> = shards.iter().filter_map(|it| Some(it.id.parent()?.1)).collect();
        let is_first_choice = numbers == shards::choose(&parent, shards.len(), 0).into_iter().collect();
        out.warn(format!("`{parent}` itself is not on this server: its shards alone are in files"));
        // After a reset to another number of shards they have other numbers, and nothing makes a parent of those.
        if is_first_choice && shards.len() > 1 {
            let meta = snapshot::snapshot(store, &shards[0].id)?.meta;
            let like_it = meta.map(|meta| PreheatFlags::of(&meta, layout.kind()).all()).unwrap_or_default();
            let flags = format!("--stock {total} --shards {}{like_it}", shards.len());
            out.hint(format!("{} makes it", hints::preheat(&parent, &flags)));
        }
    }
    Ok(())
}

/// The layouts of some archives, each once, in words.
fn names(archives: &[Archive]) -> String {
    let names = archives.iter().map(|it| it.sealed.manifest.layout.name());
    names.map(|name| format!("`{name}`")).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// The archives that are wanted, each activity once in a layout; of a sharded one those of its shards.
fn wanted(directory: &Path, args: &PreheatArgs, of_flag: Option<Layout>) -> Result<Vec<Archive>> {
    let all = find(directory)?;
    let known_layouts = names(&all);
    let mut wanted: Vec<Archive> = Vec::new();
    let mut places: HashMap<(ActivityId, Layout), usize> = HashMap::new();
    let mut missing: BTreeSet<&str> = args.only.iter().map(ActivityId::as_str).collect();
    for archive in all {
        let id = &archive.id;
        let layout = archive.sealed.manifest.layout;
        let whole = layout.whole(id);
        let is_named = args.only.is_empty() || args.only.iter().any(|only| only == id || *only == whole);
        if !is_named || of_flag.is_some_and(|flag| flag != layout) {
            continue;
        }
        missing.remove(id.as_str());
        missing.remove(whole.as_str());
        if let Some(other) = places.insert((id.clone(), layout), wanted.len()) {
            let folders = [&wanted[other], &archive].map(|archive| archive.folder.display().to_string());
            return Err(Failure::usage(format!("two archives are of `{id}`: `{}` and `{}`", folders[0], folders[1]))
                .hint("give the folder of the one to restore"));
        }
        wanted.push(archive);
    }
    if let Some(missing) = missing.first() {
        let failure = Failure::usage(format!("no archive of `{missing}` in `{}`", directory.display()));
        let is_other = of_flag.is_some_and(|flag| !known_layouts.contains(&format!("`{}`", flag.name())));
        return Err(if is_other { failure.hint(format!("there are {known_layouts}")) } else { failure });
    }
    if let (Some(flag), []) = (of_flag, &wanted[..]) {
        let why = format!("no archive in `{}` is of the layout `{}`", directory.display(), flag.name());
        return Err(Failure::usage(why).hint(format!("there are {known_layouts}")));
    }
    Ok(wanted)
}

/// How many lines all files have.
fn lines(archive: &Archive) -> u64 {
    archive.sealed.manifest.files.iter().map(|file| file.lines).sum()
}

fn restore(archive: &Archive, args: &PreheatArgs, store: &mut Store, out: &Output) -> Result<Preheated> {
    let Archive { id, sealed, .. } = archive;
    let whole = store.layout().whole(id);
    if whole != *id
        && let Some(meta) = snapshot::snapshot(store, &whole)?.meta
        && !meta.shards.is_some_and(|shards| shards.ids(&whole).any(|shard| shard == *id))
    {
        let (what, first) = match meta.plan {
            Some(_) => ("is being made here by a `preheat` that is unfinished", "finish that by the same command, or "),
            None => ("is another sale here, which this is no shard of", ""),
        };
        out.note(format!("{id}: `{whole}` {what}"));
        out.hint(format!("nothing is overwritten: {first}restore it to another server"));
        return Ok(Preheated::refused(id, Status::Exists));
    }
    let Mutating { reason, dry_run, .. } = &args.mutating;
    let write = |pages: &mut Pages<'_>| write(archive, pages, &out.progress("restoring", lines(archive)));
    let found = restore::restore(store, id, sealed, reason.as_deref(), *dry_run, write)?.map_err(|meddled| {
        match meddled {
            Meddled::Overtaken => {
                Failure::failed(format!("`{id}` was reset, or restored by another call, meanwhile"))
                    .hint(format!("`seckill inspect {id:#}` shows it; the files are as they were"))
            }
            Meddled::Written => {
                Failure::failed(format!("another client wrote to `{id}` while it was restored: it is archived as before"))
                    .hint("stop what writes its keys (a backend's own script?), remove what it wrote, and give the same command again")
            }
        }
    })?;
    explain_refusal(id, &found, out);
    if found.status == Status::Ok {
        let limit = sealed.manifest.rules().and_then(|rules| rules.per_user_limit);
        return Ok(result(archive, &found, limit));
    }
    let now = snapshot::snapshot(store, id)?;
    // The stock key lacks what is withdrawn.
    let stock = if found.status == Status::Replayed { now.stock } else { found.stock };
    let limit = now.meta.and_then(|meta| meta.per_user_limit);
    Ok(result(archive, &Restorable { stock, ..found }, limit))
}

/// Adds the lines of all files.
fn write(archive: &Archive, pages: &mut Pages<'_>, progress: &Progress) -> Result<()> {
    let id = &archive.id;
    let mut count = 0;
    for part in Part::of(archive.sealed.manifest.layout.kind()) {
        let mut lines = archive.lines(*part)?;
        while let Some(line) = lines.next_line()? {
            if !pages.add(*part, line)? {
                return Ok(());
            }
            count += 1;
            if count % 1000 == 0 {
                progress.inc(1000);
                if interrupt::requested() {
                    return Err(Failure::new(Exit::Interrupted, format!("interrupted: `{id}` is not restored yet"))
                        .hint("the same command resumes; until then purchases of it return `ended`"));
                }
            }
        }
        // It may have changed since it was verified.
        lines.finish(&archive.sealed.manifest)?;
    }
    Ok(())
}

/// What a row has no room for.
fn explain_refusal(id: &ActivityId, found: &Restorable, out: &Output) {
    warn_of_corrupt(&mut out.warnings(), found.corrupt.as_ref());
    if found.status != Status::Exists {
        return;
    }
    out.note(match found.stage.as_str() {
        "archived" => format!("{id}: it is archived, and other files have what it was"),
        "restore" => format!("{id}: a restore of it from other files is unfinished"),
        _ => format!("{id}: keys of it are there, and not as this archive has them"),
    });
    out.hint(match found.stage.as_str() {
        "archived" => format!("`seckill inspect {id:#}` says when it was archived: give the directory of that archive"),
        "restore" => "give the directory of those files: the same command resumes".to_owned(),
        _ => format!(
            "nothing is overwritten: restore it to another server; or if `seckill inspect {id:#}` says that it is archived, `seckill archive \
             {:#} --to DIR` with the same files removes the keys that an interrupted archive left",
            id.whole()
        ),
    });
}

fn result(archive: &Archive, found: &Restorable, per_user_limit: Option<u64>) -> Preheated {
    let manifest = &archive.sealed.manifest;
    let done = |value| if found.status == Status::Ok { Some(value) } else { None };
    Preheated {
        action: match found.status {
            Status::Ok => Action::Restore,
            Status::Replayed => Action::Unchanged,
            _ => Action::Refused,
        },
        total_before: found.total,
        total: done(manifest.total).or(found.total),
        stock_before: found.stock,
        stock: done(manifest.left).or(found.stock),
        per_user_limit,
        corrupt: found.corrupt.clone(),
        ..Preheated::refused(&archive.id, found.status)
    }
}
