//! Takes over an activity that another system created, or that lost its meta or the beginning of its ledger. Its stock
//! is withdrawn first, then participants are scanned, and their units written where nobody reads them; then, in one
//! step, an audit begins there and the stock returns. Wherever it ends, the next call resumes.

use redis::Value;

use crate::admin::preheat::{self, given};
use crate::admin::trim;
use crate::audit::ledger_state::LedgerState;
use crate::audit::read::fold;
use crate::error::{Result, ServerKind, StoreError};
use crate::model::number::{MAX_UNITS, signed};
use crate::model::status::call_code::STALE;
use crate::model::{ActivityId, Corrupt, Entry, EntryId, Kind, Millis, Op, Plan, Status, StoredState, Units};
use crate::names;
use crate::read::checkpoint::encode_page;
use crate::read::holders::Holders;
use crate::read::{holds, ledger, snapshot};
use crate::redis::call::Call;
use crate::script::ADOPT;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

names! {
    /// What an activity lacks.
    pub enum Stage {
        /// Nothing: it was preheated or adopted.
        Whole = "whole",
        /// Its meta; the ledger begins with its preheat, so that it says what the meta said.
        Ledger = "ledger",
        /// An adoption of it was begun.
        Unfinished = "unfinished",
        /// The beginning of its ledger.
        Partial = "partial",
        /// Its meta and the beginning of its ledger.
        Lost = "lost",
        /// Its stock key.
        Stock = "stock",
        /// Everything that we write: another system created it.
        Foreign = "foreign",
    }
}

/// An activity before it is taken over.
#[derive(Debug, Clone)]
pub(crate) struct Adoptable {
    /// `ok`, `not_preheated` or `corrupt`.
    pub status: Status,
    /// Which key is corrupt, and what it holds.
    pub corrupt: Option<Corrupt>,
    /// What it lacks.
    pub stage: Stage,
    /// Units for sale, withdrawn ones included; `None` if the stock key is gone.
    pub units: Option<u64>,
    /// The total in its meta.
    pub total: Option<u64>,
    /// The limit in its meta.
    pub per_user_limit: Option<u64>,
    /// How many participants there are.
    pub participants: u64,
    /// Whether a key of it will expire.
    pub expires: bool,
    epoch: String,
    last: Option<String>,
}

/// What an activity lacks. Nothing is written.
///
/// # Errors
/// Any of `StoreError`.
pub(crate) fn plan_adoption(store: &mut Store, activity: &ActivityId) -> Result<Adoptable> {
    let value = adopt(store, activity, "plan", Vec::new())?;
    adoptable(value, &store.keys(activity))
}

/// How often participants are scanned before a backend that still writes is a reason to give up.
const TRIES: usize = 5;

/// Scans participants; `None` if the operator wants no more of it.
pub(crate) type Scan<'a> = dyn FnMut(&mut Store) -> Result<Option<Holders>> + 'a;

/// Takes an activity over.
pub(crate) struct Adoption<'a> {
    store: &'a mut Store,
    /// What it shall be. Its total, if given, must be that of what is there.
    plan: &'a Plan,
    /// Why, for the ledger.
    reason: Option<&'a str>,
    /// Names the checkpoint, and differs with each try.
    name: String,
    scan: &'a mut Scan<'a>,
}

/// What an adoption can do, before anything is written.
pub(crate) enum Prospect {
    /// Nothing is lacking.
    Whole,
    /// Its meta, as its ledger has it.
    Ledger { adopted: Adopted, is_paused: bool },
    /// It becomes what participants and the stock come to.
    Scanned { adopted: Adopted, holders: Holders, is_paused: bool },
    /// Nothing.
    Refused(Unadoptable),
}

/// The result of an adoption.
pub(crate) enum AdoptionEnd {
    /// It is taken over; with what participants hold, if they were scanned.
    Done(Adopted, Option<Holders>),
    /// A first try whose reply was lost had done it.
    Replayed(Adopted),
    /// All is as it was.
    Refused(Unadoptable),
    /// The operator wanted no more of it, and all is as it was.
    Interrupted,
    /// No two scans agreed, and all is as it was.
    Moving,
    /// Another adoption has taken it over.
    Overtaken,
}

