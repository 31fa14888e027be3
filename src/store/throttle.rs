//! How much of the server's time an audit takes: all that it can get while nobody buys, a small share of a live sale.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::redis::system::System;

/// How much longer than a call took the server is then left to others: three quarters of its time and more.
const OTHERS: u32 = 3;
/// The longest rest: a call that took longer waited for something else.
const MOST: Duration = Duration::from_millis(5);

/// When the next call may be sent.
pub(crate) struct Throttle {
    system: Arc<dyn System>,
    is_live: bool,
    /// When the last call was sent.
    sent: Instant,
    /// How long others go first, from then on.
    rest: Duration,
}

impl Throttle {
    /// Quick until a purchase is seen.
    pub(crate) fn quick(system: &Arc<dyn System>) -> Self {
        Self { system: Arc::clone(system), is_live: false, sent: system.now(), rest: Duration::ZERO }
    }

    /// As during a sale.
    pub(crate) fn gentle(system: &Arc<dyn System>) -> Self {
        Self { is_live: true, ..Self::quick(system) }
    }

    /// Says whether anybody buys now.
    pub(crate) fn set_live(&mut self, is_live: bool) {
        self.is_live = is_live;
    }

    /// Right before a call is sent: lets others go first if there are any.
    pub(crate) fn wait(&mut self) {
        if self.is_live {
            self.system.sleep(self.rest.saturating_sub(self.system.now() - self.sent));
        }
        self.sent = self.system.now();
    }

    /// Right after its reply came.
    pub(crate) fn took(&mut self) {
        let took = self.system.now() - self.sent;
        self.rest = took + (took * OTHERS).min(MOST);
    }
}
