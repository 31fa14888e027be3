//! Holds in the model: what each state may become, who asked for it, and what the keys then have.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::aof::Group;
use crate::check::Timeline;
use crate::entries::Written;
use crate::history::Event;
use crate::model::{Decided, Model};
use crate::rules::{Answer, Sale, decide, signed};
use crate::said::json;
use crate::schedule::{Operation, Order};
use crate::support::Layout;

/// Units that are held, or were.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// As it is stored: `held`, `confirmed`, `released`, `expired` or `void`.
    pub state: String,
    pub user: Rc<str>,
    pub units: u64,
}

/// A hold whose record a call wrote.
pub struct Transition {
    pub activity: usize,
    pub request: String,
    pub old: Option<String>,
    pub new: String,
}

/// A hold that a call ended, as its ledger entry has it.
pub struct Ended {
    pub activity: usize,
    pub op: &'static str,
    pub user: Rc<str>,
    pub units: u64,
    pub request: String,
}

/// State, units, deadline and user of a record.
fn record(text: &str) -> Option<(&str, u64, u64, &str)> {
    let mut words = text.splitn(5, ' ');
    let (state, units, deadline) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next()? == "-").then_some((state, units, deadline, words.next()?))
}

impl Sale {
    /// Units that a user has open.
    pub fn open(&self, user: &str) -> u64 {
        let held = self.holds.values().filter(|hold| hold.state == "held" && &*hold.user == user);
        held.map(|hold| hold.units).sum()
    }

    /// What is answered to a hold whose request id is known.
    pub fn held_before(&self, request: &str) -> &'static str {
        match self.holds.get(request).map(|hold| &*hold.state) {
            Some("held" | "confirmed") | None => "replayed",
            Some("released") => "not_held",
            Some(_) => "expired",
        }
    }

    /// Whether units can be taken again that had returned.
    fn has_room(&self, layout: Layout, hold: &Hold) -> bool {
        let had = self.has(&hold.user);
        let is_free = match layout.kind {
            "hash" => self.limit.is_none_or(|limit| had + hold.units <= limit),
            _ => had == 0,
        };
        is_free && hold.units <= self.stock
    }

    /// The same behind late confirmations of the same call, of which a call writes its records after those of void holds.
    fn has_room_behind(&self, layout: Layout, hold: &Hold, written: &[Transition], activity: usize) -> bool {
        let mut sale = self.clone();
        for it in written.iter().filter(|it| it.activity == activity && it.new.starts_with("confirmed ")) {
            if let Some(other) = sale.holds.get(it.request.as_str()).filter(|other| other.state == "expired").cloned()
                && sale.has_room(layout, &other)
                && sale.shift(&other, false).is_err()
            {
                return false;
            }
        }
        sale.has_room(layout, hold)
    }

    /// What a confirm or a release must be answered.
    pub fn end(&self, layout: Layout, order: &Order) -> &'static str {
        let Some(hold) = self.holds.get(order.request.as_str()) else { return "not_held" };
        let confirms = order.operation == Operation::Confirm;
        match &*hold.state {
            "held" => "ok",
            "confirmed" if confirms => "replayed",
            "confirmed" => "confirmed",
            "released" if confirms => "not_held",
            "released" => "replayed",
            "expired" if confirms && self.has_room(layout, hold) => "ok",
            _ => "expired",
        }
    }

    /// Confirms a hold that is answered so.
    fn settle(&mut self, order: &Order, status: &str) -> Result<(), String> {
        let Some(hold) = self.holds.get_mut(order.request.as_str()) else { return Ok(()) };
        let was = hold.clone();
        match (status, &*was.state) {
            ("ok", _) => hold.state = "confirmed".to_owned(),
            ("expired", "expired") => hold.state = "void".to_owned(),
            _ => {}
        }
        if status == "ok" && was.state == "expired" { self.shift(&was, false) } else { Ok(()) }
    }

    /// Changes what a user has, and the stock against it.
    fn shift(&mut self, hold: &Hold, returns: bool) -> Result<(), String> {
        let (had, units) = (self.has(&hold.user), hold.units);
        let (left, stock) = if returns {
            (had.checked_sub(units), Some(self.stock + units))
        } else {
            (Some(had + units), self.stock.checked_sub(units))
        };
        let (Some(left), Some(stock)) = (left, stock) else {
            return Err(format!("{hold:?} moves more than there is: {had} of the user, {} left", self.stock));
        };
        self.stock = stock;
        self.set(&hold.user, left);
        if let Some(truth) = &mut self.truth {
            *truth.entry(Rc::clone(&hold.user)).or_default() += if returns { -signed(units) } else { signed(units) };
        }
        Ok(())
    }
}

