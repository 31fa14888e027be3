//! Runs the built binary as a user would, and checks what came out.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use serde_json::Value;

use super::running::Running;
use super::server_binary::server_binary;

/// The binary under test: what `SECKILL_TEST_BINARY` names, such as a static one, else what cargo built.
pub fn binary() -> OsString {
    std::env::var_os("SECKILL_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_seckill").into())
}

/// A command line to be run, in an environment that is the same on every machine. It has no server
/// yet: `TestRedis::seckill` and `Proxy::seckill` name theirs.
pub fn seckill<const N: usize>(args: [&str; N]) -> Call {
    let mut command = Command::new(binary());
    command.args(args).env_clear();
    for kept in ["PATH", "HOME", "TMPDIR"] {
        command.envs(std::env::var_os(kept).map(|value| (kept, value)));
    }
    command
        .envs([("COLUMNS", "100"), ("TZ", "UTC"), ("SECKILL_OPERATOR", "tester@test")])
        .env("SECKILL_SERVER", server_binary())
        // Nor the contexts of who runs the tests.
        .env("XDG_CONFIG_HOME", "/nonexistent")
        // Never the server that a developer may have on the default port.
        .env("SECKILL_URL", "unix:///nonexistent/no-server-was-named.sock")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let call = Call { command, stdin: Vec::new(), stdin_file: None, stdout_limit: u64::MAX, person: Person::Absent };
    call.begin_with([libc::SIGINT, libc::SIGTERM, libc::SIGHUP], libc::SIG_DFL)
}

/// A call that is not yet made. `code` makes it, `spawn` makes it in the background.
#[must_use = "nothing runs before `.code(…)`, `.run()` or `.spawn()`"]
pub struct Call {
    pub(super) command: Command,
    pub(super) stdin: Vec<u8>,
    pub(super) stdin_file: Option<std::fs::File>,
    pub(super) stdout_limit: u64,
    pub(super) person: Person,
}

/// Who sits at a terminal.
pub(super) enum Person {
    Absent,
    /// Sees stderr.
    SeesErrors,
    /// Sees everything, and types this.
    Answers(String),
    /// Sees stdout, and types.
    AtScreen,
}

impl Call {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// A variable whose value need not be UTF-8.
    pub fn os_env(mut self, name: &str, value: &std::ffi::OsStr) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// More arguments, such as paths and ids that are made at run time.
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, more: impl IntoIterator<Item = S>) -> Self {
        self.command.args(more);
        self
    }

    /// What the tool reads on standard input; without it there is nothing to read.
    pub fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdin = text.as_ref().to_vec();
        self
    }

    /// A file that the shell would open for standard input, as in `< FILE`.
    pub fn stdin_file(mut self, file: std::fs::File) -> Self {
        self.stdin_file = Some(file);
        self
    }

    /// Begins with signals that are ignored (`SIG_IGN`), as behind `nohup` and in the background of a script, or not (`SIG_DFL`).
    #[allow(unsafe_code, reason = "signal(2) may be called between fork and exec")]
    pub fn begin_with<const N: usize>(mut self, signals: [libc::c_int; N], action: libc::sighandler_t) -> Self {
        let is_set = move |signal| unsafe { libc::signal(signal, action) } != libc::SIG_ERR;
        let set = move || signals.into_iter().all(is_set).then_some(()).ok_or_else(std::io::Error::last_os_error);
        unsafe { self.command.pre_exec(set) };
        self
    }

    /// Where it runs, instead of the root of the repository.
    pub fn in_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Reads only the first bytes of stdout and then closes the pipe, as `| head -c BYTES` does.
    pub fn stdout_closed_after(mut self, bytes: u64) -> Self {
        self.stdout_limit = bytes;
        self
    }

    /// The reader of stdout is gone before anything is written, as with `| true`.
    pub fn stdout_closed(mut self) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        self.command.stdout(writer);
        self
    }

    /// Stdout cannot be written: the disk is full.
    pub fn stdout_full(mut self) -> Self {
        self.command.stdout(std::fs::File::options().write(true).open("/dev/full").expect("/dev/full"));
        self
    }

    /// A person sits there and sees stderr, with all that is drawn for a terminal; stdout stays a pipe.
    pub fn seen(mut self) -> Self {
        self.person = Person::SeesErrors;
        self.env("TERM", "xterm")
    }

    /// A person sits there, sees everything, and types this: `stdout` then has all that the terminal shows, the typed
    /// text and what goes to stderr included.
    pub fn at_terminal(mut self, answer: &str) -> Self {
        self.person = Person::Answers(answer.to_owned());
        self.env("TERM", "dumb")
    }

    /// A person sits before a terminal of 100 columns and 30 lines that standard input and output are; stderr is a pipe.
    pub fn on_screen(mut self) -> Self {
        self.person = Person::AtScreen;
        self.env("TERM", "xterm").without_env("COLUMNS")
    }

    /// Runs to the end, and checks how it ended.
    #[track_caller]
    pub fn code(self, expected: i32) -> Outcome {
        self.run().code(expected)
    }

    /// Runs to the end. A minute is an end too: the process is killed, and the test fails.
    #[track_caller]
    pub fn run(self) -> Outcome {
        self.spawn().wait()
    }

    #[track_caller]
    pub fn spawn(self) -> Running {
        Running::start(self)
    }

    /// The command line, with what the test put into its environment, to be pasted into a shell.
    pub(super) fn shown(&self) -> String {
        let mut line = String::new();
        for (name, value) in self.command.get_envs() {
            if let (true, Some(value)) = (name.to_string_lossy().starts_with("SECKILL_"), value) {
                write!(line, "{}={} ", name.display(), value.display()).unwrap();
            }
        }
        line += "seckill";
        for arg in self.command.get_args() {
            let arg = arg.to_string_lossy();
            let plain = !arg.is_empty() && arg.chars().all(|c| c.is_alphanumeric() || "-_=./:,".contains(c));
            write!(line, " {}", if plain { arg.to_string() } else { format!("{arg:?}") }).unwrap();
        }
        line
    }
}

