//! The pages of a checkpoint: what each user held by the ledger entries that were removed, and which transfers between shards were
//! among them.
//!
//! A page is a JSON array of pairs, a user and the units of each; or of three texts each, which are of a transfer. Pages are stored in the hash of request
//! ids, so that every system that knows the keys of an activity, and every reset, knows them too.

use std::fmt;

use redis::Value;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::audit::ledger_state::LedgerState;
use crate::error::StoreError;
use crate::model::ledger::checkpoint::{Checkpoint, units};
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// Users a page: some ten kilobytes, one call's worth.
pub(crate) const USERS: usize = 500;
/// Units of a user that nobody recorded.
const UNKNOWN: &str = "?";
/// Pages that are read at once: about half a millisecond of the server's time.
const AT_ONCE: u64 = 10;

impl Store {
    /// Begins a ledger state at a checkpoint. False if not all of its pages are there as they were written.
    pub(crate) fn begin_at(
        &mut self,
        keys: &Keys,
        state: &mut LedgerState,
        checkpoint: &Checkpoint,
    ) -> Result<bool, StoreError> {
        state.begin_at(checkpoint);
        let mut is_whole = true;
        self.each_checkpoint_page(keys, checkpoint, |page| {
            is_whole = page.is_some_and(|page| carry(state, page));
            is_whole
        })?;
        Ok(is_whole && state.carried(checkpoint.sum))
    }

    /// Gives each page of a checkpoint, `None` for one that is gone, until `each` returns false.
    pub(crate) fn each_checkpoint_page(
        &mut self,
        keys: &Keys,
        checkpoint: &Checkpoint,
        mut each: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<(), StoreError> {
        let reply = Reply::of_command("HMGET");
        let mut from = 0;
        while from < checkpoint.pages {
            let upto = (from + AT_ONCE).min(checkpoint.pages);
            let mut command = redis::cmd("HMGET");
            command.arg(&keys.requests);
            (from..upto).for_each(|page| _ = command.arg(format!("\tc:{}:{page}", checkpoint.name)));
            for page in reply.array(self.servers.command(&keys.requests, &command)?)? {
                let page = if let Value::BulkString(page) = &page { Some(&page[..]) } else { None };
                if !each(page) {
                    return Ok(());
                }
            }
            from = upto;
        }
        Ok(())
    }
}

/// What the users of a ledger state hold, and its transfers, as pages.
pub(crate) fn pages(state: &LedgerState) -> Vec<Vec<u8>> {
    let known = state.held().map(|(user, units, open)| (user, Some(units), open));
    let held: Vec<PageRow<'_>> = known.chain(state.unknown().map(|user| (user, None, 0))).collect();
    let transfers = state.transfers.rows();
    held.chunks(USERS).map(encode_page).chain(transfers.chunks(USERS).map(encode_transfers)).collect()
}

/// A page of transfers: direction, id, and `units shard ms`.
fn encode_transfers(rows: &[[String; 3]]) -> Vec<u8> {
    // All of it is ASCII.
    serde_json::to_vec(rows).unwrap_or_default()
}

/// A user, in whatever encoding; the units, `None` if nobody recorded them; and how many of them are held open.
pub(crate) type PageRow<'a> = (&'a [u8], Option<i64>, i64);

/// A page: pairs of a user and `units`, `units open` or `?`.
pub(crate) fn encode_page(users: &[PageRow<'_>]) -> Vec<u8> {
    let mut page = vec![b'['];
    for (user, units, open) in users {
        page.extend_from_slice(if page.len() > 1 { b",[\"" } else { b"[\"" });
        escape(user, &mut page);
        let units = units.map_or_else(|| UNKNOWN.to_owned(), |units| units.to_string());
        let open = if *open > 0 { format!(" {open}") } else { String::new() };
        page.extend_from_slice(format!("\",\"{units}{open}\"]").as_bytes());
    }
    page.push(b']');
    page
}

/// Texts, in whatever encoding, as a JSON array.
pub(crate) fn encode_texts<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut array = vec![b'['];
    for text in texts {
        array.extend_from_slice(if array.len() > 1 { b",\"" } else { b"\"" });
        escape(text, &mut array);
        array.push(b'"');
    }
    array.push(b']');
    array
}

fn escape(text: &[u8], json: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => json.extend_from_slice(&[b'\\', *byte]),
            0..=31 => json.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => json.push(*byte),
        }
    }
}

