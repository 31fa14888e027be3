//! What a failure leaves behind: everything that is needed to understand it, in one file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::aof;
use crate::history::{Event, Segment};
use crate::schedule::Schedule;

/// Writes the history of a failed round, and says where.
pub fn write(
    schedule: &Schedule,
    problems: &[String],
    (events, notes, segments): (&[Event], &[String], &[Segment]),
    server_log: &str,
) -> PathBuf {
    let mut text = String::new();
    writeln!(text, "make torture SECONDS=1 SEED={}\n\n== what is wrong", schedule.seed).unwrap();
    problems.iter().for_each(|problem| writeln!(text, "* {problem}\n").unwrap());
    writeln!(text, "== plan\nlayout {}, {}% faults", schedule.layout.name, schedule.faults).unwrap();
    schedule.activities.iter().for_each(|activity| writeln!(text, "{activity:?}").unwrap());
    writeln!(text, "{:?}\n\n== faults", schedule.chaos).unwrap();
    notes.iter().for_each(|note| writeln!(text, "{note}").unwrap());
    writeln!(text, "\n== calls, in the order of their ends").unwrap();
    for event in events {
        let Event { number, actor, call, from, to, rest, code, stdout, stderr, .. } = event;
        let moment = |it: &crate::history::Moment| format!("{}:{}", it.segment, it.at);
        let (from, to, rest) = (moment(from), moment(to), moment(rest));
        writeln!(text, "e{number} {actor} from {from} to {to} rest {rest} exit {code:?}\n  $ {call}").unwrap();
        for line in stdout.lines().chain(stderr.lines()) {
            writeln!(text, "  {line}").unwrap();
        }
    }
    for file in &schedule.files {
        writeln!(text, "\n== {} (job {:?})\n{}", file.name, file.job, file.text).unwrap();
    }
    for (nth, segment) in segments.iter().enumerate() {
        writeln!(text, "\n== writes of segment {nth}, from {}, lost {}", segment.start, segment.lost).unwrap();
        for group in aof::groups(segment.bytes.as_deref().unwrap_or_default()) {
            if nth == 0 || group.end > segment.start {
                let commands: Vec<String> = group.commands.iter().map(|words| words.join(" ")).collect();
                writeln!(text, "{} {}", group.end, commands.join("\n    ")).unwrap();
            }
        }
    }
    writeln!(text, "\n== server's log\n{server_log}").unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(dir).unwrap();
    let path = dir.join(format!("torture-{}.txt", schedule.seed));
    fs::write(&path, text).unwrap();
    path
}
