//! The ledger, read in pages from the oldest entry on.

use redis::Value;

use super::reply::Reply;
use super::{Store, StoreError};
use crate::inventory::book::Book;
use crate::inventory::ledger::{Entry, EntryId};

/// Orders that a page holds, in bytes: about half a millisecond of the server's time.
const PAGE_BYTES: usize = 200_000;

impl Store {
    /// The next entries after one, up to another, oldest first; none where there are no more.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(super) fn entries(
        &mut self,
        key: &str,
        after: EntryId,
        upto: EntryId,
        count: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut command = redis::cmd("XRANGE");
        command.arg(key).arg(format!("({after}")).arg(upto.to_string()).arg("COUNT").arg(count);
        let reply = Reply::of_command("XRANGE");
        reply.array(self.server.command(&command)?)?.into_iter().map(|value| entry(&reply, value)).collect()
    }

    /// Adds to a book all entries up to one.
    pub(super) fn fold(&mut self, key: &str, book: &mut Book, upto: EntryId) -> Result<(), StoreError> {
        // Entries hold one order or hundreds: their weight, not their number, makes a page.
        let mut count = 20;
        while book.end < upto {
            let page = self.entries(key, book.end, upto, count)?;
            let Some(last) = page.last() else { break };
            let orders: usize = page.iter().filter_map(|entry| entry.orders.as_ref()).map(Vec::len).sum();
            count = (PAGE_BYTES / (orders / page.len()).max(1)).clamp(20, 2000);
            let end = last.id;
            page.iter().for_each(|entry| book.add(entry));
            if end >= upto {
                break;
            }
        }
        Ok(())
    }
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
