//! A real server for one test: its own directory and socket, gone when the test ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{ConnectionAddr, FromRedisValue, IntoConnectionInfo, RedisConnectionInfo, RedisResult};
use redis::{ToRedisArgs, Value};
use tempfile::TempDir;

use super::seckill::{Call, seckill, send_signal};
use super::server_binary;
use super::{Dump, PATIENCE, free_port, in_ten_tries, short_temp_dir, wait_until};

/// One entry of a stream: its id, and its fields in order of their names.
pub type StreamEntry = (String, BTreeMap<String, String>);

/// A server that nobody else uses. It is killed when this value goes, also by a panic.
pub struct TestRedis {
    dir: TempDir,
    args: Vec<String>,
    port: Option<u16>,
    server: Option<Child>,
}

/// What a start waits for.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// Commands are served.
    Ready,
    /// Connections are accepted; the answer may still be `LOADING`.
    Listening,
}

impl TestRedis {
    /// An empty server on a unix socket.
    #[track_caller]
    pub fn start() -> Self {
        Self::with([])
    }

    /// The same with one activity of that many units.
    #[track_caller]
    pub fn selling(activity: &str, stock: u64) -> Self {
        let redis = Self::start();
        redis.seckill(["preheat", "--id", activity, "--stock", &stock.to_string()]).code(0);
        redis
    }

    /// An empty one with more arguments, such as `["--appendonly", "yes"]`. A `--requirepass` among
    /// them is also what the harness logs in with.
    #[track_caller]
    pub fn with<const N: usize>(args: [&str; N]) -> Self {
        let mut redis = Self { dir: short_temp_dir(), args: args.map(String::from).to_vec(), port: None, server: None };
        redis.launch(Until::Ready).unwrap_or_else(|why| panic!("{why}"));
        redis
    }

    /// The same on a port of 127.0.0.1 besides, for what a socket cannot show.
    #[track_caller]
    pub fn with_tcp<const N: usize>(args: [&str; N]) -> Self {
        let mut redis = Self::with(args);
        redis.stop();
        in_ten_tries("server", || {
            redis.port = Some(free_port());
            redis.launch(Until::Ready)
        });
        redis
    }

    /// One node of a cluster, which finds there what it knows of the others.
    pub(crate) fn on_port(port: u16, args: &[&str], nodes_conf: &str) -> Result<Self, String> {
        let args = args.iter().copied().map(String::from).collect();
        let mut redis = Self { dir: short_temp_dir(), args, port: Some(port), server: None };
        fs::write(redis.dir.path().join("nodes.conf"), nodes_conf).unwrap();
        redis.launch(Until::Ready)?;
        Ok(redis)
    }

