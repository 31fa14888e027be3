//! `seckill run`: drive YAML fixtures: preheat, steps, expectations.

mod perform;
mod preheat;
mod report;

use std::collections::HashSet;

use crate::cli::args::Mutating;
use crate::cli::commands::run::report::{Observed, StepRow};
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::input::STDIN;
use crate::cli::input::yaml::fixture::{self, Fixture, Step};
use crate::cli::interrupt;
use crate::cli::output::Output;
use crate::cli::shared::session::Session;
use crate::model::{Action, ActivityId, Preheated, shell_quoted};
use crate::store::Store;

/// Run a fixture: preheat, steps, expectations
///
/// Preheats what a fixture describes, does its steps in order and compares how each ends with what the fixture
/// expects. Stops at the first step that ends otherwise and exits with 1. An activity that exists and
/// differs is left alone, and nothing is run.
///
/// Steps that change an activity which this run did not create need a yes. A `rush`, which invents its buyers, runs
/// only on activities that this run created, unless `--yes` is given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "
# Preheat, run the steps, check the expectations
seckill run fixtures/seckill.yaml
# On a private server
seckill run fixtures/seckill.yaml --embedded
# Run all steps, also after one that failed
seckill run sale.yaml --keep-going
")]
pub struct RunArgs {
    /// YAML fixtures, run in this order; - is standard input
    #[arg(value_name = "FIXTURE", required = true)]
    files: Vec<String>,
    /// Continue after an unmet expectation
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    mutating: Mutating,
}

/// Runs all fixtures. All are read and checked before the first one is.
pub fn run(args: &RunArgs, session: &mut Session) -> Result<Exit> {
    let mut fixtures = args.files.iter().map(|file| fixture::read(file)).collect::<Result<Vec<_>, _>>()?;
    if let Some(reason) = &args.mutating.reason {
        fixtures.iter_mut().flat_map(|fixture| &mut fixture.steps).for_each(|step| step.operation.explain(reason));
    }
    let layout = session.layout(fixture::layout(&fixtures)?)?;
    for fixture in &fixtures {
        fixture.check(layout)?;
    }
    perform::prepare(&fixtures)?;
    // What fixtures name is checked with them.
    let mut store = session.store_to_change(layout, &args.mutating, [])?;
    let out = &mut session.out;
    let mut steps = Vec::new();
    // What was done is shown even if an error ends the run.
    let ended = drive(args, &fixtures, &mut store, out, &mut steps);
    let shown = report::show(&steps, &fixtures, &mut store, out, ended.is_ok() && !args.mutating.dry_run);
    let exit = ended?;
    shown?;
    Ok(exit)
}

/// Preheats and does the steps of one fixture after the other.
fn drive(
    args: &RunArgs,
    fixtures: &[Fixture],
    store: &mut Store,
    out: &mut Output,
    steps: &mut Vec<StepRow>,
) -> Result<Exit> {
    let mut planned = Vec::new();
    for fixture in fixtures {
        let results = preheat::plan(fixture, store, out)?;
        if results.iter().any(|result| !result.status.is_done()) {
            preheat::refused(fixture, &results, out);
            return Ok(Exit::Refused);
        }
        planned.push(results);
    }
    if !args.mutating.dry_run && !args.mutating.yes {
        preheat::ask(fixtures, &planned.concat(), store, out)?;
    }
    // Only now: a Ctrl-C at the question ends it at once.
    interrupt::stop_gracefully();
    let mut exit = Exit::Done;
    let mut left: usize = fixtures.iter().map(|fixture| fixture.steps.len()).sum();
    let mut created = HashSet::new();
    for (fixture, results) in fixtures.iter().zip(planned) {
        let preheated = preheat::preheat(fixture, results, &args.mutating, store, out)?;
        let Some(preheated) = preheated else { return Ok(Exit::Refused) };
        created.extend(preheat::created(&preheated).cloned());
        // As the fixture says, but sold already.
        let is_sold = |it: &Preheated| it.action == Action::Unchanged && it.stock != it.total;
        for step in &fixture.steps {
            if interrupt::requested() {
                return Ok(interrupted(left, fixture, out));
            }
            left -= 1;
            if args.mutating.dry_run {
                steps.push(StepRow::new(steps.len() + 1, step));
                continue;
            }
            if !perform::waited(&step.operation) {
                return Ok(interrupted(left + 1, fixture, out));
            }
            let may_rush = |activity: &ActivityId| args.mutating.yes || created.contains(activity);
            let number = steps.len() + 1;
            // What came before it was done.
            let observed = perform::perform(&step.operation, may_rush, store, out).map_err(|failure| {
                let message = format!("step {number} at {}:{}: {}", fixture.file, step.at, failure.message);
                Failure { message, ..failure.in_part() }
            })?;
            crate::cli::shared::outcome::warn_of_corrupt(&mut out.warnings(), observed.corrupt.as_ref());
            let differences = differences(step, &observed);
            let passed = (!observed.cut_short).then_some(differences.is_empty());
            steps.push(StepRow::done(number, step, &observed, passed));
            if observed.cut_short {
                return Ok(interrupted(left, fixture, out));
            }
            if differences.is_empty() {
                continue;
            }
            exit = Exit::Failed;
            out.warn(format!("step {number} at {}:{}: {}", fixture.file, step.at, differences.join(", ")));
            if preheated.iter().any(is_sold) {
                out.hint(format!("units were sold before this run; {}", how_to_start_over(fixture)));
            }
            if !args.keep_going {
                if left > 0 {
                    out.note(format!("{}; `--keep-going` continues", not_run(left)));
                }
                return Ok(exit);
            }
        }
    }
    Ok(exit)
}

/// In what a step ended otherwise than expected, in words.
fn differences(step: &Step, observed: &Observed) -> Vec<String> {
    let Some(expected) = &step.expect else { return Vec::new() };
    let mut differences = Vec::new();
    if let Some(word) = expected.word
        && word != observed.word
    {
        differences.push(format!("expected `{word}`, got `{}`", observed.word));
    }
    for (name, count) in &expected.counts {
        match observed.counts.iter().find(|(known, _)| known == name) {
            Some((_, got)) if got == count => {}
            Some((_, got)) => differences.push(format!("expected {name} {count}, got {got}")),
            None => differences.push(format!("expected {name} {count}, got none")),
        }
    }
    differences
}

/// Ctrl-C came between two steps, or ended a rush.
fn interrupted(left: usize, fixture: &Fixture, out: &Output) -> Exit {
    out.warn(format!("interrupted; {}", not_run(left)));
    out.hint(format!("what was done stays; `seckill inspect` shows it, {}", how_to_start_over(fixture)));
    Exit::Interrupted
}

fn how_to_start_over(fixture: &Fixture) -> String {
    let file = if fixture.file == STDIN { "-".to_owned() } else { shell_quoted(&fixture.file) };
    format!("`seckill preheat --reset {file}` starts over")
}

fn not_run(left: usize) -> String {
    match left {
        1 => "1 more step was not run".to_owned(),
        _ => format!("{left} more steps were not run"),
    }
}
