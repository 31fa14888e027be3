//! A cluster as a node of it sees it: who serves what, and whether anything is missing.

use std::collections::BTreeMap;

use redis::Value;

use crate::error::StoreError;
use crate::model::slot::SLOTS;
use crate::read::health::{known, text};
use crate::redis::cluster::server::Server;

/// A node of a cluster, as another one names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// A cluster.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Its nodes, by host and port.
    pub members: Vec<Member>,
    /// Those that serve slots, and the first slot of each.
    pub first_slots: Vec<(Member, u16)>,
    /// How many slots no node serves.
    pub uncovered: u16,
    /// `ok`, or `fail` if it refuses calls; `None` if nobody may ask.
    pub state: Option<String>,
    /// Nodes that the others hold to be down.
    pub failed: Vec<String>,
    /// Slots that were opened for a move, and by whom.
    pub open: Vec<String>,
    /// What they are called, if this user may ask.
    pub names: Vec<NodeName>,
}

/// A node of a cluster that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeName {
    pub id: String,
    pub host: String,
    pub port: u16,
    /// The id of its primary, if it is a replica.
    primary: Option<String>,
    has_slots: bool,
}

impl NodeName {
    /// Whether it could be anybody's replica.
    pub(crate) fn is_idle(&self) -> bool {
        self.primary.is_none() && !self.has_slots
    }
}

impl Slots {
    /// The idle node that could be a replica of this primary: each primary without one gets another.
    pub(crate) fn idle_for(&self, primary: &NodeName) -> Option<&NodeName> {
        let has_replica = |node: &NodeName| self.names.iter().any(|other| other.primary.as_ref() == Some(&node.id));
        let alone = self.names.iter().filter(|node| node.has_slots && !has_replica(node));
        let at = alone.into_iter().position(|node| node.id == primary.id)?;
        self.names.iter().filter(|node| node.is_idle()).nth(at)
    }

    /// Asks one node.
    pub(crate) fn of(server: &mut Server) -> Result<Self, StoreError> {
        let own = server.target.clone();
        let mut slots = Self { uncovered: SLOTS, ..Self::default() };
        let mut members = BTreeMap::new();
        let Value::Array(ranges) = server.ask(redis::cmd("CLUSTER").arg("SLOTS"))? else { return Ok(slots) };
        for range in &ranges {
            let Value::Array(parts) = range else { continue };
            if let [Value::Int(first), Value::Int(last), nodes @ ..] = &parts[..] {
                slots.uncovered = slots.uncovered.saturating_sub(u16::try_from(last - first + 1).unwrap_or(SLOTS));
                members.extend(nodes.iter().filter_map(member).map(|member| (member, ())));
                let primary = nodes.first().and_then(member).zip(u16::try_from(*first).ok());
                slots.first_slots.extend(primary);
            }
        }
        if let Ok(Value::Array(nodes)) = lines(server, "NODES", |line| slots_of_node(line, &mut slots))? {
            members.extend(nodes.iter().filter_map(member).map(|member| (member, ())));
        }
        _ = lines(server, "INFO", |line| {
            if let Some(state) = line.strip_prefix("cluster_state:") {
                slots.state = Some(state.trim().to_owned());
            }
            None
        })?;
        // A node that does not know its own address is the one that was asked.
        let host_of = |host: &str, port: u16| {
            let shown = own.node(host, port).place();
            shown.rsplit_once(':').map_or(host, |(host, _)| host).to_owned()
        };
        let named = |member: Member| Member { host: host_of(&member.host, member.port), ..member };
        slots.members = members.into_keys().map(named).collect();
        slots.first_slots = slots.first_slots.into_iter().map(|(primary, slot)| (named(primary), slot)).collect();
        slots.members.dedup();
        for name in &mut slots.names {
            name.host = host_of(&name.host, name.port);
        }
        Ok(slots)
    }
}

