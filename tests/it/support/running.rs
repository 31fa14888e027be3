//! A call of the tool that is under way: wait for what it says, send it signals, wait for its end.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::seckill::{Call, Outcome, Person, send_signal};
use super::terminal::{Screen, frames};
use super::{PATIENCE, terminal};

/// No call takes this long; one that does hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A process that is killed when this value goes and nobody waited for it.
pub struct Running {
    call: String,
    process: Child,
    stdout: Arc<Stream>,
    stderr: Arc<Stream>,
    /// The terminal of a person.
    screen: Option<Screen>,
    is_at_terminal: bool,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut call: Call) -> Self {
        let shown = call.shown();
        let stdin = match call.stdin_file.take() {
            Some(file) => Stdio::from(file),
            None if call.stdin.is_empty() => Stdio::null(),
            None => Stdio::piped(),
        };
        if matches!(call.person, Person::Absent | Person::SeesErrors) {
            call.command.stdin(stdin);
        }
        let is_at_terminal = matches!(call.person, Person::SeesErrors | Person::Answers(_));
        let screen = seat(&mut call);
        let held = screen.as_ref().map(Screen::of);
        let (seen_out, seen_err) = if let Person::SeesErrors = call.person { (None, screen) } else { (screen, None) };
        let mut process = call.command.spawn().expect("the built binary starts");
        // Ours is a copy of the process's side of the terminal: the screen ends only when nobody holds one.
        call.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(mut pipe) = process.stdin.take() {
            // From a thread: a tool that stops reading must not block the test. It may well stop.
            thread::spawn(move || pipe.write_all(&call.stdin).ok());
        }
        let stdout = match (seen_out, process.stdout.take()) {
            (Some(screen), _) => Stream::read(screen),
            (None, Some(stdout)) => Stream::read(stdout.take(call.stdout_limit)),
            // It goes where the test said.
            (None, None) => Stream::read(std::io::empty()),
        };
        let stderr = match (seen_err, process.stderr.take()) {
            (Some(screen), _) => Stream::read(screen),
            (None, Some(stderr)) => Stream::read(stderr),
            (None, None) => Stream::read(std::io::empty()),
        };
        Self { call: shown, process, stdout, stderr, screen: held, is_at_terminal }
    }

    #[track_caller]
    pub fn signal(&self, signal: libc::c_int) {
        send_signal(self.process.id(), signal);
    }

    /// Waits until the process, and not the system, decides what a signal does.
    #[track_caller]
    pub fn wait_until_it_catches(&self, signal: libc::c_int) {
        super::wait_until("it catches the signal", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
            let signals = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(signals, 16).unwrap() >> (signal - 1) & 1 == 1
        });
    }

    /// Presses Ctrl-C, and waits for the end.
    #[track_caller]
    pub fn interrupt(self) -> Outcome {
        self.signal(libc::SIGINT);
        self.wait().code(130)
    }

    /// Waits until the process has that many threads: one listens for signals, another reads what is no file.
    #[track_caller]
    pub fn wait_for_threads(&self, count: usize) {
        let tasks = format!("/proc/{}/task", self.process.id());
        super::wait_until("the threads run", || std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() >= count));
    }

    /// Waits until stdout has that text.
    #[track_caller]
    pub fn wait_for_stdout(&self, part: &str) {
        self.wait_for(&self.stdout, part, |text| text.contains(part));
    }

    /// Waits until stderr has that text.
    #[track_caller]
    pub fn wait_for_stderr(&self, part: &str) {
        self.wait_for(&self.stderr, part, |text| text.contains(part));
    }

    /// Waits until stderr is as wanted.
    #[track_caller]
    pub fn wait_until_stderr(&self, what: &str, holds: impl Fn(&str) -> bool) {
        self.wait_for(&self.stderr, what, holds);
    }

    /// The terminal of a call that is on screen.
    #[track_caller]
    pub fn screen(&self) -> &Screen {
        self.screen.as_ref().expect("a call that is on screen")
    }

    /// Waits until the last frame that was drawn is as wanted, and gives its lines.
    #[track_caller]
    pub fn wait_for_frame(&self, what: &str, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
        let last = |text: &str| frames(text).pop().filter(|lines| holds(lines));
        self.wait_for(&self.stdout, what, |text| last(text).is_some());
        frames(&self.stdout.text()).into_iter().rev().find(|lines| holds(lines)).expect("it was there")
    }

    /// Waits until stdout is as wanted.
    #[track_caller]
    pub fn wait_until_stdout(&self, what: &str, holds: impl Fn(&str) -> bool) {
        self.wait_for(&self.stdout, what, holds);
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("the tool's state").is_some()
    }

    /// Whether a signal has stopped it.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        let deadline = Instant::now() + TIME_LIMIT;
        // Its end shows first as the end of both streams: no polling while it runs.
        let streams_ended = [&self.stdout, &self.stderr].iter().all(|it| it.wait(deadline, |read| read.ended));
        let status = loop {
            match self.process.try_wait().expect("the tool's end") {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        let call = &self.call;
        let printed = format!("$ {call}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---");
        let status = status.unwrap_or_else(|| panic!("hangs: still running after {TIME_LIMIT:?}\n{printed}"));
        assert!(streams_ended, "left a process behind that holds its output open\n{printed}");
        let (target, stderr) = without_target(stderr);
        Outcome { call: call.clone(), status, target, stdout, stderr, is_at_terminal: self.is_at_terminal }
    }

    #[track_caller]
    fn wait_for(&self, stream: &Stream, what: &str, holds: impl Fn(&str) -> bool) {
        if !stream.wait(Instant::now() + PATIENCE, |read| holds(&read.text())) {
            let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
            panic!("waited for {what:?}\n$ {}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---", self.call);
        }
    }
}

