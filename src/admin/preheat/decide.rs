//! What a preheat is to do to a sharded activity, from what is there. Asks nobody.

use crate::admin::parent::ParentRecord;
use crate::admin::preheat::check_window;
use crate::error::Result;
use crate::model::activity::shard_plan::{spread, taken};
use crate::model::number::signed;
use crate::model::{
    Action, ActivityId, Corrupt, FieldDifference, Limit, Meta, Millis, PackedRules, Plan, PreheatMode, Preheated,
    ShardPlan, Snapshot, Status, StoredState, Units,
};
use crate::shards;

/// What there is of an activity that is sharded, or is to be.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What the parent says; `None` if it is no parent, or cannot be read.
    pub record: Option<ParentRecord>,
    /// The shards that it names; if there is no parent, those that a new one gets.
    pub shards: Vec<Snapshot>,
    /// What is wrong with the parent, or with a shard that it names.
    pub corrupt: Option<Corrupt>,
    /// Whether the activity has no key of its own.
    pub is_absent: bool,
    /// What the script `preheat` says of an activity that is there, and no parent.
    pub other: Option<Preheated>,
    /// The numbers of shards that are there, if no parent names any.
    pub living: Vec<u32>,
    /// The first number behind those of shards that are there or were removed, if a new parent would use some of them otherwise.
    pub used: u32,
    /// The latest epoch that is there.
    pub epoch: u64,
    /// The id of a plan that begins now.
    pub new_id: String,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Todo {
    /// Nothing, or nothing can be.
    Nothing,
    /// The parent is to say this; then what it plans is to be done.
    Begin(Box<ParentRecord>),
    /// What the parent plans already is to be done.
    Resume,
}

/// The steps to take, and their result.
#[derive(Debug)]
pub(super) struct Decision {
    pub result: Preheated,
    pub todo: Todo,
    /// Rules and title at the end.
    pub target: (PackedRules, String),
}

impl Found {
    /// Units left in the shards that the parent names.
    fn stock(&self) -> Option<u64> {
        self.record.as_ref()?.shards.as_ref()?;
        self.shards.iter().map(|shard| shard.stock).sum()
    }

    /// Numbers of the shards that there are, or that a plan makes, and of those that it removes.
    pub(super) fn numbers(&self) -> (Vec<u32>, Vec<u32>) {
        match self.record.as_ref().map(|record| (&record.plan, &record.shards)) {
            Some((Some(ShardPlan::Start { shards, old }), _)) => (shards.clone(), old.clone()),
            Some((_, Some(shards))) => (shards.numbers().to_vec(), Vec::new()),
            _ => (Vec::new(), Vec::new()),
        }
    }
}

/// What is wanted of an activity, and what there is.
struct Case<'a> {
    plan: &'a Plan,
    how: PreheatMode,
    found: &'a Found,
    /// Rules and title at the end.
    target: (PackedRules, String),
    /// What a refusal says.
    refused: Preheated,
}

fn is_update(how: PreheatMode) -> bool {
    matches!(how, PreheatMode::Update | PreheatMode::UpdateFrom(_))
}

/// Rules and title as a plan wants them; an update keeps what is not given.
fn wanted(plan: &Plan, how: PreheatMode, before: Option<&ParentRecord>, epoch: u64) -> (PackedRules, String) {
    let kept = before.filter(|_| is_update(how));
    let rules = PackedRules {
        state: kept.map_or(StoredState::Live, |record| record.rules.state),
        ledger: plan.ledger.unwrap_or(true),
        epoch,
        per_user_limit: plan.per_user_limit.map(Limit::get).over(kept.and_then(|it| it.rules.per_user_limit)),
        total: plan.total.map(Units::get).or(kept.map(|it| it.rules.total)).unwrap_or_default(),
        starts_at: plan.starts_at.over(kept.and_then(|it| it.rules.starts_at)),
        ends_at: plan.stored_end().over(kept.and_then(|it| it.rules.ends_at)),
    };
    let title = plan.title.clone().or(kept.map(|record| record.title.clone())).unwrap_or_default();
    (rules, title)
}

