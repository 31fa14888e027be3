//! `seckill preheat`: create or change activities.

use std::collections::{BTreeMap, HashSet};

use anyhow::Result;
use serde::Serialize;

use super::session::Session;
use crate::cli::Mutating;
use crate::input::{activities, fixture};
use crate::inventory::activity::{Action, Plan, Preheat, Preheated};
use crate::inventory::failure::{Exit, Failure};
use crate::inventory::id::ActivityId;
use crate::inventory::layout::Layout;
use crate::inventory::number::{Limit, Units};
use crate::inventory::status::Status;
use crate::inventory::time::Millis;
use crate::output::{Cell, Output, Row};
use crate::store::Store;

/// Create or change activities from YAML fixtures, or from flags
///
/// Says what should be: an activity that is not there is created, an equal one is left alone, and one that differs
/// is refused unless `--update` (moves total, limit, title and window of a live sale; purchases stay) or
/// `--reset` (starts over: purchases, ledger and requests are removed) is given.
#[derive(Debug, clap::Args)]
pub struct PreheatArgs {
    /// YAML fixtures; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["id", "from"], conflicts_with_all = ["id", "from"])]
    files: Vec<String>,
    /// A list of activities in csv or tsv, with the columns id, stock and, where wanted, per_user_limit, title, starts_at,
    /// ends_at, ledger; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "id")]
    from: Option<String>,
    /// Only these activities of the fixtures
    #[arg(long = "activity", value_name = "ID", conflicts_with = "id")]
    only: Vec<ActivityId>,
    /// One activity, without a fixture
    #[arg(long, value_name = "ID", requires = "stock")]
    id: Option<ActivityId>,
    /// Units to sell, all told
    #[arg(long, value_name = "N", requires = "id", allow_hyphen_values = true)]
    stock: Option<Units>,
    /// Most units a user may hold
    #[arg(long, value_name = "N", requires = "id", allow_hyphen_values = true)]
    per_user_limit: Option<Limit>,
    /// What people call it
    #[arg(long, value_name = "TEXT", requires = "id")]
    title: Option<String>,
    /// Refuse purchases before this time, such as 2026-11-11T00:00:00+08:00
    #[arg(long, value_name = "TIME", requires = "id")]
    starts_at: Option<Millis>,
    /// Refuse purchases from this time on
    #[arg(long, value_name = "TIME", requires = "id")]
    ends_at: Option<Millis>,
    /// Change what is there: total, limit, title, window. Stock moves by the difference of the totals
    #[arg(long, conflicts_with = "reset")]
    update: bool,
    /// Start over, whatever was there
    #[arg(long)]
    reset: bool,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    mutating: Mutating,
}

/// What was done to one activity, or would be.
#[derive(Debug, Serialize)]
struct PreheatRow<'a> {
    activity: &'a str,
    action: Action,
    status: Status,
    total_before: Option<u64>,
    total: Option<u64>,
    stock_before: Option<u64>,
    stock: Option<u64>,
    per_user_limit: Option<u64>,
}

impl<'a> PreheatRow<'a> {
    fn new(preheated: &'a Preheated) -> Self {
        Self {
            activity: preheated.activity.as_str(),
            action: preheated.action,
            status: preheated.status,
            total_before: preheated.total_before,
            total: preheated.total,
            stock_before: preheated.stock_before,
            stock: preheated.stock,
            per_user_limit: preheated.per_user_limit,
        }
    }
}

impl Row for PreheatRow<'_> {
    const FIELDS: &'static [&'static str] =
        &["activity", "action", "status", "total_before", "total", "stock_before", "stock", "per_user_limit"];
    const HEADINGS: &'static [&'static str] = &["activity", "action", "status", "total", "stock", "limit"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(self.activity).flexible(),
            Cell::text(self.action.name()),
            Cell::status(self.status),
            moved(self.total_before, self.total),
            moved(self.stock_before, self.stock),
            Cell::known(self.per_user_limit),
        ]
    }

    fn is_change(&self) -> bool {
        self.status == Status::Ok && self.action != Action::Unchanged
    }
}

/// `50 → 80` where a number moves, else the number.
fn moved(before: Option<u64>, after: Option<u64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Cell::number(format!("{before} → {after}")),
        (_, after) => Cell::known(after),
    }
}

