//! Asks servers about themselves: `INFO` of each, and how far consumer groups are behind.

pub(crate) mod info;
pub(crate) mod latency;

use redis::{Cmd, Value};

use crate::error::ServerKind;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::ledger::EntryId;
use crate::read::stats::info::{Info, Section};
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::script::reply::Reply;
use crate::store::Store;

/// What one server says about itself, or why it says nothing.
#[derive(Debug)]
pub(crate) struct ServerInfo {
    /// Its URL without user, password and database.
    pub(crate) server: String,
    /// The fields. Without the right to ask, that is [`StoreError::Permission`].
    pub(crate) info: Result<Info, StoreError>,
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
pub(crate) fn info(store: &mut Store, sections: &[Section]) -> Result<Vec<ServerInfo>, StoreError> {
    match store.servers.discover() {
        Err(error) if store.servers.is_cluster() => return Err(error),
        // The server itself says why not.
        _ => (),
    }
    let nodes = store.servers.primaries();
    let of_node = |node: &usize| {
        let node = *node;
        sections.iter().map(move |section| Call::at_node(node, &info_command(*section)))
    };
    let calls: Vec<Call> = nodes.iter().flat_map(of_node).collect();
    let mut outcomes = store.servers.fan_out(&calls, None).into_iter();
    let mut replies = Vec::with_capacity(nodes.len());
    for node in nodes {
        let outcomes: Vec<_> = outcomes.by_ref().take(sections.len()).collect();
        let found = outcomes.into_iter().try_fold(Info::default(), |mut info, outcome| {
            info.add(&text(outcome.map_err(CallFailure::into_error)?)?);
            Ok(info)
        });
        replies.push(ServerInfo { server: store.servers.node(node).target.node_label(), info: found });
    }
    Ok(replies)
}

/// The consumer groups of ledgers, in the order of the activities. What has no ledger has no groups.
///
/// # Errors
/// Any of [`StoreError`].
pub(crate) fn groups(store: &mut Store, activities: &[ActivityId]) -> Result<Vec<Vec<GroupStats>>, StoreError> {
    let ledgers: Vec<String> = activities.iter().map(|activity| store.keys(activity).ledger).collect();
    let calls: Vec<Call> = ledgers.iter().map(|ledger| Call::command(ledger, &groups_command(ledger))).collect();
    let answers = store.servers.call_all(&calls).into_iter();
    answers.map(|answer| read_groups(answer.map(|answer| answer.value))).collect()
}

fn info_command(section: Section) -> Cmd {
    redis::cmd("INFO").arg(section.name()).to_owned()
}

/// The text of a reply to INFO: a verbatim string if a proxy speaks RESP3.
fn text(value: Value) -> Result<String, StoreError> {
    match value {
        Value::VerbatimString { text, .. } => Ok(text),
        value => Ok(Reply::of_command("INFO").text(Some(&value))?.unwrap_or_default()),
    }
}

/// Asks for the groups of a ledger.
pub(crate) fn groups_command(ledger: &str) -> Cmd {
    redis::cmd("XINFO").arg("GROUPS").arg(ledger).to_owned()
}

/// The groups of a reply. A ledger that is not there, or no stream, has none.
pub(crate) fn read_groups(answer: Result<Value, StoreError>) -> Result<Vec<GroupStats>, StoreError> {
    let reply = Reply::of_command("XINFO GROUPS");
    let groups = match answer {
        Ok(value) => reply.array(value)?,
        Err(StoreError::Server { kind: ServerKind::WrongType, .. }) => Vec::new(),
        Err(StoreError::Server { why, .. }) if why.contains("no such key") => Vec::new(),
        Err(error) => return Err(error),
    };
    groups.into_iter().map(|group| read_group(&reply, group)).collect()
}

fn read_group(reply: &Reply<'_>, group: Value) -> Result<GroupStats, StoreError> {
    let fields = reply.array(group)?;
    let field = |name: &str| {
        let is_named = |pair: &&[Value]| matches!(&pair[0], Value::BulkString(known) if known == name.as_bytes());
        fields.chunks(2).find(is_named).and_then(|pair| pair.get(1))
    };
    let name = reply.text(field("name"))?.ok_or_else(|| reply.invalid(&fields))?;
    // Valkey counted below zero after entries were removed: that is no number either.
    let lag = reply.count(field("lag")).ok().flatten();
    let delivered = reply.text(field("last-delivered-id"))?.and_then(|id| id.parse().ok()).unwrap_or_default();
    Ok(GroupStats { name, pending: reply.count(field("pending"))?.unwrap_or_default(), lag, delivered })
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
}
