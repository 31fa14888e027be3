//! What a round sells on, and how its actors reach that: one server, or a cluster of primaries with a replica each.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::faults;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::support::{Call, Proxy, TestCluster, TestRedis, seckill};

/// One server, or a cluster.
pub enum Servers {
    One(TestRedis),
    Cluster(TestCluster),
}

/// They write whatever they do to a file before they reply, and never write it anew by themselves.
const WRITES: [&str; 8] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--auto-aof-rewrite-percentage",
    "0",
    "--aof-use-rdb-preamble",
    "no",
];

impl Servers {
    pub fn start(schedule: &Schedule) -> Self {
        if schedule.nodes == 0 {
            return Self::One(TestRedis::with(WRITES));
        }
        let more = [&WRITES[..], &["--repl-backlog-size", "64mb"]].concat();
        let cluster = TestCluster::with(schedule.nodes / 2, true, &more);
        cluster.allow_failovers();
        Self::Cluster(cluster)
    }

    /// Runs the tool against them, over a network without faults.
    pub fn seckill(&self) -> Call {
        match self {
            Self::One(redis) => redis.seckill([]),
            Self::Cluster(cluster) => cluster.seckill([]),
        }
    }

    /// Who has a key.
    pub fn of(&self, key: &str) -> &TestRedis {
        match self {
            Self::One(redis) => redis,
            Self::Cluster(cluster) => cluster.node(cluster.owner(cluster.slot(key))),
        }
    }

    /// A network between them and an actor.
    pub fn network(&self, seeds: usize) -> Network {
        match self {
            Self::One(redis) => Network { proxies: vec![Proxy::before(redis)], seeds: 1 },
            Self::Cluster(cluster) => Network { proxies: Proxy::before_all(cluster), seeds },
        }
    }

    pub fn log(&self) -> String {
        match self {
            Self::One(redis) => redis.log(),
            Self::Cluster(cluster) => cluster.nodes().iter().map(TestRedis::log).collect::<Vec<_>>().join("\n==\n"),
        }
    }
}

/// The append-only file that a server writes to: in a directory of its own since Redis 7.0.
pub fn writes_of(redis: &TestRedis) -> PathBuf {
    let socket = redis.socket();
    let dir = socket.parent().unwrap();
    let old = dir.join("appendonly.aof");
    if old.is_file() {
        return old;
    }
    let files = fs::read_dir(dir.join("appendonlydir")).expect("an append-only file");
    let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    files.max().expect("an append-only file")
}

/// A network that breaks, of one actor: a proxy before each server.
pub struct Network {
    proxies: Vec<Proxy>,
    /// How many of the primaries the actor knows.
    seeds: usize,
}

impl Network {
    pub fn seckill(&self) -> Call {
        let urls = self.proxies.iter().take(self.seeds).map(Proxy::url);
        let urls: Vec<String> =
            urls.enumerate().map(|(index, url)| if index > 0 { url.replace("redis://", "") } else { url }).collect();
        seckill([]).env("SECKILL_URL", &urls.join(","))
    }

    /// See [`faults::arm`].
    pub fn arm(&self, mut rng: Rng, percent: usize, resends: bool) {
        let is_cluster = self.proxies.len() > 1;
        for proxy in &self.proxies {
            let rng = if is_cluster { rng.fork() } else { rng.clone() };
            faults::arm(proxy, rng, (percent, is_cluster), resends);
        }
    }

    pub fn deliver_rest(&self) {
        self.proxies.iter().for_each(Proxy::deliver_rest);
    }

    /// How many commands went over it.
    pub fn commands(&self) -> usize {
        self.proxies.iter().map(|proxy| proxy.commands().len()).sum()
    }

    /// Waits until so many commands went over it, but no longer than that.
    pub fn try_wait_for_commands(&self, count: usize, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while self.commands() < count && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
