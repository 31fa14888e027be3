//! A cluster against one server: an order with the right first guess and with one `MOVED`; a file over 1, 3 and 6 nodes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::FromRedisValue;
use tempfile::TempDir;

use super::file::orders;
use super::input::{rows, scattered};
use super::server::{Server, timed};
use super::table::{Figure, pairs, print, print_values};

/// Processes of a run.
const CALLS: usize = 100;
const SLOTS: usize = 16_384;
/// Activities in each sixth of the slots, so that 1, 3 and 6 nodes get as many each.
const EACH: usize = 16;

/// Measures on servers of its own, of the same binary.
pub fn run(server: &Server) {
    let directory = TempDir::new().unwrap();
    one(server.binary());
    file(server.binary(), directory.path());
}

/// Nodes of a cluster, or one server that is none, on ports of 127.0.0.1.
struct Nodes {
    ports: Vec<u16>,
    processes: Vec<Child>,
    _directory: TempDir,
}

impl Nodes {
    /// Starts so many nodes that know each other from the beginning; with `count` 0 one server that is no cluster.
    fn start(binary: &Path, count: usize) -> Self {
        let directory = tempfile::Builder::new().prefix("speed.").tempdir_in("/tmp").unwrap();
        let ports = free_ports(count.max(1));
        let mut nodes = Self { ports, processes: Vec::new(), _directory: directory };
        for (index, port) in nodes.ports.clone().into_iter().enumerate() {
            let own: PathBuf = nodes._directory.path().join(index.to_string());
            std::fs::create_dir(&own).unwrap();
            std::fs::write(own.join("nodes.conf"), nodes_conf(index, &nodes.ports)).unwrap();
            let mut command = Command::new(binary);
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
            if count > 0 {
                command.args(["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]);
            }
            let process = command.current_dir(own).stdout(Stdio::null()).spawn().unwrap();
            nodes.processes.push(process);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        for index in 0..nodes.ports.len() {
            while !nodes.is_ready(index, count > 0) {
                assert!(Instant::now() < deadline, "the node does not answer");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        nodes
    }

    fn is_ready(&self, index: usize, is_cluster: bool) -> bool {
        match is_cluster {
            true => self.try_ask::<String>(index, &["CLUSTER", "INFO"]).is_ok_and(|info| info.contains("state:ok")),
            false => self.try_ask::<String>(index, &["PING"]).is_ok(),
        }
    }

    fn try_ask<T: FromRedisValue>(&self, index: usize, command: &[&str]) -> redis::RedisResult<T> {
        let url = format!("redis://127.0.0.1:{}", self.ports[index]);
        let mut connection = redis::Client::open(url)?.get_connection()?;
        redis::cmd(command[0]).arg(&command[1..]).query(&mut connection)
    }

    fn ask<T: FromRedisValue>(&self, index: usize, command: &[&str]) -> T {
        self.try_ask(index, command).unwrap()
    }

    /// The tool, with these nodes as seeds in this order.
    fn seckill(&self, order: &[usize], arguments: &[&str]) -> Command {
        let seeds: Vec<String> = order.iter().map(|index| format!("127.0.0.1:{}", self.ports[*index])).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill"));
        command.env_clear().args(["-q", "--layout", "cluster", "--url"]).arg(format!("redis://{}", seeds.join(",")));
        command.args(arguments);
        command
    }

    fn all(&self) -> Vec<usize> {
        (0..self.ports.len()).collect()
    }

    fn empty(&self) {
        self.all().into_iter().for_each(|index| {
            self.ask::<()>(index, &["FLUSHALL", "SYNC"]);
            self.ask::<()>(index, &["CONFIG", "RESETSTAT"]);
        });
    }

    /// Seconds of processor time of all main threads.
    fn busy(&self) -> f64 {
        let of_node = |index: usize| -> f64 {
            let info: String = self.ask(index, &["INFO", "cpu"]);
            let fields = ["used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"].into_iter();
            let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            fields.filter_map(value).sum()
        };
        self.all().into_iter().map(of_node).sum()
    }

    /// Calls of scripts at each node since it was emptied.
    fn calls(&self) -> Vec<f64> {
        let of_node = |index: usize| {
            let stats: String = self.ask(index, &["INFO", "commandstats"]);
            let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
            calls.and_then(|calls| calls.parse::<f64>().ok()).unwrap_or(0.0)
        };
        self.all().into_iter().map(of_node).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What a node knows when it starts.
fn nodes_conf(own: usize, ports: &[u16]) -> String {
    let mut text = String::new();
    for (index, port) in ports.iter().enumerate() {
        let (first, end) = (index * SLOTS / ports.len(), (index + 1) * SLOTS / ports.len());
        let myself = if index == own { "myself," } else { "" };
        let id = format!("{:032x}{index:08x}", ports[0]);
        let address = format!("127.0.0.1:{port}@{}", port + 10_000);
        text += &format!("{id} {address} {myself}master - 0 0 {} connected {first}-{}\n", index + 1, end - 1);
    }
    text + &format!("vars currentEpoch {} lastVoteEpoch 0\n", ports.len())
}

fn free_ports(count: usize) -> Vec<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let start = 10_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    (start..30_000).filter(|port| free(*port) && free(port + 10_000)).take(count).collect()
}

/// One order a process: over a cluster of three nodes against one server, both by TCP.
fn one(binary: &Path) {
    let (single, cluster) = (Nodes::start(binary, 0), Nodes::start(binary, 3));
    for nodes in [&single, &cluster] {
        timed(nodes.seckill(&nodes.all(), &["preheat", "--id", "1001", "--stock", "100000000"]));
        timed(nodes.seckill(&nodes.all(), &["script", "load"]));
    }
    let micros = |nodes: &Nodes, order: &[usize]| {
        let call = || timed(nodes.seckill(order, &["deduct", "1001", "--user", "7"]));
        (0..CALLS).map(|_| call()).sum::<f64>() / CALLS as f64 * 1e6
    };
    let slot: usize = cluster.ask(0, &["CLUSTER", "KEYSLOT", "1001"]);
    let owner = slot * 3 / SLOTS;
    // The guess is the seed at the slot's place.
    let right = [0, 1, 2];
    let mut wrong = right;
    wrong.swap(owner, (owner + 1) % 3);
    for (what, wanted, order) in
        [("cluster: one deduct, right first guess", "1.2", right), ("cluster: one deduct, one MOVED", "2.0", wrong)]
    {
        let measured = pairs(|| micros(&cluster, &order), || micros(&single, &[0]));
        print(&Figure { what, wanted }, &measured, |micros| format!("{micros:.0} us"));
    }
}

/// A file over three and six nodes against one, each a cluster.
fn file(binary: &Path, directory: &Path) {
    let one = Nodes::start(binary, 1);
    let activities = balanced(&one);
    let list = rows(directory, "activities.csv", "id,stock", activities.len(), |index| {
        format!("{},100000000", activities[index])
    });
    let row =
        |index: usize| format!("{},{},1", activities[scattered(index) as usize % activities.len()], 100_000 + index);
    let file = rows(directory, "cluster.csv", "activity,user,quantity", orders(), row);
    // Microseconds of the servers and of the client for each order, and how uneven the calls were.
    let apply = |nodes: &Nodes| {
        nodes.empty();
        timed(nodes.seckill(&nodes.all(), &["preheat", "--yes", "--from", &list]));
        timed(nodes.seckill(&nodes.all(), &["script", "load"]));
        nodes.all().into_iter().for_each(|index| nodes.ask::<()>(index, &["CONFIG", "RESETSTAT"]));
        let (servers, client) = (nodes.busy(), children());
        timed(nodes.seckill(&nodes.all(), &["deduct", "--from", &file]));
        let each = 1e6 / orders() as f64;
        let calls = nodes.calls();
        let mean = calls.iter().sum::<f64>() / calls.len() as f64;
        let most = calls.iter().copied().fold(0.0, f64::max) / mean;
        ((nodes.busy() - servers) * each, (children() - client) * each, most)
    };
    for (count, what, even, client) in [
        (
            3,
            "cluster: a file over 3 nodes, the servers' time",
            "  busiest of 3 nodes, its share of calls",
            "  client, 3 nodes",
        ),
        (
            6,
            "cluster: a file over 6 nodes, the servers' time",
            "  busiest of 6 nodes, its share of calls",
            "  client, 6 nodes",
        ),
    ] {
        let nodes = Nodes::start(binary, count);
        let (mut clients, mut evens) = (Vec::new(), Vec::new());
        let measured = pairs(
            || {
                let (servers, client, even) = apply(&nodes);
                clients.push(client);
                evens.push(even);
                servers
            },
            || apply(&one).0,
        );
        print(&Figure { what, wanted: "1.25" }, &measured, |micros| format!("{micros:.2} us"));
        print_values(&Figure { what: even, wanted: "1.10" }, &evens, &[], |share| format!("{share:.2}"));
        print_values(&Figure { what: client, wanted: "1 us" }, &clients, &[], |micros| format!("{micros:.2} us"));
    }
}

/// As many activities in each sixth of the slots.
fn balanced(nodes: &Nodes) -> Vec<usize> {
    let mut of_sixth = [0; 6];
    let mut chosen = Vec::new();
    for id in 1_000.. {
        let slot: usize = nodes.ask(0, &["CLUSTER", "KEYSLOT", &id.to_string()]);
        let count = &mut of_sixth[slot * 6 / SLOTS];
        if *count < EACH {
            *count += 1;
            chosen.push(id);
        }
        if chosen.len() == 6 * EACH {
            break;
        }
    }
    chosen
}

/// Seconds of processor time of all processes that were waited for.
fn children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks: Vec<f64> = after_name.split_whitespace().skip(13).take(2).map(|text| text.parse().unwrap()).collect();
    // A tick is 10 ms on every Linux.
    ticks.iter().sum::<f64>() / 100.0
}
