//! Every format, whole.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::cli::failure::Result;
use crate::cli::output::*;

/// A writer that can be looked at afterwards.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

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
    let seen = Seen::default();
    let mut out = Output::to(seen.clone(), format, terminal);
    print(&mut out).unwrap();
    let bytes = seen.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn array(format: Format) -> String {
    printed(format, Terminal::default(), |out| out.array(&[row("7,\"b\"", Some(2)), row("no", None)]))
}

#[test]
fn rows_in_every_format() {
    assert_eq!(array(Format::Csv), "activity,user,bought\n0123,\"7,\"\"b\"\"\",2\n0123,no,\n");
    assert_eq!(array(Format::Tsv), "activity\tuser\tbought\n0123\t\"7,\"\"b\"\"\"\t2\n0123\tno\t\n");
    let (first, second) =
        (r#"{"activity":"0123","user":"7,\"b\"","bought":2}"#, r#"{"activity":"0123","user":"no","bought":null}"#);
    assert_eq!(array(Format::Jsonl), format!("{first}\n{second}\n"));
    assert_eq!(array(Format::Json), format!("[\n  {first},\n  {second}\n]\n"));
    assert_eq!(
        array(Format::Yaml),
        "- activity: \"0123\"\n  user: \"7,\\\"b\\\"\"\n  bought: 2\n- activity: \"0123\"\n  user: \"no\"\n  bought: null\n"
    );
    assert_eq!(
        array(Format::Table),
        "ACTIVITY  USER   BOUGHT\n───────────────────────\n0123      7,\"b\"       2\n0123      no          -\n"
    );
}

row! {
    struct Sparse as row {
        activity: &'static str;
        nested status: Option<&'static str>;
        document more: Vec<u64>;
        sparse user_hex: Option<&'static str>;
    }
}

#[test]
fn a_column_keeps_its_place_if_a_field_is_left_out() {
    let rows = [
        Sparse { activity: "1", status: None, more: Vec::new(), user_hex: Some("c4e3") },
        Sparse { activity: "2", status: Some("corrupt"), more: vec![1], user_hex: None },
    ];
    let text = |format| printed(format, Terminal::default(), |out| out.array(&rows));
    assert_eq!(text(Format::Csv), "activity,user_hex\n1,c4e3\n2,\n");
    let second = r#"{"activity":"2","status":"corrupt","more":[1]}"#;
    assert_eq!(text(Format::Jsonl), format!("{}\n{second}\n", r#"{"activity":"1","more":[],"user_hex":"c4e3"}"#));
}

#[test]
fn no_rows_are_still_a_result() {
    let nothing = |format| printed(format, Terminal::default(), |out| out.array::<Bought>(&[]));
    assert_eq!(nothing(Format::Csv), "activity,user,bought\n");
    assert_eq!(nothing(Format::Json), "[]\n");
    assert_eq!(nothing(Format::Yaml), "[]\n");
    assert_eq!(nothing(Format::Jsonl), "");
    assert_eq!(nothing(Format::Table), "");
}

#[test]
fn one_row_is_an_object() {
    let one = |format| printed(format, Terminal::default(), |out| out.object(&row("7", Some(2))));
    assert_eq!(one(Format::Json), "{\n  \"activity\": \"0123\",\n  \"user\": \"7\",\n  \"bought\": 2\n}\n");
    assert_eq!(one(Format::Jsonl), "{\"activity\":\"0123\",\"user\":\"7\",\"bought\":2}\n");
    assert_eq!(one(Format::Yaml), "activity: \"0123\"\nuser: \"7\"\nbought: 2\n");
    assert_eq!(one(Format::Csv), "activity,user,bought\n0123,7,2\n");
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
fn a_long_table_goes_on_to_the_same_widths() {
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
fn what_has_no_room_and_is_the_same_in_all_rows_stands_below() {
    let narrow = Terminal { width: Some(18), ..Terminal::default() };
    let shown = |rows: &[Bought]| printed(Format::Table, narrow, |out| out.array(rows));
    let table = "ACTIVITY  USER\n─────────────────\n";
    let ids = |text: String| text.lines().next().map(str::to_owned);
    let same = shown(&[row("1234567", Some(2)), row("7", Some(2))]);
    assert_eq!(same, format!("{table}0123      1234567\n0123      7\nBOUGHT  2\n"));
    let other = shown(&[row("1234567", Some(2)), row("7", Some(3))]);
    assert_eq!(ids(other.clone()), Some("ACTIVITY  USER".to_owned()), "{other}");
    assert!(!other.contains("BOUGHT"), "{other}");
}

#[test]
fn a_second_table_keeps_its_distance() {
    let text = printed(Format::Json, Terminal::default(), |out| {
        out.table(Some("Stock"), &[row("7", None)])?;
        out.table(Some("Participants"), &[row("8", None)])
    });
    assert!(text.starts_with("Stock\nACTIVITY"), "{text}");
    assert!(text.contains("-\n\nParticipants\nACTIVITY"), "{text}");
}

/// A writer that takes nothing.
struct Refusing(io::ErrorKind);

impl Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const FORMATS: [Format; 6] = [Format::Table, Format::Json, Format::Jsonl, Format::Csv, Format::Tsv, Format::Yaml];

#[test]
fn a_closed_pipe_changes_no_outcome() {
    for format in FORMATS {
        let mut out = Output::to(Refusing(io::ErrorKind::BrokenPipe), format, Terminal::default());
        out.array(&[row("7", None)]).unwrap();
        out.array(&[row("7", None)]).unwrap();
        assert_eq!(out.end(Ok(Exit::Refused)).unwrap(), Exit::Refused, "{format:?}");
    }
}

#[test]
fn another_error_fails_at_the_end_and_keeps_the_exit_code_of_a_failure() {
    for format in FORMATS {
        let mut out = Output::to(Refusing(io::ErrorKind::StorageFull), format, Terminal::default());
        out.array(&[row("7", None)]).unwrap();
        let error = out.end(Ok(Exit::Refused)).unwrap_err();
        assert_eq!(error.exit, Exit::Failed, "{format:?}");
        out.array(&[row("7", None)]).unwrap();
    }
    let mut out = Output::to(Refusing(io::ErrorKind::StorageFull), Format::Csv, Terminal::default());
    out.line("x");
    let lost = out.end(Err(Failure::new(Exit::Unknown, "no reply"))).unwrap_err();
    assert_eq!(lost.exit, Exit::Unknown);
    assert!(lost.message.starts_with("no reply; and cannot write to standard output"), "{lost}");
}

#[test]
fn a_strict_stream_stops_at_what_cannot_be_written() {
    for format in FORMATS {
        let mut out = Output::to(Refusing(io::ErrorKind::BrokenPipe), format, Terminal::default());
        let mut rows = out.stream::<Bought>().unwrap().strict();
        rows.push(&row("7", None)).unwrap();
        let error = rows.finish().unwrap_err();
        assert!(error.is_broken_pipe(), "{format:?}: {error}");
    }
}

#[test]
fn nobody_is_asked_where_nobody_answers() {
    let out = Output::to(io::sink(), Format::Table, Terminal::default());
    assert!(out.confirm("reset `1001`?", true).is_ok());
    let error = out.confirm("reset `1001`?", false).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
}
