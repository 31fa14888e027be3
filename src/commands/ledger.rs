//! `seckill ledger`: what happened to an activity, as rows.

mod trim;

use anyhow::Result;
use serde::Serialize;

use crate::interrupt;
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::{ActivityId, UserId};
use crate::inventory::ledger::{Entry, EntryId, Op, OrderTexts};
use crate::inventory::status::Status;
use crate::inventory::time::Millis;
use crate::output::{Cell, Output, Row, RowStream, Tone};
use crate::store::Store;

/// Show what happened to an activity, as rows; follow it; feed a database from it
///
/// An order is a row; `quantity` is what was taken or given back, of preheat and update the total, of a repair by
/// how much it moved what the user holds. With `--group`, every row comes at least once and in order, and a later
/// run goes on where this one stopped: what was printed is acknowledged, nothing else.
/// An activity whose name is a command's is meant after `--`: `seckill ledger -- trim`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: Option<LedgerCommand>,
    #[command(flatten)]
    shown: Option<ShowArgs>,
}

/// What else can be done to a ledger.
#[derive(Debug, clap::Subcommand)]
enum LedgerCommand {
    Trim(trim::TrimArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Activity
    #[arg(value_name = "ACTIVITY")]
    activity: ActivityId,
    /// Only what concerns this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Only what happened from this time on
    #[arg(long, value_name = "TIME")]
    since: Option<Millis>,
    /// Wait for more, until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Read as the one consumer of this group of the stream
    #[arg(long, value_name = "NAME", conflicts_with = "since")]
    group: Option<String>,
}

/// One thing that happened.
#[derive(Debug, Serialize)]
struct LedgerRow {
    id: EntryId,
    time: Millis,
    op: String,
    user: Option<String>,
    quantity: Option<i64>,
    stock: Option<u64>,
    request: Option<String>,
    by: Option<String>,
    reason: Option<String>,
}

impl Row for LedgerRow {
    const FIELDS: &'static [&'static str] =
        &["id", "time", "op", "user", "quantity", "stock", "request", "by", "reason"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        let text = |text: &Option<String>| Cell::text(text.as_deref().unwrap_or_default()).flexible();
        vec![
            Cell::text(self.id.to_string()).tone(Tone::Dim),
            Cell::text(self.time.to_string()),
            Cell::text(&self.op),
            text(&self.user),
            Cell::known(self.quantity),
            Cell::known(self.stock),
            text(&self.request),
            text(&self.by),
            text(&self.reason),
        ]
    }
}

/// Shows the ledger, or does with it what is asked for.
pub fn run(args: &LedgerArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    match (&args.command, &args.shown) {
        (Some(LedgerCommand::Trim(args)), _) => trim::run(args, store, out),
        (None, Some(args)) => show(args, store, out),
        (None, None) => Err(Failure::usage("`ledger` of which activity?").into()),
    }
}

fn show(args: &ShowArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let snapshot = store.snapshot(&args.activity)?;
    if snapshot.status == Status::NotPreheated {
        return Err(
            Failure::new(Exit::Refused, format!("`{}` is not_preheated: it has no ledger", args.activity)).into()
        );
    }
    if snapshot.ledger_last.is_none() && !args.follow {
        out.note(format!("`{}` has no ledger", args.activity));
    }
    let checkpoint = snapshot.meta.as_ref().and_then(|meta| meta.checkpoint.as_ref());
    if let Some(checkpoint) = checkpoint {
        let by = if checkpoint.by.is_empty() { String::new() } else { format!(" by {}", checkpoint.by) };
        out.note(format!("entries up to {} were trimmed at {}{by}", checkpoint.upto.at(), checkpoint.at));
    }
    if args.follow || args.group.is_some() {
        // Rows are shown, and acknowledged, whole.
        interrupt::stop_gracefully();
    }
    let mut rows = out.stream()?;
    match &args.group {
        Some(_) if snapshot.ledger_last.is_none() => (),
        Some(group) => by_group(args, group, store, &mut rows)?,
        None => by_reading(args, checkpoint.map(|checkpoint| checkpoint.upto), store, &mut rows)?,
    }
    rows.finish()?;
    Ok(if interrupt::requested() { Exit::Interrupted } else { Exit::Done })
}

fn by_reading(
    args: &ShowArgs,
    trimmed: Option<EntryId>,
    store: &mut Store,
    rows: &mut RowStream<'_, LedgerRow>,
) -> Result<()> {
    let since = args.since.map_or(EntryId::ZERO, EntryId::before);
    // What a trim has not come to yet is gone all the same.
    let mut after = trimmed.map_or(since, |trimmed| since.max(trimmed));
    while !interrupt::requested() && !rows.is_lost() {
        let page = store.ledger(&args.activity, after, false)?;
        let page = match page.is_empty() {
            false => page,
            true if !args.follow => return Ok(()),
            true => {
                rows.flush()?;
                store.ledger(&args.activity, after, true)?
            }
        };
        for entry in &page {
            push(entry, args.user.as_ref(), rows)?;
            after = entry.id;
        }
    }
    Ok(())
}

fn by_group(args: &ShowArgs, group: &str, store: &mut Store, rows: &mut RowStream<'_, LedgerRow>) -> Result<()> {
    store.make_group(&args.activity, group)?;
    while !interrupt::requested() {
        let page = store.group(&args.activity, group, args.follow)?;
        if page.is_empty() {
            if args.follow {
                continue;
            }
            return Ok(());
        }
        for entry in page.iter().filter_map(|(_, entry)| entry.as_ref()) {
            push(entry, args.user.as_ref(), rows)?;
        }
        // Only what the reader took will not come again.
        rows.taken()?;
        let ids: Vec<EntryId> = page.iter().map(|(id, _)| *id).collect();
        store.acknowledge(&args.activity, group, &ids)?;
    }
    Ok(())
}

/// Prints an entry: a row for each of its orders, or one where it has none.
fn push(entry: &Entry, only: Option<&UserId>, rows: &mut RowStream<'_, LedgerRow>) -> Result<()> {
    let text = |field: &Option<Vec<u8>>| field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (op, by, reason) = (String::from_utf8_lossy(&entry.op).into_owned(), text(&entry.by), text(&entry.reason));
    let known = Op::named(&entry.op);
    // What cannot be read is shown as far as it goes; an audit names it.
    let orders = entry.rows().unwrap_or_default();
    let whole = [OrderTexts([const { None }; 4])];
    let orders = if orders.is_empty() { &whole[..] } else { &orders[..] };
    for order in orders {
        if only.is_some_and(|user| user.as_str() != order.user()) {
            continue;
        }
        let quantity = match known {
            Some(Op::Repair) => order.count(2).zip(order.count(1)).map(|(to, from)| to - from),
            Some(Op::Preheat | Op::Update) => {
                Entry::count(entry.total.as_deref()).and_then(|total| i64::try_from(total).ok())
            }
            _ => order.count(1),
        };
        let is_repair = known == Some(Op::Repair);
        rows.push(&LedgerRow {
            id: entry.id,
            time: entry.id.at(),
            op: op.clone(),
            user: order.text(0).map(str::to_owned),
            quantity,
            stock: Entry::count(entry.stock.as_deref()),
            request: order.text(2).filter(|_| !is_repair).map(str::to_owned),
            by: by.clone(),
            reason: order.text(3).map(str::to_owned).or_else(|| reason.clone()),
        })?;
    }
    Ok(())
}
