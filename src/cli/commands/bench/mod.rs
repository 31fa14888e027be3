//! `seckill bench`: load a server with a sale of its own, and compare how orders can be taken.

mod rows;
mod scenario;

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::bench::{
    self, LoadOptions, Measured, PaceOptions, ReadBack, Sale, StrategyName, Until, made, prepare_files,
};
use crate::cli::args::{Mutating, duration_in};
use crate::cli::commands::bench::rows::{BenchRow, Metric, Threshold, Verdict, rank};
use crate::cli::commands::bench::scenario::{Scenario, Terms};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::interrupt;
use crate::cli::output::{Format, Output, Terminal, counted};
use crate::cli::shared::fix::{Fixes, Options};
use crate::cli::shared::outcome::until_failed;
use crate::cli::shared::session::Session;
use crate::error::StoreError;
use crate::model::number::between;
use crate::model::{ActivityId, Kind, Limit, Quantity, RequestId};
use crate::sell::bulk::Limits;
use crate::store::Store;

/// Load a server with a sale of its own and measure it
///
/// Makes activities with ids that begin with `bench-`, sells them with each strategy in turn, reads back what was sold, and
/// removes them, also after Ctrl-C. It touches no other activity, but the server is loaded as much as it can be, so
/// it must be named: by --url, the environment, a context or --embedded.
///
/// Without --rate each client sends its next order when the last one is answered (a closed loop), and times are service
/// times. With --rate orders start at fixed instants whether or not a client is free, and times count from there.
///
/// A strategy that sells more than there is, or more to a user than the limit, is struck from the ranking: exit 3.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# How many orders a second does this server take, and how long does one take?
seckill bench --url redis://10.0.0.5:6379
# On a private server: what each way of selling costs, and which oversells
seckill bench --embedded --strategy lua,batch,watch,lock,naive --scenario short
# 5,000 orders a second for a minute, judged: exit 3 if it fails
seckill bench --url redis://10.0.0.5:6379 --yes --rate 5000 --duration 1m --judge 'p99<50ms:200ms' --judge 'qps>4900:4500'
# What it would make
seckill bench --url redis://10.0.0.5:6379 --scenario multi --dry-run
")]
pub struct BenchArgs {
    /// lua, batch, watch, lock, naive
    ///
    /// How orders are taken; several are compared. lua: our script, one order a call. batch: our script, the orders of all clients in calls of 128, as files are applied.
    /// watch: WATCH, read, MULTI, EXEC, again if another client was faster, up to 20 times. lock: SET NX PX with a token and
    /// a watchdog, read, write, release; one holder pauses for longer than the lock lives. naive: read, compare, write.
    #[arg(
        long,
        value_enum,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "lua",
        hide_possible_values = true
    )]
    strategy: Vec<StrategyName>,
    /// enough, short, conflict, multi, multi-short
    ///
    /// Who wants how much of what there is. enough, the default: units for all. short: one unit for ten orders, one a user. conflict: a hundredth of the users again and again,
    /// four orders at once, two units each. multi: orders of three activities, all or nothing. multi-short: the same with
    /// one unit for ten orders.
    #[arg(
        long,
        value_enum,
        value_name = "NAME",
        default_value = "enough",
        hide_possible_values = true,
        hide_default_value = true
    )]
    scenario: Scenario,
    /// Different users who buy
    #[arg(long, value_name = "N", default_value = "100000", value_parser = between::<u64>(1, 1_000_000_000))]
    users: u64,
    /// Clients, each with a connection
    #[arg(long, value_name = "N", default_value = "1000", value_parser = between::<usize>(1, 50_000))]
    clients: usize,
    /// Orders a second, whether or not clients are free
    #[arg(long, value_name = "PER_SECOND", value_parser = between::<u32>(1, 1_000_000_000))]
    rate: Option<u32>,
    /// Orders in total [default: one a user]
    #[arg(long, value_name = "N", value_parser = between::<u64>(1, 1_000_000_000), conflicts_with = "duration")]
    orders: Option<u64>,
    /// Time in which orders start
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Threshold, such as 'p99<300ms:800ms'
    ///
    /// METRIC<GOOD:BAD, or qps>GOOD:BAD. A strategy within GOOD is `ok`, within BAD `warn`, else `fail`, which is exit 3. Metrics
    /// are qps, mean, p50, p90, p99, p99.9, errors (as errors<0.5%:2%, of the orders) and retries (likewise).
    /// Orders without an answer count as errors, and are judged by `errors<0.5%:2%` unless another threshold is given.
    #[arg(long = "judge", value_name = "RULE")]
    thresholds: Vec<Threshold>,
    /// Print what would be sold; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Name of the protected context that is loaded
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    let range = Duration::from_nanos(1)..=Duration::from_secs(24 * 3600);
    duration_in(range, text, "expected a duration above zero, up to a day, such as 30s")
}

impl BenchArgs {
    fn until(&self) -> Until {
        match self.duration {
            Some(duration) => Until::Elapsed(duration),
            None => Until::Orders(self.orders.unwrap_or(self.users)),
        }
    }

