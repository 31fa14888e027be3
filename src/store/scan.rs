//! Large keys, page by page: nobody else waits above a few milliseconds, and memory stays constant.

use redis::{Cmd, Pipeline, RedisError, Value};

use super::call::Server;
use super::reply::Reply;
use super::wire::Wire;
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
    /// Sends commands that only read at once, and gives their replies.
    pub fn pipeline(&mut self, pipeline: &Pipeline, count: usize) -> Result<Vec<Value>, StoreError> {
        let packed = pipeline.get_packed_pipeline();
        let values = self.connection()?.req_packed_commands(&packed, count);
        let values = values.map_err(|error| self.broken(&error))?;
        values
            .into_iter()
            .map(|value| match value {
                Value::ServerError(error) => Err(self.broken(&RedisError::from(error))),
                value => Ok(value),
            })
            .collect()
    }

    /// Sends commands, and gives what became of each: replies that came before the connection broke are not lost.
    pub(super) fn each_reply(&mut self, pipeline: &Pipeline, count: usize) -> Vec<Result<Value, Unanswered>> {
        let packed = pipeline.get_packed_pipeline();
        let sent = self.connection().map(|connection| connection.send_packed_command(&packed));
        let mut lost = match sent.and_then(|sent| sent.map_err(|error| self.broken(&error))) {
            Ok(()) => None,
            Err(error) => Some(error.to_string()),
        };
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(why) = &lost {
                replies.push(Err(Unanswered::Lost(why.clone())));
                continue;
            }
            let received = self.connection().map(|connection| connection.recv_response());
            replies.push(match received {
                Ok(Ok(Value::ServerError(error))) if error.code() == "NOSCRIPT" => Err(Unanswered::NotRun),
                Ok(Ok(Value::ServerError(error))) => match self.broken(&RedisError::from(error)) {
                    error if error.passes() => Err(Unanswered::NotRun),
                    error => Err(Unanswered::Refused(error)),
                },
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => {
                    let why = self.broken(&error).to_string();
                    Err(Unanswered::Lost(lost.insert(why).clone()))
                }
                Err(error) => Err(Unanswered::Lost(lost.insert(error.to_string()).clone())),
            });
        }
        replies
    }

    /// Sends a command that only reads; its reply must be [received](Self::receive) before anything else is sent.
    pub(super) fn send(&mut self, command: &Cmd) -> Result<(), StoreError> {
        let packed = command.get_packed_command();
        let sent = self.connection()?.send_packed_command(&packed);
        sent.map_err(|error| self.broken(&error))
    }

    /// The reply to what was sent.
    pub(super) fn receive(&mut self) -> Result<Value, StoreError> {
        match self.connection()?.recv_response() {
            Ok(Value::ServerError(error)) => Err(self.broken(&RedisError::from(error))),
            Ok(value) => Ok(value),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// What an error means, forgetting the connection where it failed.
    fn broken(&mut self, error: &RedisError) -> StoreError {
        match StoreError::of_reply(error, &self.target.shown) {
            Some(answer) => answer,
            None => {
                self.disconnect();
                self.target.unreachable(error)
            }
        }
    }
}

impl Store {
    /// Walks all pages of a SCAN, SSCAN or HSCAN; the next page is asked for before this one is looked at.
    pub(super) fn walk<E: From<StoreError>>(
        &mut self,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut wire) = Wire::connect(&self.server.target)? else { return self.walk_encrypted(page, each) };
        let reply = Reply::of_command("SCAN");
        wire.send(&page("0").get_packed_command())?;
        loop {
            let parts = wire.array()?;
            if parts != 2 {
                return Err(reply.unfit("no cursor and page").into());
            }
            let cursor = wire.texts(1)?.concat();
            let last = cursor == b"0";
            if !last {
                // While the server makes the next page, we read this one.
                wire.send(&page(&String::from_utf8_lossy(&cursor)).get_packed_command())?;
            }
            let count = wire.array()?;
            each(&wire.texts(count)?)?;
            if last {
                return Ok(());
            }
        }
    }

    /// As [`Store::walk`], where redis-rs must read because it speaks TLS: each page whole, before the next is asked for.
    fn walk_encrypted<E: From<StoreError>>(
        &mut self,
        page: impl Fn(&str) -> Cmd,
        mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let reply = Reply::of_command("SCAN");
        let mut cursor = "0".to_owned();
        loop {
            let value = self.server.command(&page(&cursor))?;
            let Value::Array(parts) = value else { return Err(reply.unfit(value).into()) };
            let Ok([next, Value::Array(members)]) = <[Value; 2]>::try_from(parts) else {
                return Err(reply.unfit("no cursor and page").into());
            };
            let texts: Vec<&[u8]> = members
                .iter()
                .filter_map(|member| match member {
                    Value::BulkString(bytes) => Some(bytes.as_slice()),
                    _ => None,
                })
                .collect();
            each(&texts)?;
            cursor = reply.text(Some(&next))?.unwrap_or_default();
            if cursor == "0" {
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

    /// Every participant and the units held, in no order, page by page in constant memory. A user may be told
    /// twice where the hash shrinks meanwhile, as SCAN promises no better. Units that are no number are told as text.
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

/// The units a record holds, or its text where it is no number.
pub(super) fn number(bytes: &[u8]) -> Result<u64, String> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(crate::inventory::number::whole)
        .ok_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}
