//! `seckill preheat`: create or change activities. It plans, asks, applies, and shows what came of it.

mod adopt;
mod explain;
mod restore;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use crate::admin::{activities, preheat};
use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{self, Mapping, RowFormat};
use crate::cli::input::yaml::fixture;
use crate::cli::input::{self, window};
use crate::cli::output::{Format, Output, counted, named};
use crate::cli::shared::hints;
use crate::cli::shared::session::Session;
use crate::error::StoreError;
use crate::model::{
    Action, ActivityId, FieldChange, GivenTime, Layout, Limit, Plan, PreheatMode, Preheated, ShardCount, Status, Units,
};
use crate::read::snapshot;
use crate::store::Store;

pub(crate) use crate::cli::commands::preheat::explain::{PreheatRow, explain, held};

/// Create or change activities from YAML fixtures, or from flags
///
/// Says what should be: an activity that is not there is created, an equal one is left alone, and one that differs
/// is refused unless `--update` (moves total, limit, title and window of a live sale; purchases stay) or
/// `--reset` (starts over: purchases, ledger and requests are removed) is given.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("of_one").args(["stock", "update", "adopt"]).multiple(true)))]
#[command(override_usage = "seckill preheat [OPTIONS] FILE...\n       \
             seckill preheat [OPTIONS] --from FILE\n       \
             seckill preheat [OPTIONS] --id ID --stock N\n       \
             seckill preheat [OPTIONS] --id ID --update\n       \
             seckill preheat [OPTIONS] --restore DIR")]
