//! `multi-deduct --from FILE`: orders of several activities, several of them a call.
//!
//! They overlap, so no watermark can order them: each has an id of its own, `<job>:<line>` where the file gives none,
//! and one call is in flight at a time, so that they keep the order of the file.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::report::{SummaryRow, is_refused, shows_rows};
use super::{has_users, job_name};
use crate::input::orders::{Blocks, Column, Mapping, MultiReader, MultiRow, Next, RowError};
use crate::input::{Problem, Problems};
use crate::interrupt;
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::{ActivityId, RequestId};
use crate::inventory::layout::Layout;
use crate::inventory::order::{MultiOrder, MultiOutcome};
use crate::inventory::status::Status;
use crate::output::{Cell, Format, Output, Row, RowStream, is_broken_pipe};
use crate::store::{Store, StoreError};

/// The most orders of a call, and the most activities.
const MOST_ORDERS: usize = 64;
const MOST_ACTIVITIES: usize = 64;

/// Flags of a file of multi-orders.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Many orders from a file")]
pub struct MultiBulkArgs {
    /// Apply a file of orders in jsonl, each exactly once: {"user":"7","items":{"1001":2,"1002":1},"request":"…"}. `-` is
    /// standard input. The same command again goes on where it stopped
    #[arg(long, value_name = "FILE")]
    pub from: Option<String>,
    /// Name of the job; the same name is never applied twice [default: made from the file's content]
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    job: Option<String>,
    /// Go on past lines that are not valid
    #[arg(long)]
    keep_going: bool,
    /// How long to try when the server is gone or refuses writes [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    retry_for: Option<Duration>,
}

impl MultiBulkArgs {
    /// Refuses flags of a file where there is none.
    pub fn all_fit(&self) -> Result<()> {
        let given = [
            ("--job", self.job.is_some()),
            ("--keep-going", self.keep_going),
            ("--retry-for", self.retry_for.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if self.from.is_none() => Err(Failure::usage(format!("`{flag}` is for a file of orders"))
                .hint("give the file by `--from FILE`")
                .into()),
            _ => Ok(()),
        }
    }
}

/// One order of a file, and how it ended.
#[derive(Debug, Serialize)]
struct LineDocument<'a> {
    line: u64,
    user: Option<&'a str>,
    status: Status,
    request: &'a str,
    items: Vec<Item<'a>>,
}

#[derive(Debug, Serialize)]
struct Item<'a> {
    activity: &'a str,
    quantity: u64,
    status: Status,
    stock: Option<u64>,
    bought: Option<u64>,
}

/// One item as a flat row.
#[derive(Debug, Serialize)]
struct ItemRow<'a> {
    line: u64,
    user: Option<&'a str>,
    activity: &'a str,
    quantity: u64,
    status: Status,
    stock: Option<u64>,
    bought: Option<u64>,
    request: &'a str,
}

impl Row for ItemRow<'_> {
    const FIELDS: &'static [&'static str] =
        &["line", "user", "activity", "quantity", "status", "stock", "bought", "request"];
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        // A table shows the summary.
        Vec::new()
    }
}

impl Row for LineDocument<'_> {
    const FIELDS: &'static [&'static str] = ItemRow::FIELDS;
    const HEADINGS: &'static [&'static str] = Self::FIELDS;

    fn cells(&self) -> Vec<Cell> {
        Vec::new()
    }
}

/// A run under way.
struct Run<'r, 'o> {
    store: &'r mut Store,
    rows: Option<RowStream<'o, ItemRow<'static>>>,
    nested: bool,
    retry_for: Duration,
    tallies: BTreeMap<ActivityId, BTreeMap<Status, (u64, u64)>>,
    corrupt: HashSet<String>,
    job: String,
    /// Orders of the next call, with their lines, and whether their requests are their own.
    orders: Vec<MultiOrder>,
    lines: Vec<u64>,
    activities: HashSet<ActivityId>,
    own_requests: bool,
    done: u64,
}

