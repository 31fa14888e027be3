//! Changes the scripts in `lua/` one small thing at a time, and prints the changes that no test notices. `scripts/mutants`
//! compiles this with rustc alone and runs it:
//!
//!   mutate-lua instrument DIRECTORY                  scripts that note which of their lines run, for the second binary below
//!   mutate-lua BINARY TELLING TESTS COVERAGE [EVERY[+OFFSET]] [FILE]
//!                                                    with EVERY = 20 only each twentieth change, 20+7 the seventh of twenty;
//!                                                    FILE such as lua/refund.lua, or lua/refund.lua:90
//!   mutate-lua BINARY TELLING TESTS COVERAGE survived
//!                                                    those that survived until now, which are listed beside COVERAGE
//!   mutate-lua sim SIMULATOR BUILD_SCRIPT [EVERY[+OFFSET]]
//!                                                    those of scripts that the simulator runs, by its searches alone
//!
//! Nothing is built for a change: the scripts and their SHA-1 are replaced in a copy of the binary, which the tests run
//! because `SECKILL_TEST_BINARY` names it. Comments make room for what is longer. Only the tests that run the changed line
//! run, those first that noticed most changes of that file in the least time, until one fails.

mod changes;
mod coverage;
mod memory;
mod running;
mod scripts;
mod sim;
mod survivors;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use changes::{Mutant, mutants_of};
use coverage::{Coverage, Test};
use memory::{Seen, Survived, read_seen, write_seen};
use scripts::{Binary, all_files, sha1, temporary};
use survivors::Known;

/// The tests of one change run in batches that take so many seconds, the last all that are left.
const BATCHES: [f64; 3] = [2.0, 8.0, 30.0];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [word, directory] if word == "instrument" => coverage::instrument(Path::new(directory)),
        [word, simulator, build_script, options @ ..] if word == "sim" => {
            let [every, offset] = every_and_offset(options);
            sim::mutate(simulator, build_script, every, offset);
        }
        [binary, noting, tests, coverage, options @ ..] => mutate(binary, noting, tests, coverage, options),
        _ => panic!("usage: mutate-lua BINARY TELLING TESTS COVERAGE [EVERY[+OFFSET]] [FILE]"),
    }
}

/// Which changes: each twentieth by `20`, the seventh of twenty by `20+7`.
fn every_and_offset(options: &[String]) -> [usize; 2] {
    let (every, offset) = options.first().map_or(("1", "0"), |every| every.split_once('+').unwrap_or((every, "0")));
    [every, offset].map(|number| number.parse().expect("EVERY is a number"))
}

fn mutate(binary: &str, noting: &str, tests: &str, coverage: &str, options: &[String]) {
    // Tests run binaries from directories of their own.
    let noting = &fs::canonicalize(noting).expect("the binary that notes its lines");
    let is_again = options.first().is_some_and(|option| option == "survived");
    let options = if is_again { &[] } else { options };
    let [every, offset] = every_and_offset(options);
    let only = options.get(1).map(String::as_str);
    // So many seconds of tests a change, the fittest first; a change that needs others counts as not noticed.
    let most = env::var("SECKILL_MUTANTS_SECONDS").map_or(60.0, |text| text.parse().expect("seconds"));
    let server = env::var("SECKILL_TEST_SERVER").expect("SECKILL_TEST_SERVER");
    let known = Known::read(Path::new("scripts/mutate-lua/survivors.md"));
    let [survived_file, seen_file] = ["survived.txt", "seen.txt"].map(|name| Path::new(coverage).with_file_name(name));
    let coverage = Coverage::read(Path::new(coverage), tests, noting, &server);
    let binary = Binary::read(binary);
    let (copy, unchanged) = (temporary("binary"), temporary("unchanged"));
    binary.write(&unchanged, None);

    let files = all_files();
    let mutants: Vec<Mutant> = files.iter().flat_map(|file| mutants_of(file)).collect();
    let is_wanted = |mutant: &&Mutant| {
        let file = mutant.file.display();
        only.is_none_or(|only| only == format!("{file}") || only == format!("{file}:{}", mutant.line + 1))
    };
    let mut survived = Survived::read(survived_file, &mutants);
    let mut chosen: Vec<&Mutant> = mutants.iter().skip(offset).step_by(every).filter(is_wanted).collect();
    chosen.retain(|mutant| !is_again || survived.contains(mutant));
    // The same order each time, in which the first hundred are of all files, so that a run may be ended early.
    chosen.sort_by_cached_key(|mutant| sha1(&format!("{}:{} {}", mutant.file.display(), mutant.line, mutant.after)));
    eprintln!("{} of {} changes", chosen.len(), mutants.len());

    let (mut choice, mut sound) = (Choice::with(read_seen(&seen_file)), HashSet::new());
    let (mut caught, mut equivalent, mut survivors) = (0, 0, 0);
    for mutant in &chosen {
        let Mutant { file, line, before, after } = mutant;
        let place = format!("{}:{}", file.display(), line + 1);
        let begun = Instant::now();
        if let Some(reason) = known.reason(mutant) {
            equivalent += 1;
            println!("known {place}: {reason}");
            continue;
        }
        binary.write(&copy, Some(mutant));
        let run = |names: &[&str], patience| running::first_failure(tests, &copy, names, patience);
        let (order, outcome) = loop {
            let order = choice.order(&coverage.tests, coverage.of(file, *line), file);
            let outcome = choice.first_failure(&coverage.tests, &order, file, most, run);
            let Outcome::Failed(name) = &outcome else { break (order, outcome) };
            let Some(test) = order.iter().copied().find(|&test| coverage.tests[test].name == *name) else {
                break (order, outcome);
            };
            // A test says nothing that fails without any change.
            let patience = Duration::from_secs_f64(60.0 + 5.0 * coverage.tests[test].seconds);
            if sound.contains(&test) || running::first_failure(tests, &unchanged, &[name], patience).is_none() {
                sound.insert(test);
                break (order, outcome);
            }
            eprintln!("{name} fails without any change, and is left out");
            choice.left_out.insert(test);
        };
        survived.note(mutant, matches!(outcome, Outcome::Passed(_)));
        write_seen(&seen_file, &choice.seen);
        match outcome {
            Outcome::Failed(name) => {
                caught += 1;
                eprintln!(
                    "caught {place} in {:.1} s by {name}: {} -> {}",
                    begun.elapsed().as_secs_f64(),
                    before.trim(),
                    after.trim()
                );
            }
            Outcome::Passed(ran) => {
                survivors += 1;
                let seconds = begun.elapsed().as_secs_f64();
                println!(
                    "SURVIVED {place} ({ran} of {} tests, {seconds:.0} s)\n  - {}\n  + {}",
                    order.len(),
                    before.trim(),
                    after.trim()
                );
            }
        }
        eprintln!("{caught} caught, {survivors} survived, {equivalent} are known to, of {}", chosen.len());
    }
    for file in [copy, unchanged] {
        let _ = fs::remove_file(file);
    }
    let share = |part: usize| 100.0 * part as f64 / chosen.len().max(1) as f64;
    println!(
        "{} changes: {caught} are caught ({:.1} %), {equivalent} change nothing that matters ({:.1} %), {survivors} survived ({:.1} %)",
        chosen.len(),
        share(caught),
        share(equivalent),
        share(survivors)
    );
}

