//! A cluster as a node of it sees it: who serves what, and whether anything is missing.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::model::slot::SLOTS;
use crate::read::health::{ask, text};
use crate::redis::cluster::map_reply::{MapNode, NodeLine, SlotRange, read_ranges};
use crate::redis::cluster::server::Server;
use crate::redis::connect::Place;

/// A cluster.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Its nodes.
    pub members: BTreeSet<Place>,
    /// Those that serve slots, and the first slot of each.
    pub first_slots: Vec<(Place, u16)>,
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
    pub(crate) fn of(server: &mut Server) -> Result<Self> {
        let own = server.target.clone();
        let mut slots = Self { uncovered: SLOTS, ..Self::default() };
        let ranges = read_ranges(server.ask(redis::cmd("CLUSTER").arg("SLOTS"))?)?;
        slots.find_members(&ranges, &asked(server, "NODES")?);
        let state = asked(server, "INFO")?;
        let state = state.lines().find_map(|line| line.strip_prefix("cluster_state:"));
        slots.state = state.map(|state| state.trim().to_owned());
        // A node that does not know its own address is the one that was asked.
        let host_of = |host: &str, port: u16| {
            let shown = own.node(host, port).place();
            shown.rsplit_once(':').map_or(host, |(host, _)| host).to_owned()
        };
        let named = |(host, port): Place| (host_of(&host, port), port);
        slots.members = slots.members.into_iter().map(named).collect();
        slots.first_slots = slots.first_slots.into_iter().map(|(primary, slot)| (named(primary), slot)).collect();
        for name in &mut slots.names {
            name.host = host_of(&name.host, name.port);
        }
        Ok(slots)
    }
}

impl Slots {
    /// Finds the nodes, and who serves what. By its id a node is one, whatever it is called.
    fn find_members(&mut self, ranges: &[SlotRange], nodes: &str) {
        let place = |node: &MapNode| (node.host.clone(), node.port);
        let mut known = BTreeMap::new();
        for range in ranges {
            self.uncovered = self.uncovered.saturating_sub(range.last - range.first + 1);
            self.first_slots.push((place(&range.primary), range.first));
            // One without a port is a node whose address this one forgot.
            for node in [&range.primary].into_iter().chain(&range.replicas).filter(|node| node.port > 0) {
                self.members.insert(place(node));
                known.insert(&*node.id, &node.host);
            }
        }
        for line in nodes.lines().filter_map(NodeLine::read) {
            let place = self.add(&line);
            self.members.extend(place.filter(|_| !known.contains_key(line.id)));
        }
        for name in &mut self.names {
            name.host = known.get(&*name.id).copied().unwrap_or(&name.host).clone();
        }
    }

    /// Adds what a line says of a node; gives the node unless nobody can reach it.
    fn add(&mut self, node: &NodeLine<'_>) -> Option<Place> {
        if node.has("handshake") {
            return None;
        }
        let (host, port) = node.address.rsplit_once(':')?;
        let (host, port) = (host.to_owned(), port.parse().ok());
        if node.has("noaddr") || port == Some(0) {
            self.failed.push(format!("{} (no address)", node.id));
            return None;
        }
        if node.has("fail") || node.has("fail?") {
            self.failed.push(node.address.to_owned());
        } else if let Some(port) = port {
            let (id, primary) = (node.id.to_owned(), node.primary.map(str::to_owned));
            self.names.push(NodeName { id, host: host.clone(), port, primary, has_slots: !node.slots.is_empty() });
        }
        let open = node.slots.iter().filter_map(|word| word.strip_prefix('[')?.split_once('-').map(|(slot, _)| slot));
        self.open.extend(open.map(str::to_owned));
        port.map(|port| (host, port))
    }
}

/// Asks for a text. Who may not ask learns nothing.
fn asked(server: &mut Server, what: &str) -> Result<String> {
    Ok(ask(server, "CLUSTER", redis::cmd("CLUSTER").arg(what))?.map_or_else(|_| String::new(), |value| text(&value)))
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
            slots.add(&NodeLine::read(line).unwrap()).unwrap();
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
        let node = slots.add(&NodeLine::read(line).unwrap());
        assert_eq!(node, Some(("127.0.0.1".into(), 30004)));
        let line =
            "6ec2 ::1:30002@31002 myself,master - 0 1426238316232 2 connected 5461-10922 [93->-292f] [77-<-e7d1]";
        assert_eq!(slots.add(&NodeLine::read(line).unwrap()).unwrap().0, "::1");
        assert_eq!((slots.failed, slots.open), (vec!["127.0.0.1:30004".into()], vec!["93".into(), "77".into()]));
    }

    #[test]
    fn a_node_is_one_by_its_id_and_without_an_address_none() {
        let node = |host: &str, port, id: &str| MapNode { host: host.into(), port, id: id.into() };
        let primaries = [node("shop-1", 7000, "a"), node("", 0, "b")];
        let ranges = primaries.map(|primary| SlotRange { first: 0, last: 9, primary, replicas: Vec::new() });
        let mut slots = Slots::default();
        let nodes = "a 10.0.0.1:7000@17000,shop-1 myself,master - 0 0 1 connected 0-9\n\
                     b :0@0 master,noaddr - 0 0 2 disconnected 0-9\n\
                     c 10.0.0.3:7000@17000 slave a 0 0 1 connected";
        slots.find_members(&ranges, nodes);
        let places = [("10.0.0.3", 7000), ("shop-1", 7000)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(slots.members.into_iter().collect::<Vec<_>>(), places);
        assert_eq!((&*slots.names[0].host, slots.failed), ("shop-1", vec!["b (no address)".to_owned()]));
    }
}
