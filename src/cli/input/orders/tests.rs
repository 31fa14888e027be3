//! Rows in each form, what is refused of them, and where.

use std::io::{Read, Write};
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
                row.line(),
                row.text(Column::Activity),
                row.text(Column::User),
                row.quantity(),
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
fn columns_come_in_any_order_and_others_are_ignored() {
    let text = "\u{feff}x,user,activity,quantity\r\n1,7,1001,2\r\n\r\n\"a\nb\",\"8,\"\"9\",\"1001\",1\r\n2,9,1002,3";
    let (rows, error) = read(text, Dialect::Csv, "");
    assert_eq!(
        (rows.as_slice(), error),
        (["2 1001 7 2 ", "4 1001 8,\"9 1 ", "6 1002 9 3 "].map(String::from).as_slice(), None)
    );
}

#[test]
fn a_quantity_is_one_where_there_is_no_column_and_names_may_be_mapped() {
    let (rows, _) = read("buyer_id\tsku\n7\t1001\n", Dialect::Tsv, "user=buyer_id,activity=sku");
    assert_eq!(rows, ["2 1001 7 1 "]);
}

#[test]
fn json_ids_keep_their_text() {
    let text = "{\"user\":7,\"activity\":\"0123\",\"other\":{\"a\":[1]}}\n\n{\"activity\":1001,\"user\":\"\\u0041\",\"quantity\":3,\"request\":null}";
    let (rows, error) = read(text, Dialect::Jsonl, "");
    assert_eq!((rows.as_slice(), error), (["1 0123 7 1 ", "3 1001 A 3 "].map(String::from).as_slice(), None));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let csv = "activity,user,quantity\n1001,7,1\n";
    for (line, expected) in [
        ("1001,7,-5\n", "f:3:8: quantity: `-5` is not a whole number from 1 to 1000000000"),
        ("1001,\"7\",\n", "f:3:10: quantity: `` is not a whole number"),
        ("1001, 7,1\n", "f:3:6: user: ` 7` is not a user id"),
        ("1001,7\n", "f:3:1: 2 values, but the header has 3"),
        ("1001,7,1,1\n", "f:3:1: 4 values, but the header has 3"),
        ("{1},7,1\n", "f:3:1: activity: `{1}` is not an activity id"),
        ("双,,1\n", "f:3:3: user: `` is not a user id"),
        ("1001,\"7,1\n", "f:3:1: a quote is not closed"),
    ] {
        let (rows, error) = read(format!("{csv}{line}"), Dialect::Csv, "");
        assert_eq!(rows.len(), 1, "{line}");
        assert!(error.as_deref().unwrap_or_default().starts_with(expected), "{line}: {error:?}");
    }
    let (_, error) = read(b"activity,user\n1001,\xff7\n", Dialect::Csv, "");
    assert_eq!(error.as_deref(), Some("f:2:6: byte `0xff` is not UTF-8"));
    for (line, expected) in [
        ("[1]", "f:1:1: invalid type: sequence, expected an object"),
        ("{\"activity\":1.5,\"user\":7}", "f:1:15: activity: `1.5` is not a string or an integer"),
        ("{\"activity\":1,\"user\":7,\"quantity\":0}", "f:1:35: quantity: `0` is not a whole number from 1"),
        ("{\"activity\":1}", "f:1:1: `user` is missing"),
        ("{\"activity\":1,\"activity\":1}", "f:1:27: `activity` is given twice"),
        ("{\"activity\":1,", "f:1:14: not a JSON object: EOF"),
    ] {
        let (_, error) = read(line, Dialect::Jsonl, "");
        assert!(error.as_deref().unwrap_or_default().starts_with(expected), "{line}: {error:?}");
    }
}

#[test]
fn a_header_says_what_it_lacks() {
    let (_, error) = read("activity,buyer\n", Dialect::Csv, "");
    assert_eq!(error.as_deref(), Some("f:1:1: no column `user`: the header has `activity`, `buyer`"));
    let (_, error) = read("activity,user,user\n", Dialect::Csv, "");
    assert_eq!(error.as_deref(), Some("f:1:1: the header names `user` twice"));
    let (_, error) = read("activity,user\n", Dialect::Csv, "request=order_id");
    assert_eq!(error.as_deref(), Some("f:1:1: no column `order_id`: the header has `activity`, `user`"));
    let (_, error) = read("", Dialect::Csv, "");
    assert!(error.unwrap().starts_with("f:1:1: nothing here"));
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
    assert_eq!((row.text(Column::User), row.line()), ("8", 3));
    assert!(!reader.read(&mut row).unwrap());
}

