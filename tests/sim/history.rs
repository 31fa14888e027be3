//! A random history of a sale: buyers, operators, faults, all from one seed.

use std::collections::BTreeSet;
use std::rc::Rc;

use seckill::Layout;

use super::audit;
use super::calls::{Activity, Call, column, number, shown, shown_reply, status};
use super::keys::{Bytes, Reply};
use super::oracle::*;
use super::random::Random;
use super::script::Engine;

/// The order over several slots that items belong to, which something else decides, and its digest.
const PRIMARY: &[u8] = b"m:seckill:stock:{9}";
const DIGEST: &[u8] = b"multi_deduct 0a";
/// ARGV[12] and what follows of a file in which no user and no request id comes twice.
const DISTINCT: [&[u8]; 5] = [b"", b"", b"", b"", b"1"];

/// Steps of a history.
pub const STEPS: u64 = 30;

/// What happens in a history: its steps, and those of them in which nothing fails.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub steps: Vec<u64>,
    pub calm: Vec<u64>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        Self { seed, steps: (1..=STEPS).collect(), calm: Vec::new() }
    }
}

/// What a call is about, so that its reply is heard by whoever waits for it.
#[derive(Debug, Clone)]
enum About {
    Order(usize),
    Orders(Vec<usize>),
    Confirm(usize),
    Confirms(Vec<usize>),
    Release(usize),
    Releases(Vec<usize>),
    Refund(usize),
    Refunds(Vec<usize>),
    /// A total, a pause or its end: sent again by whoever gets no answer.
    Change,
    /// Something that needs no answer.
    Upkeep,
}

/// A call, what it is about, and whether it may have been sent before.
#[derive(Debug, Clone)]
struct Message {
    about: About,
    call: Call,
    is_retry: bool,
}

/// A history while it happens.
pub struct History<'s> {
    pub engine: Rc<Engine>,
    /// Two of one layout: most happens in the first, multi-orders need both.
    pub activities: Vec<Activity>,
    pub oracle: Oracle,
    pub random: Random,
    users: Vec<Bytes>,
    pub step: u64,
    pub is_calm: bool,
    /// Whether a call was cut.
    pub was_cut: bool,
    /// Counters that drift by an audit, and that no ledger or record proves how to repair.
    pub left_to_operator: BTreeSet<usize>,
    /// Calls that were sent and have not run.
    late: Vec<Message>,
    /// Files that were sent, to be sent again.
    jobs: Vec<Message>,
    /// The last change of each kind that nobody answered.
    in_doubt: Vec<Message>,
    is_paused: bool,
    /// What happened, if somebody wants to read it.
    story: Option<&'s mut Vec<String>>,
}

/// Runs a history to its end.
pub fn run(engine: &Rc<Engine>, plan: &Plan, story: Option<&mut Vec<String>>) -> Result<(), Broken> {
    let mut history = History::begin(engine, plan.seed, story)?;
    for step in &plan.steps {
        history.take_step(*step, plan)?;
    }
    history.heal(plan.seed)
}

impl<'s> History<'s> {
    fn begin(engine: &Rc<Engine>, seed: u64, story: Option<&'s mut Vec<String>>) -> Result<Self, Broken> {
        engine.reset();
        let mut random = Random::of_step(seed, 0);
        let layout = *random.pick(&[
            Layout::Seckill,
            Layout::Seckill,
            Layout::Seckill,
            Layout::Sku,
            Layout::Coupon,
            Layout::Product,
        ]);
        let mut users: Vec<Bytes> = ["ann", "bob", "张三", "q\"u/o\\te x"].map(Into::into).into();
        if random.percent(10) {
            users.push(b"\xc4\xe3".to_vec());
        }
        let mut history = Self {
            engine: Rc::clone(engine),
            activities: ["1001", "1002"].map(|id| Activity::new(id, layout)).into(),
            oracle: Oracle::default(),
            random,
            users,
            step: 0,
            is_calm: true,
            was_cut: false,
            left_to_operator: BTreeSet::new(),
            late: Vec::new(),
            jobs: Vec::new(),
            in_doubt: Vec::new(),
            is_paused: false,
            story,
        };
        for activity in 0..2 {
            let total = (4 + history.random.below(12)).to_string();
            let limit = if history.random.percent(50) { "=3" } else { "" };
            let ledger = if history.random.percent(65) { "=1" } else { "=0" };
            let call = history.activities[activity]
                .call("preheat", ["operator", "", "create", "0", &total, limit, "=A title", "", "", ledger]);
            history.run_call(&call, None)?;
        }
        Ok(history)
    }

