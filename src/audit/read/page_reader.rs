//! Pages of participants, the next one asked for before this one is looked at, so that server and client work side by
//! side.
//!
//! Each page comes with the ledger's end and the stock at that same instant: from the script, or, which takes half of the
//! server's time, from the scan itself in one transaction, on a connection of its own. What the ledger has since the page
//! before comes along; what seldom changes is read now and then. If that cannot be (a proxy or a user without MULTI, a set
//! with units beside it) or goes wrong, the script gives the page.
//!
//! A cursor is good for one connection only: behind another one may be another server, where it would leave users out.
//! So whenever a connection is lost, or the slot has moved, the pass begins again.

use crate::audit::evidence::ActivityView;
use crate::audit::read::held_by::{HeldBy, ScannedPage};
use crate::audit::read::participants::{self, PAGE, PageRequest, ParticipantsPage, read};
use crate::error::StoreError;
use crate::model::layout::Kind;
use crate::model::ledger::{Entry, EntryId};
use crate::model::status::Status;
use crate::redis::call::fan_out::CallAhead;
use crate::redis::connection::Connection;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::reply::entry;
use crate::store::Store;

/// Entries that come along with a page; if there are more, the rest is read by itself.
const ENTRIES: usize = 256;
/// Pages after which the activity itself is read again.
const FRESH: usize = 64;
/// How often a pass may begin again.
const RESTARTS: usize = 50;

/// Where pages come from.
pub(crate) struct PageReader {
    /// `None` if they come from the script.
    connection: Option<Connection>,
    /// Whether the next page was asked for on that connection.
    asked: bool,
    /// The next page of the script, if that was asked for.
    under_way: Option<CallAhead>,
    /// The activity when it was last read whole.
    view: ActivityView,
    /// How many pages came since.
    since: usize,
    /// The connection on which the pass began.
    scope: (usize, u64),
    /// How often the pass began again.
    restarts: usize,
}

/// What follows a page.
pub(crate) enum NextPage {
    /// The next one.
    Page(ParticipantsPage),
    /// None: the pass is over, and nobody was left out.
    End,
    /// The first page once more: the cursor was lost, and the pass begins again.
    Again(ParticipantsPage),
}

/// Nothing is asked for yet. The pass begins with the page that was read last.
pub(crate) fn page_reader(store: &mut Store, keys: &Keys, view: &ActivityView) -> PageReader {
    let scans = matches!(store.layout.kind(), Kind::Hash | Kind::Coupon);
    let scope = store.servers.cursor_scope(keys.slot());
    // If there is no second connection, one does.
    let connection = if scans { store.servers.node(scope.0).connect_new().ok() } else { None };
    PageReader { connection, asked: false, under_way: None, view: view.clone(), since: 0, scope, restarts: 0 }
}

/// Asks for the page of a cursor, and for some of the entries after one.
pub(crate) fn request_page(store: &mut Store, keys: &Keys, reader: &mut PageReader, cursor: &str, known: EntryId) {
    if cursor == "0" {
        return;
    }
    store.throttle.wait();
    let Some(connection) = &mut reader.connection else {
        let page = participants::participants_call(store, keys, &PageRequest::Page(cursor), false);
        reader.under_way = Some(store.servers.send_ahead(page));
        return;
    };
    let mut pipe = redis::pipe();
    pipe.atomic().get(&keys.stock).cmd("XREVRANGE").arg(&keys.ledger).arg(&["+", "-", "COUNT", "1"]);
    pipe.cmd("XRANGE").arg(&keys.ledger).arg(format!("({known}")).arg("+").arg("COUNT").arg(ENTRIES);
    pipe.cmd(if store.layout.kind() == Kind::Hash { "HSCAN" } else { "SSCAN" });
    pipe.arg(keys.participants.as_deref().unwrap_or_default()).arg(cursor).arg("COUNT").arg(PAGE);
    reader.asked = connection.send(&pipe.get_packed_pipeline()).is_ok();
}

