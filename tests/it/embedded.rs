//! `--embedded`: a private server for one command, with and without a directory that stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Call, seckill, wait_until};

/// A command that works in a temporary directory of its own, so that tests do not see each other's servers.
fn in_own_tmp<const N: usize>(tmp: &Path, args: [&str; N]) -> Call {
    seckill(args).without_env("SECKILL_URL").env("TMPDIR", tmp.to_str().unwrap())
}

fn private_directories(tmp: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("seckill-")).collect()
}

/// Whether any process works in a directory.
fn somebody_works_in(directory: &Path) -> bool {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory)))
}

#[test]
fn without_a_directory_data_is_discarded_and_nothing_stays() {
    let tmp = tempfile::tempdir().unwrap();
    in_own_tmp(tmp.path(), ["preheat", "--embedded", "--id", "1", "--stock", "5"])
        .code(0)
        .stdout_has("create")
        .stderr_has("discarded");
    assert!(private_directories(tmp.path()).is_empty());
    assert!(!somebody_works_in(tmp.path()));
    in_own_tmp(tmp.path(), ["inspect", "1", "--embedded"]).code(3);
}

#[test]
fn with_a_directory_the_next_command_finds_the_data() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("sale");
    let embedded = format!("--embedded={}", dir.display());
    in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0).stderr_lacks("discarded");
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    in_own_tmp(tmp.path(), ["deduct", &embedded, "1", "--user", "7", "--quantity", "2"]).code(0);
    let row = in_own_tmp(tmp.path(), ["inspect", &embedded, "1", "-o", "json"]).code(0).json();
    assert_eq!(row[0]["stock"], 3);
    assert!(!somebody_works_in(tmp.path()));
}

#[test]
fn a_directory_with_a_long_path_will_do() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("x".repeat(150));
    let embedded = format!("--embedded={}", dir.display());
    in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    in_own_tmp(tmp.path(), ["inspect", &embedded, "1"]).code(0);
    assert!(private_directories(tmp.path()).is_empty(), "the short way to the socket is gone");
}

#[test]
fn a_second_command_on_a_directory_waits_or_says_why_not() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("sale");
    let embedded = format!("--embedded={}", dir.display());
    in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    let rush = "steps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let first = in_own_tmp(tmp.path(), ["run", &embedded, "-", "--yes"]).stdin(rush).spawn();
    wait_until("the first has the directory", || dir.join("server.sock").exists());
    in_own_tmp(tmp.path(), ["inspect", &embedded, "1", "--timeout", "200ms"])
        .code(1)
        .stderr_has("in use by process")
        .stderr_has("--timeout");
    let second = in_own_tmp(tmp.path(), ["inspect", &embedded, "1", "--timeout", "60s"]).spawn();
    second.wait_for_stderr("waiting for it to end");
    first.signal(libc::SIGINT);
    first.wait().code(130);
    second.wait().code(0);
}

#[test]
fn what_a_killed_command_left_is_swept_by_the_next() {
    let tmp = tempfile::tempdir().unwrap();
    let rush = "activities:\n  - {id: 1, stock: 5}\nsteps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let killed = in_own_tmp(tmp.path(), ["run", "--embedded", "-"]).stdin(rush).spawn();
    // What the server writes later would make its directory young again.
    wait_until("its server listens", || {
        private_directories(tmp.path()).first().is_some_and(|directory| directory.join("server.sock").exists())
    });
    killed.signal(libc::SIGKILL);
    killed.wait().killed_by(libc::SIGKILL);
    let left = private_directories(tmp.path());
    assert_eq!(left.len(), 1);
    assert!(somebody_works_in(&left[0]), "a server that is killed with its command would need no sweep");
    // Young directories are spared: their command may be about to lock them.
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::open(&left[0]).unwrap().set_modified(long_ago).unwrap();
    in_own_tmp(tmp.path(), ["inspect", "--embedded"]).code(0);
    assert!(private_directories(tmp.path()).is_empty());
    wait_until("its server is gone", || !somebody_works_in(tmp.path()));
}

