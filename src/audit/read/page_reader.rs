//! Pages of participants, the next one asked for before this one is looked at, so that server and client work side by
//! side.
//!
//! Each page comes with the stock and the ledger's end at the instant at which it is compared: a transaction scans and reads
//! both, on a connection of its own; what the ledger has since the page before comes along, and what seldom changes is read now
//! and then. Of a set with units in a key beside it, a scan finds users alone, and the next transaction reads what they hold.
//! Where a transaction is refused (a proxy or a user without MULTI), the script says what users hold that a scan found.
//! No script scans: some services refuse it.
//!
//! A cursor is good for one connection only: behind another one may be another server, where it would leave users out.
//! So whenever a connection is lost, or the slot has moved, the pass begins again.

use redis::Value;

use crate::audit::read::participants::{HeldUnits, NOBODY, ParticipantsPage, read_instant};
use crate::error::{Result, StoreError};
use crate::model::{ActivityId, Entry, EntryId, Kind, Snapshot, Status};
use crate::redis::call::Call;
use crate::redis::call::fan_out::CallAhead;
use crate::redis::connection::Connection;
use crate::script::keys::Keys;
use crate::script::reply::{Reply, entry};
use crate::store::Store;

/// Participants a page: less than half a millisecond of the server's time.
const PAGE: usize = 400;
/// Entries that come along with a page; if there are more, the rest is read by itself.
const ENTRIES: usize = 256;
/// Pages after which the activity itself is read again.
const FRESH: usize = 64;
/// How often a pass may begin again.
const RESTARTS: usize = 50;

/// The pages of one activity.
pub(crate) struct PageReader {
    activity: ActivityId,
    keys: Keys,
    kind: Kind,
    /// The connection of transactions; `None` if there are none.
    connection: Option<Connection>,
    /// Where the next page begins; `None` behind the last one.
    cursor: Option<Vec<u8>>,
    /// Members of a set with units whom a transaction found, and the next one looks up.
    found: Vec<Vec<u8>>,
    /// Whether a transaction was sent on that connection.
    is_asked: bool,
    /// The scan that was sent instead.
    scan: Option<CallAhead>,
    /// The activity when it was last read whole.
    view: Snapshot,
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
    Page(Box<ParticipantsPage>),
    /// None: the pass is over, and nobody was left out.
    End,
    /// The cursor was lost: the pass begins again, with the first page.
    Again,
}

impl PageReader {
    /// The reader of an activity that was seen like this. Nothing is asked for yet.
    pub(crate) fn new(store: &mut Store, activity: &ActivityId, view: &Snapshot) -> Self {
        let (keys, kind) = (store.keys(activity), store.layout.kind());
        let scope = store.servers.cursor_scope(keys.slot());
        // If there is no second connection, one does.
        let connection = keys.participants.as_ref().and_then(|_| store.servers.node(scope.0).connect_new().ok());
        let (activity, view) = (activity.clone(), view.clone());
        let mut reader = Self {
            activity,
            keys,
            kind,
            connection,
            cursor: None,
            found: Vec::new(),
            is_asked: false,
            scan: None,
            view,
            since: 0,
            scope,
            restarts: 0,
        };
        reader.begin_pass();
        reader
    }

    /// Begins with the first page.
    pub(crate) fn begin_pass(&mut self) {
        self.cursor = self.keys.participants.is_some().then(|| b"0".to_vec());
        self.found.clear();
    }

