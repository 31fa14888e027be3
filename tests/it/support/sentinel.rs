//! A primary, its replica, and a sentinel that watches both and replaces the primary within about four seconds.

use std::collections::HashMap;
use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, ToRedisArgs};
use tempfile::TempDir;

use super::seckill::{Call, seckill};
use super::server_binary;
use super::{PATIENCE, TestRedis, free_port, in_ten_tries, short_temp_dir, wait_until};

/// A sentinel of the primary `shop`. It is killed when this value goes.
pub struct TestSentinel {
    dir: TempDir,
    server: Child,
    port: u16,
    password: Option<String>,
}

impl TestSentinel {
    /// Watches a server at its port. `settings` are more lines of its configuration.
    #[track_caller]
    pub fn of(port: u16, settings: &str) -> Self {
        in_ten_tries("sentinel", || Self::launch(port, settings).ready())
    }

    fn launch(port: u16, settings: &str) -> Self {
        let own = free_port();
        let settings = settings.replace("OWN_PORT", &own.to_string());
        let plain = if settings.contains("tls-port") { 0 } else { own };
        let dir = short_temp_dir();
        let conf = format!(
            "port {plain}\nbind 127.0.0.1\ndir {dir}\nlogfile {dir}/log\nsentinel monitor shop 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds shop 2000\nsentinel failover-timeout shop 3000\n{settings}\n",
            dir = dir.path().display()
        );
        // It writes there what it finds out.
        let file = dir.path().join("sentinel.conf");
        fs::write(&file, conf).unwrap();
        let server = Command::new(server_binary())
            .arg(&file)
            .arg("--sentinel")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server's binary is a sentinel too");
        let password = settings.lines().find_map(|line| line.strip_prefix("requirepass ")).map(str::to_owned);
        Self { dir, server, port: own, password }
    }

    fn ready(mut self) -> Result<Self, String> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.server.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                return Err(format!("{ended:?}\n{log}"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(self)
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What `--url` takes.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/shop", self.address())
    }

    /// Runs the tool against the primary that this sentinel names.
    pub fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).env("SECKILL_URL", &self.url())
    }

    /// Sends one command to the sentinel.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, args: impl ToRedisArgs) -> T {
        let mut connection = redis::Client::open(("127.0.0.1", self.port)).unwrap().get_connection().unwrap();
        if let Some(password) = &self.password {
            redis::cmd("AUTH").arg(password).exec(&mut connection).unwrap();
        }
        redis::Cmd::new().arg(args).query(&mut connection).unwrap()
    }

    /// The port of the primary that it names.
    #[track_caller]
    pub fn primary(&self) -> u16 {
        let (_, port): (String, u16) = self.ask(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop"));
        port
    }
}

impl Drop for TestSentinel {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// A primary with one replica, watched by a sentinel that knows both.
pub struct Watched {
    pub primary: TestRedis,
    pub replica: TestRedis,
    pub sentinel: TestSentinel,
}

impl Watched {
    #[track_caller]
    pub fn start() -> Self {
        let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
        let replica = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
        follow(&replica, &primary);
        let sentinel = TestSentinel::of(primary.port().unwrap(), "");
        let watched = Self { primary, replica, sentinel };
        watched.wait_for_replica();
        watched
    }

    /// Waits until the sentinel knows a replica that it could promote.
    #[track_caller]
    pub fn wait_for_replica(&self) {
        wait_until("the sentinel knows a replica", || {
            let replicas: Vec<HashMap<String, String>> = self.sentinel.ask(("SENTINEL", "REPLICAS", "shop"));
            replicas.iter().any(|replica| replica["flags"] == "slave")
        });
    }

    /// Waits until both have the same stock of activity 1.
    #[track_caller]
    pub fn wait_until_in_step(&self) {
        // A server that is made a replica closes its connections.
        let stock = |redis: &TestRedis| redis.try_ask::<i64>(("GET", "seckill:stock:1")).ok();
        wait_until("both have the same", || stock(&self.primary).is_some_and(|one| stock(&self.replica) == Some(one)));
    }

    /// Lets the sentinel promote the replica, and waits until it names it.
    #[track_caller]
    pub fn fail_over(&self) {
        let () = self.sentinel.ask(("SENTINEL", "FAILOVER", "shop"));
        wait_until("the sentinel names the replica", || self.sentinel.primary() == self.replica.port().unwrap());
    }
}

/// Makes a server the replica of another, and waits until it has what that has.
#[track_caller]
pub fn follow(replica: &TestRedis, primary: &TestRedis) {
    replica.cmd(("REPLICAOF", "127.0.0.1", primary.port().unwrap()));
    wait_until("the replica is in step", || {
        let (up, online): (String, String) =
            (replica.ask(("INFO", "replication")), primary.ask(("INFO", "replication")));
        up.contains("master_link_status:up") && online.contains("state=online")
    });
}
