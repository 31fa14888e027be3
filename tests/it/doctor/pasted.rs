//! What is printed is pasted into a real shell, with the real `redis-cli`, and the doctor is content afterwards.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{of_check, text};
use crate::support::{Authority, TestCluster, TestRedis, binary, redis_cli, seckill, wait_until};

/// The terminal of an operator who called `seckill` and pastes what it printed: the same folder, the same environment.
struct Terminal {
    folder: TempDir,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// What is typed when a password is asked for.
    typed: &'static str,
}

impl Terminal {
    /// `None` where there is no `redis-cli`.
    fn open<const N: usize>(arguments: [&str; N]) -> Option<Self> {
        let Some(cli) = redis_cli() else {
            eprintln!("left out: no redis-cli is here");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        for name in ["redis-cli", "valkey-cli"] {
            symlink(&cli, programs.join(name)).unwrap();
        }
        symlink(binary(), programs.join("seckill")).unwrap();
        std::fs::write(folder.path().join("my pw"), "s3cret word\n").unwrap();
        Command::new("chmod").args(["600", "my pw"]).current_dir(folder.path()).status().unwrap();
        let arguments = arguments.map(str::to_owned).to_vec();
        Some(Self { folder, arguments, environment: Vec::new(), typed: "" })
    }

    fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    fn typing(self, typed: &'static str) -> Self {
        Self { typed, ..self }
    }

    /// The shell's output.
    fn paste(&self, line: &str) -> String {
        let path = format!("{}/bin:/usr/bin:/bin", self.folder.path().display());
        let mut shell = Command::new("sh");
        // Nobody is there to answer a question.
        let line = if line.starts_with("seckill ") { format!("{line} --yes") } else { line.to_owned() };
        shell.args(["-c", &line]).env_clear().env("PATH", path).env("SECKILL_OPERATOR", "tester");
        shell.envs(self.environment.iter().map(|(name, value)| (*name, value))).current_dir(self.folder.path());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(self.typed.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        // What was repaired had drifted.
        assert!([Some(0), Some(7)].contains(&output.status.code()), "{line}\n{said}");
        for fault in ["NOPERM", "NOAUTH", "WRONGPASS", "AUTH failed", "ERR ", "Could not connect"] {
            assert!(!said.contains(fault), "{line}\n{said}");
        }
        said
    }

    /// The rows of the doctor, called as it was called before.
    fn doctor(&self) -> Value {
        let call = seckill(["doctor", "-o", "json"]).args(&self.arguments).in_dir(self.folder.path());
        let call = self.environment.iter().fold(call, |call, (name, value)| call.env(name, value));
        let outcome = call.run();
        assert!(!outcome.stdout.contains("s3cret") && !outcome.stderr.contains("s3cret"), "{}", outcome.stdout);
        outcome.json()
    }

    /// The first row of a check that is not as it should be.
    fn fault(&self, check: &str) -> Option<Value> {
        of_check(&self.doctor(), check).into_iter().find(|row| row["fix"].is_string())
    }

    /// Pastes the fix of a fault, and sees that it is gone.
    #[track_caller]
    fn mends(&self, check: &str, part: &str) {
        let fault = self.fault(check).unwrap_or_else(|| panic!("{check} is no fault"));
        assert!(text(&fault, "fix").contains(part), "{fault:#}");
        self.paste(text(&fault, "fix"));
        assert_eq!(self.fault(check), None, "{fault:#}");
    }
}

/// A server on which only `ann` may change settings, who has a password.
fn guarded(redis: TestRedis) -> TestRedis {
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    redis.cmd(("EXPIRE", "seckill:stock:1", 1000));
    redis.cmd(&["ACL", "SETUSER", "ann", "on", ">s3cret word", "~*", "+@all"]);
    redis.cmd(&["ACL", "SETUSER", "default", "-config", "-persist"]);
    redis
}

fn with_user(redis: &TestRedis, login: &str) -> String {
    redis.url().replace("redis://", &format!("redis://{login}@"))
}

#[test]
fn a_password_file_is_read_by_the_printed_command() {
    let redis = guarded(TestRedis::with_tcp([]));
    let url = with_user(&redis, "ann");
    let Some(terminal) = Terminal::open(["-u", &url, "--password-file", "my pw"]) else { return };
    terminal.mends("persistence", "REDISCLI_AUTH=\"$(cat 'my pw')\" ");
    terminal.mends("expiry", " --user ann PERSIST seckill:stock:1");
    redis.cmd(("DEL", "seckill:stock:1"));
    terminal.mends("keys", &format!("seckill reconcile 1 -u {url} --password-file 'my pw' --fix"));
    terminal.mends("memory", "CONFIG SET maxmemory ");
    let fault = terminal.fault("replicas").unwrap();
    assert!(text(&fault, "found").ends_with("; OTHER-HOST needs masteruser and masterauth to log in here"), "{fault}");
}

#[test]
fn a_password_of_the_environment_is_named_by_its_variable() {
    for (name, part) in [("SECKILL_PASSWORD", "REDISCLI_AUTH=\"$SECKILL_PASSWORD\" "), ("REDISCLI_AUTH", "-cli -h ")] {
        let redis = guarded(TestRedis::with_tcp([]));
        let Some(terminal) = Terminal::open(["-u", &with_user(&redis, "ann")]) else { return };
        let terminal = terminal.env(name, "s3cret word");
        terminal.mends("persistence", part);
        terminal.mends("expiry", "PERSIST");
    }
}

#[test]
fn a_password_of_a_url_is_asked_for() {
    let redis = guarded(TestRedis::with_tcp([]));
    let url = with_user(&redis, "ann:s3cret%20word");
    let Some(terminal) = Terminal::open(["-u", &url]) else { return };
    let terminal = terminal.typing("s3cret word\n");
    terminal.mends("persistence", " --user ann --askpass CONFIG SET appendonly yes");
    // A command of seckill names the same server and user, and says where the password is to be.
    redis.cmd(("DEL", "seckill:stock:1"));
    let note = seckill(["doctor", "-u", &url]).code(3);
    note.stderr_has("set SECKILL_PASSWORD before you paste one").stdout_lacks("s3cret");
    let fix = text(&terminal.fault("keys").unwrap(), "fix").to_owned();
    assert_eq!(fix, format!("seckill reconcile 1 -u {} --fix", with_user(&redis, "ann")));
    terminal.env("SECKILL_PASSWORD", "s3cret word").mends("keys", "reconcile");
}

#[test]
fn on_a_unix_socket_the_path_is_named() {
    let redis = guarded(TestRedis::start());
    let url = format!("{}?user=ann&pass=s3cret%20word", redis.url());
    let Some(terminal) = Terminal::open([]) else { return };
    let terminal = terminal.env("SECKILL_URL", &url).typing("s3cret word\n");
    terminal.mends("persistence", &format!("-cli -s {} --user ann --askpass ", redis.socket().display()));
    terminal.mends("expiry", "PERSIST");
}

#[test]
fn who_may_change_no_setting_gets_a_command_for_somebody_else() {
    let redis = TestRedis::with_tcp(["--requirepass", "s3cret word"]);
    redis.cmd(&["ACL", "SETUSER", "clerk", "on", ">other", "~seckill:*", "+@all", "-config", "+config|get", "-acl"]);
    let Some(terminal) = Terminal::open(["-u", &with_user(&redis, "clerk")]) else { return };
    let terminal = terminal.env("SECKILL_PASSWORD", "other").typing("s3cret word\n");
    terminal.mends("persistence", "-p ");
    assert!(!text(&terminal.fault("memory").unwrap(), "fix").contains("clerk"));
}

#[test]
fn over_tls_with_a_client_certificate_of_a_context() {
    let (redis, authority) = (TestRedis::start(), Authority::new());
    let Some(port) = redis.listen_for_tls(&authority, "server", &[]) else { return };
    let (url, [ca, cert, key]) =
        (format!("rediss://127.0.0.1:{port}"), ["ca.pem", "client.pem", "client.key"].map(|file| authority.path(file)));
    let tls = ["--cacert", &ca, "--cert", &cert, "--key", &key];
    let options = format!(" --tls --cacert {ca} --cert {cert} --key {key} ");
    let Some(by_flags) = Terminal::open(["-u", &url, tls[0], tls[1], tls[2], tls[3], tls[4], tls[5]]) else { return };
    by_flags.mends("persistence", &options);
    let Some(by_context) = Terminal::open([]) else { return };
    let home = by_context.folder.path().to_str().unwrap().to_owned();
    let by_context = by_context.env("XDG_CONFIG_HOME", &home).env("SECKILL_URL", "");
    seckill(["context", "add", "sale", "--url", &url]).args(tls).env("XDG_CONFIG_HOME", &home).code(0);
    seckill(["context", "use", "sale"]).env("XDG_CONFIG_HOME", &home).code(0);
    redis.config_set("appendonly", "no");
    by_context.mends("persistence", &options);
}

#[test]
fn another_server_follows_this_one_by_an_address_that_it_can_reach() {
    let (redis, other) = (TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]), TestRedis::with_tcp([]));
    let Some(terminal) = Terminal::open(["-u", &redis.url()]) else { return };
    let fault = terminal.fault("replicas").unwrap();
    let (port, fix) = (redis.port().unwrap(), text(&fault, "fix"));
    let found = "no replica; ADDRESS-OF-THIS-SERVER is one that OTHER-HOST can reach, not a loopback or a socket";
    assert_eq!(fault["found"], found);
    assert!(fix.ends_with(&format!(" -h OTHER-HOST -p 6379 REPLICAOF ADDRESS-OF-THIS-SERVER {port}")), "{fix}");
    let other_port = format!("-p {}", other.port().unwrap());
    let fix = fix.replace("-p 6379", &other_port).replace("OTHER-HOST", "127.0.0.1");
    terminal.paste(&fix.replace("ADDRESS-OF-THIS-SERVER", "127.0.0.1"));
    wait_until("it follows", || terminal.fault("replicas").is_none());
}