/// Applies a file of multi-orders, or only checks it.
pub fn run(
    from: &str,
    args: &MultiBulkArgs,
    reason: Option<&str>,
    dry_run: bool,
    store: &mut Store,
    out: &mut Output,
) -> Result<Exit> {
    interrupt::stop_gracefully();
    let layout = store.layout();
    let mut reader = open(Blocks::open(from)?, layout)?;
    let is_regular = reader.rows().is_regular();
    let mut problems = Problems::of(reader.rows().name());
    let (mut bad, mut content) = (0, None);
    if is_regular || dry_run {
        let mut totals = BTreeMap::new();
        bad = check(&mut reader, &mut problems, &mut totals)?;
        if bad > 0 && !args.keep_going {
            let refused = problems.end();
            return refused
                .map(|()| Exit::Usage)
                .map_err(|failure| failure.hint("nothing was applied; `--keep-going` applies the other lines").into());
        }
        if dry_run {
            let totals: Vec<super::check::Total> = totals.into_values().collect();
            out.array(&totals)?;
            out.note("dry run: nothing was changed");
            problems.end()?;
            return Ok(Exit::Done);
        }
        let checked = reader.rows().checked();
        reader = open(reader.into_blocks().again(checked.clone())?, layout)?;
        content = Some(checked);
    }
    let job = args.job.clone().unwrap_or_else(|| match &content {
        Some(content) => content.digest("multi_deduct"),
        None => RequestId::new().to_string(),
    });
    let go_on = match content {
        Some(_) => "the same command goes on; what was applied is not applied again".to_owned(),
        None => {
            format!("to go on, give the whole input again with `--job {job}`; what was applied is not applied again")
        }
    };
    if content.is_none() && args.job.is_none() {
        out.note(format!("this input is applied as the job `{job}`"));
    }
    let (terminal, format) = (out.terminal(), out.format());
    let mut run = Run {
        store,
        rows: if shows_rows(format) { Some(out.stream()?) } else { None },
        nested: format == Format::Jsonl,
        retry_for: args.retry_for.unwrap_or(Duration::from_secs(30)),
        tallies: BTreeMap::new(),
        corrupt: HashSet::new(),
        job,
        orders: Vec::new(),
        lines: Vec::new(),
        activities: HashSet::new(),
        own_requests: false,
        done: 0,
    };
    let mut added = |problem: Problem| {
        // A file was checked before, and its bad lines are known.
        if content.is_none() {
            problems.tell(problem);
            bad += 1;
        }
        args.keep_going
    };
    let ended = run.drive(&mut reader, reason, &mut added);
    let (done, summary, corrupt) = run.finish(ended.as_ref().err())?;
    for key in corrupt {
        terminal.warn(key);
    }
    if !shows_rows(format) {
        out.array(&summary)?;
    }
    let is_whole = match ended {
        Ok(is_whole) => is_whole,
        Err(error) if is_broken_pipe(&error) => {
            return Err(Failure::failed("standard output was closed, so the run stopped").hint(go_on).into());
        }
        Err(error) => {
            let failure = match error.downcast::<StoreError>() {
                Ok(store) => Failure::from(store),
                Err(other) => other.downcast::<Failure>()?,
            };
            let hint = failure.hint.as_ref().map(|hint| format!("{hint}; {go_on}"));
            return Err(failure.hint(hint.unwrap_or(go_on)).into());
        }
    };
    if !is_whole && interrupt::requested() {
        out.note(format!("stopped after {done} orders"));
        out.hint(go_on);
        return Ok(Exit::Interrupted);
    }
    problems.end().map_err(|failure| {
        failure.hint(match args.keep_going {
            true => "mend them and apply them alone: the whole file, mended, would be another job".to_owned(),
            false => format!("the orders before it are applied; mend it, and {go_on}"),
        })
    })?;
    Ok(if is_refused(&summary) { Exit::Refused } else { Exit::Done })
}

fn open(blocks: Blocks, layout: Layout) -> Result<MultiReader, Failure> {
    MultiReader::new(blocks, &Mapping::default(), has_users(layout))
}

/// Reads all of it; gives how many lines are not valid.
fn check(
    reader: &mut MultiReader,
    problems: &mut Problems,
    totals: &mut BTreeMap<String, super::check::Total>,
) -> Result<u64> {
    let (mut row, mut bad) = (MultiRow::default(), 0);
    loop {
        match reader.next(&mut row) {
            Ok(Next::Row) => {
                for (activity, quantity) in &row.items {
                    let total = totals.entry(activity.to_string());
                    total.or_insert_with(|| super::check::Total::of(activity.as_str())).add(quantity.get());
                }
            }
            Ok(Next::NotYet) => reader.rows().wait(Duration::from_millis(100)),
            Ok(Next::End) => return Ok(bad),
            Err(RowError::Bad(problem)) => {
                problems.tell(problem);
                bad += 1;
            }
            Err(RowError::Fatal(failure)) => return Err(failure.into()),
        }
    }
}

impl Run<'_, '_> {
    /// False where it stopped before the end: interrupted, or at a bad line.
    fn drive(
        &mut self,
        reader: &mut MultiReader,
        reason: Option<&str>,
        bad: &mut impl FnMut(Problem) -> bool,
    ) -> Result<bool> {
        let mut row = MultiRow::default();
        loop {
            if interrupt::requested() {
                return Ok(false);
            }
            match reader.next(&mut row) {
                Ok(Next::Row) => self.add(&row, reason)?,
                Ok(Next::NotYet) if self.orders.is_empty() => {
                    if let Some(rows) = &mut self.rows {
                        rows.flush()?;
                    }
                    reader.rows().wait(Duration::from_millis(100));
                }
                Ok(Next::NotYet) => self.send()?,
                Ok(Next::End) => {
                    self.send()?;
                    return Ok(true);
                }
                Err(RowError::Bad(problem)) => {
                    if !bad(problem) {
                        self.send()?;
                        return Ok(false);
                    }
                }
                Err(RowError::Fatal(failure)) => {
                    self.send()?;
                    return Err(failure.into());
                }
            }
        }
    }

