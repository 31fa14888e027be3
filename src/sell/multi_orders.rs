//! One order of several activities, all or nothing.
//!
//! An order of activities in several slots of a cluster, which no one call can serve: a hold of each item with the order's request
//! id; the primary decides. The order is bought once the primary is confirmed, and not bought once that is void.
//! `scripts/mutate-client.diff` breaks the rules of these steps, and nights of the simulator notice each.

use std::time::Duration;

use redis::Value;

use crate::error::{Recovery, Result, ServerKind, StoreError};
use crate::model::order::hold::{LeftHold, Step};
use crate::model::slot::common_slot;
use crate::model::{
    ActivityId, Bought, Corrupt, Kind, MultiOrder, MultiOutcome, Outcome, Quantity, RequestId, Status, StoredUser,
};
use crate::read::snapshot;
use crate::redis::call::Call;
use crate::redis::call::exchange::{CallFailure, ReplicaWait};
use crate::redis::call::fan_out::CallOutcome;
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::script::{HOLD, MULTI_DEDUCT, sha1_hex};
use crate::sell::orders::{self, Modes, SingleCall, same_request, user_text};
use crate::store::Store;

/// Takes units of several activities, all or nothing. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; refusals are statuses of the outcome.
pub(crate) fn multi_deduct(store: &mut Store, order: &MultiOrder, dry_run: bool) -> Result<MultiOutcome> {
    // Another process may have made shards of one since an order before this, or other shards. Holds under the name of a shard that is
    // gone would use up the request id.
    order.items.iter().for_each(|(activity, _)| store.directory.forget(activity));
    let keys: Vec<Keys> = order.items.iter().map(|(activity, _)| Keys::of(store.layout, activity)).collect();
    let names: Vec<&str> = keys.iter().flat_map(Keys::in_order).collect();
    store.servers.check_layout()?;
    if store.servers.is_cluster() && common_slot(&names).is_none() {
        return order_over_slots(store, order, dry_run);
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
        return order_over_slots(store, order, dry_run);
    }
    let outcome = outcome_of(&value?, order, &keys)?;
    if outcome.items.iter().any(|item| item.status == Status::Sharded) {
        return order_over_slots(store, order, dry_run);
    }
    if outcome.status.is_done() && !dry_run {
        order.items.iter().for_each(|(activity, _)| store.changed(activity));
    }
    Ok(outcome)
}

/// The error for an order whose activities are in several slots of a cluster.
pub(crate) fn spread_error(items: &[(ActivityId, Quantity)], keys: &[Keys]) -> StoreError {
    let slots = items.iter().zip(keys).filter_map(|((activity, _), keys)| Some((activity.to_string(), keys.slot()?)));
    StoreError::SpreadOrder { slots: slots.collect() }
}

/// Reads the script's reply to one order.
///
/// # Errors
/// It does not fit the order.
pub(crate) fn outcome_of(value: &Value, order: &MultiOrder, keys: &[Keys]) -> Result<MultiOutcome> {
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
        let mut outcome = Outcome { quantity: Some(quantity.get()), ..Outcome::of(item_status) };
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
fn bought(text: &str) -> Option<Bought> {
    if text == "?" { Some(Bought::Unknown) } else { text.parse().ok().map(Bought::Units) }
}

/// Reads `n,hex`: what is corrupt in `KEYS[n]`. `keys` are those of each activity of the call.
pub(crate) fn corrupt_value(text: &str, keys: &[Keys]) -> Option<Corrupt> {
    let (number, hex) = text.split_once(',')?;
    let number = number.parse::<usize>().ok()?.checked_sub(1)?;
    let each = keys.first()?.in_order().count();
    let bytes = if hex == "-" { None } else { Some(StoredUser::of_hex(hex)?) };
    let value = bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes.as_bytes()));
    Some(corrupt(keys.get(number / each)?, number % each + 1, value.as_deref()))
}

/// How long the items are held at least, so that a failover does not end an order.
const SHORTEST_HOLD: Duration = Duration::from_secs(30);

/// One item of an order.
struct Item {
    /// What is bought.
    activity: ActivityId,
    /// What has the units: the same, or the user's home among its shards.
    home: ActivityId,
    quantity: Quantity,
    keys: Keys,
}

impl Item {
    fn is_in_shard(&self) -> bool {
        self.home != self.activity
    }
}

