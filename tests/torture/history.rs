//! What was done and what was answered.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::schedule::{Order, What};

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
    /// When it began and ended, since the round did.
    pub time: (Duration, Duration),
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Event {
    /// Whether it did all that it was asked for, or was refused.
    pub fn is_answered(&self) -> bool {
        matches!(self.code, Some(0 | 3 | 7))
    }

    /// Whether nothing breaks any more.
    pub fn is_settled(&self) -> bool {
        self.actor == "settle"
    }

    /// What it printed, which is one value.
    pub fn row(&self) -> Result<Value, String> {
        serde_json::from_str(&self.stdout).map_err(|error| format!("not JSON: {error}: {}", self.stdout))
    }

    /// The order that it sends, under its request id also if the tool made that: then it is in what was printed.
    pub fn order(&self) -> Option<Order> {
        let What::Order(order) = &self.what else { return None };
        if !order.request.is_empty() {
            return Some(order.clone());
        }
        let printed = self.row().ok().and_then(|row| row["request"].as_str().map(str::to_owned));
        let request = printed.or_else(|| {
            let rest = self.stderr.split("--request ").nth(1)?;
            Some(rest.chars().take_while(|c| c.is_ascii_hexdigit() || *c == '-').collect())
        });
        Some(Order { request: request?, ..order.clone() })
    }

    /// Whole rows that it printed: a kill may have cut the last one.
    pub fn rows(&self) -> impl Iterator<Item = Result<Value, String>> {
        let whole = self.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).map_err(|error| format!("not JSON: {error}: {line}")))
    }
}

/// Everything that happened in a round, in order of its end.
pub struct History {
    begun: Instant,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// What is left of a round.
#[derive(Default)]
pub struct Progress {
    begun: usize,
    pub events: Vec<Event>,
    pub notes: Vec<String>,
    is_over: bool,
}

impl History {
    pub fn new() -> Self {
        Self { begun: Instant::now(), progress: Mutex::default(), changed: Condvar::new() }
    }

    pub fn now(&self) -> Duration {
        self.begun.elapsed()
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
    pub fn note(&self, text: &str) {
        let mut progress = self.progress.lock().unwrap();
        let line = format!("{:?}, after {} calls: {text}", self.now(), progress.events.len());
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
    pub fn finish(self) -> Progress {
        self.progress.into_inner().unwrap()
    }
}
