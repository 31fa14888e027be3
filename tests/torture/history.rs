//! What was done and what was answered, each with when it happened.

use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};

use crate::schedule::What;

/// A moment: the length of the append-only file, and how often the server went back to older data before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub segment: usize,
    pub at: u64,
}

/// One call of the tool.
#[derive(Debug)]
pub struct Event {
    /// Also in the `by` of what it writes to a ledger.
    pub number: usize,
    pub actor: String,
    pub what: What,
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

/// The server's data up to the moment when it went back to older data.
pub struct Segment {
    /// Where the timeline before ends and this one begins.
    pub start: u64,
    /// The whole file; `None` for the last one, which is still on disk.
    pub bytes: Option<Vec<u8>>,
    /// Whether whole groups were lost at its end.
    pub lost: bool,
}

/// Everything that happened in a round, in order of its end.
pub struct History {
    pub aof: PathBuf,
    segments: Mutex<Vec<Segment>>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    begun: usize,
    events: Vec<Event>,
    notes: Vec<String>,
    is_over: bool,
}

impl History {
    pub fn new(aof: PathBuf) -> Self {
        let first = Segment { start: 0, bytes: None, lost: false };
        Self { aof, segments: Mutex::new(vec![first]), progress: Mutex::default(), changed: Condvar::new() }
    }

    pub fn now(&self) -> Moment {
        let segments = self.segments.lock().unwrap();
        let at = fs::metadata(&self.aof).expect("the append-only file").len();
        Moment { segment: segments.len() - 1, at }
    }

    /// While the server is down: cuts the file where `choose` says, which gets all of it, and begins a new segment if
    /// that is not its end.
    pub fn cut(&self, lost: bool, choose: impl FnOnce(&[u8]) -> u64) -> u64 {
        let mut segments = self.segments.lock().unwrap();
        let bytes = fs::read(&self.aof).unwrap();
        let start = choose(&bytes);
        if start < bytes.len() as u64 {
            fs::File::options().write(true).open(&self.aof).unwrap().set_len(start).unwrap();
            segments.last_mut().unwrap().bytes = Some(bytes);
            segments.last_mut().unwrap().lost = lost;
            segments.push(Segment { start, bytes: None, lost: false });
        }
        start
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

    /// Everything, once all actors are done. The last segment gets its bytes from the file.
    pub fn finish(self) -> (Vec<Event>, Vec<String>, Vec<Segment>) {
        let Progress { events, notes, .. } = self.progress.into_inner().unwrap();
        let mut segments = self.segments.into_inner().unwrap();
        segments.last_mut().unwrap().bytes = Some(fs::read(&self.aof).unwrap());
        (events, notes, segments)
    }
}
