//! The ledger in a ledger state: the sums of a checkpoint, if one was made, then the entries behind it, page by page.

use crate::audit::ledger_state::LedgerState;
use crate::error::Result;
use crate::model::{Checkpoint, EntryId};
use crate::read::checkpoint::{self, Page, PageRow, USERS, encode_page, encode_transfers};
use crate::read::ledger;
use crate::script::keys::Keys;
use crate::store::Store;

/// Adds to a state all entries up to one.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn fold(store: &mut Store, key: &str, state: &mut LedgerState, upto: EntryId) -> Result<()> {
    ledger::each_entry_of(store, key, state.end, upto, |entry| {
        state.add(entry);
        true
    })
}

/// Begins a ledger state at a checkpoint. False if not all of its pages are there as they were written.
pub(crate) fn begin_at(
    store: &mut Store,
    keys: &Keys,
    state: &mut LedgerState,
    checkpoint: &Checkpoint,
) -> Result<bool> {
    state.begin_at(checkpoint);
    let mut is_whole = true;
    checkpoint::each_page(store, keys, checkpoint, |page| {
        is_whole = page.is_some_and(|page| carry(state, page));
        is_whole
    })?;
    Ok(is_whole && state.carried(checkpoint.sum))
}

/// What the users of a ledger state hold, and its transfers, as pages.
pub(crate) fn pages(state: &LedgerState) -> Vec<Vec<u8>> {
    let known = state.held().map(|(user, units, open)| (user, Some(units), open));
    let held: Vec<PageRow<'_>> = known.chain(state.unknown().map(|user| (user, None, 0))).collect();
    let transfers = state.transfers.rows();
    held.chunks(USERS).map(encode_page).chain(transfers.chunks(USERS).map(encode_transfers)).collect()
}

/// Adds the users or transfers of a page to a ledger state; false if it is no page.
fn carry(state: &mut LedgerState, page: &[u8]) -> bool {
    match Page::decode(page) {
        Some(Page::Users(users)) => {
            for (user, units, open) in users {
                match units {
                    Some(units) => state.carry(&user, units, open),
                    None => state.carry_unknown(&user),
                }
            }
            true
        }
        Some(Page::Transfers(rows)) => rows.iter().all(|row| state.transfers.carry(row.each_ref().map(String::as_str))),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::Kind;
    use crate::read::checkpoint::Page;

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
        assert_eq!(
            [&pages[0], &pages[1]].map(|page| Page::decode(page).unwrap().units(b"lend")),
            [Some(Some(2)), None]
        );
        assert!(Page::decode(b"[[\"a\"]]").is_none());
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