/// Makes activities what they should be.
pub fn run(args: &PreheatArgs, session: &mut Session) -> Result<Exit> {
    let (plans, layout) = plans(args, session)?;
    let plans = fitted(plans, layout)?;
    let mut store = session.store(layout)?;
    apply(&plans, args, &mut store, &mut session.out)
}

/// The plans of all fixtures, or the one of the flags, and their layout.
fn plans(args: &PreheatArgs, session: &Session) -> Result<(Vec<Plan>, Layout)> {
    if let (Some(id), Some(total)) = (&args.id, args.stock) {
        let plan = Plan {
            id: id.clone(),
            title: args.title.clone(),
            total,
            per_user_limit: args.per_user_limit,
            starts_at: args.starts_at,
            ends_at: args.ends_at,
            ledger: None,
        };
        if let (Some(start), Some(end)) = (plan.starts_at, plan.ends_at)
            && start >= end
        {
            return Err(Failure::usage(format!("the window ends ({end}) before it starts ({start})")).into());
        }
        return Ok((vec![plan], session.layout(None)?));
    }
    if let Some(from) = &args.from {
        let mut plans = activities::read(from)?;
        only(&mut plans, &args.only, "the list")?;
        return Ok((plans, session.layout(None)?));
    }
    let fixtures = args.files.iter().map(|file| fixture::read(file)).collect::<Result<Vec<_>, _>>()?;
    let layout = session.layout(fixture::layout(&fixtures)?)?;
    for fixture in &fixtures {
        fixture.check(layout)?;
    }
    let mut plans: Vec<Plan> = fixtures.into_iter().flat_map(|fixture| fixture.activities).collect();
    let mut seen = HashSet::new();
    for plan in &plans {
        if !seen.insert(plan.id.as_str()) {
            return Err(Failure::usage(format!("activity `{}` is in more than one fixture", plan.id)).into());
        }
    }
    only(&mut plans, &args.only, "a fixture")?;
    Ok((plans, layout))
}

/// Leaves only the activities that were asked for, each of which must be there.
fn only(plans: &mut Vec<Plan>, wanted: &[ActivityId], place: &str) -> Result<()> {
    let known: HashSet<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    if let Some(missing) = wanted.iter().find(|wanted| !known.contains(wanted.as_str())) {
        return Err(Failure::usage(format!("no activity `{missing}` in {place}")).into());
    }
    if !wanted.is_empty() {
        let wanted: HashSet<&ActivityId> = wanted.iter().collect();
        plans.retain(|plan| wanted.contains(&plan.id));
    }
    Ok(())
}

fn fitted(plans: Vec<Plan>, layout: Layout) -> Result<Vec<Plan>> {
    plans.into_iter().map(|plan| plan.fitted(layout).map_err(|why| Failure::usage(why).into())).collect()
}