/// Decides.
///
/// # Errors
/// What is given does not fit what is kept.
pub(super) fn decide(plan: &Plan, how: PreheatMode, found: &Found) -> Result<Decision> {
    let record = found.record.as_ref();
    let target =
        wanted(plan, how, record, if how == PreheatMode::Reset { found.epoch + 1 } else { found.epoch.max(1) });
    check_window("preheat", target.0.starts_at, target.0.ends_at)?;
    let rules = record.map(|record| &record.rules);
    let refused = Preheated {
        total_before: rules.map(|rules| rules.total),
        total: rules.map(|rules| rules.total),
        stock_before: found.stock(),
        stock: found.stock(),
        per_user_limit: rules.and_then(|rules| rules.per_user_limit),
        shards: counted(&found.numbers().0),
        ..Preheated::refused(&plan.id, Status::Exists)
    };
    let case = Case { plan, how, found, target, refused };
    let (result, todo) = match (how, record) {
        (PreheatMode::Reset, _) => case.reset(),
        _ if found.corrupt.is_some() => {
            let (status, corrupt) = (Status::Corrupt, found.corrupt.clone());
            (Preheated { status, corrupt, ..case.refused.clone() }, Todo::Nothing)
        }
        (_, None) => match &found.other {
            Some(other) => (case.without_shards(other), Todo::Nothing),
            None => case.create(),
        },
        (_, Some(record)) if record.shards.is_some() && found.shards.iter().any(Snapshot::is_archived) => {
            (case.refused_for("state", StoredState::Archived, StoredState::Live), Todo::Nothing)
        }
        (_, Some(record)) => match &record.plan {
            Some(ShardPlan::Start { shards, .. }) => case.resume(record, shards),
            Some(ShardPlan::Update { .. }) if !is_update(how) => {
                let mut refused = Preheated { differences: case.differences(record), ..case.refused.clone() };
                refused.differences.push(case.difference("plan", "update", ""));
                (refused, Todo::Nothing)
            }
            // What is unfinished is finished first, whatever is wanted then.
            Some(ShardPlan::Update { .. }) => (case.half_updated(case.existing(record).0, record), Todo::Resume),
            None => case.existing(record),
        },
    };
    Ok(Decision { result, todo, target: case.target })
}

/// How many shards there are, if the activity is sharded.
fn counted(shards: &[u32]) -> Option<u64> {
    (!shards.is_empty()).then_some(shards.len() as u64)
}

fn is_there(shard: &Snapshot) -> bool {
    if shard.is_removed() {
        return false;
    }
    shard.status != Status::NotPreheated
        || shard.meta.is_some()
        || shard.ledger_last.is_some()
        || shard.buyers > Some(0)
}

