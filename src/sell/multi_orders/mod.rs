//! One order of several activities, all or nothing.

pub(crate) mod cross_slot;

use redis::Value;

use crate::error::ServerKind;
use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Kind;
use crate::model::number::Quantity;
use crate::model::order::{Bought, Corrupt, MultiOrder, MultiOutcome, Outcome};
use crate::model::slot::common_slot;
use crate::model::status::Status;
use crate::redis::call::Call;
use crate::script::MULTI_DEDUCT;
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::sell::orders::user_text;
use crate::sell::single::{Modes, same_request};
use crate::store::Store;

/// Takes units of several activities, all or nothing. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses of the outcome.
pub(crate) fn multi_deduct(store: &mut Store, order: &MultiOrder, dry_run: bool) -> Result<MultiOutcome, StoreError> {
    // Another process may have made shards of one since an order before this.
    store.directory.forget_unsharded();
    let keys: Vec<Keys> = order.items.iter().map(|(activity, _)| Keys::of(store.layout, activity)).collect();
    let names: Vec<&str> = keys.iter().flat_map(Keys::in_order).collect();
    store.servers.check_layout()?;
    if store.servers.is_cluster() && common_slot(&names).is_none() {
        return cross_slot::order_over_slots(store, order, dry_run);
    }
    let modes = Modes::of_activity(dry_run);
    let arguments = |mode: &str| {
        let mut arguments = vec![store.kind(), store.operator.clone(), mode.to_owned()];
        arguments.push(order.reason.clone().unwrap_or_default());
        arguments.extend([user_text(order.user.as_ref()).to_owned(), order.request.to_string()]);
        arguments.extend(order.items.iter().map(|(_, quantity)| quantity.to_string()));
        arguments.into_iter().map(String::into_bytes).collect::<Vec<_>>()
    };
    let call = Call::script(MULTI_DEDUCT.of(store.layout.kind()), names, arguments(modes.first))
        .retried_with(arguments(modes.retry))
        .with_safety(modes.safety())
        .recovered_by(same_request(&order.request));
    let value = store.servers.call(&call);
    // It is a cluster, which nobody said.
    if matches!(value, Err(StoreError::Server { kind: ServerKind::CrossSlot, .. })) {
        return cross_slot::order_over_slots(store, order, dry_run);
    }
    let outcome = outcome_of(&value?, order, &keys)?;
    if outcome.items.iter().any(|item| item.status == Status::Sharded) {
        return cross_slot::order_over_slots(store, order, dry_run);
    }
    if outcome.status.is_done() && !dry_run {
        order.items.iter().for_each(|(activity, _)| store.changed(activity));
    }
    Ok(outcome)
}

/// The error for an order whose activities are in several slots of a cluster.
pub(crate) fn spread(items: &[(ActivityId, Quantity)], keys: &[Keys]) -> StoreError {
    let slots = items.iter().zip(keys).filter_map(|((activity, _), keys)| Some((activity.to_string(), keys.slot()?)));
    StoreError::SpreadOrder { slots: slots.collect() }
}

/// Reads the script's reply to one order.
///
/// # Errors
/// It does not fit the order.
pub(crate) fn outcome_of(value: &Value, order: &MultiOrder, keys: &[Keys]) -> Result<MultiOutcome, StoreError> {
    // Of all kinds it has the same name.
    let reply = Reply::of(MULTI_DEDUCT.of(Kind::Hash));
    let text = reply.text(Some(value))?.unwrap_or_default();
    outcome(&text, order, keys).ok_or_else(|| reply.invalid(Value::SimpleString(text)))
}

/// Reads `status item item …` of one order; `None` if it does not fit the order.
fn outcome(text: &str, order: &MultiOrder, keys: &[Keys]) -> Option<MultiOutcome> {
    let mut words = text.split(' ');
    let status = Status::of_code(words.next()?.parse().ok()?)?;
    let mut items = Vec::with_capacity(order.items.len());
    for ((_, quantity), word) in order.items.iter().zip(words) {
        let (code, rest) = word.split_once(',')?;
        let item_status = Status::of_code(code.parse().ok()?)?;
        let mut outcome =
            Outcome { status: item_status, quantity: Some(quantity.get()), stock: None, bought: None, corrupt: None };
        if item_status == Status::Corrupt {
            outcome.corrupt = Some(corrupt_value(rest, keys)?);
        } else {
            let (stock, units) = rest.split_once(',')?;
            outcome.stock = stock.parse().ok();
            outcome.bought = bought(units);
        }
        items.push(outcome);
    }
    (items.len() == order.items.len()).then_some(MultiOutcome { status, items })
}

/// What a user holds, `?` if that is unknown.
pub(crate) fn bought(text: &str) -> Option<Bought> {
    if text == "?" { Some(Bought::Unknown) } else { text.parse().ok().map(Bought::Units) }
}

/// Reads `n,hex`: what is corrupt in `KEYS[n]`. `keys` are those of each activity of the call.
pub(crate) fn corrupt_value(text: &str, keys: &[Keys]) -> Option<Corrupt> {
    let (number, hex) = text.split_once(',')?;
    let number = number.parse::<usize>().ok()?.checked_sub(1)?;
    let each = keys.first()?.in_order().count();
    let value = (hex != "-").then(|| unhex(hex));
    Some(corrupt(keys.get(number / each)?, number % each + 1, value.as_deref()))
}

fn unhex(hex: &str) -> String {
    let bytes: Vec<u8> = hex
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_back() {
        assert_eq!(unhex("61620a"), "ab\n");
    }
}