#[test]
fn a_dialect_is_known_by_its_name_or_its_first_line() {
    for (name, line, expected) in [
        ("a.CSV", "{", Dialect::Csv),
        ("a.tsv", "", Dialect::Tsv),
        ("a.jsonl", "", Dialect::Jsonl),
        ("<stdin>", " {\"a\":1}", Dialect::Jsonl),
        ("<stdin>", "a\tb", Dialect::Tsv),
        ("<stdin>", "a,b\tc", Dialect::Csv),
    ] {
        assert_eq!(RowFormat::default().of(name, line.as_bytes()).unwrap().0, expected, "{name} {line}");
    }
}

#[test]
fn a_file_is_held_against_what_it_was() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("activity,user\n{}", "1001,7\n".repeat(100_000));
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let all = |blocks: Blocks| {
        let mut reader = OrderReader::new(blocks, RowFormat::default(), &Mapping::default(), SHAPE)?;
        let (mut row, mut rows) = (OrderRow::default(), 0);
        loop {
            match reader.read(&mut row) {
                Ok(true) => rows += 1,
                Ok(false) => return Ok((rows, reader.lines.blocks)),
                Err(RowError::Fatal(failure)) => return Err(failure),
                Err(RowError::Bad(_)) => panic!("no row is bad"),
            }
        }
    };
    let (rows, blocks) = all(Blocks::open(&path).unwrap()).unwrap();
    assert_eq!(rows, 100_000);
    let checked = blocks.checked();
    assert_eq!(checked.digest("a").len(), 32);
    assert_ne!(checked.digest("a"), checked.digest("b"));
    let (rows, blocks) = all(blocks.again(checked.clone()).unwrap()).unwrap();
    assert_eq!((rows, blocks.checked()), (100_000, checked.clone()));

    std::fs::write(&path, text.replacen("1001", "1002", 90_000)).unwrap();
    let failure = all(blocks.again(checked.clone()).unwrap()).err().unwrap();
    assert!(failure.to_string().ends_with("changed after it was checked"), "{failure}");
    std::fs::write(&path, &text[..300_000]).unwrap();
    assert!(all(Blocks::open(&path).unwrap().again(checked).unwrap()).is_err());
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
}

#[test]
fn items_are_summed() {
    let text = "{\"user\":7,\"items\":{\"1001\":2,\"1002\":\"1\",\"1001\":3},\"request\":\"a\"}\n{\"user\":7,\"items\":{\"1001\":0}}\n{\"user\":7,\"items\":{}}\n{\"user\":7,\"items\":[1]}\n";
    let shape = Shape { required: &[Column::User, Column::Items], optional: &[Column::Request], ..SHAPE };
    let blocks = Blocks::stream("f", text.as_bytes());
    let mut reader = OrderReader::new(blocks, format(Dialect::Jsonl), &Mapping::default(), shape).unwrap();
    reader.lines.blocks.wait(Duration::from_secs(5));
    let mut row = FileOrder::default();
    assert_eq!(row.read(&mut reader).unwrap(), Next::Row);
    let items: Vec<String> = row.items.iter().map(|(activity, quantity)| format!("{activity}={quantity}")).collect();
    assert_eq!(items, ["1001=5", "1002=1"]);
    for _ in 0..3 {
        assert!(matches!(row.read(&mut reader), Err(RowError::Bad(_))));
    }
}

#[test]
fn rows_with_the_same_items_share_them_and_a_bad_row_between_them_stays_bad() {
    let line = |items: &str| format!("{{\"user\":7,\"items\":{items}}}\n");
    let (good, bad, other) = ("{\"1001\":2}", "{\"1001\":0}", "{\"1001\": 3, \"1\\u0030\": 1}");
    let text = [good, good, bad, bad, good, other].map(line).concat();
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
    assert!(next().is_none() && next().is_none());
    assert_eq!(next().unwrap().0, ["1001=2"]);
    assert_eq!(next().unwrap().0, ["1001=3", "10=1"]);
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
