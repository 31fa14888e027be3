//! What `preheat` says of each activity: its row, why it was refused, in what it changes, and, as a question, what a reset destroys.

use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::window;
use crate::cli::output::{Cell, Output, counted, named, row};
use crate::cli::shared::hints;
use crate::model::number;
use crate::model::{
    Action, ActivityId, Bought, FieldChange, FieldDifference, Kind, Millis, Plan, PreheatMode, Preheated, Snapshot,
    Status, StoredState,
};
use crate::read::{participants, snapshot, whole};
use crate::store::Store;

/// Activities whose differences are listed; the others are counted.
const MAX_NAMED: usize = 20;

/// Fields that an update cannot change.
const RESET_FIELDS: [&str; 2] = ["shards", "ledger"];

/// Says in what activities change or differ, which keys are corrupt, and what can be done.
pub fn explain(results: &[Preheated], how: PreheatMode, out: &Output) {
    differences(results, out);
    if let Some(refused) = results.iter().find(|result| result.status == Status::Exists) {
        out.hint(of_existing(refused, how));
    }
    if results.iter().any(|result| result.status == Status::OutOfStock) {
        out.hint("more units are sold than the new total has: give a total of at least what is sold");
    }
}

/// Warns of windows that are over: nobody could buy.
pub(super) fn warn_of_past(plans: &[Plan], out: &Output) {
    let now = window::now();
    let mut warnings = out.warnings();
    for plan in plans {
        if let Some(end) = plan.ends_at.value().filter(|end| *end <= now) {
            warnings.warn(format!("the window of `{}` ended at {end}: nobody can buy", plan.id));
        }
    }
    warnings.end();
}

/// Says when activities that begin anew would sell.
pub(super) fn windows(plans: &[Plan], planned: &[Preheated], out: &Output) {
    let mut notes = out.warnings();
    for (plan, planned) in plans.iter().zip(planned) {
        let word = |word: &str, time: FieldChange<Millis>| time.value().map(|time| format!(" {word} {time}"));
        let window: String = word("from", plan.starts_at).into_iter().chain(word("until", plan.ends_at)).collect();
        if !window.is_empty() && matches!(planned.action, Action::Create | Action::Reset) {
            notes.note(format!("{}: sells{window}", plan.id));
        }
    }
    notes.end();
}

/// Says which pauses a reset ends: each is of the sale that it removes.
pub(super) fn pauses(planned: &[Preheated], store: &mut Store, out: &Output) -> Result<()> {
    let reset = planned.iter().filter(|result| result.action == Action::Reset);
    let reset: Vec<ActivityId> = reset.map(|result| result.activity.clone()).collect();
    let is_paused = |it: &Snapshot| it.meta.as_ref().is_some_and(|meta| meta.stored_state == StoredState::Paused);
    let mut paused = whole::wholes(store, &reset)?;
    paused.retain(is_paused);
    if !paused.is_empty() {
        let paused: Vec<&ActivityId> = paused.iter().map(|snapshot| &snapshot.activity).collect();
        out.note(format!("the reset ends the pause of {}", named(&paused, MAX_NAMED)));
    }
    Ok(())
}

/// Says in what activities change or differ, and which keys are corrupt.
pub(super) fn differences(results: &[Preheated], out: &Output) {
    let is_concerned = |result: &&Preheated| {
        !result.status.is_done() || result.action == Action::Update || !result.removed().is_empty()
    };
    let mut concerned: Vec<&Preheated> = results.iter().filter(is_concerned).collect();
    concerned.sort_by_key(|result| !result.loses_window());
    for result in concerned.iter().take(MAX_NAMED) {
        crate::cli::shared::outcome::warn_of_corrupt(&mut out.warnings(), result.corrupt.as_ref());
        for removed in result.removed() {
            out.note(format!("{}: {}, so it is removed", result.activity, in_words(removed)));
        }
        for difference in result.differences.iter().filter(|_| result.action != Action::Reset) {
            out.note(format!("{}: {}", result.activity, in_words(difference)));
        }
    }
    if concerned.len() > MAX_NAMED {
        out.note(format!("and {} more", counted(concerned.len() - MAX_NAMED, "activity")));
    }
}