enum Outcome {
    Failed(String),
    /// So many tests.
    Passed(usize),
}

/// Which test runs first: what the changes before have taught.
#[derive(Default)]
struct Choice {
    seen: Seen,
    /// The same of all files.
    anywhere: HashMap<String, (f64, f64)>,
    left_out: HashSet<usize>,
}

impl Choice {
    fn with(seen: Seen) -> Self {
        let mut choice = Self::default();
        seen.into_iter().for_each(|((file, test), (ran, failed))| choice.note(&file, &test, ran, failed));
        choice
    }

    fn note(&mut self, file: &Path, test: &str, ran: f64, failed: f64) {
        let of_file = self.seen.entry((file.to_owned(), test.to_owned())).or_default();
        for counts in [of_file, self.anywhere.entry(test.to_owned()).or_default()] {
            counts.0 += ran;
            counts.1 += failed;
        }
    }

    fn order(&self, tests: &[Test], mut found: Vec<usize>, file: &Path) -> Vec<usize> {
        let value = |test: &usize| {
            let name = &tests[*test].name;
            let (ran, failed) = self.seen.get(&(file.to_owned(), name.clone())).copied().unwrap_or_default();
            let (all, fails) = self.anywhere.get(name).copied().unwrap_or_default();
            let usual = (fails + 0.2) / (all + 1.0);
            // One that runs little else was written for this file.
            (failed + usual * (0.3 + 3.0 * tests[*test].share_of(file))) / (ran + 1.0) / (tests[*test].seconds + 0.3)
        };
        found.retain(|test| !self.left_out.contains(test));
        found.sort_by(|a, b| value(b).total_cmp(&value(a)));
        found
    }

    fn first_failure(
        &mut self,
        tests: &[Test],
        order: &[usize],
        file: &Path,
        most: f64,
        run: impl Fn(&[&str], Duration) -> Option<String>,
    ) -> Outcome {
        let (mut ran, mut spent) = (0, 0.0);
        for limit in BATCHES.into_iter().chain([f64::INFINITY]) {
            let (mut batch, mut seconds) = (Vec::new(), 0.0);
            while let Some(&test) = order.get(ran)
                && (spent == 0.0 || spent < most)
                && (batch.is_empty() || seconds + tests[test].seconds <= limit)
            {
                batch.push(test);
                ran += 1;
                seconds += tests[test].seconds;
                spent += tests[test].seconds;
            }
            if batch.is_empty() {
                break;
            }
            let names: Vec<&str> = batch.iter().map(|&test| &*tests[test].name).collect();
            let failed = run(&names, Duration::from_secs_f64(60.0 + 5.0 * seconds));
            for &test in &batch {
                let has_failed = failed.as_ref().is_some_and(|name| *name == tests[test].name);
                // Who else would have failed is not known.
                if has_failed || failed.is_none() {
                    self.note(file, &tests[test].name, 1.0, f64::from(u8::from(has_failed)));
                }
            }
            if let Some(name) = failed {
                return Outcome::Failed(name);
            }
        }
        Outcome::Passed(ran)
    }
}