/// An order being decided.
struct CrossSlotOrder<'a> {
    asked: &'a MultiOrder,
    items: Vec<Item>,
    /// The hold of each item.
    holds: Vec<SingleCall>,
    /// Which item decides: that with the smallest stock key.
    primary: usize,
    /// Whether nothing is written.
    dry_run: bool,
}

impl CrossSlotOrder<'_> {
    /// What records of its items name it by.
    fn name(&self) -> String {
        format!("m:{}", self.items[self.primary].keys.stock)
    }

    /// What is bought, whatever the order in which the items were given: the same as in one slot.
    fn digest(&self) -> String {
        let mut asked: Vec<String> =
            self.items.iter().map(|item| format!("{} {}", item.keys.stock, item.quantity)).collect();
        asked.sort();
        format!("multi_deduct {}", sha1_hex(&asked.join("\n")))
    }

    /// What its request id stores at each item.
    fn stored(&self) -> String {
        format!("{}\t{}", self.digest(), user_text(self.asked.user.as_ref()))
    }

    /// The stock keys of the others, for the ledger of the primary.
    fn names_of_others(&self) -> String {
        let names: Vec<&str> = self.others().map(|at| &*self.items[at].keys.stock).collect();
        names.join(" ")
    }

    /// The call that holds each item.
    fn calls(&self, modes: Modes) -> Vec<Call> {
        self.holds.iter().zip(&self.items).map(|(hold, item)| hold.call(&item.keys, modes)).collect()
    }

    /// What items have that would be held, if none is.
    fn unhold(&self, outcomes: &mut [Outcome]) {
        let held = outcomes.iter_mut().zip(&self.items).filter(|(outcome, _)| outcome.status == Status::Ok);
        for (outcome, item) in held {
            outcome.stock = outcome.stock.map(|stock| stock + item.quantity.get());
            outcome.bought = outcome.bought.map(|bought| match bought {
                Bought::Units(units) => Bought::Units(units.saturating_sub(item.quantity.get())),
                Bought::Unknown => Bought::Unknown,
            });
        }
    }

    /// The others.
    fn others(&self) -> impl Iterator<Item = usize> {
        let primary = self.primary;
        (0..self.items.len()).filter(move |at| *at != primary)
    }
}

/// Takes units of activities in several slots, or in shards, all or nothing. With `dry_run` nothing is written.
///
/// # Errors
/// Any of [`StoreError`]; the layout records no users, so that it has no holds.
pub(crate) fn order_over_slots(store: &mut Store, order: &MultiOrder, dry_run: bool) -> Result<MultiOutcome> {
    find_replicas(store)?;
    let order = at_homes(store, order, dry_run)?;
    let mut outcome = decide(store, &order)?;
    // What one shard has left says little of the sale.
    let items = order.items.iter().zip(&mut outcome.items);
    items.filter(|(item, _)| item.is_in_shard()).for_each(|(_, outcome)| outcome.stock = None);
    Ok(outcome)
}

/// Finds out which nodes serve which slots, and which of them have replicas: once, and again while one has none, which may have
/// got one since. The wait for a replica that is gone ends with an error.
fn find_replicas(store: &mut Store) -> Result<()> {
    let servers = &mut store.servers;
    let is_known = store.knows_replicas && servers.has_map;
    if is_known && servers.primaries().into_iter().all(|node| !servers.node(node).is_alone) {
        return Ok(());
    }
    servers.look_for_replicas()?;
    store.knows_replicas = true;
    Ok(())
}

/// How an order would end if one of its activities refuses every order now; `None` if none does. Holding its other items, and
/// returning them, would use its request id up.
///
/// # Errors
/// As [`order_over_slots`].
pub(crate) fn find_refusal(store: &mut Store, order: &MultiOrder) -> Result<Option<MultiOutcome>> {
    let order = at_homes(store, order, true)?;
    let answers = store.servers.call_all(&order.calls(Modes::DRY)).into_iter().zip(&order.holds).zip(&order.items);
    let mut outcomes: Vec<Outcome> =
        answers.map(|((answer, hold), item)| hold.read(answer?.value(), &item.keys)).collect::<Result<_>>()?;
    // A shard that is gone was reset, which is an error of the order.
    let refuses_all = |(outcome, item): (&Outcome, &Item)| {
        outcome.status.refuses_all() && !(item.is_in_shard() && outcome.status == Status::NotPreheated)
    };
    let is_refused = outcomes.iter().zip(&order.items).any(refuses_all);
    Ok(is_refused.then(|| {
        order.unhold(&mut outcomes);
        refused_if(true, false, outcomes)
    }))
}

