//! Asks servers about themselves: `INFO` of each, and how far consumer groups are behind, and how long scripts take, as Redis 7.0
//! and later and Valkey count it.

pub(crate) mod info;

use std::collections::BTreeMap;

use redis::{Cmd, Value};

use crate::error::{Result, ServerKind, StoreError};
use crate::model::{ActivityId, EntryId};
use crate::read::stats::info::{Info, SCRIPT_COMMANDS, Section};
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::redis::call::fan_out::CallOutcome;
use crate::redis::call::retry::Answer;
use crate::script::reply::Reply;
use crate::store::Store;

/// What one server says about itself, or why it says nothing.
#[derive(Debug)]
pub(crate) struct ServerInfo {
    /// Its URL without user, password and database.
    pub(crate) server: String,
    /// The fields. Without the right to ask, that is [`StoreError::Permission`].
    pub(crate) info: Result<Info>,
}

/// A consumer group of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupStats {
    /// Its name.
    pub(crate) name: String,
    /// Entries that were delivered and are not acknowledged.
    pub(crate) pending: u64,
    /// Entries that were not delivered yet; `None` if the server cannot say: Redis 6.2, or after entries were removed.
    pub(crate) lag: Option<u64>,
    /// The last entry that was delivered.
    pub(crate) delivered: EntryId,
}

impl GroupStats {
    /// Entries that are not acknowledged, delivered or not.
    pub(crate) fn behind(&self) -> Option<u64> {
        self.lag.map(|lag| lag.saturating_add(self.pending))
    }
}

/// Some sections of INFO, of each primary: of the only server if it is no cluster, whatever its role. All are asked
/// at once, and none twice: one that does not answer is an error beside its name.
///
/// # Errors
/// Nobody says who the primaries are.
pub(crate) fn info(store: &mut Store, sections: &[Section]) -> Result<Vec<ServerInfo>> {
    match store.servers.discover() {
        Err(error) if store.servers.is_cluster() => return Err(error),
        // The server itself says why not.
        _ => (),
    }
    let commands: Vec<Cmd> = sections.iter().map(|section| redis::cmd("INFO").arg(section.name()).to_owned()).collect();
    let add = |mut info: Info, outcome: CallOutcome| {
        let text = outcome.map_err(CallFailure::into_error)?;
        info.add(&Reply::of_command("INFO").text(Some(&text))?.unwrap_or_default());
        Ok(info)
    };
    let of_server = |(server, outcomes): (String, Vec<CallOutcome>)| {
        let info = outcomes.into_iter().try_fold(Info::default(), add);
        ServerInfo { server, info }
    };
    Ok(ask_primaries(store, &commands).into_iter().map(of_server).collect())
}

/// Sends commands to each primary, none twice: what became of them, with its name.
fn ask_primaries(store: &mut Store, commands: &[Cmd]) -> Vec<(String, Vec<CallOutcome>)> {
    let nodes = store.servers.primaries();
    let calls = nodes.iter().flat_map(|node| commands.iter().map(|command| Call::at_node(*node, command)));
    let mut outcomes = store.servers.fan_out(&calls.collect::<Vec<_>>(), None).into_iter();
    let mut of_node = |node| {
        let outcomes = outcomes.by_ref().take(commands.len()).collect();
        (store.servers.node(node).target.node_label(), outcomes)
    };
    nodes.into_iter().map(&mut of_node).collect()
}

/// The consumer groups of ledgers, in the order of the activities. What has no ledger has no groups.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn groups(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Vec<GroupStats>>> {
    let ledgers: Vec<String> = activities.iter().map(|activity| store.keys(activity).ledger).collect();
    let calls: Vec<Call> = ledgers.iter().map(|ledger| Call::command(ledger, &groups_command(ledger))).collect();
    let answers = store.servers.call_all(&calls).into_iter();
    answers.map(|answer| read_groups(answer.map(Answer::value))).collect()
}

/// Asks for the groups of a ledger.
pub(crate) fn groups_command(ledger: &str) -> Cmd {
    redis::cmd("XINFO").arg("GROUPS").arg(ledger).to_owned()
}

/// The groups of a reply. A ledger that is not there, or no stream, has none.
pub(crate) fn read_groups(answer: Result<Value>) -> Result<Vec<GroupStats>> {
    let reply = Reply::of_command("XINFO GROUPS");
    let groups = match answer {
        Ok(value) => reply.array(value)?,
        Err(StoreError::Server { kind: ServerKind::WrongType, .. }) => Vec::new(),
        Err(StoreError::Server { why, .. }) if why.contains("no such key") => Vec::new(),
        Err(error) => return Err(error),
    };
    groups.into_iter().map(|group| read_group(&reply, group)).collect()
}

