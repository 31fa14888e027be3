//! `seckill hold`: take units with a deadline.

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::Output;
use crate::cli::shared::bulk::{BulkArgs, Task};
use crate::cli::shared::outcome::{OutcomeRow, request_id, show};
use crate::model::{ActivityId, HoldFor, Layout, Order, Outcome, Quantity, RequestId, Status, UserId, Wish};
use crate::sell::bulk::Operation;
use crate::sell::orders;
use crate::store::Store;

/// Take units until a deadline, for an order that is not paid yet
///
/// `confirm` makes it a purchase, `release` returns the units, and so does `expire` after the deadline. Until then the units
/// count as the user's: for the limit, in `bought`, and in audits. The same request sent again changes nothing.
#[derive(Debug, clap::Args)]
#[command(override_usage = "seckill hold [OPTIONS] ACTIVITY --user USER --for DURATION\n       \
             seckill hold [OPTIONS] --from FILE --for DURATION")]
#[command(after_long_help = "
# Two units for 15 minutes, until the payment comes
seckill hold 1001 --user 12345 --quantity 2 --for 15m --request order-778
# A file of orders; one without an id is confirmed as <job>:<line>
seckill hold --from orders.csv --for 15m --job night
")]
pub struct HoldArgs {
    /// Activity to take from
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(super) activity: Option<ActivityId>,
    /// User who gets the units
    #[arg(long, conflicts_with = "from")]
    user: Option<UserId>,
    /// Units to take
    #[arg(long, default_value = "1", value_name = "N", allow_hyphen_values = true, conflicts_with = "from")]
    quantity: Quantity,
    /// How long they are held, such as 15m
    ///
    /// By the server's clock, up to 365 days.
    #[arg(long = "for", value_name = "DURATION", value_parser = hold_for)]
    hold_for: HoldFor,
    /// Request id: confirms or releases the hold
    ///
    /// Without one, a UUIDv7 is made and printed. A refused request leaves no trace; its id may be used again.
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    request: Option<RequestId>,
    #[command(flatten)]
    pub(super) mutating: Mutating,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Holds the units, or says why not.
pub fn run(args: &HoldArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    require_users(store.layout(), "hold")?;
    let dry_run = args.mutating.dry_run;
    let task = Task { hold_for: Some(args.hold_for), ..Task::new(Operation::Hold, &args.mutating) };
    if let Some(exit) = args.bulk.apply(&task, store, out)? {
        return Ok(exit);
    }
    // clap has refused a command line without either.
    let Some(activity) = args.activity.clone() else { return Ok(Exit::Usage) };
    let Some(user) = &args.user else {
        return Err(
            Failure::usage("`--user` is missing").hint("usage: seckill hold ACTIVITY --user USER --for DURATION")
        );
    };
    let order = Order {
        activity,
        user: Some(user.into()),
        wish: Wish::Hold { quantity: args.quantity, hold_for: args.hold_for },
        request: request_id(args.request.as_ref(), args.mutating.dry_run, out),
        reason: args.mutating.reason.clone(),
    };
    let outcome = orders::place(store, &order, dry_run)?;
    out.choose(OutcomeRow::HOLD);
    explain(&order, &outcome, out);
    show(&order, &outcome, dry_run, store, out)
}

fn explain(Order { request, .. }: &Order, outcome: &Outcome, out: &Output) {
    match outcome.status {
        Status::NotHeld => out.note(format!("the hold `{request}` was released; another one needs another id")),
        Status::Expired => out.note(format!("the hold `{request}` is over; another one needs another id")),
        _ => {}
    }
}

/// Refuses a layout in which nobody is recorded who could hold units.
pub(crate) fn require_users(layout: Layout, command: &str) -> Result<()> {
    if layout.kind().has_users() {
        return Ok(());
    }
    Err(Failure::usage(format!("`{command}`: the layout `{}` records no users who could hold units", layout.name()))
        .hint("use a layout that does: seckill, sku, coupon or cluster"))
}

/// Reads how long units are held.
pub(crate) fn hold_for(text: &str) -> Result<HoldFor, String> {
    text.parse().map_err(|expected| format!("expected {expected}"))
}
