//! The pages of a checkpoint: what each user held by the ledger entries that were removed.
//!
//! A page is JSON as a ledger entry has its orders, a user and the units of each. Pages stand in the hash of request
//! ids, so that every system that knows the keys of an activity, and every reset, knows them too.

use redis::Value;

use super::keys::Keys;
use super::reply::Reply;
use super::{Store, StoreError};
use crate::inventory::book::Book;
use crate::inventory::checkpoint::{Checkpoint, units};
use crate::inventory::ledger::OrderTexts;

/// Users a page: some ten kilobytes, one call's worth.
const USERS: usize = 500;
/// Pages that are read at once: about half a millisecond of the server's time.
const AT_ONCE: u64 = 10;

impl Store {
    /// Begins a book at a checkpoint. False where not all of its pages are there as they were written.
    pub(super) fn begin_at(
        &mut self,
        keys: &Keys,
        book: &mut Book,
        checkpoint: &Checkpoint,
    ) -> Result<bool, StoreError> {
        book.begin_at(checkpoint);
        let reply = Reply::of_command("HMGET");
        let mut from = 0;
        while from < checkpoint.pages {
            let upto = (from + AT_ONCE).min(checkpoint.pages);
            let mut command = redis::cmd("HMGET");
            command.arg(&keys.requests);
            (from..upto).for_each(|page| {
                command.arg(format!("c:{}:{page}", checkpoint.name));
            });
            for page in reply.array(self.server.command(&command)?)? {
                if !matches!(page, Value::BulkString(page) if carry(book, &page)) {
                    return Ok(false);
                }
            }
            from = upto;
        }
        Ok(book.sum == checkpoint.sum)
    }
}

/// What a book's users hold, as pages.
pub(super) fn pages(book: &Book) -> Vec<String> {
    let held: Vec<(&[u8], i64)> = book.held().collect();
    let page = |users: &[(&[u8], i64)]| {
        let rows = users.iter().map(|(user, units)| [String::from_utf8_lossy(user).into_owned(), units.to_string()]);
        serde_json::json!(rows.collect::<Vec<_>>()).to_string()
    };
    held.chunks(USERS).map(page).collect()
}

/// Adds the users of a page to a book; false where it is none.
fn carry(book: &mut Book, page: &[u8]) -> bool {
    let Ok(rows) = serde_json::from_slice::<Vec<OrderTexts<'_>>>(page) else { return false };
    for row in rows {
        // Read without the text's being there: a bare counter has no user.
        let Some(units) = row.text(1).and_then(units) else { return false };
        book.carry(row.user(), units);
    }
    true
}