impl<'a> Adoption<'a> {
    /// Nothing is done yet.
    pub(crate) fn new(store: &'a mut Store, plan: &'a Plan, reason: Option<&'a str>, scan: &'a mut Scan<'a>) -> Self {
        Self { name: new_name(store), store, plan, reason, scan }
    }

    /// What can be done. Nothing is written.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub(crate) fn prospect(&mut self, found: &Adoptable) -> Result<Prospect> {
        if found.status != Status::Ok {
            return Ok(Prospect::Refused(Unadoptable::Unfit(found.status, found.corrupt.clone())));
        }
        if found.stage == Stage::Whole {
            return Ok(Prospect::Whole);
        }
        self.check_stored_window()?;
        // Of a bare counter, units that only the lost meta had would be taken for sold.
        let says_what_is_left = match found.stage {
            Stage::Lost => true,
            Stage::Ledger => !self.store.layout().kind().has_users(),
            _ => false,
        };
        let (is_paused, left) = if says_what_is_left { self.read_pause(found)? } else { (false, None) };
        if let Some(left) = left.filter(|left| *left > found.units.unwrap_or_default()) {
            return Ok(Prospect::Refused(Unadoptable::Withdrawn(left)));
        }
        if found.stage == Stage::Ledger
            && let Some(ledger) = self.fold_ledger(found)?
            && let (Some(total), Ok(held)) = (ledger.total, u64::try_from(ledger.sum))
        {
            if self.plan.total.is_some_and(|given| given.get() != total) {
                return Ok(Prospect::Refused(Unadoptable::OtherTotal(total)));
            }
            let adopted = Adopted { total, held, units: found.units.unwrap_or_default() };
            return Ok(Prospect::Ledger { adopted, is_paused: ledger.is_paused });
        }
        let holders = (self.scan)(self.store)?.unwrap_or_default();
        Ok(match self.sum(found, &holders) {
            Ok(adopted) => Prospect::Scanned { adopted, holders, is_paused },
            Err(why) => Prospect::Refused(why),
        })
    }

    /// What the rest of a ledger says of an activity whose meta was lost: whether it is paused, and how many units were left while its
    /// stock was withdrawn.
    fn read_pause(&mut self, found: &Adoptable) -> Result<(bool, Option<u64>)> {
        let Some(last) = found.last.as_deref().and_then(|last| last.parse().ok()) else { return Ok((false, None)) };
        let (mut is_paused, mut is_withdrawn, mut left) = (false, false, None);
        let key = self.store.keys(&self.plan.id).ledger;
        ledger::each_entry_of(self.store, &key, EntryId::ZERO, last, |entry| {
            match entry.known_op() {
                Some(Op::Pause) => (is_paused, is_withdrawn) = (true, is_withdrawn || entry.withdrawn.is_some()),
                Some(Op::Resume | Op::Preheat) => (is_paused, is_withdrawn) = (false, false),
                _ => {}
            }
            left = Entry::count(entry.stock.as_deref()).or(left);
            true
        })?;
        Ok((is_paused, left.filter(|_| is_withdrawn)))
    }

    /// Refuses a window that is given in part, and does not fit what is stored of the other part.
    fn check_stored_window(&mut self) -> Result<()> {
        let plan = self.plan;
        if !plan.starts_at.is_given() && !plan.ends_at.is_given() {
            return Ok(());
        }
        let stored = snapshot::snapshot(self.store, &plan.id)?.meta.map(|meta| (meta.starts_at, meta.ends_at));
        let (start, end) = stored.unwrap_or_default();
        preheat::check_window("adopt", plan.starts_at.over(start), plan.stored_end().over(end))
    }

    /// Restores the meta of an activity whose ledger says what it was. Nothing else is written.
    ///
    /// # Errors
    /// Any of `StoreError`.
    pub(crate) fn restore_meta(&mut self, found: &Adoptable, adopted: Adopted, is_paused: bool) -> Result<AdoptionEnd> {
        Ok(self.switch(found, adopted, None, is_paused)?.unwrap_or(AdoptionEnd::Moving))
    }

    /// Withdraws the stock, scans until two scans agree, writes what they found and returns the stock. With `is_paused` nobody buys
    /// afterwards, if no meta says otherwise.
    ///
    /// # Errors
    /// Any of `StoreError`. The sale may be stopped then, until another call resumes.
    pub(crate) fn take_over(&mut self, is_paused: bool) -> Result<AdoptionEnd> {
        for _ in 0..TRIES {
            // A page of the last try that comes late is none of this one.
            self.name = new_name(self.store);
            let Some(found) = self.withdraw(is_paused)? else { return Ok(AdoptionEnd::Overtaken) };
            if found.status != Status::Ok {
                return Ok(AdoptionEnd::Refused(Unadoptable::Unfit(found.status, found.corrupt)));
            }
            let (Some(first), Some(mut second)) = ((self.scan)(self.store)?, (self.scan)(self.store)?) else {
                self.undo(&found)?;
                return Ok(AdoptionEnd::Interrupted);
            };
            if second.corrupt.is_none() && !second.equal(&first) {
                continue;
            }
            let adopted = match self.sum(&found, &second) {
                Ok(adopted) => adopted,
                Err(why) => {
                    self.undo(&found)?;
                    return Ok(AdoptionEnd::Refused(why));
                }
            };
            let Some(pages) = self.write_holders(&found, &second, adopted.held)? else { continue };
            match self.switch(&found, adopted, Some(pages), false) {
                Ok(Some(AdoptionEnd::Done(adopted, _))) => return Ok(AdoptionEnd::Done(adopted, Some(second))),
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                // The stored window was changed meanwhile, and this one does not fit it any more.
                Err(error @ StoreError::Server { kind: ServerKind::Usage, .. }) => {
                    self.undo(&found)?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        let found = plan_adoption(self.store, &self.plan.id)?;
        self.undo(&found)?;
        Ok(AdoptionEnd::Moving)
    }

    /// The balance of what was found and scanned.
    fn sum(&self, found: &Adoptable, holders: &Holders) -> Result<Adopted, Unadoptable> {
        if holders.corrupt.is_some() {
            return Err(Unadoptable::Unfit(Status::Corrupt, holders.corrupt.clone()));
        }
        let found = AdoptionBalance {
            kind: self.store.layout.kind(),
            units: found.units,
            total: self.plan.total.map(Units::get).or(found.total),
            held: holders.held(),
            holders: holders.holders(),
            unknown: holders.unknown(),
        };
        found.adopted()
    }

    /// Moves the stock out of reach and pauses the activity; `None` if another adoption has taken it over meanwhile.
    fn withdraw(&mut self, is_paused: bool) -> Result<Option<Adoptable>> {
        let activity = &self.plan.id;
        preheat::add_to_index(self.store, [activity])?;
        let arguments = vec![String::new(), self.name.clone(), state(is_paused)];
        let value = adopt(self.store, activity, "withdraw", arguments)?;
        if is_stale(&value) { Ok(None) } else { adoptable(value, &self.store.keys(activity)).map(Some) }
    }

    /// The ledger of an activity whose meta was lost; `None` if not all of it can be read.
    fn fold_ledger(&mut self, found: &Adoptable) -> Result<Option<LedgerState>> {
        let store = &mut *self.store;
        let keys = store.keys(&self.plan.id);
        let mut state = LedgerState::new(store.layout.kind(), None);
        let upto = found.last.as_deref().and_then(|last| last.parse().ok());
        let (Some(upto), Ok(epoch)) = (upto, found.epoch.parse()) else { return Ok(None) };
        store.throttle = crate::store::Throttle::gentle(store.servers.system());
        fold::fold(store, &keys.ledger, &mut state, upto)?;
        let is_readable = state.is_whole(epoch) && state.unreadable.is_empty() && state.total.is_some();
        Ok(is_readable.then_some(state))
    }

    /// Writes what participants hold, where nobody reads it yet: how many pages; `None` if another adoption runs.
    fn write_holders(&mut self, found: &Adoptable, holders: &Holders, held: u64) -> Result<Option<u64>> {
        let store = &mut *self.store;
        let keys = store.keys(&self.plan.id);
        trim::clear(store, &keys, &found.epoch)?;
        // A bare counter sold to one user without a name.
        let pages = match store.layout.kind() {
            Kind::Counter if held > 0 => vec![encode_page(&[(b"", Some(signed(held)), 0)])],
            _ => holders.pages(&holds::open_by_user(store, &self.plan.id)?),
        };
        let count = pages.len() as u64;
        Ok(trim::write_pages(store, &keys, &found.epoch, &self.name, pages)?.then_some(count))
    }

    /// Takes the activity over, in one step; `None` if something changed since it was read. `pages` is `None` if its ledger is whole
    /// without a checkpoint, and then `is_paused` is what that ledger says.
    fn switch(
        &mut self,
        found: &Adoptable,
        adopted: Adopted,
        pages: Option<u64>,
        is_paused: bool,
    ) -> Result<Option<AdoptionEnd>> {
        let with_pages = |text: String| if pages.is_some() { text } else { String::new() };
        let plan = self.plan;
        let arguments = vec![
            self.reason.unwrap_or_default().to_owned(),
            self.name.clone(),
            adopted.total.to_string(),
            adopted.held.to_string(),
            with_pages(adopted.units.to_string()),
            with_pages(found.participants.to_string()),
            found.last.clone().unwrap_or_default(),
            pages.map(|pages| pages.to_string()).unwrap_or_default(),
            given(plan.per_user_limit),
            given(plan.title.clone()),
            given(plan.starts_at.map(Millis::get)),
            given(plan.stored_end().map(Millis::get)),
            state(is_paused),
        ];
        let value = adopt(self.store, &plan.id, "switch", arguments)?;
        if is_stale(&value) {
            return Ok(None);
        }
        let reply = Reply::of(&ADOPT);
        match reply.status(reply.array(value)?.first())? {
            Status::Ok => {
                let keys = self.store.keys(&plan.id);
                trim::clear(self.store, &keys, &found.epoch)?;
                Ok(Some(AdoptionEnd::Done(adopted, None)))
            }
            Status::Replayed => Ok(Some(AdoptionEnd::Replayed(adopted))),
            // It is corrupt now, or gone.
            _ => Ok(None),
        }
    }

    /// Ends an adoption that cannot be finished: what it found is as it was, and for sale again.
    fn undo(&mut self, found: &Adoptable) -> Result<()> {
        let keys = self.store.keys(&self.plan.id);
        trim::clear(self.store, &keys, &found.epoch)?;
        adopt(self.store, &self.plan.id, "undo", vec![String::new(), self.name.clone()]).map(drop)
    }
}

/// As the script has it.
fn state(is_paused: bool) -> String {
    if is_paused { StoredState::Paused } else { StoredState::Live }.name().to_owned()
}

fn new_name(store: &Store) -> String {
    store.servers.system().unique_id().to_string()
}

/// One step of the script; `arguments` are those from the reason on.
fn adopt(store: &mut Store, activity: &ActivityId, step: &str, arguments: Vec<String>) -> Result<Value> {
    let keys = store.keys(activity);
    let arguments = [store.kind(), step.to_owned(), store.operator.clone()].into_iter().chain(arguments);
    let value = store.servers.call(&Call::script(&ADOPT, keys.in_order(), arguments).of_step(step))?;
    if step != "plan" {
        store.changed(activity);
    }
    Ok(value)
}

fn is_stale(value: &Value) -> bool {
    matches!(value, Value::Array(values) if values.first() == Some(&Value::Int(STALE)))
}

/// Reads what the steps `plan` and `withdraw` reply.
fn adoptable(value: Value, keys: &Keys) -> Result<Adoptable> {
    let reply = Reply::of(&ADOPT);
    let (status, corrupt, values) = reply.with_status(value, keys)?;
    // Nothing is said of what is not there, or corrupt.
    let said = if status == Status::Ok { &values[..] } else { &[] };
    let stage = reply.text(said.get(1))?.and_then(|stage| Stage::named(&stage));
    if status == Status::Ok && stage.is_none() {
        return Err(reply.invalid(&values));
    }
    let has_stock = reply.text(said.get(10))?.is_some();
    Ok(Adoptable {
        status,
        corrupt,
        stage: stage.unwrap_or(Stage::Foreign),
        units: if has_stock { reply.count(said.get(2))? } else { None },
        total: reply.count(said.get(4))?,
        per_user_limit: reply.count(said.get(5))?,
        participants: reply.count(said.get(9))?.unwrap_or_default(),
        expires: reply.count(said.get(11))? == Some(1),
        epoch: reply.text(said.get(6))?.unwrap_or_default(),
        last: reply.text(said.get(7))?,
    })
}

/// What was found of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AdoptionBalance {
    /// How it records who bought.
    pub kind: Kind,
    /// Units for sale, withdrawn ones included; `None` if the stock key is gone.
    pub units: Option<u64>,
    /// The total that the operator gave, else the one in its meta.
    pub total: Option<u64>,
    /// Units of all participants whose units are recorded.
    pub held: u64,
    /// Participants who hold something.
    pub holders: u64,
    /// Those of them whose units nobody recorded.
    pub unknown: u64,
}

/// What it will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adopted {
    /// Its total.
    pub total: u64,
    /// Units that participants hold, those of unknown holdings included.
    pub held: u64,
    /// Units for sale.
    pub units: u64,
}

