//! What commands that move units have in common: their rows, their exit code, what is asked of a user.

use std::time::Duration;

use crate::cli::error::advice_to_recover;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Cell, Chosen, Field, Output, Warnings, named, row};
use crate::cli::shared::hints;
use crate::error::{Recovery, StoreError};
use crate::model::{
    ActivityId, Bought, Corrupt, Layout, Limit, Millis, MultiOrder, MultiOutcome, Order, Outcome, RequestId, Status,
    StoredUser, UserId, Wish,
};
use crate::sell::bulk::{DecidedOrder, Operation};
use crate::store::Store;

row! {
    /// How an order of one activity ended: a purchase, a refund, a hold or its end, alone or in a file.
    pub struct OutcomeRow<'a> as row from (
        id: &'a ActivityId, buyer: Option<&'a StoredUser>, own: Option<&'a RequestId>, outcome: &Outcome
    ) {
        /// Of an order of a file.
        optional line: Option<u64> = None => Cell::known(row.line);
        activity: &'a str = id.as_str(), flexible;
        user: Option<&'a str> = buyer.and_then(StoredUser::text) => Cell::user(row.user, row.user_hex.as_ref()), flexible;
        quantity: Option<u64> = outcome.quantity;
        status: Status = outcome.status;
        stock: Option<u64> = outcome.stock;
        bought: Option<Bought> = outcome.bought;
        request: Option<&'a str> = own.map(RequestId::as_str), minor;
        /// Of a hold; `None` within if it was refused.
        optional deadline: Option<Option<Millis>> = None => row.deadline.flatten().cell();
        /// Of a user who is not UTF-8.
        optional data user_hex: Option<String> = buyer.and_then(StoredUser::user_hex);
    }
    changed if row.status == Status::Ok && row.line.is_none()
}

/// The request id that was given, or a new one, which nobody knows yet: a Ctrl-C says it.
pub fn request_id(given: Option<&RequestId>, dry_run: bool, out: &Output) -> RequestId {
    given.cloned().unwrap_or_else(|| {
        let request = RequestId::unique();
        if !dry_run {
            let message = "interrupted before a reply: whether it was applied is not known";
            let again = advice_to_recover(&Recovery::SameRequest(request.to_string()));
            interrupt::end_with(out.last_words(&Failure::new(Exit::Interrupted, message).hint(again)));
        }
        request
    })
}

impl<'a> OutcomeRow<'a> {
    /// The columns of an order whose user may be no text.
    pub const STORED: Chosen = &["user_hex"];
    /// The columns of a hold.
    pub const HOLD: Chosen = &["deadline"];

    /// The columns of orders of a file.
    pub fn columns_of_file(operation: Operation) -> Chosen {
        match operation {
            Operation::Hold => &["line", "deadline"],
            Operation::Confirm | Operation::Release => &["line", "user_hex"],
            Operation::Deduct | Operation::Refund => &["line"],
            Operation::MultiDeduct => ItemRow::OF_FILE,
        }
    }

    /// The row of an order of a file.
    pub fn of_file(order: &DecidedOrder<'a>, request: &'a str, operation: Operation) -> Self {
        let given = Some(order.user).filter(|user| !user.is_empty());
        Self {
            line: Some(order.line),
            activity: order.activity,
            user: order.hold_user.map_or(given, StoredUser::text),
            // It is 0 if a hold ended and no reply said how many units it had.
            quantity: Some(order.quantity.into()).filter(|quantity| *quantity > 0),
            status: order.status,
            stock: order.stock,
            bought: order.bought,
            request: Some(request),
            deadline: (operation == Operation::Hold).then_some(order.deadline),
            user_hex: order.hold_user.and_then(StoredUser::user_hex),
        }
    }
}

