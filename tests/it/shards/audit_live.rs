//! Audits of a sharded sale on a real cluster while several clients sell, give back and borrow: each is exact.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use redis::{Connection, Value};

use crate::support::scripts::{line, shown};
use crate::support::{CLUSTER, TestCluster, wait_until};

/// Shards of the activity 1001, one a node, and the nodes that serve them.
struct Sale<'a> {
    cluster: &'a TestCluster,
    numbers: Vec<u32>,
}

impl<'a> Sale<'a> {
    /// So many units in each of three shards.
    fn start(cluster: &'a TestCluster, units: u64) -> Self {
        let on = |node: usize| (0..).find(|number| cluster.owner_of(&format!("1001#{number}")) == node).unwrap();
        let sale = Self { cluster, numbers: (0..3).map(on).collect() };
        let mut client = Client::new(&sale);
        for shard in 0..3 {
            let total = units.to_string();
            let args = ["hash", "tester", "", "create", "0", &total, "", "", "", "", ""];
            let reply = client.eval("preheat", shard, &CLUSTER.all_keys(&sale.name(shard)), &args);
            assert!(reply.starts_with("1 create"), "{reply}");
        }
        let rules: String = cluster.ask(&CLUSTER.meta(&sale.name(0)), ("HGET", CLUSTER.meta(&sale.name(0)), "rules"));
        let mut words: Vec<String> = rules.split(' ').map(str::to_owned).collect();
        words[4] = (3 * units).to_string();
        let list = sale.numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let meta = CLUSTER.meta("1001");
        let () = cluster.ask(&meta, ("HSET", &meta, "rules", words.join(" "), "shards", list));
        let index = "seckill:cluster:activities";
        let () = cluster.ask(index, ("SADD", index, "1001"));
        sale
    }

    fn name(&self, shard: usize) -> String {
        format!("1001#{}", self.numbers[shard])
    }
}

/// A backend: a connection to each node.
struct Client<'a> {
    sale: &'a Sale<'a>,
    nodes: Vec<Connection>,
}

impl<'a> Client<'a> {
    fn new(sale: &'a Sale<'a>) -> Self {
        Self { sale, nodes: (0..3).map(|node| sale.cluster.node(node).connection()).collect() }
    }

    fn eval(&mut self, script: &'static str, shard: usize, keys: &[String], args: &[&str]) -> String {
        let mut call = redis::cmd("EVAL");
        call.arg(shown(script)).arg(keys.len()).arg(keys).arg(args);
        let reply: Value = call.query(&mut self.nodes[shard]).unwrap();
        line(&reply)
    }

    fn order(&mut self, script: &'static str, shard: usize, user: &str, quantity: &str) -> String {
        let keys = CLUSTER.keys(&self.sale.name(shard));
        self.eval(script, shard, &keys, &["hash", "tester", user, quantity, ""])
    }

    /// Lends and, if `ends`, borrows.
    fn transfer(&mut self, id: &str, donor: usize, home: usize, ends: bool) {
        let [from, to] = [donor, home].map(|shard| self.sale.numbers[shard].to_string());
        let keys = |client: &Self, shard| CLUSTER.keys(&client.sale.name(shard))[..4].to_vec();
        let lent = self.eval("lend", donor, &keys(self, donor), &["tester", id, "1", &to, "1", "1000000000", ""]);
        let mut words = lent.split(' ');
        if ["1", "2"].contains(&words.next().unwrap()) && ends {
            let units = words.next().unwrap();
            let reply = self.eval("borrow", home, &keys(self, home), &["tester", id, "1", &from, units]);
            assert!(reply.starts_with("1 ") || reply.starts_with("2 "), "{reply}");
        }
    }

    /// Sells, gives back and borrows until it should stop, and leaves nothing open.
    fn sell(&mut self, position: u64, stop: &AtomicBool, calls: &AtomicU64, transfers: &AtomicU64) {
        let mut dice = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(position + 1);
        let mut open: Option<(String, usize, usize)> = None;
        while !stop.load(Ordering::Relaxed) {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let user = format!("user-{}", (dice >> 20) % 90);
            let home = crc32fast::hash(user.as_bytes()) as usize % 3;
            let script = if dice.is_multiple_of(3) { "refund" } else { "deduct" };
            let reply = self.order(script, home, &user, if dice.is_multiple_of(2) { "1" } else { "2" });
            if let Some((id, donor, home)) = open.take() {
                self.transfer(&id, donor, home, true);
            }
            if reply.starts_with("-3 ") {
                let donor = (home + 1 + usize::from(dice & 64 > 0)) % 3;
                let id = format!("{position:08x}{:032x}", transfers.fetch_add(1, Ordering::Relaxed));
                // Every other one is in transit for a while.
                let ends = dice & 128 > 0;
                self.transfer(&id, donor, home, ends);
                open = (!ends).then_some((id, donor, home));
            }
            calls.fetch_add(1, Ordering::Relaxed);
        }
        if let Some((id, donor, home)) = open {
            self.transfer(&id, donor, home, true);
        }
    }
}

#[test]
fn audits_are_exact_at_any_instant_of_a_sharded_sale() {
    let cluster = TestCluster::start(3);
    let sale = Sale::start(&cluster, 20);
    let audit = |is_over: bool| {
        let audit = cluster.seckill(["reconcile", "1001", "-o", "json"]).code(0).json();
        let row = &audit["activities"][0];
        let units = |field: &str| row[field].as_i64().unwrap_or_else(|| panic!("{field}: {audit}"));
        assert_eq!(row["verdict"], "match", "{audit}");
        assert_eq!(units("total"), 60, "{audit}");
        assert_eq!(units("stock") + units("bought") + units("in_transit"), 60, "{audit}");
        assert_eq!(units("stock_drift"), 0, "{audit}");
        assert!(!is_over || units("in_transit") == 0, "{audit}");
    };
    let (stop, calls, transfers) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for position in 0..3 {
            let (sale, stop, calls, transfers) = (&sale, &stop, &calls, &transfers);
            scope.spawn(move || Client::new(sale).sell(position, stop, calls, transfers));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until("they borrow", || transfers.load(Ordering::Relaxed) >= 20);
            let before = calls.load(Ordering::Relaxed);
            (0..10).for_each(|_| audit(false));
            wait_until("they continued", || calls.load(Ordering::Relaxed) > before + 20);
        }));
        // However that ends: the sellers would be waited for.
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    audit(true);
}