/// The page that was asked for. If that went wrong, whatever it was, the script is asked, which says what it is.
pub(crate) fn receive_page(
    store: &mut Store,
    keys: &Keys,
    reader: &mut PageReader,
    cursor: &str,
) -> Result<NextPage, StoreError> {
    if cursor == "0" {
        // Another connection must not have come unnoticed between the first page and the others.
        if store.servers.is_cluster() {
            participants::read_participants(store, keys, &PageRequest::Users(&[]))?;
        }
        let is_whole = store.servers.cursor_scope(keys.slot()) == reader.scope;
        return if is_whole { Ok(NextPage::End) } else { begin_pass_again(store, keys, reader) };
    }
    if let Some(connection) = &mut reader.connection {
        let has_units = store.layout.kind() == Kind::Hash;
        // If it was not sent, nothing will come.
        let page = match std::mem::take(&mut reader.asked) {
            true => receive(connection, &reader.view, has_units).ok(),
            false => None,
        };
        store.throttle.took();
        reader.since += 1;
        return match page {
            Some(page) => refresh(store, keys, reader, page).map(NextPage::Page),
            None => begin_pass_again(store, keys, reader),
        };
    }
    let found = match reader.under_way.take() {
        Some(ahead) => read(store.servers.finish(ahead)?, keys)?,
        None => None,
    };
    store.throttle.took();
    let page = match found {
        Some(page) => page,
        None => participants::read_participants(store, keys, &PageRequest::Page(cursor))?,
    };
    of_this_pass(store, keys, reader, page)
}

/// A page of the script, unless it came on another connection than its cursor.
fn of_this_pass(
    store: &mut Store,
    keys: &Keys,
    reader: &mut PageReader,
    page: ParticipantsPage,
) -> Result<NextPage, StoreError> {
    match store.servers.cursor_scope(keys.slot()) == reader.scope {
        true => Ok(NextPage::Page(page)),
        false => begin_pass_again(store, keys, reader),
    }
}

/// Begins a pass again, with pages from the script.
fn begin_pass_again(store: &mut Store, keys: &Keys, reader: &mut PageReader) -> Result<NextPage, StoreError> {
    reader.connection = None;
    reader.restarts += 1;
    if reader.restarts > RESTARTS {
        let why = format!("the connection broke {RESTARTS} times during one scan");
        return Err(StoreError::Unreachable { server: store.server_name().to_owned(), why });
    }
    let page = participants::read_participants(store, keys, &PageRequest::Page("0"))?;
    reader.scope = store.servers.cursor_scope(keys.slot());
    Ok(NextPage::Again(page))
}

/// Reads the activity whole, now and then. If something is wrong with it, that is the answer.
fn refresh(
    store: &mut Store,
    keys: &Keys,
    reader: &mut PageReader,
    page: ParticipantsPage,
) -> Result<ParticipantsPage, StoreError> {
    if reader.since < FRESH {
        return Ok(page);
    }
    let whole = participants::read_participants(store, keys, &PageRequest::Users(&[]))?;
    if whole.status != Status::Ok {
        return Ok(whole);
    }
    (reader.view, reader.since) = (whole.view, 0);
    Ok(page)
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
        return Err(reply.invalid("no stock, ledger and page"));
    }
    let stock = reply.count(Some(&connection.value()?))?;
    let newest = match reply.array(connection.value()?)?.pop() {
        Some(entry) => reply.text(reply.array(entry)?.first())?,
        None => None,
    };
    let last = newest.map(|id| id.parse()).transpose().map_err(|why: String| reply.invalid(why))?;
    let entries = reply.array(connection.value()?)?.into_iter().map(|value| entry(&reply, value));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let (cursor, count) = connection.scan_page()?;
    let cursor = String::from_utf8_lossy(&cursor).into_owned();
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