fn read_group(reply: &Reply<'_>, group: Value) -> Result<GroupStats> {
    let fields = reply.array(group)?;
    let field = |name: &str| Reply::field(&fields, name);
    let name = reply.text(field("name"))?.ok_or_else(|| reply.invalid(&fields))?;
    // Valkey counted below zero after entries were removed: that is no number either.
    let lag = reply.count(field("lag")).ok().flatten();
    let delivered = reply.text(field("last-delivered-id"))?.and_then(|id| id.parse().ok()).unwrap_or_default();
    Ok(GroupStats { name, pending: reply.count(field("pending"))?.unwrap_or_default(), lag, delivered })
}

/// How many calls of scripts took at most so long, since the server started or since `CONFIG RESETSTAT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    /// All calls.
    pub calls: u64,
    /// Calls that took more than the bucket before and at most so many microseconds.
    buckets: BTreeMap<u64, u64>,
}

impl Durations {
    /// Calls that took at most this many microseconds. A bound inside a bucket counts only those that surely did.
    pub(crate) fn within(&self, micros: u64) -> u64 {
        self.buckets.range(..=micros).map(|(_, calls)| calls).sum()
    }
}

/// How long the scripts of each primary take, with its name; `None` of a server that counted none (`latency-tracking no`), or does
/// not say.
///
/// # Errors
/// The servers cannot be reached.
pub(crate) fn script_durations(store: &mut Store) -> Result<Vec<(String, Option<Durations>)>> {
    store.servers.discover()?;
    let histogram = redis::cmd("LATENCY").arg("HISTOGRAM").arg(&SCRIPT_COMMANDS).to_owned();
    let of_server = |(server, mut outcomes): (String, Vec<CallOutcome>)| match outcomes
        .pop()
        .map(|outcome| outcome.map_err(CallFailure::into_error))
    {
        Some(Ok(value)) => Ok((server, read(value)?)),
        Some(Err(error)) if error.is_connection() => Err(error),
        _ => Ok((server, None)),
    };
    ask_primaries(store, &[histogram]).into_iter().map(of_server).collect()
}

/// Reads `[command, [calls, n, histogram_usec, [bound, calls so far, …]], …]`; `None` without calls.
fn read(value: Value) -> Result<Option<Durations>> {
    let reply = Reply::of_command("LATENCY HISTOGRAM");
    let mut durations = Durations::default();
    for fields in reply.array(value)?.into_iter().skip(1).step_by(2) {
        let fields = reply.array(fields)?;
        durations.calls += reply.count(Reply::field(&fields, "calls"))?.unwrap_or_default();
        let Some(Value::Array(buckets)) = Reply::field(&fields, "histogram_usec") else { continue };
        let mut before = 0;
        for bucket in buckets.chunks(2) {
            let bound = reply.count(bucket.first())?.unwrap_or_default();
            let so_far = reply.count(bucket.get(1))?.unwrap_or_default();
            *durations.buckets.entry(bound).or_default() += so_far.saturating_sub(before);
            before = so_far;
        }
    }
    Ok((durations.calls > 0).then_some(durations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_is_not_known_is_none() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let group = |fields: Vec<Value>| {
            let all = [vec![text("name"), text("db"), text("pending"), Value::Int(3)], fields].concat();
            read_groups(Ok(Value::Array(vec![Value::Array(all)]))).unwrap().remove(0)
        };
        assert_eq!(group(vec![text("lag"), Value::Int(4)]).behind(), Some(7));
        for unknown in [vec![], vec![text("lag"), Value::Nil], vec![text("lag"), Value::Int(-1)]] {
            assert_eq!((group(unknown.clone()).lag, group(unknown).pending), (None, 3));
        }
    }

    #[test]
    fn buckets_of_several_commands_are_added() {
        let text = |text: &str| Value::BulkString(text.into());
        let ints = |numbers: &[i64]| Value::Array(numbers.iter().map(|number| Value::Int(*number)).collect());
        let of = |calls, buckets| {
            Value::Array(vec![text("calls"), Value::Int(calls), text("histogram_usec"), ints(buckets)])
        };
        let reply = Value::Array(vec![
            text("evalsha"),
            of(10, &[16, 4, 66, 9, 1056, 10]),
            text("eval"),
            of(2, &[66, 1, 2113, 2]),
        ]);
        let durations = read(reply).unwrap().unwrap();
        assert_eq!(
            (durations.calls, durations.within(15), durations.within(66), durations.within(1056)),
            (12, 0, 10, 11)
        );
        assert_eq!(durations.within(u64::MAX), 12);
        assert_eq!(read(Value::Array(Vec::new())).unwrap(), None);
    }
}