/// An order with what has the units of each item.
///
/// # Errors
/// Any of [`StoreError`]; the layout records no users, so that it has no holds.
fn at_homes<'o>(store: &mut Store, order: &'o MultiOrder, dry_run: bool) -> Result<CrossSlotOrder<'o>> {
    if !store.layout.kind().has_users() {
        let keys: Vec<Keys> = order.items.iter().map(|(activity, _)| store.keys(activity)).collect();
        return Err(spread_error(&order.items, &keys));
    }
    let activities: Vec<&ActivityId> = order.items.iter().map(|(activity, _)| activity).collect();
    let homes = store.homes_of(&activities, user_text(order.user.as_ref()).as_bytes())?;
    let item = |((activity, quantity), home): (&(ActivityId, Quantity), ActivityId)| {
        let keys = store.keys(&home);
        Item { activity: activity.clone(), home, quantity: *quantity, keys }
    };
    let items: Vec<Item> = order.items.iter().zip(homes).map(item).collect();
    let stock = |at: &usize| items[*at].keys.stock.clone();
    let primary = (0..items.len()).min_by_key(stock).unwrap_or_default();
    let mut order = CrossSlotOrder { asked: order, items, holds: Vec::new(), primary, dry_run };
    order.holds = (0..order.items.len()).map(|at| hold_call_of(store, &order, at)).collect();
    Ok(order)
}

/// Holds, commits, confirms; or aborts.
fn decide(store: &mut Store, order: &CrossSlotOrder<'_>) -> Result<MultiOutcome> {
    let mut outcomes = hold_all(store, order)?;
    let is_refused = outcomes.iter().any(|outcome| !outcome.status.is_done());
    if order.dry_run {
        if is_refused {
            order.unhold(&mut outcomes);
        }
        let is_bought = outcomes[order.primary].status == Status::Replayed;
        return Ok(refused_if(is_refused, is_bought, outcomes));
    }
    // A call of one slot bought it, before its activities were in several: it left no holds.
    if outcomes.iter().all(|outcome| outcome.status == Status::Replayed && outcome.deadline.is_none()) {
        order.items.iter().for_each(|item| store.changed(&item.home));
        return Ok(MultiOutcome { status: Status::Replayed, items: outcomes });
    }
    end_held(store, order, outcomes, is_refused).map_err(|error| undecided(order, error))
}

/// Commits and confirms what is held, or aborts.
fn end_held(
    store: &mut Store,
    order: &CrossSlotOrder<'_>,
    mut outcomes: Vec<Outcome>,
    is_refused: bool,
) -> Result<MultiOutcome> {
    let bought =
        if is_refused { abort(store, order, &mut outcomes, false)? } else { commit(store, order, &mut outcomes)? };
    let is_removed = |at: &usize| order.items[*at].is_in_shard() && outcomes[*at].status == Status::NotPreheated;
    let Some(status) = bought else {
        return match (0..outcomes.len()).find(is_removed) {
            // It was reset after its shards were read.
            Some(at) => Err(StoreError::Reset { activity: order.items[at].activity.to_string() }),
            None => Ok(refused_if(true, false, outcomes)),
        };
    };
    if outcomes.iter().any(|outcome| outcome.status == Status::Reversed) {
        // It was bought, and a repair took this item back. The others are the user's.
        return Ok(refused_if(true, true, outcomes));
    }
    if let Some(at) = order.others().find(|at| outcomes[*at].status == Status::RequestConflict) {
        let why = format!("it is bought, but its id has another order of `{}`", order.items[at].activity);
        return Err(unsettled(&order.asked.request, why));
    }
    for (at, settled) in settle_items(store, order, order.others().collect(), "confirm")? {
        if !settled.status.is_done() {
            let (activity, status) = (&order.items[at].activity, settled.status.name());
            let why = format!(
                "it is bought, but its item of `{activity}` is {status}: was that reset, archived or lost since?"
            );
            return Err(unsettled(&order.asked.request, why));
        }
        outcomes[at] = settled;
    }
    for (outcome, item) in outcomes.iter_mut().zip(&order.items) {
        (outcome.status, outcome.quantity) = (status, Some(item.quantity.get()));
        store.changed(&item.home);
    }
    Ok(MultiOutcome { status, items: outcomes })
}

