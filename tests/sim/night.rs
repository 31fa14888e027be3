//! A night of a sale: the real client code in several processes at once, over a network that loses, delays and cuts. Backends
//! sell and give back, operators change, audit and repair, holds expire; processes are killed, and others start.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seckill::internals::{self, Repair, System};
use seckill::{
    ActivityId, Audit, Class, FieldChange, Kind, Layout, Limit, MissingOrders, Preheat, Quantity, RefundOf, RequestId,
    Status, Store, StoreError, Target, Units, UserId, Verdict,
};

use super::audit::{self, Rows};
use super::calls::Activity;
use super::history::{Plan, STEPS};
use super::keys::Bytes;
use super::oracle::*;
use super::random::Random;
use super::script::Engine;
use super::world::{Faults, TIMEOUT, Turn, World};

/// Processes that buy, sell and repair at once.
const PROCESSES: usize = 3;
/// What may go wrong with each thing that is sent.
const FAULTS: Faults = Faults { lost: 3, unanswered: 4, late: 5, cut: 4 };
/// The process that opens the night, and heals what it left.
const ALONE: usize = 0;
/// How often an audit and its repairs are repeated at the end until nothing differs.
const ROUNDS: usize = 6;

/// What a process does with the library.
#[derive(Debug, Clone)]
enum Op {
    Preheat {
        how: Preheat,
        total: u64,
        limit: FieldChange<Limit>,
        ledger: Option<bool>,
    },
    Order {
        user: UserId,
        units: u64,
        request: String,
        hold_for: Option<Duration>,
    },
    Settle {
        request: String,
        confirms: bool,
    },
    Refund {
        user: UserId,
        units: u64,
        request: String,
    },
    Expire,
    Pause(Option<bool>),
    /// Audits, with order records of that time: what it finds comes back before anything is repaired.
    Audit(Option<(Rows, u64)>),
    Repair(Vec<Repair>),
}

/// An operation, and where.
struct Job {
    layout: Layout,
    activity: ActivityId,
    op: Op,
}

/// How it ended.
enum Done {
    /// Nothing was begun.
    Nothing,
    Status(Status, Option<u64>),
    Audited(Box<Audit>),
    Failed(StoreError),
}

/// A process: it does what it is given with a store of its own.
fn work(system: Arc<dyn System>, next: &mut dyn FnMut(Done) -> Job) {
    let mut done = Done::Nothing;
    let mut store: Option<Store> = None;
    loop {
        let Job { layout, activity, op } = next(done);
        let store = store.get_or_insert_with(|| {
            let target = Target::new("redis://simulated", "a test", TIMEOUT).expect("it is a URL");
            Store::new(target.on(Arc::clone(&system)), layout, "operator".to_owned())
        });
        done = perform(store, activity, op).unwrap_or_else(Done::Failed);
    }
}

fn perform(store: &mut Store, activity: ActivityId, op: Op) -> Result<Done, StoreError> {
    let id = |text: String| text.parse::<RequestId>().expect("it is a request id");
    let quantity = |units| Quantity::new(units).expect("it is a quantity");
    let done = match op {
        Op::Preheat { how, total, limit, ledger } => {
            let (starts_at, ends_at) = (FieldChange::Keep, FieldChange::Keep);
            let total = Units::new(total);
            let plan = seckill::Plan {
                id: activity,
                title: None,
                total,
                per_user_limit: limit,
                starts_at,
                ends_at,
                ledger,
                shards: None,
            };
            let mut status = Status::Ok;
            seckill::preheat_all(store, &[&plan], how, false, None, |_, done| status = done.status)?;
            Done::Status(status, None)
        }
        Op::Order { user, units, request, hold_for } => {
            let order = seckill::Order {
                activity,
                user: Some(user.clone()),
                quantity: quantity(units),
                request: id(request),
                reason: None,
                per_user_limit: None,
            };
            match hold_for {
                None => Done::Status(seckill::deduct(store, &order, false)?.status, None),
                Some(hold_for) => {
                    let (status, deadline) = internals::hold(store, &order, &user, hold_for)?;
                    Done::Status(status, deadline.map(seckill::Millis::get))
                }
            }
        }
        Op::Settle { request, confirms } => {
            Done::Status(internals::settle(store, &activity, &id(request), confirms)?, None)
        }
        Op::Refund { user, units, request } => {
            let (user, of) = (Some((&user).into()), RefundOf::Quantity(quantity(units)));
            let refund = seckill::Refund { activity, user, of, request: id(request), reason: None };
            Done::Status(seckill::refund(store, &refund, false)?.status, None)
        }
        Op::Expire => Done::Status(internals::expire(store, &activity)?, None),
        Op::Pause(withdraws) => Done::Status(internals::pause(store, &activity, withdraws)?, None),
        Op::Audit(records) => {
            let compared = records.map(|(rows, at)| audit::compared(&rows, at));
            let evidence = seckill::audit(store, &activity, None, compared)?;
            Done::Audited(Box::new(seckill::judge(evidence, MissingOrders::Repair)))
        }
        Op::Repair(repairs) => {
            internals::repair(store, &activity, &repairs.iter().collect::<Vec<_>>(), false, None)?;
            Done::Status(Status::Ok, None)
        }
    };
    Ok(done)
}

