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
    /// How many slots no node serves.
    pub uncovered: u16,
    /// `ok`, or `fail` if it refuses calls; `None` if nobody may ask.
    pub state: Option<String>,
    /// Nodes that the others hold to be down.
    pub failed: Vec<String>,
    /// Slots that were opened for a move, and by whom.
    pub open: Vec<String>,
}

impl Slots {
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
        let members = members.into_keys().map(|Member { host, port }| {
            let shown = own.node(&host, port).place();
            let host = shown.rsplit_once(':').map_or(host, |(host, _)| host.to_owned());
            Member { host, port }
        });
        slots.members = members.collect();
        slots.members.dedup();
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
    let [_, address, flags, _, _, _, _, _, served @ ..] = &words[..] else { return None };
    let address = address.split(['@', ',']).next().unwrap_or_default();
    let (host, port) = address.rsplit_once(':')?;
    let has = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
    if has("noaddr") || has("handshake") {
        return None;
    }
    if has("fail") || has("fail?") {
        slots.failed.push(address.to_owned());
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