row! {
    /// How one activity of an order of several ended, alone or in a file.
    pub struct ItemRow<'a> as row from (
        id: &'a str, units: u64, item_status: Status, left: Option<u64>, held: Option<Bought>
    ) {
        /// Of an order of a file.
        optional line: Option<u64> = None => Cell::known(row.line);
        /// The order has it where the item stands in a [`MultiDocument`]; so it has the request.
        optional user: Option<Option<&'a str>> = None => Cell::text(row.user.flatten().unwrap_or_default()).flexible();
        activity: &'a str = id, flexible;
        quantity: u64 = units;
        status: Status = item_status;
        stock: Option<u64> = left;
        bought: Option<Bought> = held;
        optional request: Option<Option<&'a str>> = None => row.request.flatten().cell();
    }
    changed if row.status == Status::Ok && row.line.is_none()
}

impl<'a> ItemRow<'a> {
    /// The columns of an order alone.
    pub const ALONE: Chosen = &["user", "request"];
    /// The columns of orders of a file.
    pub const OF_FILE: Chosen = &["line", "user", "request"];

    /// The rows of an order. A dry run has no request.
    pub fn of(
        order: &'a MultiOrder,
        request: Option<&'a RequestId>,
        outcome: &MultiOutcome,
    ) -> impl Iterator<Item = Self> {
        let (user, request) = (order.user.as_ref().map(UserId::as_str), request.map(RequestId::as_str));
        Self::items(order, outcome).map(move |item| Self { user: Some(user), request: Some(request), ..item })
    }

    /// The row of an item of an order of a file.
    pub fn of_file(item: &DecidedOrder<'a>, request: &'a str) -> Self {
        let user = Some(item.user).filter(|user| !user.is_empty());
        Self { line: Some(item.line), user: Some(user), request: Some(Some(request)), ..Self::item_of_file(item) }
    }

    fn item_of_file(item: &DecidedOrder<'a>) -> Self {
        Self::new(item.activity, item.quantity.into(), item.status, item.stock, item.bought)
    }

    fn items(order: &'a MultiOrder, outcome: &MultiOutcome) -> impl Iterator<Item = Self> {
        order.items.iter().zip(&outcome.items).map(|((activity, quantity), item)| {
            Self::new(activity.as_str(), quantity.get(), item.status, item.stock, item.bought)
        })
    }
}

row! {
    /// An order of several activities with its items.
    pub struct MultiDocument<'a> as _row from (
        order: &'a MultiOrder, own: Option<&'a RequestId>, outcome: &MultiOutcome
    ) {
        /// Of an order of a file.
        nested line: Option<u64> = None;
        document user: Option<&'a str> = order.user.as_ref().map(UserId::as_str);
        document status: Status = outcome.status;
        document request: Option<&'a str> = own.map(RequestId::as_str);
        document items: Vec<ItemRow<'a>> = ItemRow::items(order, outcome).collect();
    }
}

