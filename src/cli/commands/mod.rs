//! One file per subcommand: its arguments, then its run. Here is only what all of them share.

pub mod archive;
pub mod bench;
mod bulk;
pub mod completions;
mod consent;
pub mod context;
pub mod deduct;
pub mod doctor;
pub mod expire;
mod hints;
pub mod hold;
pub mod inspect;
pub mod ledger;
pub mod man;
mod metrics;
pub mod multi_deduct;
mod multi_rows;
pub mod pause;
pub mod preheat;
pub mod reconcile;
pub mod refund;
pub mod repair;
pub mod report;
pub mod rows;
pub mod run;
pub mod script;
mod session;
pub mod settle;
mod sharded;
mod stored_user;
mod target;

use crate::cli::commands::session::Session;
use crate::cli::error::Result;
use crate::cli::failure::{Exit, Failure};
use crate::cli::output::Output;
use crate::cli::{Cli, Command, Global};

/// Runs the command and returns its exit code.
///
/// # Errors
/// Whatever keeps the command from doing its work. An answer such as "sold out" is no error.
pub fn run(cli: Cli) -> Result<Exit, Failure> {
    metrics::refuse(cli.global.output(), &cli.command)?;
    let command = match cli.command {
        Command::Context(command) => return offline(&cli.global, |out| context::run(command, &cli.global, out)),
        Command::Completions(args) => return offline(&cli.global, |out| completions::run(&args, out)),
        Command::Man(args) => return offline(&cli.global, |out| man::run(&args, out)),
        command => command,
    };
    let mut session = Session::new(cli.global)?;
    let ended = dispatch(command, &mut session).and_then(|exit| session.wait_for_replicas(exit));
    let ended = match ended {
        // The reader of a feed that closed the pipe has what it wanted.
        Err(error) if error.is_broken_pipe() => Ok(Exit::Done),
        ended => ended.map_err(Failure::from),
    };
    session.out.end(ended)
}

/// Runs a command that needs no server, and no context.
fn offline(global: &Global, command: impl FnOnce(&mut Output) -> Result<Exit>) -> Result<Exit, Failure> {
    let mut out = session::output(global)?;
    let ended = command(&mut out).map_err(Failure::from);
    out.end(ended)
}

fn dispatch(command: Command, session: &mut Session) -> Result<Exit> {
    match command {
        Command::Preheat(args) => preheat::run(&args, session),
        Command::Deduct(args) => session.change(&args, deduct::run),
        Command::MultiDeduct(args) => session.change(&args, multi_deduct::run),
        Command::Refund(args) => session.change(&args, refund::run),
        Command::Hold(args) => session.change(&args, hold::run),
        Command::Confirm(args) => session.change(&args, settle::confirm),
        Command::Release(args) => session.change(&args, settle::release),
        Command::Expire(args) => session.change(&args, expire::run),
        Command::Inspect(args) => session.with(|store, out| inspect::run(&args, store, out)),
        Command::Reconcile(args) => reconcile::run(&args, session),
        Command::Repair(args) => repair::run(&args, session),
        Command::Ledger(args) => match args.trim() {
            Some(trim) => session.change(trim, ledger::trim::run),
            None => session.with(|store, out| ledger::run(&args, store, out)),
        },
        Command::Doctor(args) => doctor::run(&args, session),
        Command::Report(args) => session.with(|store, out| report::run(&args, store, out)),
        Command::Run(args) => run::run(&args, session),
        Command::Bench(args) => bench::run(&args, session),
        Command::Pause(args) => session.change(&args, pause::pause),
        Command::Archive(args) => session.change(&args, archive::run),
        Command::Resume(args) => session.change(&args, pause::resume),
        Command::Script(command) => script::run(&command, session),
        // It was run before a context was looked for.
        Command::Context(_) | Command::Completions(_) | Command::Man(_) => Ok(Exit::Done),
    }
}