/// Why it cannot be taken over as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unadoptable {
    /// It is not there, or corrupt: which key holds what.
    Unfit(Status, Option<Corrupt>),
    /// Only the operator can know the total: what was sold is recorded nowhere.
    TotalNeeded,
    /// Units were sold, and nobody holds any.
    Evicted,
    /// The total differs from stock plus holdings, which are this many units.
    OtherTotal(u64),
    /// A pause had withdrawn the stock, and only the lost meta had what was left of it: these units.
    Withdrawn(u64),
    /// The stock is gone, and without all holdings nobody can say what it was.
    StockLost,
}

impl AdoptionBalance {
    /// The balance of the activity.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn adopted(&self) -> Result<Adopted, Unadoptable> {
        let known = self.units.unwrap_or(0).saturating_add(self.held);
        if known > MAX_UNITS {
            return Err(Unadoptable::OtherTotal(known));
        }
        let Some(units) = self.units else { return self.without_stock() };
        if self.kind == Kind::Counter || self.unknown > 0 {
            let total = self.total.ok_or(Unadoptable::TotalNeeded)?;
            // A holder has at least one unit.
            let least = known.saturating_add(self.unknown);
            if total < least {
                return Err(Unadoptable::OtherTotal(least));
            }
            return Ok(Adopted { total, held: total - units, units });
        }
        let total = self.total.unwrap_or(known);
        if self.holders == 0 && total > units {
            return Err(Unadoptable::Evicted);
        }
        if total != known {
            return Err(Unadoptable::OtherTotal(known));
        }
        Ok(Adopted { total, held: self.held, units })
    }

    /// What nobody holds was for sale, if everybody's units are known.
    fn without_stock(&self) -> Result<Adopted, Unadoptable> {
        if self.kind == Kind::Counter || self.unknown > 0 {
            return Err(Unadoptable::StockLost);
        }
        if self.holders == 0 {
            return Err(Unadoptable::Evicted);
        }
        let total = self.total.ok_or(Unadoptable::TotalNeeded)?;
        let units = total.checked_sub(self.held).ok_or(Unadoptable::OtherTotal(self.held))?;
        Ok(Adopted { total, held: self.held, units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_no_number_can_hold_is_refused() {
        let hash =
            AdoptionBalance { kind: Kind::Hash, units: Some(10), total: None, held: 40, holders: 12, unknown: 0 };
        assert_eq!(AdoptionBalance { held: MAX_UNITS, ..hash }.adopted(), Err(Unadoptable::OtherTotal(MAX_UNITS + 10)));
        assert!(AdoptionBalance { held: MAX_UNITS - 10, ..hash }.adopted().is_ok(), "the most there can be");
    }

    #[test]
    fn what_nobody_recorded_needs_a_total() {
        let counter =
            AdoptionBalance { kind: Kind::Counter, units: Some(10), total: None, held: 0, holders: 0, unknown: 0 };
        assert_eq!(counter.adopted(), Err(Unadoptable::TotalNeeded));
        assert_eq!(
            AdoptionBalance { total: Some(10), ..counter }.adopted(),
            Ok(Adopted { total: 10, held: 0, units: 10 })
        );
        let lost = AdoptionBalance { units: None, total: Some(50), ..counter };
        for unknown in [lost, AdoptionBalance { kind: Kind::Set, held: 3, holders: 7, unknown: 1, ..lost }] {
            assert_eq!(unknown.adopted(), Err(Unadoptable::StockLost));
        }
    }
}
