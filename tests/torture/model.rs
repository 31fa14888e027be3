//! Follows the append-only file call by call: each call must do what the rules say, no more and no less.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::aof::Group;
use crate::entries::{Written, orders_of_entries};
use crate::keys::{EntryId, Keys};
use crate::rules::{Answer, Sale, apply, decide, keep_refusal, signed};
use crate::schedule::{Operation, Order, Schedule};
use crate::support::Layout;

/// A row of a ledger, as the tool prints it.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    pub epoch: u64,
    pub id: EntryId,
    pub n: usize,
    pub op: String,
    pub user: String,
    pub quantity: Option<i64>,
    pub by: String,
}

/// Something that was applied or decided, and when.
#[derive(Debug, Clone)]
pub struct Decided {
    pub at: u64,
    pub order: Rc<Order>,
    pub answer: Answer,
    /// The file whose row it is.
    pub file: Option<usize>,
}

/// What names the orders of a round.
pub struct Names<'a> {
    pub schedule: &'a Schedule,
    /// All orders that were sent under a request id.
    pub requests: HashMap<String, Vec<Rc<Order>>>,
    /// The file of each job: `<operation>:<name>`.
    pub jobs: HashMap<String, usize>,
    pub rows: Vec<Vec<(u64, Rc<Order>)>>,
    /// The file that has a multi-order of this id.
    pub multi_rows: HashMap<String, usize>,
}

/// All states of the activities, and how they came to be.
pub struct Model<'a> {
    pub names: &'a Names<'a>,
    pub layout: Layout,
    pub keys: Keys,
    pub places: HashMap<String, usize>,
    pub sales: Vec<Rc<Sale>>,
    /// For each activity its states, each with the moment from which on it was.
    pub states: Vec<Vec<(u64, Rc<Sale>)>>,
    /// Orders that were applied, by request id.
    pub applied: HashMap<String, Vec<Decided>>,
    /// Rows of files that were decided, by file and line.
    pub rows: HashMap<(usize, u64), Vec<Decided>>,
    pub ledgers: Vec<Vec<LedgerRow>>,
    /// Rows that an earlier timeline refused: they may stay so, whatever the stock is now.
    pub refused_before: &'a HashSet<(usize, u64)>,
}

impl<'a> Model<'a> {
    pub fn new(names: &'a Names<'a>, refused_before: &'a HashSet<(usize, u64)>) -> Self {
        let layout = names.schedule.layout;
        let keys = names.schedule.activities.iter().enumerate();
        let places = keys.flat_map(|(index, it)| layout.all_keys(&it.id).into_iter().map(move |key| (key, index)));
        let sales: Vec<_> = names.schedule.activities.iter().map(|_| Rc::new(Sale::default())).collect();
        Self {
            names,
            layout,
            keys: Keys::default(),
            places: places.collect(),
            states: sales.iter().map(|sale| vec![(0, Rc::clone(sale))]).collect(),
            ledgers: vec![Vec::new(); sales.len()],
            sales,
            applied: HashMap::new(),
            rows: HashMap::new(),
            refused_before,
        }
    }

    /// The state of an activity at a moment.
    pub fn at(&self, activity: usize, at: u64) -> Rc<Sale> {
        let states = &self.states[activity];
        Rc::clone(&states[states.partition_point(|(from, _)| *from <= at) - 1].1)
    }

    /// Follows one call.
    pub fn step(&mut self, group: &Group) -> Result<(), String> {
        let reads = ["XGROUP", "XACK", "XCLAIM", "XREADGROUP", "XSETID", "SELECT", "SCRIPT"];
        if group.commands.iter().all(|command| reads.contains(&command[0].as_str())) {
            return Ok(());
        }
        let written = self.written(group)?;
        self.keys.apply(group)?;
        self.check(group, &written).map_err(|why| {
            let commands: Vec<String> = group.commands.iter().map(|words| words.join(" ")).collect();
            format!("{why}\nin call {}:\n  {}", group.end, commands.join("\n  "))
        })?;
        for activity in written.activities {
            self.states[activity].push((group.end, Rc::clone(&self.sales[activity])));
        }
        Ok(())
    }

