//! One server, or the nodes of a cluster: who serves which slot, and the connections to each.
//!
//! A single server is a cluster of one node of which no map is ever read: each call goes there. With several seeds, a
//! call goes to the one that probably serves its slot, and follows one `MOVED`; what is read or written in many places
//! reads the map first.

pub(crate) mod map_reply;
pub(crate) mod server;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Redirection, Result, ServerKind, StoreError, TlsFault};
use crate::model::layout::Layout;
use crate::model::slot::SLOTS;
use crate::redis::cluster::map_reply::{SlotRange, followed, is_alone, read_ranges};
use crate::redis::cluster::server::Server;
use crate::redis::connect::Target;
use crate::redis::system::System;
use crate::script::keys::Keys;
use crate::script::reply::Reply;

/// The number of a node that nobody knows.
const UNKNOWN: u16 = u16::MAX;

/// Says whether long operations should stop.
pub(crate) type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Whether the servers are a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topology {
    /// Nothing spoke against a single server yet.
    Unknown,
    /// It is a single server.
    Single,
    /// They are nodes of a cluster.
    Cluster,
}

/// All servers of a store: one, or the nodes of a cluster.
pub(crate) struct Servers {
    target: Target,
    pub(crate) layout: Layout,
    topology: Topology,
    /// The seeds, then what redirections and maps named.
    nodes: Vec<Server>,
    seeds: usize,
    /// The node that serves each slot, as far as is known; empty if nothing is.
    pub(crate) owners: Vec<u16>,
    /// Whether the map was read.
    pub(crate) has_map: bool,
    /// How long a call waits for a server that is gone; if not given, as long as a failover may take.
    pub(crate) patience: Option<Duration>,
    /// Whether to wait no longer, asked before each pause.
    pub(crate) stop: Option<Stop>,
    /// The nodes that no call is sent to any more, and why; `None` if each call tries by itself.
    pub(crate) given_up: Option<HashMap<usize, StoreError>>,
    /// Whether calls ran where their slot is moving to (`ASK`), which the map does not say; of all copies.
    has_asked: Arc<AtomicBool>,
}

impl Servers {
    /// Nothing is sent yet.
    pub(crate) fn new(target: Target, layout: Layout) -> Self {
        let nodes: Vec<Server> = target.seeds().into_iter().map(Server::new).collect();
        let topology = if nodes.len() > 1 { Topology::Cluster } else { Topology::Unknown };
        let seeds = nodes.len();
        let (owners, has_map, patience, stop, given_up) = (Vec::new(), false, None, None, None);
        let has_asked = Arc::default();
        Self { target, layout, topology, seeds, nodes, owners, has_map, patience, stop, given_up, has_asked }
    }

    /// The same servers, without a connection.
    pub(crate) fn unconnected_copy(&self) -> Self {
        let nodes = self.nodes.iter().map(Server::unconnected_copy).collect();
        let (target, owners, stop) = (self.target.clone(), self.owners.clone(), self.stop.clone());
        let has_asked = Arc::clone(&self.has_asked);
        Self { target, nodes, owners, stop, given_up: None, has_asked, ..*self }
    }

    /// Where they are and how to log in, as it was given.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The machine that they are reached from.
    pub(crate) fn system(&self) -> &Arc<dyn System> {
        self.target.system()
    }

    /// The same servers with their connections; those that are needed here are made again.
    pub(crate) fn take(&mut self) -> Self {
        let mut taken = self.unconnected_copy();
        for (node, own) in taken.nodes.iter_mut().zip(&mut self.nodes) {
            *node = own.take();
        }
        taken
    }

