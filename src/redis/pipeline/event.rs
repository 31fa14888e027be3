//! What a pipeline is given, and what it says.

use std::time::Instant;

use redis::Value;

use crate::error::StoreError;
use crate::error::redirection::Redirection;

/// One call of the script.
pub(crate) trait Call {
    /// How many orders it has, for the rate limit.
    fn orders(&self) -> usize;

    /// About how much of the server's time its orders take, in orders of one activity.
    fn weight(&self) -> usize;

    /// Whether an error reply is for the owner, which finds it in [`Event::Reply`]. Nothing of the call ran.
    fn handles(&self, _error: &StoreError) -> bool {
        false
    }
}

/// What a pipeline can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Send now.
    Send,
    /// Send then.
    At(Instant),
    /// Receive a reply.
    Replies,
    /// Do something about an outage then.
    Outage(Instant),
    /// Nothing.
    Idle,
}

/// What became of calls, or of the connection.
#[derive(Debug)]
pub(crate) enum Event<C> {
    /// The server replied to this call, and not with an error, unless the call [`handles`](Call::handles) it.
    Reply(C, Value),
    /// These calls must be sent again, in this order. Nothing is sent before all that is in flight has come back.
    Retry {
        /// In the order in which they were sent.
        calls: Vec<C>,
        /// Whether the connection broke, so that nobody knows whether they ran.
        may_have_run: bool,
    },
    /// Another node of the cluster serves this call, which did not run. It must be sent again, there; nothing is sent here
    /// before all that is in flight has come back.
    Redirected {
        /// The call.
        call: C,
        /// Where to.
        to: Redirection,
    },
    /// The server has been gone, or refused writes, for half a second; reported once for each outage.
    Outage(StoreError),
    /// It waited a short while.
    Waited,
    /// Nothing is in flight, and nothing is to be sent.
    Idle,
    /// There is room, and the time has come: [`push`](Pipeline::push) calls, then [`flush`](Pipeline::flush).
    Send,
}
