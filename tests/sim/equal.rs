//! Calls that must do what others do: a file does what its orders do one after the other, and a dry run replies what the call
//! replies and writes nothing. They run on copies of the keys, so that a history does not notice them.

use std::collections::BTreeSet;

use super::calls::{Call, column, shown, shown_reply, status};
use super::history::History;
use super::keys::{Bytes, Data, Keys, Reply};
use super::oracle::*;

/// How long what is compared is held, in ms.
const DURATION: &str = "7000";

/// An order of a file.
struct Row {
    user: Bytes,
    units: String,
    request: String,
}

impl History<'_> {
    /// Compares a few orders that are sent one by one with a file of them.
    pub fn compare_with_file(&mut self) -> Result<(), Broken> {
        // What was cut is finished by the next call, which is a file or one of its orders.
        if self.was_cut {
            return Ok(());
        }
        let before = self.engine.server.borrow().keys.clone();
        let compared = self.compare();
        self.engine.server.borrow_mut().keys = before;
        compared
    }

    fn compare(&mut self) -> Result<(), Broken> {
        let has_users = self.activities[0].layout.kind().has_users();
        let operations: &[&str] =
            if has_users { &["deduct", "hold", "refund", "confirm", "release"] } else { &["deduct", "refund"] };
        let operation = *self.random.pick(operations);
        if has_users {
            // A hold that is overdue ends for the first order that wants its units.
            let expire = self.activities[0].call("settle", ["cron", "500", "expire"]);
            self.reply(&expire);
        }
        let start = self.engine.server.borrow().keys.clone();
        let Some(found) = Found::read(&self.activities[0], &start)? else { return Ok(()) };
        let rows = self.rows(operation);
        let replies: Vec<Reply> = rows.iter().map(|row| self.send_dry_and(operation, row)).collect::<Result<_, _>>()?;
        let one_by_one = std::mem::replace(&mut self.engine.server.borrow_mut().keys, start);
        let call = self.file_of(operation, &rows, &found.epoch);
        let reply = self.reply(&call);
        let what = || {
            let replies: Vec<String> = replies.iter().map(shown_reply).collect();
            format!("{} -> {}, one by one {replies:?}", shown(&call), shown_reply(&reply))
        };
        if let Some(refusal) = status(&reply).filter(|_| matches!(reply, Reply::Array(_))) {
            // One that is paused refuses all of a file, also what it would replay.
            let is_refused = replies.iter().any(|reply| status(reply) == Some(refusal));
            let is_paused = refusal == PAUSED && !found.is_live;
            return if is_refused || is_paused {
                Ok(())
            } else {
                broken("a file is refused as its orders are", what())
            };
        }
        if !says_what(&reply, operation, &replies, found.for_sale) {
            return broken("a file replies what its orders do", what());
        }
        let whole = &self.engine.server.borrow().keys;
        for key in self.activities[0].keys.all().filter(|key| *key != self.activities[0].keys.ledger) {
            let [file, orders] = [whole, &one_by_one].map(|keys| without_jobs(keys, key));
            if file != orders {
                return broken(
                    "a file does what its orders do",
                    format!("{key}: {file:?}, not {orders:?}; {}", what()),
                );
            }
        }
        Ok(())
    }

    fn reply(&self, call: &Call) -> Reply {
        self.engine.run(call.sha1, &call.keys, &call.args).expect("it is not cut")
    }

    /// A few orders: ids that nobody has used, that were used, or that come twice.
    fn rows(&mut self, operation: &str) -> Vec<Row> {
        let count = 1 + self.random.below(4);
        let mut rows: Vec<Row> = Vec::new();
        for number in 0..count {
            let mut row = Row {
                user: ["ann", "bob", "张三", "carol"][self.random.below(4) as usize].into(),
                units: (1 + self.random.below(4)).to_string(),
                request: format!("c{number}"),
            };
            let known = self.oracle.orders.iter().map(|order| (&order.user, order.items[0].1, &order.request));
            let refunds = self.oracle.refunds.iter().map(|refund| (&refund.user, refund.units, &refund.request));
            let known: Vec<_> = if operation == "refund" { refunds.collect() } else { known.collect() };
            let is_end = matches!(operation, "confirm" | "release");
            match self.random.below(10) {
                0..3 if !known.is_empty() => {
                    let (user, units, request) = *self.random.pick(&known);
                    row = Row { user: user.clone(), units: units.to_string(), request: request.clone() };
                }
                3..9 if is_end && !known.is_empty() => {
                    row.request.clone_from(self.random.pick(&known).2);
                }
                3 if !known.is_empty() => row.request.clone_from(self.random.pick(&known).2),
                4 if number > 0 => row.request = "c0".to_owned(),
                5 if matches!(operation, "deduct" | "refund") => row.request = String::new(),
                6 if number > 0 => row.user.clone_from(&rows[0].user),
                _ => {}
            }
            rows.push(row);
        }
        rows
    }

    /// Sends an order, after a dry run of it.
    fn send_dry_and(&self, operation: &str, row: &Row) -> Result<Reply, Broken> {
        let [dry, call] = ["dry", "first"].map(|mode| self.call_of(operation, row, mode));
        let before = self.engine.server.borrow().keys.clone();
        let said = self.reply(&dry);
        if self.engine.server.borrow().keys != before {
            return broken("a dry run changes nothing", format!("{} -> {}", shown(&dry), shown_reply(&said)));
        }
        let reply = self.reply(&call);
        if said == reply {
            return Ok(reply);
        }
        let what = format!("{} -> {}, and then {}", shown(&dry), shown_reply(&said), shown_reply(&reply));
        broken("a dry run replies what the call does", what)
    }

    fn call_of(&self, operation: &str, Row { user, units, request }: &Row, mode: &str) -> Call {
        let (units, request, mode) = (units.as_bytes(), request.as_bytes(), mode.as_bytes());
        let activity = &self.activities[0];
        match operation {
            "hold" => activity.call("hold", [b"shop", &user[..], units, request, mode, b"", DURATION.as_bytes()]),
            "deduct" | "refund" => activity.call(operation, [b"shop", &user[..], units, request, mode]),
            step => activity.call("settle", [b"shop", request, step.as_bytes(), b"", mode]),
        }
    }

    fn file_of(&mut self, operation: &str, rows: &[Row], epoch: &str) -> Call {
        let of = |text: fn(&Row) -> &[u8]| column(rows.iter().map(text));
        let (users, units) = (of(|row| &row.user), of(|row| row.units.as_bytes()));
        let requests = of(|row| row.request.as_bytes());
        let lines = format!("1-{}", rows.len());
        let is_end = matches!(operation, "confirm" | "release");
        let (first, second, ids) =
            if is_end { (requests, operation.into(), Bytes::new()) } else { (users, units, requests) };
        let mut args = vec![b"shop".to_vec(), first, second, b"compared".into(), b"digest".into(), epoch.into()];
        args.extend([b"0".to_vec(), lines.into(), ids, b"1".into()]);
        let (of_users, of_ids): (BTreeSet<_>, BTreeSet<_>) = rows.iter().map(|row| (&row.user, &row.request)).unzip();
        let is_distinct = of_ids.len() == rows.len() && (is_end || of_users.len() == rows.len());
        let duration = if operation == "hold" { DURATION } else { "" };
        if operation == "hold" || is_distinct && self.random.percent(50) {
            let distinct = if is_distinct { "1" } else { "" };
            args.extend(["", "", duration, "", distinct].map(Into::into));
        }
        let script = if is_end { "settle_file".to_owned() } else { format!("{operation}_file") };
        self.activities[0].call(&script, args)
    }
}

