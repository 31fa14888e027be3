//! Connections that break: given up, opened again, and what becomes of the orders that were sent on them.

use std::time::Instant;

use crate::bench::TIMEOUTS;
use crate::bench::engine::{Engine, State};
use crate::error::{Recovery, StoreError};

impl Engine<'_> {
    /// A client's connection broke, or no reply came in time.
    pub(crate) fn lose(&mut self, client_index: usize, error: StoreError, now: Instant) {
        self.disconnect(client_index);
        let is_repeatable = self.strategy.is_repeatable();
        let client = &mut self.clients[client_index];
        match client.state {
            State::Free => self.free.retain(|free| *free != client_index),
            // It is sent once its timer is due.
            State::Pausing | State::Unconnected => {}
            State::Waiting if is_repeatable && now - client.order.sent < self.timeout * TIMEOUTS => {
                client.order.retries += 1;
                client.order.may_have_run = true;
                self.restart(client_index, now);
            }
            State::Waiting => {
                let error = if is_repeatable { self.unknown(client_index, &error) } else { error };
                self.end(client_index, Err(error), now);
            }
        }
    }

    /// The error for an order that may have been applied.
    pub(crate) fn unknown(&self, client_index: usize, error: &StoreError) -> StoreError {
        let request = format!("{}-{}", self.sale.run, self.clients[client_index].order.number);
        StoreError::Unknown {
            server: self.server.clone(),
            why: error.why(),
            recovery: Some(Recovery::SameRequest(request)),
        }
    }

    /// Gives up a client's connection, and asks for another one.
    pub(crate) fn disconnect(&mut self, client_index: usize) {
        let client = &mut self.clients[client_index];
        client.connection = None;
        client.unsent.clear();
        client.awaited.clear();
        client.replies.clear();
        self.opener.ask(client_index, self.slots[client_index % self.slots.len()]);
    }

    /// Takes connections that were opened again.
    pub(crate) fn reconnected(&mut self, now: Instant) {
        while let Some((client_index, opened)) = self.opener.next() {
            let added = opened.and_then(|connection| match self.poller.add(client_index, &connection) {
                Ok(()) => Ok(connection),
                Err(error) => Err(self.io_error(&error)),
            });
            let client = &mut self.clients[client_index];
            match added {
                Ok(connection) => {
                    client.connection = Some(connection);
                    match client.state {
                        State::Free => self.free.push_back(client_index),
                        State::Unconnected => self.advance(client_index, now),
                        State::Waiting | State::Pausing => {}
                    }
                }
                Err(error) => {
                    if client.state == State::Unconnected && now - client.order.sent >= self.timeout * TIMEOUTS {
                        let error = if client.order.may_have_run { self.unknown(client_index, &error) } else { error };
                        self.end(client_index, Err(error), now);
                    }
                    self.opener.ask(client_index, self.slots[client_index % self.slots.len()]);
                }
            }
        }
    }

    /// Gives up connections on which no reply came in time.
    pub(crate) fn find_silent(&mut self, now: Instant) {
        for client_index in 0..self.clients.len() {
            let client = &self.clients[client_index];
            if client.state == State::Waiting && client.connection.is_some() && now - client.active >= self.timeout {
                let waited = humantime::format_duration(self.timeout).to_string();
                let error = StoreError::Timeout { server: self.server.clone(), waited };
                self.lose(client_index, error, now);
            }
        }
    }

    /// Ends the run if no client has had a connection for long.
    pub(crate) fn find_dead(&mut self, now: Instant) {
        let is_dead = self.clients.iter().all(|client| client.connection.is_none());
        if is_dead && now - self.answered >= self.timeout * TIMEOUTS && self.fatal.is_none() {
            let why = "all connections broke, and none could be opened again".to_owned();
            self.fatal = Some(StoreError::Unreachable { server: self.server.clone(), why });
            self.pace.stop();
            for client_index in 0..self.clients.len() {
                if self.clients[client_index].state == State::Unconnected {
                    let error = self.unknown(
                        client_index,
                        &StoreError::Unreachable { server: self.server.clone(), why: String::new() },
                    );
                    self.end(client_index, Err(error), now);
                }
            }
        }
    }
}
