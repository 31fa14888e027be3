//! Layouts of shops that name their keys themselves: `--layout FILE`, and the same in fixtures and contexts.

mod commands;
mod files;
mod shops;

use tempfile::TempDir;

use crate::support::{Call, TestRedis};

/// A shop's keys, with a tag, in a file of a directory.
struct Shop {
    folder: TempDir,
    kind: &'static str,
}

impl Shop {
    fn new(kind: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.yaml"), Self::text(kind)).unwrap();
        Self { folder, kind }
    }

    fn text(kind: &str) -> String {
        let participants = if kind == "counter" { "" } else { ", participants: \"shop:{<id>}:buyers\"" };
        format!("kind: {kind}\nkeys: {{stock: \"shop:{{<id>}}:left\"{participants}}}\n")
    }

    fn path(&self) -> String {
        self.folder.path().join("shop.yaml").to_str().unwrap().to_owned()
    }

    /// A command line, split at spaces, in the shop's layout.
    fn run(&self, redis: &TestRedis, line: &str) -> Call {
        redis.seckill(["-l", &self.path(), "-o", "json"]).args(line.split_whitespace())
    }

    /// The options of a user, if the shop records any.
    fn user(&self, user: &str) -> String {
        if self.kind == "counter" { String::new() } else { format!("--user {user}") }
    }
}
