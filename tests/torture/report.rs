//! What a failure leaves behind: everything that is needed to understand it, in one file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::history::{Event, Progress};
use crate::schedule::Schedule;

/// Writes the history of a failed round, and says where.
pub fn write(schedule: &Schedule, problems: &[String], history: &Progress, server_log: &str) -> PathBuf {
    let mut text = String::new();
    writeln!(text, "{}\n\n== what is wrong", schedule.again()).unwrap();
    problems.iter().for_each(|problem| writeln!(text, "* {problem}\n").unwrap());
    writeln!(text, "== plan\nlayout {}, {}% faults", schedule.layout.name, schedule.faults).unwrap();
    schedule.activities.iter().for_each(|activity| writeln!(text, "{activity:?}").unwrap());
    writeln!(text, "{:?}\n\n== faults", schedule.chaos).unwrap();
    history.notes.iter().for_each(|note| writeln!(text, "{note}").unwrap());
    writeln!(text, "\n== calls, in the order of their ends").unwrap();
    for Event { number, actor, call, time, code, stdout, stderr, .. } in &history.events {
        writeln!(text, "e{number} {actor} from {:?} to {:?} exit {code:?}\n  $ {call}", time.0, time.1).unwrap();
        for line in stdout.lines().chain(stderr.lines()) {
            writeln!(text, "  {line}").unwrap();
        }
    }
    for file in &schedule.files {
        writeln!(text, "\n== {} (job {:?})\n{}", file.name, file.job, file.text).unwrap();
    }
    writeln!(text, "\n== server's log\n{server_log}").unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(dir).unwrap();
    let mode = if schedule.nodes > 0 { "cluster-" } else { "" };
    let path = dir.join(format!("torture-{mode}{}.txt", schedule.seed));
    fs::write(&path, text).unwrap();
    path
}