    fn check(&mut self, group: &Group, written: &Written) -> Result<(), String> {
        for activity in &written.activities {
            self.check_meta(*activity, written.foreign.is_some())?;
        }
        let as_before = self.sales.clone();
        let ended = self.check_holds(group, written)?;
        let before: Vec<u64> = self.sales.iter().map(|sale| sale.stock).collect();
        if let Some(mark) = &written.foreign {
            return self.follow_foreign(written.activities[0], mark == "-1 1");
        }
        if let Some((activity, ..)) = written.entries.iter().find(|(.., fields)| fields["op"] == "repair") {
            self.check_repair(*activity)?;
        }
        let (of_ends, of_orders): (Vec<usize>, Vec<usize>) =
            written.files.iter().partition(|file| self.names.schedule.files[**file].operation.ends());
        let mut applied = self.check_rows(group, written, &of_orders)?;
        for file in of_ends {
            self.check_ended_rows(group, written, file, &as_before)?;
        }
        if written.files.is_empty() {
            applied.extend(self.check_requests(group, written, &before)?);
        }
        for activity in &written.activities {
            self.check_keys(*activity)?;
            self.check_known(*activity)?;
            self.check_hold_keys(*activity)?;
        }
        for (activity, id, fields) in &written.entries {
            self.check_entry(*activity, *id, fields, &applied, &ended)?;
        }
        for activity in written.activities.iter().filter(|activity| self.sales[**activity].ledger) {
            let has_entry = written.entries.iter().any(|(of, ..)| of == activity);
            if !has_entry && ended.iter().any(|it| it.activity == *activity) {
                return Err(format!("{}: a hold ended without a ledger entry", self.name(*activity)));
            }
            if !has_entry && applied.iter().any(|order| order.items.iter().any(|(of, _)| of == activity)) {
                return Err(format!("{}: sold without a ledger entry", self.name(*activity)));
            }
        }
        Ok(())
    }

    pub fn name(&self, activity: usize) -> &str {
        &self.names.schedule.activities[activity].id
    }

    /// Preheat, update, pause and what else moves `meta`.
    fn check_meta(&mut self, activity: usize, is_foreign: bool) -> Result<(), String> {
        let (meta_key, stock_key) = (self.layout.meta(self.name(activity)), self.layout.stock(self.name(activity)));
        let field = |name: &str| self.keys.field(&meta_key, name);
        let number = |name: &str, text: &str| text.parse::<u64>().map_err(|_| format!("{name}: {text}"));
        let rules: Vec<&str> = field("rules").unwrap_or_default().split(' ').collect();
        let &[state, ledger, epoch, limit, total, _, _] = &rules[..] else {
            return Err(format!("{}: rules {rules:?}", self.name(activity)));
        };
        let (epoch, total) = (number("epoch", epoch)?, number("total", total)?);
        let limit = if limit == "-" { None } else { Some(number("limit", limit)?) };
        let (paused, ledger) = (state == "paused", ledger == "1");
        let field_is_there = field("withdrawn").is_some();
        let withdrawn = field("withdrawn").map_or(Ok(0), |text| number("withdrawn", text))?;
        let stock: u64 = self.keys.strings.get(&stock_key).and_then(|text| text.parse().ok()).unwrap_or(0);
        let sale = Rc::make_mut(&mut self.sales[activity]);
        if epoch != sale.epoch {
            if epoch != sale.epoch + 1 || stock != total || withdrawn != 0 {
                return Err(format!("a preheat to epoch {epoch}, stock {stock} of {total}, after {}", sale.epoch));
            }
            *sale = Sale { exists: true, stock, total, limit, paused, ledger, epoch, ..Sale::default() };
            return Ok(());
        }
        if total != sale.total {
            let moved = (sale.stock + total).checked_sub(sale.total);
            sale.stock = moved.ok_or_else(|| format!("total {} → {total} with {} left", sale.total, sale.stock))?;
        }
        (sale.total, sale.limit, sale.paused, sale.withdrawn) = (total, limit, paused, withdrawn);
        // What something else gives back meanwhile stays in the stock.
        let is_alone = !is_foreign && sale.truth.is_none();
        if field_is_there && (!paused || (stock > 0 && is_alone)) {
            return Err(format!("{withdrawn} units are withdrawn, {stock} are for sale, paused: {paused}"));
        }
        if ledger != sale.ledger {
            return Err("the ledger was turned on or off".to_owned());
        }
        Ok(())
    }

