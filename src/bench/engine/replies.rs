//! Replies: what came for a client, what an error means for its order, and the end of an order.

use std::time::Instant;

use redis::{RedisError, Value};

use crate::bench::engine::{Engine, State};
use crate::bench::pace::Turn;
use crate::bench::{LONGEST_PAUSE, TIMEOUTS};
use crate::error::StoreError;
use crate::model::order::Corrupt;
use crate::model::status::Status;

impl Engine<'_> {
    /// Reads what came for a client.
    pub(crate) fn receive(&mut self, client_index: usize) {
        if !self.clients[client_index].unsent.is_empty() {
            self.out.bytes.clear();
            self.send(client_index, Instant::now());
        }
        loop {
            let client = &mut self.clients[client_index];
            let Some(connection) = &mut client.connection else { return };
            if client.awaited.is_empty() && client.state != State::Free {
                return;
            }
            match connection.try_reply() {
                Ok(None) => return,
                Ok(Some(value)) => match client.awaited.pop_front() {
                    Some(true) => {
                        client.replies.push(value);
                        if !client.awaited.contains(&true) {
                            self.replied(client_index);
                        }
                    }
                    Some(false) => {}
                    // Nobody asked for it: a server that says why it closes the connection.
                    None => return,
                },
                Err(error) => return self.lose(client_index, error, Instant::now()),
            }
        }
    }

    /// All replies of a step are there.
    fn replied(&mut self, client_index: usize) {
        let now = Instant::now();
        let client = &mut self.clients[client_index];
        client.active = now;
        let Some(error) = client.replies.iter().find_map(error_of) else { return self.advance(client_index, now) };
        let nothing_ran = client.replies.iter().all(|reply| error_of(reply).is_some());
        client.replies.clear();
        if error.code() == Some("NOSCRIPT") && !client.order.by_text {
            client.order.by_text = true;
            client.order.retries += 1;
            return self.restart(client_index, now);
        }
        let meaning = StoreError::of_reply(&error, &self.server);
        let meaning =
            meaning.unwrap_or_else(|| StoreError::Reply { what: "the server".into(), reply: error.to_string() });
        match meaning {
            StoreError::Permission { .. } | StoreError::Login { .. } => {
                self.fatal.get_or_insert(meaning.clone());
                self.pace.stop();
                self.end(client_index, Err(meaning), now);
            }
            StoreError::Redirected(to) if !to.is_ask => {
                client.order.retries += 1;
                self.disconnect(client_index);
                self.restart(client_index, now);
            }
            meaning if nothing_ran && self.may_pass(client_index, &meaning, now) => {
                let client = &mut self.clients[client_index];
                client.order.retries += 1;
                client.order.stage = 0;
                let until = now + client.pause;
                client.pause = (client.pause * 2).min(LONGEST_PAUSE);
                self.pause(client_index, until);
            }
            meaning => self.end(client_index, Err(meaning), now),
        }
    }

    /// Whether an order that nothing ran of may be tried again.
    fn may_pass(&self, client_index: usize, error: &StoreError, now: Instant) -> bool {
        let is_in_time = now - self.clients[client_index].order.sent < self.timeout * TIMEOUTS;
        is_in_time && (error.is_transient() || matches!(error, StoreError::Redirected(_)))
    }

    pub(crate) fn restart(&mut self, client_index: usize, now: Instant) {
        self.clients[client_index].order.stage = 0;
        self.advance(client_index, now);
    }

    /// An order ended; its client gets the next one if there is one.
    pub(crate) fn end(
        &mut self,
        client_index: usize,
        ended: Result<(Status, Option<Corrupt>), StoreError>,
        now: Instant,
    ) {
        let client = &mut self.clients[client_index];
        self.measured.retries += client.order.retries;
        match ended {
            Ok((status, corrupt)) => {
                self.measured.answered(status, client.order.started, now);
                self.measured.corrupt = self.measured.corrupt.take().or(corrupt);
                self.answered = now;
            }
            Err(error) => {
                if self.must_succeed {
                    self.pace.stop();
                    self.fatal.get_or_insert(error.clone());
                }
                self.measured.failed(error);
            }
        }
        client.state = State::Free;
        self.busy -= 1;
        self.ended += 1;
        if client.connection.is_none() {
            return;
        }
        match self.pace.turn(now) {
            Turn::Order(number, started) => self.start(client_index, number, started, now),
            Turn::NotBefore(_) | Turn::Over => self.free.push_back(client_index),
        }
    }
}

/// The error that a reply is, or that a transaction's reply has.
fn error_of(reply: &Value) -> Option<RedisError> {
    match reply {
        Value::ServerError(error) => Some(error.clone().into()),
        Value::Array(values) => values.iter().find_map(|value| match value {
            Value::ServerError(error) => Some(error.clone().into()),
            _ => None,
        }),
        _ => None,
    }
}