/// Ends an overdue item as its order was decided, or decides it: nobody who is still there can buy it then.
///
/// # Errors
/// Any of [`StoreError`]. `None` if the record names no order of this layout.
pub(crate) fn expire_item(store: &mut Store, left: &LeftHold) -> Result<Option<(Step, Outcome)>> {
    let recovery = Some(Recovery::SameCall);
    end_overdue(store, left).map_err(|error| match error {
        StoreError::Unknown { server, why, .. } => StoreError::Unknown { server, why, recovery },
        StoreError::Unsettled { why, .. } => {
            StoreError::Unknown { server: store.servers.target().shown.clone(), why, recovery }
        }
        error => error,
    })
}

fn end_overdue(store: &mut Store, left: &LeftHold) -> Result<Option<(Step, Outcome)>> {
    let activity = &left.activity;
    let (Some(name), Ok(request)) = (&left.order, left.request.parse::<RequestId>()) else { return Ok(None) };
    let primary = name.strip_prefix("m:").and_then(|key| Keys::activity_of(store.layout, key));
    let Some(primary) = primary else { return Ok(None) };
    find_replicas(store)?;
    let own = store.keys(activity);
    let stored = stored_order(store, &own, &request)?.unwrap_or_default();
    let abort = settle_call(store, &request, "abort", name, &stored);
    let decided = settle_replicated(store, &store.keys(&primary), &request, &abort)?;
    store.changed(&primary);
    if primary == *activity {
        return Ok(Some((Step::Release, decided)));
    }
    let is_bought = decided.status == Status::Confirmed;
    // It was lost with its keys, and then made in shards: nothing is decided there any more, either.
    let is_sharded = decided.status == Status::Sharded;
    if !is_bought && !is_given_up(decided.status) && !is_sharded && !is_removed(store, &primary)? {
        return Ok(None);
    }
    let (step, settle) = match is_bought {
        true => (Step::Confirm, settle_call(store, &request, "confirm", name, &stored)),
        false => (Step::Release, abort),
    };
    let settled = settle_replicated(store, &own, &request, &settle)?;
    store.changed(activity);
    Ok(Some((step, settled)))
}

/// Whether a reset removed this shard, with all that was bought there: it never says how an order was decided, and nothing is
/// decided there any more.
fn is_removed(store: &mut Store, shard: &ActivityId) -> Result<bool> {
    Ok(shard.parent().is_some() && snapshot::snapshot(store, shard)?.is_removed())
}

/// Holds all items side by side, each at its home. What became of one without a reply, the same call replies.
fn hold_all(store: &mut Store, order: &CrossSlotOrder<'_>) -> Result<Vec<Outcome>> {
    let calls = if order.dry_run { Vec::new() } else { order.calls(Modes::UNKEPT) };
    let wait = ReplicaWait::for_one(store.servers.target().timeout / 2);
    let replies = store.servers.fan_out(&calls, Some(wait));
    let may_hold =
        |reply: &CallOutcome| matches!(reply, Ok(_) | Err(CallFailure::Lost(_) | CallFailure::NotReplicated));
    let may_be_held = replies.iter().any(may_hold);
    let mut replies = replies.into_iter();
    let hold = |at| {
        let held = hold_item(store, order, at, replies.next().and_then(Result::ok));
        // Those before it are held.
        held.map_err(|error| if may_be_held || at > 0 && !order.dry_run { undecided(order, error) } else { error })
    };
    (0..order.items.len()).map(hold).collect()
}

/// The error of an order whose items may be held, or bought: nobody may read of it that nothing was changed.
fn undecided(order: &CrossSlotOrder<'_>, error: StoreError) -> StoreError {
    match error {
        StoreError::Unknown { .. } | StoreError::Unsettled { .. } | StoreError::Reset { .. } => error,
        error => unsettled(&order.asked.request, error.to_string()),
    }
}

fn hold_call_of(store: &Store, order: &CrossSlotOrder<'_>, at: usize) -> SingleCall {
    let item = &order.items[at];
    let duration = SHORTEST_HOLD.max(store.servers.target().timeout * 3).as_millis().to_string();
    let others = if at == order.primary { order.names_of_others() } else { String::new() };
    let (user, request) = (user_text(order.asked.user.as_ref()), &order.asked.request);
    let (kind, name, digest, quantity) = (store.kind(), order.name(), order.digest(), item.quantity.to_string());
    let reason = order.asked.reason.as_deref().unwrap_or_default();
    let hold = [&kind, &store.operator, user, &quantity, request.as_str(), "", reason, &duration];
    let arguments: Vec<&[u8]> = hold.into_iter().chain([&*name, &digest, &others]).map(str::as_bytes).collect();
    let script = HOLD.of(store.layout.kind());
    SingleCall::new(script, same_request(request), &arguments, order.dry_run).holding(item.quantity, request)
}