#[command(after_long_help = "
# One activity
seckill preheat --id 1001 --stock 50 --per-user-limit 2 --title phone
# All activities of a fixture; see the plan first
seckill preheat sale.yaml --dry-run
seckill preheat sale.yaml
# 20 units more for a live sale; purchases stay
seckill preheat --id 1001 --stock 70 --update
# The same, unless somebody else changed the total meanwhile
seckill preheat --id 1001 --stock 70 --update --if-total 50
# The sale ends in two hours; nothing else changes
seckill preheat --id 1001 --ends-at +2h --update
# No end, and no limit per user any more
seckill preheat --id 1001 --ends-at none --per-user-limit none --update
# A hot activity on all nodes of a cluster
seckill preheat --id 1001 --stock 5000 --shards 16 --layout cluster
# Take over an activity that another system created
seckill preheat --id 1001 --adopt
# Hundreds of activities from a list
seckill preheat --from activities.csv
# Bring back what was archived
seckill preheat --restore /backup/sales/1001.seckill.1
")]
pub struct PreheatArgs {
    /// YAML fixtures; - is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["id", "from", "restore"], conflicts_with_all = ["id", "from", "restore"])]
    files: Vec<String>,
    /// List of activities (csv or tsv); - is standard input
    ///
    /// Columns: id, stock and, if wanted, per_user_limit, title, starts_at, ends_at, ledger. With `--update` an empty cell keeps
    /// what there is, and `none` removes limit, start or end; `stock` is never empty.
    #[arg(long, value_name = "FILE", group = "list", conflicts_with = "id")]
    from: Option<String>,
    /// Column names of the list, such as id=sku,stock=qty
    ///
    /// `title=` ignores a column that looks like one.
    #[arg(long, value_name = "OURS=THEIRS", requires = "list")]
    map: Vec<Mapping>,
    /// Separator of the list's csv values, such as ;
    #[arg(long, value_name = "C", value_parser = orders::delimiter, requires = "list")]
    delimiter: Option<u8>,
    /// Only this activity of the fixtures; repeatable
    #[arg(long = "activity", value_name = "ID", conflicts_with = "id")]
    only: Vec<ActivityId>,
    /// Activity to create, change or adopt
    #[arg(long, value_name = "ID", group = "one", requires = "of_one")]
    id: Option<ActivityId>,
    /// Units to sell in total
    #[arg(long, value_name = "N", requires = "one", allow_hyphen_values = true)]
    stock: Option<Units>,
    /// Most units that a user may hold; none removes it
    #[arg(long, value_name = "N", requires = "one", allow_hyphen_values = true)]
    per_user_limit: Option<FieldChange<Limit>>,
    /// Name that people know it by; '' is none
    #[arg(long, value_name = "TEXT", requires = "one")]
    title: Option<String>,
    /// Spread the stock over N shards (layout cluster)
    ///
    /// A hot activity is then on all nodes of a cluster. Another number of shards is a reset.
    #[arg(long, value_name = "N", requires = "one", conflicts_with = "adopt", allow_hyphen_values = true)]
    shards: Option<ShardCount>,
    /// Refuse purchases before this time
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, 1h (ago), +1h (from now), or none to remove it.
    #[arg(long, value_name = "TIME", requires = "one")]
    starts_at: Option<FieldChange<GivenTime>>,
    /// Refuse purchases from this time on
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, 1h (ago), +1h (from now), or none to remove it.
    #[arg(long, value_name = "TIME", requires = "one")]
    ends_at: Option<FieldChange<GivenTime>>,
    /// Change total, limit, title, window; purchases stay
    ///
    /// Stock moves by the difference of the totals. Fields that are not given stay, the total too with --id.
    #[arg(long, group = "change", conflicts_with = "reset")]
    update: bool,
    /// Update only if the total is N (compare and set)
    ///
    /// Else it is `exists`: somebody changed it since you looked.
    #[arg(long, value_name = "N", requires = "change", allow_hyphen_values = true)]
    if_total: Option<Units>,
    /// Start over: remove purchases, ledger and requests
    ///
    /// Window, limit, title and `ledger: false` that are not given are removed, too, and a pause ends.
    #[arg(long)]
    reset: bool,
    /// Take over another system's activity; purchases stay
    ///
    /// Also one that lost its meta, or the beginning of its ledger.
    ///
    /// Purchases stay, and a ledger begins. Sales stop meanwhile: the stock is withdrawn, and returned at the end. Run
    /// it again to resume. From then on a purchase by a plain script, past the ledger, is `counter_drift`.
    #[arg(long, group = "adoption", requires = "one", conflicts_with_all = ["stock", "update", "reset"])]
    adopt: bool,
    /// Units that the adopted activity had at the beginning
    ///
    /// Needed if not all that was sold is recorded: in the layout `product`, and for members of a set without units.
    #[arg(long, value_name = "N", requires = "adoption", allow_hyphen_values = true)]
    total: Option<Units>,
    /// Bring back what `seckill archive` put into DIR
    ///
    /// DIR has a folder for each activity, or is one of them; `--activity` and `--layout` choose. A sharded activity is its
    /// shards. The files are verified by their SHA-256 before anything is written. What exists otherwise is refused. After an interruption, the same command resumes.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["id", "from", "update", "reset", "adopt"])]
    restore: Option<PathBuf>,
    #[command(flatten)]
    mutating: Mutating,
}

/// Makes activities what they should be.
pub fn run(args: &PreheatArgs, session: &mut Session) -> Result<Exit> {
    if let (Some(id), true) = (&args.id, args.adopt) {
        return adopt::run(args, id, session);
    }
    if let Some(directory) = &args.restore {
        return restore::run(directory, args, session);
    }
    let (plans, layout) = plans(args, session)?;
    let plans = plans.into_iter().map(|plan| fitted(plan, layout)).collect::<Result<Vec<_>>>()?;
    let names = plans.iter().map(|plan| &plan.id);
    let mut store = session.store_to_change(layout, &args.mutating, names)?;
    apply(&plans, args, &mut store, &mut session.out)
}