/// What to do about an activity that exists and differs.
pub(super) fn of_existing(refused: &Preheated, how: PreheatMode) -> String {
    let of_state = |difference| of_state(&refused.activity, difference);
    refused.differences.iter().find_map(of_state).unwrap_or_else(|| of_fields(refused, how))
}

/// What to do about a difference that is not one of fields.
fn of_state(activity: &ActivityId, difference: &FieldDifference) -> Option<String> {
    let adopt = hints::preheat(activity, "--adopt");
    Some(match difference.field.as_str() {
        "state" => format!(
            "`seckill preheat --restore DIR` brings `{activity}` back with its purchases; `--reset` begins another sale of it"
        ),
        "stock key" => format!(
            "`seckill reconcile {activity:#} --fix` restores a lost stock from a whole ledger that equals every counter, and with \
             `--orders FILE` from complete order records; without a ledger, {adopt} restores it from total and participants, where \
             these are recorded; else `--reset` starts over"
        ),
        "preheated" => {
            format!("{adopt} takes it over with its purchases, and begins a ledger; `--reset` starts over")
        }
        "plan" => format!(
            "`seckill inspect {activity:#}` shows what is unfinished: give the command that began it again to finish it; `--reset` \
             starts over"
        ),
        "shard" => "its parent was lost, or deleted: give shards, total, limit, title and window as they were to restore it; `--shards N \
                    --reset` starts over"
            .to_owned(),
        "adopt" => format!("{adopt} resumes"),
        "if_total" => format!(
            "look at it with `seckill inspect {activity:#}`; then `--if-total {}` updates it as it is now",
            difference.before
        ),
        _ => return None,
    })
}

/// What to do about fields that differ.
fn of_fields(refused: &Preheated, how: PreheatMode) -> String {
    let given = || refused.differences.iter().filter(|it| it.is_given);
    if let Some(ledger) = given().find(|it| it.field == "ledger") {
        let kept = ledger.before == "1";
        return format!(
            "give `ledger: {kept}` to keep it as it is; only `preheat --reset` can change it, which removes purchases, ledger and \
             requests"
        );
    }
    if how == PreheatMode::Create && !given().any(|it| RESET_FIELDS.contains(&it.field.as_str())) {
        return match given().next() {
            Some(_) => "`--update` changes total, limit, title and window, and keeps purchases and what is not given; \
                        `--reset` starts over"
                .to_owned(),
            None => "give these fields as they are to be equal; `--update` keeps what is not given".to_owned(),
        };
    }
    "only `--reset` can change this; it removes purchases, ledger and requests".to_owned()
}

/// ``title `phone` ``: a field as it is, for people.
pub(crate) fn before_in_words(difference: &FieldDifference) -> String {
    format!("{} {}", difference.field, shown(&difference.field, &difference.before))
}

fn shown(field: &str, text: &str) -> String {
    match (field, text) {
        (_, "") => "none".to_owned(),
        ("starts_at" | "ends_at", millis) => {
            number::whole(millis).map_or(millis.to_owned(), |millis| Millis::new(millis).to_string())
        }
        ("ledger", flag) => format!("`{}`", flag == "1"),
        _ => format!("`{text}`"),
    }
}

/// ``stock `10` → `50` ``: for people.
fn in_words(difference: &FieldDifference) -> String {
    match difference.field.as_str() {
        "preheated" => "it has no meta: another system created it, or its meta was lost".to_owned(),
        "stock key" => "its stock key is gone".to_owned(),
        "state" => "it is archived".to_owned(),
        "adopt" => "its adoption is unfinished".to_owned(),
        "plan" if difference.before == "start" => "a preheat that makes it new is unfinished".to_owned(),
        "plan" => "an update of it is unfinished".to_owned(),
        "shard" => format!("its shard `{}` is there, and it is not", difference.before),
        "if_total" => format!("its total is `{}`, not `{}`", difference.before, difference.after),
        _ if !difference.is_given => format!("{} is not given", before_in_words(difference)),
        field => format!("{} → {}", before_in_words(difference), shown(field, &difference.after)),
    }
}