#[test]
fn a_directory_outlives_a_kill_of_its_command() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("sale");
    let embedded = format!("--embedded={}", dir.display());
    in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", "1", "--stock", "1000000"]).code(0);
    let rush = "steps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let killed = in_own_tmp(tmp.path(), ["run", &embedded, "-", "--yes"]).stdin(rush).spawn();
    wait_until("its server runs", || dir.join("server.sock").exists());
    killed.signal(libc::SIGKILL);
    killed.wait().killed_by(libc::SIGKILL);
    let row = in_own_tmp(tmp.path(), ["inspect", &embedded, "1", "-o", "json"]).code(0).json();
    assert_eq!(row[0]["total"], 1_000_000);
    in_own_tmp(tmp.path(), ["reconcile", &embedded, "1"]).code(0);
    wait_until("both servers are gone", || !somebody_works_in(tmp.path()));
}

#[test]
fn ctrl_c_leaves_no_server_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let rush = "activities:\n  - {id: 1, stock: 5}\nsteps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let run = in_own_tmp(tmp.path(), ["run", "--embedded", "-"]).stdin(rush).spawn();
    wait_until("its server runs", || somebody_works_in(tmp.path()));
    run.signal(libc::SIGINT);
    run.wait().code(130);
    assert!(private_directories(tmp.path()).is_empty());
    assert!(!somebody_works_in(tmp.path()));
}

#[test]
fn without_a_server_binary_the_error_says_how_to_get_one() {
    let tmp = tempfile::tempdir().unwrap();
    in_own_tmp(tmp.path(), ["inspect", "--embedded"])
        .without_env("SECKILL_SERVER")
        .env("PATH", "/nonexistent")
        .code(1)
        .stderr_has("valkey-server")
        .stderr_has("apt install");
    in_own_tmp(tmp.path(), ["inspect", "--embedded"])
        .env("SECKILL_SERVER", "/nonexistent/redis-server")
        .code(1)
        .stderr_has("`/nonexistent/redis-server`");
    in_own_tmp(tmp.path(), ["inspect", "--embedded"])
        .env("SECKILL_SERVER", "/bin/false")
        .code(1)
        .stderr_has("ended at once");
}

#[test]
fn an_unreachable_url_is_never_replaced_by_a_private_server() {
    seckill(["inspect", "-u", "unix:///nonexistent/x.sock"]).code(5).stderr_has("--embedded");
}

#[test]
fn a_directory_may_have_any_name() {
    let tmp = tempfile::tempdir().unwrap();
    for (index, name) in ["p%41", "pA", "a?b", "a#b", "a b", "a\nb", "a@b:c", "双11", "%00"].iter().enumerate() {
        let dir = tmp.path().join(name);
        let embedded = format!("--embedded={}", dir.display());
        let id = format!("id{index}");
        in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", &id, "--stock", "5"]).code(0);
        let rows = in_own_tmp(tmp.path(), ["inspect", &embedded, "-o", "jsonl"]).code(0).jsonl();
        assert_eq!(rows.len(), 1, "{name:?} has its own data only");
        assert_eq!(rows[0]["activity"], id.as_str(), "{name:?}");
        assert!(dir.join("appendonlydir").exists() || dir.join("appendonly.aof").exists(), "{name:?}");
    }
    assert!(!somebody_works_in(tmp.path()));
}

#[test]
fn a_directory_named_like_another_in_a_url_leaves_that_alone() {
    let tmp = tempfile::tempdir().unwrap();
    let flag = |name: &str| format!("--embedded={}", tmp.path().join(name).display());
    let rush = "activities:\n  - {id: 1, stock: 5}\nsteps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let first = in_own_tmp(tmp.path(), ["run", &flag("pA"), "-"]).stdin(rush).spawn();
    wait_until("its server runs", || tmp.path().join("pA/server.sock").exists());
    in_own_tmp(tmp.path(), ["inspect", &flag("p%41")]).code(0);
    let held = in_own_tmp(tmp.path(), ["inspect", &flag("pA"), "--timeout", "100ms"]).code(1);
    held.stderr_has("in use by process");
    first.signal(libc::SIGINT);
    first.wait().code(130);
}

#[test]
fn a_password_of_the_environment_is_not_for_a_private_server() {
    let tmp = tempfile::tempdir().unwrap();
    in_own_tmp(tmp.path(), ["inspect", "--embedded"]).env("SECKILL_PASSWORD", "x").env("REDISCLI_AUTH", "y").code(0);
}

