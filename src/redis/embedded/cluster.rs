//! A private cluster: what its nodes read when they start, so that nobody has to introduce them to each other.
//!
//! A cluster's nodes can only be reached by ports, which any user of this machine can connect to: so they have a
//! password.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use redis::ConnectionAddr;
use uuid::Uuid;

use crate::error::cause;
use crate::model::slot;
use crate::redis::connect::Target;
use crate::redis::embedded::{self, END, EmbeddedError, SETTINGS};

/// Says in a directory how many nodes it has; written last.
const SIZE: &str = "cluster";
/// What a node knows of the others, in the servers' own form.
const NODES: &str = "nodes.conf";
/// How far a node's port for other nodes is from its port for clients: Redis 6.2 has no setting for it.
const BUS: u16 = 10_000;
/// Ports for clients are searched here: with their ports for other nodes below those that clients get.
const PORTS: std::ops::Range<u16> = 10_000..21_000;

/// What is to be started.
pub(super) struct Cluster {
    /// A folder a node.
    pub folders: Vec<PathBuf>,
    ports: Vec<u16>,
    /// Of all nodes.
    password: String,
}

impl Cluster {
    /// The number of nodes in a directory, if there is a cluster.
    pub(super) fn size(directory: &Path) -> Option<usize> {
        fs::read_to_string(directory.join(SIZE)).ok()?.trim().parse().ok()
    }

    /// The folders of the nodes in a directory, if there is a cluster.
    pub(super) fn folders(directory: &Path) -> Vec<PathBuf> {
        (1..=Self::size(directory).unwrap_or(0)).map(|node| directory.join(format!("node-{node}"))).collect()
    }

    /// Writes what so many nodes need, or takes what is there up again, with ports that are free now.
    pub(super) fn prepare(directory: &Path, nodes: usize) -> Result<Self, EmbeddedError> {
        let cannot =
            |error: std::io::Error| EmbeddedError::Directory { path: directory.to_owned(), why: cause(&error) };
        let ports = free_ports(nodes).map_err(cannot)?;
        let is_new = Self::size(directory).is_none();
        let folders: Vec<PathBuf> = (1..=nodes).map(|node| directory.join(format!("node-{node}"))).collect();
        if is_new {
            let password = Uuid::now_v7().simple().to_string();
            let name = Uuid::now_v7().simple().to_string();
            for (node, folder) in folders.iter().enumerate() {
                fs::create_dir_all(folder).map_err(cannot)?;
                let settings = format!("requirepass {password}\nmasterauth {password}\n");
                fs::write(folder.join(SETTINGS), settings).map_err(cannot)?;
                fs::write(folder.join(NODES), known_nodes(&name, node, &ports)).map_err(cannot)?;
            }
            let mut size = File::create(directory.join(SIZE)).map_err(cannot)?;
            writeln!(size, "{nodes}").map_err(cannot)?;
        } else {
            for folder in &folders {
                let known = fs::read_to_string(folder.join(NODES)).map_err(cannot)?;
                // At once: half of it would be the end of the cluster.
                let new = folder.join("nodes.conf.new");
                fs::write(&new, with_ports(&known, &ports)).map_err(cannot)?;
                fs::rename(&new, folder.join(NODES)).map_err(cannot)?;
            }
        }
        let password = embedded::password(&folders[0]).ok_or_else(|| cannot(std::io::ErrorKind::InvalidData.into()))?;
        Ok(Self { folders, ports, password })
    }

    /// The arguments of a node.
    pub(super) fn arguments(&self, node: usize) -> Vec<String> {
        let port = self.ports[node].to_string();
        let arguments = [SETTINGS, "--port", &port, "--bind", "127.0.0.1", "--cluster-enabled", "yes"];
        arguments.into_iter().chain(["--cluster-config-file", NODES]).map(str::to_owned).collect()
    }

    /// How to reach all nodes. Nobody else on this machine knows the password.
    pub(super) fn target(&self) -> Target {
        let hosts = self.ports.iter().map(|port| ConnectionAddr::Tcp("127.0.0.1".to_owned(), *port));
        let mut target = Target::of_hosts(hosts.collect(), END);
        target.set_password(self.password.clone());
        target
    }
}

/// Whether a node sees that all slots are served: about two seconds after the start.
pub(super) fn is_up(folder: &Path) -> bool {
    embedded::request(folder, redis::cmd("CLUSTER").arg("INFO")).is_some_and(|info| {
        info.contains("cluster_state:ok") && info.contains(&format!("cluster_slots_ok:{}", slot::SLOTS))
    })
}

/// What a node knows when it starts for the first time: all nodes, and an even share of the slots for each.
fn known_nodes(name: &str, own: usize, ports: &[u16]) -> String {
    let first = |node: usize| node * usize::from(slot::SLOTS) / ports.len();
    let lines = ports.iter().enumerate().map(|(node, port)| {
        let myself = if node == own { "myself," } else { "" };
        let (address, epoch) = (address(*port), node + 1);
        let slots = format!("{}-{}", first(node), first(node + 1) - 1);
        format!("{name}{node:08x} {address} {myself}master - 0 0 {epoch} connected {slots}\n")
    });
    lines.collect::<String>() + &format!("vars currentEpoch {} lastVoteEpoch 0\n", ports.len())
}

/// What a node knew, with the ports of now. The last digits of a node's id are its number.
fn with_ports(known: &str, ports: &[u16]) -> String {
    let lines = known.lines().map(|line| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let node = words[0].get(32..).and_then(|digits| usize::from_str_radix(digits, 16).ok());
        if let (Some(port), true) = (node.and_then(|node| ports.get(node)), words.len() > 2) {
            // Behind the first comma are a host name and more, which are not of now.
            words[1] = address(*port);
        }
        words.join(" ") + "\n"
    });
    lines.collect()
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}@{}", port + BUS)
}

/// Ports that nobody has now, as nobody has their ports for other nodes.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let start = (now / 1000 + std::process::id()) % u32::from(PORTS.end - PORTS.start);
    let is_free = |port: &u16| [*port, port + BUS].iter().all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let from = PORTS.start + u16::try_from(start).unwrap_or(0);
    let ports: Vec<u16> = (from..PORTS.end).chain(PORTS.start..from).filter(is_free).take(count).collect();
    if ports.len() < count { Err(std::io::ErrorKind::AddrInUse.into()) } else { Ok(ports) }
}

#[cfg(test)]
mod tests {
    use super::{known_nodes, with_ports};

    #[test]
    fn a_cluster_that_starts_again_has_the_ports_of_now_and_the_slots_of_before() {
        let before = known_nodes(&"a".repeat(32), 1, &[10_001, 10_002]);
        assert_eq!(
            before,
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000000 127.0.0.1:10001@20001 master - 0 0 1 connected 0-8191\n\
             aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa00000001 127.0.0.1:10002@20002 myself,master - 0 0 2 connected 8192-16383\n\
             vars currentEpoch 2 lastVoteEpoch 0\n"
        );
        let moved = before
            .replace("0-8191", "1-8191")
            .replace("8192-16383", "0 8192-16383")
            .replace("@20001", "@20001,host,tls-port=0");
        let after = with_ports(&moved, &[15_000, 15_001]);
        let expected =
            moved.replace("10001@20001,host,tls-port=0", "15000@25000").replace("10002@20002", "15001@25001");
        assert_eq!(after, expected);
    }
}
