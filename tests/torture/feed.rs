//! What the feed delivered against the ledger.

use serde_json::Value;

use crate::check::Timeline;
use crate::history::Event;
use crate::model::LedgerRow;
use crate::said::json;
use crate::schedule::What;

impl Timeline<'_> {
    /// The feed delivered every row of the ledger that is left, first in order, whatever came twice.
    pub fn delivered(&self, events: &[Event]) -> Vec<String> {
        let Some(activity) = self.names.schedule.activities.iter().position(|activity| activity.ledger) else {
            return Vec::new();
        };
        let ledger = &self.last(activity).ledgers[activity];
        let is_known = |id: &str| {
            let id = crate::keys::entry_id(id);
            self.models(activity).any(|model| model.ledgers[activity].iter().any(|row| Some(row.id) == id))
        };
        let mut next = 0;
        for event in events.iter().filter(|event| matches!(event.what, What::Feed { .. })) {
            for line in event.stdout.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let Ok(row) = json(line) else { return vec![format!("the feed prints {line}")] };
                let is = |known: &LedgerRow| {
                    format!("{}-{}", known.id.0, known.id.1) == row["id"].as_str().unwrap_or_default()
                        && row["n"].as_u64().is_none_or(|n| n == known.n as u64 + 1)
                        && known.op == row["op"].as_str().unwrap_or_default()
                        && known.user == row["user"].as_str().unwrap_or_default()
                        && (known.op == "repair" || known.quantity == row["quantity"].as_i64())
                };
                // A reset takes along what was not delivered yet, and another one all of the sale between.
                let after_reset = || {
                    let begins = |index: usize| index > 0 && ledger[index].epoch > ledger[index - 1].epoch;
                    (next + 1..ledger.len()).find(|index| begins(*index) && is(&ledger[*index]))
                };
                // It takes the group along too, so a trim before the group is there again asks nobody; the feed says so.
                let after_trim = || {
                    let wanted =
                        ledger.get(next).filter(|row| row.epoch > 1 && event.stderr.contains("were trimmed"))?;
                    let found = (next + 1..ledger.len()).find(|index| is(&ledger[*index]));
                    found.filter(|index| ledger[*index].epoch == wanted.epoch)
                };
                if ledger.get(next).is_some_and(is) {
                    next += 1;
                } else if let Some(index) = after_reset() {
                    next = index + 1;
                } else if let Some(index) = after_trim() {
                    next = index + 1;
                } else if !ledger[..next].iter().any(is) && !is_lost(&row, ledger, is_known) {
                    let wanted = ledger.get(next);
                    return vec![format!("the feed (e{}) skips {wanted:?} and delivers {line}", event.number)];
                }
            }
        }
        if next < ledger.len() {
            return vec![format!("the feed never delivered {:?}", ledger[next])];
        }
        Vec::new()
    }
}

/// Whether a row is of a timeline that was lost.
fn is_lost(row: &Value, ledger: &[LedgerRow], is_known: impl Fn(&str) -> bool) -> bool {
    let id = row["id"].as_str().unwrap_or_default();
    is_known(id) && !ledger.iter().any(|known| Some(known.id) == crate::keys::entry_id(id))
}
