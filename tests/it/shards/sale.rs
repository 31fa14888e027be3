//! A sharded activity for tests, and what is stored of it.

use std::collections::BTreeMap;

use redis::{FromRedisValue, ToRedisArgs};

use super::transfer;
use crate::support::{CLUSTER, Call, Scripts, TestCluster, TestRedis, scripts::shown};

/// Where its keys are.
pub enum Servers {
    One(Box<TestRedis>),
    Cluster(Box<TestCluster>),
}

/// Activity 1001 with its shards.
pub struct Sale {
    pub servers: Servers,
    pub shards: Vec<u32>,
}

impl Sale {
    /// On one server, with these units in the shards 3, 17, 29, and so on; `limit` is that of a user.
    #[track_caller]
    pub fn new(stocks: &[u64], limit: Option<u64>) -> Self {
        const NUMBERS: [u32; 16] = [3, 17, 29, 40, 51, 66, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        Self::make(Servers::One(Box::new(TestRedis::start())), NUMBERS[..stocks.len()].to_vec(), stocks, limit)
    }

    /// On a cluster of three primaries, whose nodes take turns.
    #[track_caller]
    pub fn on(cluster: TestCluster, stocks: &[u64]) -> Self {
        let mut shards = Vec::new();
        for index in 0..stocks.len() {
            let fits =
                |number: &u32| cluster.owner_of(&format!("1001#{number}")) == index % 3 && !shards.contains(number);
            let number = (0..).find(fits).unwrap();
            shards.push(number);
        }
        Self::make(Servers::Cluster(Box::new(cluster)), shards, stocks, None)
    }

    #[track_caller]
    fn make(servers: Servers, shards: Vec<u32>, stocks: &[u64], limit: Option<u64>) -> Self {
        let sale = Self { servers, shards };
        sale.preheat("create", &sale.shards.clone(), stocks, limit);
        sale
    }

    /// Writes these shards, then the parent, as a preheat does.
    #[track_caller]
    pub fn preheat(&self, mode: &str, shards: &[u32], stocks: &[u64], limit: Option<u64>) {
        let limit_text = limit.map(|limit| format!("={limit}")).unwrap_or_default();
        let mut epoch = String::new();
        for (number, stock) in shards.iter().zip(stocks) {
            let keys = CLUSTER.all_keys(&format!("1001#{number}"));
            let args =
                ["hash", "tester", "", mode, "0", &stock.to_string(), &limit_text, "", "", "", ""].map(str::to_owned);
            let mut command = vec!["EVAL".to_owned(), shown("preheat").to_owned(), keys.len().to_string()];
            command.extend(keys.iter().cloned().chain(args));
            let reply: Vec<redis::Value> = self.ask(&keys[0], command);
            assert_eq!(reply[0], redis::Value::Int(1), "{reply:?}");
            let rules: String = self.ask(&keys[1], &["HGET", &keys[1], "rules"][..]);
            epoch = rules.split(' ').nth(2).unwrap().to_owned();
        }
        let total: u64 = stocks.iter().sum();
        let limit = limit.map_or("-".to_owned(), |limit| limit.to_string());
        let meta = CLUSTER.meta("1001");
        let list = shards.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let rules = format!("live 1 {epoch} {limit} {total} - -");
        let _: i64 = self.ask(&meta, &["HSET", &meta, "rules", &rules, "title", "", "shards", &list][..]);
        let _: i64 = self.ask(CLUSTER.index, &["SADD", CLUSTER.index, "1001"][..]);
    }

    /// The only server.
    #[track_caller]
    pub fn redis(&self) -> &TestRedis {
        match &self.servers {
            Servers::One(redis) => redis,
            Servers::Cluster(_) => panic!("a cluster"),
        }
    }

    #[track_caller]
    pub fn cluster(&mut self) -> &mut TestCluster {
        match &mut self.servers {
            Servers::One(_) => panic!("one server"),
            Servers::Cluster(cluster) => cluster,
        }
    }

    /// Sends a command to the node that serves a key.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, key: &str, args: impl ToRedisArgs) -> T {
        match &self.servers {
            Servers::One(redis) => redis.ask(args),
            Servers::Cluster(cluster) => cluster.ask(key, args),
        }
    }

    /// Runs the tool.
    pub fn seckill(&self, line: &str) -> Call {
        let call = match &self.servers {
            Servers::One(redis) => redis.seckill(["-l", "cluster"]),
            Servers::Cluster(cluster) => cluster.seckill(["-l", "cluster"]),
        };
        let call = call.args(line.split(' '));
        if line.contains(" -o ") { call } else { call.args(["-o", "json"]) }
    }

    /// Runs the tool, and gives the status and the exit code.
    #[track_caller]
    pub fn status(&self, line: &str) -> String {
        self.seckill(line).run().json()["status"].as_str().unwrap().to_owned()
    }

    pub fn id(&self, index: usize) -> String {
        format!("1001#{}", self.shards[index])
    }