    /// The thresholds; errors always have one.
    fn thresholds(&self) -> Vec<Threshold> {
        let has_errors = self.thresholds.iter().any(|threshold| threshold.metric == Metric::Errors);
        let default = if has_errors { None } else { "errors<0.5%:2%".parse().ok() };
        self.thresholds.iter().cloned().chain(default).collect()
    }

    /// The strategies, each once.
    fn strategies(&self) -> Vec<StrategyName> {
        let mut seen = HashSet::new();
        self.strategy.iter().copied().filter(|name| seen.insert(*name)).collect()
    }

    /// What is measured, in words.
    fn title(&self) -> String {
        let clients = counted(self.clients, "client");
        let amount = match self.until() {
            Until::Orders(orders) => counted(orders, "order"),
            Until::Elapsed(duration) => humantime::format_duration(duration).to_string(),
        };
        let how = match self.rate {
            None => format!("service time in ms, closed loop of {clients}, {amount}"),
            Some(rate) => {
                format!("time in ms from the intended start, {rate} orders a second over {clients}, {amount}")
            }
        };
        format!("{}: {how}", self.scenario)
    }
}

/// Loads the server with each strategy in turn.
pub fn run(args: &BenchArgs, session: &mut Session) -> Result<Exit> {
    let layout = session.layout(None)?;
    let terms = args.scenario.terms(args.users, args.until(), layout.kind());
    if args.scenario == Scenario::Conflict && layout.kind() == Kind::Counter {
        return Err(Failure::usage("the scenario `conflict` needs users, and the layout `product` knows none")
            .hint("choose another --scenario, or another --layout"));
    }
    session.require_named("a load test")?;
    if args.strategies().iter().any(|name| *name != StrategyName::Batch) {
        prepare_files(args.clients).map_err(|most| too_many(args.clients, most))?;
    }
    let (dry_run, yes, confirm) = (args.dry_run, args.yes, args.confirm.clone());
    let mutating = Mutating { reason: None, dry_run, yes, confirm, wait_replicas: None };
    let is_private = session.global.embedded.is_some();
    let mut store = session.store_to_change(layout, &mutating, [])?;
    let login = session.options()?;
    let out = &mut session.out;
    if args.dry_run {
        return rows::show(args, &terms, &mut store, out);
    }
    if !is_private {
        let server = store.server_name();
        out.confirm(&format!("Load `{server}` as much as it can bear ({})?", args.title()), args.yes)?;
    }
    // Only now: a Ctrl-C at the question ends it at once.
    interrupt::stop_gracefully();
    let mut bench = Bench::new(args, terms, login, &mut store, out.terminal())?;
    let strategies = args.strategies().into_iter().take_while(|_| !interrupt::requested());
    let (mut rows, failed) = until_failed(strategies.map(|strategy| bench.run(strategy, &mut store, out)));
    rank(&mut rows);
    if out.format() == Format::Table && !rows.is_empty() {
        out.table(Some(&args.title()), &rows)?;
    } else if failed.is_none() || !rows.is_empty() {
        out.array(&rows)?;
        out.note(args.title());
    }
    failed.map_or(Ok(()), Err)?;
    if interrupt::requested() {
        out.warn("interrupted; the activities of this run were removed");
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::done_if(rows.iter().all(|row| row.verdict != Verdict::Fail)))
}

/// The error for more clients than files may be open.
pub fn too_many(clients: usize, most: usize) -> Failure {
    Failure::usage(format!("{clients} clients need more open files than this process may have: at most {most} clients"))
        .hint("raise the hard limit (`ulimit -Hn`, LimitNOFILE of a systemd unit), or give fewer clients")
}

/// The rights that no other command needs.
const RIGHTS: &str = "a load test needs more rights than an operator has: `+srem`; for `watch` and `naive` also `+hincrby`, or \
    `+sismember` where a user buys once; for `lock` also `+del +pexpire`: ACL SETUSER, or ask who administers the server";

/// What remains if the run dies: commands that remove it.
type Left = Arc<Mutex<Vec<String>>>;

/// A run of strategies.
struct Bench<'a> {
    args: &'a BenchArgs,
    terms: Terms,
    thresholds: Vec<Threshold>,
    /// The ids of all activities of this run begin with it.
    prefix: String,
    left: Left,
    /// How `redis-cli` gets to the server.
    redis_cli: Fixes,
}

impl<'a> Bench<'a> {
    fn new(args: &'a BenchArgs, terms: Terms, login: Options, store: &mut Store, terminal: Terminal) -> Result<Self> {
        let unique = RequestId::unique().to_string().replace('-', "");
        let prefix = format!("bench-{}", &unique[unique.len() - 8..]);
        let left = Left::default();
        let (remains, server) = (Arc::clone(&left), store.server_name().to_owned());
        interrupt::at_exit(move || say_what_remains(&terminal, &server, &remains));
        terminal.note(format!("activities `{prefix}-…` are made for this run and removed at its end"));
        store.servers.discover()?;
        let node = store.servers.node_of(None);
        let target = store.servers.node(node).connection()?.target.clone();
        let user = login.login_name(target.username());
        let redis_cli = Fixes::new("redis", &target.redis_cli(), user, false, &login);
        Ok(Self { args, terms, thresholds: args.thresholds(), prefix, left, redis_cli })
    }

