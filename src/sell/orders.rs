//! Orders of one activity: deduct, refund, hold, and the end of a hold. One connection, one round trip.
//!
//! An activity of which nothing is known is asked as if it had its units itself; one that is sharded replies its shards. So a plain
//! order is one round trip, and an order of a sharded activity is two, or one if the shards are known.

use crate::error::{Recovery, StoreError};
use crate::model::id::{StoredUser, UserId};
use crate::model::number::Quantity;
use crate::model::order::hold::{Hold, HoldEnd, HoldOutcome, Settled, Step};
use crate::model::order::{Order, Outcome, Refund, RefundOf};
use crate::script::{DEDUCT, HOLD, REFUND, SETTLE};
use crate::sell::sharded::{self, Wanted};
use crate::sell::single::{SingleCall, same_request};
use crate::store::Store;

/// The text of an optional user: only the layout `product` does without.
pub(crate) fn user_text(user: Option<&UserId>) -> &str {
    user.map_or("", UserId::as_str)
}

/// Takes units of one activity. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses of the outcome.
pub fn deduct(store: &mut Store, order: &Order, dry_run: bool) -> Result<Outcome, StoreError> {
    let (kind, quantity) = (store.kind(), order.quantity.to_string());
    let (user, request) = (user_text(order.user.as_ref()), &order.request);
    let reason = order.reason.as_deref().unwrap_or_default();
    let limit = order.per_user_limit.map(|limit| limit.to_string()).unwrap_or_default();
    let arguments = [&kind, &store.operator, user, &quantity, request.as_str(), "", reason, &limit];
    let script = DEDUCT.of(store.layout.kind());
    let call = SingleCall::new(script, same_request(request), &arguments.map(str::as_bytes)).omitting_empty();
    let wanted = Wanted { quantity: Some(order.quantity), request };
    let reply = sharded::send_home(store, &order.activity, Some(user.as_bytes()), &call, Some(wanted), dry_run)?;
    Ok(Outcome { quantity: Some(order.quantity.get()), ..reply.outcome })
}

/// Gives units of one activity back. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses of the outcome.
pub fn refund(store: &mut Store, refund: &Refund, dry_run: bool) -> Result<Outcome, StoreError> {
    let quantity = match refund.of {
        RefundOf::Quantity(quantity) => Some(quantity),
        RefundOf::Default => Some(Quantity::ONE),
        RefundOf::All => None,
    };
    let (kind, units) = (store.kind(), quantity.map_or_else(|| "all".to_owned(), |quantity| quantity.to_string()));
    let user = refund.user.as_ref().map(StoredUser::as_bytes).unwrap_or_default();
    let (request, reason) = (&refund.request, refund.reason.as_deref().unwrap_or_default());
    let is_default = if refund.of == RefundOf::Default { "1" } else { "" };
    let [kind, by, units, id, reason, is_default] =
        [&kind, &store.operator, &units, request.as_str(), reason, is_default].map(str::as_bytes);
    let arguments = [kind, by, user, units, id, b"", reason, is_default];
    let call = SingleCall::new(REFUND.of(store.layout.kind()), same_request(request), &arguments).omitting_empty();
    let outcome = sharded::send_home(store, &refund.activity, Some(user), &call, None, dry_run)?.outcome;
    Ok(Outcome { quantity: quantity.map(Quantity::get).or(outcome.quantity), ..outcome })
}

/// Takes units of one activity until a deadline. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses of the outcome.
pub(crate) fn hold(store: &mut Store, hold: &Hold, dry_run: bool) -> Result<HoldOutcome, StoreError> {
    let (kind, quantity, duration) = (store.kind(), hold.quantity.to_string(), hold.hold_for.millis().to_string());
    let (user, request) = (hold.user.as_str(), &hold.request);
    let reason = hold.reason.as_deref().unwrap_or_default();
    let arguments = [&kind, &store.operator, user, &quantity, request.as_str(), "", reason, &duration];
    let script = HOLD.of(store.layout.kind());
    let call = SingleCall::new(script, same_request(request), &arguments.map(str::as_bytes)).holding(hold.quantity);
    let wanted = Wanted { quantity: Some(hold.quantity), request };
    let reply = sharded::send_home(store, &hold.activity, Some(user.as_bytes()), &call, Some(wanted), dry_run)?;
    Ok(HoldOutcome { outcome: reply.outcome, deadline: reply.deadline })
}

/// Ends the hold of a request id. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`], [`StoreError::NoUser`] if the activity is sharded; refusals are statuses of the outcome.
pub(crate) fn settle_hold(store: &mut Store, end: &HoldEnd, dry_run: bool) -> Result<Settled, StoreError> {
    let (kind, reason) = (store.kind(), end.reason.as_deref().unwrap_or_default());
    let user = end.user.as_ref().map(StoredUser::as_bytes);
    let arguments = [&kind, &store.operator, end.request.as_str(), end.step.name(), "", "", reason];
    let arguments: Vec<&[u8]> = arguments.into_iter().map(str::as_bytes).chain(user).collect();
    let call = SingleCall::new(SETTLE.of(store.layout.kind()), Recovery::SameCall, &arguments);
    // The hold says how many.
    let wanted = (end.step == Step::Confirm).then_some(Wanted { quantity: None, request: &end.request });
    let reply = sharded::send_home(store, &end.activity, user, &call, wanted, dry_run)?;
    Ok(Settled { outcome: reply.outcome, user: reply.user })
}
