//! A night of a sale: the real client code in several processes at once, over a network that loses, delays and cuts. Backends
//! sell and give back, operators change, audit and repair, holds expire; processes are killed, and others start.

mod archived;
mod failures;
mod feed;
mod foreign;
mod gone;
mod harm;
mod plain;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use seckill::internals::{Archives, EntryId, FileLine, OrderFile, Repair, RepairPlan, ShardCount, Shards, slot};
use seckill::{
    ActivityId, Audit, Class, FieldChange, Kind, Layout, Limit, Millis, PreheatMode, Status, UserId, Verdict,
};

use failures::{HeardAt, RECOVERED_AFTER};
use feed::Loader;
use gone::Gone;
use harm::Harm;
use plain::InHand;

use super::audit;
use super::calls::Activity;
use super::history::{Plan, STEPS};
use super::keys::Bytes;
use super::oracle::*;
use super::random::Random;
use super::script::Engine;
use super::slots::Slots;
use super::work::{Done, Ended, Job, Line, Op, SAME_WINDOW, Window, is_shut, quantity, work};
use super::world::{Faults, Turn, World};

/// Processes that buy, sell and repair at once.
const PROCESSES: usize = 3;
/// Nights on a cluster, in percent.
const CLUSTERS: u64 = 20;
/// Nights on a cluster in which the first activity is sharded, in percent.
const SHARDED: u64 = 50;
const SHARDS: usize = 3;
const MOST_TOTAL: u64 = 18;
/// Nights in which a replica follows the server, or each node, in percent.
const REPLICATED: u64 = 40;
/// How often something becomes of a server with a replica, in percent of steps, and while the replica gets nothing.
const FAILING: u64 = 10;
const FAILING_WHILE_STALLED: u64 = 35;
/// Nights of one server in which a backend has scripts of its own, in percent.
const PLAIN: u64 = 30;
/// Nights without such scripts in which keys expire, in percent.
const EXPIRING: u64 = 20;
/// Nights of one server whose first activity another system made, in percent.
const FOREIGN: u64 = 15;
/// Nights without such scripts, and in which no keys expire, in which keys are damaged, in percent.
const HARMED: u64 = 15;
/// Nights in which a loader takes what is new in ledgers, in percent.
const FED: u64 = 30;
/// Nights in which no keys expire and operators archive an activity, and restore it, in percent.
const ARCHIVED: u64 = 35;
/// Nights with a third activity, which orders over several activities take from, too, in percent.
const THREE: u64 = 30;
/// Orders with the request id of another one, in percent.
const REUSED: u64 = 8;
/// Nights that differ from the others by how fast things happen, how often they fail, or what is done most, in percent each.
const UNUSUAL: u64 = 30;
/// How long a process rests at most before it does something again, us.
const REST: u64 = 400_000;
/// What may go wrong with each thing that is sent.
const FAULTS: Faults = Faults { lost: 3, unanswered: 4, late: 5, cut: 4, flushed: 1 };
/// What takes twenty calls, and begins again with the connection, would never come to its end.
const FAULTS_OF_ARCHIVES: Faults = Faults { lost: 1, unanswered: 1, late: 3, cut: 2, flushed: 1 };
/// The process that opens the night, and heals what it left.
const ALONE: usize = 0;
/// Events of a night that never ends: others have some thousand.
const MAX_TURNS: u64 = 100_000;
/// How often an audit and its repairs are repeated at the end until nothing differs.
const ROUNDS: usize = 6;

/// What an operation is about, for the oracle, which hears how it ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    Order(usize),
    Confirm(usize),
    Release(usize),
    Refund(usize),
    File(usize),
    Audit { with_records: bool, is_late: bool, answers: u64 },
    Repair,
    Reset,
    Archive,
    Upkeep,
}

/// Something to do, and in which activity.
struct Step {
    about: About,
    activity: usize,
    op: Op,
}

impl Step {
    /// One in the activity in which most happens.
    fn new(about: About, op: Op) -> Self {
        Self { about, activity: 0, op }
    }

    /// The same preheat with another window.
    fn in_window(mut self, new: Window) -> Self {
        if let Op::Preheat { window, .. } = &mut self.op {
            *window = new;
        }
        self
    }

    fn in_activity(self, activity: usize) -> Self {
        Self { activity, ..self }
    }
}

/// Whether at some instant too few units of an activity were for sale, the user held too many, it was paused, or its window closed.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    was_short: bool,
    was_above: bool,
    was_paused: bool,
    was_closed: bool,
    /// Whether it could be bought at some instant, as far as shards allow to say it.
    was_open: bool,
}

/// What a process is doing.
struct Task {
    about: About,
    activity: usize,
    /// By orders that were never sent before, but for those over slots: what their activities looked like while it was under way.
    seen: BTreeMap<usize, Vec<Seen>>,
    /// What callers knew of its orders when it began.
    before: BTreeMap<usize, Heard>,
    /// How many events there were when it began, and how often the server had lost something.
    turns: u64,
    failures: u64,
    /// Whether it is done only when a replica has it.
    waits: bool,
    /// Whether nothing could be sold when it began.
    had_nothing: bool,
    /// Whether an activity was in files while it was under way.
    met_archive: bool,
}

/// A file that was written: orders, or refunds, by line.
struct File {
    file: OrderFile,
    about: Vec<usize>,
    /// Lines that a run applied, and when it said so.
    applied: BTreeMap<u64, u64>,
    /// Lines that a run decided, and after how many events it said so. Of several activities only what is bought stays so.
    decided: BTreeMap<u64, u64>,
    /// When a run of it came to its end.
    done_at: Option<u64>,
}

impl File {
    fn refunds(&self) -> bool {
        self.file.operation == "refund"
    }

    fn settles(&self) -> bool {
        matches!(self.file.operation, "confirm" | "release")
    }
}

/// Repairs that an audit planned, to be applied later, and how many answers there were when it began.
struct Planned {
    activity: usize,
    plan: RepairPlan,
    answers: u64,
}

struct Night<'s> {
    world: World<Job, Ended>,
    engine: Rc<Engine>,
    seed: u64,
    /// Two or three of one layout: most happens in the first, and orders over several take from it and others.
    activities: Vec<Activity>,
    /// Of the first.
    shards: Option<Shards>,
    oracle: Oracle,
    random: Random,
    users: Vec<Bytes>,
    files: Vec<File>,
    /// By number of the process.
    tasks: Vec<Option<Task>>,
    /// Steps that nobody began yet.
    steps: VecDeque<u64>,
    calm: Vec<u64>,
    planned: Option<Planned>,
    /// Order records of the first activity, and when they were exported, Unix ms.
    export: Option<(audit::Rows, u64)>,
    /// How many orders were bought by an answer, so far.
    answers: u64,
    /// How many events there were.
    turns: u64,
    /// Whether an audit wants the total to be set again, because an update was cut.
    wants_total: bool,
    /// What the first activity was last asked to have.
    asked_total: u64,
    /// Whether the last audit found nothing that has to be corrected.
    matches: bool,
    /// By activity.
    has_ledger: Vec<bool>,
    was_cut: bool,
    /// Whether a cut took units from a shard of which nobody has any, or brought none: it is `corrupt` until an audit corrects it.
    has_cut_shard: bool,
    /// All that were written when the promises were compared with the keys.
    writes: u64,
    /// What the keys of the activities said then, as far as an order was under way.
    found: Vec<Option<Found>>,
    is_paused: bool,
    /// A reset was not answered yet: until then nobody does anything else.
    is_resetting: bool,
    /// Whether one was begun, or keys are gone.
    was_reset: bool,
    /// Whether files are applied again that are known to be decided.
    is_over: bool,
    has_replica: bool,
    /// Of a night in which an activity is archived.
    archives: Option<Arc<Archives>>,
    /// Of a night with a loader.
    loader: Option<Loader>,
    /// Whether a backend has scripts of its own.
    has_plain: bool,
    in_hand: InHand,
    /// Whether keys of the first activity will expire.
    expires: bool,
    gone: Option<Gone>,
    /// Whether keys of the first activity will be damaged.
    is_harmed: bool,
    harm: Option<Harm>,
    /// How often the server lost something.
    failures: u64,
    /// What may go wrong, how long processes rest, us, and what half of all steps do, if it is so in this night.
    faults: Faults,
    rest: u64,
    favourite: Option<u64>,
    heard_at: HeardAt,
    /// Whether order records have what the server lost.
    keeps_records: bool,
    story: Option<&'s mut Vec<String>>,
}

