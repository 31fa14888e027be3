//! Large keys, page by page: nobody else waits above a few milliseconds, and memory stays constant.

pub(crate) mod throttle;

use std::hash::BuildHasher;

use redis::{Cmd, Value};

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Kind;
use crate::model::order::Bought;
use crate::model::slot::slot;
use crate::redis::call::Attempts;
use crate::redis::connection::Connection;
use crate::script::reply::Reply;
use crate::store::Store;

/// How many fields a page asks for: about half a millisecond of the server's time.
const PAGE: usize = 1000;

/// How often a scan of all keys begins again because slots moved.
const SCANS: u32 = 10;

/// Participants that were reported, by a fingerprint: two in a billion billion would have to share one.
#[derive(Default)]
struct Known {
    seen: hashbrown::HashSet<(u64, u64)>,
    hashers: [hashbrown::DefaultHashBuilder; 2],
}

impl Known {
    /// False if it is known already.
    fn insert(&mut self, user: &[u8]) -> bool {
        let [one, other] = &self.hashers;
        self.seen.insert((one.hash_one(user), other.hash_one(user)))
    }
}

/// Why a scan stopped before its end.
enum Stopped<E> {
    /// The server, or the connection to it.
    Store(StoreError),
    /// Whoever looked at a page.
    Reader(E),
}

impl<E> From<StoreError> for Stopped<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Store {
    /// Walks all pages of an SSCAN or HSCAN of a key; the next page is asked for before this one is looked at. On a
    /// cluster the scan begins again if the key moves to another node, or the node is lost: `each` then gets members
    /// that it had already.
    pub(crate) fn walk<E: From<StoreError>>(
        &mut self,
        key: &str,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.servers.check_layout()?;
        let slot = Some(slot(key.as_bytes()));
        let mut attempts = Attempts::new();
        loop {
            let (node, asks) = attempts.node(&self.servers, slot);
            let connection = self.servers.node(node).another();
            let stopped = match connection.map_err(Stopped::Store).and_then(|it| walk_all(it, asks, &page, &mut each)) {
                Ok(()) => return Ok(()),
                Err(Stopped::Reader(error)) => return Err(error),
                Err(Stopped::Store(error)) => error,
            };
            self.servers.learn(&stopped)?;
            if !self.may_begin_again(&stopped) {
                return Err(self.servers.explained(stopped).into());
            }
            self.servers.recover(&mut attempts, slot, node, stopped)?;
        }
    }

    /// Whether another server may answer a scan that failed, from its beginning.
    fn may_begin_again(&self, error: &StoreError) -> bool {
        self.servers.fail_over() && (error.is_connection() || self.servers.may_recover(error))
    }

