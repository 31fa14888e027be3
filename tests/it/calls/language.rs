//! A process that makes the printed calls of a language: the files that a backend would have, with a driver.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use tempfile::TempDir;

use crate::support::scripts::{shown, shown_of};
use crate::support::{LAYOUTS, PRODUCT, root, seckill};

pub const SCRIPTS: [&str; 5] = ["deduct", "refund", "multi_deduct", "hold", "settle"];
pub const LANGUAGES: [&str; 6] = ["java-jedis", "java-spring", "php", "go", "node", "python"];

/// Those of them that a layout has.
pub fn scripts_of(layout: &str) -> &'static [&'static str] {
    let of_all = if layout == PRODUCT.name { 3 } else { SCRIPTS.len() };
    &SCRIPTS[..of_all]
}

/// What a backend needs besides for sharded activities.
const OF_SHARDS: [&str; 3] = ["peek", "lend", "borrow"];
/// Languages that print it.
pub const SHARDED: [&str; 3] = ["java-jedis", "go", "python"];

/// The printed call for sharded activities, for a server without replicas.
fn sharded(language: &str) -> String {
    let text = printed("borrow", language, "cluster");
    let constant = text.lines().find(|line| line.contains("eplicas = 1 ") || line.contains("REPLICAS = 1")).unwrap();
    let alone = constant.replacen("= 1", "= 0", 1).replacen("=  1", "= 0", 1);
    text.replace(constant, &alone)
}

