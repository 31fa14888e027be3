//! The attempts of one call, or of one scan: which node the next one goes to, and when there is no hope any more.

use std::time::{Duration, Instant};

use crate::error::{ServerKind, StoreError};
use crate::redis::cluster::Servers;

/// The first pause before another attempt, and the longest.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// How long a cluster may take to replace a primary: `cluster-node-timeout` of 15 s and an election. Sentinels take as
/// long as `down-after-milliseconds` and some seconds.
const FAILOVER: Duration = Duration::from_secs(30);
/// Attempts without a pause between them, at other nodes: more means that the nodes do not agree.
const QUICK: u32 = 5;

/// See the [module](self).
pub(crate) struct Attempts {
    began: Instant,
    pause: Duration,
    /// Attempts at other nodes.
    others: u32,
    /// The node that the next attempt, and only that, goes to.
    ask: Option<usize>,
}

impl Attempts {
    /// None yet.
    pub(crate) fn new(servers: &Servers) -> Self {
        Self { began: servers.system().now(), pause: SHORTEST, others: 0, ask: None }
    }

    /// The node of the next attempt, and whether it is to be sent `ASKING` first.
    pub(crate) fn node(&mut self, servers: &Servers, slot: Option<u16>) -> (usize, bool) {
        match self.ask.take() {
            Some(node) => (node, true),
            None => (servers.node_of(slot), false),
        }
    }

    /// The next attempt goes to the node that this one went to, as this one did.
    pub(crate) fn ask_again(&mut self, asks: bool, node: usize) {
        self.ask = asks.then_some(node);
    }

    /// Whether the next attempt, at another node, needs no pause.
    fn is_quick(&mut self) -> bool {
        self.others += 1;
        !self.others.is_multiple_of(QUICK)
    }

    /// Waits before the next attempt; an error if there should be none.
    pub(crate) fn wait(&mut self, servers: &Servers, error: StoreError) -> Result<(), StoreError> {
        let timeout = servers.target().timeout * 3;
        let most = if servers.waits_for_failover() { timeout.max(FAILOVER) } else { timeout };
        // What sends a reply that no sale has is no server of ours, now or later.
        if matches!(error, StoreError::Oversized { .. }) || servers.system().now() - self.began + self.pause >= most {
            return Err(servers.explained(error));
        }
        servers.system().sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}

impl Servers {
    /// Whether another node, or the same one later, may do what failed.
    pub(crate) fn may_recover(&self, error: &StoreError) -> bool {
        match error {
            StoreError::Redirected(_) => true,
            StoreError::Server { kind: ServerKind::ReadOnly, .. } => self.is_cluster(),
            error if error.is_connection() => self.is_cluster(),
            other => other.is_transient(),
        }
    }

    /// Gets ready for another attempt at a call that failed at a node: follows a redirection, finds out who serves the
    /// slot now, waits.
    ///
    /// # Errors
    /// There should be no other attempt.
    pub(crate) fn recover(
        &mut self,
        attempts: &mut Attempts,
        slot: Option<u16>,
        node: usize,
        error: StoreError,
    ) -> Result<(), StoreError> {
        self.learn(&error)?;
        match &error {
            StoreError::Redirected(to) => {
                let target = self.redirect(node, to);
                attempts.ask = to.is_ask.then_some(target);
                if attempts.is_quick() {
                    return Ok(());
                }
            }
            // It is there, and serves the slot.
            StoreError::Server { kind: ServerKind::Moving | ServerKind::Busy, .. } => {}
            _ if !self.is_cluster() => {}
            // A seed that is down: the next one.
            _ if error.is_connection() && self.has_other(slot, node) && attempts.is_quick() => return Ok(()),
            _ => return self.wait_for_failover(attempts, node, error),
        }
        attempts.wait(self, error)
    }

    /// Waits until another node may serve what one that failed served.
    ///
    /// # Errors
    /// It has waited for long enough.
    pub(crate) fn wait_for_failover(
        &mut self,
        attempts: &mut Attempts,
        node: usize,
        error: StoreError,
    ) -> Result<(), StoreError> {
        match self.read_map(Some(node)) {
            // No failover ends that.
            Err(error @ StoreError::Server { kind: ServerKind::NoSlots, .. }) => return Err(error),
            // Nobody was ever there: it is the address that is wrong.
            Err(_) if !self.was_reached() => {
                return Err(StoreError::Unreachable { server: self.target().shown.clone(), why: error.why() });
            }
            _ => {}
        }
        attempts.wait(self, error)
    }
}
