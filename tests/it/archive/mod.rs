//! `archive` and `preheat --restore`: an activity becomes files, and the files become the activity.

mod answers;
mod cluster;
mod cut;
mod files;
mod groups;
mod meanwhile;
mod refused;
mod round_trip;

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::{Call, Layout, Proxy, TestRedis};

/// A server with a sale of activity `1`, paused, and a directory for archives.
pub struct Shop {
    pub redis: TestRedis,
    pub directory: TempDir,
    pub layout: Layout,
}

impl Shop {
    /// A title, a limit, buyers, refunds, a file of orders, a repair, a reason, and a pause that withdrew the stock.
    pub fn open(layout: Layout) -> Self {
        let shop = Self::without_sale(layout);
        shop.call("preheat --id 1 --stock 50 --title phone").code(0);
        for user in ["a", "b", "c"] {
            shop.call(&format!("deduct 1 --user {user} --request r-{user}")).code(0);
        }
        shop.call("refund 1 --user b --request r-back --reason wrong").code(0);
        let orders = "activity,user,request\n1,d,\n1,e,r\"e\n1,a,\n1,用户,\n";
        shop.call("deduct --from - --job night").stdin(orders).run();
        if layout.has_users() {
            // A write outside the scripts was repaired.
            match layout.kind {
                "hash" => drop(shop.redis.cmd(("HSET", layout.participants("1"), "z", 2))),
                _ => drop(shop.redis.cmd(("SADD", layout.participants("1"), "z"))),
            }
            if layout.kind == "set" {
                shop.redis.cmd(("HSET", layout.key(6, "1"), "z", 2));
            }
            shop.call("reconcile 1 --fix --yes").run();
        }
        shop.call("pause 1 --withdraw-stock --reason stocktaking").code(0);
        shop.call("reconcile 1").code(0);
        shop
    }

    pub fn without_sale(layout: Layout) -> Self {
        Self { redis: TestRedis::start(), directory: tempfile::tempdir().unwrap(), layout }
    }

    /// A small sale without anything special, for what is done to it many times.
    pub fn small(layout: Layout) -> Self {
        let shop = Self::without_sale(layout);
        for line in ["preheat --id 1 --stock 9", "deduct 1 --user a --request r-a", "pause 1"] {
            shop.call(line).code(0);
        }
        shop
    }

    /// A command line, split at spaces.
    pub fn call(&self, line: &str) -> Call {
        self.redis.seckill(["-l", self.layout.name]).args(line.split(' '))
    }

    pub fn to(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    pub fn archive(&self) -> Call {
        self.call("archive 1 --yes -o jsonl --to").args([self.to()])
    }

    /// The same over a network.
    pub fn archive_over(&self, network: &Proxy) -> Call {
        self.archive().env("SECKILL_URL", &network.url())
    }

    pub fn restore(&self) -> Call {
        self.call("preheat -o jsonl --restore").args([self.to()])
    }

    /// The folder of the archive.
    pub fn folder(&self) -> PathBuf {
        self.directory.path().join(format!("1.{}.1", self.layout.name))
    }

    /// What is there but for the notes of an archive and of a restore.
    pub fn state(&self) -> String {
        let meta = self.layout.meta("1");
        let notes = ["restored", "archive"].map(|field| (field, self.redis.hget(&meta, field)));
        for (field, _) in &notes {
            self.redis.cmd(("HDEL", &meta, field));
        }
        let state = format!("{:?}", self.redis.dump_all());
        for (field, note) in notes {
            note.map(|note| self.redis.cmd(("HSET", &meta, field, note)));
        }
        state
    }

    /// Names in the directory.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
