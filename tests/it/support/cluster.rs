//! A real cluster for one test: three primaries or more, each with a replica if wanted, ready in about two seconds.
//!
//! Nobody introduces the nodes to each other (`CLUSTER MEET` takes long): each starts from a `nodes.conf` that names all.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::{FromRedisValue, ToRedisArgs, Value};

use super::seckill::{Call, seckill};
use super::server::TestRedis;
use super::{in_ten_tries, wait_until};

/// All slots of a cluster.
const SLOTS: u16 = 16384;
/// How far a node's port for other nodes is from its port for clients.
const BUS: u16 = 10_000;
/// A node is taken for dead after this many milliseconds while a failover is wanted, which then takes about three seconds.
const NODE_TIMEOUT: &str = "2000";
/// And while none is wanted: on a busy machine a node can be silent for seconds that only waits for its turn.
const CALM_NODE_TIMEOUT: &str = "20000";
/// The user as whom replicas follow their primaries, so that a test can cut them off.
const FOLLOWER: &str = "follower on >secret +psync +replconf +ping";

/// A cluster that nobody else uses. All its nodes are killed when this value goes.
pub struct TestCluster {
    nodes: Vec<TestRedis>,
    primaries: usize,
}

impl TestCluster {
    /// So many primaries, without replicas.
    #[track_caller]
    pub fn start(primaries: usize) -> Self {
        Self::with(primaries, false, &[])
    }

    /// So many primaries with a replica each: node `primaries + n` follows node `n`.
    #[track_caller]
    pub fn with_replicas(primaries: usize) -> Self {
        Self::with(primaries, true, &[])
    }

    /// The same with more arguments for each node, with its port for each `PORT` in them.
    #[track_caller]
    pub fn with(primaries: usize, replicas: bool, args: &[&str]) -> Self {
        let count = if replicas { 2 * primaries } else { primaries };
        let nodes = in_ten_tries("cluster", || launch(primaries, count, args));
        let cluster = Self { nodes, primaries };
        cluster.wait_until_ok();
        cluster.wait_for_replicas();
        cluster.configure_all("cluster-node-timeout", CALM_NODE_TIMEOUT);
        cluster
    }

    /// What `--url` takes: all primaries.
    pub fn url(&self) -> String {
        let seeds: Vec<String> =
            self.nodes[..self.primaries].iter().map(|node| format!("127.0.0.1:{}", node.port().unwrap())).collect();
        format!("redis://{}", seeds.join(","))
    }