/// Connects a person's terminal to a call; gives the side that the person sees.
fn seat(call: &mut Call) -> Option<File> {
    if let Person::Absent = call.person {
        return None;
    }
    let (mut screen, process) = terminal::pair();
    let end = || process.try_clone().expect("the process's side of the terminal");
    match &call.person {
        Person::Absent => &mut call.command,
        Person::SeesErrors => call.command.stderr(end()),
        Person::AtScreen => call.command.stdin(end()).stdout(end()),
        Person::Answers(answer) => {
            screen.write_all(answer.as_bytes()).expect("the terminal takes what is typed");
            call.command.stdin(end()).stdout(end()).stderr(end())
        }
    };
    Some(screen)
}

/// Takes the line apart that names the server of a change: nearly every call of a test has one.
fn without_target(stderr: String) -> (Option<String>, String) {
    let line = stderr.split_inclusive('\n').find(|line| line.starts_with("note: on ")).map(str::to_owned);
    match line {
        Some(line) => {
            let target = line.trim_start_matches("note: on ").trim_end().to_owned();
            (Some(target), stderr.replacen(&line, "", 1))
        }
        None => (None, stderr),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// What came out of one of the two streams so far, filled by a thread.
#[derive(Default)]
struct Stream {
    read: Mutex<Progress>,
    grown: Condvar,
}

#[derive(Default)]
struct Progress {
    bytes: Vec<u8>,
    ended: bool,
}

impl Progress {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Stream {
    fn read(mut pipe: impl Read + Send + 'static) -> Arc<Self> {
        let stream = Arc::new(Self::default());
        let filled = Arc::clone(&stream);
        thread::spawn(move || {
            let mut chunk = vec![0; 64 * 1024];
            loop {
                let count = pipe.read(&mut chunk).unwrap_or(0);
                let mut read = filled.read.lock().unwrap();
                read.bytes.extend_from_slice(&chunk[..count]);
                read.ended = count == 0;
                filled.grown.notify_all();
                if read.ended {
                    return;
                }
            }
        });
        stream
    }

    /// Waits for what is wanted; false if the stream ended, or the deadline came, without it.
    fn wait(&self, deadline: Instant, wanted: impl Fn(&Progress) -> bool) -> bool {
        let mut read = self.read.lock().unwrap();
        while !wanted(&read) {
            let left = deadline.saturating_duration_since(Instant::now());
            if read.ended || left.is_zero() {
                return false;
            }
            read = self.grown.wait_timeout(read, left).unwrap().0;
        }
        true
    }

    fn text(&self) -> String {
        self.read.lock().unwrap().text()
    }
}
