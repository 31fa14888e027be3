//! What a script call wrote beside counters: requests, watermarks, and entries of ledgers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use crate::aof::Group;
use crate::holds::{Ended, Transition};
use crate::keys::{EntryId, entry_id};
use crate::model::{LedgerRow, Model};
use crate::schedule::{Operation, Order};

/// What a call wrote that is more than counters.
#[derive(Default)]
pub struct Written {
    pub activities: Vec<usize>,
    /// What a write that is not ours left in the key that marks it.
    pub foreign: Option<String>,
    pub requests: BTreeMap<String, (String, Vec<usize>)>,
    /// Of files: which of them moved their watermark.
    pub files: Vec<usize>,
    pub entries: Vec<(usize, EntryId, BTreeMap<String, String>)>,
    /// Records of holds.
    pub holds: Vec<Transition>,
}

impl Model<'_> {
    pub fn written(&self, group: &Group) -> Result<Written, String> {
        let mut written = Written::default();
        for command in &group.commands {
            if command.get(1).is_some_and(|key| key.starts_with(crate::faults::MARK)) {
                written.foreign = Some(command[2].clone());
            }
            let Some(activity) = command.get(1).and_then(|key| self.places.get(key)).copied() else { continue };
            if !written.activities.contains(&activity) {
                written.activities.push(activity);
            }
            let id = &self.names.schedule.activities[activity].id;
            if command[0] == "XADD" {
                let at = (2..command.len()).find(|at| entry_id(&command[*at]).is_some());
                let at = at.ok_or("an entry without an id")?;
                let fields = command[at + 1..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
                written.entries.push((activity, entry_id(&command[at]).unwrap(), fields));
            }
            if command[0] != "HSET" || command[1] != self.layout.requests(id) {
                continue;
            }
            written.holds.extend(self.transitions(activity, command));
            for pair in command[2..].chunks(2) {
                if let Some(job) = pair[0].strip_prefix("\tj:") {
                    let file = *self.names.jobs.get(job).ok_or_else(|| format!("a job of no file: {job}"))?;
                    if !written.files.contains(&file) {
                        written.files.push(file);
                    }
                } else if !pair[0].starts_with('\t')
                    && !pair[1].starts_with("repair ")
                    && self.keys.field(&command[1], &pair[0]) != Some(&pair[1])
                {
                    let request = &pair[0];
                    let file = self.names.multi_rows.get(request);
                    written.files.extend(file.filter(|file| !written.files.contains(file)));
                    let of = written.requests.entry(request.to_owned()).or_insert((pair[1].clone(), Vec::new()));
                    of.1.push(activity);
                }
            }
        }
        Ok(written)
    }

    /// The entry says what was applied.
    pub fn check_entry(
        &mut self,
        activity: usize,
        id: EntryId,
        fields: &BTreeMap<String, String>,
        applied: &[Rc<Order>],
        ended: &[Ended],
    ) -> Result<(), String> {
        let sale = Rc::clone(&self.sales[activity]);
        let name = self.name(activity).to_owned();
        let text = |field: &str| fields.get(field).map_or("", String::as_str);
        // What a hold expired to have enough is an entry before its own.
        let of_hold = |order: &&Rc<Order>| order.operation == Operation::Hold && order.items[0].0 == activity;
        let taken: u64 = applied.iter().filter(of_hold).map(|order| order.items[0].1).sum();
        // What a file confirms is an entry before that of units that were taken again.
        let again = ended.iter().filter(|it| it.activity == activity && it.op == "deduct").map(|it| it.units).sum();
        let taken = match text("op") {
            "expire" => taken,
            "confirm" => again,
            _ => 0,
        };
        let (left, all) = (sale.stock - sale.withdrawn + taken, sale.stock + taken);
        if text("stock").parse() != Ok(left) && text("stock").parse() != Ok(all) {
            return Err(format!("{name}: the entry says stock {}, which is {}", text("stock"), sale.stock));
        }
        let mut row = LedgerRow {
            epoch: sale.epoch,
            id,
            n: 0,
            op: text("op").to_owned(),
            user: String::new(),
            quantity: text("total").parse().or(text("withdrawn").parse()).ok(),
            by: text("by").to_owned(),
        };
        if row.op == "repair" {
            // A row for each counter, and one if only the stock was repaired.
            for order in orders_in(fields)?.iter().map(Some).chain([None]).take(orders_in(fields)?.len().max(1)) {
                row.user = order.map_or(String::new(), |order| order[0].clone());
                self.ledgers[activity].push(row.clone());
                row.n += 1;
            }
            return Ok(());
        }
        if !matches!(row.op.as_str(), "deduct" | "refund" | "hold" | "confirm" | "release" | "expire") {
            self.ledgers[activity].push(row);
            return Ok(());
        }
        let (orders, mut expected) = (orders_in(fields)?, Vec::new());
        for order in applied {
            for (_, asked) in order.items.iter().filter(|(of, _)| *of == activity) {
                expected.push((order.user.as_str(), *asked, order.request.as_str()));
            }
        }
        let ended = ended.iter().filter(|it| it.activity == activity && it.op == row.op);
        let is_end = |op: &str| !matches!(op, "hold" | "refund" | "deduct");
        if is_end(&row.op) {
            expected.clear();
        }
        expected.extend(ended.map(|it| (&*it.user, it.units, it.request.as_str())));
        let is_as_expected = orders.len() == expected.len()
            && orders.iter().zip(&expected).all(|(order, (user, units, request))| {
                let is_request = order[2] == *request || request.is_empty();
                order[0] == *user && (*units == 0 || order[1] == units.to_string()) && is_request
            });
        if !is_as_expected {
            return Err(format!("{name}: the entry has the orders {orders:?}, applied were {expected:?}"));
        }
        for order in orders {
            (row.user, row.quantity) = (order[0].clone(), order[1].parse().ok());
            self.ledgers[activity].push(row.clone());
            row.n += 1;
        }
        Ok(())
    }
}