    /// Walks all keys of all primaries, page by page; keys may come twice.
    pub(crate) fn keyspace(
        &mut self,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&str),
    ) -> Result<(), StoreError> {
        self.servers.discover()?;
        let mut attempts = Attempts::new();
        // A slot that moves may leave one node after its scan for another before that one's: then all begins again.
        let mut changes = 0;
        loop {
            let map = self.servers.owners().to_vec();
            let walked = self.servers.primaries().into_iter().try_for_each(|node| {
                let connection = self.servers.node(node).another().map_err(|error| (node, error))?;
                let walked = walk_all(connection, false, &page, &mut |keys: &[&[u8]]| {
                    keys.iter().filter_map(|key| std::str::from_utf8(key).ok()).for_each(&mut each);
                    Ok::<_, StoreError>(())
                });
                walked.map_err(|(Stopped::Store(error) | Stopped::Reader(error))| (node, error))
            });
            match walked {
                Ok(()) if !self.servers.is_cluster() => return Ok(()),
                Ok(()) => {
                    self.servers.read_map(None)?;
                    if *self.servers.owners() == map || changes == SCANS {
                        return Ok(());
                    }
                    changes += 1;
                }
                Err((node, error)) if self.may_begin_again(&error) => match self.servers.is_cluster() {
                    true => self.servers.wait_for_failover(&mut attempts, node, error)?,
                    false => self.servers.recover(&mut attempts, None, node, error)?,
                },
                Err((_, error)) => return Err(self.servers.explained(error)),
            }
        }
    }

    /// As [`Store::walk`], for members that are texts.
    pub(crate) fn pages(
        &mut self,
        key: &str,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&str),
    ) -> Result<(), StoreError> {
        self.walk(key, page, |members| {
            members.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok()).for_each(&mut each);
            Ok(())
        })
    }

    /// Every participant and the units held, in no order, page by page in constant memory. A user may be reported
    /// twice if the hash shrinks meanwhile, as SCAN promises no better. Units that are no number are reported as text.
    /// Those of a member of a set that a plain script added are unknown. On a cluster or behind Sentinel, where a scan
    /// may have to begin again, nobody is reported twice, at 17 bytes of memory a participant and more.
    ///
    /// # Errors
    /// Any of [`StoreError`], and whatever `each` fails with.
    pub fn participants<E: From<StoreError>>(
        &mut self,
        activity: &ActivityId,
        mut each: impl FnMut(&[u8], Result<Bought, String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = self.keys(activity);
        let Some(participants) = keys.participants else { return Ok(()) };
        let kind = self.layout.kind();
        self.servers.discover()?;
        let (begins_again, mut known) = (self.servers.fail_over(), Known::default());
        if kind == Kind::Hash {
            return self.walk(
                &participants,
                |cursor| redis::cmd("HSCAN").arg(&participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned(),
                |members| {
                    let mut members = members.as_chunks().0.iter();
                    members.try_for_each(|[user, units]| match begins_again && !known.insert(user) {
                        true => Ok(()),
                        false => each(user, number(units).map(Bought::Units)),
                    })
                },
            );
        }
        // The units of a set are in a key of their own: a page of them is read for each page of the set, on another
        // connection, because the set's next page is under way.
        let mut beside = match keys.units {
            Some(units) => Some((self.another()?, units)),
            None => None,
        };
        self.walk(
            &participants,
            |cursor| redis::cmd("SSCAN").arg(&participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned(),
            |members| {
                let units = match &mut beside {
                    Some((store, units)) if !members.is_empty() => {
                        let mut command = redis::cmd("HMGET");
                        command.arg(&*units).arg(members);
                        Reply::of_command("HMGET").array(store.servers.command(units, &command)?)?
                    }
                    _ => Vec::new(),
                };
                let alone = if kind == Kind::Coupon { Bought::Units(1) } else { Bought::Unknown };
                for (at, user) in members.iter().enumerate() {
                    if begins_again && !known.insert(user) {
                        continue;
                    }
                    match units.get(at) {
                        Some(Value::BulkString(units)) => each(user, number(units).map(Bought::Units))?,
                        _ => each(user, Ok(alone))?,
                    }
                }
                Ok(())
            },
        )
    }
}

/// Walks all pages on one connection. With `asks`, the node is importing the slot.
fn walk_all<E>(
    mut connection: Connection,
    asks: bool,
    page: impl Fn(&str) -> Cmd,
    each: &mut impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), Stopped<E>> {
    let reply = Reply::of_command("SCAN");
    let send = |connection: &mut Connection, cursor: &str| {
        let packed = page(cursor).get_packed_command();
        connection.send(&if asks { [b"*1\r\n$6\r\nASKING\r\n", &packed[..]].concat() } else { packed })
    };
    send(&mut connection, "0")?;
    loop {
        if asks {
            connection.value()?;
        }
        let parts = connection.array()?;
        if parts != 2 {
            return Err(reply.invalid("no cursor and page").into());
        }
        let cursor = connection.texts(1)?.concat();
        let last = cursor == b"0";
        if !last {
            // While the server makes the next page, we read this one.
            send(&mut connection, &String::from_utf8_lossy(&cursor))?;
        }
        let count = connection.array()?;
        each(&connection.texts(count)?).map_err(Stopped::Reader)?;
        if last {
            return Ok(());
        }
    }
}

/// The units a record holds, or its text if it is no number.
pub(crate) fn number(bytes: &[u8]) -> Result<u64, String> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(crate::model::number::whole)
        .ok_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}
