//! A file or folder a subcommand: its arguments, then its run. Here is the list of them, and how each is run.

pub mod archive;
pub mod bench;
pub mod completions;
pub mod context;
pub mod deduct;
pub mod doctor;
pub mod expire;
pub mod hold;
pub mod inspect;
pub mod ledger;
pub mod man;
pub mod multi_deduct;
pub mod pause;
pub mod preheat;
pub mod reconcile;
pub mod refund;
pub mod repair;
pub mod report;
pub mod run;
pub mod script;
pub mod settle;
pub mod version;

use crate::cli::Cli;
use crate::cli::args::Global;
use crate::cli::failure::{Exit, Failure, Result};
use crate::cli::output::{Format, Output};
use crate::cli::shared::session::{self, Session};

/// Declares the commands in the order in which completions list them, each with its group in the help and how it runs:
/// `change` changes data, and says where the arguments have their [`Mutating`](crate::cli::args::Mutating) and the activities that
/// they name; `read` only reads, `session` decides itself which server it needs, `offline` needs none.
macro_rules! commands {
    ($($(#[$meta:meta])* $group:ident: $variant:ident($args:ty) $how:ident $(($($where:tt)*))? $run:path;)*) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$meta])* $variant($args),)*
        }

        /// The group of each command.
        pub const GROUPS: &[&str] = &[$(stringify!($group)),*];

        /// Runs the command and returns its exit code.
        ///
        /// # Errors
        /// Whatever keeps the command from doing its work. An answer such as "sold out" is no error.
        pub fn run(Cli { global, command }: Cli) -> Result<Exit> {
            refuse_format(global.output(), &command)?;
            match command {
                $(Command::$variant(args) => commands!(@$how ($($($where)*)?) $run, args, global),)*
            }
        }
    };
    (@change ($($mutating:ident).+, $($activities:ident).+) $run:path, $args:ident, $global:ident) => {
        online($global, |session| {
            let (mutating, activities) = (&$args.$($mutating).+, $args.$($activities).+.iter());
            session.change(mutating, activities, |store, out| $run(&$args, store, out))
        })
    };
    (@read () $run:path, $args:ident, $global:ident) => {
        online($global, |session| session.with(|store, out| $run(&$args, store, out)))
    };
    (@session () $run:path, $args:ident, $global:ident) => { online($global, |session| $run(&$args, session)) };
    (@offline () $run:path, $args:ident, $global:ident) => { offline(&$global, |out| $run($args, &$global, out)) };
}

commands! {
    Activities: Preheat(preheat::PreheatArgs) session preheat::run;
    Orders: Deduct(deduct::DeductArgs) change(mutating, activity) deduct::run;
    Orders: MultiDeduct(multi_deduct::MultiDeductArgs) session multi_deduct::run;
    Orders: Refund(refund::RefundArgs) change(mutating, activity) refund::run;
    Orders: Hold(hold::HoldArgs) change(mutating, activity) hold::run;
    Orders: Confirm(settle::ConfirmArgs) change(which.mutating, which.activity) settle::confirm;
    Orders: Release(settle::ReleaseArgs) change(which.mutating, which.activity) settle::release;
    Orders: Expire(expire::ExpireArgs) change(mutating, activities) expire::run;
    Audit: Inspect(inspect::InspectArgs) read inspect::run;
    Audit: Reconcile(reconcile::ReconcileArgs) session reconcile::run;
    Audit: Repair(repair::RepairArgs) session repair::run;
    Audit: Ledger(ledger::LedgerArgs) session ledger::run;
    Audit: Doctor(doctor::DoctorArgs) session doctor::run;
    Audit: Report(report::ReportArgs) read report::run;
    Activities: Run(run::RunArgs) session run::run;
    Activities: Pause(pause::PauseArgs) change(which.mutating, which.activities) pause::pause;
    Activities: Resume(pause::ResumeArgs) change(which.mutating, which.activities) pause::resume;
    Activities: Archive(archive::ArchiveArgs) change(mutating, activities) archive::run;
    #[command(subcommand)]
    Other: Script(script::ScriptCommand) session script::run;
    #[command(subcommand)]
    Other: Context(context::ContextCommand) offline context::run;
    Other: Bench(bench::BenchArgs) session bench::run;
    Other: Completions(completions::CompletionsArgs) offline completions::run;
    Other: Man(man::ManArgs) offline man::run;
    Other: Version(version::VersionArgs) offline version::run;
}

/// Runs a command that has a context, and so a server.
fn online(global: Global, command: impl FnOnce(&mut Session) -> Result<Exit>) -> Result<Exit> {
    let mut session = Session::new(global)?;
    let ended = command(&mut session).and_then(|exit| session.wait_for_replicas(exit));
    let ended = match ended {
        // The reader of a feed that closed the pipe has what it wanted.
        Err(error) if error.is_broken_pipe() => Ok(Exit::Done),
        ended => ended,
    };
    session.out.end(ended)
}

/// Runs a command that needs no server, and no context.
fn offline(global: &Global, command: impl FnOnce(&mut Output) -> Result<Exit>) -> Result<Exit> {
    let mut out = session::output(global)?;
    let ended = command(&mut out);
    out.end(ended)
}

/// The error of a command that has no metrics, or lists no names, before it does anything.
fn refuse_format(format: Format, command: &Command) -> Result<()> {
    let known = match (format, command) {
        (Format::Prometheus, Command::Inspect(_) | Command::Reconcile(_)) => return Ok(()),
        (Format::Name, Command::Inspect(_) | Command::Context(_) | Command::Script(_)) => return Ok(()),
        (Format::Prometheus, _) => "`inspect` and `reconcile`",
        (Format::Name, _) => "`inspect`, `context` and `script`",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("only {known} print `-o {}`", format.name()))
        .hint("other commands print table, json, jsonl, csv, tsv or yaml"))
}