/// The plans of all fixtures, or the one of the flags, and their layout.
fn plans(args: &PreheatArgs, session: &Session) -> Result<(Vec<Plan>, Layout)> {
    if let Some(id) = &args.id {
        let plan = plan_of_flags(id, args)?;
        if !FIELDS.into_iter().any(|field| plan.gives(field)) {
            return Err(Failure::usage(format!("`--update` of `{id}`: nothing is given that could change"))
                .hint("give `--stock`, `--per-user-limit`, `--title`, `--starts-at` or `--ends-at`"));
        }
        return Ok((vec![plan], session.layout(None)?));
    }
    if let Some(from) = &args.from {
        let mapping = Mapping::joined(&args.map).map_err(|why| Failure::usage(format!("`--map`: {why}")))?;
        let mut list = input::activities::read(from, &mapping, RowFormat { dialect: None, delimiter: args.delimiter })?;
        if let Some(ignored) = &list.ignored {
            session.out.note(ignored);
        }
        only(&mut list.plans, &args.only, "the list")?;
        return Ok((list.plans, session.layout(None)?));
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
            return Err(Failure::usage(format!("activity `{}` is in more than one fixture", plan.id)));
        }
    }
    only(&mut plans, &args.only, "a fixture")?;
    Ok((plans, layout))
}

/// What flags can say of an activity.
const FIELDS: [&str; 5] = ["stock", "per_user_limit", "title", "starts_at", "ends_at"];

/// The plan of one activity, from the flags.
fn plan_of_flags(id: &ActivityId, args: &PreheatArgs) -> Result<Plan> {
    let [starts_at, ends_at] = [args.starts_at, args.ends_at].map(|time| time.unwrap_or_default().map(window::instant));
    if let (Some(start), Some(end)) = (starts_at.value(), ends_at.value())
        && start >= end
    {
        return Err(Failure::usage(format!("the window ends ({end}) before it starts ({start})")));
    }
    let (id, title, per_user_limit) = (id.clone(), args.title.clone(), args.per_user_limit.unwrap_or_default());
    Ok(Plan { id, title, total: args.stock, per_user_limit, starts_at, ends_at, ledger: None, shards: args.shards })
}

/// Keeps only the activities that `--activity` names; each must be there.
fn only(plans: &mut Vec<Plan>, wanted: &[ActivityId], place: &str) -> Result<()> {
    let known: HashSet<&str> = plans.iter().map(|plan| plan.id.as_str()).collect();
    if let Some(missing) = wanted.iter().find(|wanted| !known.contains(wanted.as_str())) {
        return Err(Failure::usage(format!("no activity `{missing}` in {place}")));
    }
    if !wanted.is_empty() {
        let wanted: HashSet<&ActivityId> = wanted.iter().collect();
        plans.retain(|plan| wanted.contains(&plan.id));
    }
    Ok(())
}

/// The plan as the layout can keep it.
fn fitted(plan: Plan, layout: Layout) -> Result<Plan> {
    let needs_cluster = plan.shards.is_some() && layout != Layout::Cluster;
    plan.fitted(layout).map_err(|why| {
        let failure = Failure::usage(why);
        if needs_cluster { failure.hint("`--layout cluster`") } else { failure }
    })
}

/// Rows of a plan that a terminal shows before it asks; the others are counted.
const MAX_PLANNED: usize = 20;

