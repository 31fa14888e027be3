//! One order as one call of a script: what it sends, whichever activity has the units.

use std::cell::Cell;

use redis::Value;

use crate::error::{Settle, StoreError};
use crate::model::id::{ActivityId, RequestId};
use crate::redis::call::covered::SafeCall;
use crate::redis::call::{Again, Try};
use crate::script::Script;
use crate::script::keys::Keys;
use crate::store::Store;

/// The scripts' `mode` of the first try, and of one that may have been sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) first: &'static str,
    pub(crate) retry: &'static str,
}

impl Modes {
    /// The reply is final.
    pub(crate) const FINAL: Self = Self { first: "first", retry: "retry" };
    /// The reply is final, and the call may have been sent before.
    pub(crate) const FINAL_AGAIN: Self = Self { first: "retry", retry: "retry" };
    /// Nothing is written.
    pub(crate) const DRY: Self = Self { first: "dry", retry: "dry" };
    /// `out_of_stock` is not final: other shards may have units. A first try that is out of stock stores nothing anyway.
    pub(crate) const SHARD: Self = Self { first: "first", retry: "borrow" };
    /// The same for what decides a first try, too.
    pub(crate) const BORROW: Self = Self { first: "borrow", retry: "borrow" };

    pub(crate) fn of(self, nth: Try) -> &'static str {
        match nth {
            Try::First => self.first,
            Try::Retry => self.retry,
        }
    }
}

/// How to settle a request whose outcome is unknown.
pub(crate) fn same_request(request: &RequestId) -> Settle {
    Settle::SameRequest(request.to_string())
}

/// What a call sends in a mode.
type Arguments<'a> = Box<dyn Fn(&str) -> Vec<Vec<u8>> + 'a>;

/// One call, whose arguments depend on its mode.
pub(crate) struct SingleCall<'a> {
    pub(crate) script: &'static Script,
    pub(crate) settle: Settle,
    arguments: Arguments<'a>,
    /// Whether it may have been sent more than once.
    was_broken: Cell<bool>,
}

impl<'a> SingleCall<'a> {
    pub(crate) fn new(script: &'static Script, settle: Settle, arguments: impl Fn(&str) -> Vec<Vec<u8>> + 'a) -> Self {
        Self { script, settle, arguments: Box::new(arguments), was_broken: Cell::new(false) }
    }

    /// The same as something that may be sent any number of times.
    pub(crate) fn safe(&self, keys: &Keys) -> SafeCall {
        SafeCall::new(self.script, self.names(keys), (self.arguments)(Modes::BORROW.first))
    }

    /// The same, if a refusal need not be kept: what a late copy takes, somebody returns.
    pub(crate) fn first(&self, keys: &Keys) -> SafeCall {
        SafeCall::new(self.script, self.names(keys), (self.arguments)(Modes::FINAL.first))
    }

    /// Whether it may have been sent more than once, so that a late copy may still come.
    pub(crate) fn was_broken(&self) -> bool {
        self.was_broken.get()
    }

    fn names<'k>(&self, keys: &'k Keys) -> Vec<&'k str> {
        if self.script.knows_holds() { keys.all().collect() } else { keys.in_order().collect() }
    }
}

impl Store {
    /// Sends a call to an activity.
    pub(crate) fn send_single(
        &mut self,
        call: &SingleCall<'_>,
        activity: &ActivityId,
        modes: Modes,
    ) -> Result<Value, StoreError> {
        let keys = self.keys(activity);
        let again = if modes == Modes::DRY { Again::Reads } else { Again::Safe };
        let settle = Some(call.settle.clone());
        self.servers.run(call.script, &call.names(&keys), again, settle, |nth| {
            call.was_broken.set(call.was_broken() || nth == Try::Retry);
            (call.arguments)(modes.of(nth))
        })
    }
}
