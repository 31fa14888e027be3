//! Rows in each form, what is refused of them, and where.

use std::io::Write;
use std::time::Duration;

use crate::cli::input::orders::*;

const SHAPE: Shape = Shape {
    layout: None,
    required: &[Column::Activity, Column::User],
    optional: &[Column::Quantity, Column::Request, Column::Reason],
    quantities: Quantities::Orders,
};

fn format(dialect: Dialect) -> RowFormat {
    RowFormat { dialect: Some(dialect), delimiter: None }
}

/// `activity user quantity request` of each row, and the first error.
fn read(text: impl AsRef<[u8]>, dialect: Dialect, map: &str) -> (Vec<String>, Option<String>) {
    let mapping = if map.is_empty() { Mapping::default() } else { map.parse().unwrap() };
    let blocks = Blocks::stream("f", std::io::Cursor::new(text.as_ref().to_vec()));
    let mut reader = match OrderReader::new(blocks, format(dialect), &mapping, SHAPE) {
        Ok(reader) => reader,
        Err(failure) => return (Vec::new(), Some(failure.to_string())),
    };
    let (mut row, mut rows) = (OrderRow::default(), Vec::new());
    loop {
        match reader.read(&mut row) {
            Ok(true) => rows.push(format!(
                "{} {} {} {} {}",
                row.line,
                row.text(Column::Activity),
                row.text(Column::User),
                row.quantity,
                row.text(Column::Request)
            )),
            Ok(false) => return (rows, None),
            Err(RowError::Bad(problem)) => {
                let mut problems = Problems::of("f");
                problems.report(problem);
                return (rows, problems.end().err().map(|error| error.to_string()));
            }
            Err(RowError::Fatal(failure)) => return (rows, Some(failure.to_string())),
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let csv = "activity,user,quantity\n1001,7,1\n";
    for (line, expected) in [
        ("1001, 7,1\n", "f:3:6: user: ` 7` is not a user id"),
        ("1001,7,1,1\n", "f:3:1: 4 values, but the header has 3"),
        ("{1},7,1\n", "f:3:1: activity: `{1}` is not an activity id"),
        ("双,,1\n", "f:3:3: user: `` is not a user id"),
        ("1001,\"7\n8\",1\n", "f:3:6: user: `7\\n8` is not a user id"),
        ("\"1001\n\", 7,1\n", "f:3:1: activity: `1001\\n` is not an activity id"),
    ] {
        let (rows, error) = read(format!("{csv}{line}"), Dialect::Csv, "");
        assert_eq!(rows.len(), 1, "{line}");
        assert!(error.as_deref().unwrap_or_default().starts_with(expected), "{line}: {error:?}");
    }
    for (line, expected) in [
        ("[1]", "f:1:1: invalid type: sequence, expected an object"),
        ("{\"activity\":1.5,\"user\":7}", "f:1:15: activity: `1.5` is not a string or an integer"),
        ("{\"activity\":1,\"user\":7,\"quantity\":0}", "f:1:35: quantity: `0` is not a whole number from 1"),
        ("{\"activity\":1}", "f:1:1: `user` is missing"),
        ("{\"activity\":1,\"activity\":1}", "f:1:27: `activity` is given twice"),
        ("{\"activity\":1,", "f:1:14: not a JSON object: EOF"),
        ("{\"type\":\"user\",\"activity\":1,\"user\":\" 7\"}", "f:1:36: user: ` 7` is not a user id"),
        ("{\"activity\":null,\"user\":7}", "f:1:13: activity: `` is not an activity id"),
    ] {
        let (_, error) = read(line, Dialect::Jsonl, "");
        assert!(error.as_deref().unwrap_or_default().starts_with(expected), "{line}: {error:?}");
    }
}

#[test]
fn a_slow_pipe_does_not_hold_up_what_was_read() {
    let (output, mut input) = std::io::pipe().unwrap();
    input.write_all(b"activity,user\n1001,7\n1001,\"8").unwrap();
    let mut reader =
        OrderReader::new(Blocks::stream("f", output), RowFormat::default(), &Mapping::default(), SHAPE).unwrap();
    let mut row = OrderRow::default();
    assert!(reader.read(&mut row).unwrap());
    assert_eq!(reader.next(&mut row).unwrap(), Next::NotYet);
    input.write_all(b"\"\n").unwrap();
    drop(input);
    assert!(reader.read(&mut row).unwrap());
    assert_eq!((row.text(Column::User), row.line), ("8", 3));
    assert!(!reader.read(&mut row).unwrap());
}

#[test]
fn a_dialect_is_known_by_its_name_or_its_first_line() {
    for (name, line, expected) in
        [("a.CSV", "{", Dialect::Csv), ("<stdin>", " {\"a\":1}", Dialect::Jsonl), ("<stdin>", "a,b\tc", Dialect::Csv)]
    {
        assert_eq!(RowFormat::default().of(name, line.as_bytes()).unwrap().0, expected, "{name} {line}");
    }
    assert!(RowFormat::default().of("o.json", b" [{").unwrap_err().to_string().contains("o.json:1:1: a JSON array"));
}

#[test]
fn mysql_batch_has_escapes_no_quotes_and_null() {
    let text = "sku\tbuyer\tquantity\trequest\r\n1001\t\"7\\\\\"\t2\tNULL\r\n1001\ta\\x\t1\tr 1\n";
    let (rows, error) = read(text, Dialect::Mysql, "activity=sku,user=buyer");
    assert_eq!((rows, error), (["2 1001 \"7\\\" 2 ", "3 1001 a\\x 1 r 1"].map(String::from).to_vec(), None));
    for (text, why) in [
        ("activity\tuser\n1001\tNULL\n", "f:2:6: `user` is missing, expected a user id"),
        ("activity\tuser\n1001\n", "f:2:1: 1 values, but the header has 2: was the file cut short?"),
        ("activity\tuser\n1001\ta\\tb\n", "f:2:6: user: `a\\tb` is not a user id"),
        ("activity\tbuyer\n", "f:1:1: no column `user`"),
        ("", "f:1:1: nothing here, expected a header"),
    ] {
        let (rows, error) = read(text, Dialect::Mysql, "");
        assert_eq!(rows.len(), 0);
        assert!(error.as_ref().is_some_and(|error| error.starts_with(why)), "{error:?}");
    }
}

#[test]
fn what_a_database_prints_for_nothing_is_no_request_id() {
    let tsv = "activity\tuser\trequest\n1001\t7\t";
    for (request, why) in [("NULL", "no id"), ("null", "no id"), ("\\N", "no id"), ("a ", "not a request id")] {
        let (rows, error) = read(format!("{tsv}{request}\n"), Dialect::Tsv, "");
        assert_eq!(rows.len(), 0);
        assert!(
            error.as_ref().is_some_and(|error| error.starts_with("f:2:8: request: ") && error.contains(why)),
            "{error:?}"
        );
    }
    for request in ["NULL", "\\N"] {
        assert_eq!(read(format!("{tsv}{request}\n"), Dialect::Mysql, ""), (vec!["2 1001 7 1 ".to_owned()], None));
    }
}

#[test]
fn a_value_of_several_lines_is_of_csv_alone() {
    let text = "activity\tuser\ttitle\n1001\t7\t\"Big\n1001\t8\tsale\"\n";
    let (_, error) = read(text, Dialect::Tsv, "");
    assert!(
        error.as_ref().is_some_and(|error| error.starts_with("f:2:1: a quoted value of several lines")),
        "{error:?}"
    );
    assert_eq!(read(text, Dialect::Mysql, "").0.len(), 2);
    assert_eq!(read(text.replace('\t', ","), Dialect::Csv, "").0.len(), 1);
}

#[test]
fn a_return_in_a_row_of_mysql_ends_no_line() {
    let text = "activity\tuser\ttitle\n1001\t7\ta\rb\n1001\t 8\tc\n";
    let (rows, error) = read(text, Dialect::Mysql, "");
    assert_eq!((rows.len(), error.is_some_and(|error| error.starts_with("f:3:6: user"))), (1, true));
}

#[test]
fn a_stream_whose_first_object_lacks_a_mapped_field_is_refused() {
    let text = "{\"activity\":1,\"user\":7,\"no\":\"a\"}\n";
    let (rows, error) = read(text, Dialect::Jsonl, "request=nr");
    assert!(
        rows.is_empty() && error.as_ref().is_some_and(|error| error.starts_with("f:1:1: no `nr` here")),
        "{error:?}"
    );
    let null = "{\"activity\":1,\"user\":7,\"no\":null}\n";
    assert_eq!(read(format!("{null}{text}"), Dialect::Jsonl, "request=no").0, ["1 1 7 1 ", "2 1 7 1 a"]);
}

#[test]
fn items_are_summed_and_shared_by_rows_that_have_the_same() {
    let line = |items: &str| format!("{{\"user\":7,\"items\":{items}}}\n");
    let (good, bad) = ("{\"1001\":2}", "{\"1001\":0}");
    let summed = "{\"1001\":2,\"1002\":\"1\",\"1001\": 3,\"1\\u0030\":1}";
    let text = [good, good, bad, bad, "{}", "[1]", good, summed].map(line).concat();
    let shape = Shape { required: &[Column::User, Column::Items], optional: &[], ..SHAPE };
    let blocks = Blocks::stream("f", std::io::Cursor::new(text));
    let mut reader = OrderReader::new(blocks, format(Dialect::Jsonl), &Mapping::default(), shape).unwrap();
    reader.lines.blocks.wait(Duration::from_secs(5));
    let mut row = FileOrder::default();
    let mut next = || {
        let shown = |(activity, quantity): &(_, _)| format!("{activity}={quantity}");
        row.read(&mut reader).ok().map(|_| (row.items.iter().map(shown).collect::<Vec<String>>(), row.items.as_ptr()))
    };
    let first = next().unwrap();
    assert_eq!(first.0, ["1001=2"]);
    assert_eq!(next().unwrap(), first);
    assert!((0..4).all(|_| next().is_none()), "a row that is bad again stays bad");
    assert_eq!(next().unwrap().0, ["1001=2"]);
    assert_eq!(next().unwrap().0, ["1001=5", "1002=1", "10=1"]);
}
