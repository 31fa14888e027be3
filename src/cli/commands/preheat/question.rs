//! What a reset destroys, as a question.

use crate::cli::commands::preheat::explain::before_in_words;
use crate::cli::error::{Error, Result};
use crate::cli::output::text::counted;
use crate::model::activity::{Action, Preheated};
use crate::model::layout::Kind;
use crate::model::order::Bought;
use crate::read::{participants, snapshot};
use crate::store::Store;

/// Activities that a question names; the others are counted.
const MAX_NAMED: usize = 10;

/// Asks about every activity that would be reset, with server, units sold and what is not given and goes, those first that
/// lose their window; `None` if nothing is destroyed.
pub(super) fn reset(results: &[Preheated], store: &mut Store) -> Result<Option<String>> {
    let mut lost: Vec<&Preheated> = results.iter().filter(|result| result.action == Action::Reset).collect();
    lost.sort_by_key(|result| !result.loses_window());
    if lost.is_empty() {
        return Ok(None);
    }
    let mut named = Vec::new();
    for result in lost.iter().take(MAX_NAMED) {
        let removed: Vec<String> = result.removed().into_iter().map(before_in_words).collect();
        let removed = match &removed[..] {
            [] => String::new(),
            fields => format!("; not given, so removed: {}", fields.join(", ")),
        };
        named.push(format!("`{}` ({}{removed})", result.activity, sold(result, store)?));
    }
    let mut text = named.join(", ");
    if let Some(rest) = lost.get(MAX_NAMED..).filter(|rest| !rest.is_empty()) {
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
        (_, Some(_)) => {
            let mut held: u64 = 0;
            participants::each(store, &result.activity, |_, units| {
                held = held.saturating_add(units.ok().and_then(Bought::units).unwrap_or_default());
                Ok::<_, Error>(())
            })?;
            format!("{} sold", counted(held, "unit"))
        }
    })
}
