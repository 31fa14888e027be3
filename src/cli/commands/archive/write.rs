//! Writes the files of one activity, reads them back, and removes its keys, if nobody changed it meanwhile.

use crate::admin::archive::{self, Archivable, Removed, Rest};
use crate::cli::commands::archive::row::ArchiveRow;
use crate::cli::commands::archive::{Checked, Run, Written, interrupted};
use crate::cli::error::{Error, Result};
use crate::cli::input::archive::Archive;
use crate::cli::interrupt;
use crate::cli::output::format::archive::ArchiveDirectory;
use crate::error::StoreError;
use crate::model::activity::rules::PackedRules;
use crate::model::archive::{FORMAT, FileSum, Manifest, VERSION};
use crate::model::id::ActivityId;
use crate::model::status::Status;

impl<'a> Run<'a> {
    /// Watches the keys, audits, writes the files, reads them back, publishes them and removes the keys.
    pub(crate) fn write(
        &mut self,
        activity: &'a ActivityId,
        directory: &ArchiveDirectory,
        folder: &str,
    ) -> Result<Written<'a>> {
        let kind = self.store.layout().kind();
        let mut watch = archive::watch_keys(self.store, activity)?;
        let audited = match self.check(activity)? {
            Checked::Ready(found) => found,
            Checked::Not(refused) => return Ok(Written::Refused(refused)),
        };
        let proof = match self.audit(activity)? {
            Ok(proof) => proof,
            Err(refused) => return Ok(Written::Refused(refused)),
        };
        let name = uuid::Uuid::now_v7().to_string();
        let Some(name) = archive::mark_archive(self.store, activity, &audited, &name)? else {
            return Ok(Written::Changed);
        };
        let name = name.as_str();
        archive::watch_meta(&mut watch)?;
        let found = match self.check(activity)? {
            Checked::Ready(found) if found.seen == audited.seen && found.epoch == audited.epoch => found,
            Checked::Ready(_) => return Ok(Written::Changed),
            Checked::Not(refused) => return Ok(Written::Refused(refused)),
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
                    return Err(Error::from(interrupted(activity)));
                }
            }
            Ok::<_, Error>(writer.line(part, texts)?)
        })?;
        progress.finish();
        let store = &*self.store;
        let files = writer.finish(|part| archive::key_of_part(store, activity, part))?;
        let manifest = self.manifest(activity, &found, name, proof, rest, files)?;
        // A member came twice, or something is not as it was: what would be removed is not what was written.
        if !found.is_as(&manifest) {
            return Ok(Written::Changed);
        }
        let sealed = writer.seal(manifest)?;
        let progress = self.out.progress("reading back", counts.iter().sum());
        Archive::open(writer.path())?.verify(|lines| progress.inc(lines))?;
        progress.finish();
        if interrupt::requested() {
            return Err(interrupted(activity).into());
        }
        writer.publish()?;
        let reason = self.args.mutating.reason.as_deref();
        let removed = archive::remove_watched(self.store, activity, watch, &found, name, &sealed.sha256, reason);
        match removed {
            Ok(Removed::Done) => {
                let path = directory.folder(folder);
                Ok(Written::Done(ArchiveRow::archived(activity, Status::Ok, &sealed.manifest, &path)))
            }
            Ok(Removed::Changed) => {
                directory.withdraw(folder)?;
                Ok(Written::Changed)
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
            sold: i64::try_from(rules.total).unwrap_or(i64::MAX) - i64::try_from(left).unwrap_or(i64::MAX),
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
