//! Runs histories, and tells the shortest story of one that breaks a promise.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::history::{self, Plan};
use super::night;
use super::oracle::Broken;
use super::script::{Engine, sha1_hex};
use super::shards;

/// What runs a history.
pub type Run = fn(&Rc<Engine>, &Plan, Option<&mut Vec<String>>) -> Result<(), Broken>;

/// Whether searches run at full size, as `.ci/run` has them.
pub fn has_full_searches() -> bool {
    std::env::var_os("SECKILL_TEST_SEARCHES").is_some_and(|text| text == "full")
}

/// What runs instead of a script: the file of its SHA-1 in the directory `SECKILL_SIM_SCRIPTS`, if there is one.
pub fn given(text: &str) -> String {
    let directory = std::env::var_os("SECKILL_SIM_SCRIPTS").map(PathBuf::from);
    let file = directory.map(|directory| directory.join(sha1_hex(text.as_bytes()) + ".lua"));
    file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_else(|| text.to_owned())
}

/// A number that the environment gives.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("`{name}` is no number: {text}")))
}

/// Leaves out steps, then faults, as long as the same rule breaks.
fn shortened(run: Run, engine: &Rc<Engine>, mut plan: Plan, rule: &str) -> Plan {
    let breaks = |plan: &Plan| run(engine, plan, None).is_err_and(|broken| broken.rule == rule);
    loop {
        let before = (plan.steps.len(), plan.calm.len());
        for step in plan.steps.clone().into_iter().rev() {
            let mut shorter = plan.clone();
            shorter.steps.retain(|kept| *kept != step);
            if breaks(&shorter) {
                plan = shorter;
            }
        }
        for step in plan.steps.clone() {
            let mut calmer = plan.clone();
            calmer.calm.push(step);
            if !plan.calm.contains(&step) && breaks(&calmer) {
                plan = calmer;
            }
        }
        if before == (plan.steps.len(), plan.calm.len()) {
            return plan;
        }
    }
}

/// What happened in the shortest history of a seed that breaks the same rule.
pub fn story(run: Run, name: &str, engine: &Rc<Engine>, plan: Plan, rule: &str) -> String {
    let seed = plan.seed;
    let plan = shortened(run, engine, plan, rule);
    let mut lines = Vec::new();
    let end = run(engine, &plan, Some(&mut lines));
    let Broken { rule, what } = end.expect_err("it breaks, as before");
    format!(
        "seed {seed} breaks a promise: {rule}\n  {what}\nSECKILL_SIM_SEED={seed} SECKILL_SIM_HISTORIES=1 cargo test -p sim {name}\n{}",
        lines.join("\n")
    )
}

/// Histories, how many of them a normal run has, and how much of the time that a run may have is theirs, in percent. A normal run
/// takes about a minute of two processors, and long searches run three times as many. Audits make histories of shards slower.
struct Search {
    run: Run,
    /// A part of the test's name.
    name: &'static str,
    count: u64,
    share: u64,
}

#[test]
fn no_history_of_a_sale_breaks_a_promise() {
    Search { run: history::run, name: "of_a_sale", count: 16_000, share: 15 }.search();
}

#[test]
fn no_history_of_shards_breaks_a_promise() {
    Search { run: shards::run, name: "of_shards", count: 1000, share: 15 }.search();
}

#[test]
fn no_night_of_the_client_breaks_a_promise() {
    Search { run: night::run, name: "of_the_client", count: 4000, share: 70 }.search();
}

impl Search {
    /// From which seed on, how many seeds, and until when.
    fn extent(&self) -> (u64, u64, Option<Instant>) {
        let first = setting("SECKILL_SIM_SEED", 0);
        match setting("SECKILL_SIM_SECONDS", 0) {
            0 => {
                let count = if has_full_searches() { 3 * self.count } else { self.count };
                (first, setting("SECKILL_SIM_HISTORIES", count), None)
            }
            seconds => {
                let share = Duration::from_millis(seconds * 10 * self.share);
                (first, u64::MAX - first, Some(Instant::now() + share))
            }
        }
    }

    /// Runs histories on all processors, and fails with a story of each rule that one of them breaks.
    fn search(&self) {
        let (first, count, until) = self.extent();
        let (next, is_over, began) = (AtomicU64::new(first), AtomicBool::new(false), Instant::now());
        let wants_all = std::env::var_os("SECKILL_SIM_ALL").is_some();
        let work = || {
            let is_late = || until.is_some_and(|until| Instant::now() >= until);
            let seeds = std::iter::from_fn(|| {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                (seed - first < count && !is_over.load(Ordering::Relaxed) && !is_late()).then_some(seed)
            });
            self.run_seeds(seeds, || is_over.store(!wants_all, Ordering::Relaxed))
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (ran, found): (Vec<u64>, Vec<_>) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("histories do not panic")).unzip()
        });
        let (ran, seconds) = (ran.iter().sum::<u64>(), began.elapsed().as_secs_f64());
        let rate = ran as f64 * 60.0 / seconds / threads as f64;
        eprintln!("{}: {ran} from seed {first} on in {seconds:.1} s, {rate:.0} a minute and core", self.name);
        for (rule, count, story) in found.iter().flatten() {
            eprintln!("{count} × {rule}\n{story}\n");
        }
        assert!(found.iter().all(Vec::is_empty), "a promise is broken");
    }

    /// Runs histories: how many, and of each rule that some break how many do, with the story of the first.
    fn run_seeds(&self, seeds: impl Iterator<Item = u64>, found: impl Fn()) -> (u64, Vec<(&'static str, u64, String)>) {
        let engine = Rc::new(Engine::new(|_, text| given(text)));
        let (mut ran, mut rules) = (0, BTreeMap::<_, (u64, Plan)>::new());
        for plan in seeds.map(Plan::of) {
            ran += 1;
            if let Err(broken) = (self.run)(&engine, &plan, None) {
                found();
                rules.entry(broken.rule).or_insert((0, plan)).0 += 1;
            }
        }
        let story = |(rule, (count, plan))| (rule, count, story(self.run, self.name, &engine, plan, rule));
        (ran, rules.into_iter().map(story).collect())
    }
}
