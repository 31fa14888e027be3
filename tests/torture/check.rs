//! Compares what callers heard: with each other, with the keys in the end, and with what the feed delivered.
//!
//! In the end everything is asked again, so of each single order the last answer is true, whatever was lost. A line of a file
//! says once what it did, and nobody hears that if the run is killed: then what a user has is between two numbers.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::actors::hold_for;
use crate::chaos::{Chaos, Foreign};
use crate::history::Event;
use crate::keys::Units;
use crate::schedule::{Operation, Order, Schedule, What};
use crate::servers::Servers;

/// What callers heard.
struct Heard<'a> {
    schedule: &'a Schedule,
    events: &'a [Event],
    orders: Vec<Sent<'a>>,
    /// What each run of each file said of its lines.
    lines: HashMap<(usize, u64), Vec<Said>>,
}

/// An order under its request id, with what was heard of it, in the order of the answers.
struct Sent<'a> {
    order: Order,
    answers: Vec<(&'a Event, Option<Value>)>,
}

/// What a run of a file said of a line.
struct Said {
    status: String,
    /// Nothing is decided while an activity is paused.
    is_paused: bool,
    is_settled: bool,
}

/// All that is wrong.
pub fn all(schedule: &Schedule, events: &[Event], servers: &Servers) -> Result<Vec<String>, String> {
    let mut problems: Vec<String> =
        events.iter().filter_map(|event| Some(shown(event, &usual(event).err()?))).collect();
    let mut heard = Heard { schedule, events, orders: orders(events)?, lines: HashMap::new() };
    for event in events {
        let checked = match &event.what {
            What::File { file, .. } => heard.file(event, *file),
            What::Reconcile { .. } if event.is_answered() => heard.audit(event),
            _ => Ok(()),
        };
        problems.extend(checked.err().map(|problem| shown(event, &problem)));
    }
    problems.extend(heard.orders.iter().filter_map(|sent| heard.order(sent).err()));
    problems.extend(heard.once());
    let lines = schedule.files.iter().enumerate().flat_map(|(file, of)| of.rows.iter().map(move |row| (file, row)));
    problems.extend(lines.filter_map(|(file, (line, order))| heard.line(file, *line, order).err()));
    for (index, activity) in schedule.activities.iter().enumerate() {
        let units = Units::read(servers, schedule.layout, &activity.id);
        let name = &activity.id;
        problems.extend(heard.units(index, &units).err().map(|problem| format!("{name}: {problem}, of {units:?}")));
        if schedule.activities.iter().position(|it| it.ledger) == Some(index) {
            problems.extend(heard.delivered(index, &units, servers).err().map(|problem| format!("{name}: {problem}")));
        }
    }
    Ok(problems)
}

/// A problem, with the call that has it.
fn shown(event: &Event, problem: &str) -> String {
    let Event { number, actor, call, code, .. } = event;
    let cut = |text: &str| text.trim_end().chars().take(1_500).collect::<String>();
    let (out, err) = (cut(&event.stdout), cut(&event.stderr));
    format!("e{number} {actor} $ {call}\n  exit {code:?}: {problem}\n  {out}\n  {err}")
}

/// What each call must be like.
fn usual(event: &Event) -> Result<(), String> {
    let bad = ["panicked", "os error", "RUST_BACKTRACE", "stack overflow"];
    if let Some(word) = bad.iter().find(|word| event.stderr.contains(*word)) {
        return Err(format!("says `{word}`"));
    }
    let is_feed = matches!(event.what, What::Feed { .. });
    match event.code {
        Some(0 | 3 | 7) => Ok(()),
        Some(1 | 5 | 6) if !event.is_settled() && !event.stderr.trim().is_empty() => Ok(()),
        None if !event.is_settled() => Ok(()),
        Some(130) if is_feed => Ok(()),
        other => Err(format!("an exit code nobody expects: {other:?}")),
    }
}

