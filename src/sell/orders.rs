//! Single orders: deduct and refund. One connection, one round trip.

use redis::Value;

use crate::error::{Settle, StoreError};
use crate::model::id::{RequestId, StoredUser, UserId};
use crate::model::number::Quantity;
use crate::model::order::{Order, Outcome, Refund, RefundOf};
use crate::model::status::Status;
use crate::redis::call::Try;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::script::{DEDUCT, REFUND, Script};
use crate::sell::single::{SingleCall, same_request};
use crate::store::Store;

/// One order for a script that takes one or many.
struct One<'a> {
    user: &'a [u8],
    quantity: String,
    request: &'a RequestId,
    reason: Option<&'a str>,
    /// Of a deduct the limit, of a refund whether nobody gave the quantity.
    extra: String,
}

/// The scripts' name for how a call is meant.
pub(crate) fn mode(dry_run: bool, nth: Try) -> &'static str {
    match (dry_run, nth) {
        (true, _) => "dry",
        (false, Try::First) => "first",
        (false, Try::Retry) => "retry",
    }
}

/// How to settle a request whose outcome is unknown.
pub(crate) fn settle(request: &RequestId) -> Option<Settle> {
    Some(same_request(request))
}

/// The text of an optional user: only the layout `product` does without.
pub(crate) fn user_text(user: Option<&UserId>) -> &str {
    user.map_or("", UserId::as_str)
}

impl Store {
    /// The call that takes units of one activity.
    pub(crate) fn deduct_call<'a>(&self, order: &'a Order) -> SingleCall<'a> {
        let one = One {
            user: user_text(order.user.as_ref()).as_bytes(),
            quantity: order.quantity.to_string(),
            request: &order.request,
            reason: order.reason.as_deref(),
            extra: order.per_user_limit.map(|limit| limit.to_string()).unwrap_or_default(),
        };
        self.one(DEDUCT.of(self.layout.kind()), one)
    }

    /// The call that gives units of one activity back.
    pub(crate) fn refund_call<'a>(&self, refund: &'a Refund) -> SingleCall<'a> {
        let one = One {
            user: refund.user.as_ref().map(StoredUser::as_bytes).unwrap_or_default(),
            quantity: match refund.of {
                RefundOf::Quantity(quantity) => quantity.to_string(),
                RefundOf::Default => Quantity::ONE.to_string(),
                RefundOf::All => "all".to_owned(),
            },
            request: &refund.request,
            reason: refund.reason.as_deref(),
            extra: if refund.of == RefundOf::Default { "1".to_owned() } else { String::new() },
        };
        self.one(REFUND.of(self.layout.kind()), one)
    }

    fn one<'a>(&self, script: &'static Script, one: One<'a>) -> SingleCall<'a> {
        let (kind, by) = (self.kind(), self.operator.clone());
        let settle = same_request(one.request);
        let arguments = move |mode: &str| {
            // What may be left out costs the server time: only as many of these as are needed.
            let optional = [if mode == "first" { "" } else { mode }, one.reason.unwrap_or_default(), &one.extra];
            let needed = optional.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
            let optional = [mode, optional[1], optional[2]];
            let before =
                [kind.as_bytes(), by.as_bytes(), one.user, one.quantity.as_bytes(), one.request.as_str().as_bytes()];
            before
                .into_iter()
                .chain(optional[..needed].iter().map(|text| text.as_bytes()))
                .map(<[u8]>::to_vec)
                .collect()
        };
        SingleCall::new(script, settle, arguments)
    }
}

/// Reads the reply to an order, of the activity with these keys.
pub(crate) fn read_outcome(script: &Script, value: Value, keys: &Keys) -> Result<Outcome, StoreError> {
    let reply = Reply::of(script);
    let values = reply.array(value)?;
    let status = reply.status(values.first())?;
    if status == Status::Corrupt {
        return Ok(Outcome::corrupt(reply.corrupt(&values, keys)?));
    }
    Ok(Outcome {
        status,
        quantity: reply.count(values.get(3))?,
        stock: reply.count(values.get(1))?,
        bought: reply.bought(values.get(2))?,
        corrupt: None,
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn modes_are_those_of_the_headers() {
        assert_eq!(mode(false, Try::First), "first");
        assert_eq!(mode(false, Try::Retry), "retry");
        assert_eq!(mode(true, Try::Retry), "dry");
    }

    #[test]
    fn a_value_is_no_reply() {
        assert!(Reply::of_command("x").array(Value::Nil).is_err());
    }
}
