//! `seckill confirm` and `seckill release`: end a hold.

use crate::cli::args::Mutating;
use crate::cli::commands::hold::require_users;
use crate::cli::commands::refund::user_hex;
use crate::cli::failure::{Exit, Result};
use crate::cli::output::Output;
use crate::cli::shared::bulk::{BulkArgs, Task};
use crate::cli::shared::outcome::{OutcomeRow, show};
use crate::model::{ActivityId, Order, Outcome, RequestId, Status, StoredUser, UserId, Wish, option, shell_quoted};
use crate::sell::bulk::Operation;
use crate::sell::orders;
use crate::store::Store;

/// Make a hold a purchase: it was paid
///
/// Also after its deadline, as long as nobody else got the units. `expired` means that they are gone, for good: refund the
/// payment. The same request sent again changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "seckill confirm [OPTIONS] ACTIVITY --request ID\n       seckill confirm [OPTIONS] --from FILE"
)]
#[command(after_long_help = "
# Order 778 was paid
seckill confirm 1001 --request order-778
# A file of payments, each applied exactly once; the same command resumes
seckill confirm --from payments.csv --map activity=sku,request=order_id
")]
pub struct ConfirmArgs {
    #[command(flatten)]
    pub(super) which: SettleArgs,
}

/// Return the units of a hold: it will not be paid
///
/// The hold cannot be confirmed any more. One that was confirmed is refused: `refund` returns its units.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "seckill release [OPTIONS] ACTIVITY --request ID\n       seckill release [OPTIONS] --from FILE"
)]
#[command(after_long_help = "
# Order 778 was cancelled
seckill release 1001 --request order-778
# A file of cancelled orders
seckill release --from cancelled.csv
")]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub(super) which: SettleArgs,
}

#[derive(Debug, clap::Args)]
#[command(mut_arg("from", |from| from.long_help(
    "File of holds to settle; - is standard input\n\n\
     Each row is settled exactly once; the same command resumes. Columns: activity, request and, if wanted, user and reason. \
     Rows of a sharded activity need the user."
)))]
pub(super) struct SettleArgs {
    /// Activity whose units are held
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(super) activity: Option<ActivityId>,
    /// Request id of the hold
    #[arg(long, value_name = "ID", required_unless_present = "from", conflicts_with = "from")]
    request: Option<RequestId>,
    /// User whose hold it is; a sharded activity needs it
    ///
    /// Another user's hold is `not_held`.
    #[arg(long, conflicts_with = "from")]
    user: Option<UserId>,
    /// User whose id is not UTF-8, in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = user_hex, conflicts_with_all = ["user", "from"])]
    user_hex: Option<StoredUser>,
    #[command(flatten)]
    pub(super) mutating: Mutating,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Confirms a hold, or says why not.
pub fn confirm(args: &ConfirmArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    settle(&args.which, Operation::Confirm, store, out)
}

/// Releases a hold, or says why not.
pub fn release(args: &ReleaseArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    settle(&args.which, Operation::Release, store, out)
}

fn settle(which: &SettleArgs, operation: Operation, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let wish = if operation == Operation::Confirm { Wish::Confirm } else { Wish::Release };
    require_users(store.layout(), operation.name())?;
    let dry_run = which.mutating.dry_run;
    if let Some(exit) = which.bulk.apply(&Task::new(operation, &which.mutating), store, out)? {
        return Ok(exit);
    }
    // clap has refused a command line without either.
    let Some((activity, request)) = which.activity.clone().zip(which.request.clone()) else {
        return Ok(Exit::Usage);
    };
    let user = which.user_hex.clone().or_else(|| which.user.as_ref().map(StoredUser::from));
    let order = Order { activity, user, wish, request, reason: which.mutating.reason.clone() };
    let settled = orders::place(store, &order, dry_run)?;
    explain(&order, &settled, dry_run, out);
    if settled.user.as_ref().is_some_and(|user| user.text().is_none()) {
        out.choose(OutcomeRow::STORED);
    }
    show(&order, &settled, dry_run, store, out)
}

/// What a status means for the payment.
fn explain(Order { activity, request, wish, .. }: &Order, settled: &Outcome, dry_run: bool, out: &Output) {
    match (settled.status, wish) {
        // Only a confirmation that is refused decides it.
        (Status::Expired, Wish::Confirm) if dry_run => {
            out.note("its units are gone: `confirm` without `--dry-run` would end the hold for good");
        }
        (Status::Expired, Wish::Confirm) => {
            out.note("its units are gone and the hold can never be confirmed: refund the payment");
        }
        (Status::Expired, _) => out.note("its units returned at the deadline, or by a repair"),
        (Status::Confirmed, _) => {
            let user = settled.user.as_ref().map(|user| match user.text() {
                Some(text) => option("--user", text),
                None => format!("--user-hex {}", user.hex()),
            });
            let (user, quantity) = (user.unwrap_or_default(), settled.quantity.unwrap_or(1));
            out.hint(format!(
                "it was bought: `seckill refund {} {user} --quantity {quantity}` returns its units",
                shell_quoted(activity.as_str())
            ));
        }
        (Status::NotHeld, _) if settled.user.is_some() => out.note(format!("the hold `{request}` was released")),
        _ => {}
    }
}