/// Shows the plan or carries it out, one activity at a time.
fn apply(plans: &[Plan], args: &PreheatArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let how = match (args.update, args.if_total, args.reset) {
        (true, Some(total), _) => PreheatMode::UpdateFrom(total.get()),
        (true, None, _) => PreheatMode::Update,
        (_, _, true) => PreheatMode::Reset,
        _ => PreheatMode::Create,
    };
    let reason = args.mutating.reason.as_deref();
    explain::warn_of_past(plans, out);
    // A server that does not answer is waited for once.
    store.begin_round(None);
    let (planned, unreached) = plan(plans, how, store, out);
    let missing: Vec<&ActivityId> =
        (0..plans.len()).filter(|at| !planned.contains_key(at)).map(|at| &plans[at].id).collect();
    let unreached = match unreached {
        Err(error) if planned.is_empty() || !error.is_outage() => return Err(error.into()),
        Err(error) => {
            out.warn(format!("not reached, and as before: {}", named(&missing, MAX_PLANNED)));
            Some(Failure::from(error).in_part())
        }
        Ok(()) => None,
    };
    let plans: Vec<Plan> = planned.keys().map(|at| plans[*at].clone()).collect();
    let planned: Vec<Preheated> = planned.into_values().collect();
    explain::pauses(&planned, store, out)?;
    if args.mutating.dry_run {
        explain::windows(&plans, &planned, out);
    }
    if planned.iter().any(|result| result.shards.is_some()) {
        out.choose(&["shards"]);
    }
    let mut results = planned.clone();
    let mut failed = None;
    let mut is_explained = false;
    if !args.mutating.dry_run {
        let question = if args.mutating.yes { None } else { explain::question_of_reset(&planned, store)? };
        if let Some(question) = question {
            let epochs = epochs(&plans, store)?;
            is_explained = show_plan(&planned, how, out)?;
            out.confirm(&question, false)?;
            refuse_if_changed((&planned, &epochs), &plans, how, store, out)?;
        }
        warn_of_eviction(store, out);
        // What an earlier call made so is waited for too.
        let unchanged = results.iter().filter(|result| result.action == Action::Unchanged);
        unchanged.for_each(|result| store.changed(&result.activity));
        failed = carry_out(&plans, how, reason, store, &mut results, out).err();
        let due = planned.iter().filter(|it| !matches!(it.action, Action::Unchanged | Action::Refused)).count();
        if due > 1 && failed.as_ref().is_some_and(|failed| failed.exit == Exit::Unknown) {
            out.warn(match how {
                PreheatMode::Reset => {
                    "others may be reset or not, too: `seckill ledger` shows when the sale of each began"
                }
                _ => "others may be changed or not, too: the same command with `--dry-run` shows what is not as wanted",
            });
        }
    }
    let missing = results.iter().filter(|result| result.status == Status::NotPreheated);
    hints::other_layouts(missing.map(|result| &result.activity), store, out);
    hints::order_sets(results.iter().map(|result| &result.activity), store, out);
    // Nor does a replica refuse what changes nothing.
    let is_unchanged =
        failed.is_none() && results.iter().all(|result| matches!(result.action, Action::Unchanged | Action::Refused));
    hints::warn_of_dry_replica(args.mutating.dry_run || is_unchanged, store, out);
    if !is_explained || results != planned && results.iter().any(|result| !result.status.is_done()) {
        explain(&results, how, out);
    }
    explain::show(&results, failed.or(unreached), out)
}

/// The epochs of activities: each reset begins another one.
fn epochs(plans: &[Plan], store: &mut Store) -> Result<Vec<Option<u64>>> {
    let ids: Vec<ActivityId> = plans.iter().map(|plan| plan.id.clone()).collect();
    let found = snapshot::snapshots(store, &ids)?;
    Ok(found.into_iter().map(|found| Some(found.meta?.epoch)).collect())
}

/// Refuses a reset that would destroy something else than was asked about.
fn refuse_if_changed(
    asked: (&[Preheated], &[Option<u64>]),
    plans: &[Plan],
    how: PreheatMode,
    store: &mut Store,
    out: &Output,
) -> Result<()> {
    let (planned, unreached) = plan(plans, how, store, out);
    unreached?;
    let planned: Vec<Preheated> = planned.into_values().collect();
    if (&*planned, &*epochs(plans, store)?) == asked {
        return Ok(());
    }
    let now = explain::question_of_reset(&planned, store)?.map(|question| format!("; now it is: {question}"));
    let message = format!("changed since the question, so nothing was reset{}", now.unwrap_or_default());
    let hint = "give the same command again; if it still sells, `seckill pause` it first, or give `--yes`";
    Err(Failure::failed(message).hint(hint))
}

/// What would become of each activity whose server answers, by its place; why not of others.
pub fn plan(
    plans: &[Plan],
    how: PreheatMode,
    store: &mut Store,
    out: &Output,
) -> (BTreeMap<usize, Preheated>, Result<(), StoreError>) {
    let progress = out.progress("planning", plans.len() as u64);
    let all: Vec<&Plan> = plans.iter().collect();
    let mut planned = BTreeMap::new();
    let done = preheat::preheat_all(store, &all, how, true, None, |plan, result| {
        progress.inc(1);
        planned.insert(plan, result);
    });
    progress.finish();
    (planned, done)
}

