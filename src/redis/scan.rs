//! Large keys, page by page: nobody else waits above a few milliseconds, and memory stays constant.
//!
//! The next page is asked for before this one is looked at. A cursor is good for one connection only: behind another one may be
//! another server, where it would leave members out. So a scan has a connection of its own, and begins again if that breaks.

use redis::Cmd;

use crate::error::{Result, StoreError};
use crate::model::slot::slot;
use crate::redis::call::retry::Attempts;
use crate::redis::cluster::Servers;
use crate::redis::connection::Connection;
use crate::redis::connection::resp::ASKING;
use crate::script::reply::Reply;

/// How many members a page asks for: about half a millisecond of the server's time.
const PAGE: usize = 1000;
/// How often a scan of all keys begins again because slots moved.
const MAX_SCANS: u32 = 10;

/// What is read page by page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scan<'k> {
    /// A hash: fields and values in turn.
    Hash(&'k str),
    /// A set.
    Set(&'k str),
    /// The names of all keys that hold a text and fit a pattern.
    Keys(&'k str),
}

impl Scan<'_> {
    /// The command for the page behind a cursor.
    fn page(self, cursor: &[u8]) -> Cmd {
        let mut command = match self {
            Self::Hash(key) => redis::cmd("HSCAN").arg(key).arg(cursor).to_owned(),
            Self::Set(key) => redis::cmd("SSCAN").arg(key).arg(cursor).to_owned(),
            Self::Keys(pattern) => {
                redis::cmd("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("TYPE").arg("string").to_owned()
            }
        };
        command.arg("COUNT").arg(PAGE).to_owned()
    }
}

/// Why a scan stopped before its end.
pub(crate) enum ScanFailure<E> {
    /// The server, or the connection to it.
    Store(StoreError),
    /// The code that looked at a page.
    Reader(E),
}

impl<E> From<StoreError> for ScanFailure<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Servers {
    /// Walks all pages of a key, or of the keys of all primaries, which may come twice. On a cluster and behind Sentinel the scan begins
    /// again if the key moves to another node, or a node is lost: `each` then gets members that it had already.
    ///
    /// # Errors
    /// Any of [`StoreError`], and whatever `each` fails with.
    pub(crate) fn scan<E: From<StoreError>>(
        &mut self,
        scan: Scan<'_>,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_layout()?;
        let slot = match scan {
            Scan::Hash(key) | Scan::Set(key) => Some(slot(key.as_bytes())),
            Scan::Keys(_) => self.discover().map(|()| None)?,
        };
        let mut attempts = Attempts::new(self);
        // Without another server nobody asks who came already: there it begins again only before its first page.
        let mut has_begun = false;
        // A slot that moves may leave one node after its scan for another before that one's: then all begins again.
        let mut changes = 0;
        loop {
            let map = self.owners.clone();
            let nodes = match slot {
                Some(_) => vec![attempts.node(self, slot)],
                None => self.primaries().into_iter().map(|node| (node, false)).collect(),
            };
            let walked = nodes.into_iter().try_for_each(|(node, asks)| {
                let connection = self.node(node).connect_new().map_err(ScanFailure::Store);
                let page = |members: &[&[u8]]| {
                    has_begun = true;
                    each(members)
                };
                connection.and_then(|mut it| it.scan(scan, asks, page)).map_err(|stopped| (node, stopped))
            });
            let (node, stopped) = match walked {
                Ok(()) if slot.is_some() || !self.is_cluster() => return Ok(()),
                Ok(()) => {
                    self.read_map(None)?;
                    if self.owners == map || changes == MAX_SCANS {
                        return Ok(());
                    }
                    changes += 1;
                    continue;
                }
                Err((_, ScanFailure::Reader(error))) => return Err(error),
                Err((node, ScanFailure::Store(error))) => (node, error),
            };
            self.learn(&stopped)?;
            if !self.may_begin_again(&stopped, has_begun) {
                return Err(self.explained(stopped).into());
            }
            match slot.is_none() && self.is_cluster() {
                true => self.wait_for_failover(&mut attempts, node, stopped)?,
                false => self.recover(&mut attempts, slot, node, stopped)?,
            }
        }
    }

    /// Whether another server, or this one later, may answer a scan that failed, from its beginning.
    fn may_begin_again(&self, error: &StoreError, has_begun: bool) -> bool {
        match self.has_failover() {
            true => error.is_connection() || self.may_recover(error),
            false => error.is_transient() && !has_begun,
        }
    }
}

impl Connection {
    /// Walks all pages on this connection. With `asks`, the node is importing the slot.
    pub(crate) fn scan<E>(
        &mut self,
        scan: Scan<'_>,
        asks: bool,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), ScanFailure<E>> {
        let request = |connection: &mut Self, cursor: &[u8]| {
            let packed = scan.page(cursor).get_packed_command();
            connection.send(&if asks { [ASKING, &packed[..]].concat() } else { packed })
        };
        request(self, b"0")?;
        loop {
            if asks {
                self.value()?;
            }
            let (cursor, count) = self.scan_page()?;
            let is_last = cursor == b"0";
            if !is_last {
                // While the server makes the next page, we read this one.
                request(self, &cursor)?;
            }
            each(&self.texts(count)?).map_err(ScanFailure::Reader)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads the cursor of a page, and how many [texts](Self::texts) follow.
    pub(crate) fn scan_page(&mut self) -> Result<(Vec<u8>, usize)> {
        if self.array()? != 2 {
            return Err(Reply::of_command("SCAN").invalid("no cursor and page"));
        }
        let cursor = self.texts(1)?.concat();
        Ok((cursor, self.array()?))
    }
}