/// How a call ended. Every check gives it back, so that they chain.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The command line that was run.
    pub call: String,
    pub status: ExitStatus,
    /// The server that a change named on stderr, before anything else.
    pub target: Option<String>,
    pub stdout: String,
    /// Without the line of `target`.
    pub stderr: String,
    /// Whether a person sat there, whose terminal wraps lines between words.
    pub(super) is_at_terminal: bool,
}

/// Where a line is wrapped depends on the length of names, such as those of temporary files.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Outcome {
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        self.expect(self.status.code() == Some(expected), &format!("exit code {expected}"));
        self
    }

    #[track_caller]
    pub fn killed_by(self, signal: libc::c_int) -> Self {
        self.expect(self.status.signal() == Some(signal), &format!("death by signal {signal}"));
        self
    }

    fn has(&self, printed: &str, part: &str) -> bool {
        printed.contains(part) || self.is_at_terminal && unwrapped(printed).contains(&unwrapped(part))
    }

    #[track_caller]
    pub fn stdout_is(self, expected: &str) -> Self {
        self.expect(self.stdout == expected, &format!("stdout to be {expected:?}"));
        self
    }

    #[track_caller]
    pub fn stdout_has(self, part: &str) -> Self {
        self.expect(self.has(&self.stdout, part), &format!("stdout to have {part:?}"));
        self
    }

    #[track_caller]
    pub fn stdout_lacks(self, part: &str) -> Self {
        self.expect(!self.stdout.contains(part), &format!("stdout to lack {part:?}"));
        self
    }

    /// The whole of stderr; mostly `""`.
    #[track_caller]
    pub fn stderr(self, expected: &str) -> Self {
        self.expect(self.stderr == expected, &format!("stderr to be {expected:?}"));
        self
    }

    #[track_caller]
    pub fn stderr_has(self, part: &str) -> Self {
        self.expect(self.has(&self.stderr, part), &format!("stderr to have {part:?}"));
        self
    }

    #[track_caller]
    pub fn stderr_lacks(self, part: &str) -> Self {
        self.expect(!self.stderr.contains(part), &format!("stderr to lack {part:?}"));
        self
    }

    /// The server that a change named on stderr; of a failure under `-o json`, in its object.
    #[track_caller]
    pub fn on(self, target: &str) -> Self {
        self.expect(self.target.as_deref() == Some(target), &format!("to be on {target:?}, not {:?}", self.target));
        self
    }

    /// Stdout of `-o json`.
    #[track_caller]
    pub fn json(&self) -> Value {
        self.parse(&self.stdout)
    }

    /// Stdout of `-o jsonl`: a value a line.
    #[track_caller]
    pub fn jsonl(&self) -> Vec<Value> {
        let mut rows = Vec::new();
        for line in self.stdout.lines() {
            rows.push(self.parse(line));
        }
        rows
    }

    /// Stderr of a failure under `-o json`: one object and nothing else.
    #[track_caller]
    pub fn error_json(&self) -> Value {
        self.parse(&self.stderr)
    }

    /// The same, if notes or warnings come before it.
    #[track_caller]
    pub fn error_line(&self) -> Value {
        self.parse(self.stderr.lines().last().unwrap_or_default())
    }

    #[track_caller]
    fn parse(&self, text: &str) -> Value {
        match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => panic!("not JSON: {error}: {text:?}\n{}", self.shown()),
        }
    }

    #[track_caller]
    fn expect(&self, held: bool, expected: &str) {
        assert!(held, "expected {expected}\n{}", self.shown());
    }

    fn shown(&self) -> String {
        let Self { call, status, stdout, stderr, .. } = self;
        format!("$ {call}\n{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

/// Sends a signal to a process that this test started and has not yet waited for.
#[track_caller]
pub fn send_signal(pid: u32, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(pid).unwrap();
    #[allow(unsafe_code, reason = "std sends no signal but SIGKILL; kill(2) touches no memory")]
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "kill -{signal} {pid}: {}", std::io::Error::last_os_error());
}