    /// Runs the tool against this cluster, in the layout that fits it.
    pub fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).env("SECKILL_URL", &self.url()).env("SECKILL_LAYOUT", "cluster")
    }

    pub fn node(&self, index: usize) -> &TestRedis {
        &self.nodes[index]
    }

    pub fn node_mut(&mut self, index: usize) -> &mut TestRedis {
        &mut self.nodes[index]
    }

    pub fn nodes(&self) -> &[TestRedis] {
        &self.nodes
    }

    /// Kills a primary as a power cut does. The others notice in time, and its replica, if it has one, takes over.
    #[track_caller]
    pub fn kill_primary(&mut self, node: usize) {
        self.allow_failover_of(node);
        self.nodes[node].kill9();
    }

    /// Stops a primary in its tracks; else as [`Self::kill_primary`].
    #[track_caller]
    pub fn freeze_primary(&self, node: usize) {
        self.allow_failover_of(node);
        self.nodes[node].freeze();
    }

    #[allow(dead_code, reason = "for tests/torture")]
    /// Lets every replica take over from a primary that seems dead, from now on.
    #[track_caller]
    pub fn allow_failovers(&self) {
        self.configure_all("cluster-replica-no-failover", "no");
        self.configure_all("cluster-node-timeout", NODE_TIMEOUT);
    }

    /// Nobody else's replica takes over, though its primary may be silent for a while.
    #[track_caller]
    fn allow_failover_of(&self, node: usize) {
        if let Some(replica) = self.nodes.get(node + self.primaries) {
            let () = replica.ask(("CONFIG", "SET", "cluster-replica-no-failover", "no"));
        }
        self.configure_all("cluster-node-timeout", NODE_TIMEOUT);
    }

    #[track_caller]
    fn configure_all(&self, name: &str, value: &str) {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            let () = node.ask(("CONFIG", "SET", name, value));
        }
    }

    /// The slot of a key or an activity's tag, as the servers compute it.
    #[track_caller]
    pub fn slot(&self, key: &str) -> u16 {
        self.first_alive().ask(("CLUSTER", "KEYSLOT", key))
    }

    /// The slot of an activity in layout `cluster`.
    #[track_caller]
    pub fn slot_of(&self, activity: &str) -> u16 {
        self.slot(&format!("{{{activity}}}"))
    }

    /// Which node serves a slot, as a living node sees it.
    #[track_caller]
    pub fn owner(&self, slot: u16) -> usize {
        let port = owner_in_map(self.first_alive(), slot);
        assert!(port.is_some(), "nobody serves slot {slot}");
        self.nodes.iter().position(|node| node.port() == port).expect("one of ours")
    }

    #[allow(dead_code, reason = "for tests/torture")]
    /// Waits until all nodes say that a node serves a slot.
    #[track_caller]
    pub fn wait_until_agreed(&self, slot: u16, node: usize) {
        let knows = |other: &TestRedis| owner_in_map(other, slot) == self.nodes[node].port();
        wait_until("all nodes know whose slot it is", || self.nodes.iter().all(knows));
    }

    /// The node that serves an activity.
    #[track_caller]
    pub fn owner_of(&self, activity: &str) -> usize {
        self.owner(self.slot_of(activity))
    }

    /// An activity id, beginning with `prefix`, that a node serves.
    #[track_caller]
    pub fn activity_on(&self, node: usize, prefix: &str) -> String {
        (0..).map(|n| format!("{prefix}{n}")).find(|id| self.owner_of(id) == node).expect("one of many")
    }

    /// Sends one command to the node that serves a key.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, key: &str, args: impl ToRedisArgs) -> T {
        self.nodes[self.owner(self.slot(key))].ask(args)
    }

    /// A node's own id.
    #[track_caller]
    pub fn id(&self, node: usize) -> String {
        self.nodes[node].ask(("CLUSTER", "MYID"))
    }

    /// Moves a slot with all its keys to another node, as `redis-cli --cluster reshard` does.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        self.begin_move(slot, to);
        self.move_keys(slot, from, to, usize::MAX);
        self.end_move(slot, from, to);
    }

    /// Whether the servers can move a slot by themselves, from one moment to the next: from Valkey 9.0 on.
    #[track_caller]
    pub fn moves_slots_at_once(&self) -> bool {
        let node = self.first_alive();
        node.is_valkey() && node.version() >= (9, 0, 0)
    }

    /// Lets the servers move a slot at once.
    #[track_caller]
    pub fn move_at_once(&self, slot: u16, to: usize) {
        // As whom the source sends all keys.
        let grant = ["ACL", "SETUSER", "follower", "allkeys", "+@all"];
        self.nodes.iter().filter(|node| node.is_running()).for_each(|node| drop(node.cmd(&grant)));
        let id = self.id(to);
        let () = self.nodes[self.owner(slot)].ask(("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", id));
        wait_until("the slot has moved", || self.owner(slot) == to);
    }

    /// Opens a slot for a move: what is not there any more is asked for (`ASK`) at the other node.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = self.owner(slot);
        let () = self.nodes[to].ask(("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(from)));
        let () = self.nodes[from].ask(("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(to)));
    }

    /// Moves some keys of a slot that was opened, the first ones by name.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, count: usize) {
        let keys: BTreeSet<String> = self.nodes[from].ask(("CLUSTER", "GETKEYSINSLOT", slot, 1_000_000));
        let port = self.nodes[to].port().unwrap();
        for key in keys.iter().take(count) {
            let moved: String = self.nodes[from].ask(("MIGRATE", "127.0.0.1", port, key, 0, 20_000));
            assert!(moved == "OK" || moved == "NOKEY", "{moved}");
        }
    }

    /// Ends a move: the slot is the other node's. The one that takes it hears it first.
    #[track_caller]
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let id = self.id(to);
        for node in [to, from] {
            let () = self.nodes[node].ask(("CLUSTER", "SETSLOT", slot, "NODE", &id));
        }
    }

    /// From now on a primary's replica gets nothing any more, and would lose what comes when it is promoted.
    #[track_caller]
    pub fn cut_replication(&self, primary: usize) {
        let () = self.nodes[primary].ask(("ACL", "SETUSER", "follower", "off"));
        let _: i64 = self.nodes[primary].ask(("CLIENT", "KILL", "TYPE", "replica"));
    }

    /// Lets a replica take its primary's slots at once, asking nobody.
    #[track_caller]
    pub fn take_over(&self, replica: usize) {
        let () = self.nodes[replica].ask(("CLUSTER", "FAILOVER", "TAKEOVER"));
        wait_until("the replica is a primary", || self.role(replica) == "master");
    }

    /// `master` or `slave`.
    #[track_caller]
    pub fn role(&self, node: usize) -> String {
        let role: Vec<Value> = self.nodes[node].ask("ROLE");
        String::from_redis_value_ref(&role[0]).unwrap()
    }

    /// Waits until a node serves all the cluster again after one is gone.
    #[track_caller]
    pub fn wait_until_ok(&self) {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            wait_until("the cluster is up", || {
                let info: String = node.ask(("CLUSTER", "INFO"));
                info.contains("cluster_state:ok") && info.contains(&format!("cluster_slots_ok:{SLOTS}"))
            });
        }
    }

    /// Waits until each replica has all that its primary has.
    #[track_caller]
    fn wait_for_replicas(&self) {
        for replica in &self.nodes[self.primaries..] {
            wait_until("the replica is connected", || {
                replica.ask::<String>(("INFO", "replication")).contains("master_link_status:up")
            });
        }
    }

    #[track_caller]
    fn first_alive(&self) -> &TestRedis {
        self.nodes.iter().find(|node| node.is_running()).expect("a node that runs")
    }
}

