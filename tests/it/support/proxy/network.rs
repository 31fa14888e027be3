//! What all connections of a proxy share: the faults, and a count of what went over it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::super::PATIENCE;
use super::super::resp::command_name;
use super::link::{Link, read_value};
use super::{Fault, When};

/// As a map of a cluster begins an address.
const HOST: &[u8] = b"127.0.0.1\r\n:";

/// Says what happens to a command of this name.
type Decide = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// What all connections share.
#[derive(Default)]
pub struct Network {
    pub server: PathBuf,
    /// Of a cluster: the port of each node, and that of the proxy before it.
    pub names: Vec<(u16, u16)>,
    pub state: Mutex<State>,
    pub changed: Condvar,
}

#[derive(Default)]
pub struct State {
    pub armed: Option<(When, Fault)>,
    pub connections: usize,
    /// Threads that pass on what they read.
    pub directions: usize,
    pub round_trips: usize,
    pub commands: Vec<String>,
    pub held: Vec<Vec<u8>>,
    pub decide: Option<Decide>,
    /// Calls that come late, each with the number of the command before which it comes.
    pub late: Vec<(usize, Vec<u8>)>,
    /// Whether a reply waits for `release`.
    pub is_holding: bool,
    pub open: Vec<UnixStream>,
    pub closing: bool,
}

impl Network {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Serves one connection from two threads, one a direction. False if the proxy is closing.
    pub fn open(self: &Arc<Self>, client: UnixStream) -> bool {
        let mut state = self.state();
        if state.closing {
            return false;
        }
        state.connections += 1;
        // A server that is down shows as a connection that closes at once.
        let Ok(link) = Link::new(client, &self.server) else {
            return true;
        };
        state.directions += 2;
        state.open.extend([link.client.try_clone(), link.server.try_clone()].map(Result::unwrap));
        drop(state);
        let link = Arc::new(link);
        let (commands, replies) = ((Arc::clone(&link), Arc::clone(self)), (link, Arc::clone(self)));
        thread::spawn(move || {
            let (link, network) = commands;
            link.pass_commands(&network);
            link.close();
            network.close();
        });
        thread::spawn(move || {
            let (link, network) = replies;
            link.pass_replies(&network);
            link.answer_no_more();
            link.close();
            network.close();
        });
        true
    }

    /// Lets a node's reply name proxies where it names nodes.
    pub fn rename(&self, reply: Vec<u8>) -> Vec<u8> {
        let is_redirection = reply.starts_with(b"-MOVED ") || reply.starts_with(b"-ASK ");
        if !is_redirection && !reply.windows(HOST.len()).any(|part| part == HOST) {
            return reply;
        }
        let mut text = String::from_utf8_lossy(&reply).into_owned();
        for (node, proxy) in &self.names {
            text = text.replace(&format!("127.0.0.1\r\n:{node}\r\n"), &format!("127.0.0.1\r\n:{proxy}\r\n"));
            text = text.replace(&format!("127.0.0.1:{node}\r\n"), &format!("127.0.0.1:{proxy}\r\n"));
        }
        text.into_bytes()
    }

    fn close(&self) {
        self.state().directions -= 1;
        self.changed.notify_all();
    }

    /// Holds a reply until it is released, or until the proxy goes.
    pub fn hold(&self) {
        let mut state = self.state();
        state.is_holding = !state.closing;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.is_holding).unwrap());
    }

    /// Takes note of a command, and says what happens to it.
    pub fn fate(&self, command: &[u8], starts_round_trip: bool) -> Option<Fault> {
        let mut state = self.state();
        let name = command_name(command);
        state.commands.push(name.clone());
        state.round_trips += usize::from(starts_round_trip);
        self.changed.notify_all();
        let number = state.commands.len();
        let (due, later) = std::mem::take(&mut state.late).into_iter().partition(|(due, _)| *due <= number);
        state.late = later;
        let armed = state.fate_of_last(command);
        match armed {
            Some(Fault::Late | Fault::Twice) => state.late.push((number + 1, command.to_vec())),
            Some(Fault::Later) => state.late.push((number + 20, command.to_vec())),
            _ => {}
        }
        drop(state);
        let due: Vec<(usize, Vec<u8>)> = due;
        self.deliver(due.into_iter().map(|(_, command)| command).collect());
        armed
    }

    /// Lets the server run these calls, each on a connection of its own. Nobody reads what it replies, and a server that
    /// is down never hears of them.
    pub fn deliver(&self, calls: Vec<Vec<u8>>) {
        for call in calls {
            let Ok(mut server) = UnixStream::connect(&self.server) else { continue };
            server.set_read_timeout(Some(PATIENCE)).ok();
            if server.write_all(&call).is_ok() {
                read_value(&mut server, &mut Vec::new());
            }
        }
    }
}

impl State {
    /// What happens to the command that came last.
    fn fate_of_last(&mut self, command: &[u8]) -> Option<Fault> {
        let name = self.commands.last()?;
        let Some((when, fault)) = self.armed.clone() else {
            return self.decide.as_mut()?(name);
        };
        let hit = match &when {
            When::Command(n) => *n == self.commands.len(),
            When::Next(wanted) => name == wanted,
            When::With(text) => command.windows(text.len()).any(|part| part == text.as_bytes()),
            When::Always => true,
        };
        if hit && matches!(when, When::Command(_) | When::Next(_)) {
            self.armed = None;
        }
        hit.then_some(fault)
    }
}
