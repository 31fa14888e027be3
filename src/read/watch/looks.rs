//! A second round of questions, about what sold: how many buyers there are, the newest orders, whether the ledger agrees
//! with the stock; and about some ledgers, how far their consumer groups are behind.

use std::cmp::Reverse;
use std::time::Instant;

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::ledger::unexplained_changes;
use crate::model::{Entry, EntryId, Kind, Op, StoredUser};
use crate::read::stats::{groups_command, read_groups};
use crate::read::watch::{NewestOrder, One, Watched};
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::redis::call::fan_out::CallOutcome;
use crate::script::reply::{Reply, entry};
use crate::store::Store;

/// The most activities whose ledgers are looked at in one reading: an entry of a file has hundreds of orders.
const LOOKS: usize = 24;
/// Entries whose orders are looked at in one reading.
const ENTRIES: usize = 24;
/// Entries that are compared in one reading, of one ledger and of all: those since the reading before, if they are no more.
const COMPARED: usize = 1000;
const ALL_COMPARED: usize = 2400;
/// Orders that are kept of one entry, and of all.
const OF_ENTRY: usize = 8;
const KEPT: usize = 64;
/// Ledgers whose groups are read in one reading: those that have groups, and others.
const GROUPED: usize = 48;
const UNGROUPED: usize = 16;

/// What is asked about an activity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ask {
    Buyers,
    /// Stock and newest entries at one instant: four replies.
    Look,
    /// Newest entries alone.
    Newest,
    Groups,
}

impl Ask {
    fn replies(self) -> usize {
        if self == Self::Look { 4 } else { 1 }
    }
}

/// Asks what only some have to be asked; `sold` are those whose stock has just moved.
pub(crate) fn look(store: &mut Store, watched: &mut Watched, sold: &[usize], read: Instant) -> Result<()> {
    let asks = asks(store, watched, sold);
    let looks = asks.iter().filter(|(_, ask)| matches!(ask, Ask::Look | Ask::Newest)).count().max(1);
    let shown = (ENTRIES / looks).max(1);
    // What was written before anybody looked is not compared.
    let most = if watched.readings == 1 { shown } else { COMPARED.min(ALL_COMPARED / looks) };
    let of_ask =
        |(activity, ask): &(usize, Ask)| calls(&watched.activities[*activity], *ask, most, store.layout.kind());
    let calls: Vec<Call> = asks.iter().flat_map(of_ask).collect();
    let mut answers = store.servers.fan_out(&calls, None).into_iter();
    for (activity, ask) in asks {
        let answers: Vec<_> = answers.by_ref().take(ask.replies()).collect();
        let Watched { activities, newest, refused, .. } = &mut *watched;
        match activities[activity].take_answers(ask, answers, read, (shown, newest)) {
            Ok(()) => {
                if matches!(ask, Ask::Look | Ask::Newest) {
                    activities[activity].moved = 0;
                }
            }
            Err(CallFailure::Refused(StoreError::Permission { .. })) => _ = refused.insert(ask),
            Err(CallFailure::Refused(error)) if !store.servers.may_recover(&error) => return Err(error),
            // The next reading says so, if it stays so.
            Err(_) => {}
        }
    }
    watched.newest.sort_by_key(|order| Reverse(order.id));
    watched.newest.truncate(KEPT);
    Ok(())
}

fn asks(store: &Store, watched: &Watched, sold: &[usize]) -> Vec<(usize, Ask)> {
    let mut asks = Vec::new();
    let has_ledger = |activity: &usize| {
        let view = watched.activities[*activity].view.as_ref();
        view.is_some_and(|view| view.snapshot.ledger_last.is_some())
    };
    if store.layout.kind().has_users() {
        asks.extend(sold.iter().map(|activity| (*activity, Ask::Buyers)));
    }
    let with_ledger: Vec<usize> = (0..watched.activities.len()).filter(has_ledger).collect();
    let mut looked = with_ledger.clone();
    if watched.readings == 1 {
        // What was sold before anybody looked.
        let last = |activity: &usize| watched.activities[*activity].view.as_ref()?.snapshot.ledger_last;
        looked.sort_by_key(|activity| Reverse(last(activity)));
    } else {
        // Those that sold most since. The others' turn comes when they have sold more.
        looked.retain(|activity| watched.activities[*activity].moved > 0);
        looked.sort_by_key(|activity| Reverse(watched.activities[*activity].moved));
    }
    looked.truncate(LOOKS);
    // Who may not use transactions may be allowed to read a ledger all the same.
    if let Some(look) = [Ask::Look, Ask::Newest].into_iter().find(|ask| !watched.refused.contains(ask)) {
        asks.extend(looked.into_iter().map(|activity| (activity, look)));
    }
    if !watched.refused.contains(&Ask::Groups) {
        let has_groups = |activity: &usize| {
            let groups = watched.activities[*activity].view.as_ref().and_then(|view| view.groups.as_ref());
            groups.is_some_and(|groups| !groups.is_empty())
        };
        let (with, without): (Vec<usize>, Vec<usize>) = with_ledger.into_iter().partition(has_groups);
        for (list, most) in [(with, GROUPED), (without, UNGROUPED)] {
            let from = (watched.readings * most).checked_rem(list.len()).unwrap_or(0);
            let turn = list.iter().cycle().skip(from).take(most.min(list.len()));
            asks.extend(turn.map(|activity| (*activity, Ask::Groups)));
        }
    }
    asks
}

