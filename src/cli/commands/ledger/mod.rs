//! `seckill ledger`: what happened to activities, as rows: one for each order of an entry, or one for an entry without orders.

mod feed;
mod sources;
pub mod trim;

use std::str::FromStr;

use crate::audit::ledger_state::transfers::Direction;
use crate::cli::commands::ledger::feed::{Delivery, Loader, feed};
use crate::cli::commands::ledger::sources::Sources;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Cell, Column, Format, Output, Renaming, Row, row};
use crate::cli::shared::session::Session;
use crate::model::ledger::OrderTexts;
use crate::model::number::between;
use crate::model::{ActivityId, Entry, EntryId, GivenTime, Millis, Op, StoredUser, UserId};
use crate::store::Store;

/// Show the history of activities, follow it, feed a database
///
/// A row is an order, or another change. `n` numbers the orders of an entry, so that `activity`, `id` and `n` are a
/// key. An order of a file without a request id of its own is named `<job>:<line>`. `quantity` is the units of an
/// order or of a transfer between shards (`lend`, `borrow`, whose id is in `request`), the total of a preheat or update, the
/// change of what a user holds by a repair, and the units that a pause withdrew or a resume returned.
///
/// With `--group`, every row is delivered at least once, and those of an activity in order. Printed rows are
/// acknowledged once the reader of the pipe took them; with `--exec`, once the command ended with 0. A later run
/// resumes where this one stopped.
///
/// An activity whose name is a command's comes after `--`: `seckill ledger -- trim`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
#[command(override_usage = "seckill ledger [OPTIONS] ACTIVITY...|--all\n       \
             seckill ledger trim [OPTIONS] ACTIVITY...|--all --before TIME")]
#[command(after_long_help = "
# Everything that happened to an activity
seckill ledger 1001
# The history of one user
seckill ledger 1001 --user 12345
# The last hour, in the time zone of the shop
seckill ledger 1001 --since 1h --timezone Asia/Shanghai
# Watch the sale
seckill ledger 1001 --follow
# Feed a database: rows are acknowledged after the loader succeeded
seckill ledger --all --group warehouse --exec ./load.sh -o csv
# For a queue whose consumers know other names
seckill ledger --all --group queue --follow -o jsonl --map user=userId,quantity=qty
")]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: Option<LedgerCommand>,
    #[command(flatten)]
    shown: ShowArgs,
}

/// What else can be done to a ledger.
#[derive(Debug, clap::Subcommand)]
enum LedgerCommand {
    Trim(trim::TrimArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Activities to show, or patterns such as 'sku-*'
    #[arg(value_name = "ACTIVITY", required_unless_present = "all")]
    activities: Vec<ActivityId>,
    /// Show all preheated activities
    #[arg(long, conflicts_with = "activities")]
    all: bool,
    /// Show only this user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Show only what happened since this time or entry
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, or 1h (ago).
    #[arg(long, value_name = "TIME|ENTRY")]
    since: Option<Since>,
    /// Wait for more rows until Ctrl-C
    ///
    /// Activities that are preheated meanwhile are found, by --all or a pattern.
    #[arg(long)]
    follow: bool,
    /// Other names for fields, such as user=userId
    ///
    /// In json, jsonl, csv, tsv and yaml, also of what CMD reads.
    #[arg(long, value_name = "OURS=THEIRS")]
    map: Vec<Renaming>,
    /// Consumer group: a later run resumes after this one
    #[arg(long, value_name = "NAME", group = "reader", conflicts_with_all = ["since", "user"], value_parser = group)]
    group: Option<String>,
    /// Shell command that reads the rows
    ///
    /// It gets them on standard input in the format of `-o`. They are acknowledged if it exits with 0.
    #[arg(long, value_name = "CMD", requires = "reader", value_parser = loader)]
    exec: Option<String>,
    /// Most rows for one CMD
    #[arg(long, value_name = "N", requires = "exec", default_value = "1000", allow_hyphen_values = true, value_parser = between::<usize>(1, 1_000_000))]
    batch: usize,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
enum Since {
    Time(GivenTime),
    Entry(EntryId),
}

impl Since {
    /// The last entry that is not wanted.
    fn after(self, store: &mut Store) -> Result<EntryId> {
        Ok(match self {
            Self::Time(time) => EntryId::before(time.at(|| store.now())?),
            Self::Entry(id) => id.previous(),
        })
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Entry(id));
        }
        text.parse().map(Self::Time).map_err(|error| format!("{error}; or the id of an entry, such as 1762790400000-0"))
    }
}