/// Holds an item, unless a reply says that this was done.
fn hold_item(store: &mut Store, order: &CrossSlotOrder<'_>, at: usize, reply: Option<Value>) -> Result<Outcome> {
    let (item, hold) = (&order.items[at], &order.holds[at]);
    let (user, request) = (user_text(order.asked.user.as_ref()), &order.asked.request);
    if order.dry_run {
        return orders::send_home(store, &item.activity, Some(user.as_bytes()), hold);
    }
    let call = hold.call(&item.keys, Modes::UNKEPT);
    let value = match reply {
        Some(value) => value,
        None => replicated_item(store, &call, request)?.1,
    };
    let outcome = orders::read_reply(store, hold, value, &item.home)?;
    // It was reset after its shards were read.
    if !item.is_in_shard() && outcome.status == Status::Sharded {
        return Err(StoreError::Reset { activity: item.activity.to_string() });
    }
    if outcome.status != Status::OutOfStock || !item.is_in_shard() {
        return Ok(outcome);
    }
    // With units of other shards; what came of it, the same call replies.
    orders::send_home(store, &item.activity, Some(user.as_bytes()), hold)?;
    hold.read(replicated_item(store, &call, request)?.1, &item.keys)
}

/// The commit: whatever happens afterwards, the order is bought. `Replayed` if another try did, earlier or at the same time; `None` if it
/// is not bought.
fn commit(store: &mut Store, order: &CrossSlotOrder<'_>, outcomes: &mut [Outcome]) -> Result<Option<Status>> {
    let settled = settle_primary(store, order, "confirm")?;
    let status = settled.status;
    if status.is_done() {
        outcomes[order.primary] = settled;
        return Ok(Some(status));
    }
    // Another caller took it for given up.
    outcomes[order.primary].status = status;
    abort(store, order, outcomes, true)
}

/// Decides that the order is not bought, unless it is already, and returns what was taken: as [`commit`] does. `was_sent`: a commit was.
fn abort(
    store: &mut Store,
    order: &CrossSlotOrder<'_>,
    outcomes: &mut [Outcome],
    was_sent: bool,
) -> Result<Option<Status>> {
    let is_of_another = |outcome: &Outcome| outcome.status == Status::RequestConflict;
    if outcomes[order.primary].status == Status::Corrupt && has_other_order(store, order)? {
        outcomes[order.primary] = Outcome::of(Status::RequestConflict);
    }
    // What has the id of another order says nothing of this one.
    let settled = match &outcomes[order.primary] {
        primary if is_of_another(primary) => primary.clone(),
        _ => settle_primary(store, order, "abort")?,
    };
    let status = settled.status;
    if status == Status::Confirmed {
        outcomes[order.primary] = settled;
        return Ok(Some(Status::Replayed));
    }
    // Before the commit all items were held. So if one of the others was held before, an earlier try may have bought the order (what is
    // new was reset since), as a commit without a reply may, and what says so may be in files, or gone: the others must not return.
    // What a reset removed never says it, and `expire_item` returns them as well.
    let was_held = was_sent || order.others().any(|at| outcomes[at].status == Status::Replayed);
    let Item { activity: primary, home, .. } = &order.items[order.primary];
    if order.items.len() > 1 && was_held && !is_given_up(status) && !is_removed(store, home)? {
        let why = format!("`{primary}`, which says whether it is bought, is {}", status.name());
        return Err(unsettled(&order.asked.request, why));
    }
    returned(&mut outcomes[order.primary], &settled);
    let own = order.others().filter(|at| !is_of_another(&outcomes[*at])).collect();
    for (at, settled) in settle_items(store, order, own, "abort")? {
        returned(&mut outcomes[at], &settled);
        if settled.status == Status::Confirmed {
            outcomes[at].status = settled.status;
        }
    }
    Ok(None)
}

/// Whether the primary stores another order under this id, which a call that found it corrupt did not look at.
fn has_other_order(store: &mut Store, order: &CrossSlotOrder<'_>) -> Result<bool> {
    match stored_order(store, &order.items[order.primary].keys, &order.asked.request) {
        // An abort that came before any hold left no order.
        Ok(Some(stored)) => Ok(!stored.ends_with(order.stored().as_bytes()) && stored != b"void\t"),
        Err(error) if !error.is_wrong_type() => Err(error),
        _ => Ok(false),
    }
}

