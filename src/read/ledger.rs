//! The ledger, read in pages from the oldest entry on.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::audit::ledger_state::LedgerState;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::ledger::{Entry, EntryId};
use crate::model::slot::common_slot;
use crate::redis::call::Call;
use crate::script::reply::{Reply, entry};
use crate::store::Store;

/// Orders that a page holds, in bytes: about half a millisecond of the server's time.
const PAGE_BYTES: usize = 200_000;
/// Entries that a page holds at most: small ones cost by their number.
const MAX_PAGE: usize = 400;

/// Entries a page of what people or programs read.
const SHOWN: usize = 100;
/// The longest wait for a new entry in one call: Ctrl-C is looked at in between.
const MAX_BLOCK: Duration = Duration::from_millis(500);
/// Who reads in a group. It is always the same, so that a later run resumes where this one stopped.
const CONSUMER: &str = "seckill";

impl Store {
    /// The next entries of an activity after one, oldest first; none at its end.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn ledger(&mut self, activity: &ActivityId, after: EntryId) -> Result<Vec<Entry>, StoreError> {
        let key = self.keys(activity).ledger;
        let value = self.servers.command(&key, &next_entries(&key, after))?;
        let entries = streams("XREAD", value)?.into_iter().flat_map(|(_, entries)| entries);
        Ok(entries.filter_map(|(_, entry)| entry).collect())
    }

    /// What is added to ledgers behind the entries given, by their place in the list; waits for it, but not for long.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn ledger_news(&mut self, positions: &[(ActivityId, EntryId)]) -> Result<Vec<(usize, Vec<Entry>)>, StoreError> {
        let keys: Vec<String> = positions.iter().map(|(activity, _)| self.keys(activity).ledger).collect();
        if keys.is_empty() {
            self.servers.system().sleep(MAX_BLOCK);
            return Ok(Vec::new());
        }
        if self.must_poll(&keys)? {
            let each = |nth: usize| next_entries(&keys[nth], positions[nth].1);
            let news = self.poll("XREAD", &keys, each)?.into_iter();
            return Ok(news
                .map(|(nth, new)| (nth, new.into_iter().filter_map(|(_, entry)| entry).collect()))
                .collect());
        }
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(SHOWN).arg("BLOCK").arg(self.block()).arg("STREAMS").arg(&keys);
        for (_, after) in positions {
            command.arg(after.to_string());
        }
        let value = self.servers.command(&keys[0], &command)?;
        let place = |key: &str| keys.iter().position(|known| known == key);
        let news = streams("XREAD", value)?.into_iter().filter_map(|(key, entries)| {
            Some((place(&key)?, entries.into_iter().filter_map(|(_, entry)| entry).collect()))
        });
        Ok(news.collect())
    }

    /// Makes a group that reads an activity's ledger from its beginning, unless there is one of that name. Returns
    /// whether there is a ledger.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn make_group(&mut self, activity: &ActivityId, group: &str) -> Result<bool, StoreError> {
        let key = self.keys(activity).ledger;
        match self.servers.command(&key, redis::cmd("XGROUP").arg("CREATE").arg(&key).arg(group).arg("0")) {
            Err(StoreError::Server { why, .. }) if why.contains("BUSYGROUP") || why.contains("already exists") => {
                Ok(true)
            }
            Err(StoreError::Server { why, .. }) if why.contains("requires the key to exist") => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// The oldest entries behind one that a group took and did not acknowledge; if there are none, new ones are taken.
    /// An entry that was trimmed meanwhile is `None` beside its id.
    ///
    /// # Errors
    /// Any of [`StoreError`]; see [`StoreError::is_no_group`].
    pub fn group(
        &mut self,
        activity: &ActivityId,
        group: &str,
        after: EntryId,
    ) -> Result<Vec<(EntryId, Option<Entry>)>, StoreError> {
        let key = self.keys(activity).ledger;
        let mut read = |from: &str| {
            let mut command = redis::cmd("XREADGROUP");
            command.arg("GROUP").arg(group).arg(CONSUMER).arg("COUNT").arg(SHOWN).arg("STREAMS").arg(&key).arg(from);
            let streams = streams("XREADGROUP", self.servers.command(&key, &command)?)?;
            Ok::<_, StoreError>(streams.into_iter().flat_map(|(_, entries)| entries).collect::<Vec<_>>())
        };
        let after = after.to_string();
        let pending = read(&after)?;
        if !pending.is_empty() {
            return Ok(pending);
        }
        // The reply may be lost and the call sent again, to find nothing: what was taken is then pending, in order.
        read(">")?;
        read(&after)
    }

    /// Waits until a group gets something new from ledgers, but not for long. Returns the places in the list of those
    /// that have something; [`group`](Self::group) reads it.
    ///
    /// # Errors
    /// Any of [`StoreError`]; see [`StoreError::is_no_group`].
    pub fn group_news(&mut self, activities: &[ActivityId], group: &str) -> Result<Vec<usize>, StoreError> {
        let keys: Vec<String> = activities.iter().map(|activity| self.keys(activity).ledger).collect();
        if keys.is_empty() {
            self.servers.system().sleep(MAX_BLOCK);
            return Ok(Vec::new());
        }
        if self.must_poll(&keys)? {
            let each = |nth: usize| {
                let mut command = redis::cmd("XREADGROUP");
                command.arg("GROUP").arg(group).arg(CONSUMER).arg("COUNT").arg(SHOWN);
                command.arg("STREAMS").arg(&keys[nth]).arg(">");
                command
            };
            return Ok(self.poll("XREADGROUP", &keys, each)?.into_iter().map(|(nth, _)| nth).collect());
        }
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(group).arg(CONSUMER).arg("COUNT").arg(SHOWN).arg("BLOCK").arg(self.block());
        command.arg("STREAMS").arg(&keys);
        for _ in &keys {
            command.arg(">");
        }
        let streams = streams("XREADGROUP", self.servers.command(&keys[0], &command)?)?;
        Ok(streams.into_iter().filter_map(|(key, _)| keys.iter().position(|known| *known == key)).collect())
    }

    /// Says that entries of a group need not come again.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn acknowledge(&mut self, activity: &ActivityId, group: &str, entries: &[EntryId]) -> Result<(), StoreError> {
        let key = self.keys(activity).ledger;
        let mut command = redis::cmd("XACK");
        command.arg(&key).arg(group);
        for entry in entries {
            command.arg(entry.to_string());
        }
        self.servers.command(&key, &command).map(|_| ())
    }

    /// Whether no one call can wait for all these keys: they are in several slots of a cluster.
    fn must_poll(&mut self, keys: &[String]) -> Result<bool, StoreError> {
        if common_slot(keys).is_some() {
            return Ok(false);
        }
        self.servers.discover()?;
        Ok(self.servers.is_cluster())
    }

    /// Asks for each key, and gives what came by its place; waits a while if nothing did.
    fn poll(
        &mut self,
        what: &str,
        keys: &[String],
        command: impl Fn(usize) -> Cmd,
    ) -> Result<Vec<(usize, Vec<Named>)>, StoreError> {
        let calls: Vec<Call> = keys.iter().enumerate().map(|(nth, key)| Call::command(key, &command(nth))).collect();
        let mut news = Vec::new();
        for (nth, value) in self.servers.read_all(&calls)?.into_iter().enumerate() {
            let entries: Vec<Named> = streams(what, value)?.into_iter().flat_map(|(_, entries)| entries).collect();
            if !entries.is_empty() {
                news.push((nth, entries));
            }
        }
        if news.is_empty() {
            self.servers.system().sleep(MAX_BLOCK / 2);
        }
        Ok(news)
    }

    /// How long a call may wait, in ms: less than the client waits for any reply.
    fn block(&self) -> u128 {
        (self.servers.target().timeout / 2).min(MAX_BLOCK).as_millis().max(1)
    }

    /// Adds to a state all entries up to one.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn fold(&mut self, key: &str, state: &mut LedgerState, upto: EntryId) -> Result<(), StoreError> {
        self.each_entry_of(key, state.end, upto, |entry| {
            state.add(entry);
            true
        })
    }

    /// Gives each entry behind one and up to another, oldest first, until `each` returns false.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn each_entry(
        &mut self,
        activity: &ActivityId,
        after: EntryId,
        upto: EntryId,
        mut each: impl FnMut(&Entry) -> bool,
    ) -> Result<(), StoreError> {
        let (key, stop) = (self.keys(activity).ledger, Arc::clone(&self.stop));
        self.each_entry_of(&key, after, upto, |entry| !stop() && each(entry))
    }

    /// The same for the ledger with this key, also if the user asks to stop. While a page is given, the next one is under way.
    pub(crate) fn each_entry_of(
        &mut self,
        key: &str,
        mut after: EntryId,
        upto: EntryId,
        mut each: impl FnMut(&Entry) -> bool,
    ) -> Result<(), StoreError> {
        let reply = Reply::of_command("XRANGE");
        // Entries hold one order or hundreds: their weight, not their number, makes a page.
        let mut count = 20;
        let page = |after: EntryId, count: usize| {
            let mut command = redis::cmd("XRANGE");
            command.arg(key).arg(format!("({after}")).arg(upto.to_string()).arg("COUNT").arg(count);
            Call::command(key, &command)
        };
        let mut under_way = None;
        while after < upto {
            let ahead = under_way.take().unwrap_or_else(|| {
                self.throttle.wait();
                self.servers.send_ahead(page(after, count))
            });
            let entries = reply.array(self.servers.finish(ahead)?)?.into_iter().map(|value| entry(&reply, value));
            self.throttle.took();
            let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
            let Some(last) = entries.last() else { break };
            (after, count) = (last.id, page_size(&entries));
            if after < upto {
                self.throttle.wait();
                under_way = Some(self.servers.send_ahead(page(after, count)));
            }
            if !entries.iter().all(&mut each) {
                break;
            }
        }
        // What was sent must be read before anything else.
        under_way.map_or(Ok(()), |ahead| self.servers.finish(ahead).map(|_| ()))
    }
}