/// Shows the plan or carries it out, one activity at a time.
fn apply(plans: &[Plan], args: &PreheatArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let how = match (args.update, args.reset) {
        (true, _) => Preheat::Update,
        (_, true) => Preheat::Reset,
        _ => Preheat::Create,
    };
    let reason = args.reason.as_deref();
    let progress = out.progress("planning", plans.len() as u64);
    let all: Vec<&Plan> = plans.iter().collect();
    let mut looked = BTreeMap::new();
    store.preheat_all(&all, how, true, reason, |nth, result| {
        progress.inc(1);
        looked.insert(nth, result);
    })?;
    let mut results: Vec<Preheated> = looked.into_values().collect();
    progress.finish();
    let mut failed = None;
    if !args.mutating.dry_run {
        if let Some(question) = question(&results) {
            out.confirm(&question, args.mutating.yes)?;
        }
        warn_of_eviction(store, out);
        failed = carry_out(&all, how, reason, store, &mut results, out).err();
    }
    tell(&results, how, out);
    out.set_dry_run(args.mutating.dry_run);
    if failed.is_none() || !results.is_empty() {
        let rows: Vec<PreheatRow<'_>> = results.iter().map(PreheatRow::new).collect();
        out.array(&rows)?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let refused = results.iter().any(|result| !result.status.is_done());
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

/// Does what was planned. Where that fails, only the results of what was done, or needed nothing, are left.
fn carry_out(
    plans: &[&Plan],
    how: Preheat,
    reason: Option<&str>,
    store: &mut Store,
    results: &mut Vec<Preheated>,
    out: &Output,
) -> Result<()> {
    let moves = |result: &Preheated| {
        matches!(result.action, Action::Create | Action::Update | Action::Reset) && result.status == Status::Ok
    };
    let places: Vec<usize> = (0..plans.len()).filter(|nth| moves(&results[*nth])).collect();
    let moved: Vec<&Plan> = places.iter().map(|nth| plans[*nth]).collect();
    let progress = out.progress("preheating", places.len() as u64);
    let mut is_told = vec![false; places.len()];
    let done = store.preheat_all(&moved, how, false, reason, |nth, result| {
        progress.inc(1);
        results[places[nth]] = result.of_plan(&results[places[nth]]);
        is_told[nth] = true;
    });
    progress.finish();
    let Err(error) = done else { return Ok(()) };
    let (advice, mut failure) = (error.advice(), Failure::from(error));
    let left: HashSet<usize> = places.into_iter().zip(is_told).filter(|(_, told)| !told).map(|(nth, _)| nth).collect();
    if left.len() < moved.len() {
        out.warn(format!("{} of {} activities are done, as shown", moved.len() - left.len(), moved.len()));
        // Without a word that nothing was changed.
        failure.hint = advice;
    }
    let mut nth = 0;
    results.retain(|_| {
        nth += 1;
        !left.contains(&(nth - 1))
    });
    Err(failure.into())
}

/// What a reset destroys, as a question; `None` where it destroys nothing.
fn question(results: &[Preheated]) -> Option<String> {
    let lost: Vec<&Preheated> = results
        .iter()
        .filter(|result| {
            result.action == Action::Reset && (result.stock_before.is_some() || result.total_before.is_some())
        })
        .collect();
    let first = lost.first()?;
    let sold = first.total_before.zip(first.stock_before).map(|(total, stock)| total.saturating_sub(stock));
    let what = match (lost.len(), sold) {
        (1, Some(sold)) => format!("`{}` ({sold} sold)", first.activity),
        (1, None) => format!("`{}`", first.activity),
        (count, _) => format!("{count} activities, `{}` among them", first.activity),
    };
    Some(format!("Reset {what}? Purchases, ledger and requests are removed"))
}

/// Says in what refused activities differ, and which keys are corrupt.
pub fn tell(results: &[Preheated], how: Preheat, out: &Output) {
    const MOST: usize = 20;
    let told: Vec<&Preheated> =
        results.iter().filter(|result| !result.status.is_done() || result.action == Action::Update).collect();
    for result in told.iter().take(MOST) {
        super::rows::tell_corrupt(out, result.corrupt.as_ref());
        for difference in &result.differences {
            let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { format!("`{text}`") };
            out.note(format!(
                "{}: {} {} → {}",
                result.activity,
                difference.field,
                shown(&difference.before),
                shown(&difference.after)
            ));
        }
    }
    if told.len() > MOST {
        out.note(format!("and {} activities more", told.len() - MOST));
    }
    if results.iter().any(|result| result.status == Status::Exists) {
        out.hint(match how {
            Preheat::Create => {
                "`--update` moves total, limit, title and window and keeps purchases; `--reset` starts over"
            }
            _ => "only `--reset` can change this; it removes purchases, ledger and requests",
        });
    }
    if results.iter().any(|result| result.status == Status::OutOfStock) {
        out.hint("more units are sold than the new total has: give a total of at least what is sold");
    }
}

/// Stock that is evicted in mid-sale is lost.
fn warn_of_eviction(store: &mut Store, out: &Output) {
    // A server that does not let us ask is not worth an error.
    if let Ok(Some(policy)) = store.eviction_policy()
        && policy != "noeviction"
    {
        out.warn(format!("the server's maxmemory-policy is `{policy}`: stock and buyers may vanish in mid-sale"));
        out.hint("`noeviction` is the only right policy for a sale: CONFIG SET maxmemory-policy noeviction");
    }
}
