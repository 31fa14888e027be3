//! The pages of a checkpoint: what each user held by the ledger entries that were removed, and which transfers between shards were
//! among them.
//!
//! A page is a JSON array of pairs, a user and the units of each; or of three texts each, which are of a transfer. Pages are stored in the hash of request
//! ids, so that every system that knows the keys of an activity, and every reset, knows them too.

use std::borrow::Cow;
use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use crate::error::Result;
use crate::model::ledger::checkpoint::{Checkpoint, units};
use crate::script::keys::Keys;
use crate::store::Store;

/// Users a page: some ten kilobytes, one call's worth.
pub(crate) const USERS: usize = 500;
/// Units of a user that nobody recorded.
const UNKNOWN: &str = "?";
/// Pages that are read at once: about half a millisecond of the server's time.
const AT_ONCE: usize = 10;

/// Gives each page of a checkpoint, `None` for one that is gone, until `each` returns false.
pub(crate) fn each_page(
    store: &mut Store,
    keys: &Keys,
    checkpoint: &Checkpoint,
    mut each: impl FnMut(Option<&[u8]>) -> bool,
) -> Result<()> {
    for from in (0..checkpoint.pages).step_by(AT_ONCE) {
        let fields = (from..checkpoint.pages).take(AT_ONCE).map(|page| format!("\tc:{}:{page}", checkpoint.name));
        for page in store.servers.fields(&keys.requests, fields)? {
            if !each(page.as_deref()) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A page of transfers: direction, id, and `units shard ms`.
pub(crate) fn encode_transfers(rows: &[[String; 3]]) -> Vec<u8> {
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
        escape(&mut page, user);
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
        escape(&mut array, text);
        array.push(b'"');
    }
    array.push(b']');
    array
}

/// What a user holds, and how much of it is held open.
fn units_and_open(text: &str) -> Option<(i64, i64)> {
    match text.split_once(' ') {
        Some((held, open)) => Some((units(held)?, units(open).filter(|open| *open > 0)?)),
        None => Some((units(text)?, 0)),
    }
}

/// What a page has: users, in whatever encoding, and what each holds; or transfers.
pub(crate) enum Page {
    /// Users, the units of each, `None` if nobody recorded them, and how many of them are held open.
    Users(Vec<(Vec<u8>, Option<i64>, i64)>),
    /// Direction, id, and `units shard ms`.
    Transfers(Vec<[String; 3]>),
}

impl Page {
    /// `None` if it is no page.
    pub(crate) fn decode(page: &[u8]) -> Option<Self> {
        let Ok(rows) = serde_json::from_slice::<Vec<[Text<'_>; 2]>>(page) else {
            return serde_json::from_slice(page).ok().map(Self::Transfers);
        };
        let user = |[Text(user), Text(held)]: [Text<'_>; 2]| match std::str::from_utf8(&held).ok()? {
            UNKNOWN => Some((user.into_owned(), None, 0)),
            text => units_and_open(text).map(|(units, open)| (user.into_owned(), Some(units), open)),
        };
        rows.into_iter().map(user).collect::<Option<_>>().map(Self::Users)
    }

    /// What it says of one user: `None` if it does not name the user, and no number if nobody recorded the units.
    pub(crate) fn units(&self, user: &[u8]) -> Option<Option<i64>> {
        let Self::Users(users) = self else { return None };
        users.iter().find(|(name, ..)| name == user).map(|(_, units, _)| *units)
    }
}

/// A text that is borrowed if JSON has it as it is.
struct Text<'a>(Cow<'a, [u8]>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(bytes.to_owned())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Appends a text within quotation marks of JSON. Only what must be escaped is: the scripts read anything else as it is.
fn escape(out: &mut Vec<u8>, text: &[u8]) {
    if text.iter().all(|byte| !matches!(byte, b'"' | b'\\' | 0..=31)) {
        out.extend_from_slice(text);
        return;
    }
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
}
