//! Reads all that an audit needs, exactly, while the sale goes on.
//!
//! A scan of a hash that is being written sees a blur. So each page of participants comes with the ledger's last
//! entry at that very instant; the ledger is folded up to exactly there, and then each counter of the page must
//! be what the ledger says. Without a ledger, scans are repeated until two are alike.

use std::hash::BuildHasher;

use redis::Value;

use super::keys::Keys;
use super::participants::{PageRequest, ParticipantsPage, holding};
use super::throttle::Throttle;
use super::{Store, StoreError};
use crate::inventory::evidence::{ActivityView, Evidence, Holding, Tally, limit};
use crate::inventory::id::ActivityId;
use crate::inventory::ledger::EntryId;
use crate::inventory::ledger_state::{Compared, LedgerState};
use crate::inventory::status::Status;

/// Users that are looked up at one instant.
const MOST_USERS: usize = 1000;
/// How often an audit begins again where the activity was reset meanwhile, and how many scans may differ.
const TRIES: usize = 3;

impl Store {
    /// All evidence about an activity. `total` is what the caller says it has; `compared` is what its users are compared
    /// with besides.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what is missing or corrupt is among the evidence.
    pub fn audit(
        &mut self,
        activity: &ActivityId,
        total: Option<u64>,
        compared: Option<Compared>,
    ) -> Result<Evidence, StoreError> {
        let keys = self.keys(activity);
        let mut evidence = self.no_evidence(activity, total, compared);
        self.throttle = Throttle::quick();
        for _ in 0..TRIES {
            evidence.begin_again();
            let Some(first) = self.first_look(&keys, &mut evidence)? else { return Ok(evidence) };
            let whole = self.open_book(&keys, &mut evidence, &first.instant)?;
            if !whole && self.began_anew(&keys, &first.instant)? {
                continue;
            }
            let done = if whole {
                self.by_ledger(&keys, &mut evidence, first)?
            } else {
                self.by_rounds(&keys, &mut evidence, first)?
            };
            if done {
                evidence.say_what_is_lost();
                return Ok(evidence);
            }
        }
        evidence.begin_again();
        if self.first_look(&keys, &mut evidence)?.is_some() {
            evidence.notes.push(format!("its ledger was trimmed or reset {TRIES} times while it was read"));
        }
        Ok(evidence)
    }

