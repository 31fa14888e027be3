//! Single orders: deduct and refund. One connection, one round trip.

use super::call::{Again, Try};
use super::reply::Reply;
use super::scripts::{DEDUCT, REFUND, Script};
use super::{Settle, Store, StoreError};
use crate::inventory::id::{ActivityId, RequestId, StoredUser, UserId};
use crate::inventory::number::Quantity;
use crate::inventory::order::{Order, Outcome, Refund, RefundOf};
use crate::inventory::status::Status;

/// One order for a script that takes one or many.
struct One<'a> {
    activity: &'a ActivityId,
    user: &'a [u8],
    quantity: String,
    request: &'a RequestId,
    reason: Option<&'a str>,
    /// Of a deduct the limit, of a refund whether nobody gave the quantity.
    extra: String,
}

/// The scripts' name for how a call is meant.
pub(super) fn mode(dry_run: bool, nth: Try) -> &'static str {
    match (dry_run, nth) {
        (true, _) => "dry",
        (false, Try::First) => "first",
        (false, Try::Retry) => "retry",
    }
}

/// How to settle a request whose outcome is unknown.
pub(super) fn settle(request: &RequestId) -> Option<Settle> {
    Some(Settle::SameRequest(request.to_string()))
}

/// The text of an optional user: only the layout `product` does without.
pub(super) fn user_text(user: Option<&UserId>) -> &str {
    user.map_or("", UserId::as_str)
}

impl Store {
    /// Takes units of one activity. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn deduct(&mut self, order: &Order, dry_run: bool) -> Result<Outcome, StoreError> {
        let one = One {
            activity: &order.activity,
            user: user_text(order.user.as_ref()).as_bytes(),
            quantity: order.quantity.to_string(),
            request: &order.request,
            reason: order.reason.as_deref(),
            extra: order.per_user_limit.map(|limit| limit.to_string()).unwrap_or_default(),
        };
        let mut outcome = self.one(&DEDUCT, &one, dry_run)?;
        outcome.quantity = Some(order.quantity.get());
        Ok(outcome)
    }

    /// Gives units of one activity back. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcome.
    pub fn refund(&mut self, refund: &Refund, dry_run: bool) -> Result<Outcome, StoreError> {
        let one = One {
            activity: &refund.activity,
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
        let mut outcome = self.one(&REFUND, &one, dry_run)?;
        match refund.of {
            RefundOf::Quantity(quantity) => outcome.quantity = Some(quantity.get()),
            RefundOf::Default => outcome.quantity = Some(Quantity::ONE.get()),
            RefundOf::All => {}
        }
        Ok(outcome)
    }

    fn one(&mut self, script: &Script, one: &One<'_>, dry_run: bool) -> Result<Outcome, StoreError> {
        let keys = self.keys(one.activity);
        let names: Vec<&str> = keys.in_order().collect();
        let (kind, by) = (self.kind(), self.operator.clone());
        let again = if dry_run { Again::Reads } else { Again::Safe };
        let value = self.servers.run(script, &names, again, settle(one.request), |nth| {
            let mode = mode(dry_run, nth);
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
        })?;
        let reply = Reply::of(script);
        let values = reply.array(value)?;
        let status = reply.status(values.first())?;
        if status.is_done() && !dry_run {
            self.changed(one.activity);
        }
        if status == Status::Corrupt {
            let corrupt = Some(reply.corrupt(&values, &keys)?);
            return Ok(Outcome { status, quantity: None, stock: None, bought: None, corrupt });
        }
        Ok(Outcome {
            status,
            quantity: reply.count(values.get(3))?,
            stock: reply.count(values.get(1))?,
            bought: reply.bought(values.get(2))?,
            corrupt: None,
        })
    }
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
        assert!(Reply::of_command("x").array(redis::Value::Nil).is_err());
    }
}
