//! What servers say about themselves: settings, state, clock, rights, and what runs there. What a user may not ask, or a
//! managed server does not say, is known to be so.

mod dry_run;
mod node;
mod rights;
mod slots;

use redis::Value;

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
pub(crate) use crate::read::health::node::{Clock, Reading, SlowCall};
pub(crate) use crate::read::health::rights::Granted;
pub(crate) use crate::read::health::slots::{NodeName, Slots};
pub(crate) use crate::read::stats::info::{Info, ReplicaInfo, Role};
use crate::redis::cluster::Servers;
use crate::redis::cluster::server::Server;
use crate::script::keys::Keys;
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

/// Asks each server about itself, and whether this user has some rights there, such as `hset` or `xinfo|groups`; and tries
/// there what scripts do.
///
/// # Errors
/// Any of [`StoreError`]: a single server that cannot be reached, or a cluster without any node that can.
pub(crate) fn health(store: &mut Store, rights: &[String]) -> Result<Health, StoreError> {
    let layout = store.layout;
    store.servers.discover()?;
    if !store.servers.is_cluster() {
        let server = store.servers.node(0);
        server.connection()?;
        let keys = unused_keys(server, layout, None);
        return Ok(Health { slots: None, nodes: vec![Node::ask(server, rights, layout, Some(&keys))?] });
    }
    let slots = store.servers.slots()?;
    let seed = store.servers.target().clone();
    let mut nodes = Vec::with_capacity(slots.members.len());
    for member in &slots.members {
        let mut server = Server::new(seed.node(&member.host, member.port));
        let slot = slots.first_slots.iter().find(|(primary, _)| primary == member);
        let keys = slot.map(|(_, slot)| unused_keys(&server, layout, Some(*slot)));
        nodes.push(match Node::ask(&mut server, rights, layout, keys.as_ref()) {
            Ok(node) => node,
            Err(error) => Node::unreached(&server, &error),
        });
    }
    Ok(Health { slots: Some(slots), nodes })
}

/// The keys of an activity that nobody has, in that slot of a cluster.
fn unused_keys(server: &Server, layout: Layout, slot: Option<u16>) -> Keys {
    let unique = server.target.system().unique_id();
    let keys = |number: u64| Keys::of(layout, &ActivityId::validated(format!("doctor-{unique}-{number}").as_bytes()));
    (0..).map(keys).find(|keys| slot.is_none() || keys.slot() == slot).unwrap_or_else(|| keys(0))
}

impl Node {
    fn ask(
        server: &mut Server,
        rights: &[String],
        layout: Layout,
        unused_keys: Option<&Keys>,
    ) -> Result<Self, StoreError> {
        let target = server.connection()?.target().clone();
        let reading = Reading::of(server, rights, layout, unused_keys)?;
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
