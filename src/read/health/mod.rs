//! What servers say about themselves: settings, state, clock, scripts, rights. Reads only. What a user may not ask, or a
//! managed server does not say, is known to be so.

mod node;
mod rights;
mod slots;

use redis::Value;

use crate::model::layout::Kind;

use crate::error::StoreError;
pub(crate) use crate::read::health::node::{Clock, Reading, SlowCall};
pub(crate) use crate::read::health::rights::Granted;
pub(crate) use crate::read::health::slots::{NodeName, Slots};
pub(crate) use crate::read::stats::info::{Info, ReplicaInfo, Role};
use crate::redis::cluster::Servers;
use crate::redis::cluster::server::Server;
use crate::store::Store;

/// What was asked for, or why it is not known, in a few words.
pub(crate) type Known<T> = Result<T, String>;

/// All servers of a store.
#[derive(Debug)]
pub(crate) struct Health {
    /// If they are a cluster.
    pub slots: Option<Slots>,
    /// Every server that could be found, replicas of a cluster included.
    pub nodes: Vec<Node>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Node {
    /// `host:port`, or the path of a socket.
    pub name: String,
    /// The arguments by which `redis-cli` gets there, without a login.
    pub redis_cli: Vec<String>,
    /// The user who asks, if the URL names one.
    pub username: Option<String>,
    /// What it said, or why it cannot be reached.
    pub reading: Known<Reading>,
}

/// Asks each server about itself, and whether this user has some rights there, such as `hset` or `xinfo|groups`.
///
/// # Errors
/// Any of [`StoreError`]: a single server that cannot be reached, or a cluster without any node that can.
pub(crate) fn health(store: &mut Store, rights: &[String]) -> Result<Health, StoreError> {
    let keys = store.keys(&crate::model::id::ActivityId::validated(b"1"));
    let keys: Vec<String> = keys.all().map(str::to_owned).collect();
    let kind = store.layout.kind();
    store.servers.discover()?;
    if !store.servers.is_cluster() {
        let server = store.servers.node(0);
        server.connection()?;
        return Ok(Health { slots: None, nodes: vec![Node::ask(server, rights, &keys, kind)?] });
    }
    let slots = store.servers.slots()?;
    let seed = store.servers.target().clone();
    let mut nodes = Vec::with_capacity(slots.members.len());
    for member in &slots.members {
        let mut server = Server::new(seed.node(&member.host, member.port));
        nodes.push(match Node::ask(&mut server, rights, &keys, kind) {
            Ok(node) => node,
            Err(error) => Node::unreached(&server, &error),
        });
    }
    Ok(Health { slots: Some(slots), nodes })
}

impl Node {
    fn ask(server: &mut Server, rights: &[String], keys: &[String], kind: Kind) -> Result<Self, StoreError> {
        let target = server.connection()?.target().clone();
        let reading = Reading::of(server, rights, keys, kind)?;
        Ok(Self {
            name: target.place(),
            redis_cli: target.redis_cli(),
            username: target.username().map(str::to_owned),
            reading: Ok(reading),
        })
    }

    fn unreached(server: &Server, error: &StoreError) -> Self {
        let target = &server.target;
        Self {
            name: target.place(),
            redis_cli: target.redis_cli(),
            username: target.username().map(str::to_owned),
            reading: Err(error.why()),
        }
    }
}

/// A reply to a command; one that was refused is not known, and the connection is as good as before. Without a login nothing
/// is.
fn known(server: &Server, command: &str, reply: Value) -> Result<Known<Value>, StoreError> {
    match server.checked(reply) {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is_connection() || matches!(error, StoreError::Login { .. }) => Err(error),
        Err(error) => Ok(Err(reason(command, &error))),
    }
}

/// Why a command was refused, in a few words.
fn reason(command: &str, error: &StoreError) -> String {
    match error {
        StoreError::Permission { .. } => format!("this user may not run {command}"),
        StoreError::Server { why, .. } if why.to_lowercase().contains("unknown") => {
            format!("this server has no {command} (managed, or renamed)")
        }
        other => format!("{command}: {}", other.why()),
    }
}

/// A text; bytes that are no UTF-8 are shown as such.
fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

impl Servers {
    /// Who serves which slots, as any node says.
    fn slots(&mut self) -> Result<Slots, StoreError> {
        let node = self.primaries().into_iter().find(|node| self.node(*node).connection().is_ok());
        let server = self.node(node.unwrap_or(0));
        Slots::of(server)
    }
}