/// Users and units that the entries of a call have, by activity.
pub fn orders_of_entries(written: &Written) -> Result<HashMap<usize, VecDeque<(String, u64)>>, String> {
    let mut orders: HashMap<usize, VecDeque<(String, u64)>> = HashMap::new();
    // What a call of holds expired comes before what it holds.
    for (activity, _, fields) in written.entries.iter().filter(|(.., fields)| fields["op"] != "expire") {
        for order in orders_in(fields)? {
            let units = order[1].parse().map_err(|_| format!("{order:?}"))?;
            orders.entry(*activity).or_default().push_back((order[0].clone(), units));
        }
    }
    Ok(orders)
}

/// User, units and request of each order, from the columns; of a repair user, from and to.
fn orders_in(fields: &BTreeMap<String, String>) -> Result<Vec<[String; 3]>, String> {
    let column = |name: &str| -> Result<Option<Vec<String>>, String> {
        let Some(text) = fields.get(name) else { return Ok(None) };
        let texts = serde_json::from_str(text);
        texts.map(Some).map_err(|error| format!("{name} is not JSON: {error}: {text}"))
    };
    let Some(users) = column("users")? else { return Ok(Vec::new()) };
    let units = match fields.get("quantity") {
        Some(text) if !text.starts_with('[') => vec![text.clone(); users.len()],
        Some(_) => column("quantity")?.unwrap_or_default(),
        None => column("from")?.unwrap_or_default(),
    };
    let third = column("requests")?.or(column("to")?).unwrap_or_else(|| vec![String::new(); users.len()]);
    if units.len() != users.len() || third.len() != users.len() {
        return Err(format!("columns of different lengths: {fields:?}"));
    }
    Ok(users.into_iter().zip(units).zip(third).map(|((user, units), third)| [user, units, third]).collect())
}
