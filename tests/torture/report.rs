//! What a failure leaves behind: everything that is needed to understand it, in one file.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::history::{Event, Record};
use crate::schedule::Schedule;
use crate::timeline::{Bundle, Segment};

/// Writes the history of a failed round, and says where.
pub fn write(
    schedule: &Schedule,
    problems: &[String],
    Record { events, notes, turns, .. }: &Record,
    bundles: &[(Bundle, Vec<Segment>)],
    server_log: &str,
) -> PathBuf {
    let mut text = String::new();
    writeln!(text, "{}\n\n== what is wrong", schedule.again()).unwrap();
    problems.iter().for_each(|problem| writeln!(text, "* {problem}\n").unwrap());
    writeln!(text, "== plan\nlayout {}, {}% faults", schedule.layout.name, schedule.faults).unwrap();
    schedule.activities.iter().for_each(|activity| writeln!(text, "{activity:?}").unwrap());
    writeln!(text, "{:?}\n\n== faults", schedule.chaos).unwrap();
    notes.iter().for_each(|note| writeln!(text, "{note}").unwrap());
    turns.iter().for_each(|turn| writeln!(text, "{turn:?}").unwrap());
    writeln!(text, "\n== calls, in the order of their ends").unwrap();
    for event in events {
        let Event { number, actor, call, from, to, rest, code, stdout, stderr, .. } = event;
        let moment = |it: &crate::history::Moment| format!("{}:{:?}", it.tick, it.at);
        let (from, to, rest) = (moment(from), moment(to), moment(rest));
        writeln!(text, "e{number} {actor} from {from} to {to} rest {rest} exit {code:?}\n  $ {call}").unwrap();
        for line in stdout.lines().chain(stderr.lines()) {
            writeln!(text, "  {line}").unwrap();
        }
    }
    for file in &schedule.files {
        writeln!(text, "\n== {} (job {:?})\n{}", file.name, file.job, file.text).unwrap();
    }
    for (bundle, segments) in bundles {
        for (index, segment) in segments.iter().enumerate() {
            let Segment { start, lost, .. } = segment;
            writeln!(text, "\n== writes of {:?}, segment {index} from {start}, lost {lost}", bundle.activities)
                .unwrap();
            for group in segment.groups.iter().filter(|group| index == 0 || group.end > *start) {
                let commands: Vec<String> = group.commands.iter().map(|words| words.join(" ")).collect();
                writeln!(text, "{} {:?} {}", group.end, segment.place(group.end), commands.join("\n    ")).unwrap();
            }
        }
    }
    writeln!(text, "\n== server's log\n{server_log}").unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(dir).unwrap();
    let mode = if schedule.nodes > 0 { "cluster-" } else { "" };
    let path = dir.join(format!("torture-{mode}{}.txt", schedule.seed));
    fs::write(&path, text).unwrap();
    path
}