/// What a request id stores at an activity.
fn stored_order(store: &mut Store, keys: &Keys, request: &RequestId) -> Result<Option<Vec<u8>>> {
    Ok(store.servers.fields(&keys.requests, [request.as_str()])?.pop().flatten())
}

fn settle_primary(store: &mut Store, order: &CrossSlotOrder<'_>, step: &str) -> Result<Outcome> {
    let settle = settle_call(store, &order.asked.request, step, &order.name(), order.stored().as_bytes());
    settle_replicated(store, &order.items[order.primary].keys, &order.asked.request, &settle)
}

/// Ends items as the primary was decided, side by side: what each of them has become.
fn settle_items(
    store: &mut Store,
    order: &CrossSlotOrder<'_>,
    items: Vec<usize>,
    step: &str,
) -> Result<Vec<(usize, Outcome)>> {
    let settle = settle_call(store, &order.asked.request, step, &order.name(), order.stored().as_bytes());
    let calls: Vec<Call> = items.iter().map(|at| settle.call(&order.items[*at].keys, Modes::UNKEPT)).collect();
    let answers = items.into_iter().zip(store.servers.call_all(&calls));
    answers.map(|(at, answer)| Ok((at, settle.read(answer?.value(), &order.items[at].keys)?))).collect()
}

/// The call that confirms or aborts an item of the order with this name. Another order with its id may be there: an abort is of the one
/// whose id stores `stored`.
fn settle_call(store: &Store, request: &RequestId, step: &str, order: &str, stored: &[u8]) -> SingleCall {
    let whose = if step == "abort" { stored } else { b"" };
    SingleCall::settle(store, same_request(request), [request.as_str(), step, order, ""], &[whose], false)
}

fn settle_replicated(store: &mut Store, keys: &Keys, request: &RequestId, settle: &SingleCall) -> Result<Outcome> {
    let (first, last) = replicated_item(store, &settle.call(keys, Modes::UNKEPT), request)?;
    let read = |value| settle.read(value, keys);
    let settled = read(last)?;
    // It was sent again for a replica to have it.
    let first = if settled.status == Status::Replayed { first.map(read).transpose()? } else { None };
    Ok(first.filter(|first| first.status == Status::Ok).unwrap_or(settled))
}

/// Sends a call, again and again, until a replica has what it wrote, if there is a replica: the first reply, if it took more than one,
/// and the last.
fn replicated_item(store: &mut Store, call: &Call, request: &RequestId) -> Result<(Option<Value>, Value)> {
    let at_most = SHORTEST_HOLD.max(store.servers.target().timeout * 3);
    let (first, is_replicated) = store.servers.call_until_replicated(call, Duration::ZERO)?;
    if is_replicated {
        return Ok((None, first));
    }
    // A primary that was known to have a replica may have lost it.
    store.servers.look_for_replicas()?;
    let (last, is_replicated) = store.servers.call_until_replicated(call, at_most)?;
    if is_replicated {
        return Ok((Some(first), last));
    }
    Err(unsettled(request, "no replica confirmed in time that it has an item of it".to_owned()))
}

/// The error for an order that must be looked at, or sent again.
fn unsettled(request: &RequestId, why: String) -> StoreError {
    StoreError::Unsettled { request: request.to_string(), why }
}

/// Whether the reply to an abort of the primary says that the order is not bought, and never will be. The id of another order cannot
/// have bought it, either.
fn is_given_up(status: Status) -> bool {
    status.is_done() || status == Status::RequestConflict
}

/// The outcome of an order that is not decided now. If a repair took an item of it back, those that were confirmed stay bought, and
/// so do those that are held if it is known to be bought.
fn refused_if(is_refused: bool, is_bought: bool, items: Vec<Outcome>) -> MultiOutcome {
    let status = if is_refused { Status::Refused } else { Status::Ok };
    let is_reversed = items.iter().any(|item| item.status == Status::Reversed);
    let item = |outcome: Outcome| {
        let status = match outcome.status {
            Status::Confirmed if is_reversed => Status::Replayed,
            Status::Replayed if is_reversed && is_bought => Status::Replayed,
            status if is_refused && status.is_done() => Status::Refused,
            status => status,
        };
        Outcome { status, ..outcome }
    };
    MultiOutcome { status, items: items.into_iter().map(item).collect() }
}

/// What an item has after its units returned.
fn returned(outcome: &mut Outcome, settled: &Outcome) {
    if outcome.status.is_done() && settled.status.is_done() {
        (outcome.stock, outcome.bought) = (settled.stock, settled.bought);
    }
}
