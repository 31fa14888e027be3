//! `seckill preheat`: create or change activities.

mod adopt;
mod apply;
mod explain;
mod restore;

use std::collections::HashSet;
use std::path::PathBuf;

use crate::cli::args::Mutating;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::orders::{Delimiter, Mapping, RowFormat};
use crate::cli::input::yaml::fixture;
use crate::cli::input::{activities, window};
use crate::cli::shared::session::{Consent, Session};
use crate::model::activity::Plan;
use crate::model::activity::field_change::FieldChange;
use crate::model::activity::shard_plan::ShardCount;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::model::number::{Limit, Units};
use crate::model::time::GivenTime;

pub use crate::cli::commands::preheat::apply::plan;
pub use crate::cli::commands::preheat::explain::explain;

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
    /// what there is, and `none` removes limit, start or end.
    #[arg(long, value_name = "FILE", conflicts_with = "id")]
    from: Option<String>,
    /// Column names of the list, such as id=sku,stock=qty
    ///
    /// `title=` ignores a column that looks like one.
    #[arg(long, value_name = "OURS=THEIRS", requires = "from", conflicts_with_all = ["id", "files"])]
    map: Vec<Mapping>,
    /// Separator of the list's csv values, such as ;
    #[arg(long, value_name = "C", requires = "from", conflicts_with_all = ["id", "files"])]
    delimiter: Option<Delimiter>,
    /// Only this activity of the fixtures; repeatable
    #[arg(long = "activity", value_name = "ID", conflicts_with = "id")]
    only: Vec<ActivityId>,
    /// Activity to create, change or adopt
    #[arg(long, value_name = "ID", requires = "of_one")]
    id: Option<ActivityId>,
    /// Units to sell in total
    #[arg(long, value_name = "N", requires = "id", allow_hyphen_values = true)]
    stock: Option<Units>,
    /// Most units that a user may hold; none removes it
    #[arg(long, value_name = "N", requires = "id", allow_hyphen_values = true)]
    per_user_limit: Option<FieldChange<Limit>>,
    /// Name that people know it by; '' is none
    #[arg(long, value_name = "TEXT", requires = "id")]
    title: Option<String>,
    /// Spread the stock over N shards (layout cluster)
    ///
    /// A hot activity is then on all nodes of a cluster. Another number of shards is a reset.
    #[arg(long, value_name = "N", requires = "id", conflicts_with = "adopt", allow_hyphen_values = true)]
    shards: Option<ShardCount>,
    /// Refuse purchases before this time
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, 1h (ago), +1h (from now), or none to remove it.
    #[arg(long, value_name = "TIME", requires = "id")]
    starts_at: Option<FieldChange<GivenTime>>,
    /// Refuse purchases from this time on
    ///
    /// TIME is RFC 3339, a date, `2026-11-21 10:00`, today, 1h (ago), +1h (from now), or none to remove it.
    #[arg(long, value_name = "TIME", requires = "id")]
    ends_at: Option<FieldChange<GivenTime>>,
    /// Change total, limit, title, window; purchases stay
    ///
    /// Stock moves by the difference of the totals. Fields that are not given stay, the total too with --id.
    #[arg(long, conflicts_with = "reset")]
    update: bool,
    /// Update only if the total is N (compare and set)
    ///
    /// Else it is `exists`: somebody changed it since you looked.
    #[arg(long, value_name = "N", requires = "update", conflicts_with_all = ["reset", "adopt"], allow_hyphen_values = true)]
    if_total: Option<Units>,
    /// Start over: remove purchases, ledger and requests
    ///
    /// Window, limit and title that are not given are removed, too.
    #[arg(long)]
    reset: bool,
    /// Take over another system's activity; purchases stay
    ///
    /// Also one that lost its meta, or the beginning of its ledger.
    ///
    /// Purchases stay, and a ledger begins. Sales stop meanwhile: the stock is withdrawn, and returned at the end. Run
    /// it again to resume. From then on a purchase by a plain script, past the ledger, is `counter_drift`.
    #[arg(long, requires = "id", conflicts_with_all = ["stock", "update", "reset"])]
    adopt: bool,
    /// Units that the adopted activity had at the beginning
    ///
    /// Needed if not all that was sold is recorded: in the layout `product`, and for members of a set without units.
    #[arg(long, value_name = "N", requires = "adopt", allow_hyphen_values = true)]
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
    let plans = fitted(plans, layout)?;
    let names = plans.iter().map(|plan| &plan.id);
    let mut store = session.store_to_change(layout, Consent::of(&args.mutating), names)?;
    apply::apply(&plans, args, &mut store, &mut session.out)
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
        let mut list = activities::read(from, &mapping, RowFormat { dialect: None, delimiter: args.delimiter })?;
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

/// Leaves only the activities that were asked for, each of which must be there.
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

fn fitted(plans: Vec<Plan>, layout: Layout) -> Result<Vec<Plan>> {
    plans.into_iter().map(|plan| fitted_plan(plan, layout)).collect()
}

/// The plan as the layout can keep it.
fn fitted_plan(plan: Plan, layout: Layout) -> Result<Plan> {
    let needs_cluster = plan.shards.is_some() && layout != Layout::Cluster;
    plan.fitted(layout).map_err(|why| {
        let failure = Failure::usage(why);
        if needs_cluster { failure.hint("`--layout cluster`") } else { failure }
    })
}
