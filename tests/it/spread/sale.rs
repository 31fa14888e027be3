//! A sale over three nodes, and a client of it that may die between two steps.

use serde_json::Value;

use crate::support::scripts::shown;
use crate::support::{CLUSTER, Call, TestCluster};

/// A cluster of three nodes with an activity of 5 units on each, the one with the smallest stock key first.
pub struct Sale {
    pub cluster: TestCluster,
    pub ids: Vec<String>,
}

impl Sale {
    pub fn start(replicas: bool) -> Self {
        let cluster = if replicas { TestCluster::with_replicas(3) } else { TestCluster::start(3) };
        Self { cluster, ids: Vec::new() }.another("10")
    }

    /// The same with other activities, whose ids begin so: a cluster takes long to start.
    pub fn another(self, prefix: &str) -> Self {
        let Self { cluster, .. } = self;
        let mut ids: Vec<String> = (0..3).map(|node| cluster.activity_on(node, prefix)).collect();
        ids.sort_by_key(|id| CLUSTER.stock(id));
        for id in &ids {
            cluster.seckill(["preheat", "--stock", "5", "--per-user-limit", "3", "--id", id]).code(0);
        }
        Self { cluster, ids }
    }

    /// A command with the three activities behind it.
    pub fn of_all(&self, line: &str) -> Call {
        self.cluster.seckill([]).args(line.split(' ')).args(&self.ids)
    }

    /// Items of each activity, with these quantities.
    pub fn items(&self, quantities: [u32; 3]) -> [String; 3] {
        std::array::from_fn(|index| format!("{}={}", self.ids[index], quantities[index]))
    }

    pub fn stocks(&self) -> Vec<i64> {
        self.ids.iter().map(|id| self.cluster.ask(&CLUSTER.stock(id), ("GET", CLUSTER.stock(id)))).collect()
    }

    /// Calls a script as a client does, for the item of an activity of order `r`.
    fn call(&self, script: &'static str, index: usize, args: &[&str]) -> i64 {
        let keys = CLUSTER.all_keys(&self.ids[index]);
        let mut command = vec!["EVAL".to_owned(), shown(script).to_owned(), keys.len().to_string()];
        command.extend(keys.iter().cloned().chain(args.iter().map(|text| (*text).to_owned())));
        let reply: Vec<redis::Value> = self.cluster.ask(&keys[0], command);
        redis::FromRedisValue::from_redis_value(reply[0].clone()).unwrap()
    }

    fn order(&self) -> String {
        format!("m:{}", CLUSTER.stock(&self.ids[0]))
    }

    /// Holds an item of the order of user 7 for one unit each, as a client that dies afterwards.
    pub fn hold(&self, index: usize, ms: &str) -> i64 {
        let mut asked: Vec<String> = self.ids.iter().map(|id| format!("{} 1", CLUSTER.stock(id))).collect();
        asked.sort();
        let sha1: String = self.cluster.node(0).ask(("EVAL", "return redis.sha1hex(ARGV[1])", 0, asked.join("\n")));
        let others = [1, 2].map(|index| CLUSTER.stock(&self.ids[index])).join(" ");
        let (digest, items) = (format!("multi_deduct {sha1}"), if index == 0 { others } else { String::new() });
        self.call("hold", index, &["hash", "dead", "7", "1", "r", "first", "", ms, &self.order(), &digest, &items])
    }

    pub fn confirm(&self, index: usize) -> i64 {
        self.settle(index, "confirm")
    }

    pub fn settle(&self, index: usize, step: &str) -> i64 {
        self.call("settle", index, &["hash", "dead", "r", step, &self.order()])
    }

    pub fn again(&self) -> (i32, Value) {
        let [a, b, c] = self.items([1, 1, 1]);
        let run =
            self.cluster.seckill(["multi-deduct", &a, &b, &c, "--user", "7", "--request", "r", "-o", "json"]).run();
        (run.status.code().unwrap(), run.json())
    }
}