/// What an operation is about, for the oracle, which hears how it ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    Order(usize),
    Confirm(usize),
    Release(usize),
    Refund(usize),
    Audit { with_records: bool, answers: u64 },
    Repair,
    Upkeep,
}

/// What a process is doing.
struct Task {
    about: About,
    /// Of an order that was never sent before: the fewest units for sale, and the most that its user held, while it was under way.
    seen: Option<(i64, i64)>,
}

struct Night<'s> {
    world: World<Job, Done>,
    engine: Rc<Engine>,
    seed: u64,
    activity: Activity,
    oracle: Oracle,
    random: Random,
    users: Vec<Bytes>,
    /// By number of the process.
    tasks: Vec<Option<Task>>,
    /// Steps that nobody began yet.
    steps: VecDeque<u64>,
    calm: Vec<u64>,
    /// Repairs that an audit planned, to be applied later, and how many answers there were when it began.
    planned: Option<(Vec<Repair>, u64)>,
    /// How many orders were bought by an answer, so far.
    answers: u64,
    /// Whether an audit wants the total to be set again, because an update was cut.
    wants_total: bool,
    has_ledger: bool,
    was_cut: bool,
    is_paused: bool,
    story: Option<&'s mut Vec<String>>,
}

/// Runs a night to its end.
pub fn run(engine: &Rc<Engine>, plan: &Plan, story: Option<&mut Vec<String>>) -> Result<(), Broken> {
    engine.reset();
    let mut random = Random::of_step(plan.seed, 0);
    let layout = *random.pick(&[Layout::Seckill, Layout::Seckill, Layout::Sku, Layout::Coupon]);
    let mut night = Night {
        world: World::new(engine, work),
        engine: Rc::clone(engine),
        seed: plan.seed,
        activity: Activity::new("1001", layout),
        oracle: Oracle::default(),
        random,
        users: ["ann", "bob", "张三", "q\"u/o\\te x"].map(Into::into).into(),
        tasks: Vec::new(),
        steps: plan.steps.clone().into(),
        calm: plan.calm.clone(),
        planned: None,
        answers: 0,
        wants_total: false,
        has_ledger: false,
        was_cut: false,
        is_paused: false,
        story,
    };
    night.world.start(plan.seed, 0);
    night.tasks.push(None);
    night.open()?;
    for _ in 0..PROCESSES {
        night.start();
    }
    night.pass()?;
    night.heal()
}