/// The port of the node that serves a slot, as a node sees it.
#[track_caller]
fn owner_in_map(node: &TestRedis, slot: u16) -> Option<u16> {
    let ranges: Vec<Vec<Value>> = node.ask(("CLUSTER", "SLOTS"));
    let number = |value: &Value| u16::from_redis_value_ref(value).unwrap();
    let range = ranges.iter().find(|range| (number(&range[0])..=number(&range[1])).contains(&slot))?;
    let Value::Array(owner) = &range[2] else { panic!("no node: {range:?}") };
    Some(number(&owner[1]))
}

/// Starts all nodes on free ports.
fn launch(primaries: usize, count: usize, args: &[&str]) -> Result<Vec<TestRedis>, String> {
    let ports = free_ports(count);
    let mut all = args.to_vec();
    all.extend(["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]);
    all.extend(["--cluster-node-timeout", NODE_TIMEOUT, "--cluster-replica-validity-factor", "0"]);
    all.extend(["--cluster-replica-no-failover", "yes"]);
    all.extend(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    all.push("--user");
    all.extend(FOLLOWER.split(' '));
    all.extend(["--masteruser", "follower", "--masterauth", "secret"]);
    let of_node = |node: usize| {
        let port = ports[node].to_string();
        let args: Vec<&str> = all.iter().map(|arg| if *arg == "PORT" { port.as_str() } else { arg }).collect();
        TestRedis::on_port(ports[node], &args, &nodes_conf(node, primaries, &ports))
    };
    (0..count).map(of_node).collect()
}

/// What a node knows when it starts, in the form in which servers keep it.
fn nodes_conf(own: usize, primaries: usize, ports: &[u16]) -> String {
    let mut text = String::new();
    for (node, port) in ports.iter().enumerate() {
        let myself = if node == own { "myself," } else { "" };
        let address = format!("127.0.0.1:{port}@{}", port + BUS);
        let primary = node % primaries;
        let role = if node < primaries { "master -".to_owned() } else { format!("slave {}", node_id(primary, ports)) };
        // A replica that takes over chooses a new epoch; Redis 6.2 keeps one that is the highest already.
        let epoch = if node < primaries { primary + 1 } else { 0 };
        text += &format!("{} {address} {myself}{role} 0 0 {epoch} connected", node_id(node, ports));
        if node < primaries {
            let first = |index: usize| index * usize::from(SLOTS) / primaries;
            text += &format!(" {}-{}", first(node), first(node + 1) - 1);
        }
        text.push('\n');
    }
    text + &format!("vars currentEpoch {primaries} lastVoteEpoch 0\n")
}

/// Forty hexadecimal digits, another for each cluster of this machine: a port may have been another test's before.
fn node_id(index: usize, ports: &[u16]) -> String {
    format!("{:024x}{:08x}{index:08x}", std::process::id(), ports[0])
}

/// Ports for clients that are free, as are their ports for other nodes. They are below those that clients get.
fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut ports = Vec::new();
    while ports.len() < count {
        let index = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(7919));
        let port = 10_000 + u16::try_from(index % 11_000).expect("below 11000");
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + BUS) {
            ports.push(port);
        }
    }
    ports
}