/// All single orders that have a request id.
fn orders(events: &[Event]) -> Result<Vec<Sent<'_>>, String> {
    let mut orders: Vec<Sent<'_>> = Vec::new();
    for event in events {
        let Some(order) = event.order() else { continue };
        let row = event.is_answered().then(|| event.row()).transpose()?;
        if let Some(row) = &row
            && (row["request"] != *order.request || is_done(row) != (event.code == Some(0)))
        {
            return Err(format!(
                "e{}: another request id, or a code that does not fit the status: {row}",
                event.number
            ));
        }
        match orders.iter_mut().find(|sent| sent.order == order) {
            Some(sent) => sent.answers.push((event, row)),
            None => orders.push(Sent { order, answers: vec![(event, row)] }),
        }
    }
    Ok(orders)
}

fn is_done(row: &Value) -> bool {
    matches!(row["status"].as_str(), Some("ok" | "replayed"))
}

impl Sent<'_> {
    /// Whether it was done, as heard in the end.
    fn is_done(&self) -> bool {
        self.last("ok") || self.last("replayed")
    }

    fn last(&self, status: &str) -> bool {
        self.answers.last().and_then(|(_, row)| row.as_ref()).is_some_and(|row| row["status"] == status)
    }

    /// Units of the first activity; `None` of a refund of all that the user had, if no answer says how many they were.
    fn units(&self) -> Option<u64> {
        let asked = self.order.items[0].1;
        let said = || self.answers.iter().find_map(|(_, row)| row.as_ref()?["quantity"].as_u64());
        if asked == 0 { said() } else { Some(asked) }
    }
}

