//! What audits and looks say against the states that there were meanwhile.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::check::Timeline;
use crate::history::Event;
use crate::rules::{Sale, signed};
use crate::said::json;

impl Timeline<'_> {
    pub fn reconcile(&self, event: &Event) -> Result<(), String> {
        let found = json(&event.stdout)?;
        let schedule = self.names.schedule;
        let rows = found["activities"].as_array().ok_or("no activities")?;
        for (index, activity) in schedule.activities.iter().enumerate() {
            let row = rows.iter().find(|row| row["activity"] == activity.id.as_str());
            let row = row.ok_or_else(|| format!("nothing about {}", activity.id))?;
            let lost = self.lost_data(index, &event.from, &event.to);
            let states = self.states(&[index], &event.from, &event.to);
            let epochs = states.iter().any(|sales| sales[index].epoch != states[0][index].epoch);
            let changed = states.len() > 1;
            // A reset turns it on.
            let has = |ledger: bool| states.iter().any(|sales| sales[index].ledger == ledger);
            let differences = found["differences"].as_array().into_iter().flatten();
            let over: BTreeSet<&str> = differences
                .filter(|it| it["activity"] == activity.id.as_str() && it["class"] == "over_limit")
                .filter_map(|it| it["user"].as_str())
                .collect();
            let verdict = row["verdict"].as_str().unwrap_or_default();
            // What something else writes during an audit is in no ledger, so a difference may be of two moments.
            let is_foreign = states.iter().any(|sales| sales[index].truth.is_some());
            let fits = match verdict {
                "match" => (has(true) && row["proof"] == "ledger") || (has(false) && row["proof"] == "total"),
                "unsettled" => lost || epochs || (has(false) && changed),
                "unproven" => has(false) && (!schedule.layout.has_users() || changed),
                "drift" => lost || !over.is_empty() || is_foreign,
                _ => false,
            };
            if !fits {
                return Err(format!("{}: {verdict} with proof {}", activity.id, row["proof"]));
            }
            let is_so = |sales: &Vec<Rc<Sale>>| {
                let (sale, bought) = (&sales[index], sales[index].held.values().sum::<u64>());
                let bought = if schedule.layout.has_users() { bought } else { sale.total - sale.stock };
                // Of the limits that were set meanwhile any may have counted. One of a set counts orders.
                let limits = states.iter().map(|sales| sales[index].limit.filter(|_| schedule.layout.kind == "hash"));
                let mut limits = limits.map(|limit| limit.unwrap_or(u64::MAX));
                let exceed =
                    |most: u64| sale.held.iter().filter(move |(_, units)| **units > most).map(|(user, _)| &**user);
                row["stock"].as_u64() == Some(sale.stock)
                    && row["bought"].as_u64().is_none_or(|it| it == bought)
                    && (verdict != "match" || is_true(sale))
                    && limits.any(|most| exceed(most).eq(over.iter().copied()))
            };
            // A counter that something else changes behind the page that read it is seen by the next audit.
            let is_foreign_meanwhile =
                (1..states.len()).any(|at| is_true(&states[at][index]) != is_true(&states[0][index]));
            let is_exact = (verdict == "match" && !is_foreign_meanwhile)
                || (verdict == "drift" && !is_foreign && !row["stock_drift"].is_null());
            if is_exact && !lost && !states.iter().any(is_so) {
                return Err(format!("{}: stock, units sold and users over the limit were never so", activity.id));
            }
        }
        let settled = rows.iter().all(|row| row["verdict"] == "match");
        if settled != (event.code == Some(0)) {
            return Err("the code does not fit the verdicts".to_owned());
        }
        Ok(())
    }

    pub fn inspect(&self, event: &Event, activity: usize) -> Result<(), String> {
        let found = json(&event.stdout)?;
        let row = if found.is_array() { &found[0] } else { &found["activity"] };
        let row = if row["activity"].is_object() { &row["activity"] } else { row };
        let states = self.states(&[activity], &event.from, &event.to);
        let is_so = |sales: &Vec<Rc<Sale>>| {
            let sale = &sales[activity];
            row["stock"].as_u64() == Some(sale.stock) && row["total"].as_u64() == Some(sale.total)
        };
        if row["activity"] == self.names.schedule.activities[activity].id.as_str() && states.iter().any(is_so) {
            return Ok(());
        }
        Err("stock and total were never so".to_owned())
    }
}

/// Whether the keys say what was sold, by whomever.
fn is_true(sale: &Sale) -> bool {
    let Some(truth) = &sale.truth else { return true };
    let held = sale.held.iter().map(|(user, units)| (&**user, signed(*units)));
    truth.iter().filter(|(_, units)| **units != 0).map(|(user, units)| (&**user, *units)).eq(held)
        && sale.held.values().sum::<u64>() + sale.stock == sale.total
}