/// How many entries the next page of a ledger asks for.
fn page_size(page: &[Entry]) -> usize {
    let orders: usize = page.iter().filter_map(|entry| entry.users.as_ref()).map(Vec::len).sum();
    (PAGE_BYTES / (orders / page.len().max(1)).max(1)).clamp(20, MAX_PAGE)
}

/// Asks for the next entries of a ledger after one.
fn next_entries(key: &str, after: EntryId) -> Cmd {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(SHOWN).arg("STREAMS").arg(key).arg(after.to_string());
    command
}

/// An entry with its id: one that was trimmed has nothing else.
type Named = (EntryId, Option<Entry>);

/// The streams of a reply that have entries, by key.
fn streams(what: &str, value: Value) -> Result<Vec<(String, Vec<Named>)>, StoreError> {
    let reply = Reply::of_command(what);
    if value == Value::Nil {
        return Ok(Vec::new());
    }
    let one = |value: Value| match value {
        Value::Array(parts) if matches!(parts.get(1), Some(Value::Nil)) => {
            let id = reply.text(parts.first())?.unwrap_or_default();
            Ok((id.parse().map_err(|why: String| reply.invalid(why))?, None))
        }
        value => entry(&reply, value).map(|entry| (entry.id, Some(entry))),
    };
    let stream = |value: Value| {
        let Ok([key, entries]) = <[Value; 2]>::try_from(reply.array(value)?) else {
            return Err(reply.invalid("no stream"));
        };
        let key = reply.text(Some(&key))?.unwrap_or_default();
        Ok((key, reply.array(entries)?.into_iter().map(one).collect::<Result<_, _>>()?))
    };
    reply.array(value)?.into_iter().map(stream).collect()
}