#[test]
fn an_idle_node_of_a_cluster_replicates_a_primary_that_has_no_replica() {
    let cluster = TestCluster::with_replicas(3);
    let Some(terminal) = Terminal::open(["-l", "cluster", "-u", &cluster.url()]) else { return };
    assert_eq!(terminal.fault("replicas"), None);
    let port = cluster.node(3).port().unwrap();
    cluster.node(3).cmd(("CLUSTER", "RESET"));
    cluster.node(3).cmd(("CLUSTER", "MEET", "127.0.0.1", cluster.node(0).port().unwrap()));
    let fix = |row: &Value| text(row, "fix").to_owned();
    let wanted = format!(" -h 127.0.0.1 -p {port} CLUSTER REPLICATE {}", cluster.id(0));
    wait_until("all know it", || terminal.fault("replicas").is_some_and(|row| fix(&row).ends_with(&wanted)));
    let fault = terminal.fault("replicas").unwrap();
    assert!(text(&fault, "found").ends_with(&format!("127.0.0.1:{port} serves no slots and could be one")), "{fault}");
    terminal.paste(&fix(&fault));
    wait_until("it follows", || terminal.fault("replicas").is_none());
    assert_eq!(cluster.role(3), "slave");
    // Its node is not the first.
    cluster.seckill(["preheat", "--id", "1", "--stock", "5"]).code(0);
    let () = cluster.ask("seckill:{1}:stock", ("EXPIRE", "seckill:{1}:stock", 1000));
    terminal.mends("expiry", " -c PERSIST ");
}

#[test]
fn a_cluster_without_an_idle_node_meets_a_new_one_first() {
    let cluster = TestCluster::start(3);
    let fault = of_check(&cluster.seckill(["doctor", "-o", "json"]).code(3).json(), "replicas")[0].clone();
    let target = text(&fault, "target");
    let node = cluster.nodes().iter().position(|node| target.ends_with(&format!(":{}", node.port().unwrap()))).unwrap();
    let fix = text(&fault, "fix");
    assert!(fix.contains(" CLUSTER MEET OTHER-IP 6379 && sleep 3 && "), "{fix}");
    let replicate = format!(" -h OTHER-IP -p 6379 CLUSTER REPLICATE {}", cluster.id(node));
    assert!(fix.ends_with(&replicate) && !fix.contains("REPLICAOF"), "{fix}");
}
