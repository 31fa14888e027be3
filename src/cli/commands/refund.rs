//! `seckill refund`: give units back.

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::Output;
use crate::cli::shared::bulk::{BulkArgs, Task};
use crate::cli::shared::outcome::{OutcomeRow, request_id, required_user, show};
use crate::model::{ActivityId, Bought, Order, Quantity, RefundOf, RequestId, Status, StoredUser, UserId, Wish};
use crate::read::{snapshot, whole};
use crate::sell::bulk::Operation;
use crate::sell::orders;
use crate::store::Store;

/// Return units of a user, never more than the user holds
///
/// A user with 0 units is no longer a participant. The same request sent again changes nothing.
///
/// In the layout `sku`, a plain script records a buyer without units: such a refund needs `--quantity`, at most the
/// total less the stock, and removes the buyer.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "seckill refund [OPTIONS] ACTIVITY --user USER\n       seckill refund [OPTIONS] --from FILE"
)]
#[command(after_long_help = "
# One unit back
seckill refund 1001 --user 12345
# Everything that the user holds
seckill refund 1001 --user 12345 --all --reason 'wrong price'
# A file of refunds, each applied exactly once
seckill refund --from refunds.csv
")]
pub struct RefundArgs {
    /// Activity the units were taken from
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(super) activity: Option<ActivityId>,
    /// User who returns the units
    ///
    /// In the layout `product`, which records no users, it may be left out.
    #[arg(long, conflicts_with = "from")]
    user: Option<UserId>,
    /// User whose id is not UTF-8, in hexadecimal
    ///
    /// As `user_hex` of `inspect --all`, `ledger` and `reconcile` prints it.
    #[arg(long, value_name = "HEX", value_parser = user_hex, conflicts_with_all = ["user", "from"])]
    user_hex: Option<StoredUser>,
    /// Units to return [default: 1]
    ///
    /// Needed if the user's units are unknown.
    #[arg(long, value_name = "N", allow_hyphen_values = true, conflicts_with = "from")]
    quantity: Option<Quantity>,
    /// Return all units that the user holds
    #[arg(long, conflicts_with_all = ["quantity", "from"])]
    all: bool,
    /// Request id: sent again, it changes nothing
    ///
    /// Without one, a UUIDv7 is made and printed. A refused request leaves no trace; its id may be used again.
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    request: Option<RequestId>,
    #[command(flatten)]
    pub(super) mutating: Mutating,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Gives the units back, or says why not.
pub fn run(args: &RefundArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let dry_run = args.mutating.dry_run;
    if let Some(exit) = args.bulk.apply(&Task::new(Operation::Refund, &args.mutating), store, out)? {
        return Ok(exit);
    }
    // clap has refused a command line without either.
    let Some(activity) = args.activity.clone() else { return Ok(Exit::Usage) };
    let user = args.user_hex.clone().or_else(|| args.user.as_ref().map(StoredUser::from));
    required_user(user.as_ref(), store.layout())?;
    if args.all && !store.layout().kind().has_users() {
        let layout = store.layout().name();
        return Err(Failure::usage(format!(
            "`--all` gives back what a user holds, and the layout `{layout}` records no users"
        ))
        .hint("give `--quantity N`"));
    }
    let of = match args.quantity {
        Some(quantity) => RefundOf::Quantity(quantity),
        None if args.all => RefundOf::All,
        None => RefundOf::Default,
    };
    let refund = Order {
        activity,
        user,
        wish: Wish::Refund(of),
        request: request_id(args.request.as_ref(), args.mutating.dry_run, out),
        reason: args.mutating.reason.clone(),
    };
    let outcome = orders::place(store, &refund, dry_run)?;
    let is_unknown = outcome.status == Status::ExceedsBought && outcome.bought == Some(Bought::Unknown);
    let open = open_units(&refund, outcome.status, store);
    if is_unknown && args.quantity.is_none() && open.is_none() {
        return Err(unknown_units(&refund, store)?);
    }
    explain_open(&refund, open, out);
    if args.user_hex.is_some() {
        out.choose(OutcomeRow::STORED);
    }
    show(&refund, &outcome, dry_run, store, out)
}

/// Reads the bytes of a user id.
pub(crate) fn user_hex(hex: &str) -> Result<StoredUser, String> {
    let user = StoredUser::of_hex(hex).ok_or("expected the bytes of a user id, two hexadecimal digits each")?;
    match user.fits() {
        true => Ok(user),
        false => Err("expected 1 to 256 bytes without control characters or white space at either end".to_owned()),
    }
}

/// How many of the units are held open, if that is why they cannot be refunded. A server that does not let us ask is not worth an error.
fn open_units(refund: &Order, status: Status, store: &mut Store) -> Option<u64> {
    let user = refund.user.as_ref().and_then(StoredUser::text).and_then(|user| user.parse::<UserId>().ok());
    let user = user.filter(|_| status == Status::ExceedsBought)?;
    let holdings = whole::holdings(store, &refund.activity, std::slice::from_ref(&user)).ok()?;
    holdings.open.first().copied().filter(|open| *open > 0)
}

/// Says that they are.
fn explain_open(refund: &Order, open: Option<u64>, out: &Output) {
    if let Some(open) = open {
        let are = if open == 1 { "1 unit is" } else { &*format!("{open} units are") };
        out.note(format!("{are} held open, which no refund touches"));
        out.hint(format!(
            "`seckill inspect {:#} --holds` lists them; `seckill release` returns them, and `seckill expire` those of an order over several \
             slots, once they are overdue",
            refund.activity
        ));
    }
}

/// Why nothing is refunded of a number of units that nobody knows, unless the caller says how many.
fn unknown_units(refund: &Order, store: &mut Store) -> Result<Failure> {
    let Order { activity, user, .. } = refund;
    let user = user.as_ref().map(ToString::to_string).unwrap_or_default();
    let snapshot = snapshot::snapshot(store, activity)?;
    let most = snapshot.meta.zip(snapshot.stock).map(|(meta, stock)| meta.total.saturating_sub(stock));
    let most = most
        .map(|most| format!(", at most what other users leave of {most} (the total less the stock)"))
        .unwrap_or_default();
    Ok(Failure::usage(format!(
        "how many units of `{activity}` user `{user}` holds is unknown: a plain script recorded none"
    ))
    .hint(format!("give `--quantity N`{most}; the user is no participant afterwards")))
}
