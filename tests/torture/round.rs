//! One round: a server, actors at work, then quiet, and the comparison of all that was seen with the rules.

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use crate::actors::{Way, World};
use crate::faults::wreak;
use crate::history::{Event, History};
use crate::schedule::{Order, Schedule, Step, What};
use crate::servers::{Network, Servers, writes_of};
use crate::{adoption, check, report};

/// What a round did.
pub struct Summary {
    pub calls: usize,
    layout: &'static str,
    faults: usize,
    /// What happened to servers and keys.
    chaos: usize,
    seconds: f64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, layout, faults, chaos, seconds } = self;
        write!(f, "{layout}, {calls} calls, {faults}% faults of the network, {chaos} of servers, {seconds:.1} s")
    }
}

/// Runs a round. A failure is what is wrong, and the file that has the whole history.
pub fn run(seed: u64, nodes: usize, deadline: Instant) -> Result<Summary, (Vec<String>, PathBuf)> {
    let begun = Instant::now();
    let mut schedule = Schedule::new(seed, nodes);
    let has_users = schedule.layout.has_users();
    let Schedule { files, activities, .. } = &mut schedule;
    files.iter_mut().for_each(|file| file.write(activities, has_users));
    let schedule = schedule;

    let dir = tempfile::tempdir().unwrap();
    for file in &schedule.files {
        fs::write(dir.path().join(&file.name), &file.text).unwrap();
    }
    fs::create_dir(dir.path().join("loaded")).unwrap();
    let mut servers = Servers::start(&schedule);
    let history = History::new();
    let world = World { schedule: &schedule, history: &history, files: dir.path(), deadline };
    let played = catch_unwind(AssertUnwindSafe(|| play(&world, &mut servers)));
    let history = history.finish();
    let problems = match played {
        Err(panic) => vec![format!("the round itself failed: {}", message(&*panic))],
        Ok(()) => catch_unwind(AssertUnwindSafe(|| problems(&schedule, &history.events, &servers)))
            .unwrap_or_else(|panic| vec![format!("the check itself failed: {}", message(&*panic))]),
    };
    if problems.is_empty() {
        return Ok(Summary {
            calls: history.events.len(),
            layout: schedule.layout.name,
            faults: schedule.faults,
            chaos: schedule.chaos.len(),
            seconds: begun.elapsed().as_secs_f64(),
        });
    }
    let path = report::write(&schedule, &problems, &history, &servers.log());
    Err((problems, path))
}

fn problems(schedule: &Schedule, events: &[Event], servers: &Servers) -> Vec<String> {
    let problems = check::all(schedule, events, servers).unwrap_or_else(|problem| vec![problem]);
    // A user over the limit is no match, even if an adoption is right.
    if problems.is_empty() && !schedule.drifts { adoption::adopt(schedule, servers) } else { problems }
}

/// Everything that happens: preheat, the sale, and what settles it.
fn play(world: &World<'_>, servers: &mut Servers) {
    let schedule = world.schedule;
    servers.seckill().args(["preheat", "-"]).stdin(fixture(schedule)).code(0);
    let feed = schedule.activities.iter().position(|activity| activity.ledger);
    if let Some(activity) = feed {
        // The group is there before anything can be trimmed.
        world.perform("feed", Way::Direct(servers), &Step::of(What::Feed { activity, exec: false }));
    }
    let first = if let Servers::One(redis) = &*servers { fs::read(writes_of(redis)).unwrap().len() } else { 0 };
    let mut rng = schedule.rng.clone();
    // Some know one node only.
    let seeds = |index: usize| if index.is_multiple_of(2) { schedule.nodes / 2 } else { 1 };
    let networks: Vec<Network> = (0..schedule.sellers.len() + 3).map(|index| servers.network(seeds(index))).collect();
    for (index, network) in networks.iter().enumerate() {
        // The last one only reads, and acknowledges what it read.
        network.arm(rng.fork(), schedule.faults, index + 1 < networks.len());
    }
    let (selling, rest) = networks.split_at(schedule.sellers.len());
    let (audit, follow) = (rng.fork(), rng.fork());
    thread::scope(|scope| {
        let mut actors: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
        for (index, (steps, network)) in schedule.sellers.iter().zip(selling).enumerate() {
            actors.push(scope.spawn(move || world.follow(&format!("seller{index}"), network, steps)));
        }
        actors.push(scope.spawn(|| world.follow("operator", &rest[0], &schedule.operator)));
        let mut others = vec![scope.spawn(|| world.audit(&rest[1], audit))];
        if let Some(activity) = feed {
            others.push(scope.spawn(move || world.feed(&rest[2], activity, follow)));
        }
        others.push(scope.spawn(|| wreak(servers, world.history, schedule, first)));
        let ended: Vec<_> = actors.into_iter().map(ScopedJoinHandle::join).collect();
        world.history.end();
        let ended: Vec<_> = ended.into_iter().chain(others.into_iter().map(ScopedJoinHandle::join)).collect();
        if let Some(panic) = ended.into_iter().find_map(Result::err) {
            std::panic::resume_unwind(panic);
        }
    });
    drop(networks);
    settle(world, servers, feed);
}

/// Nothing breaks any more: everything is asked again, before and behind what may change it, and the verdict asked for.
fn settle(world: &World<'_>, servers: &Servers, feed: Option<usize>) {
    let perform = |what: What| world.perform("settle", Way::Direct(servers), &Step::of(what));
    let activities = 0..world.schedule.activities.len();
    for activity in activities.clone() {
        perform(What::Pause { activity, on: false, withdraw: false });
    }
    let orders = world.history.with_events(sent);
    orders.iter().for_each(|order| perform(What::Order(order.clone())));
    for activity in activities.filter(|_| world.schedule.layout.has_users()) {
        perform(What::Expire { activity });
    }
    for file in 0..world.schedule.files.len() {
        perform(What::File { file, fast: false });
    }
    if world.schedule.drifts {
        perform(What::Reconcile { fix: true });
    }
    orders.into_iter().for_each(|order| perform(What::Order(order)));
    if let Some(activity) = feed {
        perform(What::Feed { activity, exec: false });
        perform(What::Feed { activity, exec: false });
    }
    perform(What::Reconcile { fix: false });
}

/// All orders that were sent, each once.
fn sent(events: &[Event]) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::new();
    for order in events.iter().filter_map(Event::order) {
        if !orders.contains(&order) {
            orders.push(order);
        }
    }
    orders
}

fn fixture(schedule: &Schedule) -> String {
    let mut text = format!("layout: {}\nactivities:\n", schedule.layout.name);
    for activity in &schedule.activities {
        text += &format!("  - id: {:?}\n    stock: {}\n    ledger: {}\n", activity.id, activity.total, activity.ledger);
        if let Some(limit) = activity.limit {
            text += &format!("    per_user_limit: {limit}\n");
        }
    }
    text
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