    /// Asks for the next page, and for some of the entries after one.
    pub(crate) fn request(&mut self, store: &mut Store, known: EntryId) {
        if self.is_at_end() {
            return;
        }
        store.throttle.wait();
        let participants = self.keys.participants.as_deref().unwrap_or_default();
        let scan = self.cursor.as_ref().map(|cursor| {
            let mut scan = redis::cmd(if self.kind == Kind::Hash { "HSCAN" } else { "SSCAN" });
            scan.arg(participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned()
        });
        let Some(connection) = &mut self.connection else {
            self.scan = scan.map(|scan| store.servers.send_ahead(Call::command(participants, &scan)));
            return;
        };
        let mut pipe = redis::pipe();
        pipe.atomic().get(&self.keys.stock).cmd("XREVRANGE").arg(&self.keys.ledger).arg(&["+", "-", "COUNT", "1"]);
        pipe.cmd("XRANGE").arg(&self.keys.ledger).arg(format!("({known}")).arg("+").arg("COUNT").arg(ENTRIES);
        if !self.found.is_empty() {
            pipe.cmd("SMISMEMBER").arg(participants).arg(&self.found);
            pipe.cmd("HMGET").arg(self.keys.units.as_deref()).arg(&self.found);
        }
        scan.map(|scan| pipe.add_command(scan));
        // If it was not sent, nothing will come.
        self.is_asked = connection.send(&pipe.get_packed_pipeline()).is_ok();
    }

    /// The page that was asked for.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what is corrupt is a status of the page.
    pub(crate) fn receive(&mut self, store: &mut Store) -> Result<NextPage> {
        if self.is_at_end() {
            // Another connection must not have come unnoticed before the end.
            if store.servers.is_cluster() {
                read_instant(store, &self.activity, NOBODY)?;
            }
            return if self.is_in_scope(store) { Ok(NextPage::End) } else { self.begin_again(store) };
        }
        let page = match (self.scan.take(), self.connection.take()) {
            (Some(ahead), _) => self.look_up(store, ahead)?,
            (None, Some(mut connection)) if std::mem::take(&mut self.is_asked) => {
                let page = self.read_transaction(&mut connection);
                self.connection = page.is_ok().then_some(connection);
                page.ok()
            }
            _ => None,
        };
        store.throttle.took();
        let Some(page) = page else { return self.begin_again(store) };
        self.refresh(store, page).map(|page| NextPage::Page(Box::new(page)))
    }

    fn is_at_end(&self) -> bool {
        self.cursor.is_none() && self.found.is_empty()
    }

    /// Where the next page begins, by the cursor of this one.
    fn set_cursor(&mut self, cursor: Vec<u8>) {
        self.cursor = Some(cursor).filter(|cursor| cursor != b"0");
    }

    /// Reads what users that a scan found hold now; `None` if its cursor was of another connection.
    fn look_up(&mut self, store: &mut Store, ahead: CallAhead) -> Result<Option<ParticipantsPage>> {
        let value = match store.servers.finish(ahead) {
            Ok(value) => value,
            Err(error) => return self.explain(store, error).map(Some),
        };
        let reply = Reply::of_command("SCAN");
        let [Value::BulkString(cursor), Value::Array(members)] = &reply.array(value)?[..] else {
            return Err(reply.invalid("no cursor and page"));
        };
        if !self.is_in_scope(store) {
            return Ok(None);
        }
        let users = members.iter().step_by(if self.kind == Kind::Hash { 2 } else { 1 });
        let users: Vec<&[u8]> =
            users.filter_map(|user| if let Value::BulkString(user) = user { Some(&user[..]) } else { None }).collect();
        let (seen, units) = read_instant(store, &self.activity, &users)?;
        let mut held = HeldUnits::new(true);
        for (user, units) in users.iter().zip(&units) {
            held.push(user);
            held.push(if let Value::BulkString(units) = units { units } else { b"0" });
        }
        self.set_cursor(cursor.clone());
        Ok(Some(ParticipantsPage { seen, entries: Vec::new(), held }))
    }

    /// What is wrong with the activity, if a scan was refused for that.
    fn explain(&self, store: &mut Store, error: StoreError) -> Result<ParticipantsPage> {
        let (seen, _) = read_instant(store, &self.activity, NOBODY)?;
        match seen.status {
            Status::Ok => Err(error),
            _ => Ok(ParticipantsPage { seen, entries: Vec::new(), held: HeldUnits::new(true) }),
        }
    }

    fn is_in_scope(&self, store: &Store) -> bool {
        store.servers.cursor_scope(self.keys.slot()) == self.scope
    }

    /// Begins a pass again, without transactions.
    fn begin_again(&mut self, store: &mut Store) -> Result<NextPage> {
        self.connection = None;
        self.restarts += 1;
        if self.restarts > RESTARTS {
            let why = format!("the connection broke {RESTARTS} times during one scan");
            return Err(StoreError::Unreachable { server: store.server_name().to_owned(), why });
        }
        // By this call the connection is there again, and a slot's new node is known.
        read_instant(store, &self.activity, NOBODY)?;
        self.scope = store.servers.cursor_scope(self.keys.slot());
        self.begin_pass();
        Ok(NextPage::Again)
    }

    /// Reads the activity whole, now and then. If something is wrong with it, that is the answer.
    fn refresh(&mut self, store: &mut Store, page: ParticipantsPage) -> Result<ParticipantsPage> {
        self.since += 1;
        if self.connection.is_none() || self.since < FRESH {
            return Ok(page);
        }
        let (seen, _) = read_instant(store, &self.activity, NOBODY)?;
        if seen.status != Status::Ok {
            return Ok(ParticipantsPage { seen, ..page });
        }
        (self.view, self.since) = (seen, 0);
        Ok(page)
    }
    /// Reads stock, ledger's end and page of one transaction; all else is as the activity was before.
    fn read_transaction(&mut self, connection: &mut Connection) -> Result<ParticipantsPage> {
        let reply = Reply::of_command("EXEC");
        let (looks_up, scans) = (!self.found.is_empty(), self.cursor.is_some());
        let count = 3 + 2 * usize::from(looks_up) + usize::from(scans);
        for _ in 0..=count {
            connection.value()?;
        }
        if connection.array()? != count {
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
        let mut held = HeldUnits::new(self.kind != Kind::Coupon);
        if looks_up {
            let members: Vec<usize> =
                (0..connection.array()?).map(|_| connection.number()).collect::<Result<_, _>>()?;
            let count = connection.array()?;
            let units = connection.optional_texts(count)?;
            for ((user, is_member), units) in self.found.drain(..).zip(members).zip(units) {
                held.push(&user);
                held.push(if is_member == 0 { b"0" } else { units.unwrap_or(b"?") });
            }
        }
        if scans {
            let (cursor, count) = connection.scan_page()?;
            let texts = connection.texts(count)?;
            match self.kind {
                Kind::Set => self.found.extend(texts.into_iter().map(<[u8]>::to_vec)),
                _ => texts.into_iter().for_each(|text| held.push(text)),
            }
            self.set_cursor(cursor);
        }
        let withdrawn = self.view.meta.as_ref().and_then(|meta| meta.withdrawn).unwrap_or_default();
        let stock = stock.map(|stock| stock.saturating_add(withdrawn));
        let seen = Snapshot { stock, ledger_last: last, ledger_length: None, ..self.view.clone() };
        Ok(ParticipantsPage { seen, entries, held })
    }
}