row! {
    /// What was done to one activity, or would be.
    pub(crate) struct PreheatRow<'a> as row from (preheated: &'a Preheated, is_planned: bool) {
        activity: &'a str = preheated.activity.as_str(), flexible;
        action: Action = preheated.action => Cell::text(row.action.name());
        status: Status = preheated.status => match row.status {
            Status::Ok if row.is_planned => Cell::text("planned"),
            status => Cell::status(status),
        };
        data total_before: Option<u64> = preheated.total_before;
        total: Option<u64> = preheated.total => moved(row.total_before, row.total);
        data stock_before: Option<u64> = preheated.stock_before;
        stock: Option<u64> = preheated.stock => moved(row.stock_before, row.stock);
        per_user_limit: Option<u64> as "limit" = preheated.per_user_limit;
        /// Chosen if an activity of the result is sharded.
        optional shards: Option<u64> = preheated.shards => Cell::known(row.shards);
        /// Whether it is shown before it is done.
        hidden is_planned: bool = is_planned;
    }
    changed if row.status == Status::Ok && row.action != Action::Unchanged
}

/// Shows what was done, until something failed.
pub(super) fn show(results: &[Preheated], failed: Option<Failure>, out: &mut Output) -> Result<Exit> {
    let rows: Vec<PreheatRow<'_>> = results.iter().map(|result| PreheatRow::new(result, false)).collect();
    out.array_until(&rows, failed)?;
    Ok(Exit::done_if(results.iter().all(|result| result.status.is_done())))
}

/// `50 → 80` if a number changes, else the number.
fn moved(before: Option<u64>, after: Option<u64>) -> Cell {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Cell::number(format!("{before} → {after}")),
        (_, after) => Cell::known(after),
    }
}

/// Activities that a question names; the others are counted.
const MAX_ASKED: usize = 10;

/// Asks about every activity that would be reset, with server, units sold and what is not given and goes, those first that
/// lose their window; `None` if nothing is destroyed.
pub(super) fn question_of_reset(results: &[Preheated], store: &mut Store) -> Result<Option<String>> {
    let mut lost: Vec<&Preheated> = results.iter().filter(|result| result.action == Action::Reset).collect();
    lost.sort_by_key(|result| !result.loses_window());
    if lost.is_empty() {
        return Ok(None);
    }
    let mut named = Vec::new();
    for result in lost.iter().take(MAX_ASKED) {
        let removed: Vec<String> = result.removed().into_iter().map(before_in_words).collect();
        let removed = match &removed[..] {
            [] => String::new(),
            fields => format!("; not given, so removed: {}", fields.join(", ")),
        };
        named.push(format!("`{}` ({}{removed})", result.activity, sold(result, store)?));
    }
    let mut text = named.join(", ");
    if let Some(rest) = lost.get(MAX_ASKED..).filter(|rest| !rest.is_empty()) {
        let units: u64 = rest.iter().filter_map(|result| units_sold(result)).sum();
        text += &format!(" and {} more ({} sold)", rest.len(), counted(units, "unit"));
    }
    let many = if lost.len() == 1 { String::new() } else { format!("{} activities: ", lost.len()) };
    let server = store.server_name();
    Ok(Some(format!("Reset {many}{text} on `{server}`? Purchases, ledger and requests are removed")))
}

fn units_sold(result: &Preheated) -> Option<u64> {
    result.total_before.zip(result.stock_before).map(|(total, stock)| total.saturating_sub(stock))
}

/// `27 of 50 units sold`. Without a total: what its participants hold, as far as that is known.
fn sold(result: &Preheated, store: &mut Store) -> Result<String> {
    if let (Some(sold), Some(total)) = (units_sold(result), result.total_before) {
        return Ok(format!("{sold} of {total} units sold"));
    }
    let snapshot = snapshot::snapshot(store, &result.activity)?;
    let kind = store.layout().kind();
    Ok(match (kind, snapshot.buyers) {
        (_, None) => "units sold unknown".to_owned(),
        (Kind::Set, Some(buyers)) => format!("{}, units sold unknown", counted(buyers, "buyer")),
        (_, Some(_)) => format!("{} sold", counted(held(store, &result.activity)?, "unit")),
    })
}

/// What all users of an activity hold, as far as it is recorded.
pub(crate) fn held(store: &mut Store, activity: &ActivityId) -> Result<u64> {
    let mut held: u64 = 0;
    participants::each(store, activity, |_, units| {
        held = held.saturating_add(units.ok().and_then(Bought::units).unwrap_or_default());
        Ok::<_, Failure>(())
    })?;
    Ok(held)
}
