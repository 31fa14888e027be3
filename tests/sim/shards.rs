//! A random history of a sale over three shards: orders at the homes of users, units that one shard lends and another borrows, updates
//! of the total, copies of all that which come late, calls that are cut, and audits that finish what nobody else did. At its end a
//! reset may remove the shards.

use std::rc::Rc;

use seckill::internals::{self, Repair, Shards, judge_shards};
use seckill::{ActivityId, Audit, Layout, MissingOrders, Verdict};

use super::audit::{note_reversals, records, shown as shown_audit, shown_repairs};
use super::calls::{Activity, Call, number, shown, shown_reply, status};
use super::history::{Plan, STEPS};
use super::keys::{Reply, integer};
use super::oracle::*;
use super::random::Random;
use super::script::Engine;
use super::server;

const USERS: [&str; 5] = ["ann", "bob", "张三", "dora", "eve"];
const EPOCH: &str = "1";
const ROUNDS: usize = 5;

/// Units on their way from one shard to another.
struct Transfer {
    id: String,
    donor: usize,
    home: usize,
    /// What the donor was asked for.
    need: u64,
    /// What it said that it lent.
    units: Option<i64>,
}

/// A change of the total that is on its way: by how many units in each shard.
struct Update {
    plan: String,
    wanted: Vec<i64>,
    /// By how many it changed a shard, which may have had fewer.
    heard: Vec<Option<i64>>,
}

struct Night<'s> {
    engine: Rc<Engine>,
    sale: ActivityId,
    shards: Shards,
    activities: Vec<Activity>,
    total: i64,
    oracle: Oracle,
    transfers: Vec<Transfer>,
    update: Option<Update>,
    updates: usize,
    late: Vec<Call>,
    random: Random,
    step: u64,
    is_calm: bool,
    was_cut: bool,
    story: Option<&'s mut Vec<String>>,
}

/// Runs a history to its end.
pub fn run(engine: &Rc<Engine>, plan: &Plan, story: Option<&mut Vec<String>>) -> Result<(), Broken> {
    engine.reset();
    let mut random = Random::of_step(plan.seed, 0);
    let shards = Shards::new(vec![0, 1, 2]).expect("each comes once");
    let sale = Activity::new("1001", Layout::Cluster);
    let units: Vec<i64> = (0..3).map(|_| (2 + random.below(6)).cast_signed()).collect();
    let total = units.iter().sum();
    let mut night = Night {
        engine: Rc::clone(engine),
        sale: sale.id.clone(),
        activities: shards.ids(&sale.id).map(|id| Activity::new(id.as_str(), Layout::Cluster)).collect(),
        shards,
        total,
        oracle: Oracle::default(),
        transfers: Vec::new(),
        update: None,
        updates: 0,
        late: Vec::new(),
        random,
        step: 0,
        is_calm: true,
        was_cut: false,
        story,
    };
    night.set_total(None, total)?;
    for (shard, units) in units.iter().enumerate() {
        night.run_call(&night.preheat(shard, "set", EPOCH, "", *units), None)?;
    }
    for step in &plan.steps {
        night.step = *step;
        night.random = Random::of_step(plan.seed, *step);
        night.is_calm = plan.calm.contains(step);
        night.take_step()?;
        night.check()?;
    }
    night.heal(plan.seed)?;
    night.remove(&units)
}

/// Whether a call refuses to sell because units were sold and no user is recorded.
fn said_nobody_is_left(reply: &Reply) -> bool {
    status(reply) == Some(CORRUPT) && shown_reply(reply).ends_with(" 5 nothing, though units were sold")
}