impl Model<'_> {
    /// The hold records that a call writes, before they are.
    pub fn transitions(&self, activity: usize, command: &[String]) -> Vec<Transition> {
        let pairs = command[2..].chunks(2).filter_map(|pair| Some((pair[0].strip_prefix("\th:")?, &pair[1])));
        let is_new = |(id, new): &(&str, &String)| self.keys.field(&command[1], &format!("\th:{id}")) != Some(new);
        let transition = |(id, new): (&str, &String)| Transition {
            activity,
            request: id.to_owned(),
            old: self.keys.field(&command[1], &format!("\th:{id}")).map(str::to_owned),
            new: new.clone(),
        };
        pairs.filter(is_new).map(transition).collect()
    }

    /// Holds that a call ended. New ones are orders like others.
    pub fn check_holds(&mut self, group: &Group, written: &Written) -> Result<Vec<Ended>, String> {
        let mut ended = Vec::new();
        // A call of a file ends holds that its rows name.
        let file = written.files.iter().copied().find(|index| self.names.schedule.files[*index].operation.ends());
        for it in &written.holds {
            let Transition { activity, request, old, new } = it;
            let wrong = |why: &str| format!("{request} of {}: {why}: {old:?} becomes {new:?}", self.name(*activity));
            let (state, units, deadline, user) = record(new).ok_or_else(|| wrong("no record"))?;
            let was = old.as_deref().map(|old| record(old).ok_or_else(|| wrong("no record"))).transpose()?;
            let Some((was, ..)) = was else {
                if state == "held" {
                    continue;
                }
                return Err(wrong("nobody held it"));
            };
            let sale = &self.sales[*activity];
            let hold = sale.holds.get(request.as_str()).ok_or_else(|| wrong("the rules know no such hold"))?;
            if (hold.units, &*hold.user, &*hold.state) != (units, user, was) {
                return Err(wrong(&format!("by the rules it is {hold:?}")));
            }
            let of_file = |operation: Operation| {
                let rows = &self.names.rows[file?];
                let mut orders = rows.iter().map(|(_, order)| order).filter(|order| order.operation == operation);
                orders.find(|order| order.request == *request && order.items[0].0 == *activity).cloned()
            };
            let sent = |operation: Operation| {
                if file.is_some() {
                    return of_file(operation);
                }
                let orders = self.names.requests.get(request.as_str()).into_iter().flatten();
                orders.clone().find(|order| order.operation == operation && order.items[0].0 == *activity).cloned()
            };
            let (confirm, release, has_room) =
                (sent(Operation::Confirm), sent(Operation::Release), sale.has_room(self.layout, hold));
            let (order, op, returns) = match (was, state) {
                ("held", "confirmed") => (Some(confirm), "confirm", None),
                ("held", "released") => (Some(release), "release", Some(true)),
                ("held", "expired") => {
                    let clock = written.entries.iter().find(|(of, ..)| of == activity).map(|(_, id, _)| id.0);
                    if clock.is_some_and(|clock| clock < deadline) {
                        return Err(wrong("it is not overdue"));
                    }
                    (None, "expire", Some(true))
                }
                ("expired", "confirmed") if has_room => (Some(confirm), "deduct", Some(false)),
                ("expired", "void") if release.is_some() => (None, "", None),
                ("expired", "void")
                    if confirm.is_some() && !sale.has_room_behind(self.layout, hold, &written.holds, *activity) =>
                {
                    (None, "", None)
                }
                _ => return Err(wrong("that is never so")),
            };
            if order == Some(None) {
                return Err(wrong("nobody asked for it"));
            }
            let hold = Hold { state: state.to_owned(), ..hold.clone() };
            let sale = Rc::make_mut(&mut self.sales[*activity]);
            if let Some(returns) = returns {
                sale.shift(&hold, returns)?;
            }
            sale.holds.insert(request.as_str().into(), hold.clone());
            let items = vec![("ok", Some(sale.stock), Some(sale.has(&hold.user)))];
            if let Some(order) = order.flatten() {
                self.note_applied(group.end, &order, &Answer { status: "ok", items }, file);
            }
            if !op.is_empty() {
                ended.push(Ended { activity: *activity, op, user: hold.user, units, request: request.clone() });
            }
        }
        Ok(ended)
    }

    /// Rows of a file that ends holds which this call decided, one after the other: holds and stock then are those that it wrote.
    /// `as_before`: the activities before the call.
    pub fn check_ended_rows(
        &mut self,
        group: &Group,
        written: &Written,
        file: usize,
        as_before: &[Rc<Sale>],
    ) -> Result<(), String> {
        let (names, mut sales) = (self.names, as_before.to_vec());
        for (line, order) in &names.rows[file] {
            let activity = order.items[0].0;
            let before = as_before[activity].lines.get(&file).copied().unwrap_or(0);
            if *line <= before || *line > self.watermark(file, activity) {
                continue;
            }
            let mut answer = decide(self.layout, &sales, order);
            let is_written = written.holds.iter().any(|it| it.activity == activity && it.request == order.request);
            let sale = Rc::make_mut(&mut sales[activity]);
            // What was refused before data was lost is not sent again.
            if is_written || !self.refused_before.contains(&(file, *line)) {
                sale.settle(order, answer.status)?;
                answer.items = vec![sale.item(self.layout, order, answer.status)];
            }
            let decided = Decided { at: group.end, order: Rc::clone(order), answer, file: Some(file) };
            self.rows.entry((file, *line)).or_default().push(decided);
        }
        for activity in written.activities.iter().copied() {
            let (expected, found, name) = (&sales[activity], &self.sales[activity], self.name(activity));
            if expected.holds != found.holds || expected.stock != found.stock {
                let (expected, found) = ((&expected.holds, expected.stock), (&found.holds, found.stock));
                return Err(format!("{name}: by the rows of the file {expected:?}, written was {found:?}"));
            }
            let line = self.watermark(file, activity);
            if line < as_before[activity].lines.get(&file).copied().unwrap_or(0) {
                return Err(format!("{name}: the watermark fell to line {line}"));
            }
            if line > 0 {
                Rc::make_mut(&mut self.sales[activity]).lines.insert(file, line);
            }
        }
        Ok(())
    }

    /// Records, open units, their sum and the deadlines are those of the model.
    pub fn check_hold_keys(&self, activity: usize) -> Result<(), String> {
        let (sale, name) = (&self.sales[activity], self.name(activity));
        let requests = self.keys.hashes.get(&self.layout.requests(name));
        let (mut records, mut open) = (BTreeMap::new(), BTreeMap::new());
        for (field, text) in requests.into_iter().flatten() {
            if let Some(request) = field.strip_prefix("\th:") {
                let (state, units, _, user) = record(text).ok_or_else(|| format!("{name}: the record {text:?}"))?;
                records.insert(request, (state, units, user));
            } else if let Some(user) = field.strip_prefix("\to:") {
                open.insert(user, text.clone());
            }
        }
        let known = sale.holds.iter().map(|(id, hold)| (&**id, (&*hold.state, hold.units, &*hold.user)));
        let known: BTreeMap<&str, (&str, u64, &str)> = known.collect();
        let users: BTreeSet<&str> = sale.holds.values().map(|hold| &*hold.user).collect();
        let units = users.into_iter().map(|user| (user, sale.open(user))).filter(|(_, units)| *units > 0);
        let units: BTreeMap<&str, u64> = units.collect();
        let sum: u64 = units.values().sum();
        let units: BTreeMap<&str, String> = units.into_iter().map(|(user, units)| (user, units.to_string())).collect();
        let stored = self.keys.field(&self.layout.meta(name), "holds").unwrap_or("0");
        let deadlines = self.keys.sorted.get(&self.layout.deadlines(name)).into_iter().flatten().map(|id| &**id);
        let deadlines: Vec<&str> = deadlines.collect();
        let held = sale.holds.iter().filter(|(_, hold)| hold.state == "held").map(|(id, _)| &**id);
        if records != known || open != units || stored != sum.to_string() || !deadlines.iter().copied().eq(held) {
            let found = format!("holds {records:?}, open {open:?}, {stored} in sum, deadlines of {deadlines:?}");
            return Err(format!("{name}: {found}; by the rules {known:?}"));
        }
        Ok(())
    }
}

