//! One connection of a proxy: commands go one way, replies the other, until a fault stops them.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread;

use super::super::PATIENCE;
use super::super::resp::take_value;
use super::Fault;
use super::network::Network;

/// One client, and the server it believes it speaks to.
pub struct Link {
    pub client: UnixStream,
    pub server: UnixStream,
    in_flight: Mutex<InFlight>,
    answered: Condvar,
}

#[derive(Default)]
struct InFlight {
    /// That of each command whose reply is still to come; replies come in the same order.
    fates: VecDeque<Option<Fault>>,
    reply_under_way: bool,
}

impl Link {
    pub fn new(client: UnixStream, server: &Path) -> std::io::Result<Self> {
        let server = UnixStream::connect(server)?;
        Ok(Self { client, server, in_flight: Mutex::default(), answered: Condvar::new() })
    }

    pub fn close(&self) {
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
    }

    /// Until the client hangs up, or a fault does.
    pub fn pass_commands(&self, network: &Network) -> Option<()> {
        let (mut client, mut server) = (&self.client, &self.server);
        let mut read = Vec::new();
        loop {
            // Commands that arrive together are one round trip, and so are those sent before the
            // last reply was there.
            let arrived_alone = read.is_empty();
            let command = read_value(&mut client, &mut read)?;
            let starts_round_trip = arrived_alone && self.in_flight.lock().unwrap().fates.is_empty();
            let fate = network.fate(&command, starts_round_trip);
            match fate {
                Some(Fault::LoseRequest | Fault::Late | Fault::Later) => {
                    self.wait_for_replies();
                    return None;
                }
                Some(Fault::CutRequest(bytes)) => {
                    self.wait_for_replies();
                    return server.write_all(&command[..bytes.min(command.len())]).ok();
                }
                Some(Fault::HangRequest) => {
                    network.state().held.push(command);
                    network.changed.notify_all();
                    return std::io::copy(&mut client, &mut std::io::sink()).map(drop).ok();
                }
                _ => {
                    if fate == Some(Fault::HoldRequest) {
                        network.hold();
                    }
                    self.in_flight.lock().unwrap().fates.push_back(fate);
                    let is_refused = matches!(fate, Some(Fault::Refuse(_) | Fault::Reply(_)));
                    // Something else gets a reply in its turn, which is not passed on.
                    server.write_all(if is_refused { b"*1\r\n$4\r\nPING\r\n" } else { &command }).ok()?;
                }
            }
        }
    }

    /// Until the server hangs up, or a fault does.
    pub fn pass_replies(&self, network: &Network) -> Option<()> {
        let (mut client, mut server) = (&self.client, &self.server);
        let mut read = Vec::new();
        loop {
            let mut reply = read_value(&mut server, &mut read)?;
            if !network.names.is_empty() {
                reply = network.rename(reply);
            }
            let fate = *self.in_flight.lock().unwrap().fates.front()?;
            match fate {
                Some(Fault::LoseReply | Fault::Twice) => return None,
                Some(Fault::CutReply(bytes)) => {
                    return client.write_all(&reply[..bytes.min(reply.len())]).ok();
                }
                Some(Fault::HangReply) => {
                    self.answer_no_more();
                    return std::io::copy(&mut server, &mut std::io::sink()).map(drop).ok();
                }
                Some(Fault::StallReply(bytes)) => {
                    client.write_all(&reply[..bytes.min(reply.len())]).ok()?;
                    self.answer_no_more();
                    return std::io::copy(&mut server, &mut std::io::sink()).map(drop).ok();
                }
                Some(Fault::Refuse(words)) => reply = format!("-{words}\r\n").into_bytes(),
                Some(Fault::Reply(text)) => reply = text.as_bytes().to_vec(),
                Some(Fault::Hold) => network.hold(),
                Some(Fault::Delay(time)) => thread::sleep(time),
                _ => {}
            }
            {
                // Before the client has it: what it then sends is a new round trip.
                let mut in_flight = self.in_flight.lock().unwrap();
                in_flight.fates.pop_front();
                in_flight.reply_under_way = true;
            }
            client.write_all(&reply).ok()?;
            self.in_flight.lock().unwrap().reply_under_way = false;
            self.answered.notify_all();
        }
    }

    /// Nothing is to be waited for any more.
    pub fn answer_no_more(&self) {
        let mut in_flight = self.in_flight.lock().unwrap();
        in_flight.fates.clear();
        in_flight.reply_under_way = false;
        self.answered.notify_all();
    }

    /// A fault that breaks the connection hits one command, not the replies to those before it.
    fn wait_for_replies(&self) {
        let in_flight = self.in_flight.lock().unwrap();
        let pending = |it: &mut InFlight| it.reply_under_way || !it.fates.is_empty();
        drop(self.answered.wait_timeout_while(in_flight, PATIENCE, pending).unwrap());
    }
}

/// Reads on until a value is whole; None if the other side hung up.
pub fn read_value(stream: &mut impl Read, read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(value) = take_value(read) {
            return Some(value);
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => read.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
}
