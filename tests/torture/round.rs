//! One round: a server, actors at work, then quiet, and the comparison of all that was seen with the rules.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use crate::actors::{Way, World};
use crate::faults::wreak;
use crate::history::{Event, History};
use crate::schedule::{Order, Schedule, Step, What};
use crate::servers::{Network, Servers};
use crate::timeline::{self, Bundle};
use crate::{check, names, report};

/// What a round did.
pub struct Summary {
    pub calls: usize,
    layout: &'static str,
    writes: usize,
    /// Records of holds that were written.
    holds: usize,
    losses: usize,
    turns: usize,
    seconds: f64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, layout, writes, holds, losses, turns, seconds } = self;
        write!(
            f,
            "{layout}, {calls} calls, {writes} writes, {holds} of holds, {turns} turns, {losses} data losses, {seconds:.1} s"
        )
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
        std::fs::write(dir.path().join(&file.name), &file.text).unwrap();
    }
    std::fs::create_dir(dir.path().join("loaded")).unwrap();
    let mut servers = Servers::start(&schedule);
    let bundles = servers.bundles(&schedule);
    let history = History::new(servers.files());
    let world = World { schedule: &schedule, history: &history, files: dir.path(), deadline };
    let mut problems = Vec::new();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(&world, &mut servers))) {
        problems.push(format!("the round itself failed: {}", message(&*panic)));
    }

    let record = history.finish();
    let mut all = Vec::new();
    for bundle in bundles {
        match catch_unwind(AssertUnwindSafe(|| timeline::segments(&bundle, &record.files, &record.turns))) {
            Ok(Ok(segments)) => all.push((bundle, segments)),
            Ok(Err(problem)) => problems.push(problem),
            Err(panic) => problems.push(format!("the writes cannot be followed: {}", message(&*panic))),
        }
    }
    let names = names::names(&schedule, &record.events, &all);
    if all.iter().map(|(Bundle { activities, .. }, _)| activities.len()).sum::<usize>() == schedule.activities.len() {
        let checked = catch_unwind(AssertUnwindSafe(|| check::all(&names, &record.events, &all, &servers)));
        problems.extend(checked.unwrap_or_else(|panic| vec![format!("the check itself failed: {}", message(&*panic))]));
    }
    if problems.is_empty() {
        let segments = || all.iter().flat_map(|(_, segments)| segments);
        let losses = segments().filter(|segment| segment.lost).count();
        let writes = all.iter().filter_map(|(_, segments)| Some(segments.last()?.groups.len())).sum();
        let last = all.iter().filter_map(|(_, segments)| segments.last()).flat_map(|segment| &segment.groups);
        let fields = last.flat_map(|group| &group.commands).filter(|command| command[0] == "HSET").flatten();
        let holds = fields.filter(|word| word.starts_with("\th:")).count();
        let seconds = begun.elapsed().as_secs_f64();
        let calls = record.events.len();
        return Ok(Summary {
            calls,
            layout: schedule.layout.name,
            writes,
            holds,
            losses,
            turns: record.turns.len(),
            seconds,
        });
    }
    let path = report::write(&schedule, &problems, &record, &all, &servers.log());
    Err((problems, path))
}

/// Everything that happens: preheat, the sale, and what settles it.
fn play(world: &World<'_>, servers: &mut Servers) {
    let schedule = world.schedule;
    servers.seckill().args(["preheat", "-"]).stdin(fixture(schedule)).code(0);
    let feed = schedule.activities.iter().position(|activity| activity.ledger);
    if let Some(activity) = feed {
        // The group is there before anything can be trimmed.
        world.perform("feed", Way::Direct(servers), &quiet(What::Feed { activity, exec: false }));
    }
    let first = world.history.now().at[0];
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

/// Nothing breaks any more: what is open is completed, and the verdict asked for.
fn settle(world: &World<'_>, servers: &Servers, feed: Option<usize>) {
    let perform = |what: What| world.perform("settle", Way::Direct(servers), &quiet(what));
    for activity in 0..world.schedule.activities.len() {
        perform(What::Pause { activity, on: false, withdraw: false });
    }
    let (mut seen, open) = (BTreeSet::new(), world.history.with_events(open_orders));
    for order in open {
        // A file's rows have ids of their own, so an id is one order.
        if seen.insert(format!("{order:?}")) {
            perform(What::Order(order));
        }
    }
    for activity in 0..if world.schedule.layout.has_users() { world.schedule.activities.len() } else { 0 } {
        perform(What::Expire { activity });
    }
    for file in 0..world.schedule.files.len() {
        perform(What::File { file, fast: false });
    }
    if world.schedule.drifts {
        perform(What::Reconcile { fix: true });
    }
    if let Some(activity) = feed {
        perform(What::Feed { activity, exec: false });
        perform(What::Feed { activity, exec: false });
    }
    perform(What::Reconcile { fix: false });
}

/// Orders of which nobody knows whether they were applied.
fn open_orders(events: &[Event]) -> Vec<Order> {
    let open = events.iter().filter(|event| matches!(event.code, None | Some(6)));
    open.filter_map(|event| {
        let What::Order(order) = &event.what else { return None };
        Some(Order { request: names::request_of(event, order)?, ..order.clone() })
    })
    .collect()
}

fn quiet(what: What) -> Step {
    Step::of(what)
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
