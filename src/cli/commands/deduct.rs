//! `seckill deduct`: take units of one activity for a user.

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::Output;
use crate::cli::shared::bulk::{BulkArgs, Task};
use crate::cli::shared::outcome::{fitting_limit, request_id, required_user, show};
use crate::model::{ActivityId, Limit, Order, Quantity, RequestId, StoredUser, UserId, Wish};
use crate::sell::bulk::Operation;
use crate::sell::orders;
use crate::store::Store;

/// Take units of one activity for a user
///
/// The limit, the window and the stock are checked and the units are taken in one atomic step. The same request sent
/// again changes nothing, so a retry is safe.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "seckill deduct [OPTIONS] ACTIVITY --user USER\n       seckill deduct [OPTIONS] --from FILE"
)]
#[command(after_long_help = "
# Two units for user 12345
seckill deduct 1001 --user 12345 --quantity 2
# With your own request id: sent again, it changes nothing
seckill deduct 1001 --user 12345 --request order-778
# A file of orders, each applied exactly once; the same command resumes
seckill deduct --from orders.csv --map user=buyer_id,activity=sku
")]
pub struct DeductArgs {
    /// Activity to take from
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(super) activity: Option<ActivityId>,
    /// User who gets the units
    ///
    /// In the layout `product`, which records no users, it may be left out.
    #[arg(long, conflicts_with = "from")]
    user: Option<UserId>,
    /// Units to take
    #[arg(long, default_value = "1", value_name = "N", allow_hyphen_values = true, conflicts_with = "from")]
    quantity: Quantity,
    /// Request id: sent again, it changes nothing
    ///
    /// Without one, a UUIDv7 is made and printed. A refused request leaves no trace; its id may be used again.
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    request: Option<RequestId>,
    /// Most units that the user may hold
    ///
    /// For an activity that another system created. One that has its own limit refuses any other.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    per_user_limit: Option<Limit>,
    #[command(flatten)]
    pub(super) mutating: Mutating,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Takes the units, or says why not.
pub fn run(args: &DeductArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    fitting_limit(args.per_user_limit, store.layout())?;
    let dry_run = args.mutating.dry_run;
    let task = Task { limit: args.per_user_limit, ..Task::new(Operation::Deduct, &args.mutating) };
    if let Some(exit) = args.bulk.apply(&task, store, out)? {
        return Ok(exit);
    }
    // clap has refused a command line without either.
    let Some(activity) = args.activity.clone() else { return Ok(Exit::Usage) };
    required_user(args.user.as_ref(), store.layout())?;
    let order = Order {
        activity,
        user: args.user.as_ref().map(StoredUser::from),
        wish: Wish::Buy { quantity: args.quantity, per_user_limit: args.per_user_limit },
        request: request_id(args.request.as_ref(), args.mutating.dry_run, out),
        reason: args.mutating.reason.clone(),
    };
    let outcome = orders::place(store, &order, dry_run)?;
    show(&order, &outcome, dry_run, store, out)
}
