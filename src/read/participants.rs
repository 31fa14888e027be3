//! The participants of an activity, page by page.

use std::hash::BuildHasher;

use crate::error::StoreError;
use crate::model::number::{MAX_UNITS, whole_bytes};
use crate::model::{ActivityId, Bought, Kind};
use crate::redis::scan::Scan;
use crate::store::Store;

/// Participants that were reported, by a fingerprint: two in a billion billion would have to share one.
#[derive(Default)]
struct ReportedUsers {
    seen: hashbrown::HashSet<(u64, u64)>,
    hashers: [hashbrown::DefaultHashBuilder; 2],
}

impl ReportedUsers {
    /// False if it is known already.
    fn insert(&mut self, user: &[u8]) -> bool {
        let [one, other] = &self.hashers;
        self.seen.insert((one.hash_one(user), other.hash_one(user)))
    }
}

/// Every participant and the units held, in no order, page by page in constant memory. A user may be reported
/// twice if the hash shrinks meanwhile, as SCAN promises no better. Units that are no number are reported as text.
/// Those of a member of a set that a plain script added are unknown. On a cluster or behind Sentinel, where a scan
/// may have to begin again, nobody is reported twice, at 17 bytes of memory a participant and more.
///
/// # Errors
/// Any of [`StoreError`], and whatever `each` fails with.
pub(crate) fn each<E: From<StoreError>>(
    store: &mut Store,
    activity: &ActivityId,
    mut each: impl FnMut(&[u8], Result<Bought, String>) -> Result<(), E>,
) -> Result<(), E> {
    let keys = store.keys(activity);
    let Some(participants) = keys.participants else { return Ok(()) };
    let kind = store.layout.kind();
    store.servers.discover()?;
    let (begins_again, mut known) = (store.servers.has_failover(), ReportedUsers::default());
    // The units of a set are in a key of their own: a page of them is read for each page of the set, on another
    // connection, because the set's next page is under way.
    let mut beside = keys.units.map(|units| (store.unconnected_copy(), units));
    let alone = if kind == Kind::Coupon { Bought::Units(1) } else { Bought::Unknown };
    let (scan, width) = match kind {
        Kind::Hash => (Scan::Hash(&participants), 2),
        _ => (Scan::Set(&participants), 1),
    };
    store.servers.scan(scan, |page| {
        let units = match &mut beside {
            Some((store, units)) if !page.is_empty() => store.servers.fields(units, page)?,
            _ => Vec::new(),
        };
        for (at, member) in page.chunks_exact(width).enumerate() {
            if begins_again && !known.insert(member[0]) {
                continue;
            }
            let units = member.get(1).copied().or_else(|| units.get(at)?.as_deref());
            each(member[0], units.map_or(Ok(alone), |units| number(units).map(Bought::Units)))?;
        }
        Ok(())
    })
}

/// The units a record holds, or its text if it is no number.
fn number(bytes: &[u8]) -> Result<u64, String> {
    whole_bytes(bytes).filter(|units| *units <= MAX_UNITS).ok_or_else(|| String::from_utf8_lossy(bytes).into_owned())
}