/// A name of a consumer group.
fn group(text: &str) -> Result<String, String> {
    match text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        true => Err("expected 1 to 128 bytes without control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A command that loads rows. An empty one ends with 0 and loads none.
fn loader(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("expected a command, which acknowledges rows by ending with 0".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// The names of `--map`; `None` if it is not given.
fn names(map: &[Renaming], out: &Output) -> Result<Option<Renaming>> {
    if map.is_empty() {
        return Ok(None);
    }
    if out.format() == Format::Table {
        return Err(Failure::usage(
            "`--map` renames the fields of json, jsonl, csv, tsv and yaml, not those of tables",
        )
        .hint("add `-o jsonl`, or leave `--map` out"));
    }
    let fields: Vec<&str> = Column::names(LedgerRow::FIELDS, &[]).into_iter().chain(["shard", "user_hex"]).collect();
    Renaming::joined(map, &fields).map(Some).map_err(|why| Failure::usage(format!("`--map`: {why}")))
}

/// Shows or trims ledgers.
pub fn run(args: &LedgerArgs, session: &mut Session) -> Result<Exit> {
    match &args.command {
        Some(LedgerCommand::Trim(args)) => {
            session.change(&args.mutating, &args.activities, |store, out| trim::run(args, store, out))
        }
        None => session.with(|store, out| show(&args.shown, store, out)),
    }
}

fn show(args: &ShowArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let names = names(&args.map, out)?;
    out.set_names(names.clone());
    let mut sources = Sources::find(&args.activities, args.since, args.follow, store, out)?;
    if args.follow || args.group.is_some() {
        // Rows are shown, and acknowledged, whole.
        interrupt::stop_gracefully();
    }
    let (terminal, format, bom, mut has_gaps) = (out.terminal(), out.format(), out.bom, false);
    match &args.group {
        Some(name) => {
            let mut delivery = match &args.exec {
                Some(command) => {
                    Delivery::Exec(Loader { command: command.clone(), batch: args.batch, format, bom, names })
                }
                None => Delivery::Print(out.stream::<LedgerRow>()?),
            };
            let fed = feed(&mut sources, name, args.follow, &mut delivery, store, terminal);
            // Ctrl-C in a terminal ends the command of `--exec` too.
            if !interrupt::requested() {
                fed?;
            }
            delivery.finish()?;
        }
        None => {
            let mut rows = out.stream::<LedgerRow>()?;
            sources::show(&mut sources, args, store, &mut rows)?;
            rows.finish()?;
            // A follower lives through trims and resets.
            has_gaps = !args.follow && sources.warn_of_missing_rows(store)?;
        }
    }
    let has_faults = sources.faults.end();
    Ok(match interrupt::requested() {
        true => Exit::Interrupted,
        false if has_gaps => Exit::Failed,
        false => Exit::done_if(!has_faults),
    })
}

row! {
    /// One thing that happened. `(activity, id, n)` is a key.
    pub struct LedgerRow as row from (
        ledger: &ActivityId, entry: &Entry, index: usize, order: &OrderTexts<'_>, line_name: Option<&String>
    ) {
        activity: String = ledger.to_string(), flexible;
        // `id` and `n` are not in tables: the reason has their room, and only machines need them.
        data pub(crate) id: EntryId = entry.id;
        /// Numbers the orders of an entry, from 1 on.
        data pub(crate) n: usize = index + 1;
        pub(crate) time: Millis = entry.id.at();
        pub(crate) op: String = String::from_utf8_lossy(&entry.op).into_owned();
        pub(crate) user: Option<String> = order.text(0).map(str::to_owned)
            => Cell::user(row.user.as_deref(), row.user_hex.as_ref()), flexible;
        pub(crate) quantity: Option<i64> = quantity;
        pub(crate) stock: Option<u64> = Entry::count(entry.stock.as_deref());
        pub(crate) request: Option<String> = request.or_else(|| line_name.cloned()).or_else(|| text(&entry.transfer)), flexible;
        pub(crate) by: Option<String> = text(&entry.by), flexible;
        pub(crate) reason: Option<String> = order.reason().map(str::to_owned).or_else(|| text(&entry.reason)).or(way), flexible;
        /// The other shard of a transfer.
        nested shard: Option<String> = shard.map(|(_, shard)| shard);
        nested pub(crate) user_hex: Option<String> = StoredUser::new(order.user()).user_hex();
    }
    where {
        let text = |field: &Option<Vec<u8>>| field.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let units = |field: &Option<Vec<u8>>| i64::try_from(Entry::count(field.as_deref())?).ok();
        let known = entry.known_op();
        let quantity = match known {
            Some(Op::Repair) => order.to().zip(order.from()).map(|(to, from)| to - from),
            Some(Op::Deduct | Op::Refund | Op::Hold | Op::Confirm | Op::Release | Op::Expire) => order.quantity(),
            Some(Op::Pause | Op::Resume) => units(&entry.withdrawn),
            Some(Op::Lend | Op::Borrow) => units(&entry.units),
            _ => units(&entry.total),
        };
        let request = order.request().filter(|_| known != Some(Op::Repair)).map(str::to_owned);
        let direction = known.and_then(Direction::of).zip(entry.other_shard());
        let shard = direction.map(|(direction, number)| (direction, ledger.whole().shard(number).to_string()));
        let way = shard.as_ref().map(|(direction, shard)| match direction {
            Direction::Lend => format!("to {shard}"),
            Direction::Borrow => format!("from {shard}"),
        });
    }
}

/// The rows of an entry, of all users or of one, each with what the entry has of that order.
pub fn rows_of<'a>(
    activity: &'a ActivityId,
    entry: &'a Entry,
    only: Option<&'a UserId>,
) -> impl Iterator<Item = (LedgerRow, OrderTexts<'a>)> {
    // What cannot be read is shown as far as it goes; an audit names it.
    let mut orders = entry.rows().unwrap_or_default();
    if orders.is_empty() {
        orders.push(OrderTexts([const { None }; 4]));
    }
    let names = entry.line_names(orders.len());
    let is_wanted = move |order: &OrderTexts<'_>| only.is_none_or(|user| user.as_str().as_bytes() == order.user());
    let wanted = orders.into_iter().enumerate().filter(move |(_, order)| is_wanted(order));
    wanted.map(move |(index, order)| (LedgerRow::new(activity, entry, index, &order, names.get(index)), order))
}
