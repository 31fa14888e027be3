//! Large keys, page by page: nobody else waits above a few milliseconds, and memory stays constant.

use redis::{Cmd, Pipeline, Value};

use super::call::Server;
use super::connection::Connection;
use super::reply::Reply;
use super::{Store, StoreError};
use crate::inventory::id::ActivityId;
use crate::inventory::layout::Kind;
use crate::inventory::order::Bought;

/// How many fields a page asks for: about half a millisecond of the server's time.
const PAGE: usize = 1000;

/// Why there is no reply to one of several commands.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It did not run, and another try may help.
    NotRun,
    /// The server refused it.
    Refused(StoreError),
    /// The connection broke, and nobody knows whether it ran.
    Lost(String),
}

impl Server {
    /// Sends commands, and gives what became of each: replies that came before the connection broke are not lost.
    pub(super) fn each_reply(&mut self, pipeline: &Pipeline, count: usize) -> Vec<Result<Value, Unanswered>> {
        let mut lost = self.write(&pipeline.get_packed_pipeline()).err().map(|error| error.to_string());
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(why) = &lost {
                replies.push(Err(Unanswered::Lost(why.clone())));
                continue;
            }
            replies.push(match self.read() {
                Ok(Value::ServerError(error)) if error.code() == "NOSCRIPT" => Err(Unanswered::NotRun),
                Ok(reply) => self.checked(reply).map_err(|error| match error {
                    error if error.passes() => Unanswered::NotRun,
                    error => Unanswered::Refused(error),
                }),
                Err(error) => Err(Unanswered::Lost(lost.insert(error.to_string()).clone())),
            });
        }
        replies
    }

    /// Sends a command that only reads; its reply must be [received](Self::receive) before anything else is sent.
    pub(super) fn send(&mut self, command: &Cmd) -> Result<(), StoreError> {
        self.write(&command.get_packed_command())
    }

    /// The reply to what was sent.
    pub(super) fn receive(&mut self) -> Result<Value, StoreError> {
        let reply = self.read()?;
        self.checked(reply)
    }
}

impl Store {
    /// Walks all pages of a SCAN, SSCAN or HSCAN; the next page is asked for before this one is looked at.
    pub(super) fn walk<E: From<StoreError>>(
        &mut self,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut connection = Connection::open(&self.server.target)?;
        let reply = Reply::of_command("SCAN");
        connection.send(&page("0").get_packed_command())?;
        loop {
            let parts = connection.array()?;
            if parts != 2 {
                return Err(reply.unfit("no cursor and page").into());
            }
            let cursor = connection.texts(1)?.concat();
            let last = cursor == b"0";
            if !last {
                // While the server makes the next page, we read this one.
                connection.send(&page(&String::from_utf8_lossy(&cursor)).get_packed_command())?;
            }
            let count = connection.array()?;
            each(&connection.texts(count)?)?;
            if last {
                return Ok(());
            }
        }
    }

    /// As [`Store::walk`], for members that are texts.
    pub(super) fn pages(&mut self, page: impl Fn(&str) -> Cmd, mut each: impl FnMut(&str)) -> Result<(), StoreError> {
        self.walk(page, |members| {
            members.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok()).for_each(&mut each);
            Ok(())
        })
    }

    /// Every participant and the units held, in no order, page by page in constant memory. A user may be reported
    /// twice if the hash shrinks meanwhile, as SCAN promises no better. Units that are no number are reported as text.
    /// Those of a member of a set that a plain script added are unknown.
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
        if kind == Kind::Hash {
            return self.walk(
                |cursor| redis::cmd("HSCAN").arg(&participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned(),
                |members| {
                    members
                        .as_chunks()
                        .0
                        .iter()
                        .try_for_each(|[user, units]| each(user, number(units).map(Bought::Units)))
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
            |cursor| redis::cmd("SSCAN").arg(&participants).arg(cursor).arg("COUNT").arg(PAGE).to_owned(),
            |members| {
                let units = match &mut beside {
                    Some((store, units)) if !members.is_empty() => {
                        let mut command = redis::cmd("HMGET");
                        command.arg(&*units).arg(members);
                        Reply::of_command("HMGET").array(store.server.command(&command)?)?
                    }
                    _ => Vec::new(),
                };
                let alone = if kind == Kind::Coupon { Bought::Units(1) } else { Bought::Unknown };
                for (at, user) in members.iter().enumerate() {
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

/// The units a record holds, or its text if it is no number.
pub(super) fn number(bytes: &[u8]) -> Result<u64, String> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(crate::inventory::number::whole)
        .ok_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}
