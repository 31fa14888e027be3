//! A server of our own for a measurement, gone at its end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

/// A running server on a unix socket in a directory of its own.
pub struct Server {
    process: Child,
    socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts it and waits until it answers.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("speed.").tempdir_in("/tmp").unwrap();
        let socket = directory.path().join("s");
        let process = Command::new(binary())
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, socket, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.try_connect().is_err() {
            assert!(Instant::now() < deadline, "the server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn try_connect(&self) -> redis::RedisResult<Connection> {
        let mut connection = redis::Client::open(format!("unix://{}", self.socket.display()))?.get_connection()?;
        redis::cmd("PING").exec(&mut connection)?;
        Ok(connection)
    }

    /// A connection.
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    /// What a command replies.
    pub fn ask<T: FromRedisValue>(&self, command: &[&str]) -> T {
        redis::cmd(command[0]).arg(&command[1..]).query(&mut self.connect()).unwrap()
    }

    /// Seconds of processor time that its main thread has used.
    pub fn busy(&self) -> f64 {
        let info: String = self.ask(&["INFO", "cpu"]);
        ["used_cpu_sys_main_thread:", "used_cpu_user_main_thread:"]
            .iter()
            .filter_map(|name| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok()))
            .sum()
    }

    /// The built binary, talking to this server.
    pub fn seckill(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seckill"));
        command.env_clear().arg("--url").arg(format!("unix://{}", self.socket.display())).args(arguments);
        command
    }

    /// `redis-cli` or `redis-benchmark`, talking to this server.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(name);
        command.arg("-s").arg(&self.socket).args(arguments);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command to its end, its output thrown away, and gives the seconds it took.
pub fn timed(mut command: Command) -> f64 {
    let started = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
    assert!(status.success(), "{command:?}: {status}");
    started.elapsed().as_secs_f64()
}

/// `SECKILL_TEST_SERVER`, else a server on `PATH`, else one that `scripts/servers` fetched.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("SECKILL_TEST_SERVER") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new(env!("CARGO_MANIFEST_DIR")).join(".servers")])
        .flat_map(|directory| [directory.join("redis-server"), directory.join("valkey-server")])
        .find(|candidate| candidate.is_file())
        .expect("no server to measure on: run `make bench`, or set SECKILL_TEST_SERVER")
}

/// The machine and the server, in a line.
pub fn machine() -> String {
    let version = Command::new(binary()).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).split(" sha=").next().unwrap_or_default().to_owned();
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{model}, {cores} cores; {version}")
}
