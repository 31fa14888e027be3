//! The map of a cluster: which node serves which slots, as `CLUSTER SLOTS` replies.

use std::collections::HashSet;

use redis::Value;

use crate::error::StoreError;
use crate::model::slot::SLOTS;
use crate::script::reply::Reply;

/// A primary and the slots that it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    /// The first slot.
    pub first: u16,
    /// The last slot.
    pub last: u16,
    /// The primary's host; empty if it is that of the node that replied.
    pub host: String,
    /// The primary's port.
    pub port: u16,
    /// How many replicas follow it, of those that have got anything yet.
    pub replicas: usize,
    /// The id of the primary; empty if the node does not say it.
    pub id: String,
}

/// Reads the reply of `CLUSTER SLOTS`: `[[first, last, [host, port, …], replica…], …]`.
pub(super) fn read(value: Value) -> Result<Vec<Range>, StoreError> {
    let reply = Reply::of_command("CLUSTER SLOTS");
    reply.array(value)?.into_iter().map(|range| read_range(&reply, range)).collect()
}

/// The ids of primaries that a replica follows, as `CLUSTER NODES` replies: also one that has got nothing yet, but not one that the
/// nodes agree is down.
pub(super) fn followed(nodes: &str) -> HashSet<String> {
    let primary = |line: &str| {
        let mut words = line.split(' ').skip(2);
        let (flags, primary) = (words.next()?, words.next()?);
        let is_replica = flags.split(',').any(|flag| flag == "slave");
        let is_down = flags.split(',').any(|flag| flag == "fail");
        (is_replica && !is_down).then(|| primary.to_owned())
    };
    nodes.lines().filter_map(primary).collect()
}

fn read_range(reply: &Reply<'_>, range: Value) -> Result<Range, StoreError> {
    let parts = reply.array(range)?;
    let slot = |at: usize| {
        let number = reply.count(parts.get(at))?.and_then(|number| u16::try_from(number).ok());
        number.filter(|slot| *slot < SLOTS).ok_or_else(|| reply.invalid(&parts))
    };
    let (first, last) = (slot(0)?, slot(1)?);
    let Some(Value::Array(primary)) = parts.get(2) else { return Err(reply.invalid(&parts)) };
    let host = reply.text(primary.first())?.filter(|host| host != "?").unwrap_or_default();
    let port = reply.count(primary.get(1))?.and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| reply.invalid(&parts))?;
    let id = reply.text(primary.get(2))?.unwrap_or_default();
    Ok(Range { first, last, host, port, replicas: parts.len() - 3, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_the_primary_of_each_range() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(Vec::new())]);
        let range =
            |last, host, more| Value::Array([vec![Value::Int(0), Value::Int(last), node(host, 7000)], more].concat());
        let map = read(Value::Array(vec![
            range(5460, bulk("10.0.0.1"), vec![node(bulk("10.0.0.2"), 7001)]),
            range(9, Value::Nil, Vec::new()),
        ]));
        let range = |last, host: &str, replicas| Range {
            first: 0,
            last,
            host: host.to_owned(),
            port: 7000,
            replicas,
            id: "id".to_owned(),
        };
        assert_eq!(map.unwrap(), [range(5460, "10.0.0.1", 1), range(9, "", 0)]);
        assert!(read(Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16_384)])])).is_err());
        assert!(read(Value::Nil).is_err());
    }

    #[test]
    fn a_primary_is_followed_by_a_replica_that_is_not_down() {
        let nodes = "\
            a 10.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460\n\
            b 10.0.0.2:7000@17000,name master - 0 1732 2 connected 5461-10922\n\
            c 10.0.0.3:7000@17000 master,fail? - 0 1732 3 connected 10923-16383\n\
            d 10.0.0.4:7000@17000 slave a 0 1732 1 connected\n\
            e 10.0.0.5:7000@17000 slave,fail b 0 1732 2 disconnected\n\
            f 10.0.0.6:7000@17000 slave,fail? c 0 1732 3 connected\n";
        assert_eq!(followed(nodes), HashSet::from(["a".to_owned(), "c".to_owned()]));
    }
}
