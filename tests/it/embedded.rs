//! `--embedded`: a private server for one command, with and without a directory that stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::support::{Call, Running, seckill, server_binary, wait_until};

/// A temporary directory in which commands work, so that tests do not see each other's servers.
struct Tmp(TempDir);

/// Steps that run until the command is ended.
const RUSH: &str = "steps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";

impl Tmp {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).without_env("SECKILL_URL").env("TMPDIR", self.0.path().to_str().unwrap())
    }

    /// A directory in it, and the flag that names that.
    fn directory(&self, name: &str) -> (PathBuf, String) {
        let directory = self.0.path().join(name);
        let flag = format!("--embedded={}", directory.display());
        (directory, flag)
    }

    /// The directories of servers whose data are discarded.
    fn private_directories(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("seckill-")).collect()
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        assert!(self.private_directories().is_empty());
        assert!(!has_processes(self.0.path()));
    }
}

/// Whether any process works in a directory.
fn has_processes(directory: &Path) -> bool {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory)))
}

#[track_caller]
fn kill(running: Running) {
    running.signal(libc::SIGKILL);
    running.wait().killed_by(libc::SIGKILL);
}

#[test]
fn without_a_directory_data_is_discarded_and_nothing_stays() {
    let tmp = Tmp::new();
    // A password of the environment is not for a private server.
    tmp.seckill(["preheat", "--embedded", "--id", "1", "--stock", "5"])
        .env("SECKILL_PASSWORD", "x")
        .env("REDISCLI_AUTH", "y")
        .code(0)
        .stdout_has("create")
        .stderr_has("discarded");
    tmp.assert_nothing_is_left();
    // One that stays is none of them, whatever its name.
    let (kept, embedded) = tmp.directory("seckill-sale");
    tmp.seckill(["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    fs::File::open(&kept).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    tmp.seckill(["inspect", "1", "--embedded"]).code(3);
    tmp.seckill(["inspect", "1", &embedded]).code(0);
}

#[test]
fn with_a_directory_the_next_command_finds_the_data() {
    let tmp = Tmp::new();
    // The other one is too long for a socket below it.
    for name in ["sale", &"x".repeat(150)] {
        let (directory, embedded) = tmp.directory(name);
        tmp.seckill(["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0).stderr_lacks("discarded");
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        tmp.seckill(["deduct", &embedded, "1", "--user", "7", "--quantity", "2"]).code(0);
        let row = tmp.seckill(["inspect", &embedded, "1", "-o", "json"]).code(0).json();
        assert_eq!(row[0]["stock"], 3);
        tmp.assert_nothing_is_left();
    }
}

#[test]
fn a_second_command_on_a_directory_waits_or_says_why_not() {
    let tmp = Tmp::new();
    let (directory, embedded) = tmp.directory("sale");
    tmp.seckill(["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    let first = tmp.seckill(["run", &embedded, "-", "--yes"]).stdin(RUSH).spawn();
    wait_until("the first has the directory", || directory.join("server.sock").exists());
    tmp.seckill(["inspect", &embedded, "1", "--timeout", "200ms"])
        .code(1)
        .stderr_has("in use by process")
        .stderr_has("--timeout");
    let second = tmp.seckill(["inspect", &embedded, "1", "--timeout", "60s"]).spawn();
    second.wait_for_stderr("waiting for it to end");
    first.interrupt();
    second.wait().code(0);
}

#[test]
fn what_a_killed_command_left_is_swept_by_the_next() {
    for (layout, nodes, sockets) in [
        ("seckill", None, &["server.sock"][..]),
        ("cluster", Some("--nodes=2"), &["node-1/server.sock", "node-2/server.sock"]),
    ] {
        let tmp = Tmp::new();
        let fixture = format!("layout: {layout}\nactivities:\n  - {{id: 1, stock: 5}}\n{RUSH}");
        let killed = tmp.seckill(["run", "--embedded", "-"]).args(nodes).stdin(fixture).spawn();
        // What the server writes later would make its directory young again.
        let is_up = |directory: &PathBuf| sockets.iter().all(|socket| directory.join(socket).exists());
        wait_until("its servers listen", || tmp.private_directories().first().is_some_and(is_up));
        kill(killed);
        let left = tmp.private_directories();
        assert_eq!(left.len(), 1);
        assert!(has_processes(&left[0]), "a server that is killed with its command would need no sweep");
        // Young directories are spared: their command may be about to lock them.
        fs::File::open(&left[0]).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        tmp.seckill(["inspect", "--embedded"]).code(0);
        assert!(tmp.private_directories().is_empty());
        wait_until("its servers are gone", || !has_processes(tmp.0.path()));
    }
}

#[test]
fn a_directory_outlives_a_kill_of_its_command() {
    let slow = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/slow-server");
    for (server, sign) in [(server_binary(), "server.sock"), (slow.as_ref(), "starting")] {
        let tmp = Tmp::new();
        let (directory, embedded) = tmp.directory("sale");
        tmp.seckill(["preheat", &embedded, "--id", "1", "--stock", "1000000"]).code(0);
        let run = tmp.seckill(["run", &embedded, "-", "--yes"]).env("SECKILL_SERVER", server.to_str().unwrap());
        let killed = run.env("SLOW_SERVER", server_binary().to_str().unwrap()).stdin(RUSH).spawn();
        wait_until("its server starts", || directory.join(sign).exists());
        kill(killed);
        assert_eq!(tmp.seckill(["inspect", &embedded, "1", "-o", "json"]).code(0).json()[0]["total"], 1_000_000);
        tmp.seckill(["reconcile", &embedded, "1"]).code(0);
        tmp.assert_nothing_is_left();
    }
}

#[test]
fn ctrl_c_leaves_no_server_behind() {
    let tmp = Tmp::new();
    let fixture = format!("activities:\n  - {{id: 1, stock: 5}}\n{RUSH}");
    let run = tmp.seckill(["run", "--embedded", "-"]).stdin(fixture).spawn();
    wait_until("its server runs", || has_processes(tmp.0.path()));
    run.interrupt();
    tmp.assert_nothing_is_left();
}

#[test]
fn without_a_server_binary_the_error_says_how_to_get_one() {
    let tmp = Tmp::new();
    let call = || tmp.seckill(["inspect", "--embedded"]);
    let absent = call().without_env("SECKILL_SERVER").env("PATH", "/nonexistent").code(1);
    absent.stderr_has("valkey-server").stderr_has("apt install");
    let wrong = "/nonexistent/redis-server";
    call().env("SECKILL_SERVER", wrong).code(1).stderr_has("`/nonexistent/redis-server`");
    call().env("SECKILL_SERVER", "/bin/false").code(1).stderr_has("ended at once");
    // A URL that leads nowhere is never replaced by a private server.
    seckill(["inspect", "-u", "unix:///nonexistent/x.sock"]).code(5).stderr_has("--embedded");
}

#[test]
fn a_directory_may_have_any_name() {
    let tmp = Tmp::new();
    for (index, name) in ["p%41", "pA", "a?b", "a#b", "a b", "a\nb", "a@b:c", "双11", "%00"].iter().enumerate() {
        let (directory, embedded) = tmp.directory(name);
        let id = format!("id{index}");
        tmp.seckill(["preheat", &embedded, "--id", &id, "--stock", "5"]).code(0);
        let rows = tmp.seckill(["inspect", &embedded, "-o", "jsonl"]).code(0).jsonl();
        assert_eq!(rows.len(), 1, "{name:?} has its own data only");
        assert_eq!(rows[0]["activity"], id.as_str(), "{name:?}");
        assert!(directory.join("appendonlydir").exists() || directory.join("appendonly.aof").exists(), "{name:?}");
    }
    tmp.assert_nothing_is_left();
}

/// The nodes that a directory of `--embedded` has.
fn nodes_of(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("node-")).count()
}

#[test]
fn a_private_cluster_keeps_its_data_and_its_number_of_nodes() {
    let tmp = Tmp::new();
    // Too long for a socket below it.
    let (directory, embedded) = tmp.directory(&"x".repeat(100));
    let on = |args: [&str; 4]| tmp.seckill(args).args([&embedded]);
    on(["preheat", "--nodes=3", "--id=1001", "--stock=5"]).code(0).stderr_lacks("discarded");
    assert_eq!((nodes_of(&directory), fs::metadata(&directory).unwrap().permissions().mode() & 0o777), (3, 0o700));
    on(["deduct", "1001", "--user=7", "--quantity=2"]).code(0);
    // Its layout is `cluster`, whatever the environment says, unless a flag names another.
    let row = on(["inspect", "1001", "-o", "json"]).env("SECKILL_LAYOUT", "sku").code(0).json();
    assert_eq!(row[0]["stock"], 3);
    on(["inspect", "1001", "-l", "sku"]).code(2).stderr_has("use the layout `cluster`");
    on(["inspect", "1001", "--nodes", "4"])
        .code(2)
        .stderr_has("has the data of a cluster of 3 nodes, and `--nodes` is 4")
        .stderr_has("leave `--nodes` out");
    wait_until("all nodes are gone", || !has_processes(tmp.0.path()));
    tmp.assert_nothing_is_left();
}

#[test]
fn a_private_cluster_without_a_directory_leaves_nothing() {
    let tmp = Tmp::new();
    tmp.seckill(["run", "fixtures/double11-cluster.yaml", "--embedded", "--nodes", "3"])
        .code(0)
        .stdout_has("sold 100, oversold 0")
        .stderr_has("a private cluster was started; its data is discarded");
    tmp.assert_nothing_is_left();
}

#[test]
fn a_directory_of_one_server_is_no_cluster() {
    let tmp = Tmp::new();
    let (_, embedded) = tmp.directory("sale");
    tmp.seckill(["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    tmp.seckill(["inspect", &embedded, "--nodes", "3"])
        .code(2)
        .stderr_has("has the data of one server, and `--nodes` is 3");
    seckill(["inspect", "--nodes", "3"]).code(2).stderr_has("--embedded");
    seckill(["inspect", "--embedded", "--nodes", "0"]).code(2).stderr_has("1..=64");
}
