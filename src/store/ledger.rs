//! The ledger, read in pages from the oldest entry on.

use std::time::Duration;

use redis::Value;

use super::reply::Reply;
use super::{Store, StoreError};
use crate::inventory::book::Book;
use crate::inventory::id::ActivityId;
use crate::inventory::ledger::{Entry, EntryId};

/// Orders that a page holds, in bytes: about half a millisecond of the server's time.
const PAGE_BYTES: usize = 200_000;
/// Entries that a page holds at most: small ones cost by their number.
const MOST_PAGE: usize = 400;

/// Entries a page of what people or programs read.
const SHOWN: usize = 100;
/// The longest wait for a new entry in one call: Ctrl-C is looked at in between.
const MOST_BLOCK: Duration = Duration::from_millis(500);
/// Who reads in a group. It is always the same, so that a later run goes on where this one stopped.
const CONSUMER: &str = "seckill";

impl Store {
    /// The next entries of an activity after one, oldest first. With `wait`, none only after some time without any.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn ledger(&mut self, activity: &ActivityId, after: EntryId, wait: bool) -> Result<Vec<Entry>, StoreError> {
        let key = self.keys(activity).ledger;
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(SHOWN);
        if wait {
            command.arg("BLOCK").arg(self.block());
        }
        command.arg("STREAMS").arg(&key).arg(after.to_string());
        let value = self.server.command(&command)?;
        Ok(streamed("XREAD", value)?.into_iter().flatten().collect())
    }

    /// Makes a group that reads an activity's ledger from its beginning, where there is none of that name.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn make_group(&mut self, activity: &ActivityId, group: &str) -> Result<(), StoreError> {
        let key = self.keys(activity).ledger;
        match self.server.command(redis::cmd("XGROUP").arg("CREATE").arg(&key).arg(group).arg("0")) {
            Err(StoreError::Server { why, .. }) if why.contains("BUSYGROUP") || why.contains("already exists") => {
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// The oldest entries that a group took and did not acknowledge; where there are none, new ones are taken. An
    /// entry that was trimmed meanwhile is `None` beside its id.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn group(
        &mut self,
        activity: &ActivityId,
        group: &str,
        wait: bool,
    ) -> Result<Vec<(EntryId, Option<Entry>)>, StoreError> {
        let key = self.keys(activity).ledger;
        let block = self.block();
        let mut read = |from: &str, wait: bool| {
            let mut command = redis::cmd("XREADGROUP");
            command.arg("GROUP").arg(group).arg(CONSUMER).arg("COUNT").arg(SHOWN);
            if wait {
                command.arg("BLOCK").arg(block);
            }
            command.arg("STREAMS").arg(&key).arg(from);
            self.server.command(&command)
        };
        let pending = named("XREADGROUP", read("0", false)?)?;
        if !pending.is_empty() {
            return Ok(pending);
        }
        // The reply may be lost and the call sent again, to find nothing: what was taken is then pending, in order.
        read(">", wait)?;
        named("XREADGROUP", read("0", false)?)
    }

    /// Says that entries of a group need not come again.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn acknowledge(&mut self, activity: &ActivityId, group: &str, entries: &[EntryId]) -> Result<(), StoreError> {
        let mut command = redis::cmd("XACK");
        command.arg(self.keys(activity).ledger).arg(group);
        for entry in entries {
            command.arg(entry.to_string());
        }
        self.server.command(&command).map(|_| ())
    }

    /// How long a call may wait, in ms: less than the client waits for any reply.
    fn block(&self) -> u128 {
        (self.server.target.timeout / 2).min(MOST_BLOCK).as_millis().max(1)
    }

    /// Adds to a book all entries up to one. While a page is added, the next one is under way.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(super) fn fold(&mut self, key: &str, book: &mut Book, upto: EntryId) -> Result<(), StoreError> {
        let reply = Reply::of_command("XRANGE");
        // Entries hold one order or hundreds: their weight, not their number, makes a page.
        let mut count = 20;
        let mut asked = false;
        while book.end < upto {
            let after = |end: EntryId, count: usize| {
                let mut command = redis::cmd("XRANGE");
                command.arg(key).arg(format!("({end}")).arg(upto.to_string()).arg("COUNT").arg(count);
                command
            };
            let under_way = if asked { self.server.receive().ok() } else { None };
            let value = match under_way {
                Some(value) => value,
                None => {
                    self.pace.wait();
                    self.server.command(&after(book.end, count))?
                }
            };
            self.pace.took();
            let page = reply.array(value)?.into_iter().map(|value| entry(&reply, value));
            let page: Vec<Entry> = page.collect::<Result<_, _>>()?;
            let Some(last) = page.last() else { break };
            let orders: usize = page.iter().filter_map(|entry| entry.orders.as_ref()).map(Vec::len).sum();
            count = (PAGE_BYTES / (orders / page.len()).max(1)).clamp(20, MOST_PAGE);
            asked = last.id < upto && {
                self.pace.wait();
                self.server.send(&after(last.id, count)).is_ok()
            };
            page.iter().for_each(|entry| book.add(entry));
        }
        Ok(())
    }
}

/// The entries of the one stream that was asked for; nothing where there are none.
fn streamed(what: &str, value: Value) -> Result<Vec<Option<Entry>>, StoreError> {
    Ok(named(what, value)?.into_iter().map(|(_, entry)| entry).collect())
}

/// The same with their ids: an entry that was trimmed has nothing else.
fn named(what: &str, value: Value) -> Result<Vec<(EntryId, Option<Entry>)>, StoreError> {
    let reply = Reply::of_command(what);
    if value == Value::Nil {
        return Ok(Vec::new());
    }
    let Some(Value::Array(stream)) = reply.array(value)?.pop() else { return Err(reply.unfit("no stream")) };
    let Ok([_, entries]) = <[Value; 2]>::try_from(stream) else { return Err(reply.unfit("no entries")) };
    let one = |value: Value| match value {
        Value::Array(parts) if matches!(parts.get(1), Some(Value::Nil)) => {
            let id = reply.text(parts.first())?.unwrap_or_default();
            Ok((id.parse().map_err(|why: String| reply.unfit(why))?, None))
        }
        value => entry(&reply, value).map(|entry| (entry.id, Some(entry))),
    };
    reply.array(entries)?.into_iter().map(one).collect()
}

/// Reads one entry of XRANGE: its id, and fields and values in turn.
pub(super) fn entry(reply: &Reply<'_>, value: Value) -> Result<Entry, StoreError> {
    let parts = reply.array(value)?;
    let Ok([id, Value::Array(fields)]) = <[Value; 2]>::try_from(parts) else { return Err(reply.unfit("no entry")) };
    let id = reply.text(Some(&id))?.unwrap_or_default().parse().map_err(|why: String| reply.unfit(why))?;
    let mut entry = Entry::new(id);
    let mut fields = fields.into_iter();
    while let (Some(Value::BulkString(name)), Some(Value::BulkString(text))) = (fields.next(), fields.next()) {
        match &name[..] {
            b"op" => entry.op = text,
            b"by" => entry.by = Some(text),
            b"reason" => entry.reason = Some(text),
            b"stock" => entry.stock = Some(text),
            b"total" => entry.total = Some(text),
            b"epoch" => entry.epoch = Some(text),
            b"orders" => entry.orders = Some(text),
            _ => (),
        }
    }
    Ok(entry)
}