impl Night<'_> {
    fn tell(&mut self, line: impl FnOnce() -> String) {
        let us = self.world.us();
        if let Some(story) = &mut self.story {
            story.push(format!("{:>7}.{:03} {}", us / 1000 % 10_000_000, us % 1000, line()));
        }
    }

    fn now(&self) -> u64 {
        self.world.us() / 1000
    }

    /// A new process, which soon looks for something to do.
    fn start(&mut self) -> usize {
        let skew = self.random.below(400).cast_signed() - 200;
        let process = self.world.start(self.random.below(u64::MAX), skew);
        self.tasks.push(None);
        self.world.rest(process, 1000);
        process
    }

    fn open(&mut self) -> Result<(), Broken> {
        let total = 4 + self.random.below(12);
        let limit =
            if self.activity.layout == Layout::Seckill && self.random.percent(50) { Limit::new(3) } else { None };
        self.has_ledger = self.random.percent(65);
        let ledger = Some(self.has_ledger);
        let limit = limit.map_or(FieldChange::Keep, FieldChange::Set);
        let op = Op::Preheat { how: Preheat::Create, total, limit, ledger };
        self.steps_alone(vec![(About::Upkeep, op)])
    }

    /// Lets one calm process do some things, one after the other, while the others do nothing.
    fn steps_alone(&mut self, todo: Vec<(About, Op)>) -> Result<(), Broken> {
        for (about, op) in todo {
            let mut turn = self.give(ALONE, about, op, Faults::NONE, None)?;
            loop {
                if let Some(turn) = turn.take() {
                    self.note(&turn)?;
                    if let Turn::Idle(_, done) = turn {
                        self.hear(ALONE, done)?;
                        break;
                    }
                }
                turn = Some(self.world.turn());
            }
        }
        Ok(())
    }

    /// Lets the night pass, until all steps are done and nothing is on its way any more.
    fn pass(&mut self) -> Result<(), Broken> {
        loop {
            let mut turn = Some(self.world.turn());
            while let Some(now) = turn.take() {
                self.note(&now)?;
                match now {
                    Turn::Idle(process, done) => {
                        self.hear(process, done)?;
                        self.check()?;
                        let us = 1000 + self.random.below(400_000);
                        self.world.rest(process, us);
                    }
                    Turn::Rested(process) => match self.steps.pop_front() {
                        Some(step) => turn = self.take_step(process, step)?,
                        None => self.world.retire(process),
                    },
                    Turn::Killed(process) => {
                        self.tell(|| format!("p{process} is killed"));
                        self.tasks[process] = None;
                        self.start();
                    }
                    Turn::Executed(_) => self.check()?,
                    Turn::Crashed(_) => {}
                    Turn::Over => return Ok(()),
                }
            }
        }
    }

    /// Takes note of what happened.
    fn note(&mut self, turn: &Turn<Done>) -> Result<(), Broken> {
        match turn {
            Turn::Crashed(text) => broken("no process panics", text.clone()),
            Turn::Executed(was_cut) => {
                self.was_cut |= *was_cut;
                if *was_cut {
                    self.tell(|| "    a script was cut".to_owned());
                }
                self.look()
            }
            _ => Ok(()),
        }
    }

    /// What is for sale, and what users hold, now, for orders that are under way.
    fn look(&mut self) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let Some(found) = Found::read(&self.activity, &server.keys)? else { return Ok(()) };
        for task in self.tasks.iter_mut().flatten() {
            if let (About::Order(order), Some((fewest, most))) = (task.about, &mut task.seen) {
                let held = found.held.get(&self.oracle.orders[order].user).copied().unwrap_or_default();
                (*fewest, *most) = ((*fewest).min(found.for_sale), (*most).max(held));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        self.oracle.check(0, &self.activity, &server.keys, server.now_ms())
    }

    fn give(
        &mut self,
        process: usize,
        about: About,
        op: Op,
        faults: Faults,
        killed_after: Option<u64>,
    ) -> Result<Option<Turn<Done>>, Broken> {
        self.tell(|| format!("p{process} {about:?} {op:?}"));
        let random = Random::of_step(self.random.below(u64::MAX), 1);
        let is_new =
            |order: usize| self.oracle.orders[order].told == Told::Nothing && !self.oracle.orders[order].was_cut;
        let seen = match about {
            About::Order(order) if is_new(order) => Some((i64::MAX, 0)),
            _ => None,
        };
        if let About::Order(order) = about {
            // From now on it was sent.
            self.oracle.orders[order].was_cut = true;
        }
        self.tasks[process] = Some(Task { about, seen });
        self.look()?;
        let job = Job { layout: self.activity.layout, activity: self.activity.id.clone(), op };
        Ok(self.world.give(process, job, random, faults, killed_after))
    }

    fn take_step(&mut self, process: usize, step: u64) -> Result<Option<Turn<Done>>, Broken> {
        self.random = Random::of_step(self.seed, step);
        let Some((about, op)) = self.choose() else {
            self.world.rest(process, 1000);
            return Ok(None);
        };
        let is_calm = self.calm.contains(&step);
        let killed_after = self.random.below(6);
        let killed_after = (!is_calm && self.random.percent(5)).then_some(killed_after);
        self.give(process, about, op, if is_calm { Faults::NONE } else { FAULTS }, killed_after)
    }

    /// Whether a process is at work on an order.
    fn is_under_way(&self, order: usize) -> bool {
        let of = [About::Order(order), About::Confirm(order), About::Release(order)];
        self.tasks.iter().flatten().any(|task| of.contains(&task.about))
    }

    fn is_selling(&self) -> bool {
        self.tasks.iter().flatten().any(|task| matches!(task.about, About::Order(_) | About::Confirm(_)))
    }

    fn is_repairing(&self) -> bool {
        self.tasks.iter().flatten().any(|task| task.about == About::Repair)
    }

    fn choose(&mut self) -> Option<(About, Op)> {
        if self.is_paused && self.random.percent(25) {
            return Some(self.pause());
        }
        match self.random.below(100) {
            0..35 => Some(self.new_order()),
            35..50 => {
                let count = self.oracle.orders.len() as u64;
                let order = (count > 0).then(|| self.random.below(count) as usize)?;
                (!self.is_under_way(order) && !self.is_repairing()).then(|| self.order(order))
            }
            50..65 => {
                let order = self.some_hold()?;
                let confirms = self.random.percent(66);
                Some(self.settle(order, confirms))
            }
            65..70 => {
                self.oracle.expired_at = self.now();
                Some((About::Upkeep, Op::Expire))
            }
            70..78 => self.refund(),
            78..82 => {
                let (how, total) = (Preheat::Update, 3 + self.random.below(16));
                let limit = if self.random.percent(20) && self.activity.layout == Layout::Seckill {
                    FieldChange::Clear
                } else {
                    FieldChange::Keep
                };
                Some((About::Upkeep, Op::Preheat { how, total, limit, ledger: None }))
            }
            82..85 => Some(self.pause()),
            // Processes that were answered since may have what an audit missed: an operator waits until nobody asks again, and looks anew.
            _ => match self.planned.take().filter(|(_, answers)| *answers == self.answers && !self.is_selling()) {
                Some((repairs, _)) => Some(self.repair(repairs)),
                None => {
                    // Without a ledger, what is newer than the records looks missing; nor may an answer be on its way.
                    let is_alone = self.tasks.iter().all(Option::is_none);
                    let with_records = self.has_ledger && is_alone && self.random.percent(80);
                    Some(self.audit(with_records))
                }
            },
        }
    }

    fn new_order(&mut self) -> (About, Op) {
        let is_hold = self.random.percent(50);
        let units = if self.activity.layout == Layout::Coupon { 1 } else { 1 + self.random.below(3) };
        let number = self.oracle.orders.len();
        let duration = *self.random.pick(&[3000, 3000, 20_000]);
        let user = self.random.pick(&self.users).clone();
        self.oracle.orders.push(Order { is_hold, duration, ..Order::new(number, user, vec![(0, units)]) });
        self.order(number)
    }

    fn order(&mut self, number: usize) -> (About, Op) {
        let now = self.now();
        let order = &mut self.oracle.orders[number];
        order.note_sent(now);
        let hold_for = order.is_hold.then(|| Duration::from_millis(order.duration));
        let (request, units) = (order.request.clone(), order.items[0].1);
        (About::Order(number), Op::Order { user: user_id(&order.user), units, request, hold_for })
    }

    fn some_hold(&mut self) -> Option<usize> {
        let all = 0..self.oracle.orders.len();
        let holds: Vec<usize> = all.filter(|at| self.oracle.orders[*at].is_hold && !self.is_under_way(*at)).collect();
        let is_open = |at: &usize| matches!(self.oracle.orders[*at].told, Told::Held(_) | Told::Nothing);
        let (open, others): (Vec<usize>, Vec<usize>) = holds.into_iter().partition(is_open);
        let from = if self.random.percent(75) && !open.is_empty() { open } else { others };
        (!from.is_empty()).then(|| *self.random.pick(&from))
    }

    fn settle(&mut self, number: usize, confirms: bool) -> (About, Op) {
        let order = &mut self.oracle.orders[number];
        order.is_confirming |= confirms;
        order.is_releasing |= !confirms;
        let about = if confirms { About::Confirm(number) } else { About::Release(number) };
        (about, Op::Settle { request: order.request.clone(), confirms })
    }

    fn refund(&mut self) -> Option<(About, Op)> {
        let bought = self.oracle.bought(0).into_iter().filter(|(_, units)| *units > 0);
        let bought: Vec<(Bytes, u64)> = bought.map(|(user, units)| (user.to_vec(), units.cast_unsigned())).collect();
        if bought.is_empty() {
            return None;
        }
        let (user, most) = self.random.pick(&bought).clone();
        let is_whole = self.activity.layout != Layout::Seckill || self.random.percent(40);
        let units = if is_whole { most } else { 1 + self.random.below(most + 1) };
        let is_due = units <= most;
        if !is_due {
            let of_user = self.oracle.refunds.iter_mut().filter(|refund| refund.user == user);
            of_user.for_each(|refund| refund.is_due = false);
        }
        let number = self.oracle.refunds.len();
        let request = format!("f{number}");
        self.oracle.refunds.push(Refund { request, activity: 0, user, units, told: Told::Nothing, is_due });
        Some(self.refund_again(number))
    }

    fn refund_again(&mut self, number: usize) -> (About, Op) {
        let refund = &mut self.oracle.refunds[number];
        if refund.told == Told::Rejected {
            (refund.told, refund.is_due) = (Told::Nothing, false);
        }
        let (user, units, request) = (user_id(&refund.user), refund.units, refund.request.clone());
        (About::Refund(number), Op::Refund { user, units, request })
    }

    fn pause(&mut self) -> (About, Op) {
        let withdraws = (!self.is_paused).then(|| self.random.percent(60));
        self.is_paused = !self.is_paused;
        (About::Upkeep, Op::Pause(withdraws))
    }

    fn audit(&mut self, with_records: bool) -> (About, Op) {
        let now = self.now();
        let rows =
            with_records.then(|| (audit::record_rows(&mut self.oracle, &mut self.random, 0, &self.activity, now), now));
        (About::Audit { with_records, answers: self.answers }, Op::Audit(rows))
    }

    fn repair(&mut self, repairs: Vec<Repair>) -> (About, Op) {
        audit::note_reversals(&mut self.oracle, 0, &repairs.iter().collect::<Vec<_>>());
        (About::Repair, Op::Repair(repairs))
    }

    /// Takes note of how an operation ended.
    fn hear(&mut self, process: usize, done: Done) -> Result<(), Broken> {
        let Some(Task { about, seen }) = self.tasks[process].take() else { return Ok(()) };
        let now = self.now();
        let (status, deadline) = match done {
            Done::Nothing => return Ok(()),
            Done::Failed(error) => {
                self.tell(|| format!("p{process} {about:?}: {error}"));
                return Ok(());
            }
            Done::Audited(audit) => return self.hear_audit(&audit, about),
            Done::Status(status, deadline) => (status, deadline),
        };
        self.tell(|| format!("p{process} {about:?}: {status}"));
        let code = status.code();
        match about {
            About::Order(order) => {
                self.answers += u64::from(code > 0);
                self.oracle.orders[order].hear(code, deadline, false, now)?;
                self.check_refusal(order, status, seen)
            }
            About::Confirm(order) => {
                self.answers += u64::from(code > 0);
                self.oracle.orders[order].hear_confirm(code, now)
            }
            About::Release(order) => self.oracle.orders[order].hear_release(code),
            About::Refund(refund) => self.oracle.hear_refund(refund, code, false),
            About::Audit { .. } | About::Repair | About::Upkeep if status == Status::Corrupt => {
                broken("nothing becomes corrupt", format!("{about:?}"))
            }
            About::Audit { .. } | About::Repair | About::Upkeep => Ok(()),
        }
    }

    /// A refusal is true: at some instant while the order was under way it could not be had.
    fn check_refusal(&self, order: usize, status: Status, seen: Option<(i64, i64)>) -> Result<(), Broken> {
        let Some((fewest, most)) = seen else { return Ok(()) };
        let server = self.engine.server.borrow();
        let limit = Found::read(&self.activity, &server.keys)?.and_then(|found| found.limit);
        let units = self.oracle.orders[order].items[0].1.cast_signed();
        let is_true = match (status, self.activity.layout.kind()) {
            (Status::OutOfStock, _) => fewest < units,
            (Status::LimitExceeded, Kind::Hash) => limit.is_none_or(|limit| most + units > limit),
            (Status::LimitExceeded, _) => most > 0,
            _ => true,
        };
        let what = || format!("{status} for {}: {fewest} for sale, {most} held", self.oracle.orders[order].request);
        if is_true { Ok(()) } else { broken("a refusal is true", what()) }
    }

    fn hear_audit(&mut self, audit: &Audit, about: About) -> Result<(), Broken> {
        self.tell(|| format!("{about:?}: {}", audit::shown(audit)));
        let drifts = audit.differences.iter().any(|difference| difference.class != Class::OverLimit);
        let About::Audit { with_records, answers } = about else { return Ok(()) };
        if !with_records && !self.was_cut && audit.verdict == Verdict::Drift && drifts {
            return broken("nothing drifts without a fault", format!("{:?}", audit.differences));
        }
        self.wants_total = audit.plan.kept.iter().any(|(_, _, why)| why.contains("`preheat --update` sets the total"));
        self.planned = (!audit.plan.repairs.is_empty()).then(|| (audit.plan.repairs.clone(), answers));
        Ok(())
    }

    /// Nothing fails any more: whatever is in doubt is sent again, holds expire, and audits repair what differs. Then nothing may be
    /// in doubt, promised twice, or lost.
    fn heal(&mut self) -> Result<(), Broken> {
        self.random = Random::of_step(self.seed, STEPS + 1);
        self.tell(|| "nothing fails any more".to_owned());
        self.tasks.iter_mut().for_each(|task| *task = None);
        let mut todo = vec![(About::Upkeep, Op::Pause(None))];
        for refund in 0..self.oracle.refunds.len() {
            if self.oracle.refunds[refund].told == Told::Nothing {
                todo.push(self.refund_again(refund));
            }
        }
        for order in 0..self.oracle.orders.len() {
            if self.oracle.orders[order].told == Told::Nothing {
                todo.push(self.order(order));
            }
        }
        self.steps_alone(todo)?;
        self.check()?;
        let mut todo = Vec::new();
        for order in 0..self.oracle.orders.len() {
            let Order { told, is_hold, is_confirming, is_releasing, .. } = self.oracle.orders[order];
            if is_hold && is_confirming {
                todo.push(self.settle(order, true));
            }
            if is_hold && is_releasing && matches!(told, Told::Held(_)) {
                todo.push(self.settle(order, false));
            }
        }
        self.steps_alone(todo)?;
        self.check()?;
        self.wait(Duration::from_secs(30));
        self.steps_alone(vec![(About::Upkeep, Op::Expire)])?;
        self.repair_all()?;
        self.send_everything_again()?;
        self.end()
    }

    /// Lets time go by in which nothing happens.
    fn wait(&mut self, duration: Duration) {
        self.world.rest(ALONE, duration.as_micros() as u64);
        while !matches!(self.world.turn(), Turn::Rested(_)) {}
    }

    fn repair_all(&mut self) -> Result<(), Broken> {
        for round in 1.. {
            self.planned = None;
            self.wait(Duration::from_millis(1500));
            let audit = self.audit(true);
            self.steps_alone(vec![audit])?;
            if self.wants_total && round < ROUNDS {
                let update = self.total_again()?;
                self.steps_alone(vec![update])?;
                continue;
            }
            let Some((repairs, _)) = self.planned.take() else { break };
            if round == ROUNDS {
                return broken(
                    "repairs end",
                    format!("{:?}", audit::shown_repairs(&repairs.iter().collect::<Vec<_>>())),
                );
            }
            let repair = self.repair(repairs);
            self.steps_alone(vec![repair])?;
        }
        self.check()
    }

    /// An operator does what an audit says: sets the total that is stored.
    fn total_again(&self) -> Result<(About, Op), Broken> {
        let found = Found::read(&self.activity, &self.engine.server.borrow().keys)?;
        let total = found.map_or(0, |found| found.total).cast_unsigned();
        Ok((About::Upkeep, Op::Preheat { how: Preheat::Update, total, limit: FieldChange::Keep, ledger: None }))
    }

    /// What was answered is answered again, and nothing moves.
    fn send_everything_again(&mut self) -> Result<(), Broken> {
        self.tell(|| "everything is sent again".to_owned());
        let mut todo = Vec::new();
        for order in 0..self.oracle.orders.len() {
            match self.oracle.orders[order].told {
                Told::Rejected => {}
                Told::Nothing => return broken("nothing stays in doubt", self.oracle.orders[order].request.clone()),
                Told::Bought if self.oracle.orders[order].is_hold => todo.push(self.settle(order, true)),
                _ => todo.push(self.order(order)),
            }
        }
        self.steps_alone(todo)?;
        self.check()
    }

    /// Whether all units are bought, or for sale.
    fn end(&mut self) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let Some(found) = Found::read(&self.activity, &server.keys)? else { return Ok(()) };
        let bought = self.oracle.bought(0);
        let sum: i64 = bought.values().sum();
        if bought.values().all(|units| *units >= 0) && found.for_sale + sum != found.total {
            return broken(
                "nothing is lost",
                format!("{sum} bought and {} for sale of {}", found.for_sale, found.total),
            );
        }
        Ok(())
    }
}

fn user_id(user: &[u8]) -> UserId {
    std::str::from_utf8(user).expect("users of a night are UTF-8").parse().expect("it is a user")
}