    /// Whether it was started and not stopped or killed since.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// Runs the tool against this server.
    pub fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).env("SECKILL_URL", &self.url())
    }

    /// What `--url` takes: the port if there is one, else the socket.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("unix://{}", self.socket().display()),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    pub fn port(&self) -> Option<u16> {
        self.port
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// A connection of the harness's own, for a test that sends much or from several threads.
    #[track_caller]
    pub fn connection(&self) -> redis::Connection {
        // No read timeout: on a socket that has one, a process that is stopped and resumed (Ctrl-Z, a
        // paused container) gets EINTR, which redis-rs takes for a broken connection.
        self.client().get_connection().expect("the test's server accepts connections")
    }

    /// What opens connections, also while this value is borrowed or gone.
    pub fn client(&self) -> redis::Client {
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = self.password() {
            login = login.set_password(password);
        }
        let info = ConnectionAddr::Unix(self.socket()).into_connection_info().unwrap();
        redis::Client::open(info.set_redis_settings(login)).unwrap()
    }

    /// Sends one command, as `&["GET", "k"]` or, with values of several types, as a tuple.
    #[track_caller]
    pub fn cmd(&self, args: impl ToRedisArgs) -> Value {
        self.ask(args)
    }

    /// The same, with the reply read as the type the test wants.
    #[track_caller]
    pub fn ask<T: FromRedisValue>(&self, args: impl ToRedisArgs) -> T {
        let reply = self.try_ask(args);
        reply.unwrap_or_else(|error| panic!("the test's own command failed: {error}"))
    }

    /// The same, for a test that expects an error.
    #[track_caller]
    pub fn try_ask<T: FromRedisValue>(&self, args: impl ToRedisArgs) -> RedisResult<T> {
        redis::Cmd::new().arg(args).query(&mut self.connection())
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        self.ask(("GET", key))
    }

    /// The integer in a key that must be there.
    #[track_caller]
    pub fn int(&self, key: &str) -> i64 {
        self.ask(("GET", key))
    }

    #[track_caller]
    pub fn hget(&self, key: &str, field: &str) -> Option<String> {
        self.ask(("HGET", key, field))
    }

    #[track_caller]
    pub fn hgetall(&self, key: &str) -> BTreeMap<String, String> {
        self.ask(("HGETALL", key))
    }

    #[track_caller]
    pub fn smembers(&self, key: &str) -> BTreeSet<String> {
        self.ask(("SMEMBERS", key))
    }

    #[track_caller]
    pub fn xrange(&self, key: &str) -> Vec<StreamEntry> {
        self.ask(("XRANGE", key, "-", "+"))
    }

    #[track_caller]
    pub fn exists(&self, key: &str) -> bool {
        self.ask(("EXISTS", key))
    }

    #[track_caller]
    pub fn config_set(&self, name: &str, value: &str) {
        self.cmd(("CONFIG", "SET", name, value));
    }

    /// Everything the server holds, to compare before and after.
    #[track_caller]
    pub fn dump_all(&self) -> Dump {
        Dump::of(&mut self.connection())
    }

    /// Holds a refusal to its word: every key is byte for byte as it was, and none was added.
    #[track_caller]
    pub fn assert_unchanged_since(&self, before: &Dump) {
        let changes = before.changes_to(&self.dump_all());
        assert!(changes.is_empty(), "something changed:\n{changes}");
    }

    /// The server's own version, comparable: `redis.version() >= (7, 2, 0)`.
    #[track_caller]
    pub fn version(&self) -> (u32, u32, u32) {
        let info: String = self.ask(("INFO", "server"));
        let field = if self.is_valkey() { "valkey_version:" } else { "redis_version:" };
        let text = info.lines().find_map(|line| line.strip_prefix(field)).expect("a version");
        let mut parts = text.trim().split('.').map(|part| part.parse().unwrap());
        [(); 3].map(|()| parts.next().unwrap_or(0)).into()
    }

    /// The server's clock in milliseconds, once all that was written before is older.
    #[track_caller]
    pub fn next_millisecond(&self) -> i64 {
        let now = || {
            let (seconds, micros): (i64, i64) = self.ask("TIME");
            seconds * 1000 + micros / 1000
        };
        let written = now();
        wait_until("the next millisecond", || now() > written);
        now()
    }

    /// Whether a script can ask for permissions before it writes: from Redis 7.0 on.
    #[track_caller]
    pub fn scripts_can_check_permissions(&self) -> bool {
        self.version() >= (7, 0, 0)
    }

    /// Whether a load can be made so slow that clients meet it: Redis 6.2 looks at its clients every 2 MB only.
    #[track_caller]
    pub fn can_load_slowly(&self) -> bool {
        self.version() >= (7, 0, 0)
    }

    #[track_caller]
    pub fn is_valkey(&self) -> bool {
        self.ask::<String>(("INFO", "server")).contains("valkey_version:")
    }

    /// Ends the server as an operator would; what it persists stays for the next start.
    #[track_caller]
    pub fn stop(&mut self) {
        self.end(libc::SIGTERM);
    }

    /// Ends the server as a power cut would.
    #[track_caller]
    pub fn kill9(&mut self) {
        self.end(libc::SIGKILL);
    }

    /// Starts again, in the same directory, what was stopped or killed or still runs.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.launch(Until::Ready).unwrap_or_else(|why| panic!("{why}"));
    }

    /// The same, back as soon as connections are accepted: the data may still be loading.
    #[track_caller]
    pub fn restart_loading(&mut self) {
        self.stop();
        self.launch(Until::Listening).unwrap_or_else(|why| panic!("{why}"));
    }

    /// Lets the server answer nothing until `thaw`, as a machine does that swaps or is suspended.
    #[track_caller]
    pub fn freeze(&self) {
        send_signal(self.pid(), libc::SIGSTOP);
    }

    #[track_caller]
    pub fn thaw(&self) {
        send_signal(self.pid(), libc::SIGCONT);
    }

    #[track_caller]
    fn pid(&self) -> u32 {
        self.server.as_ref().expect("a running server").id()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }

    fn password(&self) -> Option<&String> {
        let flag = self.args.iter().position(|arg| arg == "--requirepass")?;
        self.args.get(flag + 1)
    }

    #[track_caller]
    fn end(&mut self, signal: libc::c_int) {
        if let Some(mut server) = self.server.take() {
            send_signal(server.id(), signal);
            server.wait().expect("the server's end");
        }
    }

    /// If it has ended already, that is no error: what comes next says more.
    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().ok(); // SIGKILL, which also ends a frozen server
            server.wait().ok();
        }
    }

    fn launch(&mut self, until: Until) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = Command::new(server_binary());
        command
            .args(["--port", &self.port.unwrap_or(0).to_string(), "--bind", "127.0.0.1"])
            .args(["--unixsocket", "redis.sock", "--save", "", "--dir"])
            .arg(self.dir.path())
            .args(&self.args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let started = command.spawn();
        let binary = server_binary().display();
        self.server = Some(started.map_err(|error| format!("cannot start `{binary}`: {error}"))?);
        self.wait(until).inspect_err(|_| self.kill())
    }

    fn wait(&mut self, until: Until) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let why = loop {
            match first_answer(&self.socket()) {
                Some(answer) if until == Until::Listening || !answer.starts_with("-LOADING") => {
                    return Ok(());
                }
                _ => {}
            }
            if let Some(status) = self.server.as_mut().and_then(|it| it.try_wait().unwrap()) {
                break format!("ended with {status}");
            }
            if Instant::now() > deadline {
                break format!("is not ready after {PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(1));
        };
        Err(format!("the server {why}; its log:\n{}", self.log()))
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("the end of the server's log:\n{tail}\n");
        }
    }
}

/// What the server says to a first `PING`, if it listens at all. An error other than `LOADING`, such
/// as `NOAUTH`, is the answer of a server that is up.
fn first_answer(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"PING\r\n").ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    (!answer.is_empty()).then_some(answer)
}

/// `redis-cli`: beside the server, else on `PATH`.
pub fn redis_cli() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = server_binary().parent().map(Path::to_owned);
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join("redis-cli")).find(|cli| cli.is_file())
}
