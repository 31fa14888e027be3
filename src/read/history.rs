//! What ledgers, checkpoints and request ids say of one user or of one order.

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::ledger::{Entry, EntryId};
use crate::model::order::hold::HoldRecord;
use crate::model::slot::slot;
use crate::read::checkpoint::{AT_ONCE, units_in_page};
use crate::redis::call::several::Unanswered;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Entries a page: some hundred kilobytes at most, and little of the server's time.
const PAGE: usize = 400;

/// What a user held by the entries that a trim removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimmedUnits {
    /// So many units.
    Units(i64),
    /// Something: nobody recorded how much.
    Unknown,
    /// A page is gone, or says nonsense.
    Damaged,
}

/// What an activity knows of a request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The digest that is stored under the id itself.
    pub record: Option<Vec<u8>>,
    /// The hold of that id.
    pub hold: Option<HoldRecord>,
    /// Whether the job of a name `<job>:<line>` decided that line.
    pub is_decided: bool,
}

/// Operations of which files of orders exist.
const JOB_OPERATIONS: [&str; 6] = ["deduct", "refund", "multi_deduct", "hold", "confirm", "release"];

impl Store {
    /// Whether what is read page by page lets those who buy go first.
    pub fn let_buyers_go_first(&mut self, is_live: bool) {
        self.throttle.set_live(is_live);
    }

    /// Gives each entry behind one and up to another, oldest first, until `each` returns false.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn each_entry(
        &mut self,
        activity: &ActivityId,
        mut after: EntryId,
        upto: EntryId,
        mut each: impl FnMut(&Entry) -> bool,
    ) -> Result<(), StoreError> {
        let reply = Reply::of_command("XRANGE");
        let key = self.keys(activity).ledger;
        while after < upto && !(self.stop)() {
            let mut command = redis::cmd("XRANGE");
            command.arg(&key).arg(format!("({after}")).arg(upto.to_string()).arg("COUNT").arg(PAGE);
            self.throttle.wait();
            let page = reply.array(self.servers.command(&key, &command)?)?;
            self.throttle.took();
            let is_last = page.len() < PAGE;
            for value in page {
                let entry = crate::script::reply::entry(&reply, value)?;
                after = entry.id;
                if !each(&entry) {
                    return Ok(());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// What a user held by the entries before a checkpoint, page by page.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn carried(
        &mut self,
        activity: &ActivityId,
        checkpoint: &Checkpoint,
        user: &[u8],
    ) -> Result<TrimmedUnits, StoreError> {
        let reply = Reply::of_command("HMGET");
        let key = self.keys(activity).requests;
        let mut from = 0;
        while from < checkpoint.pages {
            let upto = (from + AT_ONCE).min(checkpoint.pages);
            let mut command = redis::cmd("HMGET");
            command.arg(&key);
            (from..upto).for_each(|page| {
                command.arg(format!("\tc:{}:{page}", checkpoint.name));
            });
            for page in reply.array(self.servers.command(&key, &command)?)? {
                let Value::BulkString(page) = page else { return Ok(TrimmedUnits::Damaged) };
                match units_in_page(&page, user) {
                    Some(None) => {}
                    Some(Some(found)) => return Ok(found.map_or(TrimmedUnits::Unknown, TrimmedUnits::Units)),
                    None => return Ok(TrimmedUnits::Damaged),
                }
            }
            from = upto;
        }
        Ok(TrimmedUnits::Units(0))
    }

    /// What each of these activities knows of a request id, or of the line of a job that it names.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn known_requests(&mut self, activities: &[ActivityId], request: &str) -> Result<Vec<Known>, StoreError> {
        const AT_ONCE: usize = 500;
        let line = request.rsplit_once(':').and_then(|(job, line)| Some((job, crate::model::number::whole(line)?)));
        let mut fields = vec![request.to_owned(), format!("\th:{request}")];
        if let Some((job, _)) = line {
            fields.extend(JOB_OPERATIONS.iter().map(|operation| format!("\tj:{operation}:{job}")));
        }
        let reply = Reply::of_command("HMGET");
        let mut all = Vec::with_capacity(activities.len());
        for chunk in activities.chunks(AT_ONCE) {
            let keys: Vec<String> = chunk.iter().map(|activity| Keys::of(self.layout, activity).requests).collect();
            let command =
                |key: &String| (Some(slot(key.as_bytes())), redis::cmd("HMGET").arg(key).arg(&fields).to_owned());
            let commands: Vec<_> = keys.iter().map(command).collect();
            for (nth, answer) in self.servers.each_reply(&commands).into_iter().enumerate() {
                let value = match answer {
                    Ok(value) => value,
                    Err(Unanswered::Refused(error)) => return Err(error),
                    Err(Unanswered::NotRun | Unanswered::Lost(_)) => {
                        self.servers.command(&keys[nth], &commands[nth].1)?
                    }
                };
                let mut values = reply.array(value)?.into_iter();
                let mut text = || match values.next() {
                    Some(Value::BulkString(text)) => Some(text),
                    _ => None,
                };
                let (record, hold) = (text(), text().and_then(|record| HoldRecord::read(&record)));
                let reached = |value: &Value| match value {
                    Value::BulkString(text) => std::str::from_utf8(text)
                        .ok()
                        .and_then(|text| crate::model::number::whole(text.split(' ').next()?)),
                    _ => None,
                };
                let is_decided =
                    line.is_some_and(|(_, line)| values.any(|value| reached(&value).is_some_and(|upto| upto >= line)));
                all.push(Known { record, hold, is_decided });
            }
        }
        Ok(all)
    }
}