/// Shows a person what the question is about: false if only the result is shown.
fn show_plan(planned: &[Preheated], how: PreheatMode, out: &mut Output) -> Result<bool> {
    if out.format() != Format::Table || !out.terminal().shows_data {
        return Ok(false);
    }
    let concerned: Vec<&Preheated> = planned.iter().filter(|result| result.action != Action::Unchanged).collect();
    if concerned.is_empty() {
        return Ok(false);
    }
    let rows: Vec<PreheatRow<'_>> =
        concerned.iter().take(MAX_PLANNED).map(|result| PreheatRow::new(result, true)).collect();
    out.table(Some("Plan"), &rows)?;
    if concerned.len() > MAX_PLANNED {
        out.note(format!("and {} more", counted(concerned.len() - MAX_PLANNED, "activity")));
    }
    explain(planned, how, out);
    Ok(true)
}

/// Does what was planned. If that fails, only the results of what was done, or needed nothing, are left.
fn carry_out(
    plans: &[Plan],
    how: PreheatMode,
    reason: Option<&str>,
    store: &mut Store,
    results: &mut Vec<Preheated>,
    out: &Output,
) -> Result<()> {
    let unchanged: Vec<&ActivityId> =
        results.iter().filter(|result| result.action == Action::Unchanged).map(|result| &result.activity).collect();
    preheat::restore_index(store, &unchanged)?;
    let moves = |result: &Preheated| {
        matches!(result.action, Action::Create | Action::Update | Action::Reset) && result.status == Status::Ok
    };
    let due: Vec<usize> = (0..plans.len()).filter(|plan| moves(&results[*plan])).collect();
    let progress = out.progress("preheating", due.len() as u64);
    let mut left: HashSet<usize> = due.iter().copied().collect();
    // What a reset found absent is only created: nobody was asked about what another system made meanwhile.
    let (created, others): (Vec<usize>, Vec<usize>) =
        due.iter().partition(|plan| how == PreheatMode::Reset && results[**plan].action == Action::Create);
    let mut done = Ok(());
    for (how, group) in [(PreheatMode::Create, created), (how, others)] {
        let group_plans: Vec<&Plan> = group.iter().map(|plan| &plans[*plan]).collect();
        done = preheat::preheat_all(store, &group_plans, how, false, reason, |at, result| {
            progress.inc(1);
            results[group[at]] = result.of_plan(&results[group[at]]);
            left.remove(&group[at]);
        });
        if done.is_err() {
            break;
        }
    }
    progress.finish();
    let Err(error) = done else { return Ok(()) };
    let failure = Failure::from(error);
    if left.len() < due.len() {
        out.warn(format!("{} of {} activities are done, as shown", due.len() - left.len(), due.len()));
    }
    // Of an activity that is not done some shards may be.
    let is_sharded = |plan: &usize| plans[*plan].shards.is_some() || results[*plan].shards.is_some();
    let is_partial = left.len() < due.len() || left.iter().any(is_sharded);
    let mut is_decided = (0..plans.len()).map(|plan| !left.contains(&plan));
    results.retain(|_| is_decided.next() == Some(true));
    Err(if is_partial { failure.in_part() } else { failure })
}

/// Stock that is evicted in mid-sale is lost.
fn warn_of_eviction(store: &mut Store, out: &Output) {
    // A server that does not let us ask is not worth an error.
    if let Ok(Some(policy)) = activities::eviction_policy(store)
        && policy != "noeviction"
    {
        out.warn(format!("the server's maxmemory-policy is `{policy}`: stock and buyers may vanish in mid-sale"));
        out.hint("`noeviction` is the only right policy for a sale: CONFIG SET maxmemory-policy noeviction");
    }
}
