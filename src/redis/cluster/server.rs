//! One server, or one node of a cluster: its address, and a connection that is made when it is first needed.

use redis::{Cmd, Value};

use crate::error::{Result, SentinelFault, ServerKind, StoreError};
use crate::redis::connect::Target;
use crate::redis::connection::Connection;
use crate::redis::sentinel::connect;
use crate::redis::system::Socket;

/// A server, connected to when it is first needed.
pub(crate) struct Server {
    /// Where it is.
    pub target: Target,
    connection: Option<Connection>,
    /// How often it was connected to. A cursor is of one connection: another one may be to another server.
    pub(crate) connected: u64,
    /// Whether the last attempt to connect failed, or the connection broke.
    pub(crate) is_down: bool,
    /// Whether it ever replied.
    pub(crate) has_replied: bool,
    /// Its id, as the map of a cluster has it; empty if that does not name it.
    pub(crate) id: String,
    /// Whether no replica follows it, as it or another node last said. One that nothing is known of may have some.
    pub(crate) is_alone: bool,
    /// Whether it refused a write because it is no primary: what is sent next goes to whoever is that then.
    is_demoted: bool,
}

impl Server {
    /// Nothing is sent yet.
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            connection: None,
            connected: 0,
            is_down: false,
            has_replied: false,
            id: String::new(),
            is_alone: false,
            is_demoted: false,
        }
    }

    /// The same server without the connection.
    pub(crate) fn unconnected_copy(&self) -> Self {
        Self { id: self.id.clone(), is_alone: self.is_alone, ..Self::new(self.target.clone()) }
    }

    /// The connection, made now if there is none.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connection = self.connect_new()?;
                self.connected += 1;
                connection
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Another connection to it. If sentinels name another server by now, that is the server from now on: what is read by both
    /// connections is never of two.
    pub(crate) fn connect_new(&mut self) -> Result<Connection> {
        let connection = connect(&self.target);
        self.is_down = connection.is_err();
        if let Ok(named) = &connection {
            self.connection.take_if(|own| !own.target.is_at(&named.target));
        }
        connection
    }

    /// Whether sentinels, if they are asked, name the server that this is connected to: one that was replaced answers on for a while,
    /// and may have replicas still.
    pub(crate) fn is_named(&self) -> bool {
        let is_own = |named: &Connection| self.connection.as_ref().is_some_and(|own| own.target.is_at(&named.target));
        self.target.primary_name().is_none() || connect(&self.target).is_ok_and(|named| is_own(&named))
    }

    /// What becomes readable when its reply comes; `None` if bytes are here already, or nothing will come.
    pub(crate) fn drained_socket(&self) -> Option<&dyn Socket> {
        self.connection.as_ref()?.drained_socket()
    }

    /// Writes packed commands. A connection that breaks is forgotten, here and below.
    pub(crate) fn write(&mut self, packed: &[u8]) -> Result<()> {
        if std::mem::take(&mut self.is_demoted) {
            self.disconnect();
        }
        let written = self.connection()?.send(packed);
        written.inspect_err(|_| self.disconnect())
    }

    /// The next reply; an error reply is a value too.
    pub(crate) fn read(&mut self) -> Result<Value> {
        let read = self.connection()?.reply();
        self.has_replied |= read.is_ok();
        if let Ok(Value::ServerError(error)) = &read {
            // In the text of Redis 6.2, if a script was refused.
            let is_in_script = || error.details().is_some_and(|text| text.contains("-READONLY "));
            self.is_demoted |= error.code() == "READONLY" || is_in_script();
        }
        read.inspect_err(|_| self.disconnect())
    }

    /// Sends one command and gives its reply, without another try.
    pub(crate) fn ask(&mut self, command: &Cmd) -> Result<Value> {
        self.write(&command.get_packed_command())?;
        let reply = self.read()?;
        self.checked(reply)
    }

    /// A reply, or what an error reply means.
    pub(crate) fn checked(&self, reply: Value) -> Result<Value> {
        let Value::ServerError(error) = reply else { return Ok(reply) };
        let error = StoreError::of_reply(&error.into(), &self.target.shown);
        Err(match (self.target.primary_name(), error) {
            // The sentinels will name another server for one that is no primary any more.
            (Some(primary), StoreError::Server { kind: ServerKind::ReadOnly, why }) => {
                SentinelFault::Failover { primary: primary.to_owned(), why }.into()
            }
            (_, error) => error,
        })
    }

    /// The same server with the connection, which is made again here if it is needed.
    pub(crate) fn take(&mut self) -> Self {
        Self { connection: self.connection.take(), ..self.unconnected_copy() }
    }

    /// Forgets a connection that failed.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
        self.is_down = true;
    }
}
