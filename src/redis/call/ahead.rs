//! A call that is sent before its reply is wanted: while the server makes that, we look at the reply before it.

use redis::Value;

use crate::error::StoreError;
use crate::redis::call::Call;
use crate::redis::call::exchange::{CallFailure, Sending};
use crate::redis::cluster::Servers;

/// A call whose reply must be [read](Servers::finish) before anything else is sent.
#[derive(Debug)]
pub(crate) struct CallAhead {
    call: Call,
    /// The node that it was sent to, or why it was not.
    sent: Result<usize, CallFailure>,
}

impl Servers {
    /// Sends a call. Whatever goes wrong, its reply is where it is wanted.
    pub(crate) fn send_ahead(&mut self, call: Call) -> CallAhead {
        let node = self.node_of(call.slot);
        let sent = self.node(node).write_calls([&call], Sending::FIRST, |_| false).map(|()| node);
        CallAhead { call, sent }
    }

    /// The reply to a call that was sent before. If none comes, it is sent again, if that is safe.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub(crate) fn finish(&mut self, ahead: CallAhead) -> Result<Value, StoreError> {
        let CallAhead { call, sent } = ahead;
        match sent.and_then(|node| self.node(node).read_call(Sending::FIRST)) {
            Ok(value) => Ok(value),
            Err(CallFailure::Lost(error)) => self.answer_after(&call, &error).map(|answer| answer.value),
            Err(_) => self.call(&call),
        }
    }
}