/// Runs a night to its end.
pub fn run(engine: &Rc<Engine>, plan: &Plan, story: Option<&mut Vec<String>>) -> Result<(), Broken> {
    engine.reset();
    let mut random = Random::of_step(plan.seed, 0);
    let own = [Layout::Seckill, Layout::Seckill, Layout::Sku, Layout::Coupon];
    let mut unusual = Random::of_step(plan.seed, u64::MAX - 9);
    let has_three = Random::of_step(plan.seed, u64::MAX - 10).percent(THREE);
    let ids = &["1001", "1002", "1003"][..if has_three { 3 } else { 2 }];
    let is_cluster = Random::of_step(plan.seed, u64::MAX - 1).percent(CLUSTERS);
    let layout = if is_cluster { Layout::Cluster } else { *random.pick(&own) };
    let mut night = Night {
        world: World::new(engine, work),
        engine: Rc::clone(engine),
        seed: plan.seed,
        activities: ids.iter().map(|id| Activity::new(id, layout)).collect(),
        shards: None,
        oracle: Oracle::default(),
        random,
        users: ["ann", "bob", "张三", "q\"u/o\\te x"].map(Into::into).into(),
        files: Vec::new(),
        tasks: Vec::new(),
        steps: plan.steps.clone().into(),
        calm: plan.calm.clone(),
        planned: None,
        export: None,
        answers: 0,
        turns: 0,
        wants_total: false,
        asked_total: 0,
        matches: false,
        has_ledger: Vec::new(),
        was_cut: false,
        has_cut_shard: false,
        writes: 0,
        found: Vec::new(),
        is_paused: false,
        is_resetting: false,
        was_reset: false,
        is_over: false,
        has_replica: Random::of_step(plan.seed, u64::MAX).percent(REPLICATED),
        archives: None,
        loader: Random::of_step(plan.seed, u64::MAX - 6).percent(FED).then(Loader::default),
        has_plain: !is_cluster && Random::of_step(plan.seed, u64::MAX - 2).percent(PLAIN),
        in_hand: InHand::Nothing,
        expires: false,
        gone: None,
        is_harmed: false,
        harm: None,
        failures: 0,
        faults: if unusual.percent(UNUSUAL) { FAULTS.times(&mut unusual) } else { FAULTS },
        rest: if unusual.percent(UNUSUAL) { *unusual.pick(&[2000, 10_000, 40_000]) } else { REST },
        favourite: unusual.percent(UNUSUAL).then(|| unusual.below(100)),
        heard_at: HeardAt::default(),
        keeps_records: false,
        story,
    };
    let expires = Random::of_step(plan.seed, u64::MAX - 4).percent(EXPIRING);
    let is_foreign = !is_cluster && Random::of_step(plan.seed, u64::MAX - 5).percent(FOREIGN);
    night.expires = expires && !night.has_plain && !is_foreign;
    let is_harmed = Random::of_step(plan.seed, u64::MAX - 8).percent(HARMED);
    night.is_harmed = is_harmed && !night.expires && !night.has_plain && !is_foreign;
    let is_archived = Random::of_step(plan.seed, u64::MAX - 7).percent(ARCHIVED);
    night.archives = (is_archived && !night.expires).then(Arc::default);
    night.world.ran = night.story.as_ref().map(|_| Vec::new());
    night.world.start(plan.seed, 0);
    night.tasks.push(None);
    night.world.slots = is_cluster.then(Slots::default);
    if is_foreign {
        night.open_elsewhere();
    }
    night.open(is_cluster && Random::of_step(plan.seed, u64::MAX - 3).percent(SHARDED))?;
    if night.has_replica {
        (0..night.world.nodes()).for_each(|node| night.world.follow(node));
    }
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

    fn layout(&self) -> Layout {
        self.activities[0].layout
    }

    fn open(&mut self, is_sharded: bool) -> Result<(), Broken> {
        for activity in self.has_ledger.len()..self.activities.len() {
            let has_limit = self.layout().kind() == Kind::Hash && self.random.percent(50);
            let limit = Limit::new(3).filter(|_| has_limit).map_or(FieldChange::Keep, FieldChange::Set);
            let is_sharded = is_sharded && activity == 0;
            let has_ledger = self.random.percent(65) || is_sharded;
            self.has_ledger.push(has_ledger);
            let (total, shards) = (4 + self.random.below(12), ShardCount::new(SHARDS).filter(|_| is_sharded));
            let op = Op::Preheat {
                how: PreheatMode::Create,
                total,
                limit,
                ledger: Some(has_ledger),
                shards,
                window: SAME_WINDOW,
            };
            self.steps_alone(vec![Step::new(About::Upkeep, op).in_activity(activity)])?;
            if is_sharded {
                self.asked_total = total;
                self.learn_shards();
            }
        }
        Ok(())
    }

    /// The parent says which they are.
    fn learn_shards(&mut self) {
        let sale = &mut self.activities[0];
        let list = self.engine.server.borrow().keys.field(&sale.keys.meta, b"shards").cloned();
        let list = String::from_utf8(list.expect("a parent has a list")).expect("a list is UTF-8");
        let shards: Shards = list.parse().expect("it is a list of shards");
        sale.parts = shards.ids(&sale.id).map(|id| Activity::new(id.as_str(), sale.layout)).collect();
        self.shards = Some(shards);
    }

    /// Preheats the first activity once more.
    fn preheat(&mut self, about: About, how: PreheatMode, total: u64, limit: FieldChange<Limit>) -> Step {
        self.asked_total = total;
        let ledger = (how == PreheatMode::Reset).then_some(self.has_ledger[0]);
        let shards = self.shards.as_ref().map(Shards::count);
        // What is made anew has nothing by which a process with an old list would know.
        let changes = how == PreheatMode::Reset && self.gone.is_none();
        let shards = shards.map(|count| if changes { 2 + self.random.below(3) as usize } else { count });
        let shards = shards.and_then(ShardCount::new);
        Step::new(about, Op::Preheat { how, total, limit, ledger, shards, window: SAME_WINDOW })
    }

    /// What an update says of the window, mostly nothing. A sale may be over before anybody hears of it.
    fn window(&mut self) -> Window {
        let (now, which) = (self.now(), self.random.below(8));
        let mut at = |most: u64| FieldChange::Set(Millis::new(now + self.random.below(most)));
        match which {
            0 => [at(1000), FieldChange::Clear],
            1 => [FieldChange::Keep, at(3000)],
            2 => [FieldChange::Clear; 2],
            _ => SAME_WINDOW,
        }
    }

    /// Lets one calm process do some things, one after the other, while the others do nothing.
    fn steps_alone(&mut self, todo: Vec<Step>) -> Result<(), Broken> {
        for step in todo {
            let mut turn = self.give(ALONE, step, Faults::NONE, None)?;
            loop {
                if let Some(turn) = turn.take() {
                    self.note(&turn)?;
                    if let Turn::Idle(_, ended) = turn {
                        self.hear(ALONE, ended)?;
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
                    Turn::Idle(process, ended) => {
                        self.hear(process, ended)?;
                        self.check()?;
                        let us = 1000 + self.random.below(self.rest);
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
                    Turn::Executed(_) | Turn::Crashed(_) => {}
                    Turn::Over => return Ok(()),
                }
            }
        }
    }

    /// Takes note of what happened.
    fn note(&mut self, turn: &Turn<Ended>) -> Result<(), Broken> {
        self.turns += 1;
        if self.turns > MAX_TURNS {
            return broken("a night ends", format!("{MAX_TURNS} events"));
        }
        match turn {
            Turn::Crashed(text) => broken("no process panics", text.clone()),
            Turn::Executed(was_cut) => {
                self.was_cut |= *was_cut;
                for ran in self.world.ran.as_mut().map(std::mem::take).unwrap_or_default() {
                    self.tell(|| ran);
                }
                let writes = self.engine.server.borrow().all_writes;
                if std::mem::replace(&mut self.writes, writes) == writes {
                    return Ok(());
                }
                self.look()?;
                self.check_feed()?;
                self.check()
            }
            _ => Ok(()),
        }
    }

    /// What is for sale, and what users hold, now, for orders that are under way.
    fn look(&mut self) -> Result<(), Broken> {
        let now = self.now();
        self.note_archived();
        self.look_for_harm();
        let server = self.engine.server.borrow();
        let parts: &[Activity] = if self.was_cut { &self.activities[0].parts } else { &[] };
        for part in parts {
            let found = Found::read(part, &server.keys)?;
            self.has_cut_shard |= found.is_some_and(|found| found.held.is_empty() && found.for_sale < found.total);
        }
        let seen = self.tasks.iter().flatten().flat_map(|task| task.seen.keys());
        let items = seen.flat_map(|order| &self.oracle.orders[*order].items);
        let most = items.map(|(activity, _)| activity + 1).max().unwrap_or_default();
        let found = self.activities[..most].iter().map(|activity| Found::read(activity, &server.keys));
        let before = std::mem::replace(&mut self.found, found.collect::<Result<_, _>>()?);
        let found = &self.found;
        for (order, items) in self.tasks.iter_mut().flatten().flat_map(|task| &mut task.seen) {
            let order = &self.oracle.orders[*order];
            for (seen, (activity, units)) in items.iter_mut().zip(&order.items) {
                let (Some(found), units) = (&found[*activity], units.cast_signed()) else { continue };
                let held = found.held.get(&order.user).copied().unwrap_or_default();
                seen.was_short |= found.for_sale < units;
                seen.was_above |= match self.activities[*activity].layout.kind() {
                    // Shards lose it one after the other.
                    Kind::Hash => found.limit.map_or(self.shards.is_some(), |limit| held + units > limit),
                    _ => held > 0,
                };
                seen.was_paused |= !found.is_live;
                // A window that opened or closed since, before it was changed.
                let was_open = before.get(*activity).and_then(Option::as_ref).map(|before| before.is_open(now));
                seen.was_closed |= !found.is_open(now) || was_open == Some(false);
                seen.was_open |= found.is_live && found.is_open(now) || self.shards.is_some();
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Broken> {
        if let Some(gone) = &self.gone {
            self.check_gone(gone)?;
        }
        let server = self.engine.server.borrow();
        let mut activities = self.activities.iter().enumerate().skip(self.gone.is_some().into());
        activities.try_for_each(|(number, activity)| {
            let checked = self.oracle.check(number, activity, &server.keys, server.now_ms());
            // Until a repair only the ledger says what users have.
            let is_lost =
                |broken: &Broken| number == 0 && self.has_lost_participants() && broken.rule == "an answer stays true";
            checked.or_else(|broken| if is_lost(&broken) { Ok(()) } else { Err(broken) })
        })
    }

    /// Orders that an operation sends or, in a file, ends.
    fn orders_of(&self, about: About) -> Vec<usize> {
        match about {
            About::Order(order) | About::Confirm(order) | About::Release(order) => vec![order],
            About::File(file) if !self.files[file].refunds() => self.files[file].about.clone(),
            _ => Vec::new(),
        }
    }

    fn give(
        &mut self,
        process: usize,
        Step { about, activity, op }: Step,
        faults: Faults,
        killed_after: Option<u64>,
    ) -> Result<Option<Turn<Ended>>, Broken> {
        self.tell(|| format!("p{process} {about:?} {op:?}"));
        let random = Random::of_step(self.random.below(u64::MAX), 1);
        let (mut seen, mut before) = (BTreeMap::new(), BTreeMap::new());
        let settles = match about {
            About::File(file) => self.files[file].settles(),
            about => !matches!(about, About::Order(_)),
        };
        for order in self.orders_of(about) {
            let sent = &mut self.oracle.orders[order];
            before.insert(order, sent.heard);
            if settles {
                continue;
            }
            if sent.heard == Heard::Nothing && !sent.was_cut && (sent.items.len() == 1 || self.world.slots.is_none()) {
                seen.insert(order, vec![Seen::default(); sent.items.len()]);
            }
            // From now on it was sent.
            sent.was_cut = true;
        }
        let most = if self.world.stalled().is_some() { 80 } else { 40 };
        let (turns, failures) = (self.turns, self.failures);
        let waits = self.has_replica && self.random.percent(most);
        let had_nothing = activity == 0 && self.has_nothing();
        self.tasks[process] =
            Some(Task { about, activity, seen, before, turns, failures, waits, had_nothing, met_archive: false });
        self.look()?;
        let shards = self.shards.clone().filter(|_| activity == 0);
        let job = Job { layout: self.layout(), activity: self.activities[activity].id.clone(), shards, op, waits };
        Ok(self.world.give(process, job, random, faults, killed_after))
    }

    fn take_step(&mut self, process: usize, step: u64) -> Result<Option<Turn<Ended>>, Broken> {
        self.random = Random::of_step(self.seed, step);
        self.look_for_ledger()?;
        if self.has_ledger[0] && !self.is_in_doubt() && self.random.percent(30) {
            self.export();
        }
        let stalled = self.world.stalled();
        let fails = if stalled.is_some() { FAILING_WHILE_STALLED } else { FAILING };
        if self.has_replica && !self.calm.contains(&step) && self.random.percent(fails) {
            self.fail(stalled)?;
            self.world.rest(process, 1000);
            return Ok(None);
        }
        if self.world.slots.is_some() && !self.calm.contains(&step) && self.random.percent(3) {
            let node = self.random.below(2) as usize;
            self.tell(|| format!("node {node} starts again"));
            self.world.restart(node, &mut self.random);
            self.world.rest(process, 1000);
            return Ok(None);
        }
        if self.world.slots.is_some() && !self.calm.contains(&step) && self.random.percent(7) {
            let activity = self.random.pick(&self.activities);
            let activity = if activity.parts.is_empty() { activity } else { self.random.pick(&activity.parts) };
            let (slot, id) = (slot(activity.keys.stock.as_bytes()), activity.id.clone());
            self.tell(|| format!("the slot of {id} begins to move"));
            self.world.begin_move(slot);
            self.world.rest(process, 1000);
            return Ok(None);
        }
        if self.has_plain && self.random.percent(15) {
            self.sell_plainly()?;
            self.world.rest(process, 1000);
            return Ok(None);
        }
        if self.harm() {
            self.world.rest(process, 1000);
            return Ok(None);
        }
        if self.expire_keys() {
            self.world.rest(process, 2_000_000);
            return Ok(None);
        }
        let Some(todo) = self.choose() else {
            self.world.rest(process, 1000);
            return Ok(None);
        };
        let is_calm = self.calm.contains(&step);
        // So that it also dies between the last calls of what takes many.
        let takes_many =
            matches!(todo.op, Op::File(_) | Op::MultiOrder { .. } | Op::Adopt(_) | Op::Archive(_) | Op::Restore(_));
        let killed_after = self.random.below(if takes_many { 14 } else { 6 });
        let killed_after = (!is_calm && self.random.percent(5)).then_some(killed_after);
        let has_in_hand = self.has_plain && self.has_ledger[0] && self.activities[0].made_elsewhere.is_none();
        let cut = if has_in_hand { 0 } else { self.faults.cut };
        let faults = match todo.about {
            _ if is_calm => Faults::NONE,
            // It is never sent again by itself: who repeats one that may still come removes what was bought in between.
            About::Reset => Faults { late: 0, cut, ..self.faults },
            About::Archive => FAULTS_OF_ARCHIVES,
            _ => Faults { cut, ..self.faults },
        };
        self.give(process, todo, faults, killed_after)
    }

    /// Whether a process is at work on an order.
    fn is_under_way(&self, order: usize) -> bool {
        let of = [About::Order(order), About::Confirm(order), About::Release(order)];
        let is_of = |about: About| match about {
            About::File(file) => !self.files[file].refunds() && self.files[file].about.contains(&order),
            about => of.contains(&about),
        };
        self.tasks.iter().flatten().any(|task| is_of(task.about))
    }

    /// Whether a caller may hear of a purchase before long. A release hears of a confirmation.
    fn is_selling(&self) -> bool {
        let sells = |task: &Task| {
            matches!(task.about, About::Order(_) | About::Confirm(_) | About::Release(_) | About::File(_))
        };
        self.tasks.iter().flatten().any(sells)
    }

    fn is_repairing(&self) -> bool {
        self.tasks.iter().flatten().any(|task| task.about == About::Repair)
    }

    fn is_idle(&self) -> bool {
        self.tasks.iter().all(Option::is_none)
    }

    fn choose(&mut self) -> Option<Step> {
        if self.is_resetting {
            return self.is_idle().then(|| self.reset());
        }
        if let Some(step) = self.archive_or_restore() {
            return Some(step);
        }
        if self.is_paused && self.random.percent(25) {
            return Some(self.pause());
        }
        if self.is_foreign() && self.random.percent(12) {
            return Some(self.adopt());
        }
        // Then most of all, callers want to know whether a replica has what they heard.
        if self.world.stalled().is_some() && self.random.percent(25) {
            return self.order_again();
        }
        if self.loader.is_some() && self.random.percent(8) {
            return Some(self.feed());
        }
        if self.gone.is_some() && self.shards.is_none() && self.random.percent(25) {
            return self.adopt_rest();
        }
        let any = self.random.below(100);
        match self.favourite.filter(|_| self.random.percent(50)).unwrap_or(any) {
            0..26 => Some(self.new_order()),
            26..31 => Some(self.new_multi_order()),
            31..37 => Some(self.new_file()),
            37..42 => {
                let count = self.files.len() as u64;
                let file = (count > 0 && !self.is_repairing()).then(|| self.random.below(count) as usize)?;
                Some(self.file(file))
            }
            42..53 => self.order_again(),
            // What a repair takes may be confirmed again meanwhile: a caller without a record of it asks before or after.
            53..65 if self.is_repairing() => None,
            53..62 => {
                let order = self.some_hold()?;
                let confirms = self.random.percent(66);
                Some(self.settle(order, confirms))
            }
            62..65 => self.settle_file(),
            65..69 => {
                self.oracle.expired_at = self.now();
                Some(Step::new(About::Upkeep, Op::Expire))
            }
            69..75 => self.refund(),
            75..77 => self.refund_file(),
            // It would make anew what is gone.
            77..81 if self.expires => None,
            77..81 => {
                let mut total = 3 + self.random.below(MOST_TOTAL - 2);
                let limit = if self.random.percent(20) && self.layout().kind() == Kind::Hash {
                    if self.shards.is_some() {
                        // One that takes units may be undone, when users bought beyond the limit already.
                        total = MOST_TOTAL;
                    }
                    FieldChange::Clear
                } else {
                    FieldChange::Keep
                };
                let update = self.preheat(About::Upkeep, PreheatMode::Update, total, limit);
                Some(update.in_window(self.window()))
            }
            81..84 => Some(self.pause()),
            84..86 => {
                let before = self.now() - self.random.below(6000);
                Some(Step::new(About::Upkeep, Op::Trim(before)))
            }
            86 => (self.gone.is_none() && self.is_idle()).then(|| self.reset()),
            _ => self.audit_or_repair(),
        }
    }

    /// One of the orders is sent once more.
    fn order_again(&mut self) -> Option<Step> {
        let count = self.oracle.orders.len() as u64;
        let order = (count > 0).then(|| self.random.below(count) as usize)?;
        let Order { is_nameless, is_lost, .. } = self.oracle.orders[order];
        let is_lone = !is_nameless && !is_lost && !self.is_under_way(order);
        (is_lone && !self.is_repairing()).then(|| self.order(order))
    }

    /// Whether a caller waits for an answer, or gave up on it.
    fn is_in_doubt(&self) -> bool {
        let is_in_doubt = |order: &Order| order.heard == Heard::Nothing || order.is_confirming || order.is_releasing;
        !self.is_idle()
            || self.oracle.orders.iter().any(is_in_doubt)
            || self.oracle.refunds.iter().any(|refund| refund.heard == Heard::Nothing)
    }

    /// Exports order records, for audits that come later: what is bought or given back until then is newer.
    fn export(&mut self) {
        let now = self.now();
        let Self { oracle, random, activities, .. } = self;
        self.export = Some((audit::record_rows(oracle, random, 0, &activities[0], now), now));
    }

    /// Whether an operator who waits until nobody asks may still apply a plan. Processes that were answered since may have what the
    /// audit missed of their users. What concerns the stock alone, the script compares with what was sold since.
    fn is_in_time(&self, planned: &Planned) -> bool {
        let is_of_stock = planned.plan.repairs.iter().all(|repair| repair.user.is_none());
        is_of_stock || planned.answers == self.answers && !self.is_selling()
    }

    fn audit_or_repair(&mut self) -> Option<Step> {
        let planned = self.planned.take();
        match planned.filter(|planned| self.is_in_time(planned) && self.give_back()) {
            Some(planned) => Some(self.repair(planned)),
            None => {
                let activity = usize::from(self.random.percent(15));
                // Without a ledger, what is newer than the records looks missing; nor may an answer be on its way.
                let with_records = self.has_ledger[activity] && self.is_idle() && self.random.percent(80);
                if let Some((rows, at)) = self.export.clone().filter(|_| activity == 0 && self.random.percent(40)) {
                    let about = About::Audit { with_records: true, is_late: true, answers: self.answers };
                    return Some(Step::new(about, Op::Audit(Some((rows, at)))));
                }
                Some(self.audit(activity, with_records))
            }
        }
    }

    fn quantity(&mut self) -> u64 {
        if self.layout() == Layout::Coupon { 1 } else { 1 + self.random.below(3) }
    }

    fn add_order(&mut self, is_hold: bool, items: Vec<(usize, u64)>) -> usize {
        let number = self.oracle.orders.len();
        let duration = *self.random.pick(&[3000, 3000, 20_000]);
        let user = self.random.pick(&self.users).clone();
        self.oracle.orders.push(Order { is_hold, duration, ..Order::new(number, user, items) });
        if number > 0 && self.random.percent(REUSED) {
            let before = self.random.below(number as u64) as usize;
            self.reuse_id(number, before);
        }
        number
    }

    /// A caller takes the request id of an order before for another one. Whose hold an id names, the user says: of two orders of one
    /// user nothing would say it.
    fn reuse_id(&mut self, number: usize, before: usize) {
        let Order { is_nameless, is_plain, request, .. } = self.oracle.orders[before].clone();
        let of_id: Vec<usize> = (0..number).filter(|at| self.oracle.orders[*at].request == request).collect();
        let order = &self.oracle.orders[number];
        let are_holds = |other: &Order| self.shards.is_none() && order.is_hold && other.is_hold;
        let is_same = |other: &Order| {
            are_holds(other)
                || other.user == order.user && (order.is_hold || other.is_hold || other.items == order.items)
        };
        if is_nameless || is_plain || of_id.iter().any(|at| is_same(&self.oracle.orders[*at])) {
            return;
        }
        self.oracle.orders[number].request = request;
        of_id.into_iter().chain([number]).for_each(|at| self.oracle.orders[at].shares_id = true);
    }

    /// In the second activity holds have no caller who ends them.
    fn new_order(&mut self) -> Step {
        let (is_hold, units) = (self.random.percent(50), self.quantity());
        let activity = usize::from(!is_hold && self.random.percent(10));
        let order = self.add_order(is_hold, vec![(activity, units)]);
        self.order(order)
    }

    /// Of the first activity, and of others.
    fn items(&mut self) -> Vec<(usize, u64)> {
        let (last, one) = (self.activities.len() - 1, 1 + self.random.below(2) as usize);
        let others = if self.random.percent(60) { 1..=last } else { one.min(last)..=one.min(last) };
        std::iter::once(0).chain(others).map(|activity| (activity, self.quantity())).collect()
    }

    fn new_multi_order(&mut self) -> Step {
        let items = self.items();
        let order = self.add_order(false, items);
        self.order(order)
    }

    fn order(&mut self, number: usize) -> Step {
        let now = self.now();
        let order = &mut self.oracle.orders[number];
        order.note_sent(now);
        let hold_for = order.is_hold.then(|| Duration::from_millis(order.duration));
        let (user, request) = (user_id(&order.user), order.request.clone());
        let op = match &order.items[..] {
            [(_, units)] => Op::Order { user, units: *units, request, hold_for },
            items => {
                let items = items.iter().map(|(activity, units)| (self.activities[*activity].id.clone(), *units));
                Op::MultiOrder { user, items: items.collect(), request }
            }
        };
        let activity = if order.items.len() == 1 { order.items[0].0 } else { 0 };
        Step::new(About::Order(number), op).in_activity(activity)
    }

    /// A file of a few orders, each by another user or not.
    fn new_file(&mut self) -> Step {
        let operation = *self.random.pick(&["deduct", "deduct", "hold", "hold", "multi_deduct"]);
        let (is_hold, is_nameless) = (operation == "hold", self.random.percent(25));
        let about: Vec<usize> = (0..2 + self.random.below(4))
            .map(|_| {
                // One of a single item that has an id would be sent again as another kind of order.
                let is_multi = operation == "multi_deduct" && !(is_nameless && self.random.percent(40));
                let items = if is_multi { self.items() } else { vec![(0, self.quantity())] };
                self.add_order(is_hold, items)
            })
            .collect();
        let duration = self.oracle.orders[about[0]].duration;
        let number = self.files.len();
        for (line, order) in (1..).zip(&about) {
            let order = &mut self.oracle.orders[*order];
            order.duration = duration;
            if is_nameless {
                // A hold gets this as its id.
                (order.is_nameless, order.request, order.shares_id) = (!is_hold, format!("file{number}:{line}"), false);
            }
        }
        self.write_file(operation, about)
    }

    /// A file that ends a few holds.
    fn settle_file(&mut self) -> Option<Step> {
        let mut about: Vec<usize> = (0..4).filter_map(|_| self.some_hold()).collect();
        about.sort_unstable();
        about.dedup();
        let operation = *self.random.pick(&["confirm", "confirm", "release"]);
        (!about.is_empty()).then(|| self.write_file(operation, about))
    }

    fn refund_file(&mut self) -> Option<Step> {
        let mut about: Vec<usize> = (0..3).filter_map(|_| self.add_refund()).collect();
        about.dedup_by_key(|refund| self.oracle.refunds[*refund].user.clone());
        (!about.is_empty()).then(|| self.write_file("refund", about))
    }

    fn write_file(&mut self, operation: &'static str, about: Vec<usize>) -> Step {
        let line = |number: &usize| {
            let (user, items, request) = match operation {
                "refund" => {
                    let refund = &self.oracle.refunds[*number];
                    (&refund.user, &vec![(refund.activity, refund.units)], &refund.request[..])
                }
                _ => {
                    let order = &self.oracle.orders[*number];
                    let request = if order.is_nameless { "" } else { &order.request };
                    (&order.user, &order.items, request)
                }
            };
            let items = items.iter().map(|(at, units)| (self.activities[*at].id.clone(), quantity(*units))).collect();
            let settles = matches!(operation, "confirm" | "release");
            let needs_none = settles && self.shards.is_none() && !self.oracle.orders[*number].shares_id;
            let user = if needs_none { "".into() } else { String::from_utf8_lossy(user) };
            FileLine { user: user.into_owned(), items, request: request.to_owned() }
        };
        let hold_for =
            Duration::from_millis(if operation == "hold" { self.oracle.orders[about[0]].duration } else { 0 });
        let number = self.files.len();
        let lines = about.iter().map(line).collect();
        let has_rows = operation == "hold" || self.random.percent(50);
        let at_once = 1 + self.random.below(3) as usize;
        let file = OrderFile { operation, job: format!("file{number}"), hold_for, lines, has_rows, at_once };
        self.files.push(File { file, about, applied: BTreeMap::new(), decided: BTreeMap::new(), done_at: None });
        self.file(number)
    }

    /// Applies a file, be it for the first time or not, while another process does the same or not.
    fn file(&mut self, number: usize) -> Step {
        let now = self.now();
        let File { file, about, .. } = &self.files[number];
        for number in about {
            match file.operation {
                // Its lines are decided, so that nothing of it runs any more.
                _ if self.is_over => {}
                "refund" => self.oracle.refunds[*number].note_sent(),
                "confirm" => self.oracle.orders[*number].is_confirming = true,
                "release" => self.oracle.orders[*number].is_releasing = true,
                _ => self.oracle.orders[*number].note_sent(now),
            }
        }
        Step::new(About::File(number), Op::File(file.clone()))
    }

    fn some_hold(&mut self) -> Option<usize> {
        let all = 0..self.oracle.orders.len();
        let holds: Vec<usize> = all
            .filter(|at| self.oracle.orders[*at].is_hold && !self.oracle.orders[*at].is_lost && !self.is_under_way(*at))
            .collect();
        let is_open = |at: &usize| matches!(self.oracle.orders[*at].heard, Heard::Held(_) | Heard::Nothing);
        let (open, others): (Vec<usize>, Vec<usize>) = holds.into_iter().partition(is_open);
        let from = if self.random.percent(75) && !open.is_empty() { open } else { others };
        (!from.is_empty()).then(|| *self.random.pick(&from))
    }

    fn settle(&mut self, number: usize, confirms: bool) -> Step {
        let order = &mut self.oracle.orders[number];
        order.is_confirming |= confirms;
        order.is_releasing |= !confirms;
        let about = if confirms { About::Confirm(number) } else { About::Release(number) };
        let user = (self.shards.is_some() || order.shares_id).then(|| user_id(&order.user));
        Step::new(about, Op::Settle { request: order.request.clone(), user, confirms })
    }

    fn refund(&mut self) -> Option<Step> {
        let refund = self.add_refund()?;
        Some(self.refund_again(refund))
    }

    /// A refund of some units that a user has, or of too many.
    fn add_refund(&mut self) -> Option<usize> {
        let bought = self.oracle.kept(0).into_iter().filter(|(_, units)| *units > 0);
        let bought: Vec<(Bytes, u64)> = bought.map(|(user, units)| (user.to_vec(), units.cast_unsigned())).collect();
        if bought.is_empty() {
            return None;
        }
        let (user, most) = self.random.pick(&bought).clone();
        let is_whole = self.layout().kind() != Kind::Hash || self.random.percent(40);
        let units = if is_whole { most } else { 1 + self.random.below(most + 1) };
        let is_due = units <= most;
        if self.is_harmed_now() && !is_due {
            // It may take what is held open and not counted.
            return None;
        }
        if !is_due {
            let of_user = self.oracle.refunds.iter_mut().filter(|refund| refund.user == user);
            of_user.for_each(|refund| refund.is_due = false);
        }
        let number = self.oracle.refunds.len();
        let is_due = is_due && !self.is_harmed_now();
        self.oracle.refunds.push(Refund::new(format!("f{number}"), 0, (user, units), is_due));
        if !self.oracle.orders.is_empty() && self.random.percent(REUSED) {
            let before = self.random.below(self.oracle.orders.len() as u64) as usize;
            self.reuse_id_of_order(number, before);
        }
        Some(number)
    }

    /// A caller takes the request id of an order for a refund. Of two such refunds nothing would say which one it was.
    fn reuse_id_of_order(&mut self, refund: usize, before: usize) {
        let Oracle { orders, refunds, .. } = &mut self.oracle;
        let Order { is_nameless, is_plain, request, .. } = orders[before].clone();
        if is_nameless || is_plain || refunds.iter().any(|refund| refund.request == request) {
            return;
        }
        orders.iter_mut().filter(|order| order.request == request).for_each(|order| order.shares_id = true);
        (refunds[refund].request, refunds[refund].shares_id) = (request, true);
    }

    fn refund_again(&mut self, number: usize) -> Step {
        let refund = &mut self.oracle.refunds[number];
        refund.note_sent();
        let (user, units, request) = (user_id(&refund.user), refund.units, refund.request.clone());
        Step::new(About::Refund(number), Op::Refund { user, units, request })
    }

    fn pause(&mut self) -> Step {
        let withdraws = (!self.is_paused).then(|| self.random.percent(60));
        self.is_paused = !self.is_paused;
        Step::new(About::Upkeep, Op::Pause(withdraws))
    }

    /// Another sale begins, and with it all promises end.
    fn reset(&mut self) -> Step {
        (self.is_resetting, self.was_reset, self.planned, self.export, self.harm) = (true, true, None, None, None);
        self.in_hand.lose();
        for file in &mut self.files {
            (file.applied, file.decided, file.done_at) = (BTreeMap::new(), BTreeMap::new(), None);
        }
        self.oracle.forget(0);
        let total = 4 + self.random.below(12);
        self.preheat(About::Reset, PreheatMode::Reset, total, FieldChange::Keep)
    }

    fn audit(&mut self, activity: usize, with_records: bool) -> Step {
        let now = self.now();
        let Self { oracle, random, activities, .. } = self;
        let rows =
            with_records.then(|| (audit::record_rows(oracle, random, activity, &activities[activity], now), now));
        let about = About::Audit { with_records, is_late: false, answers: self.answers };
        Step::new(about, Op::Audit(rows)).in_activity(activity)
    }

    fn repair(&mut self, Planned { activity, plan, .. }: Planned) -> Step {
        audit::note_reversals(&mut self.oracle, activity, &plan.repairs.iter().collect::<Vec<_>>());
        Step::new(About::Repair, Op::Repair(plan)).in_activity(activity)
    }

    /// Takes note of how an operation ended.
    fn hear(&mut self, process: usize, Ended { done, is_replicated }: Ended) -> Result<(), Broken> {
        // A window may be over by now.
        self.look()?;
        let Some(task) = self.tasks[process].take() else { return Ok(()) };
        if is_replicated {
            self.tell(|| format!("p{process}: a replica has it"));
        }
        self.hear_done(process, done, &task, is_replicated)?;
        if self.has_replica {
            self.note_heard(&task, is_replicated);
        }
        Ok(())
    }

    fn hear_done(&mut self, process: usize, done: Done, task: &Task, is_replicated: bool) -> Result<(), Broken> {
        let about = task.about;
        if self.gone.is_some() && task.activity == 0 && about != About::Reset {
            return self.hear_gone(process, &done, task);
        }
        match done {
            Done::Nothing => Ok(()),
            Done::Failed(error) => {
                self.tell(|| format!("p{process} {about:?}: {error}"));
                Ok(())
            }
            Done::Audited(audit) => self.hear_audit(&audit, task),
            Done::Lines(lines, error) => {
                self.tell(|| format!("p{process} {about:?}: {lines:?} {error:?}"));
                self.hear_lines(task, lines, error.is_none(), is_replicated)
            }
            Done::Status(status, deadline) => {
                self.tell(|| format!("p{process} {about:?}: {status}"));
                self.hear_status(task, status, deadline, is_replicated)
            }
        }
    }

    fn hear_status(
        &mut self,
        task: &Task,
        status: Status,
        deadline: Option<u64>,
        is_replicated: bool,
    ) -> Result<(), Broken> {
        let status = self.known(task, status);
        let (now, code) = (self.now(), status.code());
        match task.about {
            _ if Self::is_of_archive(task, status) => Ok(()),
            // A failover lost the call that ended a reset which was cut.
            About::Order(_) | About::Refund(_) if self.is_resetting && status == Status::NotPreheated => Ok(()),
            // It was answered before a replica was waited for, or by a server that is gone, and somebody else since.
            About::Order(of) | About::Confirm(of) | About::Release(of)
                if (task.waits || self.has_failed_since(task)) && self.may_be_older(task, of) =>
            {
                Ok(())
            }
            _ if status == Status::Corrupt && self.may_be_corrupt(task) => Ok(()),
            About::Order(order) => self.hear_order(task, order, status, deadline),
            About::Confirm(order) => {
                self.answers += u64::from(code > 0);
                self.oracle.orders[order].hear_confirm(code, now)
            }
            About::Release(order) => {
                self.answers += u64::from(status == Status::Confirmed);
                self.oracle.orders[order].hear_release(code)
            }
            About::Refund(refund) => self.hear_refund(task, refund, status),
            _ if status == Status::Corrupt => broken("nothing becomes corrupt", format!("{:?}", task.about)),
            About::Reset => {
                self.is_resetting = code < 0 || self.has_failed_since(task);
                (self.expires, self.gone) =
                    (self.expires && self.is_resetting, self.gone.take().filter(|_| self.is_resetting));
                self.heard_at.reset = self.needs(is_replicated);
                if self.shards.is_some() && !self.is_resetting {
                    self.learn_shards();
                }
                Ok(())
            }
            About::File(_) | About::Audit { .. } | About::Repair | About::Archive | About::Upkeep => Ok(()),
        }
    }

    /// Whether another process was answered meanwhile, maybe later than this one.
    fn may_be_older(&self, task: &Task, order: usize) -> bool {
        let heard = self.oracle.orders[order].heard;
        let is_decided = !matches!(heard, Heard::Nothing | Heard::Rejected);
        task.before.get(&order).is_some_and(|before| *before != heard) || is_decided && self.has_failed_since(task)
    }

    fn hear_order(&mut self, task: &Task, order: usize, status: Status, deadline: Option<u64>) -> Result<(), Broken> {
        let now = self.now();
        self.answers += u64::from(status.code() > 0);
        self.oracle.orders[order].hear(status.code(), deadline, false, now)?;
        self.check_id(task, About::Order(order), status)?;
        self.check_refusal(order, status, task.seen.get(&order))
    }

    fn hear_refund(&mut self, task: &Task, refund: usize, status: Status) -> Result<(), Broken> {
        self.oracle.hear_refund(refund, status.code(), false)?;
        self.check_id(task, About::Refund(refund), status)
    }

    /// An id that another order or refund used for certain is good for nothing else.
    fn check_id(&self, task: &Task, about: About, status: Status) -> Result<(), Broken> {
        if status.code() < 0 || self.has_failed_since(task) {
            return Ok(());
        }
        let Oracle { orders, refunds, .. } = &self.oracle;
        let (request, user, own): (_, _, Vec<usize>) = match about {
            About::Order(number) if !orders[number].is_nameless => {
                let Order { request, user, items, .. } = &orders[number];
                (request, user, items.iter().map(|(of, _)| *of).collect())
            }
            About::Refund(number) => (&refunds[number].request, &refunds[number].user, vec![refunds[number].activity]),
            _ => return Ok(()),
        };
        // Of a sharded activity an id belongs to its user.
        let is_shared =
            |other: &Bytes, of: usize| own.contains(&of) && (of > 0 || self.shards.is_none() || other == user);
        let buys = |(at, other): (usize, &Order)| {
            let is_other = About::Order(at) != about && !other.is_nameless && !other.is_lost;
            let is_decided = matches!(other.heard, Heard::Bought | Heard::Held(_) | Heard::Ended);
            let is_used = is_other && is_decided && other.request == *request;
            (is_used && other.items.iter().any(|(of, _)| is_shared(&other.user, *of))).then_some(other.heard)
        };
        let gives_back = |(at, other): (usize, &Refund)| {
            let is_used = About::Refund(at) != about && other.heard == Heard::Ended && other.request == *request;
            (is_used && is_shared(&other.user, other.activity)).then_some(other.heard)
        };
        let mut used =
            orders.iter().enumerate().filter_map(buys).chain(refunds.iter().enumerate().filter_map(gives_back));
        used.next().map_or(Ok(()), |heard| broken("one id is one order", format!("{status} for {request}: {heard:?}")))
    }

    /// Takes note of what a run of a file reported. `replayed` says that a line was decided, no more.
    fn hear_lines(
        &mut self,
        task: &Task,
        mut lines: Vec<Line>,
        mut is_done: bool,
        is_replicated: bool,
    ) -> Result<(), Broken> {
        let About::File(number) = task.about else { return Ok(()) };
        let (now, operation) = (self.now(), self.files[number].file.operation);
        let (has_failed, at) = (self.has_failed_since(task), self.needs(is_replicated));
        if has_failed || task.met_archive {
            // Lines that were lost, or seem to be while they are in files, are reported once more.
            let last: BTreeMap<u64, Line> = lines.into_iter().map(|line| (line.0, line)).collect();
            lines = last.into_values().collect();
            is_done = false;
        }
        if is_done && lines.len() != self.files[number].about.len() {
            return broken("a run reports each line once", format!("{lines:?}"));
        }
        for (line, status, deadline) in lines {
            let (status, about) = (self.known(task, status), self.files[number].about[line as usize - 1]);
            let file = &mut self.files[number];
            let applies = status == Status::Ok && !has_failed;
            if applies && (file.applied.insert(line, at).is_some() || self.is_over && file.done_at.is_some()) {
                return broken("a line is decided once", format!("line {line} of file {number}"));
            }
            let is_shut = is_shut(status);
            if is_shut
                && !has_failed
                && !task.met_archive
                && file.decided.get(&line).is_some_and(|turns| *turns < task.turns)
            {
                return broken("a line stays decided", format!("line {line} of file {number}"));
            }
            let is_decided = !is_shut && (operation != "multi_deduct" || status == Status::Ok);
            if is_decided && !has_failed && !Self::is_of_archive(task, status) && status != Status::Corrupt {
                file.decided.entry(line).or_insert(self.turns);
            }
            match status {
                Status::Replayed => continue,
                status if Self::is_of_archive(task, status) => {
                    is_done = false;
                    continue;
                }
                Status::Corrupt if self.may_be_corrupt(task) => {
                    is_done = false;
                    continue;
                }
                // The activity refused them all: the line stays open, whatever else is known of its id.
                _ if is_shut => {
                    is_done = false;
                    continue;
                }
                _ => {}
            }
            let may_be_older = operation != "refund" && self.may_be_older(task, about);
            match operation {
                // A failover lost it, and another run may have applied it since.
                "refund"
                    if has_failed && (self.oracle.refunds[about].heard == Heard::Ended || status != Status::Ok) => {}
                "refund" => self.hear_refund(task, about, status)?,
                // Nor is an answer from before a failover one to what was asked since.
                "confirm" | "release" if may_be_older && (status != Status::Ok || has_failed) => {}
                "confirm" => {
                    self.answers += u64::from(status == Status::Ok);
                    self.oracle.orders[about].hear_confirm(status.code(), now)?;
                }
                "release" => {
                    self.answers += u64::from(status == Status::Confirmed);
                    self.oracle.orders[about].hear_release(status.code())?;
                }
                _ if may_be_older => {}
                _ => self.hear_order(task, about, status, deadline)?,
            }
        }
        if is_done {
            self.files[number].done_at.get_or_insert(at);
        }
        Ok(())
    }

    /// A refusal is true: at some instant while the order was under way it could not be had.
    fn check_refusal(&self, order: usize, status: Status, seen: Option<&Vec<Seen>>) -> Result<(), Broken> {
        let is_true = |seen: &Seen| match status {
            Status::OutOfStock => seen.was_short,
            Status::LimitExceeded => seen.was_above,
            Status::Refused => seen.was_short || seen.was_above || seen.was_paused || seen.was_closed,
            Status::NotStarted | Status::Ended => seen.was_closed,
            _ => true,
        };
        let is_shut = |seen: &Seen| !seen.was_open;
        if status == Status::Ok && seen.is_some_and(|items| items.iter().any(is_shut)) {
            return broken("nothing is sold while it is closed", self.oracle.orders[order].request.clone());
        }
        if seen.is_none_or(|items| items.iter().any(is_true)) {
            return Ok(());
        }
        broken("a refusal is true", format!("{status} for {}: {seen:?}", self.oracle.orders[order].request))
    }

    fn hear_audit(&mut self, audit: &Audit, task: &Task) -> Result<(), Broken> {
        let (about, activity) = (task.about, task.activity);
        self.tell(|| format!("{about:?}: {}", audit::shown(audit)));
        // An order of two activities stays bought in one if the other is reset: a human decides what becomes of it.
        let is_left = |class| class == Class::SplitOrder && self.was_reset;
        self.matches = match audit.verdict {
            Verdict::Match => true,
            Verdict::Drift => audit.differences.iter().all(|difference| is_left(difference.class)),
            _ => false,
        };
        // A process that lent units may have given up, or been killed, before they arrived.
        let is_drift = |class| match class {
            Class::OverLimit | Class::StuckTransfer => false,
            class => !is_left(class),
        };
        let drifts = audit.differences.iter().any(|difference| is_drift(difference.class));
        let About::Audit { with_records, is_late, answers } = about else { return Ok(()) };
        if self.has_failed_since(task) || task.met_archive {
            return Ok(());
        }
        if self.matches && activity == 0 {
            self.hear_match(task)?;
        }
        if !with_records && !self.was_cut && audit.verdict == Verdict::Drift && drifts {
            return broken("nothing drifts without a fault", format!("{:?}", audit.differences));
        }
        self.wants_total = audit.plan.kept.iter().any(|(_, _, why)| why.contains("`preheat --update` sets the total"));
        let plan = audit.plan.clone();
        // Of units that were taken without an entry, nothing says whether they are newer than the records.
        let is_proven = !is_late || !self.was_cut;
        let has_plan = is_proven && !(plan.repairs.is_empty() && plan.transfers.is_empty());
        self.planned = has_plan.then_some(Planned { activity, plan, answers });
        Ok(())
    }

    /// Nothing fails any more: whatever is in doubt is sent again, holds expire, and audits repair what differs. Then nothing may be
    /// in doubt, promised twice, or lost.
    fn heal(&mut self) -> Result<(), Broken> {
        self.random = Random::of_step(self.seed, STEPS + 1);
        self.tell(|| "nothing fails any more".to_owned());
        self.tasks.iter_mut().for_each(|task| *task = None);
        if self.has_replica || self.world.slots.is_some() {
            self.wait(RECOVERED_AFTER);
        }
        self.give_back();
        self.restore_at_last()?;
        self.renew();
        // A connection may still be to the primary of before, which is read-only.
        while self.is_resetting {
            let reset = self.reset();
            self.steps_alone(vec![reset])?;
        }
        self.adopt_at_last()?;
        self.steps_alone(vec![Step::new(About::Upkeep, Op::Pause(None))])?;
        self.open_again()?;
        // On a cluster once more what waited for units on their way, or met a shard that a repair corrected; and orders over slots that
        // their callers forgot, until somebody else decided them.
        // Holds that get their deadlines back expire then.
        let rounds = if self.world.slots.is_some() || self.harm.is_some() { &[true, false][..] } else { &[false] };
        for is_first in rounds {
            let forgets = *is_first && self.world.slots.is_some();
            self.apply_files()?;
            self.settle_doubts(forgets)?;
            self.mend()?;
            self.wait(Duration::from_secs(30));
            let expire = |activity| Step::new(About::Upkeep, Op::Expire).in_activity(activity);
            self.steps_alone((0..self.activities.len()).map(expire).collect())?;
            if self.shards.is_some() {
                // An update may have come to no end.
                let update = self.preheat(About::Upkeep, PreheatMode::Update, self.asked_total, FieldChange::Keep);
                self.steps_alone(vec![update])?;
            }
            self.repair_everything()?;
        }
        self.send_everything_again()?;
        self.end_feed()?;
        (0..self.activities.len()).try_for_each(|activity| self.end(activity))
    }

    /// Half of the sales that are over are opened once more.
    fn open_again(&mut self) -> Result<(), Broken> {
        let found = Found::read(&self.activities[0], &self.engine.server.borrow().keys)?;
        let Some(found) = found.filter(|found| !found.is_open(self.now()) && self.random.percent(50)) else {
            return Ok(());
        };
        let total = if self.shards.is_some() { self.asked_total } else { found.total.cast_unsigned() };
        let update = self.preheat(About::Upkeep, PreheatMode::Update, total, FieldChange::Keep);
        self.steps_alone(vec![update.in_window([FieldChange::Clear; 2])])
    }

    fn repair_everything(&mut self) -> Result<(), Broken> {
        // An order that is cancelled may have been of both activities.
        let mut has_cancelled = true;
        while has_cancelled {
            has_cancelled = false;
            for activity in 0..self.activities.len() {
                has_cancelled |= self.repair_all(activity)?;
            }
        }
        Ok(())
    }

    fn apply_files(&mut self) -> Result<(), Broken> {
        for file in 0..self.files.len() {
            let file = self.file(file);
            self.steps_alone(vec![file])?;
            self.check()?;
        }
        Ok(())
    }

    fn settle_doubts(&mut self, forgets: bool) -> Result<(), Broken> {
        for refund in 0..self.oracle.refunds.len() {
            if self.oracle.refunds[refund].heard == Heard::Nothing {
                let refund = self.refund_again(refund);
                self.steps_alone(vec![refund])?;
            }
        }
        for order in 0..self.oracle.orders.len() {
            let Order { heard, is_nameless, items, .. } = &self.oracle.orders[order];
            let is_forgotten = forgets && items.len() > 1 && self.random.percent(50);
            if *heard == Heard::Nothing && !is_nameless && !is_forgotten {
                let order = self.order(order);
                self.steps_alone(vec![order])?;
            }
        }
        self.check()?;
        let mut todo = Vec::new();
        for order in 0..self.oracle.orders.len() {
            let Order { heard, is_hold, is_confirming, is_releasing, is_lost, .. } = self.oracle.orders[order];
            if is_hold && is_confirming && !is_lost {
                todo.push(self.settle(order, true));
            }
            if is_hold && is_releasing && matches!(heard, Heard::Held(_)) {
                todo.push(self.settle(order, false));
            }
        }
        self.steps_alone(todo)?;
        self.check()
    }

    /// Lets time go by in which nothing happens.
    fn wait(&mut self, duration: Duration) {
        self.world.rest(ALONE, duration.as_micros() as u64);
        while !matches!(self.world.turn(), Turn::Rested(_)) {}
    }

    /// Audits and repairs until nothing differs. True if orders were cancelled for it.
    fn repair_all(&mut self, activity: usize) -> Result<bool, Broken> {
        let mut has_cancelled = false;
        for round in 1.. {
            self.planned = None;
            self.wait(Duration::from_millis(1500));
            let audit = self.audit(activity, true);
            self.steps_alone(vec![audit])?;
            if self.wants_total && round < ROUNDS {
                let update = self.total_again(activity)?;
                self.steps_alone(vec![update])?;
                continue;
            }
            let needs_human = self.needs_human(activity);
            let Some(planned) =
                self.planned.take().filter(|it| round < ROUNDS || !needs_human || it.plan.kept.is_empty())
            else {
                if !self.matches && self.cancel_lost(activity) {
                    has_cancelled = true;
                    continue;
                }
                if !self.matches && !needs_human {
                    return broken("repairs lead to a match", "nothing is left to repair");
                }
                break;
            };
            if self.exceeds_stock(&planned)? && self.cancel_lost(activity) {
                has_cancelled = true;
                continue;
            }
            if round == ROUNDS {
                let repairs: Vec<&Repair> = planned.plan.repairs.iter().collect();
                return broken("repairs end", format!("{:?}", audit::shown_repairs(&repairs)));
            }
            let repair = self.repair(planned);
            self.steps_alone(vec![repair])?;
        }
        self.check()?;
        Ok(has_cancelled)
    }

    /// An operator does what an audit says: sets the total that is stored.
    fn total_again(&self, activity: usize) -> Result<Step, Broken> {
        let found = Found::read(&self.activities[activity], &self.engine.server.borrow().keys)?;
        let total = found.map_or(0, |found| found.total).cast_unsigned();
        let op = Op::Preheat {
            how: PreheatMode::Update,
            total,
            limit: FieldChange::Keep,
            ledger: None,
            shards: None,
            window: SAME_WINDOW,
        };
        Ok(Step::new(About::Upkeep, op).in_activity(activity))
    }

    /// What was answered is answered again, and nothing moves.
    fn send_everything_again(&mut self) -> Result<(), Broken> {
        self.tell(|| "everything is sent again".to_owned());
        self.is_over = true;
        self.apply_files()?;
        let mut todo = Vec::new();
        for order in 0..self.oracle.orders.len() {
            match self.oracle.orders[order].heard {
                _ if self.oracle.orders[order].is_nameless || self.oracle.orders[order].is_lost => {}
                Heard::Rejected => {}
                Heard::Nothing if self.waits(&self.oracle.orders[order]) => {}
                Heard::Nothing => return broken("nothing stays in doubt", self.oracle.orders[order].request.clone()),
                Heard::Bought if self.oracle.orders[order].is_hold => todo.push(self.settle(order, true)),
                _ => todo.push(self.order(order)),
            }
        }
        self.steps_alone(todo)?;
        self.check()
    }

    /// Whether all units are bought, or for sale.
    fn end(&mut self, activity: usize) -> Result<(), Broken> {
        let server = self.engine.server.borrow();
        let Some(found) = Found::read(&self.activities[activity], &server.keys)? else { return Ok(()) };
        let sum: i64 = self.oracle.bought(activity).values().sum();
        if !self.needs_human(activity) && found.for_sale + sum != found.total {
            let what = format!("{sum} bought and {} for sale of {}", found.for_sale, found.total);
            return broken("nothing is lost", format!("{}: {what}", self.activities[activity].id));
        }
        Ok(())
    }
}

fn user_id(user: &[u8]) -> UserId {
    std::str::from_utf8(user).expect("users of a night are UTF-8").parse().expect("it is a user")
}
