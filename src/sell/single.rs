//! One order as one call of its script, whichever activity has the units: what it sends, and how its reply is read.

use redis::Value;

use crate::error::{Recovery, StoreError};
use crate::model::id::{ActivityId, RequestId, StoredUser};
use crate::model::number::Quantity;
use crate::model::order::{Corrupt, Outcome};
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::retry::Answer;
use crate::redis::call::{Call, RetrySafety};
use crate::script::Script;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Where `mode` is among the arguments of every script of one order.
const MODE_AT: usize = 5;

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
    /// A refusal need not be kept: a late duplicate may take units, and `expire` returns them.
    pub(crate) const UNKEPT: Self = Self { first: "first", retry: "first" };

    /// What sending a call in these modes again does.
    pub(crate) fn safety(self) -> RetrySafety {
        if self == Self::DRY { RetrySafety::ReadOnly } else { RetrySafety::Idempotent }
    }

    /// Those of a call of which nobody else has units.
    pub(crate) fn of_activity(dry_run: bool) -> Self {
        if dry_run { Self::DRY } else { Self::FINAL }
    }
}

/// How to find out what became of a request whose reply was lost.
pub(crate) fn same_request(request: &RequestId) -> Recovery {
    Recovery::SameRequest(request.to_string())
}

/// One call, whose arguments depend on its mode.
pub(crate) struct SingleCall {
    pub(crate) script: &'static Script,
    pub(crate) recovery: Recovery,
    /// With nothing in the place of the mode.
    arguments: Vec<Vec<u8>>,
    /// Whether empty arguments at the end are left out: each costs the server time.
    omits_empty: bool,
    /// The units of a hold, whose reply has its deadline in their place.
    held: Option<Quantity>,
}

/// The reply to one order.
#[derive(Debug)]
pub(crate) struct SingleReply {
    pub(crate) outcome: Outcome,
    /// When the units of a hold return; `None` if nothing is held.
    pub(crate) deadline: Option<Millis>,
    /// Whose hold was ended; `None` if there is none of that id.
    pub(crate) user: Option<StoredUser>,
}

impl SingleReply {
    pub(crate) fn corrupt(corrupt: Corrupt) -> Self {
        Self { outcome: Outcome::corrupt(corrupt), deadline: None, user: None }
    }

    /// Reads `{status, stock, bought, quantity, user}` of the activity with these keys, as far as a script replies it.
    ///
    /// # Errors
    /// No header names such a reply.
    pub(crate) fn read(script: &Script, value: Value, keys: &Keys) -> Result<Self, StoreError> {
        let reply = Reply::of(script);
        let values = reply.array(value)?;
        let status = reply.status(values.first())?;
        if status == Status::Corrupt {
            return Ok(Self::corrupt(reply.corrupt(&values, keys)?));
        }
        let user = match values.get(4) {
            Some(Value::BulkString(user)) => Some(StoredUser::new(user.clone())),
            _ => None,
        };
        let quantity = reply.count(values.get(3))?;
        let (stock, bought) = (reply.count(values.get(1))?, reply.bought(values.get(2))?);
        Ok(Self { outcome: Outcome { status, quantity, stock, bought, corrupt: None }, deadline: None, user })
    }
}

impl SingleCall {
    /// A call with these arguments, of which that of the mode is empty.
    pub(crate) fn new(script: &'static Script, recovery: Recovery, arguments: &[&[u8]]) -> Self {
        let arguments = arguments.iter().map(|argument| argument.to_vec()).collect();
        Self { script, recovery, arguments, omits_empty: false, held: None }
    }

    /// The same without empty arguments at the end.
    pub(crate) fn omitting_empty(self) -> Self {
        Self { omits_empty: true, ..self }
    }

    /// The same for a hold of so many units.
    pub(crate) fn holding(self, quantity: Quantity) -> Self {
        Self { held: Some(quantity), ..self }
    }

    /// Reads its reply, of the activity with these keys.
    ///
    /// # Errors
    /// No header names such a reply.
    pub(crate) fn read(&self, value: Value, keys: &Keys) -> Result<SingleReply, StoreError> {
        let mut reply = SingleReply::read(self.script, value, keys)?;
        if let Some(held) = self.held.filter(|_| reply.outcome.corrupt.is_none()) {
            reply.deadline = reply.outcome.quantity.replace(held.get()).map(Millis::new);
        }
        Ok(reply)
    }

    /// As it is sent to the activity with these keys.
    pub(crate) fn call(&self, keys: &Keys, modes: Modes) -> Call {
        Call::script(self.script, self.names(keys), self.arguments(modes.first))
            .retried_with(self.arguments(modes.retry))
            .with_safety(modes.safety())
            .recovered_by(self.recovery.clone())
    }

    fn names<'k>(&self, keys: &'k Keys) -> Vec<&'k str> {
        if self.script.knows_holds() { keys.all().collect() } else { keys.in_order().collect() }
    }

    fn arguments(&self, mode: &str) -> Vec<Vec<u8>> {
        let mut arguments = self.arguments.clone();
        // The first mode is what a script takes for granted.
        let is_default = self.omits_empty && mode == Modes::FINAL.first;
        let last = arguments.iter().rposition(|argument| !argument.is_empty());
        let needed = last.map_or(0, |last| last + 1).max(if is_default { 0 } else { MODE_AT + 1 });
        arguments[MODE_AT] = mode.as_bytes().to_vec();
        if self.omits_empty {
            arguments.truncate(needed);
        }
        arguments
    }
}

/// Sends a call to an activity.
pub(crate) fn send_single(
    store: &mut Store,
    call: &SingleCall,
    activity: &ActivityId,
    modes: Modes,
) -> Result<Value, StoreError> {
    let Answer { value, was_resent } = store.servers.answer(&call.call(&store.keys(activity), modes))?;
    store.borrower.was_resent |= was_resent;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Kind;
    use crate::script::{HOLD, REFUND};

    fn arguments(call: &SingleCall, mode: &str) -> Vec<String> {
        let texts = call.arguments(mode).into_iter();
        texts.map(|argument| String::from_utf8(argument).unwrap()).collect()
    }

    #[test]
    fn modes_are_those_of_the_headers() {
        let modes = |modes: Modes| (modes.first, modes.retry);
        assert_eq!(modes(Modes::of_activity(false)), ("first", "retry"));
        assert_eq!(modes(Modes::of_activity(true)), ("dry", "dry"));
    }

    #[test]
    fn only_what_is_needed_is_sent() {
        let call = |reason: &str, script| {
            let given = ["hash", "me", "7", "1", "r", "", reason, ""];
            SingleCall::new(script, Recovery::SameCall, &given.map(str::as_bytes))
        };
        let plain = call("", REFUND.of(Kind::Hash)).omitting_empty();
        assert_eq!(arguments(&plain, "first"), ["hash", "me", "7", "1", "r"]);
        assert_eq!(arguments(&plain, "retry"), ["hash", "me", "7", "1", "r", "retry"]);
        let reasoned = call("why", REFUND.of(Kind::Hash)).omitting_empty();
        assert_eq!(arguments(&reasoned, "first"), ["hash", "me", "7", "1", "r", "first", "why"]);
        assert_eq!(arguments(&call("", HOLD.of(Kind::Hash)), "first"), ["hash", "me", "7", "1", "r", "first", "", ""]);
    }

    #[test]
    fn a_value_is_no_reply() {
        assert!(Reply::of_command("x").array(Value::Nil).is_err());
    }
}