impl Case<'_> {
    fn difference(&self, field: &str, before: impl ToString, after: impl ToString) -> FieldDifference {
        let (before, after) = (before.to_string(), after.to_string());
        FieldDifference { is_given: self.plan.gives(field), field: field.to_owned(), before, after }
    }

    /// It is refused because of one field.
    fn refused_for(&self, field: &str, before: impl ToString, after: impl ToString) -> Preheated {
        Preheated { differences: vec![self.difference(field, before, after)], ..self.refused.clone() }
    }

    /// How a sharded sale differs from its plan.
    fn differences(&self, record: &ParentRecord) -> Vec<FieldDifference> {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let count = |count: usize| if count == 0 { String::new() } else { count.to_string() };
        let shards = self.found.numbers().0.len();
        let kept = if is_update(self.how) { shards } else { 0 };
        let texts = |rules: &PackedRules, title: &str, shards: String| {
            [
                ("stock", rules.total.to_string()),
                ("per_user_limit", number(rules.per_user_limit)),
                ("title", title.to_owned()),
                ("starts_at", number(rules.starts_at.map(Millis::get))),
                ("ends_at", number(rules.ends_at.map(Millis::get))),
                ("ledger", u8::from(rules.ledger).to_string()),
                ("shards", shards),
            ]
        };
        let was = texts(&record.rules, &record.title, count(shards));
        let shards = self.plan.shards.map_or(kept, |count| count.get());
        let will_be = texts(&self.target.0, &self.target.1, count(shards));
        let pairs = was.into_iter().zip(will_be).filter(|((_, was), (_, will_be))| was != will_be);
        pairs.map(|((field, was), (_, will_be))| self.difference(field, was, will_be)).collect()
    }

    /// What is done, or planned: the total and the stock are those of a new sale.
    fn begun(&self, before: Preheated, action: Action) -> Preheated {
        let (total, per_user_limit) = (Some(self.target.0.total), self.target.0.per_user_limit);
        Preheated { action, status: Status::Ok, total, stock: total, per_user_limit, ..before }
    }

    /// The parent is to plan a new sale.
    fn start(&self, shards: Vec<u32>, old: Vec<u32>) -> Todo {
        let (rules, title) = self.target.clone();
        Todo::Begin(Box::new(ParentRecord { rules, title, shards: None, plan: Some(ShardPlan::Start { shards, old }) }))
    }

    /// An activity that has its units itself is no parent, and becomes one only by a reset.
    fn without_shards(&self, other: &Preheated) -> Preheated {
        let mut refused = other.clone();
        refused.action = Action::Refused;
        if refused.status != Status::Corrupt {
            refused.status = Status::Exists;
        }
        (refused.total, refused.stock) = (refused.total_before, refused.stock_before);
        let shards = self.plan.shards.map(|count| count.to_string()).unwrap_or_default();
        refused.differences.push(self.difference("shards", "", shards));
        refused
    }

    /// Nothing of the activity itself is there.
    fn create(&self) -> (Preheated, Todo) {
        let Self { plan, how, found, target, refused } = self;
        if matches!(how, PreheatMode::UpdateFrom(_)) {
            return (Preheated { status: Status::NotPreheated, ..refused.clone() }, Todo::Nothing);
        }
        // A parent that was lost, with the node that had it, before a replica knew it: what its shards say must fit.
        let fits = |shard: &Snapshot, meta: &Meta| {
            let rules = &target.0;
            shard.status == Status::Ok
                && meta.epoch == rules.epoch
                && (meta.per_user_limit, meta.starts_at, meta.ends_at)
                    == (rules.per_user_limit, rules.starts_at, rules.ends_at)
                && meta.title == target.1
        };
        let planned = spread(target.0.total, found.shards.len());
        let present: Vec<_> = found.shards.iter().zip(planned).filter(|(shard, _)| is_there(shard)).collect();
        let totals: u64 = present.iter().filter_map(|(shard, _)| shard.meta.as_ref()).map(|meta| meta.total).sum();
        let is_whole = present.len() == found.shards.len() && totals == target.0.total;
        let other = present.iter().find(|(shard, units)| {
            let meta = shard.meta.as_ref().filter(|meta| fits(shard, meta));
            // What a shard sold before it was lost would be sold again.
            !meta.is_some_and(|meta| is_whole || meta.total == *units && shard.stock == Some(*units))
        });
        let is_first = |id: &ActivityId| found.shards.iter().any(|shard| shard.activity == *id);
        let stray = found.living.iter().map(|number| plan.id.shard(*number)).find(|id| !is_first(id));
        if let Some(shard) = other.map(|(shard, _)| shard.activity.clone()).or(stray) {
            return (self.refused_for("shard", shard, ""), Todo::Nothing);
        }
        let shards = shards::choose(&plan.id, found.shards.len(), 0);
        let mut result = Preheated { shards: counted(&shards), ..self.begun(refused.clone(), Action::Create) };
        if is_whole {
            result.stock = found.shards.iter().map(|shard| shard.stock).sum();
        }
        (result, self.start(shards, Vec::new()))
    }

    /// A new sale is half made.
    fn resume(&self, record: &ParentRecord, shards: &[u32]) -> (Preheated, Todo) {
        let differences = self.differences(record);
        // Only a reset makes an activity without shards of it.
        if differences.is_empty() && !shards.is_empty() {
            let result = Preheated { total_before: None, ..self.begun(self.refused.clone(), Action::Create) };
            return (result, Todo::Resume);
        }
        let mut refused = Preheated { differences, ..self.refused.clone() };
        refused.differences.push(self.difference("plan", "start", ""));
        (refused, Todo::Nothing)
    }

    /// A sale is there.
    fn existing(&self, record: &ParentRecord) -> (Preheated, Todo) {
        let Self { how, found, target, .. } = self;
        let mut differences = self.differences(record);
        let mut is_refused =
            !is_update(*how) || differences.iter().any(|it| matches!(&it.field[..], "ledger" | "shards"));
        if let PreheatMode::UpdateFrom(total) = how
            && *total != record.rules.total
        {
            differences.push(self.difference("if_total", record.rules.total, total));
            is_refused = true;
        }
        let refused = self.refused.clone();
        if differences.is_empty() {
            return (Preheated { action: Action::Unchanged, status: Status::Ok, ..refused }, Todo::Nothing);
        }
        let refused = Preheated { differences, ..refused };
        if is_refused {
            return (refused, Todo::Nothing);
        }
        let stocks: Vec<u64> = found.shards.iter().map(|shard| shard.stock.unwrap_or_default()).collect();
        let (before, after) = (record.rules.total, target.0.total);
        let changes = match before.checked_sub(after) {
            Some(fewer) => taken(&stocks, fewer).map(|taken| taken.into_iter().map(|units| -signed(units)).collect()),
            None => Some(spread(after - before, stocks.len()).into_iter().map(signed).collect()),
        };
        let Some(changes) = changes else {
            return (Preheated { status: Status::OutOfStock, ..refused }, Todo::Nothing);
        };
        let stock = refused.stock.and_then(|stock| (stock + after).checked_sub(before));
        let result = Preheated { stock, ..self.begun(refused, Action::Update) };
        let (rules, title) = target.clone();
        let update = ShardPlan::Update { id: found.new_id.clone(), done: 0, changes, rules, title };
        (result, Todo::Begin(Box::new(ParentRecord { plan: Some(update), ..record.clone() })))
    }

    /// Some shards of a sale are updated already: counts from their totals what is left of how many.
    fn half_updated(&self, result: Preheated, record: &ParentRecord) -> Preheated {
        let metas = self.found.shards.iter().filter_map(|shard| shard.meta.as_ref());
        let totals: u64 = metas.map(|meta| meta.total).sum();
        let left = |total: u64| result.stock_before.and_then(|stock| (stock + total).checked_sub(totals));
        let (before, after) = (left(record.rules.total), left(self.target.0.total));
        if after.is_none() || !matches!(result.status, Status::OutOfStock | Status::Ok) {
            return Preheated { stock_before: before, ..result };
        }
        Preheated { stock_before: before, stock: after, ..self.begun(result, Action::Update) }
    }

    fn reset(&self) -> (Preheated, Todo) {
        let Self { plan, found, refused, .. } = self;
        let count = plan.shards.map_or(0, |count| count.get());
        let (shards, old) = found.numbers();
        if let Some(record) = &found.record
            && matches!(record.plan, Some(ShardPlan::Start { .. }))
            && self.differences(record).is_empty()
        {
            return (self.begun(refused.clone(), Action::Reset), Todo::Resume);
        }
        // A list of another length gives users other homes: a cached one must find no shard at all.
        let used = shards.iter().chain(&old).max().map_or(found.used, |most| most + 1);
        let chosen = if shards.len() == count { shards.clone() } else { shards::choose(&plan.id, count, used) };
        let named = shards.into_iter().chain(old).chain(found.living.iter().copied());
        let old: Vec<u32> = named.filter(|number| !chosen.contains(number)).collect();
        let is_new = found.is_absent && found.living.is_empty() && !found.shards.iter().any(is_there);
        let action = if is_new { Action::Create } else { Action::Reset };
        let mut before = refused.clone();
        match (&found.other, &found.record) {
            (Some(other), _) => {
                (before.total_before, before.stock_before) = (other.total_before, other.stock_before);
                before.differences.clone_from(&other.differences);
            }
            (None, Some(record)) => before.differences = self.differences(record),
            (None, None) => {}
        }
        let result = Preheated { shards: counted(&chosen), ..self.begun(before, action) };
        (result, self.start(chosen, old))
    }
}
