//! A server of our own for a measurement, gone at its end, and the commands that talk to it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

/// What a run took: seconds by the clock, and of processor time of the server's main thread.
pub struct Run {
    pub seconds: f64,
    pub busy: f64,
}

/// A running server on a unix socket in a directory of its own.
pub struct Server {
    process: Child,
    binary: PathBuf,
    socket: PathBuf,
    is_valkey: bool,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts it and waits until it answers.
    pub fn start(binary: &Path) -> Self {
        let directory = tempfile::Builder::new().prefix("speed.").tempdir_in("/tmp").unwrap();
        let socket = directory.path().join("s");
        let process = Command::new(binary)
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()));
        let is_valkey = version(binary).contains("Valkey");
        let server = Self { process, binary: binary.to_owned(), socket, is_valkey, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.try_connect().is_err() {
            assert!(Instant::now() < deadline, "the server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn try_connect(&self) -> redis::RedisResult<Connection> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }

    /// Whether it is Valkey, not Redis.
    pub fn is_valkey(&self) -> bool {
        self.is_valkey
    }

    /// What runs.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// A connection.
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    /// What a command replies.
    pub fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        redis::cmd(command[0]).arg(&command[1..]).query(&mut self.connect()).unwrap()
    }

    /// Removes all keys, at once: freed later, they would slow what is measured next.
    pub fn empty(&self) {
        self.ask::<()>(&["FLUSHALL", "SYNC"]);
    }

    /// Loads a script and returns its SHA-1.
    pub fn load(&self, text: &str) -> String {
        self.ask(&["SCRIPT", "LOAD", text])
    }

    /// Seconds of processor time that its main thread has used.
    pub fn busy(&self) -> f64 {
        let info: String = self.ask(&["INFO", "cpu"]);
        ["used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"]
            .iter()
            .filter_map(|name| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()))
            .sum()
    }

    /// What a run took that says its seconds.
    pub fn metered(&self, run: impl FnOnce() -> f64) -> Run {
        let before = self.busy();
        let seconds = run();
        Run { seconds, busy: self.busy() - before }
    }

    /// The built binary, talking to this server.
    pub fn seckill(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill"));
        command.env_clear().arg("--url").arg(self.url()).args(arguments);
        command
    }

    /// `redis-cli` or `redis-benchmark`, talking to this server.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(name);
        command.arg("-s").arg(&self.socket).args(arguments);
        command
    }

    /// What a command of ours sends, as the server's MONITOR shows it: the last call of that name, with its arguments.
    pub fn observed(&self, arguments: &[&str], name: &str) -> Vec<String> {
        let log = self.socket.with_file_name("monitor");
        let out = std::fs::File::create(&log).unwrap();
        let mut monitor = self.tool("redis-cli", &["MONITOR"]).stdout(out).spawn().unwrap();
        let seen = |text: &str| std::fs::read_to_string(&log).unwrap().contains(text);
        while !seen("OK") {
            std::thread::sleep(Duration::from_millis(5));
        }
        timed(self.seckill(arguments));
        self.ask::<String>(&["ECHO", "the end"]);
        while !seen("\"the end\"") {
            std::thread::sleep(Duration::from_millis(5));
        }
        monitor.kill().unwrap();
        monitor.wait().unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        let mut calls = text.lines().filter(|line| !line.contains(" lua] ")).map(words);
        calls.rfind(|call| call.first().is_some_and(|word| word.eq_ignore_ascii_case(name))).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The words of a line of MONITOR: in quotes, with `\` before a quote or a backslash.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut escaped) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match (&mut word, c) {
            (Some(text), c) if escaped => {
                text.push(c);
                escaped = false;
            }
            (Some(_), '\\') => escaped = true,
            (Some(_), '"') => words.extend(word.take()),
            (Some(text), c) => text.push(c),
            (None, '"') => word = Some(String::new()),
            (None, _) => {}
        }
    }
    words
}

/// Runs a command to its end, its output thrown away, and gives the seconds it took.
pub fn timed(command: Command) -> f64 {
    timed_into(command, Stdio::null())
}

/// The same with its output sent elsewhere.
pub fn timed_into(mut command: Command, out: Stdio) -> f64 {
    let started = Instant::now();
    let status = command.stdout(out).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
    assert!(status.success(), "{command:?}: {status}");
    started.elapsed().as_secs_f64()
}

/// The most memory that a command took, in MB: what the kernel says while it runs, and it never says less later.
pub fn peak(mut command: Command) -> f64 {
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", process.id());
    let mut peak = 0.0_f64;
    let ended = loop {
        if let Some(ended) = process.try_wait().unwrap() {
            break ended;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        peak = peak.max(line.and_then(|kilobytes| kilobytes.parse::<f64>().ok()).unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(ended.success(), "{command:?}: {ended}");
    peak / 1024.0
}

/// `SECKILL_TEST_SERVER`, else Redis and Valkey on `PATH` or fetched by `scripts/servers`.
pub fn binaries() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("SECKILL_TEST_SERVER") {
        return vec![named.into()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join(".servers");
    let directories: Vec<PathBuf> = std::env::split_paths(&path).chain([fetched]).collect();
    let find = |name: &str| directories.iter().map(|directory| directory.join(name)).find(|file| file.is_file());
    let found: Vec<PathBuf> = ["redis-server", "valkey-server"].into_iter().filter_map(find).collect();
    assert!(!found.is_empty(), "no server to measure on: run `make bench`, or set SECKILL_TEST_SERVER");
    found
}

fn version(binary: &Path) -> String {
    let version = Command::new(binary).arg("--version").output().unwrap().stdout;
    String::from_utf8_lossy(&version).split(" sha=").next().unwrap_or_default().to_owned()
}

/// The server and the machine, in a line.
pub fn machine(binary: &Path) -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{}; {model}, {cores} cores", version(binary))
}