    /// Sells with one strategy, on activities that exist only meanwhile.
    fn run(&mut self, strategy: StrategyName, store: &mut Store, out: &Output) -> Result<BenchRow> {
        let mut made = Vec::new();
        let ran = self.sell(strategy, &mut made, store, out);
        let is_changed = !made.is_empty();
        let removed = made::remove(&mut made, store);
        self.remember(&made, store);
        let row = ran.and_then(|row| removed.map(|()| row).map_err(Failure::from));
        row.map_err(|failure| match failure.store() {
            Some(StoreError::Permission { .. }) if is_changed => failure.hint(RIGHTS),
            _ if is_changed => failure.in_part(),
            _ => failure,
        })
    }

    fn remember(&self, left: &[ActivityId], store: &Store) {
        let follows: &[&str] = if store.servers.is_cluster() { &["-c"] } else { &[] };
        let pasted = |words: &Vec<String>| {
            let words = follows.iter().copied().chain(words.iter().map(String::as_str));
            self.redis_cli.command(&words.collect::<Vec<_>>())
        };
        let commands = made::commands(left, store).iter().map(pasted).collect();
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = commands;
    }

    fn sell(
        &self,
        strategy: StrategyName,
        made: &mut Vec<ActivityId>,
        store: &mut Store,
        out: &Output,
    ) -> Result<BenchRow> {
        let Self { args, terms, .. } = self;
        let ids = made::ids(store, &format!("{}-{strategy}", self.prefix), terms.items)?;
        // Nothing is there yet, but a user who may not remove it is refused here, before it is made.
        made::remove(&mut ids.concat(), store)?;
        for id in ids.iter().flatten() {
            made::make(made, store, id, terms.stock, terms.limit)?;
            self.remember(made, store);
        }
        let basket = |ids: &Vec<_>| ids.iter().map(|id| (Clone::clone(id), Quantity::ONE)).collect();
        let limit = terms.limit.map(Limit::get);
        let sale = Sale {
            baskets: ids.iter().map(basket).collect(),
            buyers: terms.buyers,
            per_user_limit: limit,
            is_short: terms.is_short,
            reason: None,
            run: RequestId::unique(),
        };
        let options = LoadOptions {
            strategy,
            clients: args.clients,
            pace: PaceOptions { rate: args.rate.and_then(NonZeroU32::new), until: args.until() },
            batch: Limits::shared(),
            must_succeed: false,
        };
        let progress = out.progress(strategy.name(), args.until().orders().unwrap_or_default());
        let measured = bench::load(store, &sale, &options, &mut |ended| progress.inc(ended))?;
        progress.finish();
        let mut oversold = 0;
        if !measured.is_cut_short {
            for id in ids.iter().flatten() {
                let found = made::read_back(store, id, terms.stock.get(), limit)?;
                explain_oversold(strategy, &found, out);
                oversold += found.above_stock + found.above_limit;
            }
        }
        explain(strategy, &measured, out);
        Ok(BenchRow::new(strategy, &measured, oversold, &self.thresholds))
    }
}

/// How orders ended, and what went wrong.
fn explain(strategy: StrategyName, measured: &Measured, out: &Output) {
    let ended: Vec<String> = measured.statuses.iter().map(|(status, orders)| format!("{status} {orders}")).collect();
    let orders = if measured.answers() == 1 { "order was" } else { "orders were" };
    let seconds = measured.took.as_secs_f64();
    let ended = if ended.is_empty() { String::new() } else { format!(": {}", ended.join(", ")) };
    out.note(format!("{strategy}: {} {orders} answered in {seconds:.2} s{ended}", measured.answers()));
    if measured.dropped > 0 {
        let orders = counted(measured.dropped, "order");
        out.warn(format!("{strategy}: {orders} dropped: no client was free in time"));
    }
    if let Some(error) = &measured.first_error {
        let orders = counted(measured.errors, "order");
        out.warn(format!("{strategy}: {orders} without an answer; the first: {error}"));
    }
    if let Some(corrupt) = &measured.corrupt {
        out.warn(format!("{strategy}: key `{}` {}", corrupt.key, corrupt.what));
    }
}

fn explain_oversold(strategy: StrategyName, found: &ReadBack, out: &Output) {
    for (units, why) in [(found.above_stock, "too many"), (found.above_limit, "above users' limits")] {
        if units > 0 {
            out.warn(format!("{strategy} sold {} {why}: out of the ranking", counted(units, "unit")));
        }
    }
}

/// At the end of the process, however it ends.
fn say_what_remains(terminal: &Terminal, server: &str, left: &Left) {
    let left = left.lock().unwrap_or_else(PoisonError::into_inner);
    if left.is_empty() {
        return;
    }
    terminal.warn(format!("activities of this run remain on `{server}`; these commands remove them:"));
    for command in left.iter() {
        terminal.line(&format!("  {command}"));
    }
}