/// Asks for a text and reads it line by line. What the lines give comes as one list; who may not ask, learns nothing.
fn lines(
    server: &mut Server,
    what: &str,
    mut read: impl FnMut(&str) -> Option<Value>,
) -> Result<Result<Value, String>, StoreError> {
    server.write(&redis::cmd("CLUSTER").arg(what).get_packed_command())?;
    let reply = server.read()?;
    let reply = known(server, "CLUSTER", reply)?;
    Ok(reply.map(|value| Value::Array(text(&value).lines().filter_map(&mut read).collect())))
}

/// Reads `[host, port, …]`.
fn member(node: &Value) -> Option<Member> {
    let Value::Array(parts) = node else { return None };
    let host = parts.first().map(text).filter(|host| host != "?").unwrap_or_default();
    let port = text(parts.get(1)?).parse().ok()?;
    Some(Member { host, port })
}

/// Reads a line of CLUSTER NODES: `id ip:port@bus flags primary ping pong epoch link slot…`.
fn slots_of_node(line: &str, slots: &mut Slots) -> Option<Value> {
    let words: Vec<&str> = line.split(' ').collect();
    let [id, address, flags, primary, _, _, _, _, served @ ..] = &words[..] else { return None };
    let address = address.split(['@', ',']).next().unwrap_or_default();
    let (host, port) = address.rsplit_once(':')?;
    let has = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
    if has("noaddr") || has("handshake") {
        return None;
    }
    if has("fail") || has("fail?") {
        slots.failed.push(address.to_owned());
    } else if let Ok(port) = port.parse() {
        let primary = (*primary != "-").then(|| (*primary).to_owned());
        let (id, host, has_slots) = ((*id).to_owned(), host.to_owned(), !served.is_empty());
        slots.names.push(NodeName { id, host, port, primary, has_slots });
    }
    // `[93-<-id]`, `[93->-id]`: only of the node that was asked.
    let open = served.iter().filter_map(|word| word.strip_prefix('[')?.split_once('-').map(|(slot, _)| slot));
    slots.open.extend(open.map(str::to_owned));
    Some(Value::Array(vec![Value::BulkString(host.into()), Value::BulkString(port.into())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_primary_without_a_replica_gets_an_idle_node_of_its_own() {
        let mut slots = Slots::default();
        for line in [
            "a1 10.0.0.1:6379@16379 myself,master - 0 1 1 connected 0-99",
            "a2 10.0.0.2:6379@16379 master - 0 1 2 connected 100-199",
            "b2 10.0.0.5:6379@16379 slave a2 0 1 2 connected",
            "a3 10.0.0.3:6379@16379 master - 0 1 3 connected 200-299",
            "c1 10.0.0.6:6379@16379 master - 0 1 4 connected",
            "c2 10.0.0.7:6379@16379 master,fail - 0 1 5 connected",
        ] {
            slots_of_node(line, &mut slots).unwrap();
        }
        let node = |id: &str| slots.names.iter().find(|node| node.id == id).unwrap();
        let idle_for = |id: &str| slots.idle_for(node(id)).map(|node| &*node.id);
        assert_eq!(["a1", "a2", "a3", "b2", "c1"].map(idle_for), [Some("c1"), None, None, None, None]);
        assert_eq!(["a1", "b2", "c1"].map(|id| node(id).is_idle()), [false, false, true]);
    }

    #[test]
    fn a_line_of_cluster_nodes_names_who_is_down_and_what_is_open() {
        let mut slots = Slots::default();
        let line = "07c3 127.0.0.1:30004@31004,host slave,fail e7d1 0 1426238317239 4 connected";
        let node = slots_of_node(line, &mut slots).unwrap();
        assert_eq!(member(&node), Some(Member { host: "127.0.0.1".into(), port: 30004 }));
        let line =
            "6ec2 ::1:30002@31002 myself,master - 0 1426238316232 2 connected 5461-10922 [93->-292f] [77-<-e7d1]";
        assert_eq!(member(&slots_of_node(line, &mut slots).unwrap()).unwrap().host, "::1");
        assert_eq!((slots.failed, slots.open), (vec!["127.0.0.1:30004".into()], vec!["93".into(), "77".into()]));
        let mut none = Slots::default();
        assert!(slots_of_node("x :0@0 master,noaddr - 1 1 1 disconnected", &mut none).is_none());
    }
}
