//! Pages of participants, the next one asked for before this one is looked at, so that server and client work side by
//! side.
//!
//! Each page comes with the ledger's end and the stock at that same instant: from the script, or, which takes half of the
//! server's time, from the scan itself in one transaction, on a connection of its own. What the ledger has since the page
//! before comes along; what seldom changes is read now and then. If that cannot be (a proxy or a user without MULTI, a set
//! with units beside it) or goes wrong, the script gives the page.

use super::connection::Connection;
use super::held_by::{HeldBy, ScannedPage};
use super::keys::Keys;
use super::ledger::entry;
use super::participants::{PAGE, PageRequest, ParticipantsPage, read};
use super::reply::Reply;
use super::scripts::AUDIT;
use super::{Store, StoreError};
use crate::inventory::evidence::ActivityView;
use crate::inventory::layout::Kind;
use crate::inventory::ledger::{Entry, EntryId};
use crate::inventory::status::Status;

/// Entries that come along with a page; if there are more, the rest is read by itself.
const ENTRIES: usize = 256;
/// After so many pages the activity is read whole again.
const FRESH: usize = 64;

/// Where pages come from.
pub struct PageReader {
    /// `None` if they come from the script.
    connection: Option<Connection>,
    /// Whether the next page was asked for.
    asked: bool,
    /// The activity when it was last read whole.
    view: ActivityView,
    /// How many pages came since.
    since: usize,
}

impl Store {
    /// Nothing is asked for yet.
    pub(super) fn page_reader(&self, view: &ActivityView) -> PageReader {
        let scans = matches!(self.layout.kind(), Kind::Hash | Kind::Coupon);
        // If there is no second connection, one does.
        let connection = if scans { Connection::open(&self.server.target).ok() } else { None };
        PageReader { connection, asked: false, view: view.clone(), since: 0 }
    }

    /// Asks for the page of a cursor, and for some of the entries after one.
    pub(super) fn request_page(&mut self, keys: &Keys, reader: &mut PageReader, cursor: &str, known: EntryId) {
        if cursor == "0" {
            return;
        }
        self.throttle.wait();
        let Some(connection) = &mut reader.connection else {
            let names: Vec<&str> = keys.in_order().collect();
            let mut page = redis::cmd("EVALSHA");
            page.arg(AUDIT.sha1).arg(names.len()).arg(names).arg(self.kind()).arg(cursor).arg(PAGE);
            reader.asked = self.server.send(&page).is_ok();
            return;
        };
        let mut pipe = redis::pipe();
        pipe.atomic().get(&keys.stock).cmd("XREVRANGE").arg(&keys.ledger).arg(&["+", "-", "COUNT", "1"]);
        pipe.cmd("XRANGE").arg(&keys.ledger).arg(format!("({known}")).arg("+").arg("COUNT").arg(ENTRIES);
        pipe.cmd(if self.layout.kind() == Kind::Hash { "HSCAN" } else { "SSCAN" });
        pipe.arg(keys.participants.as_deref().unwrap_or_default()).arg(cursor).arg("COUNT").arg(PAGE);
        reader.asked = connection.send(&pipe.get_packed_pipeline()).is_ok();
    }

    /// The page that was asked for. If that went wrong, whatever it was, the script is asked, which says what it is.
    pub(super) fn receive_page(
        &mut self,
        keys: &Keys,
        reader: &mut PageReader,
        cursor: &str,
    ) -> Result<ParticipantsPage, StoreError> {
        if std::mem::take(&mut reader.asked) {
            let found = match &mut reader.connection {
                Some(connection) => receive(connection, &reader.view, self.layout.kind() == Kind::Hash).ok(),
                None => match self.server.receive() {
                    Ok(value) => read(value, keys)?,
                    Err(_) => None,
                },
            };
            self.throttle.took();
            reader.since += 1;
            if let Some(page) = found {
                return if reader.connection.is_some() { self.refresh(keys, reader, page) } else { Ok(page) };
            }
        }
        reader.connection = None;
        self.read_participants(keys, &PageRequest::Page(cursor))
    }

    /// Reads the activity whole, now and then. If something is wrong with it, that is the answer.
    fn refresh(
        &mut self,
        keys: &Keys,
        reader: &mut PageReader,
        page: ParticipantsPage,
    ) -> Result<ParticipantsPage, StoreError> {
        if reader.since < FRESH {
            return Ok(page);
        }
        let whole = self.read_participants(keys, &PageRequest::Users(&[]))?;
        if whole.status != Status::Ok {
            return Ok(whole);
        }
        (reader.view, reader.since) = (whole.view, 0);
        Ok(page)
    }
}

/// Reads stock, ledger's end and page of one transaction; all else is as the activity was before.
fn receive(
    connection: &mut Connection,
    before: &ActivityView,
    has_units: bool,
) -> Result<ParticipantsPage, StoreError> {
    let reply = Reply::of_command("EXEC");
    for _ in ["MULTI", "GET", "XREVRANGE", "XRANGE", "SCAN"] {
        connection.value()?;
    }
    if connection.array()? != 4 {
        return Err(reply.unfit("no stock, ledger and page"));
    }
    let stock = reply.count(Some(&connection.value()?))?;
    let newest = match reply.array(connection.value()?)?.pop() {
        Some(entry) => reply.text(reply.array(entry)?.first())?,
        None => None,
    };
    let last = newest.map(|id| id.parse()).transpose().map_err(|why: String| reply.unfit(why))?;
    let entries = reply.array(connection.value()?)?.into_iter().map(|value| entry(&reply, value));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    if connection.array()? != 2 {
        return Err(reply.unfit("no cursor and page"));
    }
    let cursor = String::from_utf8_lossy(&connection.texts(1)?.concat()).into_owned();
    let count = connection.array()?;
    let mut page = ScannedPage { texts: Vec::new(), ends: Vec::with_capacity(count), has_units };
    for text in connection.texts(count)? {
        page.texts.extend_from_slice(text);
        page.ends.push(page.texts.len());
    }
    let withdrawn = before.rules.and_then(|rules| rules.withdrawn).unwrap_or_default();
    let stock = stock.map(|stock| stock.saturating_add(withdrawn));
    let view = ActivityView { stock, last, length: None, ..before.clone() };
    Ok(ParticipantsPage { status: Status::Ok, corrupt: None, view, entries, cursor, held: HeldBy::Scanned(page) })
}
