//! What nodes of a cluster say of each other, and of their replicas: `CLUSTER SLOTS`, `CLUSTER NODES` and `ROLE`.

use std::collections::HashSet;

use redis::Value;

use crate::error::Result;
use crate::model::slot::SLOTS;
use crate::script::reply::Reply;

/// A node, as another one names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapNode {
    /// Its host; empty if it is that of the node that replied.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Empty if the node does not say it.
    pub(crate) id: String,
}

/// Slots that one primary serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) primary: MapNode,
    /// Those that follow it and have got anything yet.
    pub(crate) replicas: Vec<MapNode>,
}

/// Reads the reply of `CLUSTER SLOTS`: `[[first, last, [host, port, id, …], replica…], …]`.
pub(crate) fn read_ranges(value: Value) -> Result<Vec<SlotRange>> {
    let reply = Reply::of_command("CLUSTER SLOTS");
    reply.array(value)?.into_iter().map(|range| read_range(&reply, range)).collect()
}

fn read_range(reply: &Reply<'_>, range: Value) -> Result<SlotRange> {
    let parts = reply.array(range)?;
    let slot = |at: usize| {
        let number = reply.count(parts.get(at))?.and_then(|number| u16::try_from(number).ok());
        number.filter(|slot| *slot < SLOTS).ok_or_else(|| reply.invalid(&parts))
    };
    let node = |value: &Value| {
        let Value::Array(node) = value else { return Err(reply.invalid(&parts)) };
        let host = reply.text(node.first())?.filter(|host| host != "?").unwrap_or_default();
        let port = reply.count(node.get(1))?.and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or_else(|| reply.invalid(&parts))?;
        Ok(MapNode { host, port, id: reply.text(node.get(2))?.unwrap_or_default() })
    };
    let (first, last) = (slot(0)?, slot(1)?);
    let [primary, replicas @ ..] = &parts[2..] else { return Err(reply.invalid(&parts)) };
    let replicas = replicas.iter().map(node).collect::<Result<_, _>>()?;
    Ok(SlotRange { first, last, primary: node(primary)?, replicas })
}

/// A line of `CLUSTER NODES`: `id ip:port@bus,host flags primary ping pong epoch link slot…`.
#[derive(Debug)]
pub(crate) struct NodeLine<'l> {
    pub(crate) id: &'l str,
    /// Host and port.
    pub(crate) address: &'l str,
    flags: &'l str,
    /// The id of its primary, if it is a replica.
    pub(crate) primary: Option<&'l str>,
    /// What it serves, and of the node that was asked also what is being moved: `[93-<-id]`, `[93->-id]`.
    pub(crate) slots: Vec<&'l str>,
}

impl<'l> NodeLine<'l> {
    /// Reads a line; `None` if it is none.
    pub(crate) fn read(line: &'l str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, primary, _, _, _, _, slots @ ..] = &words[..] else { return None };
        let address = address.split(['@', ',']).next().unwrap_or_default();
        Some(Self { id, address, flags, primary: Some(*primary).filter(|id| *id != "-"), slots: slots.to_vec() })
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.split(',').any(|known| known == flag)
    }
}

/// The ids of primaries that a replica follows, as `CLUSTER NODES` replies: also one that has got nothing yet, but not one that the
/// nodes agree is down.
pub(crate) fn followed(nodes: &str) -> HashSet<String> {
    let lines = nodes.lines().filter_map(NodeLine::read);
    let replicas = lines.filter(|node| node.has("slave") && !node.has("fail"));
    replicas.filter_map(|node| node.primary.map(str::to_owned)).collect()
}

/// Whether a reply to `ROLE` is that of a primary without replicas.
pub(crate) fn is_alone(role: &Value) -> bool {
    let Value::Array(parts) = role else { return false };
    matches!(parts.as_slice(), [Value::BulkString(role), _, Value::Array(replicas)] if role == b"master" && replicas.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_the_nodes_of_each_range() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(Vec::new())]);
        let range =
            |last, host, more| Value::Array([vec![Value::Int(0), Value::Int(last), node(host, 7000)], more].concat());
        let map = read_ranges(Value::Array(vec![
            range(5460, bulk("10.0.0.1"), vec![node(bulk("10.0.0.2"), 7001)]),
            range(9, Value::Nil, Vec::new()),
        ]));
        let node = |host: &str, port| MapNode { host: host.to_owned(), port, id: "id".to_owned() };
        let range = |last, host, replicas| SlotRange { first: 0, last, primary: node(host, 7000), replicas };
        assert_eq!(map.unwrap(), [range(5460, "10.0.0.1", vec![node("10.0.0.2", 7001)]), range(9, "", Vec::new())]);
        for last in [Value::Int(5460), Value::Int(16_384)] {
            assert!(read_ranges(Value::Array(vec![Value::Array(vec![Value::Int(0), last])])).is_err());
        }
        assert!(read_ranges(Value::Nil).is_err());
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
