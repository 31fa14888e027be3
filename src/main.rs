//! `seckill`: the operator's side of a flash sale on Redis or Valkey.
//!
//! The command line is `src/cli`. See ARCHITECTURE.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    seckill::internals::start()
}
