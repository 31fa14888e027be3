//! Transfers whose units are at their home for sure. Their ids still have to leave the list of the donor: its next `lend` takes them out.

use std::collections::HashMap;

use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::redis::cluster::Servers;
use crate::script::keys::Keys;
use crate::shards::transfer::{Loan, Party, patience};

/// Ids by activity and donor, with the epoch that they belong to.
#[derive(Debug, Default)]
pub(crate) struct Arrived(HashMap<(ActivityId, u32), (u64, Vec<String>)>);

impl Arrived {
    /// Adds an id. Those of an older epoch are gone with it.
    pub(crate) fn add(&mut self, activity: &ActivityId, donor: u32, epoch: u64, id: String) {
        let known = self.0.entry((activity.clone(), donor)).or_insert_with(|| (epoch, Vec::new()));
        if known.0 != epoch {
            *known = (epoch, Vec::new());
        }
        known.1.push(id);
    }

    /// Those of a donor, for its next `lend`.
    pub(crate) fn take(&mut self, activity: &ActivityId, donor: u32, epoch: u64) -> Vec<String> {
        let known = self.0.remove(&(activity.clone(), donor));
        known.filter(|(of, _)| *of == epoch).map(|(_, ids)| ids).unwrap_or_default()
    }

    /// Takes all out of their donors' lists. What fails is left for the finisher.
    pub(crate) fn settle(&mut self, servers: &mut Servers, layout: Layout, by: &str) {
        let patience = patience(servers);
        let mut calls = Vec::new();
        for ((activity, donor), (epoch, ids)) in self.0.drain() {
            let party = Party { layout, by, activity: &activity, epoch, patience };
            let loan = Loan { id: "", donor, home: donor, need: 0, want: 0, finished: &ids };
            let slot = Keys::of(layout, &activity.shard(donor)).slot();
            calls.push((slot, party.lend_call(&loan).command()));
        }
        if !calls.is_empty() {
            drop(servers.each_reply(&calls));
        }
    }
}
