//! A loader that takes what is new in the ledgers of the first activity, in a consumer group: it gets each entry at least once, and
//! none is trimmed before it has it. Its process may be killed between what it got and what it acknowledged.

use std::collections::BTreeSet;

use super::*;
use crate::keys::{Data, Group, Stream, StreamId, stream_id};
use crate::work::{GROUP, Loaded};

/// What a loader has, and what it may still get.
#[derive(Default)]
pub struct Loader {
    loaded: Loaded,
    /// By ledger: the rules' epoch, and entries that its group did not acknowledge.
    open: BTreeMap<ActivityId, (String, BTreeSet<StreamId>)>,
}

impl Loader {
    /// The server is as it was before, or has less.
    pub fn lose(&mut self) {
        self.open.clear();
    }
}

impl Night<'_> {
    pub fn feed(&self) -> Step {
        let loaded = self.loader.as_ref().map(|loader| Arc::clone(&loader.loaded));
        Step::new(About::Upkeep, Op::Feed(loaded.expect("there is a loader")))
    }

    /// Compares what the group has still to acknowledge with what there was before the last call.
    pub fn check_feed(&mut self) -> Result<(), Broken> {
        let Some(Loader { loaded, open }) = &mut self.loader else { return Ok(()) };
        let server = self.engine.server.borrow();
        let sale = &self.activities[0];
        let parts = if sale.parts.is_empty() { std::slice::from_ref(sale) } else { &sale.parts };
        for part in parts {
            let Some(Data::Stream(stream)) = server.keys.0.get(part.keys.ledger.as_bytes()) else {
                open.remove(&part.id);
                continue;
            };
            let Some(now) = unacknowledged(stream) else {
                open.remove(&part.id);
                continue;
            };
            // A reset begins another ledger.
            let epoch = Found::read(part, &server.keys)?.map(|found| found.epoch).unwrap_or_default();
            let (of, before) = open.insert(part.id.clone(), (epoch.clone(), now.clone())).unwrap_or_default();
            for id in before.difference(&now).filter(|_| of == epoch) {
                let has_it = |(of, entry, _): &(ActivityId, EntryId, bool)| {
                    *of == part.id && stream_id(entry.to_string().as_bytes(), 0) == Ok(*id)
                };
                if !loaded.lock().expect("one runs").iter().any(has_it) {
                    return broken("a loader gets each entry", format!("{id:?} of {}", part.id));
                }
            }
        }
        Ok(())
    }

    /// At the end it has all, and nothing that it got was trimmed before.
    pub fn end_feed(&mut self) -> Result<(), Broken> {
        if self.loader.is_none() {
            return Ok(());
        }
        let feed = self.feed();
        self.steps_alone(vec![feed])?;
        let Some(Loader { loaded, open }) = &self.loader else { return Ok(()) };
        if let Some((part, left)) = open.iter().find(|(_, (_, left))| !left.is_empty()) {
            return broken("a loader comes to the end", format!("{part}: {left:?}"));
        }
        let trimmed = loaded.lock().expect("one runs").iter().find(|(_, _, is_there)| !is_there).cloned();
        trimmed.map_or(Ok(()), |(part, id, _)| broken("what a loader got is still there", format!("{id} of {part}")))
    }
}

/// The entries that the group has still to acknowledge, if there is a group.
fn unacknowledged(stream: &Stream) -> Option<BTreeSet<StreamId>> {
    let Group { read, pending } = stream.groups.get(GROUP.as_bytes())?;
    let new = stream.entries.keys().filter(|id| *id > read);
    Some(pending.iter().chain(new).copied().collect())
}