    /// Whether they are known to be nodes of a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.topology == Topology::Cluster
    }

    /// One of them.
    pub(crate) fn node(&mut self, index: usize) -> &mut Server {
        &mut self.nodes[index]
    }

    /// The node that serves a slot, or probably does. Without a slot, any that was not found to be down.
    pub(crate) fn node_of(&self, slot: Option<u16>) -> usize {
        if let Some(owner) = self.owner(slot) {
            return owner;
        }
        let guess = usize::from(slot.unwrap_or(0)) * self.seeds / usize::from(SLOTS);
        let count = self.nodes.len();
        (guess..guess + count).map(|index| index % count).find(|index| !self.nodes[*index].is_down).unwrap_or(guess)
    }

    /// The node that serves a slot, if that is known.
    fn owner(&self, slot: Option<u16>) -> Option<usize> {
        let owner = self.owners.get(usize::from(slot?)).filter(|owner| **owner != UNKNOWN)?;
        Some(usize::from(*owner))
    }

    /// The connection that a cursor of a slot is good for: the node, and how often it was connected to.
    pub(crate) fn cursor_scope(&self, slot: Option<u16>) -> (usize, u64) {
        let index = self.node_of(slot);
        (index, self.nodes[index].connected)
    }

    /// How long a call waits for a server that no other one replaces.
    pub(crate) fn shortest_patience(&self) -> Duration {
        self.target.timeout * 3
    }

    /// Why a node is given up, if it is. One that replied is not: it may serve other slots.
    pub(crate) fn why_given_up(&self, node: usize) -> Option<&StoreError> {
        self.given_up.as_ref()?.get(&node).filter(|error| !matches!(error, StoreError::Server { .. }))
    }

    /// Whether a call has waited for this node in vain: others try once.
    pub(crate) fn was_waited_for(&self, node: usize) -> bool {
        self.given_up.as_ref().is_some_and(|given_up| given_up.contains_key(&node))
    }

    /// Follows a redirection of a node, and gives the number of the node that it names.
    pub(crate) fn redirect(&mut self, from: usize, to: &Redirection) -> usize {
        let target = self.nodes[from].target.node(&to.host, to.port);
        let index = self.number(target);
        match to.is_ask {
            true => self.has_asked.store(true, Ordering::Relaxed),
            false => self.set_owner(to.slot, to.slot, index),
        }
        index
    }

    /// Whether a call was sent where its slot is moving to, so that what was written may be at another node than the map says.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// The number of a node, a new one if it was not named before.
    fn number(&mut self, target: Target) -> usize {
        if let Some(known) = self.nodes.iter().position(|node| node.target.is_at(&target)) {
            return known;
        }
        self.nodes.push(Server::new(target));
        self.nodes.len() - 1
    }

    fn set_owner(&mut self, first: u16, last: u16, index: usize) {
        self.owners.resize(usize::from(SLOTS), UNKNOWN);
        self.owners[usize::from(first)..=usize::from(last)].fill(index as u16); // A cluster has at most 16,384 nodes.
    }

    /// Records that they are nodes of a cluster.
    ///
    /// # Errors
    /// The layout has no keys for one.
    pub(crate) fn found_cluster(&mut self) -> Result<()> {
        self.topology = Topology::Cluster;
        self.check_layout()
    }

    /// Refuses a layout whose keys of an activity are in several slots.
    ///
    /// # Errors
    /// It is one, and the servers are known to be a cluster.
    pub(crate) fn check_layout(&self) -> Result<()> {
        match self.is_cluster().then(|| Keys::slots(self.layout)) {
            Some(slots) if slots > 1 => Err(StoreError::SpreadLayout { layout: self.layout.name(), slots }),
            _ => Ok(()),
        }
    }

    /// Finds out whether they are a cluster, and reads the map if so, once.
    ///
    /// # Errors
    /// The layout has no keys for a cluster, or no server can be reached.
    pub(crate) fn discover(&mut self) -> Result<()> {
        self.check_layout()?;
        if self.topology == Topology::Single || self.has_map {
            return Ok(());
        }
        let mut read = self.read_map(None);
        if read.as_ref().is_err_and(|error| error.is_transient() && !self.is_cluster()) {
            // A server that is busy says neither: a call that is sent again waits for it.
            drop(self.ask_any(redis::cmd("CLUSTER").arg("SLOTS")));
            read = self.read_map(None);
        }
        match read {
            Ok(()) => self.check_layout(),
            Err(error) if error.is_connection() => Err(self.explained(error)),
            Err(error) if self.is_cluster() => self.check_layout().and(Err(error)),
            // Nobody may ask: what concerns all nodes would silently be done at one.
            Err(error @ StoreError::Permission { .. }) if self.refuses_two_slots() => {
                self.found_cluster()?;
                Err(error)
            }
            // It is no cluster.
            Err(_) => {
                self.topology = Topology::Single;
                Ok(())
            }
        }
    }

    /// Whether a server refuses keys of two slots in one call, as every node of a cluster does.
    fn refuses_two_slots(&mut self) -> bool {
        let Some(node) = self.nodes.iter_mut().find(|node| !node.is_down) else { return false };
        let (before, after) = Keys::stock_pattern(self.layout);
        let mut call = redis::cmd("EVAL");
        call.arg("return 1").arg(2).arg(format!("{before}1{after}")).arg(format!("{before}2{after}"));
        matches!(node.ask(&call), Err(StoreError::Server { kind: ServerKind::CrossSlot, .. }))
    }

    /// Reads the map again, from any node but one that failed, if there is another.
    ///
    /// # Errors
    /// No node gave it.
    pub(crate) fn read_map(&mut self, but: Option<usize>) -> Result<()> {
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|index| Some(*index) != but).collect();
        order.sort_by_key(|index| self.nodes[*index].is_down);
        order.extend(but);
        let mut failed = None;
        for index in order {
            let command = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
            match self.nodes[index].ask(&command).and_then(read_ranges) {
                // A node that was reset knows of nobody; another one may.
                Ok(ranges) if ranges.is_empty() => {
                    self.topology = Topology::Cluster;
                    let why = "CLUSTER SLOTS is empty".to_owned();
                    _ = failed.get_or_insert(StoreError::Server { kind: ServerKind::NoSlots, why });
                }
                Ok(ranges) => {
                    self.take_map(index, ranges);
                    return Ok(());
                }
                Err(error) => _ = failed.get_or_insert(error),
            }
        }
        Err(failed.unwrap_or_else(|| StoreError::Unreachable { server: self.target.shown.clone(), why: String::new() }))
    }

    fn take_map(&mut self, from: usize, ranges: Vec<SlotRange>) {
        self.topology = Topology::Cluster;
        self.has_map = true;
        self.owners.clear();
        self.nodes.iter_mut().for_each(|node| node.id.clear());
        for range in ranges {
            let target = self.nodes[from].target.node(&range.primary.host, range.primary.port);
            let index = self.number(target);
            self.set_owner(range.first, range.last, index);
            self.nodes[index].id = range.primary.id;
        }
        self.owners.resize(usize::from(SLOTS), UNKNOWN);
    }

    /// Finds out anew who serves which slot, and which nodes have replicas.
    ///
    /// # Errors
    /// The layout has no keys for a cluster, or no server can be reached.
    pub(crate) fn look_for_replicas(&mut self) -> Result<()> {
        if self.has_map {
            self.read_map(None).map_err(|error| self.explained(error))?;
        } else {
            self.discover()?;
        }
        // Who may not ask takes a node for one that has some.
        if self.is_cluster() {
            // The map says nothing of a replica that has got nothing yet.
            let nodes = self.ask_any(redis::cmd("CLUSTER").arg("NODES")).ok();
            let nodes = Reply::of_command("CLUSTER NODES").text(nodes.as_ref())?;
            let followed = nodes.map(|nodes| followed(&nodes));
            for node in &mut self.nodes {
                let is_followed = |followed: &HashSet<String>| node.id.is_empty() || followed.contains(&node.id);
                node.is_alone = followed.as_ref().is_some_and(|followed| !is_followed(followed));
            }
            // The map does not name a node that takes over its first slot.
            let is_unnamed = |at: &usize| self.nodes[*at].id.is_empty() && self.nodes[*at].connected > 0;
            let unnamed: Vec<usize> = (0..self.nodes.len()).filter(is_unnamed).collect();
            unnamed.into_iter().for_each(|node| self.look_for_replicas_of(node));
        } else {
            self.nodes[0].is_alone = self.ask_any(&redis::cmd("ROLE")).is_ok_and(|role| is_alone(&role));
        }
        Ok(())
    }

    /// Asks one node whether it has replicas. Of one that does not say nothing is known.
    pub(crate) fn look_for_replicas_of(&mut self, node: usize) {
        let node = self.node(node);
        node.is_alone = node.ask(&redis::cmd("ROLE")).is_ok_and(|role| is_alone(&role));
    }

    /// The nodes that serve slots; the only server if it is no cluster. [`discover`](Self::discover) first.
    pub(crate) fn primaries(&self) -> Vec<usize> {
        if self.owners.is_empty() {
            return vec![0];
        }
        let serves = |node: &usize| u16::try_from(*node).is_ok_and(|owner| self.owners.contains(&owner));
        (0..self.nodes.len()).filter(serves).collect()
    }

    /// Connects to them, as far as they can be reached: each, and how often it was connected to.
    pub(crate) fn connect_to_primaries(&mut self) -> BTreeMap<usize, u64> {
        let primaries = self.primaries();
        let connected = |index: usize| {
            let node = self.node(index);
            node.connection().is_ok().then_some((index, node.connected))
        };
        primaries.into_iter().filter_map(connected).collect()
    }

    /// Whether another node may know who serves a slot of which nothing is known.
    pub(crate) fn has_other(&self, slot: Option<u16>, but: usize) -> bool {
        self.owner(slot).is_none() && self.nodes.iter().enumerate().any(|(index, node)| index != but && !node.is_down)
    }

    /// Whether any of them ever accepted a connection.
    pub(crate) fn was_reached(&self) -> bool {
        self.nodes.iter().any(|node| node.connected > 0)
    }

    /// Whether another server takes over from one that fails: on a cluster, and behind Sentinel.
    pub(crate) fn has_failover(&self) -> bool {
        self.is_cluster() || self.target.primary_name().is_some()
    }

    /// The error after which nothing is tried any more. If nobody ever replied because TLS is spoken there, nothing
    /// can have run, whatever was sent.
    pub(crate) fn explained(&self, error: StoreError) -> StoreError {
        let is_silent = matches!(error, StoreError::Unknown { .. } | StoreError::Unreachable { .. })
            && !self.nodes.iter().any(|node| node.has_replied);
        match self.nodes.first().map(|node| &node.target).filter(|target| is_silent && target.lacks_tls()) {
            Some(target) => {
                let why = "the server speaks TLS at this port".to_owned();
                StoreError::Tls { server: target.shown.clone(), fault: TlsFault::OnlyTls, why }
            }
            None => error,
        }
    }

    /// Records what an error says about the servers.
    ///
    /// # Errors
    /// The layout has no keys for a cluster.
    pub(crate) fn learn(&mut self, error: &StoreError) -> Result<()> {
        match error {
            StoreError::Redirected(_)
            | StoreError::Server {
                kind: ServerKind::CrossSlot | ServerKind::Moving | ServerKind::ClusterDown, ..
            } => self.found_cluster(),
            _ => Ok(()),
        }
    }
}
