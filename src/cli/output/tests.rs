//! What `tests/it/snapshots/formats.txt` and `tests/it/outputs` do not show of the formats.

use std::io::{Read, Seek};

use crate::cli::failure::Result;
use crate::cli::output::*;

row! {
    struct Bought as row {
        activity: &'static str;
        user: String;
        bought: Option<u64>;
    }
}

fn row(user: &str, bought: Option<u64>) -> Bought {
    Bought { activity: "0123", user: user.to_owned(), bought }
}

fn printed(format: Format, terminal: Terminal, print: impl FnOnce(&mut Output) -> Result<()>) -> String {
    let mut seen = tempfile::tempfile().unwrap();
    let mut out = Output::to(seen.try_clone().unwrap(), format, terminal);
    print(&mut out).unwrap();
    let mut text = String::new();
    seen.rewind().unwrap();
    seen.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn no_rows_are_an_empty_list() {
    for format in [Format::Json, Format::Yaml] {
        assert_eq!(printed(format, Terminal::default(), |out| out.array::<Bought>(&[])), "[]\n");
    }
}

#[test]
fn data_is_escaped_where_a_person_sees_it_and_nowhere_else() {
    let evil = "a\u{9b}\u{202e}b";
    let shown = |format, shows_data| {
        printed(format, Terminal { shows_data, ..Terminal::default() }, |out| out.array(&[row(evil, None)]))
    };
    assert!(shown(Format::Csv, false).contains(evil));
    assert!(shown(Format::Jsonl, false).contains(evil));
    assert!(shown(Format::Csv, true).contains("a\\u009b\\u202eb"));
    let json: serde_json::Value = serde_json::from_str(&shown(Format::Jsonl, true)).unwrap();
    assert_eq!(json["user"], evil);
    assert!(shown(Format::Table, false).contains("a\\u{9b}\\u{202e}b"));
}

#[test]
fn a_long_table_continues_with_the_same_widths() {
    let text = printed(Format::Table, Terminal::default(), |out| {
        let mut rows = out.stream::<Bought>()?;
        for user in 0..3000 {
            rows.push(&row(&user.to_string(), Some(user)))?;
        }
        rows.finish()
    });
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3002);
    assert_eq!(lines[2], "0123      0          0");
    assert_eq!(lines[3001], "0123      2999    2999");
}

#[test]
fn output_that_is_lost_keeps_the_exit_code_of_a_failure() {
    let no_room = io::Cursor::new([0_u8; 0]);
    let mut out = Output::to(no_room, Format::Csv, Terminal::default());
    out.line("x");
    let lost = out.end(Err(Failure::new(Exit::Unknown, "no reply"))).unwrap_err();
    assert_eq!(lost.exit, Exit::Unknown);
    assert!(lost.message.starts_with("no reply; and cannot write to standard output"), "{lost}");
}
