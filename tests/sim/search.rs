//! Runs histories, and tells the shortest story of one that breaks a promise.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::history::{self, Plan};
use super::night;
use super::oracle::Broken;
use super::script::Engine;
use super::shards;

/// Histories of sales in a normal run: about a minute of two processors. Long searches run three times as many, and audits make
/// those of shards slower.
const HISTORIES: u64 = 20_000;
const HISTORIES_OF_SHARDS: u64 = 1000;
const NIGHTS: u64 = 2000;

/// What runs a history.
pub type Run = fn(&Rc<Engine>, &Plan, Option<&mut Vec<String>>) -> Result<(), Broken>;

/// Whether searches run at full size, as `.ci/run` has them.
pub fn has_full_searches() -> bool {
    std::env::var_os("SECKILL_TEST_SEARCHES").is_some_and(|text| text == "full")
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
fn story(run: Run, name: &str, engine: &Rc<Engine>, plan: Plan, rule: &str) -> String {
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

#[test]
fn no_history_of_a_sale_breaks_a_promise() {
    search(history::run, "of_a_sale", HISTORIES);
}

#[test]
fn no_history_of_shards_breaks_a_promise() {
    search(shards::run, "of_shards", HISTORIES_OF_SHARDS);
}

#[test]
fn no_night_of_the_client_breaks_a_promise() {
    search(night::run, "of_the_client", NIGHTS);
}

/// Runs histories on all processors, and fails with a story of each rule that one of them breaks.
fn search(run: Run, name: &str, count: u64) {
    let is_long = has_full_searches();
    let count = if is_long { 3 * count } else { count };
    let (first, count) = (setting("SECKILL_SIM_SEED", 0), setting("SECKILL_SIM_HISTORIES", count));
    let wants_all = std::env::var_os("SECKILL_SIM_ALL").is_some();
    let (next, is_over) = (AtomicU64::new(first), AtomicBool::new(false));
    let began = std::time::Instant::now();
    let work = || {
        let engine = Rc::new(Engine::new(|_, text| text.to_owned()));
        let mut found = Vec::new();
        let seeds = std::iter::from_fn(|| {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            (seed < first + count && !is_over.load(Ordering::Relaxed)).then_some(seed)
        });
        for plan in seeds.map(Plan::of) {
            if let Err(broken) = run(&engine, &plan, None) {
                found.push((plan, broken));
                is_over.store(!wants_all, Ordering::Relaxed);
            }
        }
        // One story a rule is enough.
        found.sort_by_key(|(plan, broken)| (broken.rule, plan.seed));
        let mut rules = std::collections::BTreeMap::<_, (u64, Option<Plan>)>::new();
        for (plan, broken) in found {
            let (count, first) = rules.entry(broken.rule).or_default();
            *count += 1;
            first.get_or_insert(plan);
        }
        let told = |(rule, (count, plan)): (_, (u64, Option<Plan>))| {
            (rule, count, plan.map(|plan| story(run, name, &engine, plan, rule)).unwrap_or_default())
        };
        rules.into_iter().map(told).collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("histories do not panic")).collect()
    });
    eprintln!("{count} histories in {:?}", began.elapsed());
    for (rule, count, story) in &found {
        eprintln!("{count} × {rule}\n{story}\n");
    }
    assert!(found.is_empty(), "a promise is broken");
}