impl Night<'_> {
    fn now(&self) -> u64 {
        self.engine.server.borrow().now_ms()
    }

    fn advance(&self, ms: u64) {
        self.engine.server.borrow_mut().us += ms * 1000;
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    fn run_call(&mut self, call: &Call, cut: Option<u32>) -> Result<Option<Reply>, Broken> {
        {
            let mut server = self.engine.server.borrow_mut();
            (server.us, server.cut_after) = (server.us + 137, cut);
        }
        let reply = self.engine.run(call.sha1, &call.keys, &call.args);
        self.engine.server.borrow_mut().cut_after = None;
        let (step, key) = (self.step, String::from_utf8_lossy(&call.keys[0]).into_owned());
        self.tell(|| {
            let said = reply.as_ref().map_or_else(|| format!("cut after {cut:?} writes"), shown_reply);
            format!("{step:3} {key} {} -> {said}", shown(call))
        });
        self.was_cut |= reply.is_none();
        match &reply {
            Some(Reply::Error(text)) => broken("no call fails", format!("{}: {text}", shown(call))),
            // Until an audit corrects it: a cut took units, and nobody is recorded.
            Some(said) if self.was_cut && said_nobody_is_left(said) => Ok(None),
            Some(said) if status(said) == Some(CORRUPT) => {
                broken("nothing becomes corrupt", format!("{}: {}", shown(call), shown_reply(said)))
            }
            _ => Ok(reply),
        }
    }

    /// The reply of a call, if it runs now, is not cut, and its reply is not lost.
    fn send(&mut self, call: Call) -> Result<Option<Reply>, Broken> {
        let dice = if self.is_calm { 100 } else { self.random.below(100) };
        if dice < 6 {
            let step = self.step;
            self.tell(|| format!("{step:3} {} is on its way", shown(&call)));
            self.late.push(call);
            return Ok(None);
        }
        let writes = self.random.below(7) as u32;
        let reply = self.run_call(&call, (6..16).contains(&dice).then_some(writes))?;
        Ok(reply.filter(|_| dice >= 20))
    }

    fn take_step(&mut self) -> Result<(), Broken> {
        match self.random.below(100) {
            0..28 => {
                let user = *self.random.pick(&USERS);
                let (home, units) = (self.shards.home(user.as_bytes()), 1 + self.random.below(3));
                self.oracle.orders.push(Order::new(self.oracle.orders.len(), user.into(), vec![(home, units)]));
                let mode = if self.random.percent(50) { "first" } else { "borrow" };
                self.send_order(self.oracle.orders.len() - 1, mode)
            }
            28..38 if !self.oracle.orders.is_empty() => {
                let order = self.random.below(self.oracle.orders.len() as u64) as usize;
                let mode = if self.random.percent(60) { "retry" } else { "borrow" };
                self.send_order(order, mode)
            }
            38..46 => self.refund(),
            46..58 => {
                let donor = self.random.below(3) as usize;
                let home = (donor + 1 + self.random.below(2) as usize) % 3;
                let (id, need) = (format!("{:040x}", self.transfers.len() + 1), 1 + self.random.below(4));
                self.transfers.push(Transfer { id, donor, home, need, units: None });
                self.lend(self.transfers.len() - 1, need)
            }
            58..82 if !self.transfers.is_empty() => {
                let transfer = self.random.below(self.transfers.len() as u64) as usize;
                match self.random.below(10) {
                    0..2 => self.lend(transfer, self.transfers[transfer].need),
                    // Whoever finishes a transfer asks what was lent, and lends nothing.
                    2..4 => self.lend(transfer, 0),
                    4..9 => self.borrow(transfer),
                    _ => self.forget(transfer),
                }
            }
            82..88 if !self.late.is_empty() => {
                let late = self.random.below(self.late.len() as u64) as usize;
                let call = self.late.swap_remove(late);
                self.run_call(&call, None).map(drop)
            }
            88..92 => self.change_total(),
            92..96 => {
                let ms = self.random.below(6000);
                self.advance(ms);
                Ok(())
            }
            _ => {
                let with_records = self.random.percent(70);
                self.audit(with_records).map(drop)
            }
        }
    }

    /// A call of `preheat_shard`.
    fn preheat(&self, shard: usize, mode: &str, epoch: &str, plan: &str, units: i64) -> Call {
        let units = units.to_string();
        self.activities[shard].plain_call("preheat_shard", [mode, "operator", "", epoch, plan, &units, "", "", "", ""])
    }

    /// The parent says another total, once all shards have theirs.
    fn set_total(&mut self, before: Option<i64>, total: i64) -> Result<(), Broken> {
        let rules = |total| format!("=live 1 {EPOCH} - {total} - -");
        let (before, list) = (before.map(rules).unwrap_or_default(), before.map(|_| "=0 1 2").unwrap_or_default());
        let call = Activity::new(self.sale.as_str(), Layout::Cluster)
            .plain_call("parent", ["set", &before, "", list, "", "", &rules(total), "", "=0 1 2", "", ""]);
        self.total = total;
        self.run_call(&call, None).map(drop)
    }

    /// Begins an update of the total, or sends again what it lacks.
    fn change_total(&mut self) -> Result<(), Broken> {
        let mut update = match self.update.take() {
            Some(update) => update,
            None => {
                self.updates += 1;
                let wanted = (0..3).map(|_| self.random.below(7).cast_signed() - 3).collect();
                Update { plan: format!("p{}", self.updates), wanted, heard: vec![None; 3] }
            }
        };
        for shard in 0..3 {
            let call = self.preheat(shard, "update", EPOCH, &update.plan, update.wanted[shard]);
            let Some(reply) = self.send(call)? else { continue };
            let Reply::Array(parts) = &reply else { return broken("an answer makes sense", shown_reply(&reply)) };
            let (Some(OK | REPLAYED), Some(Reply::Text(units))) = (status(&reply), parts.get(1)) else {
                return broken("an answer makes sense", shown_reply(&reply));
            };
            let units = integer(units);
            if update.heard[shard].is_some() && update.heard[shard] != units {
                return broken("one plan is one change", format!("{units:?}, and {:?} before", update.heard[shard]));
            }
            update.heard[shard] = units;
        }
        match update.heard.iter().copied().sum::<Option<i64>>() {
            Some(units) => self.set_total(Some(self.total), self.total + units),
            None => {
                self.update = Some(update);
                Ok(())
            }
        }
    }

    /// The most units that there may be.
    fn most(&self) -> i64 {
        let changes = self.update.iter().flat_map(|update| update.wanted.iter().zip(&update.heard));
        self.total + changes.map(|(wanted, heard)| heard.unwrap_or((*wanted).max(0))).sum::<i64>()
    }

    /// A reset removes the shards, and what comes late makes none again.
    fn remove(&mut self, units: &[i64]) -> Result<(), Broken> {
        for (shard, units) in units.iter().enumerate() {
            if self.random.percent(50) {
                continue;
            }
            self.run_call(&self.preheat(shard, "remove", "2", "", 0), None)?;
            self.run_call(&self.preheat(shard, "set", EPOCH, "", *units), None)?;
            let args = ["shop", "ann", "1", "after", "first"];
            let sold = self.run_call(&self.activities[shard].call("deduct", args), None)?;
            if sold.as_ref().and_then(status) == Some(OK) {
                return broken("a removed shard sells nothing", self.activities[shard].id.to_string());
            }
        }
        Ok(())
    }

    fn send_order(&mut self, order: usize, mode: &str) -> Result<(), Broken> {
        let now = self.now();
        let sent = &mut self.oracle.orders[order];
        sent.note_sent(now);
        let (home, units) = sent.items[0];
        let units = units.to_string();
        let call = self.activities[home]
            .call("deduct", [b"shop", &sent.user[..], units.as_bytes(), sent.request.as_bytes(), mode.as_bytes()]);
        match self.send(call)?.as_ref().and_then(status) {
            // What is borrowed may bring it back.
            Some(OUT_OF_STOCK) if mode == "borrow" => Ok(()),
            Some(code) => self.oracle.orders[order].hear(code, None, mode != "first", now),
            None => Ok(()),
        }
    }

    fn refund(&mut self) -> Result<(), Broken> {
        let shard = self.random.below(3) as usize;
        let bought = self.oracle.bought(shard).into_iter().find(|(_, units)| *units > 0);
        let Some((user, most)) = bought.map(|(user, units)| (user.to_vec(), units.cast_unsigned())) else {
            return Ok(());
        };
        let (request, units) = (format!("f{}", self.oracle.refunds.len()), 1 + self.random.below(most));
        self.oracle.refunds.push(Refund::new(request, shard, (user, units), true));
        self.send_refund(self.oracle.refunds.len() - 1, "first")
    }

    fn send_refund(&mut self, refund: usize, mode: &str) -> Result<(), Broken> {
        let sent = &self.oracle.refunds[refund];
        let units = sent.units.to_string();
        let args = [b"shop", &sent.user[..], units.as_bytes(), sent.request.as_bytes(), mode.as_bytes()];
        let call = self.activities[sent.activity].call("refund", args);
        match self.send(call)?.as_ref().and_then(status) {
            Some(code) => self.oracle.hear_refund(refund, code, mode == "retry"),
            None => Ok(()),
        }
    }

    fn lend(&mut self, transfer: usize, need: u64) -> Result<(), Broken> {
        let Transfer { id, donor, home, .. } = &self.transfers[transfer];
        let (home, need) = (home.to_string(), need.to_string());
        let call = self.activities[*donor].plain_call("lend", ["home", id, EPOCH, &home, &need, &need, ""]);
        let Some(reply) = self.send(call)? else { return Ok(()) };
        let (OK | REPLAYED) = status(&reply).unwrap_or_default() else { return Ok(()) };
        let (lent, transfer) = (number(&reply, 1), &mut self.transfers[transfer]);
        if transfer.units.is_some() && transfer.units != lent {
            return broken("one id is one transfer", format!("{lent:?} units, and {:?} before", transfer.units));
        }
        transfer.units = lent;
        Ok(())
    }

    /// Only whoever knows what was lent borrows it.
    fn borrow(&mut self, transfer: usize) -> Result<(), Broken> {
        let Transfer { id, donor, home, units: Some(units), .. } = &self.transfers[transfer] else { return Ok(()) };
        let (donor, units) = (donor.to_string(), units.to_string());
        let call = self.activities[*home].plain_call("borrow", ["home", id, EPOCH, &donor, &units]);
        self.send(call).map(drop)
    }

    /// The donor may forget a transfer whose units have arrived.
    fn forget(&mut self, transfer: usize) -> Result<(), Broken> {
        let Transfer { id, donor, home, .. } = &self.transfers[transfer];
        let record = format!("\ttb:{id}");
        let has_arrived = {
            let keys = &self.engine.server.borrow().keys;
            keys.field(&self.activities[*home].keys.requests, record.as_bytes()).is_some()
        };
        let call = self.activities[*donor].plain_call("lend", ["home", "", EPOCH, &home.to_string(), "0", "0", id]);
        if has_arrived { self.send(call).map(drop) } else { Ok(()) }
    }

    fn check(&self) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let (mut promised, mut for_sale) = (0, 0);
        for (number, shard) in self.activities.iter().enumerate() {
            self.oracle.check(number, shard, &server.keys, server.now_ms())?;
            promised +=
                self.oracle.promised(number, server.now_ms()).values().map(|units| (*units).max(0)).sum::<i64>();
            for_sale += Found::read(shard, &server.keys)?.map_or(0, |found| found.for_sale);
        }
        if promised + for_sale > self.most() {
            let what = format!("{promised} promised and {for_sale} for sale in three shards, of {}", self.most());
            return broken("never more than there is", what);
        }
        Ok(())
    }

    /// Audits all shards, and repairs them and the transfers between them.
    fn audit(&mut self, with_records: bool) -> Result<Audit, Broken> {
        self.advance(1500);
        let now = self.now();
        let mut store = server::store(&self.engine, Layout::Cluster);
        let Self { oracle, random, activities, .. } = self;
        let compared = |shard: &ActivityId| {
            let number = activities.iter().position(|activity| activity.id == *shard)?;
            with_records.then(|| records(oracle, random, number, &activities[number], now))
        };
        let found = match internals::audit_shards(&mut store, &self.sale, &self.shards, None, compared) {
            Ok(found) => found,
            Err(error) => return broken("an audit says something", error.to_string()),
        };
        let audit = judge_shards(found, MissingOrders::Repair);
        self.tell(|| format!("    audit: {} {:?}", shown_audit(&audit), audit.notes));
        for transfer in &audit.plan.transfers {
            let done = internals::repair_transfer(&mut store, transfer);
            self.tell(|| format!("    transfer {} {} units: {done:?}", transfer.id, transfer.units));
        }
        for (number, activity) in self.activities.iter().enumerate() {
            let of_shard = audit.plan.repairs.iter().filter(|repair| repair.activity == activity.id.as_str());
            let repairs: Vec<&Repair> = of_shard.collect();
            if repairs.is_empty() {
                continue;
            }
            if with_records {
                note_reversals(&mut self.oracle, number, &repairs);
            }
            let done = internals::repair(&mut store, &activity.id, &repairs, false, None);
            if let Some(story) = &mut self.story {
                story.push(format!("    repair of {}: {:?}: {done:?}", activity.id, shown_repairs(&repairs)));
            }
        }
        Ok(audit)
    }

    /// Nothing fails any more: late copies arrive, what is in doubt is sent again, audits repair the rest, and no unit is lost.
    fn heal(&mut self, seed: u64) -> Result<(), Broken> {
        (self.step, self.is_calm, self.random) = (STEPS + 1, true, Random::of_step(seed, STEPS + 1));
        self.tell(|| "    nothing fails any more".to_owned());
        for call in std::mem::take(&mut self.late) {
            self.run_call(&call, None)?;
        }
        while self.update.is_some() {
            self.change_total()?;
        }
        // Whoever began a transfer ends it, or died.
        for transfer in 0..self.transfers.len() {
            if self.random.percent(50) {
                self.lend(transfer, self.transfers[transfer].need)?;
                self.borrow(transfer)?;
                self.forget(transfer)?;
            }
        }
        self.send_all()?;
        self.repair_all()?;
        self.was_cut = false;
        if self.oracle.orders.iter().any(|order| order.heard == Heard::Nothing) {
            self.send_all()?;
            self.repair_all()?;
        }
        let server = self.engine.server.borrow();
        let mut left = self.total;
        for (number, shard) in self.activities.iter().enumerate() {
            left -= Found::read(shard, &server.keys)?.map_or(0, |found| found.for_sale);
            left -= self.oracle.bought(number).values().sum::<i64>();
        }
        if left == 0 {
            Ok(())
        } else {
            broken("nothing is lost", format!("{left} of {} units are nobody's", self.total))
        }
    }

    /// Sends again what is in doubt, and what is not.
    fn send_all(&mut self) -> Result<(), Broken> {
        for refund in 0..self.oracle.refunds.len() {
            if self.oracle.refunds[refund].heard == Heard::Nothing {
                self.send_refund(refund, "retry")?;
            }
        }
        for order in 0..self.oracle.orders.len() {
            if matches!(self.oracle.orders[order].heard, Heard::Nothing | Heard::Bought) {
                self.send_order(order, "retry")?;
            }
            self.check()?;
        }
        Ok(())
    }

    /// Audits repair until nothing differs.
    fn repair_all(&mut self) -> Result<(), Broken> {
        self.advance(10_000);
        for round in 1.. {
            let audit = self.audit(true)?;
            self.check()?;
            match audit.verdict {
                Verdict::Match => break,
                verdict if round == ROUNDS => {
                    return broken("repairs end", format!("{verdict:?} {:?} {:?}", audit.differences, audit.notes));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