impl Heard<'_> {
    /// Whether what was answered about an activity stays so: no server lost it, nothing removed it, nothing else wrote to it.
    fn stays(&self, activity: usize) -> bool {
        !self.schedule.loses() && self.only_loss(activity)
    }

    /// Whether only a server that lost it can make something untrue that was answered about an activity.
    fn only_loss(&self, activity: usize) -> bool {
        !self.schedule.drifts && !self.schedule.operator.iter().any(|step| step.resets(Some(activity)))
    }

    /// Whether what was answered about an order stays so.
    fn keeps(&self, order: &Order) -> bool {
        order.items.iter().all(|(activity, _)| self.stays(*activity))
    }

    /// Whether a hold may have ended unpaid: `seed` decides how long it is held.
    fn may_be_over(&self, order: &Order, seed: &str) -> bool {
        let is_released = || self.sent(Operation::Release, &order.request).is_some();
        order.operation == Operation::Hold && (hold_for(seed) != "1h" || is_released())
    }

    /// Whether a reset may have removed what one of several activities knows of an order: it is refused then, and the others have it.
    fn is_torn(&self, order: &Order) -> bool {
        let is_reset =
            |(activity, _): &(usize, u64)| self.schedule.operator.iter().any(|it| it.resets(Some(*activity)));
        order.items.len() > 1 && order.items.iter().any(is_reset)
    }

    fn sent(&self, operation: Operation, request: &str) -> Option<&Sent<'_>> {
        self.orders.iter().find(|sent| sent.order.operation == operation && sent.order.request == request)
    }

    /// What was answered stays true.
    fn order(&self, sent: &Sent<'_>) -> Result<(), String> {
        let Sent { order, answers } = sent;
        let status =
            |row: &Option<Value>| row.as_ref().map(|row| row["status"].as_str().unwrap_or_default().to_owned());
        let (before, settled): (Vec<_>, Vec<_>) = answers.iter().partition(|(event, _)| !event.is_settled());
        let first = settled.first().and_then(|(_, row)| status(row)).ok_or_else(|| format!("{order:?} stays open"))?;
        let stays = self.keeps(order);
        let is_copied = |event: &Event| event.waits && order.items.iter().all(|(of, _)| self.only_loss(*of));
        let may_be_over = self.may_be_over(order, &order.request);
        let fits: &[&str] = match order.operation {
            Operation::Hold if may_be_over => &["replayed", "expired", "not_held"],
            Operation::Release => &["replayed", "expired", "not_held"],
            _ => &["replayed"],
        };
        let done = before.iter().find(|(event, row)| row.as_ref().is_some_and(is_done) && (stays || is_copied(event)));
        if let Some((event, _)) = done.filter(|_| !fits.contains(&first.as_str())) {
            return Err(format!("{order:?}: e{} was answered, and in the end it is {first}", event.number));
        }
        let is_refused = |row: &Option<Value>| row.as_ref().is_some_and(|row| !is_done(row));
        let was_refused = !before.is_empty() && before.iter().all(|(_, row)| is_refused(row));
        if stays && was_refused && !order.operation.ends() && first == "replayed" {
            return Err(format!("{order:?} was refused each time, and in the end it is {first}"));
        }
        Ok(())
    }

    /// One id is one order, and one end of a hold.
    fn once(&self) -> Vec<String> {
        let mut ok: BTreeMap<&str, Vec<(Operation, usize)>> = BTreeMap::new();
        for Sent { order, answers } in self.orders.iter().filter(|sent| self.keeps(&sent.order)) {
            for (event, _) in answers.iter().filter(|(_, row)| row.as_ref().is_some_and(|row| row["status"] == "ok")) {
                ok.entry(&order.request).or_default().push((order.operation, event.number));
            }
        }
        ok.retain(|_, calls| {
            let ends = calls.iter().filter(|(operation, _)| operation.ends()).count();
            ends > 1 || calls.len() - ends > 1
        });
        ok.into_iter().map(|(id, calls)| format!("{id} is ok in {calls:?}")).collect()
    }

    /// A run of a file names each line once, in order; a whole one names all.
    fn file(&mut self, event: &Event, file: usize) -> Result<(), String> {
        let rows = &self.schedule.files[file].rows;
        let printed: Vec<Value> = event.rows().collect::<Result<_, _>>()?;
        let mut last = 0;
        for row in &printed {
            let line = row["line"].as_u64().ok_or("a row without a line")?;
            if line <= last || !rows.iter().any(|(known, _)| *known == line) {
                return Err(format!("line {line} comes after line {last}, or is none of the file"));
            }
            last = line;
            let items = row["items"].as_array().map_or(std::slice::from_ref(row), Vec::as_slice);
            self.lines.entry((file, line)).or_default().push(Said {
                status: row["status"].as_str().unwrap_or_default().to_owned(),
                is_paused: items.iter().any(|item| item["status"] == "paused"),
                is_settled: event.is_settled(),
            });
        }
        match event.code {
            Some(0 | 3) if printed.len() != rows.len() => {
                Err(format!("{} rows for {} lines", printed.len(), rows.len()))
            }
            Some(0) if !printed.iter().all(is_done) => Err("exit 0 with refused rows".to_owned()),
            _ => Ok(()),
        }
    }

    /// A line is decided once.
    fn line(&self, file: usize, line: u64, order: &Order) -> Result<(), String> {
        let name = &self.schedule.files[file].name;
        let said = self.lines.get(&(file, line)).map_or(&[][..], Vec::as_slice);
        if !said.iter().any(|said| said.is_settled && !said.is_paused) {
            return Err(format!("{name}: line {line} was never decided"));
        }
        let decided = said.iter().filter(|said| !said.is_paused && said.status != "replayed");
        let decided: Vec<&str> = decided.map(|said| said.status.as_str()).collect();
        if self.keeps(order) && decided.len() > 1 && decided.contains(&"ok") {
            return Err(format!("{name}: line {line} was decided as {decided:?}"));
        }
        Ok(())
    }

    /// Whether a line bought or returned its units: for certain, and maybe.
    fn became(&self, file: usize, line: u64, order: &Order) -> (bool, bool) {
        if self.is_torn(order) {
            return (false, true);
        }
        let said = &self.lines[&(file, line)];
        let stays = self.keeps(order);
        let is_ok = said.iter().any(|said| said.status == "ok" && (stays || said.is_settled));
        let is_denied = |said: &Said| !said.is_paused && !matches!(said.status.as_str(), "ok" | "replayed");
        let was_denied = said.iter().any(|said| is_denied(said) && (stays || said.is_settled));
        let is_over = self.may_be_over(order, &self.schedule.files[file].name);
        (is_ok && !is_over, is_ok || !was_denied)
    }

    /// Each user has what callers heard, and what nobody has is for sale.
    fn units(&self, activity: usize, units: &Units) -> Result<(), String> {
        let has_users = self.schedule.layout.has_users();
        let sold = units.total - units.stock;
        // What other writes did to stock and counters a repair may leave.
        let is_sum = !has_users || self.schedule.drifts || units.held.values().sum::<i64>() == sold;
        if units.withdrawn != 0 || units.stock < 0 || !is_sum {
            return Err("what was sold and what is left are not the total".to_owned());
        }
        let mut users = units.held.clone();
        if !has_users {
            users.insert(String::new(), sold);
        }
        let bounds = self.bounds(activity);
        for user in bounds.keys().chain(users.keys()) {
            let (low, high) = bounds.get(user).copied().unwrap_or_default();
            let has = users.get(user).copied().unwrap_or_default();
            if has < low.max(0) || has > high.max(0) + self.sold_elsewhere(activity) {
                return Err(format!("`{user}` has {has} units; from what callers heard they are {low} to {high}"));
            }
            let limit = self.limit(activity).filter(|_| !self.schedule.drifts);
            if limit.is_some_and(|limit| has > limit.cast_signed()) {
                return Err(format!("`{user}` has {has} units"));
            }
        }
        Ok(())
    }

    /// Units that a plain script sold; which user has them is not known.
    fn sold_elsewhere(&self, activity: usize) -> i64 {
        let units = |(_, chaos): &(usize, Chaos)| match *chaos {
            Chaos::Foreign { activity: of, write: Foreign::PlainSale, units } if of == activity => units.cast_signed(),
            _ => 0,
        };
        self.schedule.chaos.iter().map(units).sum()
    }

    /// The highest limit that there was; `None` if there was a time without one.
    fn limit(&self, activity: usize) -> Option<u64> {
        let mut limit = self.schedule.activities[activity].limit?;
        for step in &self.schedule.operator {
            if let What::Update { activity: of, limit: Some(later), .. } = step.what
                && of == activity
            {
                limit = limit.max(later);
            }
        }
        Some(limit)
    }

    /// How many units of an activity each user has at least and at most.
    fn bounds(&self, activity: usize) -> BTreeMap<String, (i64, i64)> {
        let mut bounds: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        let mut add = |order: &Order, units: Option<u64>, (is_certain, may_be): (bool, bool)| {
            let (low, high) = bounds.entry(order.user.clone()).or_default();
            let units = units.map_or(i64::MAX / 2, u64::cast_signed);
            let is_refund = order.operation == Operation::Refund;
            let (up, down) = if is_refund { (low, high) } else { (high, low) };
            let sign = if is_refund { -1 } else { 1 };
            *up = up.saturating_add(sign * if may_be { units } else { 0 });
            *down = down.saturating_add(sign * if is_certain && units < i64::MAX / 2 { units } else { 0 });
        };
        for sent in &self.orders {
            let order = &sent.order;
            let is_end_done = |end| self.sent(end, &order.request).is_some_and(Sent::is_done);
            let became = match order.operation {
                Operation::Confirm | Operation::Release => continue,
                _ if sent.last("request_conflict") && order.items.len() == 1 => continue,
                Operation::Multi if self.is_torn(order) => (false, true),
                Operation::Hold if is_end_done(Operation::Confirm) => (true, true),
                Operation::Hold if is_end_done(Operation::Release) => (false, false),
                Operation::Hold => (sent.is_done() && hold_for(&order.request) == "1h", sent.is_done()),
                _ => (sent.is_done(), sent.is_done()),
            };
            for (_, asked) in order.items.iter().filter(|(of, _)| *of == activity) {
                add(order, if *asked == 0 { sent.units() } else { Some(*asked) }, became);
            }
        }
        for (index, file) in self.schedule.files.iter().enumerate().filter(|(_, file)| !file.operation.ends()) {
            let mut by_id: BTreeMap<(&str, u64), (&Order, bool, bool)> = BTreeMap::new();
            for (line, order) in &file.rows {
                let (is_certain, may_be) = self.became(index, *line, order);
                let line = if order.request.is_empty() { *line } else { 0 };
                let known = by_id.entry((&order.request, line)).or_insert((order, false, false));
                (known.1, known.2) = (known.1 || is_certain, known.2 || may_be);
            }
            for (order, is_certain, may_be) in by_id.into_values() {
                for (_, asked) in order.items.iter().filter(|(of, _)| *of == activity) {
                    add(order, Some(*asked), (is_certain, may_be));
                }
            }
        }
        bounds
    }

    /// Nothing drifts without a cause; in the end all is proven.
    fn audit(&self, event: &Event) -> Result<(), String> {
        let found = event.row()?;
        let rows = found["activities"].as_array().ok_or("no activities")?;
        let is_audit = matches!(event.what, What::Reconcile { fix: false });
        let differences = found["differences"].as_array().map_or(&[][..], Vec::as_slice);
        for activity in &self.schedule.activities {
            let row = rows.iter().find(|row| row["activity"] == activity.id.as_str());
            let row = row.ok_or_else(|| format!("nothing about {}", activity.id))?;
            let is_over = |it: &Value| it["activity"] == activity.id.as_str() && it["class"] == "over_limit";
            let has_cause =
                differences.iter().any(is_over) || self.schedule.drifts || self.schedule.loses() && !event.is_settled();
            let fits = match row["verdict"].as_str().unwrap_or_default() {
                "match" => true,
                "drift" => has_cause,
                "unproven" if activity.ledger => false,
                "unproven" => !event.is_settled() || !self.schedule.layout.has_users(),
                "unsettled" => !event.is_settled(),
                _ => false,
            };
            if !fits {
                return Err(format!("{}: {} with proof {}", activity.id, row["verdict"], row["proof"]));
            }
        }
        let is_match = rows.iter().all(|row| row["verdict"] == "match");
        if is_audit && is_match != (event.code == Some(0)) {
            return Err("the code does not fit the verdicts".to_owned());
        }
        Ok(())
    }

    /// The feed delivered every row that the ledger has, and with what was trimmed they are what was sold.
    fn delivered(&self, activity: usize, units: &Units, servers: &Servers) -> Result<(), String> {
        let mut delivered: BTreeMap<String, Value> = BTreeMap::new();
        for event in self.events.iter().filter(|event| matches!(event.what, What::Feed { .. })) {
            for row in event.rows() {
                let row = row?;
                delivered.insert(format!("{} {}", row["id"], row["n"]), row);
            }
        }
        let (layout, id) = (self.schedule.layout, &self.schedule.activities[activity].id);
        let ledger = servers.seckill().args(["-l", layout.name, "-o", "jsonl", "ledger", id]).code(0).stdout;
        for line in ledger.lines() {
            let row: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let found = delivered.get(&format!("{} {}", row["id"], row["n"]));
            if found.is_none_or(|found| ["op", "user", "quantity"].iter().any(|name| found[*name] != row[*name])) {
                return Err(format!("the feed delivered {found:?}, where the ledger has {line}"));
            }
        }
        if !self.stays(activity) {
            return Ok(());
        }
        let mut sold: BTreeMap<String, i64> = BTreeMap::new();
        for row in delivered.values() {
            let sign = match row["op"].as_str().unwrap_or_default() {
                "deduct" | "hold" => 1,
                "refund" | "release" | "expire" => -1,
                _ => continue,
            };
            let quantity = row["quantity"].as_i64().ok_or_else(|| format!("no quantity: {row}"))?;
            *sold.entry(row["user"].as_str().unwrap_or_default().to_owned()).or_default() += sign * quantity;
        }
        sold.retain(|_, units| *units != 0);
        let mut held = units.held.clone();
        if !layout.has_users() {
            held = BTreeMap::from([(String::new(), units.total - units.stock)]);
            held.retain(|_, units| *units != 0);
        }
        if sold != held {
            return Err(format!("from what the feed delivered they have {sold:?}, but {held:?} is so"));
        }
        Ok(())
    }
}