impl Timeline<'_> {
    /// What an `expire` reports is in the ledger under its name; what a try did whose reply was lost is there too.
    pub fn expire(&self, event: &Event, activity: usize) -> Result<(), String> {
        let rows = json(&event.stdout)?;
        let count = rows[0]["holds"].as_u64().ok_or("no count of holds")?;
        if !self.states(&[activity], &event.from, &event.to)[0][activity].ledger {
            return Ok(());
        }
        let by = format!("e{}", event.number);
        let found = self.models(activity).map(|model| {
            let rows = model.ledgers[activity].iter();
            rows.filter(|row| row.op == "expire" && row.by == by).count() as u64
        });
        if found.max().unwrap_or(0) >= count { Ok(()) } else { Err(format!("{count} holds, which no entry has")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SECKILL;

    #[test]
    fn a_late_confirm_finds_no_room_behind_another_of_the_same_call() {
        let hold = |user: &str| Hold { state: "expired".to_owned(), user: user.into(), units: 2 };
        let mut sale = Sale { stock: 3, total: 3, ..Sale::default() };
        sale.holds = [("a".into(), hold("7")), ("b".into(), hold("8"))].into();
        let becomes = |request: &str, state: &str| Transition {
            activity: 0,
            request: request.to_owned(),
            old: Some("expired 2 9 - 7".to_owned()),
            new: format!("{state} 2 9 - 7"),
        };
        let (void, confirmed) = (becomes("b", "void"), becomes("a", "confirmed"));
        assert!(!sale.has_room_behind(SECKILL, &hold("8"), &[void, confirmed], 0), "one unit is left");
        assert!(sale.has_room_behind(SECKILL, &hold("8"), &[becomes("b", "void")], 0));
        assert!(sale.has_room_behind(SECKILL, &hold("8"), &[becomes("a", "confirmed")], 1), "of another activity");
        sale.stock = 4;
        assert!(sale.has_room_behind(SECKILL, &hold("8"), &[becomes("a", "confirmed")], 0));
    }
}