/// Files and command of a driver, compiled if need be.
#[derive(Debug)]
pub struct Language {
    pub name: &'static str,
    dir: TempDir,
    command: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

/// A script as the layout of this name has it.
fn shown_in(script: &'static str, layout: &str) -> &'static str {
    shown_of(script, LAYOUTS.into_iter().find(|known| known.name == layout).unwrap())
}

/// What `script show --lang` prints, asked for once.
pub fn printed(script: &str, language: &str, layout: &str) -> String {
    static PRINTED: OnceLock<Mutex<HashMap<[String; 3], String>>> = OnceLock::new();
    let which = [script, language, layout].map(str::to_owned);
    if let Some(known) = PRINTED.get_or_init(Mutex::default).lock().unwrap().get(&which) {
        return known.clone();
    }
    let text = seckill(["script", "show", script, "--lang", language, "-l", layout]).code(0).stderr("").stdout;
    PRINTED.get_or_init(Mutex::default).lock().unwrap().insert(which, text.clone());
    text
}

/// Whether the tests of a language are to be run: if `SECKILL_TEST_CLIENTS`, a list by `scripts/clients`, has it or, without
/// that, if what it needs is here.
fn is_at_hand(tool: &str) -> bool {
    if let Ok(list) = std::env::var("SECKILL_TEST_CLIENTS") {
        return list.split_whitespace().any(|listed| listed == tool);
    }
    let runs =
        |command: &str, arg: &str| Command::new(command).arg(arg).output().is_ok_and(|done| done.status.success());
    match tool {
        "python" => root().join(".clients/python/redis").is_dir() && runs("python3", "--version"),
        "node" => root().join(".clients/node/node_modules/ioredis").is_dir() && runs("node", "--version"),
        "php" => runs("php", "--version") && runs("php", "--ri=redis"),
        "go" => runs("go", "version"),
        _ => runs("javac", "-version"),
    }
}

impl Language {
    /// The driver of a language with the calls of a layout; `None`, said on stderr, if it cannot be run here.
    pub fn get(name: &'static str, layout: &str) -> Option<Self> {
        let tool = name.split('-').next().unwrap();
        if !is_at_hand(tool) {
            eprintln!("skipped: no {tool} here, or no client for it; see scripts/clients");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let language = match tool {
            "python" => {
                Self::script(name, dir, layout, "python3", "py", vec![("PYTHONPATH", root().join(".clients/python"))])
            }
            "node" => {
                let language = Self::script(name, dir, layout, "node", "mjs", Vec::new());
                let modules = root().join(".clients/node/node_modules");
                std::os::unix::fs::symlink(modules, language.dir.path().join("node_modules")).unwrap();
                language
            }
            "php" => Self::script(name, dir, layout, "php", "php", Vec::new()),
            "go" => Self::go(dir, layout),
            _ => Self::java(name, dir, layout),
        };
        Some(language)
    }

    fn drivers(of: &str) -> PathBuf {
        root().join("tests/it/calls/drivers").join(of)
    }

    fn script(
        name: &'static str,
        dir: TempDir,
        layout: &str,
        command: &str,
        extension: &str,
        environment: Vec<(&'static str, PathBuf)>,
    ) -> Self {
        for script in scripts_of(layout) {
            fs::write(dir.path().join(format!("{script}.{extension}")), printed(script, name, layout)).unwrap();
            fs::write(dir.path().join(format!("{script}.lua")), shown_in(script, layout)).unwrap();
        }
        if name == "python" {
            OF_SHARDS
                .iter()
                .for_each(|script| fs::write(dir.path().join(format!("{script}.lua")), shown(script)).unwrap());
            fs::write(dir.path().join("sharded.py"), sharded(name)).unwrap();
        }
        let driver = dir.path().join(format!("driver.{extension}"));
        fs::copy(Self::drivers(name).join(format!("driver.{extension}")), &driver).unwrap();
        Self { name, dir, command: vec![command.into(), driver.display().to_string()], environment }
    }

    fn go(dir: TempDir, layout: &str) -> Self {
        let at = dir.path();
        for script in SCRIPTS {
            let package = at.join(script.replace('_', ""));
            fs::create_dir(&package).unwrap();
            fs::write(package.join(format!("{script}.go")), printed(script, "go", layout)).unwrap();
            fs::write(package.join(format!("{script}.lua")), shown_in(script, layout)).unwrap();
        }
        let package = at.join("sharded");
        fs::create_dir(&package).unwrap();
        fs::write(package.join("sharded.go"), sharded("go")).unwrap();
        for script in OF_SHARDS.into_iter().chain(["deduct"]) {
            fs::write(package.join(format!("{script}.lua")), shown(script)).unwrap();
        }
        let stand_in = at.join("redis");
        fs::create_dir(&stand_in).unwrap();
        fs::copy(Self::drivers("go").join("main.go"), at.join("main.go")).unwrap();
        fs::copy(Self::drivers("go").join("redis/redis.go"), stand_in.join("redis.go")).unwrap();
        fs::write(stand_in.join("go.mod"), "module github.com/redis/go-redis/v9\n\ngo 1.18\n").unwrap();
        let needs = "module driver\n\ngo 1.18\n\nrequire github.com/redis/go-redis/v9 v9.0.0\n\nreplace github.com/redis/go-redis/v9 => ./redis\n";
        fs::write(at.join("go.mod"), needs).unwrap();
        let mut build = Command::new("go");
        build.args(["build", "-o", "driver", "."]).envs([("GOFLAGS", "-mod=mod"), ("GOPROXY", "off")]);
        build.env("GOCACHE", cache("go"));
        succeeds(build.current_dir(at));
        let command = vec![at.join("driver").display().to_string()];
        Self { name: "go", dir, command, environment: Vec::new() }
    }

    fn java(name: &'static str, dir: TempDir, layout: &str) -> Self {
        let at = dir.path();
        let classes = ["Deduct", "Refund", "MultiDeduct", "Hold", "Settle"];
        for (script, class) in SCRIPTS.into_iter().zip(classes) {
            fs::write(at.join(format!("{class}.java")), printed(script, name, layout)).unwrap();
            fs::write(at.join(format!("{script}.lua")), shown_in(script, layout)).unwrap();
        }
        let mut sources =
            vec!["Driver.java", "Deduct.java", "Refund.java", "MultiDeduct.java", "Hold.java", "Settle.java"];
        if name == "java-jedis" {
            OF_SHARDS.iter().for_each(|script| fs::write(at.join(format!("{script}.lua")), shown(script)).unwrap());
            fs::write(at.join("ShardedActivity.java"), sharded(name)).unwrap();
            sources.push("ShardedActivity.java");
        }
        let driver = if name == "java-jedis" { "DriverJedis.java" } else { "DriverSpring.java" };
        fs::copy(Self::drivers("java").join(driver), at.join("Driver.java")).unwrap();
        let mut build = Command::new("javac");
        build
            .args(["-Xlint:all,-serial", "-Werror", "-proc:none", "-d", "."])
            .arg("-sourcepath")
            .arg(Self::drivers("java"));
        succeeds(build.args(sources).current_dir(at));
        // Little memory, and no compiler: it runs for a second.
        let command = ["java", "-Xint", "-Xshare:auto", "-XX:+UseSerialGC", "-cp", &at.display().to_string(), "Driver"];
        Self { name, dir, command: command.map(str::to_owned).to_vec(), environment: Vec::new() }
    }

    /// Starts it with what listens on that socket as its server.
    pub fn start(&self, socket: &Path) -> Driver {
        let port = forward(socket.to_owned());
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg(port.to_string()).current_dir(self.dir.path());
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect(self.name);
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Driver { name: self.name, process, input, output: BufReader::new(output) }
    }
}

/// Compiled parts are kept: Go's own library takes long.
fn cache(of: &str) -> PathBuf {
    let dir = root().join(".clients/cache").join(of);
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[track_caller]
fn succeeds(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&said));
}

/// A process that makes a call for each line.
pub struct Driver {
    name: &'static str,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Driver {
    /// A call, its words separated by spaces; and what it returned, statuses by their names.
    #[track_caller]
    pub fn call(&mut self, line: &str) -> String {
        let line = line.replace(' ', "\t");
        writeln!(self.input.as_mut().unwrap(), "{line}").expect(self.name);
        let mut reply = String::new();
        self.output.read_line(&mut reply).expect(self.name);
        let reply = reply.trim_end();
        assert!(!reply.is_empty(), "{}: the driver ended at {line:?}", self.name);
        if reply.starts_with("refused: ") {
            return reply.to_owned();
        }
        // `OutOfStock`, `OUT_OF_STOCK` and `out_of_stock` are one.
        reply.replace('_', "").to_lowercase()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.input.take());
        if thread::panicking() {
            self.process.kill().ok();
        }
        self.process.wait().ok();
    }
}

/// A port that leads to a unix socket, for clients that only know ports. It is closed with the process of the tests.
fn forward(socket: PathBuf) -> u16 {
    static OPEN: OnceLock<Mutex<Vec<Arc<TcpListener>>>> = OnceLock::new();
    let listener = Arc::new(TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    let port = listener.local_addr().unwrap().port();
    OPEN.get_or_init(Mutex::default).lock().unwrap().push(Arc::clone(&listener));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // Without a server, the client sees a connection that ends.
            let Ok(server) = UnixStream::connect(&socket) else { continue };
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                pass(&from, &to);
                to.shutdown(std::net::Shutdown::Both).ok();
            });
            thread::spawn(move || {
                pass(&server, &client);
                client.shutdown(std::net::Shutdown::Both).ok();
            });
        }
    });
    port
}

fn pass<A, B>(from: &A, to: &B)
where
    for<'a> &'a A: Read,
    for<'a> &'a B: Write,
{
    let (mut from, mut to, mut buffer) = (from, to, [0; 16384]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