/// The nodes that a directory of `--embedded` has.
fn nodes_of(dir: &Path) -> usize {
    fs::read_dir(dir)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("node-"))
        .count()
}

#[test]
fn a_private_cluster_keeps_its_data_and_its_number_of_nodes() {
    let tmp = tempfile::tempdir().unwrap();
    // Too long for a socket below it.
    let dir = tmp.path().join("x".repeat(100));
    let embedded = format!("--embedded={}", dir.display());
    let on = |args: [&str; 4]| in_own_tmp(tmp.path(), args).args([&embedded]);
    on(["preheat", "--nodes=3", "--id=1001", "--stock=5"]).code(0).stderr_lacks("discarded");
    assert_eq!((nodes_of(&dir), fs::metadata(&dir).unwrap().permissions().mode() & 0o777), (3, 0o700));
    on(["deduct", "1001", "--user=7", "--quantity=2"]).code(0);
    // Its layout is `cluster`, whatever the environment says, unless a flag names another.
    let row = on(["inspect", "1001", "-o", "json"]).env("SECKILL_LAYOUT", "sku").code(0).json();
    assert_eq!(row[0]["stock"], 3);
    on(["inspect", "1001", "-l", "sku"]).code(2).stderr_has("use the layout `cluster`");
    on(["inspect", "1001", "--nodes", "4"])
        .code(2)
        .stderr_has("has the data of a cluster of 3 nodes, and `--nodes` is 4")
        .stderr_has("leave `--nodes` out");
    wait_until("all nodes are gone", || !somebody_works_in(tmp.path()));
    assert!(private_directories(tmp.path()).is_empty(), "the short way to the sockets is gone");
}

#[test]
fn a_private_cluster_without_a_directory_leaves_nothing() {
    let tmp = tempfile::tempdir().unwrap();
    in_own_tmp(tmp.path(), ["run", "fixtures/double11-cluster.yaml", "--embedded", "--nodes", "3"])
        .code(0)
        .stdout_has("sold 100, oversold 0")
        .stderr_has("a private cluster was started; its data is discarded");
    assert!(private_directories(tmp.path()).is_empty());
    assert!(!somebody_works_in(tmp.path()));
}

#[test]
fn a_private_cluster_of_a_killed_command_ends_with_the_next_command() {
    let tmp = tempfile::tempdir().unwrap();
    let rush = "layout: cluster\nactivities:\n  - {id: 1, stock: 5}\nsteps:\n  - rush: {activity: 1, users: 9000000, clients: 2}\n";
    let killed = in_own_tmp(tmp.path(), ["run", "--embedded", "--nodes=2", "-"]).stdin(rush).spawn();
    wait_until("its nodes listen", || {
        let listens = |dir: &Path, node: &str| dir.join(node).join("server.sock").exists();
        let is_up = |dir: &PathBuf| listens(dir, "node-1") && listens(dir, "node-2");
        private_directories(tmp.path()).first().is_some_and(is_up)
    });
    killed.signal(libc::SIGKILL);
    killed.wait().killed_by(libc::SIGKILL);
    let left = private_directories(tmp.path());
    assert!(somebody_works_in(&left[0]));
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::open(&left[0]).unwrap().set_modified(long_ago).unwrap();
    in_own_tmp(tmp.path(), ["inspect", "--embedded"]).code(0);
    assert!(private_directories(tmp.path()).is_empty());
    wait_until("its nodes are gone", || !somebody_works_in(tmp.path()));
}

#[test]
fn a_directory_of_one_server_is_no_cluster() {
    let tmp = tempfile::tempdir().unwrap();
    let embedded = format!("--embedded={}", tmp.path().join("sale").display());
    in_own_tmp(tmp.path(), ["preheat", &embedded, "--id", "1", "--stock", "5"]).code(0);
    in_own_tmp(tmp.path(), ["inspect", &embedded, "--nodes", "3"])
        .code(2)
        .stderr_has("has the data of one server, and `--nodes` is 3");
    seckill(["inspect", "--nodes", "3"]).code(2).stderr_has("--embedded");
    seckill(["inspect", "--embedded", "--nodes", "0"]).code(2).stderr_has("1..=64");
}