    pub fn now(&self) -> u64 {
        self.engine.server.borrow().now_ms()
    }

    /// Whether order records, which are UTF-8, can name every user.
    pub fn has_records(&self) -> bool {
        self.users.iter().all(|user| std::str::from_utf8(user).is_ok())
    }

    fn has_users(&self) -> bool {
        self.activities[0].layout.kind().has_users()
    }

    pub fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }

    pub fn advance(&self, ms: u64) {
        self.engine.server.borrow_mut().us += ms * 1000;
    }

    /// How many writes the next call may do, if it is cut.
    pub fn cut(&mut self) -> Option<u32> {
        let is_cut = !self.is_calm && self.random.percent(10);
        let writes = self.random.below(9) as u32;
        is_cut.then_some(writes)
    }

    /// Runs a call on the server; `None`: it was cut.
    pub fn run_call(&mut self, call: &Call, cut: Option<u32>) -> Result<Option<Reply>, Broken> {
        {
            let mut server = self.engine.server.borrow_mut();
            server.us += 137;
            server.cut_after = cut;
        }
        if call.script == "settle" && call.args.last().is_some_and(|step| step == b"expire") {
            self.oracle.expired_at = self.now();
        }
        let reply = self.engine.run(call.sha1, &call.keys, &call.args);
        self.engine.server.borrow_mut().cut_after = None;
        let step = self.step;
        match &reply {
            Some(reply) => self.tell(|| format!("{step:3} {} -> {}", shown(call), shown_reply(reply))),
            None => self.tell(|| format!("{step:3} {} -> cut after {} writes", shown(call), cut.unwrap_or_default())),
        }
        match &reply {
            None => self.was_cut = true,
            Some(Reply::Error(text)) => return broken("no call fails", format!("{}: {text}", shown(call))),
            Some(reply) if status(reply) == Some(CORRUPT) => {
                return broken("nothing becomes corrupt", format!("{}: {}", shown(call), shown_reply(reply)));
            }
            Some(reply) => {
                // Only retries, jobs and the end of holds write when they refuse; an overdue hold may be in the way.
                let is_first = call.args.iter().all(|arg| arg != b"retry");
                let writes = self.engine.server.borrow().writes;
                let refuses =
                    status(reply).is_some_and(|status| status < 0 && (status > -16 || call.script != "pause"));
                let refuses = refuses && !matches!(call.script, "hold" | "hold_file" | "settle" | "settle_file");
                if refuses && is_first && writes > 0 && !self.was_cut {
                    return broken("a refusal changes nothing", format!("{}: {writes} writes", shown(call)));
                }
                self.check_numbers(call, reply)?;
            }
        }
        Ok(reply)
    }

    /// Sends a message over a network that loses it, its reply, or the server in the middle of it.
    fn send(&mut self, message: Message) -> Result<(), Broken> {
        let dice = if self.is_calm { 100 } else { self.random.below(100) };
        if dice < 5 {
            let step = self.step;
            self.tell(|| format!("{step:3} {} is on its way", shown(&message.call)));
            self.doubt(&message);
            self.late.push(message);
            return Ok(());
        }
        let cut = self.cut();
        let reply = self.run_call(&message.call, cut)?;
        if let (Some(reply), 10..) = (&reply, dice) {
            return self.hear(&message, reply);
        }
        match &reply {
            Some(_) => self.tell(|| "    the reply is lost".to_owned()),
            None => self.note_cut(&message),
        }
        self.doubt(&message);
        Ok(())
    }

    /// A call was cut that may have taken units.
    fn note_cut(&mut self, message: &Message) {
        let now = self.now();
        let (orders, takes_again) = match &message.about {
            About::Order(order) => (std::slice::from_ref(order), false),
            About::Orders(orders) => (&orders[..], false),
            About::Confirm(order) => (std::slice::from_ref(order), true),
            About::Confirms(orders) => (&orders[..], true),
            _ => (&[][..], false),
        };
        for order in orders {
            let order = &mut self.oracle.orders[*order];
            order.was_cut |= !takes_again || order.may_expire_at <= now;
        }
    }

    /// Nobody knows whether a change was done.
    fn doubt(&mut self, message: &Message) {
        if matches!(message.about, About::Change) {
            self.forget_doubt(message);
            self.in_doubt.push(message.clone());
        }
    }

    /// A later change by the same script decides what an earlier one left in doubt.
    fn forget_doubt(&mut self, message: &Message) {
        self.in_doubt.retain(|earlier| earlier.call.script != message.call.script);
    }

    /// Takes note of a reply.
    fn hear(&mut self, message: &Message, reply: &Reply) -> Result<(), Broken> {
        let (now, is_retry) = (self.now(), message.is_retry);
        let Some(code) = status(reply) else { return self.hear_letters(message, reply) };
        let orders = &mut self.oracle.orders;
        match &message.about {
            About::Order(order) if message.call.script == "multi_deduct" => {
                let code = if code == REFUSED { multi_refusal(reply) } else { code };
                orders[*order].hear(code, None, is_retry, now)?;
                let is_first = code == REFUSED && !is_retry && self.engine.server.borrow().writes == 0;
                if is_first { self.check_multi_refusal(*order, reply) } else { Ok(()) }
            }
            About::Order(order) => {
                let deadline = number(reply, 3).map(i64::cast_unsigned);
                orders[*order].hear(code, deadline, is_retry, now)?;
                let had = self.engine.server.borrow().writes;
                if !is_retry && had == 0 { self.check_refusal(*order, code) } else { Ok(()) }
            }
            About::Confirm(order) => orders[*order].hear_confirm(code, now),
            About::Release(order) => orders[*order].hear_release(code),
            About::Refund(refund) => self.oracle.hear_refund(*refund, code, is_retry),
            About::Change => {
                // One that is refused decides nothing.
                if code > 0 {
                    self.forget_doubt(message);
                }
                Ok(())
            }
            // The whole job was refused: nothing is decided.
            About::Orders(_) | About::Confirms(_) | About::Releases(_) | About::Refunds(_) | About::Upkeep => Ok(()),
        }
    }

    /// Takes note of what a job replied: a letter an order. `r` says that its line was decided, no more.
    fn hear_letters(&mut self, message: &Message, reply: &Reply) -> Result<(), Broken> {
        let now = self.now();
        let Reply::Text(text) = reply else { return broken("an answer makes sense", shown_reply(reply)) };
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        let deadline =
            words.get(3).and_then(|deadline| std::str::from_utf8(deadline).ok()?.split(',').next()?.parse().ok());
        let (About::Orders(about) | About::Confirms(about) | About::Releases(about) | About::Refunds(about)) =
            &message.about
        else {
            return broken("an answer makes sense", shown_reply(reply));
        };
        for (number, letter) in about.iter().zip(words[0]) {
            let code = match letter {
                b'r' => continue,
                b'o' | b'O' => OK,
                b'l' => LIMIT_EXCEEDED,
                b's' => OUT_OF_STOCK,
                b'b' => REVERSED,
                b'p' => PAUSED,
                b'x' => EXCEEDS_BOUGHT,
                b'h' => NOT_HELD,
                b'v' | b'V' => EXPIRED,
                b'f' => CONFIRMED,
                _ => return broken("an answer makes sense", shown_reply(reply)),
            };
            let orders = &mut self.oracle.orders;
            match &message.about {
                About::Orders(_) => orders[*number].hear(code, deadline, false, now)?,
                About::Confirms(_) => orders[*number].hear_confirm(code, now)?,
                About::Releases(_) => orders[*number].hear_release(code)?,
                _ => self.oracle.hear_refund(*number, code, false)?,
            }
        }
        Ok(())
    }

    fn take_step(&mut self, step: u64, plan: &Plan) -> Result<(), Broken> {
        self.step = step;
        self.random = Random::of_step(plan.seed, step);
        self.is_calm = plan.calm.contains(&step);
        let wants_resume = self.is_paused && self.random.percent(25);
        match self.random.below(100) {
            _ if wants_resume => self.pause()?,
            0..28 => self.new_order()?,
            28..33 => self.new_job()?,
            33..37 => self.new_multi_order()?,
            37..50 => self.retry()?,
            50..62 => self.settle()?,
            62..65 => self.settle_many()?,
            65..68 => {
                let (what, most) = if self.random.percent(70) { ("expire", "20") } else { ("recount", "1000") };
                if self.has_users() {
                    let call = self.activities[0].call("settle", ["cron", most, what]);
                    self.send(Message { about: About::Upkeep, call, is_retry: false })?;
                }
            }
            68..75 => self.refund()?,
            75..78 => {
                let total = (3 + self.random.below(16)).to_string();
                let limit = if self.random.percent(20) { "=" } else { "" };
                let call =
                    self.activities[0].call("preheat", ["operator", "", "update", "0", &total, limit, "", "", "", ""]);
                self.send(Message { about: About::Change, call, is_retry: false })?;
            }
            78..81 => self.pause()?,
            81..86 if !self.late.is_empty() => {
                let late = self.random.below(self.late.len() as u64) as usize;
                let message = self.late.swap_remove(late);
                // Nobody waits for its reply any more.
                let cut = self.cut();
                if self.run_call(&message.call, cut)?.is_none() {
                    self.note_cut(&message);
                    self.doubt(&message);
                }
            }
            81..90 => {
                let ms = 1 + self.random.below(4000);
                self.advance(ms);
                self.tell(|| format!("{step:3} {ms} ms go by"));
            }
            90 => self.damage()?,
            91 => self.compare_with_file()?,
            92 => self.archive_and_restore()?,
            _ => {
                let activity = usize::from(self.random.percent(20));
                let with_records = self.has_records() && self.random.percent(60);
                audit::repair(self, activity, with_records)?;
            }
        }
        self.check()
    }

    pub fn check(&self) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let mut activities = self.activities.iter().enumerate();
        activities.try_for_each(|(number, activity)| self.oracle.check(number, activity, &server.keys, server.now_ms()))
    }

    /// Whether ledgers name what was answered.
    pub fn check_entries(&self) -> Result<(), Broken> {
        let keys = &self.engine.server.borrow().keys;
        let mut activities = self.activities.iter().enumerate();
        activities.try_for_each(|(number, activity)| self.oracle.check_entries(number, activity, keys))
    }

    /// A new order of some user.
    fn add_order(&mut self, is_hold: bool, items: Vec<(usize, u64)>) -> usize {
        let number = self.oracle.orders.len();
        let duration = *self.random.pick(&[3000, 3000, 20_000]);
        let user = self.random.pick(&self.users).clone();
        self.oracle.orders.push(Order { is_hold, duration, ..Order::new(number, user, items) });
        number
    }

    fn quantity(&mut self) -> u64 {
        if self.activities[0].layout == Layout::Coupon { 1 } else { 1 + self.random.below(3) }
    }

    fn new_order(&mut self) -> Result<(), Broken> {
        let is_hold = self.has_users() && self.random.percent(50);
        let quantity = self.quantity();
        let order = self.add_order(is_hold, vec![(0, quantity)]);
        self.oracle.orders[order].is_item = is_hold && self.random.percent(20);
        self.send_order(order, "first")
    }

    fn new_multi_order(&mut self) -> Result<(), Broken> {
        let items = vec![(0, self.quantity()), (1, self.quantity())];
        let order = self.add_order(false, items);
        self.send_order(order, "first")
    }

    /// Sends one order by itself.
    fn send_order(&mut self, number: usize, mode: &str) -> Result<(), Broken> {
        let now = self.now();
        let order = &mut self.oracle.orders[number];
        order.note_sent(now);
        let quantities: Vec<String> = order.items.iter().map(|(_, units)| units.to_string()).collect();
        let (request, duration) = (order.request.as_bytes(), order.duration.to_string());
        let activity = &self.activities[order.items[0].0];
        let user = &order.user[..];
        let call = match (&quantities[..], order.is_hold, mode) {
            ([one, other], ..) => {
                let (one, other) = (one.as_bytes(), other.as_bytes());
                let mut call =
                    activity.call("multi_deduct", [b"shop", mode.as_bytes(), b"", user, request, one, other]);
                call.keys.extend(self.activities[1].keys.in_order().map(Into::into));
                call
            }
            ([one], true, _) => {
                let mut args = vec![b"shop", user, one.as_bytes(), request, mode.as_bytes(), b"", duration.as_bytes()];
                if order.is_item {
                    args.extend([PRIMARY, DIGEST, b""]);
                }
                activity.call("hold", args)
            }
            // Most backends leave the mode out.
            ([one], false, "first") => activity.call("deduct", [b"shop", user, one.as_bytes(), request]),
            ([one], false, _) => activity.call("deduct", [b"shop", user, one.as_bytes(), request, mode.as_bytes()]),
            _ => unreachable!("an order has one item or two"),
        };
        self.send(Message { about: About::Order(number), call, is_retry: mode == "retry" })
    }

    /// A file of a few orders.
    fn new_job(&mut self) -> Result<(), Broken> {
        let is_hold = self.has_users() && self.random.percent(40);
        let count = 2 + self.random.below(3);
        let mut orders = Vec::new();
        for _ in 0..count {
            let quantity = self.quantity();
            orders.push(self.add_order(is_hold, vec![(0, quantity)]));
        }
        let (now, duration) = (self.now(), self.oracle.orders[orders[0]].duration);
        for order in &orders {
            let order = &mut self.oracle.orders[*order];
            order.duration = duration;
            order.note_sent(now);
        }
        let of: Vec<&Order> = orders.iter().map(|order| &self.oracle.orders[*order]).collect();
        let users = column(of.iter().map(|order| &order.user));
        let quantities = column(of.iter().map(|order| order.items[0].1.to_string()));
        let requests = column(of.iter().map(|order| &order.request));
        let mut columns = self.columns(users, quantities, count, requests)?;
        let is_distinct = of.iter().map(|order| &order.user).collect::<BTreeSet<_>>().len() == of.len();
        if is_hold || is_distinct {
            let limit = if is_hold { duration.to_string() } else { String::new() };
            let distinct = if is_distinct { "1" } else { "" };
            columns.extend(["", "", &limit, "", distinct].map(Into::into));
        }
        let call = self.activities[0].call(if is_hold { "hold_file" } else { "deduct_file" }, columns);
        let message = Message { about: About::Orders(orders), call, is_retry: true };
        self.jobs.push(message.clone());
        self.send(message)
    }

    /// The arguments of a job from ARGV[2] on, with all rows in one call.
    fn columns(&self, first: Bytes, second: Bytes, count: u64, requests: Bytes) -> Result<Vec<Bytes>, Broken> {
        let server = self.engine.server.borrow();
        let found = Found::read(&self.activities[0], &server.keys)?;
        let epoch = found.map(|found| found.epoch).unwrap_or_default();
        let job = format!("job{}", self.step);
        let lines = format!("1-{count}");
        Ok(vec![
            b"shop".into(),
            first,
            second,
            job.into(),
            b"digest".into(),
            epoch.into(),
            b"0".into(),
            lines.into(),
            requests,
            b"1".into(),
        ])
    }

    /// Sends something again that was sent before, whatever was answered.
    fn retry(&mut self) -> Result<(), Broken> {
        if let Some(message) = self.in_doubt.last().cloned().filter(|_| self.random.percent(20)) {
            return self.send(message);
        }
        match self.random.below(10) {
            0 if !self.jobs.is_empty() => {
                let message = self.random.pick(&self.jobs).clone();
                if let About::Orders(orders) = &message.about {
                    let now = self.now();
                    orders.iter().for_each(|order| self.oracle.orders[*order].note_sent(now));
                }
                self.send(message)
            }
            1 if !self.oracle.refunds.is_empty() => {
                let refund = self.random.below(self.oracle.refunds.len() as u64) as usize;
                self.send_refund(refund, "retry")
            }
            _ if !self.oracle.orders.is_empty() => {
                let order = self.random.below(self.oracle.orders.len() as u64) as usize;
                self.send_order(order, "retry")
            }
            _ => Ok(()),
        }
    }

    /// Some holds, of those that may be open more often.
    fn some_hold(&mut self) -> Option<usize> {
        let all = self.oracle.orders.iter().enumerate().filter(|(_, order)| order.is_hold);
        let (open, others): (Vec<_>, Vec<_>) =
            all.partition(|(_, order)| matches!(order.heard, Heard::Held(_) | Heard::Nothing));
        let from = if self.random.percent(75) && !open.is_empty() { open } else { others };
        (!from.is_empty()).then(|| self.random.pick(&from).0)
    }

    fn settle(&mut self) -> Result<(), Broken> {
        let Some(order) = self.some_hold() else { return Ok(()) };
        let step = *self.random.pick(&["confirm", "confirm", "release"]);
        self.send_settle(order, step)
    }

    fn send_settle(&mut self, number: usize, step: &str) -> Result<(), Broken> {
        self.note_settling(number, step);
        let order = &self.oracle.orders[number];
        let primary = if order.is_item { PRIMARY } else { b"" };
        let call = self.activities[0].call("settle", [b"shop", order.request.as_bytes(), step.as_bytes(), primary]);
        let about = if step == "confirm" { About::Confirm(number) } else { About::Release(number) };
        self.send(Message { about, call, is_retry: true })
    }

    fn note_settling(&mut self, number: usize, step: &str) {
        let order = &mut self.oracle.orders[number];
        order.is_releasing |= step == "release";
        order.is_confirming |= step == "confirm";
    }

    /// A file that ends a few holds.
    fn settle_many(&mut self) -> Result<(), Broken> {
        let mut orders: Vec<usize> = (0..3).filter_map(|_| self.some_hold()).collect();
        orders.retain(|order| !self.oracle.orders[*order].is_item);
        orders.sort_unstable();
        orders.dedup();
        if orders.is_empty() {
            return Ok(());
        }
        let step = *self.random.pick(&["confirm", "confirm", "release"]);
        orders.iter().for_each(|order| self.note_settling(*order, step));
        let requests = column(orders.iter().map(|order| &self.oracle.orders[*order].request));
        let columns = self.columns(requests, step.into(), orders.len() as u64, Vec::new())?;
        let call = self.activities[0].call("settle_file", columns);
        let about = if step == "confirm" { About::Confirms(orders) } else { About::Releases(orders) };
        let message = Message { about, call, is_retry: true };
        self.jobs.push(message.clone());
        self.send(message)
    }

    /// A refund of some units that a user has, or of too many.
    fn refund(&mut self) -> Result<(), Broken> {
        let activity = usize::from(self.random.percent(10));
        let bought: Vec<(Bytes, u64)> = self
            .oracle
            .bought(activity)
            .into_iter()
            .filter(|(_, units)| *units > 0)
            .map(|(user, units)| (user.to_vec(), units.cast_unsigned()))
            .collect();
        let count = if self.random.percent(20) { 2 } else { 1 };
        let mut refunds = Vec::new();
        for (user, most) in bought.into_iter().take(count) {
            let is_whole = matches!(self.activities[0].layout, Layout::Sku | Layout::Coupon) || self.random.percent(40);
            // Without users the script cannot know who has too little.
            let units = if is_whole { most } else { 1 + self.random.below(most + u64::from(self.has_users())) };
            let request = format!("f{}", self.oracle.refunds.len());
            refunds.push(self.oracle.refunds.len());
            let is_due = units <= most;
            if !is_due {
                // It may take what others are to return, heard or not.
                let of_user = self.oracle.refunds.iter_mut().filter(|refund| refund.user == user);
                of_user.for_each(|refund| refund.is_due = false);
            }
            self.oracle.refunds.push(Refund::new(request, activity, (user, units), is_due));
        }
        match refunds[..] {
            [] => Ok(()),
            [refund] => self.send_refund(refund, "first"),
            _ => {
                let of: Vec<&Refund> = refunds.iter().map(|refund| &self.oracle.refunds[*refund]).collect();
                let users = column(of.iter().map(|refund| &refund.user));
                let units = column(of.iter().map(|refund| refund.units.to_string()));
                let requests = column(of.iter().map(|refund| &refund.request));
                let mut columns = self.columns(users, units, of.len() as u64, requests)?;
                columns.extend(DISTINCT.map(Into::into));
                let call = self.activities[activity].call("refund_file", columns);
                let message = Message { about: About::Refunds(refunds), call, is_retry: true };
                self.jobs.push(message.clone());
                self.send(message)
            }
        }
    }

    fn send_refund(&mut self, number: usize, mode: &str) -> Result<(), Broken> {
        let refund = &mut self.oracle.refunds[number];
        refund.note_sent();
        let units = refund.units.to_string();
        let args = [b"shop", &refund.user[..], units.as_bytes(), refund.request.as_bytes(), mode.as_bytes()];
        let call = self.activities[refund.activity].call("refund", args);
        self.send(Message { about: About::Refund(number), call, is_retry: mode == "retry" })
    }

    /// An operator does what an audit says: sets the total that is in force.
    pub fn set_total_again(&mut self, activity: usize) -> Result<(), Broken> {
        let found = Found::read(&self.activities[activity], &self.engine.server.borrow().keys)?;
        let total = found.map_or(0, |found| found.total).to_string();
        let call =
            self.activities[activity].call("preheat", ["operator", "", "update", "0", &total, "", "", "", "", ""]);
        self.run_call(&call, None).map(drop)
    }

    fn pause(&mut self) -> Result<(), Broken> {
        let withdraws = if self.random.percent(60) { "1" } else { "" };
        let state = if self.is_paused { "live" } else { "paused" };
        self.is_paused = !self.is_paused;
        let withdraws = if state == "live" { "" } else { withdraws };
        let call = self.activities[0].plain_call("pause", [state, "operator", "", "0", withdraws]);
        self.send(Message { about: About::Change, call, is_retry: false })
    }

    /// Nothing fails any more: whatever is in doubt is sent again, holds expire, and audits repair what differs. Then nothing may be
    /// in doubt, promised twice, or lost.
    fn heal(&mut self, seed: u64) -> Result<(), Broken> {
        (self.step, self.is_calm, self.random) = (STEPS + 1, true, Random::of_step(seed, STEPS + 1));
        self.tell(|| "    nothing fails any more".to_owned());
        for message in &self.late {
            // Whoever confirms takes an expired hold again, so that it is decided now.
            let orders = match &message.about {
                About::Confirm(order) => std::slice::from_ref(order),
                About::Confirms(orders) => orders,
                _ => &[],
            };
            orders.iter().for_each(|order| self.oracle.orders[*order].is_confirming = true);
        }
        for message in std::mem::take(&mut self.in_doubt) {
            self.send(message)?;
        }
        self.is_paused = true;
        self.pause()?;
        for refund in 0..self.oracle.refunds.len() {
            if self.oracle.refunds[refund].heard == Heard::Nothing {
                self.send_refund(refund, "retry")?;
            }
        }
        for order in 0..self.oracle.orders.len() {
            let Order { heard, is_hold, is_confirming, is_releasing, .. } = self.oracle.orders[order];
            if heard == Heard::Nothing {
                self.send_order(order, "retry")?;
            }
            if is_hold && is_confirming {
                self.send_settle(order, "confirm")?;
            }
            if is_hold && is_releasing && matches!(self.oracle.orders[order].heard, Heard::Held(_)) {
                self.send_settle(order, "release")?;
            }
            self.check()?;
        }
        self.advance(30_000);
        if self.has_users() {
            let call = self.activities[0].call("settle", ["cron", "500", "expire"]);
            self.run_call(&call, None)?;
            self.release_items()?;
        }
        audit::heal(self)?;
        self.send_everything_again()?;
        audit::end(self)
    }

    /// Items that nobody bought return: no expiry ends them.
    fn release_items(&mut self) -> Result<(), Broken> {
        for order in 0..self.oracle.orders.len() {
            if self.oracle.orders[order].is_item && matches!(self.oracle.orders[order].heard, Heard::Held(_)) {
                self.send_settle(order, "release")?;
            }
        }
        self.check()
    }

    /// However late: what was answered is answered again, and nothing moves.
    fn send_everything_again(&mut self) -> Result<(), Broken> {
        self.tell(|| "    everything is sent again".to_owned());
        for message in std::mem::take(&mut self.late) {
            // Nor is another try of an order that was refused and not kept.
            let is_rejected = |order: usize| self.oracle.orders[order].heard == Heard::Rejected;
            let moves = match message.about {
                About::Change | About::Upkeep => true,
                About::Order(order) => is_rejected(order),
                _ => false,
            };
            if !moves {
                self.run_call(&message.call, None)?;
            }
        }
        for order in 0..self.oracle.orders.len() {
            match self.oracle.orders[order].heard {
                Heard::Rejected => {}
                Heard::Nothing => return broken("nothing stays in doubt", self.oracle.orders[order].request.clone()),
                Heard::Bought if self.oracle.orders[order].is_hold => self.send_settle(order, "confirm")?,
                _ => self.send_order(order, "retry")?,
            }
            self.check()?;
        }
        for refund in 0..self.oracle.refunds.len() {
            if self.oracle.refunds[refund].heard == Heard::Ended {
                self.send_refund(refund, "retry")?;
            }
        }
        Ok(())
    }
}

/// What a refused multi-order's items say that a caller must know: otherwise it is just refused.
fn multi_refusal(reply: &Reply) -> i64 {
    let Reply::Text(text) = reply else { return REFUSED };
    let text = String::from_utf8_lossy(text).into_owned();
    let mut items = text.split(' ').skip(1).filter_map(|item| item.split(',').next()?.parse().ok());
    items.find(|code| [CORRUPT, REQUEST_CONFLICT, REVERSED].contains(code)).unwrap_or(REFUSED)
}