    /// Users whose home is the shard at `index`.
    fn at_home(&self, index: usize, prefix: &str) -> impl Iterator<Item = String> {
        let home = move |user: &String| crc32fast::hash(user.as_bytes()) as usize % self.shards.len() == index;
        (0..).map(move |n| format!("{prefix}{n}")).filter(home)
    }

    /// The first of them.
    pub fn user(&self, index: usize, prefix: &str) -> String {
        self.at_home(index, prefix).next().unwrap()
    }

    pub fn users(&self, index: usize, count: usize) -> Vec<String> {
        self.at_home(index, "u").take(count).collect()
    }

    /// Units left in each shard.
    #[track_caller]
    pub fn stocks(&self) -> Vec<i64> {
        let stock = |index| CLUSTER.stock(&self.id(index));
        (0..self.shards.len()).map(|index| self.ask(&stock(index), &["GET", &stock(index)][..])).collect()
    }

    /// What each user has, of all shards.
    #[track_caller]
    pub fn bought(&self) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        for index in 0..self.shards.len() {
            let key = CLUSTER.participants(&self.id(index));
            let held: BTreeMap<String, i64> = self.ask(&key, &["HGETALL", &key][..]);
            all.extend(held);
        }
        all
    }

    /// Ids of open transfers of a shard.
    #[track_caller]
    pub fn open(&self, index: usize) -> Vec<String> {
        let key = CLUSTER.requests(&self.id(index));
        let text: Option<String> = self.ask(&key, &["HGET", &key, "\tlent"][..]);
        text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// Units that are in transit: lent, open, and not borrowed.
    #[track_caller]
    pub fn in_transit(&self) -> i64 {
        let mut units = 0;
        for index in 0..self.shards.len() {
            let requests = CLUSTER.requests(&self.id(index));
            let fields: BTreeMap<String, String> = self.ask(&requests, &["HGETALL", &requests][..]);
            for (field, record) in fields {
                let Some(id) = field.strip_prefix("\ttt:") else { continue };
                let mut words = record.split(' ');
                let (lent, home) = (words.next().unwrap().parse::<i64>().unwrap(), words.next().unwrap());
                let requests = CLUSTER.requests(&format!("1001#{home}"));
                let arrived: bool = self.ask(&requests, &["HEXISTS", &requests, &format!("\ttb:{id}")][..]);
                if !arrived {
                    assert!(
                        self.open(index).contains(&id.to_owned()),
                        "the invariant: a transfer in transit is listed"
                    );
                    units += lent;
                }
            }
        }
        units
    }

    /// A client lends all units of the second shard to the first one, and dies.
    #[track_caller]
    pub fn lends_and_dies(&self, units: &str) {
        let (keys, home) = (CLUSTER.keys(&self.id(1)), self.shards[0].to_string());
        let args = ["t", &transfer(7), "1", &home, units, units, ""];
        let reply = Scripts::of(self.redis(), CLUSTER).call("lend", &keys[..4], &args);
        assert_eq!(reply, format!("1 {units} 0"));
    }

    /// Makes open transfers of all shards look ten seconds old.
    #[track_caller]
    pub fn age_transfers(&self) {
        for index in 0..self.shards.len() {
            let requests = CLUSTER.requests(&self.id(index));
            for id in self.open(index) {
                let field = format!("\ttt:{id}");
                let record: String = self.ask(&requests, &["HGET", &requests, &field][..]);
                let (rest, ms) = record.rsplit_once(' ').unwrap();
                let old = format!("{rest} {}", ms.parse::<u64>().unwrap() - 10_000);
                let _: i64 = self.ask(&requests, &["HSET", &requests, &field, &old][..]);
            }
        }
    }

    /// How often units were borrowed.
    #[track_caller]
    pub fn transfers(&self) -> usize {
        let borrows = |index| {
            let ledger = CLUSTER.ledger(&self.id(index));
            let entries: Vec<(String, BTreeMap<String, String>)> =
                self.ask(&ledger, &["XRANGE", &ledger, "-", "+"][..]);
            entries.iter().filter(|(_, entry)| entry["op"] == "borrow").count()
        };
        (0..self.shards.len()).map(borrows).sum()
    }

    /// Every unit is somewhere: in stock, bought, or in transit.
    #[track_caller]
    pub fn check(&self, total: i64) {
        let (stock, bought, transit) =
            (self.stocks().iter().sum::<i64>(), self.bought().values().sum::<i64>(), self.in_transit());
        assert_eq!(stock + bought + transit, total, "{stock} in stock, {bought} bought, {transit} in transit");
        for index in 0..self.shards.len() {
            let meta = CLUSTER.meta(&self.id(index));
            let rules: String = self.ask(&meta, &["HGET", &meta, "rules"][..]);
            let total: i64 = rules.split(' ').nth(4).unwrap().parse().unwrap();
            let participants = CLUSTER.participants(&self.id(index));
            let bought: Vec<i64> = self.ask(&participants, &["HVALS", &participants][..]);
            assert_eq!(total, self.stocks()[index] + bought.iter().sum::<i64>(), "the total of shard {index}");
        }
    }
}
