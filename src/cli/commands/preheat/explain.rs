//! Why activities were refused, and in what they change: notes and hints beside the rows.

use crate::cli::input::window;
use crate::cli::output::Output;
use crate::model::activity::{Action, FieldDifference, Plan, Preheat, Preheated};
use crate::model::number::whole;
use crate::model::status::Status;
use crate::model::time::Millis;

/// Activities whose differences are listed; the others are counted.
const MAX_NAMED: usize = 20;

/// Says in what activities change or differ, which keys are corrupt, and what can be done.
pub fn explain(results: &[Preheated], how: Preheat, out: &Output) {
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
        out.note(format!("and {} activities more", concerned.len() - MAX_NAMED));
    }
}

/// What to do about an activity that exists and differs.
pub(super) fn of_existing(refused: &Preheated, how: Preheat) -> String {
    let differs = |field: &str| refused.differences.iter().any(|difference| difference.field == field);
    let activity = &refused.activity;
    if differs("state") {
        return format!(
            "`seckill preheat --restore DIR` brings `{activity}` back with its purchases; `--reset` begins another sale of it"
        );
    }
    if differs("stock key") {
        return format!(
            "`seckill reconcile {activity} --fix` restores a lost stock from a whole ledger; without a ledger, \
             `seckill preheat --id {activity} --adopt` restores it from total and participants; else `--reset` starts over"
        );
    }
    if differs("preheated") {
        return format!(
            "`seckill preheat --id {activity} --adopt` takes it over with its purchases; `--reset` starts over"
        );
    }
    if differs("plan") {
        return format!(
            "`seckill inspect {activity}` shows what is unfinished: give the command that began it again to finish it; `--reset` \
             starts over"
        );
    }
    if differs("shard") {
        return "its parent was lost, or deleted: give total, limit, title and window as they were to restore it; `--reset` starts over"
            .to_owned();
    }
    if differs("adopt") {
        return format!("`seckill preheat --id {activity} --adopt` resumes");
    }
    if let Some(other) = refused.differences.iter().find(|difference| difference.field == "if_total") {
        return format!(
            "look at it with `seckill inspect {activity}`; then `--if-total {}` updates it as it is now",
            other.before
        );
    }
    if how == Preheat::Create {
        return match refused.differences.iter().any(|difference| difference.is_given) {
            true => "`--update` changes total, limit, title and window, and keeps purchases and what is not given; \
                     `--reset` starts over"
                .to_owned(),
            false => "give these fields as they are to be equal; `--update` keeps what is not given".to_owned(),
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
            whole(millis).map_or(millis.to_owned(), |millis| Millis::new(millis).to_string())
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