    fn no_evidence(&self, activity: &ActivityId, total: Option<u64>, compared: Option<Compared>) -> Evidence {
        let kind = self.layout.kind();
        let newest_named = compared.as_ref().and_then(|compared| compared.records.newest);
        Evidence {
            activity: activity.clone(),
            layout: self.layout,
            kind,
            total,
            end: None,
            corrupt: None,
            ledger: LedgerState::new(kind, compared),
            newest_named,
            held: Tally::default(),
            without_units: 0,
            by_ledger: false,
            settled: false,
            is_torn: false,
            first_drift: None,
            drifts_on: false,
            mismatches: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The first page; `None` where there is nothing to audit.
    fn first_look(&mut self, keys: &Keys, evidence: &mut Evidence) -> Result<Option<ParticipantsPage>, StoreError> {
        let look = self.look(keys, &PageRequest::Page("0"))?;
        Ok(evidence.take(&look).then_some(look))
    }

    /// Reads the ledger from its checkpoint, or else its beginning, up to an instant. False where it is not whole.
    fn open_book(&mut self, keys: &Keys, evidence: &mut Evidence, instant: &ActivityView) -> Result<bool, StoreError> {
        let (Some(rules), Some(last)) = (instant.rules.filter(|rules| rules.ledger), instant.last) else {
            return Ok(false);
        };
        if let Some(checkpoint) = &instant.checkpoint
            && !self.begin_at(keys, &mut evidence.ledger, checkpoint)?
        {
            return Ok(false);
        }
        self.throttle.set_live(instant.is_live());
        self.fold(&keys.ledger, &mut evidence.ledger, last)?;
        Ok(evidence.ledger.is_whole(rules.epoch))
    }

    /// Whether the ledger was reset or trimmed since an instant.
    fn began_anew(&mut self, keys: &Keys, since: &ActivityView) -> Result<bool, StoreError> {
        let begins = |instant: &ActivityView| {
            let name = instant.checkpoint.as_ref().map(|checkpoint| checkpoint.name.clone());
            (instant.rules.map(|rules| rules.epoch), name)
        };
        Ok(begins(&self.look(keys, &PageRequest::Users(&[]))?.instant) != begins(since))
    }

    /// Compares each counter with the ledger at one instant. False where the ledger began anew meanwhile.
    fn by_ledger(&mut self, keys: &Keys, evidence: &mut Evidence, first: ParticipantsPage) -> Result<bool, StoreError> {
        evidence.by_ledger = true;
        evidence.settled = true;
        let epoch = evidence.ledger.epoch;
        let mut pages = self.begin_pages(&first.instant);
        let mut look = first;
        loop {
            look.entries.iter().for_each(|entry| evidence.ledger.add(entry));
            if !self.catch_up(keys, evidence, &look.instant, epoch)? {
                return Ok(false);
            }
            evidence.watch_stock(&look.instant);
            self.ask_ahead(keys, &mut pages, &look.cursor, evidence.ledger.end);
            let limit = limit(evidence.kind, look.instant.rules);
            let (names, held): (Vec<&[u8]>, Vec<_>) = look.held.pairs().unzip();
            let users = evidence.ledger.users(names.into_iter());
            for (user, holds) in users.into_iter().zip(held) {
                if evidence.ledger.see(user) {
                    evidence.without_units += u64::from(holds == Holding::Unknown);
                    evidence.mismatches.extend(evidence.ledger.mismatch(user, holds, limit, true));
                }
            }
            if look.cursor == "0" {
                break;
            }
            look = self.answer(keys, &mut pages, &look.cursor)?;
            if !evidence.take(&look) {
                return Ok(evidence.corrupt.is_some());
            }
        }
        // Those whom only the ledger knows; and then, at one last instant, those who differed.
        for users in evidence.ledger.unseen().chunks(MOST_USERS) {
            if !self.look_up(keys, evidence, users, epoch)? {
                return Ok(evidence.corrupt.is_some());
            }
        }
        let differ: Vec<u32> = evidence.mismatches.iter().map(|mismatch| mismatch.user).collect();
        let again = if differ.len() <= MOST_USERS { &differ[..] } else { &[] };
        if !again.is_empty() {
            evidence.mismatches.clear();
        }
        Ok(self.look_up(keys, evidence, again, epoch)? || evidence.corrupt.is_some())
    }

    /// Looks at users at one instant. False where the ledger began anew meanwhile, or a key is corrupt now.
    fn look_up(
        &mut self,
        keys: &Keys,
        evidence: &mut Evidence,
        users: &[u32],
        epoch: Option<u64>,
    ) -> Result<bool, StoreError> {
        let names: Vec<Vec<u8>> = users.iter().map(|user| evidence.ledger.users.name(*user).to_owned()).collect();
        self.throttle.wait();
        let look = self.look(keys, &PageRequest::Users(&names))?;
        self.throttle.took();
        if !evidence.take(&look) || !self.catch_up(keys, evidence, &look.instant, epoch)? {
            return Ok(false);
        }
        evidence.watch_stock(&look.instant);
        let limit = limit(evidence.kind, look.instant.rules);
        for (user, value) in users.iter().zip(look.held.units()) {
            let holds = match value {
                Value::BulkString(units) => holding(units),
                _ => Holding::Units(0),
            };
            evidence.ledger.see(*user);
            evidence.mismatches.extend(evidence.ledger.mismatch(*user, holds, limit, true));
        }
        evidence.end = Some(look.instant);
        Ok(true)
    }

    /// Folds the ledger up to an instant. False where it is not the ledger that the state began with.
    fn catch_up(
        &mut self,
        keys: &Keys,
        evidence: &mut Evidence,
        instant: &ActivityView,
        epoch: Option<u64>,
    ) -> Result<bool, StoreError> {
        self.throttle.set_live(instant.is_live());
        if let Some(last) = instant.last {
            self.fold(&keys.ledger, &mut evidence.ledger, last)?;
        }
        let same = instant.rules.map(|rules| rules.epoch) == epoch;
        let complete = instant.length.is_none_or(|length| length == evidence.ledger.entries);
        Ok(same && complete && instant.last == Some(evidence.ledger.end))
    }

    /// Scans until two scans are alike in stock, sum and digest.
    fn by_rounds(&mut self, keys: &Keys, evidence: &mut Evidence, first: ParticipantsPage) -> Result<bool, StoreError> {
        let hasher = hashbrown::DefaultHashBuilder::default();
        let lost_beginning = first.instant.rules.is_some_and(|rules| rules.ledger);
        let mut pages = self.begin_pages(&first.instant);
        let mut look = Some(first);
        let mut before = None;
        for _ in 0..TRIES {
            let (mut tally, mut digest) = (Tally::default(), 0u64);
            evidence.ledger.begin_again();
            evidence.mismatches.clear();
            evidence.without_units = 0;
            let mut page = match look.take() {
                Some(look) => look,
                None => self.look(keys, &PageRequest::Page("0"))?,
            };
            let stock = page.instant.stock;
            loop {
                if !evidence.take(&page) {
                    return Ok(evidence.corrupt.is_some());
                }
                self.ask_ahead(keys, &mut pages, &page.cursor, page.instant.last.unwrap_or(EntryId::ZERO));
                let limit = limit(evidence.kind, page.instant.rules);
                for (name, holds) in page.held.pairs() {
                    let user = evidence.ledger.user(name);
                    if evidence.ledger.see(user) {
                        digest = digest.wrapping_add(hasher.hash_one((name, &holds)));
                        tally.add(&holds, &evidence.ledger, user);
                        evidence.without_units += u64::from(holds == Holding::Unknown);
                        evidence.mismatches.extend(evidence.ledger.mismatch(user, holds, limit, false));
                    }
                }
                if page.cursor == "0" {
                    break;
                }
                let before = page.instant.stock;
                page = self.answer(keys, &mut pages, &page.cursor)?;
                self.throttle.set_live(page.instant.stock != before);
            }
            let end = self.look(keys, &PageRequest::Users(&[]))?;
            if !evidence.take(&end) {
                return Ok(evidence.corrupt.is_some());
            }
            let seen = (stock, end.instant.stock, tally, digest);
            evidence.held = tally;
            evidence.settled = seen.0 == seen.1 && before == Some(seen);
            if evidence.settled {
                break;
            }
            before = Some(seen);
        }
        // A bare counter has nobody to be seen.
        for user in evidence.ledger.unseen().into_iter().filter(|_| evidence.kind.has_users()).collect::<Vec<_>>() {
            evidence.mismatches.extend(evidence.ledger.mismatch(user, Holding::Units(0), None, false));
        }
        if !evidence.settled {
            evidence.is_torn = true;
            evidence.notes.push(
                "it is being written and has no ledger, so no two scans were alike: audit it when nobody buys"
                    .to_owned(),
            );
        } else if lost_beginning {
            evidence.settled = false;
            evidence.notes.push(
                "its ledger does not begin with this sale's preheat, nor goes on behind a checkpoint, so no counter could be \
                 compared with it"
                    .to_owned(),
            );
        }
        Ok(true)
    }
}

impl Evidence {
    /// Forgets all that was found.
    fn begin_again(&mut self) {
        self.ledger.begin_again();
        self.mismatches.clear();
        self.notes.clear();
        (self.end, self.corrupt) = (None, None);
        (self.by_ledger, self.settled, self.is_torn) = (false, false, false);
        (self.held, self.without_units) = (Tally::default(), 0);
        (self.first_drift, self.drifts_on) = (None, false);
    }

    /// What a checkpoint cannot tell.
    fn say_what_is_lost(&mut self) {
        let upto = self.end.as_ref().and_then(|end| end.checkpoint.as_ref()).map(|checkpoint| checkpoint.upto.at());
        if let Some(upto) = upto.filter(|_| self.ledger.orders_too_old()) {
            self.notes.push(format!(
                "its ledger was trimmed up to {upto}, and the order records are older, so what is newer than they are \
                 cannot be told from what is missing in them: they were not compared, export them again"
            ));
        }
    }

    /// Takes over what a look says of the activity as a whole. False where there is nothing to go on with.
    fn take(&mut self, look: &ParticipantsPage) -> bool {
        self.corrupt.clone_from(&look.corrupt);
        if look.status == Status::Ok {
            self.end = Some(look.instant.clone());
        }
        look.status == Status::Ok
    }
}