    /// Adds an order to the next call, or sends first what no longer fits with it.
    fn add(&mut self, row: &MultiRow, reason: Option<&str>) -> Result<()> {
        let own = row.order.get(Column::Request);
        let new = row.items.iter().filter(|(activity, _)| !self.activities.contains(activity)).count();
        let is_full = self.orders.len() >= MOST_ORDERS || self.activities.len() + new > MOST_ACTIVITIES;
        if !self.orders.is_empty() && (is_full || self.own_requests != own.is_some()) {
            self.send()?;
        }
        self.own_requests = own.is_some();
        let request = own.map_or_else(|| format!("{}:{}", self.job, row.order.line()), str::to_owned);
        self.activities.extend(row.items.iter().map(|(activity, _)| activity.clone()));
        self.lines.push(row.order.line());
        self.orders.push(MultiOrder {
            user: row.order.get(Column::User).and_then(|user| user.parse().ok()),
            items: row.items.clone(),
            // The reader has held it against the rule, and a job's name leaves room for a line.
            request: request
                .parse()
                .map_err(|error: crate::inventory::id::InvalidId| Failure::usage(error.to_string()))?,
            reason: row.order.get(Column::Reason).or(reason).map(str::to_owned),
        });
        Ok(())
    }

    /// Sends the call, again and again where that is safe and may help.
    fn send(&mut self) -> Result<()> {
        if self.orders.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        let mut keeps_refusals = !self.own_requests;
        let outcomes = loop {
            match self.store.multi_deduct_all(&self.orders, keeps_refusals) {
                Ok(outcomes) => break outcomes,
                Err(error) => {
                    let may_pass = match &error {
                        StoreError::Server { kind, .. } => kind.may_pass(),
                        StoreError::Unreachable { .. } | StoreError::Timeout { .. } | StoreError::Unknown { .. } => {
                            true
                        }
                        _ => false,
                    };
                    keeps_refusals |= matches!(error, StoreError::Unknown { .. });
                    if !may_pass || since.elapsed() >= self.retry_for || interrupt::requested() {
                        return Err(error.into());
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        };
        let (orders, lines) = (std::mem::take(&mut self.orders), std::mem::take(&mut self.lines));
        self.activities.clear();
        for ((order, line), outcome) in orders.iter().zip(lines).zip(&outcomes) {
            self.tell(line, order, outcome)?;
        }
        Ok(())
    }

    fn tell(&mut self, line: u64, order: &MultiOrder, outcome: &MultiOutcome) -> Result<()> {
        self.done += 1;
        for ((activity, quantity), item) in order.items.iter().zip(&outcome.items) {
            if let Some(corrupt) = &item.corrupt {
                self.corrupt.insert(format!("key `{}` {}; its orders are refused", corrupt.key, corrupt.what));
            }
            let tally = self.tallies.entry(activity.clone()).or_default().entry(item.status).or_default();
            tally.0 += 1;
            tally.1 += quantity.get();
        }
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let user = order.user.as_ref().map(crate::inventory::id::UserId::as_str);
        let request = order.request.as_str();
        let items = order.items.iter().zip(&outcome.items).map(|((activity, quantity), item)| Item {
            activity: activity.as_str(),
            quantity: quantity.get(),
            status: item.status,
            stock: item.stock,
            bought: item.bought,
        });
        if self.nested {
            return rows.push_borrowed(&LineDocument {
                line,
                user,
                status: outcome.status,
                request,
                items: items.collect(),
            });
        }
        for Item { activity, quantity, status, stock, bought } in items {
            rows.push_borrowed(&ItemRow { line, user, activity, quantity, status, stock, bought, request })?;
        }
        Ok(())
    }

    /// Ends the rows; gives how many orders were told of, the summary, and what is corrupt.
    fn finish(self, error: Option<&anyhow::Error>) -> Result<(u64, Vec<SummaryRow>, HashSet<String>)> {
        if let Some(rows) = self.rows
            && !error.is_some_and(is_broken_pipe)
        {
            rows.finish()?;
        }
        let mut summary = Vec::new();
        for (activity, statuses) in &self.tallies {
            summary.extend(
                statuses
                    .iter()
                    .map(|(status, (orders, units))| SummaryRow::new(activity.as_str(), *status, *orders, *units)),
            );
        }
        Ok((self.done, summary, self.corrupt))
    }
}