fn calls(one: &One, ask: Ask, entries: usize, kind: Kind) -> Vec<Call> {
    let (seen, entries) = (one.seen.to_string(), entries.to_string());
    let newest = || one.call("XREVRANGE", &[&one.keys.ledger, "+", &seen, "COUNT", &entries]);
    match ask {
        Ask::Buyers => {
            let count = if kind == Kind::Hash { "HLEN" } else { "SCARD" };
            vec![one.call(count, &[one.keys.participants.as_deref().unwrap_or_default()])]
        }
        Ask::Look => {
            vec![one.call("MULTI", &[]), one.call("GET", &[&one.keys.stock]), newest(), one.call("EXEC", &[])]
        }
        Ask::Newest => vec![newest()],
        Ask::Groups => vec![Call::command(&one.keys.ledger, &groups_command(&one.keys.ledger))],
    }
}

impl One {
    fn take_answers(
        &mut self,
        ask: Ask,
        mut answers: Vec<CallOutcome>,
        read: Instant,
        newest: (usize, &mut Vec<NewestOrder>),
    ) -> Result<(), CallFailure> {
        // What is refused in a transaction says why; at its end only that it failed.
        let refused = |answer: &CallOutcome| matches!(answer, Err(CallFailure::Refused(_)));
        let which = answers.iter().position(refused).unwrap_or(answers.len().saturating_sub(1));
        let Some(view) = self.view.as_mut() else { return Ok(()) };
        if which >= answers.len() {
            return Ok(());
        }
        let answer = answers.swap_remove(which);
        match ask {
            Ask::Buyers => match answer? {
                Value::Int(count) => view.snapshot.buyers = u64::try_from(count).ok(),
                _ => view.snapshot.buyers = None,
            },
            Ask::Groups => {
                let answer = match answer {
                    Err(CallFailure::Refused(error)) => Err(error),
                    answer => Ok(answer?),
                };
                view.groups = Some(read_groups(answer).map_err(CallFailure::Refused)?);
            }
            Ask::Newest => self.take_entries(&read_entries(answer?), read, newest),
            Ask::Look => {
                // Anything else is a transaction that a moved slot has torn: the next reading has another.
                let Value::Array(parts) = answer? else { return Ok(()) };
                let Ok([stock, entries]) = <[Value; 2]>::try_from(parts) else { return Ok(()) };
                let entries = read_entries(entries);
                let stock = match &stock {
                    Value::BulkString(text) => Entry::count(Some(text)),
                    _ => None,
                };
                if differs(
                    view.snapshot.meta.as_ref().is_some_and(|meta| meta.ledger && meta.withdrawn.is_none()),
                    stock,
                    entries.first(),
                ) {
                    view.foreign_write = Some(read);
                }
                self.take_entries(&entries, read, newest);
            }
        }
        Ok(())
    }

    /// Compares entries, the newest first, back to the last one that was seen before, and keeps a bounded number of new orders.
    fn take_entries(&mut self, entries: &[Entry], read: Instant, (shown, newest): (usize, &mut Vec<NewestOrder>)) {
        let seen = self.seen;
        if seen > EntryId::ZERO
            && !unexplained_changes(entries).is_empty()
            && let Some(view) = &mut self.view
        {
            view.foreign_write = Some(read);
        }
        self.seen = entries.first().map_or(seen, |last| seen.max(last.id));
        for entry in entries.iter().take(shown).filter(|entry| entry.id > seen) {
            let Some(op) = entry.known_op().filter(|op| op.takes() || op.returns() || *op == Op::Confirm) else {
                continue;
            };
            // An entry that cannot be read is what `reconcile` reports.
            let orders = entry.order_units().unwrap_or_default();
            newest.extend(orders.iter().rev().take(OF_ENTRY).map(|order| NewestOrder {
                id: entry.id,
                activity: self.activity.clone(),
                op,
                user: StoredUser::new(order.user()),
                quantity: order.quantity(),
            }));
        }
    }
}

/// Whether the stock is another than the one that the last entry left, at the same instant.
fn differs(is_comparable: bool, stock: Option<u64>, last: Option<&Entry>) -> bool {
    let left = last.filter(|last| !matches!(last.known_op(), None | Some(Op::Pause | Op::Resume)));
    let left = left.and_then(|last| Entry::count(last.stock.as_deref()));
    is_comparable && stock.zip(left).is_some_and(|(stock, left)| stock != left)
}

fn read_entries(value: Value) -> Vec<Entry> {
    let reply = Reply::of_command("XREVRANGE");
    let entries = reply.array(value).unwrap_or_default().into_iter();
    entries.filter_map(|value| entry(&reply, value).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_that_no_entry_left_was_written_by_somebody_else() {
        let mut last = Entry::new(EntryId::ZERO);
        (last.op, last.stock) = (b"deduct".to_vec(), Some(b"5".to_vec()));
        assert!(!differs(true, Some(5), Some(&last)));
        assert!(differs(true, Some(4), Some(&last)));
        for unknown in
            [differs(false, Some(4), Some(&last)), differs(true, None, Some(&last)), differs(true, Some(4), None)]
        {
            assert!(!unknown);
        }
        last.op = b"pause".to_vec();
        assert!(!differs(true, Some(4), Some(&last)));
    }
}
