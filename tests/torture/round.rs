//! One round: a server, actors at work, then quiet, and the comparison of all that was seen with the rules.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use crate::actors::{Way, World};
use crate::faults::{arm, wreak};
use crate::history::{Event, History};
use crate::schedule::{Order, Schedule, Step, What};
use crate::support::{Proxy, TestRedis};
use crate::{aof, check, names, report};

/// What a round did.
pub struct Summary {
    pub calls: usize,
    layout: &'static str,
    writes: usize,
    losses: usize,
    seconds: f64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, layout, writes, losses, seconds } = self;
        write!(f, "{layout}, {calls} calls, {writes} writes, {losses} data losses, {seconds:.1} s")
    }
}

/// Runs a round. A failure is what is wrong, and the file that has the whole history.
pub fn run(seed: u64, deadline: Instant) -> Result<Summary, (Vec<String>, PathBuf)> {
    let begun = Instant::now();
    let mut schedule = Schedule::new(seed);
    let has_users = schedule.layout.has_users();
    let Schedule { files, activities, .. } = &mut schedule;
    files.iter_mut().for_each(|file| file.write(activities, has_users));
    let schedule = schedule;

    let dir = tempfile::tempdir().unwrap();
    for file in &schedule.files {
        std::fs::write(dir.path().join(&file.name), &file.text).unwrap();
    }
    std::fs::create_dir(dir.path().join("loaded")).unwrap();
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"];
    let mut redis = TestRedis::with(arguments);
    let history = History::new(aof::path_in(redis.socket().parent().unwrap()));
    let world = World { schedule: &schedule, history: &history, files: dir.path(), deadline };
    let mut problems = Vec::new();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| play(&world, &mut redis))) {
        problems.push(format!("the round itself failed: {}", message(&*panic)));
    }

    let (events, notes, segments) = history.finish();
    let names = names::names(&schedule, &events, &segments);
    let checked = catch_unwind(AssertUnwindSafe(|| check::all(&names, &events, &segments, &redis)));
    problems.extend(checked.unwrap_or_else(|panic| vec![format!("the check itself failed: {}", message(&*panic))]));
    if problems.is_empty() {
        let last = segments.last().and_then(|segment| segment.bytes.as_deref()).unwrap_or_default();
        let losses = segments.iter().filter(|segment| segment.lost).count();
        let (calls, writes) = (events.len(), aof::groups(last).len());
        let seconds = begun.elapsed().as_secs_f64();
        return Ok(Summary { calls, layout: schedule.layout.name, writes, losses, seconds });
    }
    let path = report::write(&schedule, &problems, (&events, &notes, &segments), &redis.log());
    Err((problems, path))
}

/// Everything that happens: preheat, the sale, and what settles it.
fn play(world: &World<'_>, redis: &mut TestRedis) {
    let schedule = world.schedule;
    redis.seckill(["preheat", "-"]).stdin(fixture(schedule)).code(0);
    let feed = schedule.activities.iter().position(|activity| activity.ledger);
    if let Some(activity) = feed {
        // The group is there before anything can be trimmed.
        world.perform("feed", Way::Direct(redis), &quiet(What::Feed { activity, exec: false }));
    }
    let first = world.history.now().at;
    let mut rng = schedule.rng.clone();
    let proxies: Vec<Proxy> = (0..schedule.sellers.len() + 3).map(|_| Proxy::before(redis)).collect();
    for (nth, proxy) in proxies.iter().enumerate() {
        // The last one only reads, and acknowledges what it read.
        arm(proxy, rng.fork(), schedule.faults, nth + 1 < proxies.len());
    }
    let (selling, rest) = proxies.split_at(schedule.sellers.len());
    let (audit, follow) = (rng.fork(), rng.fork());
    thread::scope(|scope| {
        let mut actors: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
        for (nth, (steps, proxy)) in schedule.sellers.iter().zip(selling).enumerate() {
            actors.push(scope.spawn(move || world.follow(&format!("seller{nth}"), proxy, steps)));
        }
        actors.push(scope.spawn(|| world.follow("operator", &rest[0], &schedule.operator)));
        let mut others = vec![scope.spawn(|| world.audit(&rest[1], audit))];
        if let Some(activity) = feed {
            others.push(scope.spawn(move || world.feed(&rest[2], activity, follow)));
        }
        others.push(scope.spawn(|| wreak(redis, world.history, schedule, first)));
        let ended: Vec<_> = actors.into_iter().map(ScopedJoinHandle::join).collect();
        world.history.end();
        let ended: Vec<_> = ended.into_iter().chain(others.into_iter().map(ScopedJoinHandle::join)).collect();
        if let Some(panic) = ended.into_iter().find_map(Result::err) {
            std::panic::resume_unwind(panic);
        }
    });
    drop(proxies);
    settle(world, redis, feed);
}

/// Nothing breaks any more: what is open is completed, and the verdict asked for.
fn settle(world: &World<'_>, redis: &TestRedis, feed: Option<usize>) {
    let perform = |what: What| world.perform("settle", Way::Direct(redis), &quiet(what));
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
    Step { what, kill_after: None }
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
