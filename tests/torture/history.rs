//! What was done and what was answered, each with when it happened.

use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};

use crate::schedule::What;

/// A moment: how long each file of writes was, and a count that grows from moment to moment.
#[derive(Debug, Clone, Default)]
pub struct Moment {
    pub tick: u64,
    pub at: Vec<u64>,
}

/// One call of the tool.
#[derive(Debug)]
pub struct Event {
    /// Also in the `by` of what it writes to a ledger.
    pub number: usize,
    pub actor: String,
    pub what: What,
    /// Whether it waits until a replica has what it wrote.
    pub waits: bool,
    /// The command line.
    pub call: String,
    pub from: Moment,
    /// When it had ended.
    pub to: Moment,
    /// When every call of it that was late had reached the server.
    pub rest: Moment,
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Where writes continue: another file, which need not have all that the one before had.
#[derive(Debug, Clone)]
pub enum Turn {
    /// A server went back to older data: the first bytes of its file, which continues as another one.
    Cut { from: usize, to: usize, tick: u64, start: u64, lost: bool },
    /// A replica became the primary.
    Failover(Failover),
    /// A slot went to another primary.
    Move { slot: u16, from: usize, to: usize, before: Moment, after: Moment },
}

/// A replica became the primary.
#[derive(Debug, Clone)]
pub struct Failover {
    pub from: usize,
    pub to: usize,
    /// From when on the replica may have been asked.
    pub born: u64,
    /// From when on the old primary was asked no more.
    pub dead: u64,
    /// The length of the old primary's file when it stopped answering. What it writes behind that, once it continues, was
    /// sent long ago.
    pub stopped_at: Option<u64>,
    /// Whether the replica had everything, so that nothing may be lost.
    pub in_step: bool,
}

/// A file of writes.
enum File {
    /// It may grow.
    Open(PathBuf),
    /// What it had in the end.
    Ended(Vec<u8>),
}

/// Everything that happened in a round, in order of its end.
pub struct History {
    files: Mutex<Files>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

struct Files {
    tick: u64,
    files: Vec<File>,
    turns: Vec<Turn>,
}

#[derive(Default)]
struct Progress {
    begun: usize,
    events: Vec<Event>,
    notes: Vec<String>,
    is_over: bool,
}

/// What is left of a round.
pub struct Record {
    pub events: Vec<Event>,
    pub notes: Vec<String>,
    /// What each file had in the end.
    pub files: Vec<Vec<u8>>,
    pub turns: Vec<Turn>,
}

impl History {
    /// Of servers that write to these files.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let files = paths.into_iter().map(File::Open).collect();
        let files = Files { tick: 0, files, turns: Vec::new() };
        Self { files: Mutex::new(files), progress: Mutex::default(), changed: Condvar::new() }
    }

    pub fn now(&self) -> Moment {
        self.files.lock().unwrap().now()
    }

    /// While the only server is down: cuts its file where `choose` says, which gets all of it. If that is not its end, it
    /// continues as another file.
    pub fn cut(&self, lost: bool, choose: impl FnOnce(&[u8]) -> u64) {
        let mut files = self.files.lock().unwrap();
        let Some(File::Open(path)) = files.files.last() else { panic!("the file ended") };
        let path = path.clone();
        let bytes = fs::read(&path).unwrap();
        let start = choose(&bytes);
        if start < bytes.len() as u64 {
            fs::File::options().write(true).open(&path).unwrap().set_len(start).unwrap();
            let (from, to, tick) = (files.files.len() - 1, files.files.len(), files.now().tick);
            files.files[from] = File::Ended(bytes);
            files.files.push(File::Open(path));
            files.turns.push(Turn::Cut { from, to, tick, start, lost });
        }
    }

    /// Records where the writes continue.
    pub fn turn(&self, turn: Turn) {
        self.files.lock().unwrap().turns.push(turn);
    }

    pub fn begin(&self) -> usize {
        let mut progress = self.progress.lock().unwrap();
        progress.begun += 1;
        progress.begun
    }

    pub fn add(&self, event: Event) {
        self.progress.lock().unwrap().events.push(event);
        self.changed.notify_all();
    }

    pub fn with_events<T>(&self, read: impl FnOnce(&[Event]) -> T) -> T {
        read(&self.progress.lock().unwrap().events)
    }

    /// Something that is no call: a fault.
    pub fn note(&self, text: String) {
        let mut progress = self.progress.lock().unwrap();
        let line = format!("after {} calls: {text}", progress.events.len());
        progress.notes.push(line);
    }

    /// No new work from now on; waiting ends.
    pub fn end(&self) {
        self.progress.lock().unwrap().is_over = true;
        self.changed.notify_all();
    }

    pub fn is_over(&self) -> bool {
        self.progress.lock().unwrap().is_over
    }

    pub fn count(&self) -> usize {
        self.progress.lock().unwrap().events.len()
    }

    /// Waits until so many calls have ended; false if the round ended before.
    pub fn wait_for(&self, count: usize) -> bool {
        let progress = self.progress.lock().unwrap();
        let progress = self.changed.wait_while(progress, |it| it.events.len() < count && !it.is_over).unwrap();
        !progress.is_over
    }

    /// Everything, once all actors are done.
    pub fn finish(self) -> Record {
        let Progress { events, notes, .. } = self.progress.into_inner().unwrap();
        let Files { files, turns, .. } = self.files.into_inner().unwrap();
        let read = |file| match file {
            File::Open(path) => fs::read(path).unwrap(),
            File::Ended(bytes) => bytes,
        };
        Record { events, notes, files: files.into_iter().map(read).collect(), turns }
    }
}

impl Files {
    fn now(&mut self) -> Moment {
        self.tick += 1;
        let len = |file: &File| match file {
            File::Open(path) => fs::metadata(path).expect("a file of writes").len(),
            File::Ended(bytes) => bytes.len() as u64,
        };
        Moment { tick: self.tick, at: self.files.iter().map(len).collect() }
    }
}