    /// Rows that this call decided, one after the other. Gives those that were applied.
    fn check_rows(&mut self, group: &Group, written: &Written, files: &[usize]) -> Result<Vec<Rc<Order>>, String> {
        let mut applied = Vec::new();
        for file in files.iter().copied() {
            let before: Vec<u64> = self.sales.iter().map(|sale| sale.lines.get(&file).copied().unwrap_or(0)).collect();
            let after: Vec<u64> = (0..self.sales.len()).map(|activity| self.watermark(file, activity)).collect();
            let names = self.names;
            let mut entries = orders_of_entries(written)?;
            for (line, order) in &names.rows[file] {
                let decided = |lines: &[u64]| order.items.iter().all(|(activity, _)| lines[*activity] >= *line);
                // A multi-order is known by its id. After a lost reply it is sent again, whatever the watermark is.
                let is_multi = order.operation == Operation::Multi;
                let kept = written.requests.get(&order.request).filter(|_| is_multi).map(|(value, _)| value);
                if kept.is_none() && (decided(&before) || !decided(&after)) {
                    continue;
                }
                let mut answer = decide(self.layout, &self.sales, order);
                let is_ok = answer.status == "ok";
                let stays_refused = is_ok && self.refused_before.contains(&(file, *line));
                let (first, units) = order.items[0];
                let next = entries.get(&first).and_then(VecDeque::front);
                if is_ok && (!stays_refused || next == Some(&(order.user.clone(), units))) {
                    answer = apply(self.layout, &mut self.sales, order);
                    for (activity, _) in &order.items {
                        entries.entry(*activity).or_default().pop_front();
                    }
                    applied.push(Rc::clone(order));
                    self.note_applied(group.end, order, &answer, Some(file));
                }
                if let Some(value) = kept.filter(|value| value.starts_with('-') != (answer.status == "refused")) {
                    return Err(format!("line {line} is kept as `{value}`, by the rules {answer:?}"));
                }
                if kept.is_some() && answer.status == "refused" {
                    keep_refusal(&mut self.sales, order, "refused");
                }
                if answer.items.iter().any(|(status, ..)| *status == "paused") && !is_multi {
                    return Err(format!("line {line} was decided while its activity was paused"));
                }
                let decided = Decided { at: group.end, order: Rc::clone(order), answer, file: Some(file) };
                self.rows.entry((file, *line)).or_default().push(decided);
            }
            if let Some(activity) = (0..after.len()).find(|index| after[*index] < before[*index]) {
                return Err(format!("{}: the watermark fell to line {}", self.name(activity), after[activity]));
            }
            for (activity, line) in after.into_iter().enumerate().filter(|(_, line)| *line > 0) {
                Rc::make_mut(&mut self.sales[activity]).lines.insert(file, line);
            }
        }
        Ok(applied)
    }

    pub fn note_applied(&mut self, at: u64, order: &Rc<Order>, answer: &Answer, file: Option<usize>) {
        if !order.request.is_empty() {
            let decided = Decided { at, order: Rc::clone(order), answer: answer.clone(), file };
            self.applied.entry(order.request.clone()).or_default().push(decided);
        }
    }

    pub fn watermark(&self, file: usize, activity: usize) -> u64 {
        let requests = self.layout.requests(self.name(activity));
        let Some(hash) = self.keys.hashes.get(&requests) else { return 0 };
        let jobs = self.names.jobs.iter().filter(|(_, of)| **of == file);
        let lines = jobs.filter_map(|(job, _)| hash.get(&format!("\tj:{job}")));
        lines.filter_map(|text| text.split(' ').next()?.parse().ok()).max().unwrap_or(0)
    }

    /// A single order that was applied, or whose refusal is kept.
    fn check_requests(&mut self, group: &Group, written: &Written, before: &[u64]) -> Result<Vec<Rc<Order>>, String> {
        let mut applied = Vec::new();
        for (request, (value, activities)) in &written.requests {
            let names = self.names;
            let sent = names.requests.get(request).ok_or_else(|| format!("nobody sent the request `{request}`"))?;
            let refusal = value.starts_with('-');
            let fits = |order: &&Rc<Order>| {
                let answer = decide(self.layout, &self.sales, order);
                order.items.iter().map(|(activity, _)| *activity).eq(activities.iter().copied())
                    && is_of(value, order)
                    && (answer.status == "ok") != refusal
                    && (refusal || order.items.iter().all(|(index, asked)| self.moved(*index, before, order, *asked)))
            };
            let Some(order) = sent.iter().find(fits) else {
                let answers: Vec<_> = sent.iter().map(|order| decide(self.layout, &self.sales, order)).collect();
                return Err(format!(
                    "`{request}` = `{value}`: none of {sent:?} fits, which the rules answer {answers:?}"
                ));
            };
            if refusal {
                let answer = decide(self.layout, &self.sales, order);
                keep_refusal(&mut self.sales, order, answer.status);
            } else {
                let answer = apply(self.layout, &mut self.sales, order);
                self.note_applied(group.end, order, &answer, None);
                applied.push(Rc::clone(order));
            }
        }
        Ok(applied)
    }

    /// Whether the stock moved as an order asks.
    fn moved(&self, activity: usize, before: &[u64], order: &Order, asked: u64) -> bool {
        let sale = &self.sales[activity];
        let units = sale.units(order, asked);
        let wanted = if order.operation == Operation::Refund {
            before[activity].checked_add(units)
        } else {
            before[activity].checked_sub(units)
        };
        wanted == self.stock_in_keys(activity).ok()
    }