/// Adds the users or transfers of a page to a ledger state; false if it is no page.
fn carry(state: &mut LedgerState, page: &[u8]) -> bool {
    let Ok(rows) = serde_json::from_slice::<Vec<[Text; 2]>>(page) else { return carry_transfers(state, page) };
    for [Text(user), Text(held)] in rows {
        match std::str::from_utf8(&held) {
            Ok(UNKNOWN) => state.carry_unknown(&user),
            Ok(text) => match units_and_open(text) {
                Some((units, open)) => state.carry(&user, units, open),
                None => return false,
            },
            Err(_) => return false,
        }
    }
    true
}

fn carry_transfers(state: &mut LedgerState, page: &[u8]) -> bool {
    let Ok(rows) = serde_json::from_slice::<Vec<[String; 3]>>(page) else { return false };
    rows.iter().all(|row| state.transfers.carry(row.each_ref().map(String::as_str)))
}

/// What a user holds, and how much of it is held open.
fn units_and_open(text: &str) -> Option<(i64, i64)> {
    match text.split_once(' ') {
        Some((held, open)) => Some((units(held)?, units(open).filter(|open| *open > 0)?)),
        None => Some((units(text)?, 0)),
    }
}

/// A JSON string whose bytes need not be UTF-8: users of other systems are in any encoding.
struct Text(Vec<u8>);

/// What a page says of one user: `None` if it is no page, `Some(None)` if it does not name the user, and no number if
/// nobody recorded the units.
pub(crate) fn units_in_page(page: &[u8], user: &[u8]) -> Option<Option<Option<i64>>> {
    let Ok(rows) = serde_json::from_slice::<Vec<[Text; 2]>>(page) else {
        return serde_json::from_slice::<Vec<[String; 3]>>(page).ok().map(|_| None);
    };
    let Some([_, Text(held)]) = rows.into_iter().find(|[Text(name), _]| name == user) else { return Some(None) };
    match std::str::from_utf8(&held).ok()? {
        UNKNOWN => Some(Some(None)),
        text => Some(Some(Some(units_and_open(text)?.0))),
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Text;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Kind;

    #[test]
    fn a_page_keeps_users_as_the_bytes_they_are() {
        let users: [&[u8]; 6] = [b"7", b"", b"\xc4\xe3", b"\"\\\x01\0\n", "中".as_bytes(), b"\x7f"];
        let held: Vec<PageRow<'_>> =
            users.into_iter().zip(1..).map(|(user, units)| (user, Some(units), units % 2)).collect();
        let mut state = LedgerState::new(Kind::Hash, None);
        assert!(carry(&mut state, &encode_page(&held)) && state.carried(21));
        let carried: Vec<PageRow<'_>> = state.held().map(|(user, units, open)| (user, Some(units), open)).collect();
        assert_eq!(carried, held);
        for wrong in [
            &b""[..],
            b"[[1,2]]",
            b"[[\"a\"]]",
            b"[[\"a\",\"01\"]]",
            b"[[\"a\",\"1\",\"2\"]]",
            b"[[\"lend\",\"ab\",\"2\"]]",
            b"[[\"lend\",\"ab\",\"2 17 5\",\"\"]]",
            b"[[\"a\",\"1 0\"]]",
            b"[[\"a\",\"1 x\"]]",
        ] {
            assert!(!carry(&mut state, wrong), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn transfers_have_pages_of_their_own_which_name_no_user() {
        let row = ["lend", "ab", "40 17 5"];
        let mut state = LedgerState::new(Kind::Hash, None);
        assert!(carry(&mut state, &encode_page(&[(b"lend", Some(2), 0)])) && state.transfers.carry(row));
        let pages = pages(&state);
        let mut again = LedgerState::new(Kind::Hash, None);
        assert!(pages.len() == 2 && pages.iter().all(|page| carry(&mut again, page)) && again.carried(2));
        assert_eq!(again.transfers, state.transfers);
        assert_eq!([&pages[0], &pages[1]].map(|page| units_in_page(page, b"lend")), [Some(Some(Some(2))), Some(None)]);
        assert_eq!(units_in_page(b"[[\"a\"]]", b"a"), None);
    }

    #[test]
    fn users_of_unknown_units_hold_what_the_others_do_not() {
        let mut state = LedgerState::new(Kind::Set, None);
        assert!(carry(&mut state, &encode_page(&[(b"a", Some(2), 0), (b"b", None, 0), (b"c", None, 0)])));
        assert!(!state.carried(3), "two members and one unit");
        assert!(state.carried(7));
        let (a, b) = (state.user(b"a"), state.user(b"b"));
        assert_eq!((state.is_unknown(a), state.is_unknown(b), state.sum), (false, true, 7));
        assert_eq!(pages(&state).len(), 1);
        assert!(!LedgerState::new(Kind::Hash, None).carried(1), "nobody holds it");
    }
}