impl<'a> MultiDocument<'a> {
    /// That of an order of a file, whose items are not empty.
    pub fn of_file(items: &[DecidedOrder<'a>], status: Status, request: &'a str) -> Self {
        let user = items[0].user;
        Self {
            line: Some(items[0].line),
            user: Some(user).filter(|user| !user.is_empty()),
            status,
            request: Some(request),
            items: items.iter().map(ItemRow::item_of_file).collect(),
        }
    }
}

/// Does one thing after the other until one fails: what was done before is reported all the same.
pub fn until_failed<T, E>(results: impl Iterator<Item = Result<T, E>>) -> (Vec<T>, Option<E>) {
    let mut failed = None;
    let done = results.map_while(|result| result.map_err(|error| failed = Some(error)).ok()).collect();
    (done, failed)
}

/// Does one thing to each of some activities, given by their places, whatever becomes of the others: why some were not done. Nobody
/// waits for a server before those of the others are done, and for each server only once.
pub fn each_reached(
    activities: &[ActivityId],
    store: &mut Store,
    mut work: impl FnMut(usize, &mut Store) -> Result<(), StoreError>,
) -> Option<Failure> {
    store.begin_round(Some(Duration::ZERO));
    let mut failed: Vec<(usize, StoreError)> =
        (0..activities.len()).filter_map(|at| Some((at, work(at, store).err()?))).collect();
    store.begin_round(None);
    failed.retain_mut(|(at, error)| {
        let is_unknown = matches!(error, StoreError::Unknown { recovery: Some(Recovery::SameCall), .. });
        if !is_unknown && !error.is_outage() && !store.servers.may_recover(error) {
            return true;
        }
        match work(*at, store) {
            Ok(()) => return false,
            // What became of the first try is not known, whatever became of this one.
            Err(_) if is_unknown => {}
            Err(again) => *error = again,
        }
        true
    });
    name_failures(activities, failed)
}

/// The failure of some activities: that of the first, with what became of each, unless all have failed likewise.
pub fn name_failures(activities: &[ActivityId], failed: Vec<(usize, StoreError)>) -> Option<Failure> {
    let failed: Vec<(usize, Failure)> = failed.into_iter().map(|(at, error)| (at, error.into())).collect();
    let first = failed.first()?.1.clone();
    let mut by_message: Vec<(&str, Vec<&ActivityId>)> = Vec::new();
    for (at, failure) in &failed {
        match by_message.iter_mut().find(|(message, _)| *message == failure.message) {
            Some((_, of_message)) => of_message.push(&activities[*at]),
            None => by_message.push((&failure.message, vec![&activities[*at]])),
        }
    }
    if by_message.len() == 1 && failed.len() == activities.len() {
        return Some(first);
    }
    let parts = by_message.iter().map(|(message, of_message)| format!("{}: {message}", named(of_message, usize::MAX)));
    let message = parts.collect::<Vec<_>>().join("; ");
    let first = if failed.len() < activities.len() { first.in_part() } else { first };
    Some(Failure { message, ..first })
}

/// Warns of a key that is corrupt.
pub fn warn_of_corrupt(warnings: &mut Warnings, corrupt: Option<&Corrupt>) {
    if let Some(Corrupt { key, what }) = corrupt {
        warnings.warn(format!("key `{key}` {what}; nothing was changed"));
    }
}

/// Shows how an order ended, with what helps to read that. A dry run has no request.
pub fn show(order: &Order, outcome: &Outcome, dry_run: bool, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let Order { activity, request, .. } = order;
    let user = outcome.user.as_ref().or(order.user.as_ref());
    let row = OutcomeRow::new(activity, user, (!dry_run).then_some(request), outcome);
    warn_of_corrupt(&mut out.warnings(), outcome.corrupt.as_ref());
    let deadline = matches!(order.wish, Wish::Hold { .. }).then_some(outcome.deadline);
    out.object(&OutcomeRow { deadline, ..row })?;
    interrupt::answered();
    if outcome.status == Status::NotPreheated {
        hints::other_layouts([activity], store, out);
    }
    hints::explain_reversed(&[outcome.status], out);
    hints::window(activity, outcome.status, store, out);
    // A replica refuses only what writes: it may never have got what an order is refused for the lack of.
    let lacks = matches!(outcome.status, Status::NotHeld | Status::ExceedsBought);
    hints::warn_of_dry_replica(lacks, store, out);
    Ok(Exit::done_if(outcome.status.is_done()))
}

/// Refuses an order without a user, unless the layout records none.
pub fn required_user<U>(user: Option<&U>, layout: Layout) -> Result<()> {
    if user.is_none() && layout.kind().has_users() {
        return Err(Failure::usage(format!("`--user` is missing: the layout `{}` records who bought", layout.name()))
            .hint("give `--user USER`; only a layout without participants, such as `product`, does without"));
    }
    Ok(())
}

/// Refuses a limit that the layout cannot keep.
pub fn fitting_limit(limit: Option<Limit>, layout: Layout) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let kind = layout.kind();
    if !kind.has_users() || (kind.records_once() && limit.get() != 1) {
        let why = if kind.has_users() { "records a user once: the limit is always 1" } else { "knows no users" };
        return Err(Failure::usage(format!("`--per-user-limit {limit}`: the layout `{}` {why}", layout.name()))
            .hint("leave `--per-user-limit` out"));
    }
    Ok(())
}