    fn stock_in_keys(&self, activity: usize) -> Result<u64, String> {
        let stock = self.keys.strings.get(&self.layout.stock(self.name(activity)));
        let stock: u64 = stock.and_then(|text| text.parse().ok()).ok_or_else(|| format!("the stock is {stock:?}"))?;
        Ok(stock + self.sales[activity].withdrawn)
    }

    /// Stock and holdings in the keys are those of the model, and add up.
    fn check_keys(&self, activity: usize) -> Result<(), String> {
        let (sale, name) = (&self.sales[activity], self.name(activity));
        let stock = self.stock_in_keys(activity)?;
        if stock != sale.stock {
            return Err(format!("{name}: the stock is {stock}, by the rules {}", sale.stock));
        }
        let held = self.keys.held(self.layout, name);
        let expected: BTreeMap<&str, u64> = sale.held.iter().map(|(user, units)| (&**user, *units)).collect();
        if held != expected {
            return Err(format!("{name}: users hold {held:?}, by the rules {expected:?}"));
        }
        let sold: u64 = held.values().sum();
        if sale.truth.is_some() {
            return Ok(());
        }
        if self.layout.has_users() && stock + sold != sale.total {
            return Err(format!("{name}: {stock} left and {sold} sold of {}", sale.total));
        }
        if stock > sale.total {
            return Err(format!("{name}: {stock} left of {}", sale.total));
        }
        Ok(())
    }

    /// Something else wrote to the keys, which are what counts from now on. Only a sale changes what was sold.
    fn follow_foreign(&mut self, activity: usize, is_sale: bool) -> Result<(), String> {
        let (stock, held) = self.in_keys(activity)?;
        let sale = Rc::make_mut(&mut self.sales[activity]);
        let mut truth = sale
            .truth
            .take()
            .unwrap_or_else(|| sale.held.iter().map(|(user, units)| (Rc::clone(user), signed(*units))).collect());
        if is_sale {
            for (user, units) in &held {
                let more = units.saturating_sub(sale.has(user));
                *truth.entry(Rc::clone(user)).or_default() += signed(more);
            }
        }
        (sale.stock, sale.held, sale.truth) = (stock, held, Some(truth));
        Ok(())
    }

    /// A repair never offers a unit that was sold.
    fn check_repair(&mut self, activity: usize) -> Result<(), String> {
        let (stock, held) = self.in_keys(activity)?;
        let name = self.name(activity).to_owned();
        let sale = Rc::make_mut(&mut self.sales[activity]);
        let Some(truth) = &sale.truth else {
            return Err(format!("{name}: a repair, though nothing differed"));
        };
        let sold: i64 = truth.values().sum();
        if stock > sale.stock && signed(stock) + sold > signed(sale.total) {
            return Err(format!(
                "{name}: a repair raises the stock to {stock} of {}, of which {sold} were sold",
                sale.total
            ));
        }
        (sale.stock, sale.held) = (stock, held);
        Ok(())
    }

    fn in_keys(&self, activity: usize) -> Result<(u64, BTreeMap<Rc<str>, u64>), String> {
        let held = self.keys.held(self.layout, self.name(activity));
        Ok((self.stock_in_keys(activity)?, held.into_iter().map(|(user, units)| (user.into(), units)).collect()))
    }

    /// The requests that are known are those of the model.
    fn check_known(&self, activity: usize) -> Result<(), String> {
        let fields = self.keys.hashes.get(&self.layout.requests(self.name(activity))).into_iter().flatten();
        let is_repair = |value: &str| value.starts_with("repair ");
        let fields = fields.filter(|(_, value)| !is_repair(value));
        let known = fields.filter(|(field, _)| !field.starts_with('\t'));
        let (known, expected) = (known.count(), self.sales[activity].requests.len());
        if known != expected {
            return Err(format!("{}: {known} requests are known, by the rules {expected}", self.name(activity)));
        }
        Ok(())
    }
}

/// Whether what is kept of a request can be of this order.
fn is_of(value: &str, order: &Order) -> bool {
    let (operation, user) = (order.operation.stored(), &order.user);
    let applied = value.split_once('\t').filter(|(code, _)| code.starts_with('-')).map_or(value, |(_, digest)| digest);
    match (order.operation, order.items[0].1) {
        (Operation::Multi, _) => applied.starts_with("multi_deduct ") && applied.ends_with(&format!("\t{user}")),
        (Operation::Deduct, 1) => applied == &**user,
        (Operation::Deduct, units) => applied == format!("{units}\t{user}"),
        (_, 0) => applied == format!("{operation} all\t{user}"),
        (_, units) => applied == format!("{operation} {units}\t{user}"),
    }
}