/// Whether a file's reply says what its orders say one by one.
fn says_what(reply: &Reply, operation: &str, replies: &[Reply], for_sale: i64) -> bool {
    let Reply::Text(text) = reply else { return false };
    let text = String::from_utf8_lossy(text);
    // Users come last, with tabs.
    let words: Vec<&str> = text.split('\t').next().unwrap_or_default().split(' ').collect();
    let letters: Vec<char> = words[0].chars().collect();
    // One that a repair took back was not refused.
    let is_refusal = |letter: &&char| !matches!(letter, 'o' | 'O' | 'r' | 'b');
    let refused = letters.iter().filter(is_refusal).count();
    let has_column = !matches!(operation, "deduct" | "refund");
    let column = |row: usize| {
        let column: Vec<&str> = words[3].split(',').collect();
        if column.len() == 1 { column[0].to_owned() } else { column[row].to_owned() }
    };
    let held = &words[if has_column { 4 } else { 3 }..];
    let part = |reply: &Reply, at: usize| match reply {
        Reply::Array(parts) => parts.get(at).filter(|part| **part != Reply::Nil).map(shown_reply),
        _ => None,
    };
    letters.len() == replies.len()
        && words[1] == for_sale.to_string()
        && words[2] == refused.to_string()
        && replies.iter().enumerate().all(|(row, reply)| {
            status(reply) == meaning(letters[row])
                && part(reply, 2).is_none_or(|units| units == held[row])
                && (!has_column || column(row) == part(reply, 3).unwrap_or_else(|| "0".to_owned()))
        })
}

/// The status that a letter of a file is.
fn meaning(letter: char) -> Option<i64> {
    Some(match letter {
        'o' | 'O' => OK,
        'r' => REPLAYED,
        'l' => LIMIT_EXCEEDED,
        's' => OUT_OF_STOCK,
        'p' => PAUSED,
        'x' => EXCEEDS_BOUGHT,
        'q' => REQUEST_CONFLICT,
        'h' => NOT_HELD,
        'v' | 'V' => EXPIRED,
        'f' => CONFIRMED,
        'b' => REVERSED,
        _ => return None,
    })
}

/// What a key holds, without what a job keeps of its lines.
fn without_jobs(keys: &Keys, key: &str) -> Option<Data> {
    let mut data = keys.0.get(key.as_bytes()).cloned();
    if let Some(Data::Hash(fields)) = &mut data {
        fields.retain(|field, _| !field.starts_with(b"\tj:"));
    }
    data.filter(|data| !matches!(data, Data::Hash(fields) if fields.is_empty()))
}
