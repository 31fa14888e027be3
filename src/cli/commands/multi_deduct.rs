//! `seckill multi-deduct`: take units of several activities in one step.

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Format, Output};
use crate::cli::shared::bulk::{MultiBulkArgs, Task};
use crate::cli::shared::hints;
use crate::cli::shared::outcome::{ItemRow, MultiDocument, request_id, required_user, warn_of_corrupt};
use crate::cli::shared::session::Session;
use crate::model::id::InvalidText;
use crate::model::{ActivityId, MultiOrder, MultiOutcome, Quantity, RequestId, Status, UserId};
use crate::sell::bulk::Operation;
use crate::sell::multi_orders;

/// Take units of several activities in one all-or-nothing step
///
/// Either every item is taken or none, and every item that falls short is named. The same activity named twice
/// counts as the sum.
#[derive(Debug, clap::Args)]
#[command(override_usage = "seckill multi-deduct [OPTIONS] --user USER ACTIVITY=QUANTITY...\n       \
             seckill multi-deduct [OPTIONS] --from FILE")]
#[command(after_long_help = "
# Two units of 1001 and one of 1002, or nothing
seckill multi-deduct --user 12345 1001=2 1002=1
# A file with one such order per line
seckill multi-deduct --from baskets.jsonl
")]
pub struct MultiDeductArgs {
    /// Units to take, such as 1001=2
    #[arg(required_unless_present = "from", conflicts_with = "from", value_name = "ACTIVITY=QUANTITY", value_parser = item)]
    items: Vec<(ActivityId, Quantity)>,
    /// User who gets the units
    ///
    /// In the layout `product`, which records no users, it may be left out.
    #[arg(long, conflicts_with = "from")]
    user: Option<UserId>,
    /// Request id: sent again, it changes nothing
    ///
    /// Without one, a UUIDv7 is made and printed. A refused request of activities in one slot leaves no trace; its id may be
    /// used again. Over several slots of the layout `cluster` the id is used up.
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    request: Option<RequestId>,
    #[command(flatten)]
    mutating: Mutating,
    #[command(flatten)]
    bulk: MultiBulkArgs,
}

/// Reads an activity and the units to take of it.
fn item(text: &str) -> Result<(ActivityId, Quantity), String> {
    // An id may hold `=`; a quantity may not.
    let (activity, quantity) = text.rsplit_once('=').ok_or("expected ACTIVITY=QUANTITY, as in `1001=2`")?;
    let expected = |error: InvalidText| error.to_string();
    Ok((activity.parse().map_err(expected)?, quantity.parse().map_err(expected)?))
}

/// Takes all the units, or none and says why.
pub fn run(args: &MultiDeductArgs, session: &mut Session) -> Result<Exit> {
    let activities = args.items.iter().map(|(activity, _)| activity);
    session.change(&args.mutating, activities, |store, out| {
        if let Some(exit) = args.bulk.apply(&Task::new(Operation::MultiDeduct, &args.mutating), store, out)? {
            return Ok(exit);
        }
        required_user(args.user.as_ref(), store.layout())?;
        let order = MultiOrder {
            user: args.user.clone(),
            items: summed(&args.items)?.into(),
            request: request_id(args.request.as_ref(), args.mutating.dry_run, out),
            reason: args.mutating.reason.clone(),
        };
        let outcome = multi_orders::multi_deduct(store, &order, args.mutating.dry_run)?;
        let request = (!args.mutating.dry_run).then_some(&order.request);
        show(&order, request, &outcome, out)?;
        interrupt::answered();
        let missing = order.items.iter().zip(&outcome.items).filter(|(_, item)| item.status == Status::NotPreheated);
        hints::other_layouts(missing.map(|((activity, _), _)| activity), store, out);
        hints::explain_reversed(&outcome.items.iter().map(|item| item.status).collect::<Vec<_>>(), out);
        for ((activity, _), item) in order.items.iter().zip(&outcome.items) {
            hints::window(activity, item.status, store, out);
        }
        Ok(Exit::done_if(outcome.status.is_done()))
    })
}

fn show(order: &MultiOrder, request: Option<&RequestId>, outcome: &MultiOutcome, out: &mut Output) -> Result<()> {
    let mut warnings = out.warnings();
    outcome.items.iter().for_each(|item| warn_of_corrupt(&mut warnings, item.corrupt.as_ref()));
    warnings.end();
    let rows: Vec<ItemRow<'_>> = ItemRow::of(order, request, outcome).collect();
    if matches!(out.format(), Format::Json | Format::Jsonl | Format::Yaml) {
        out.keep_changes(&rows)?;
        return out.document(&MultiDocument::new(order, request, outcome));
    }
    out.choose(ItemRow::ALONE);
    out.array(&rows)
}

/// Each activity once, with the sum of what was asked of it.
fn summed(items: &[(ActivityId, Quantity)]) -> Result<Vec<(ActivityId, Quantity)>> {
    let mut sums: Vec<(ActivityId, Quantity)> = Vec::with_capacity(items.len());
    for (activity, quantity) in items {
        match sums.iter_mut().find(|(known, _)| known == activity) {
            Some((_, sum)) => {
                *sum = Quantity::new(sum.get() + quantity.get()).ok_or_else(|| {
                    Failure::usage(format!("the quantities of `{activity}` add up to more than one order may take"))
                        .hint(format!("expected {} in all", Quantity::EXPECTED))
                })?;
            }
            None => sums.push((activity.clone(), *quantity)),
        }
    }
    if sums.len() > MultiOrder::MAX_ITEMS {
        return Err(Failure::usage(format!(
            "{} activities in one order; the most is {}",
            sums.len(),
            MultiOrder::MAX_ITEMS
        ))
        .hint("split it: each order is all or nothing on its own"));
    }
    Ok(sums)
}
