//! `seckill`: the operator's side of a flash sale on Redis or Valkey.
//!
//! The command line is `src/cli`. See ARCHITECTURE.md.

use std::process::ExitCode;

use seckill::cli::{self, Cli, ParseFailure, interrupt, output};

fn main() -> ExitCode {
    if cli::complete() {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(failure) => {
            let (format, color) = cli::asked_for(std::env::args_os());
            let exit = match failure {
                ParseFailure::Arguments(error) => output::report_usage(&error, cli::correction(&error), format, color),
                ParseFailure::Environment(failure) => output::report(&failure, format, color),
            };
            return ExitCode::from(exit as u8);
        }
    };
    let (format, color) = (cli.global.output(), cli.global.color);
    let exit = match cli::commands::run(cli) {
        Ok(exit) => exit,
        Err(failure) => output::report(&failure, format, color),
    };
    interrupt::clean_up();
    ExitCode::from(exit as u8)
}
