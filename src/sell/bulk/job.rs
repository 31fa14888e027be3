//! A job, and what it knows of each activity: what is stored there (the watermark, and the epoch that it is bound to), and of shards,
//! which there are, which ran out, and the lane of each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::number::whole;
use crate::model::{ActivityId, Interner, Layout, PackedRules, Shards, Status};
use crate::redis::pipeline::PipelinedCall;
use crate::redis::system::System;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::sell::bulk::lanes::Lanes;
use crate::sell::bulk::operation::Operation;
use crate::store::Store;

/// How long the proof that fewer units than a number existed is remembered.
const SOLD_OUT_TTL: Duration = Duration::from_secs(1);
/// Activities whose states are loaded in one round trip.
const PAGE: u32 = 500;

/// One input being applied. Its stored names make that it is applied once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its name.
    pub name: String,
    /// Made of the input: the same name with another digest is another job.
    pub digest: String,
}

/// What is stored of a job in one activity, as far as the run knows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobState {
    /// The last line that the job is known to have decided.
    pub(crate) watermark: u64,
    /// The epoch when the run began, as the run numbers them.
    epoch: u32,
    /// How many lines the job has refused in total, and how many of them in this run.
    pub(crate) refused: u32,
    pub(crate) refused_now: u32,
    /// What refuses the whole activity for the rest of the run.
    pub(crate) refusal: Option<Status>,
    /// Whether it was ever repaired: an order that was applied may be reversed.
    pub(crate) is_repaired: bool,
    /// The lane of its calls.
    lane: u16,
}

/// Whether the server still has what the job decided.
#[derive(Debug, Default)]
pub(crate) struct LossCheck {
    /// How many activities were asked for.
    pub(crate) checked: u32,
    /// The first of which it has less, and the last line that it has.
    pub(crate) lost: Option<(u32, u64)>,
}

/// The proof that fewer units than this existed in all shards of an activity together.
#[derive(Debug)]
struct Shortage {
    fewer_than: u64,
    /// The stock of each shard then, in the order of the list.
    stocks: Vec<u64>,
    since: Instant,
}

/// A job's state in each activity of its input, by number. There may be a million of them.
pub(crate) struct JobStates {
    pub(crate) job: Job,
    pub(crate) operation: Operation,
    pub(crate) layout: Layout,
    names: Interner,
    epochs: Interner,
    states: Vec<JobState>,
    /// The states before this one are loaded.
    loaded: u32,
    /// The highest watermark that was loaded.
    pub(crate) decided_before: u64,
    /// Those whose calls are sent behind `ASKING`.
    asking: HashSet<u32>,
    /// Those that are sharded, with the numbers of their shards, in the order of the list.
    sharded: HashMap<u32, (Shards, Vec<u32>)>,
    /// Shards, with the activity that each is of, and its place in the list.
    parents: HashMap<u32, (u32, usize)>,
    /// Sharded activities that were found since somebody asked.
    newly_sharded: Vec<u32>,
    /// Sharded activities of which too few units were left.
    shortages: HashMap<u32, Shortage>,
    /// Says how old they are.
    system: Arc<dyn System>,
}

impl JobStates {
    /// Nothing is loaded yet. `names` are the activities that are known to come.
    pub(crate) fn new(
        job: Job,
        operation: Operation,
        layout: Layout,
        names: Interner,
        system: &Arc<dyn System>,
    ) -> Self {
        let states = vec![JobState::default(); names.count()];
        let mut epochs = Interner::default();
        // The default: nothing was preheated.
        epochs.number(b"");
        let (asking, sharded, parents) = (HashSet::new(), HashMap::new(), HashMap::new());
        Self {
            job,
            operation,
            layout,
            names,
            epochs,
            states,
            loaded: 0,
            decided_before: 0,
            asking,
            sharded,
            parents,
            newly_sharded: Vec::new(),
            shortages: HashMap::new(),
            system: Arc::clone(system),
        }
    }

    /// The number of an activity, a new one if it was not named before.
    pub(crate) fn number(&mut self, activity: &str) -> u32 {
        let index = self.names.number(activity.as_bytes());
        self.states.resize(self.names.count(), JobState::default());
        index
    }

    pub(crate) fn count(&self) -> usize {
        self.states.len()
    }

    /// The same in the type in which activities are numbered.
    pub(crate) fn count_u32(&self) -> u32 {
        self.states.len() as u32
    }

    pub(crate) fn name(&self, index: u32) -> &str {
        std::str::from_utf8(self.names.name(index)).unwrap_or_default()
    }

    /// The activity that a shard is of; any other activity is its own.
    pub(crate) fn parent(&self, index: u32) -> u32 {
        self.parents.get(&index).map_or(index, |(parent, _)| *parent)
    }

    /// Its name, as the input has it.
    pub(crate) fn shown_name(&self, index: u32) -> &str {
        self.name(self.parent(index))
    }

    /// Whether an activity is a shard of one of the input.
    pub(crate) fn is_shard(&self, index: u32) -> bool {
        self.parents.contains_key(&index)
    }

    /// The shards of a sharded activity.
    pub(crate) fn shards(&self, parent: u32) -> &[u32] {
        self.sharded.get(&parent).map_or(&[], |(_, shards)| shards)
    }

    /// Tells what was loaded of the shards of an activity, unless the store knows better, or a call has shown that it is old.
    pub(crate) fn tell_shards(&self, index: u32, store: &mut Store) {
        let activity = ActivityId::validated(self.names.name(index));
        let list = self.sharded.get(&index).map(|(list, _)| list.clone());
        let is_old = list.is_none() && self.get(index).refusal == Some(Status::Sharded);
        if store.directory.is_unknown(&activity) && !is_old {
            store.directory.learn(&activity, list);
        }
    }

    /// Where the order of a line goes: the activity, or the shard of it that is the user's home.
    pub(crate) fn home(&self, index: u32, user: &[u8], line: u64) -> Result<u32> {
        match self.sharded.get(&index) {
            Some(_) if user.is_empty() => {
                Err(StoreError::NoUser { activity: self.name(index).to_owned(), line: Some(line) })
            }
            Some((list, shards)) => Ok(shards[list.home(user)]),
            None => Ok(index),
        }
    }

    /// The activity that a shard is of, its list of shards, and the place of this one in it.
    pub(crate) fn place_in_parent(&self, index: u32) -> Option<(ActivityId, Shards, usize)> {
        let (parent, place) = self.parents.get(&index)?;
        let (shards, _) = self.sharded.get(parent)?;
        Some((ActivityId::validated(self.names.name(*parent)), shards.clone(), *place))
    }

    /// Of a shard: fewer units than this existed in the whole activity a moment ago.
    pub(crate) fn fewer_than(&self, shard: u32) -> Option<u64> {
        let shortage = self.shortages.get(&self.parent(shard))?;
        (self.system.now() - shortage.since < SOLD_OUT_TTL).then_some(shortage.fewer_than)
    }

    /// Fewer units than this existed in the activity of a shard just now, with these in the stocks of its shards.
    pub(crate) fn set_fewer_than(&mut self, shard: u32, fewer_than: u64, stocks: Vec<u64>) {
        let since = self.system.now();
        self.shortages.insert(self.parent(shard), Shortage { fewer_than, stocks, since });
    }

    /// A call found so many units in the stock of a shard. If they are more than there were, units have returned, as overdue holds do
    /// by a call of hold.
    pub(crate) fn found_stock(&mut self, shard: u32, stock: u64) {
        let Some((parent, place)) = self.parents.get(&shard) else { return };
        if self.shortages.get(parent).is_some_and(|shortage| stock > shortage.stocks[*place]) {
            self.shortages.remove(parent);
        }
    }

    /// Sharded activities that were found since this was called last.
    pub(crate) fn take_found(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.newly_sharded)
    }

    /// An activity is sharded: its shards are loaded next.
    fn learn_shards(&mut self, parent: u32, list: Shards) {
        let name = ActivityId::validated(self.names.name(parent));
        let shards: Vec<u32> = list.ids(&name).map(|id| self.number(id.as_str())).collect();
        for (place, shard) in shards.iter().enumerate() {
            self.parents.insert(*shard, (parent, place));
        }
        self.sharded.insert(parent, (list, shards));
        self.newly_sharded.push(parent);
    }

    pub(crate) fn into_names(self) -> Interner {
        self.names
    }

    pub(crate) fn keys(&self, index: u32) -> Keys {
        Keys::of(self.layout, &ActivityId::validated(self.names.name(index)))
    }

    /// The slot of an activity's keys; `None` if they are in several.
    pub(crate) fn slot(&self, index: u32) -> Option<u16> {
        self.keys(index).slot()
    }

    /// The lane of an activity's calls.
    pub(crate) fn lane(&self, index: u32) -> usize {
        usize::from(self.states[index as usize].lane)
    }

    /// Whether calls of an activity are sent behind `ASKING`.
    pub(crate) fn asks(&self, index: u32) -> bool {
        self.asking.contains(&index)
    }

    /// Chooses the lane of an activity that has nothing in flight.
    fn choose_lane<C: PipelinedCall>(&mut self, index: u32, lanes: &mut Lanes<C>) {
        let slot = if lanes.servers.is_cluster() { self.slot(index) } else { None };
        let (lane, asks) = lanes.lane_of(slot);
        // A cluster has at most 16,384 nodes.
        self.states[index as usize].lane = u16::try_from(lane).unwrap_or_default();
        if asks {
            self.asking.insert(index)
        } else {
            self.asking.remove(&index)
        };
    }

    /// Distributes the activities of a lane anew; false if none is left there.
    pub(crate) fn leave_lane<C: PipelinedCall>(&mut self, lane: usize, lanes: &mut Lanes<C>) -> bool {
        let mut is_left = false;
        for index in 0..self.count_u32() {
            if self.lane(index) == lane {
                self.choose_lane(index, lanes);
                is_left |= self.lane(index) == lane;
            }
        }
        is_left
    }

    pub(crate) fn get(&self, index: u32) -> &JobState {
        &self.states[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut JobState {
        &mut self.states[index as usize]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut JobState> {
        self.states.iter_mut()
    }

    /// How many lines of each activity the job refused before this run, or in another one at the same time.
    /// Those of shards count for the activity that they are of.
    pub(crate) fn refused_before(&self) -> impl Iterator<Item = u64> {
        let of_state = |state: &JobState| u64::from(state.refused.saturating_sub(state.refused_now));
        self.states.iter().zip(0..).map(move |(state, index)| match self.sharded.get(&index) {
            Some((_, shards)) => shards.iter().map(|shard| of_state(self.get(*shard))).sum(),
            None if self.is_shard(index) => 0,
            None => of_state(state),
        })
    }

    /// The epoch of an activity whose state is loaded; empty if nothing was preheated.
    pub(crate) fn epoch(&self, index: u32) -> &[u8] {
        self.epochs.name(self.get(index).epoch)
    }

    pub(crate) fn set_epoch(&mut self, index: u32, epoch: &str) {
        self.states[index as usize].epoch = self.epochs.number(epoch.as_bytes());
    }

    /// The error for an activity that another input with the job's name was applied to.
    pub(crate) fn other_job(&self, index: u32) -> StoreError {
        StoreError::OtherJob { job: self.job.name.clone(), activity: self.shown_name(index).to_owned() }
    }

    /// Whether the state of every activity that was named is loaded.
    pub(crate) fn are_loaded(&self) -> bool {
        self.loaded == self.count_u32()
    }

    /// Loads the next states, with nothing in flight.
    ///
    /// # Errors
    /// Any of [`StoreError`], if trying again would not help; another input has the job's name, for one.
    pub(crate) fn load<C: PipelinedCall>(&mut self, lanes: &mut Lanes<C>) -> Result<()> {
        let page = self.loaded..self.count_u32().min(self.loaded + PAGE);
        let field = self.field();
        let mut commands = Vec::with_capacity(2 * page.len());
        for index in page.clone() {
            // If its server is gone, its lane waits for one.
            self.choose_lane(index, lanes);
            let keys = self.keys(index);
            // In this order: a reset in between then shows as another epoch, not as a line of the old sale.
            let meta = redis::cmd("HMGET").arg(&keys.meta).arg(&["rules", "repairs", "shards"]).to_owned();
            commands.push((keys.meta.clone(), meta));
            commands.push((keys.requests.clone(), redis::cmd("HGET").arg(keys.requests).arg(&field).to_owned()));
        }
        let Some(replies) = lanes.read(&commands)? else { return Ok(()) };
        for (index, pair) in page.zip(replies.chunks(2)) {
            let fields = match pair.first() {
                Some(Value::Array(fields)) => &fields[..],
                _ => &[],
            };
            self.get_mut(index).is_repaired = text(fields.get(1))?.is_some_and(|repairs| repairs != "0");
            let shards = text(fields.get(2))?;
            // Rules that are corrupt are for the script to report.
            let rules = text(fields.first())?.and_then(|text| text.parse::<PackedRules>().ok());
            let epoch = rules.map(|rules| rules.epoch.to_string()).unwrap_or_default();
            let record = text(pair.get(1))?;
            if let Some(record) = record {
                let (watermark, refused, digest) = Self::parse(&record);
                if digest != self.expected_digest() {
                    return Err(self.other_job(index));
                }
                let state = self.get_mut(index);
                (state.watermark, state.refused) = (watermark, refused);
                self.decided_before = self.decided_before.max(watermark);
            }
            self.set_epoch(index, &epoch);
            self.choose_lane(index, lanes);
            self.loaded += 1;
            if let Some(shards) = shards.and_then(|shards| shards.parse().ok()).filter(|_| !epoch.is_empty()) {
                self.learn_shards(index, shards);
            }
        }
        Ok(())
    }

    /// Compares the next stored watermarks with what was decided, with nothing in flight, and corrects the latter.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn check<C: PipelinedCall>(&mut self, check: &mut LossCheck, lanes: &mut Lanes<C>) -> Result<()> {
        let page = check.checked..self.count_u32().min(check.checked + PAGE);
        let field = self.field();
        let mut commands = Vec::with_capacity(page.len());
        for index in page.clone() {
            let keys = self.keys(index);
            commands.push((keys.requests.clone(), redis::cmd("HGET").arg(keys.requests).arg(&field).to_owned()));
        }
        let Some(replies) = lanes.read(&commands)? else { return Ok(()) };
        for (index, reply) in page.zip(&replies) {
            let stored = text(Some(reply))?.map_or(0, |record| Self::parse(&record).0);
            if stored < self.get(index).watermark {
                self.get_mut(index).watermark = stored;
                check.lost.get_or_insert((index, stored));
            }
            check.checked += 1;
        }
        Ok(())
    }

    /// The field of `requests` that has a job's watermark.
    fn field(&self) -> String {
        format!("\tj:{}:{}", self.operation.name(), self.job.name)
    }

    /// Reads `watermark refused digest`.
    fn parse(record: &str) -> (u64, u32, &str) {
        let mut words = record.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (watermark, refused, digest) = (word(), word(), word());
        let refused = whole(refused).and_then(|refused| u32::try_from(refused).ok());
        (whole(watermark).unwrap_or_default(), refused.unwrap_or(u32::MAX), digest)
    }

    /// The digest that is stored of the job.
    pub(crate) fn expected_digest(&self) -> &str {
        match self.operation {
            // Nothing if the name is the digest.
            Operation::MultiDeduct if self.job.name == self.job.digest => "",
            _ => &self.job.digest,
        }
    }
}

/// A text, or nothing for a key of another type: the script will say what is wrong with it.
fn text(value: Option<&Value>) -> Result<Option<String>> {
    match value {
        Some(Value::ServerError(_)) => Ok(None),
        value => Reply::of_command("HGET").text(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::system::RealSystem;

    fn states(operation: Operation, name: &str, digest: &str) -> JobStates {
        let job = Job { name: name.to_owned(), digest: digest.to_owned() };
        JobStates::new(job, operation, Layout::Seckill, Interner::default(), &RealSystem::shared())
    }

    #[test]
    fn a_record_is_of_the_job_whose_digest_it_has() {
        for (operation, name, digest, record, is_ours) in [
            (Operation::MultiDeduct, "night", "a b", "7 2 a b", true),
            (Operation::MultiDeduct, "night", "a b", "7 2 a", false),
            (Operation::MultiDeduct, "night", "a b", "7 2", false),
            (Operation::MultiDeduct, "a", "a", "7 2 ", true),
            (Operation::MultiDeduct, "a", "a", "7 2 a", false),
            (Operation::Deduct, "a", "a", "7 2 a", true),
            (Operation::Deduct, "night", "a b", "7 2", false),
        ] {
            let states = states(operation, name, digest);
            let (watermark, refused, found) = JobStates::parse(record);
            assert_eq!((watermark, refused, found == states.expected_digest()), (7, 2, is_ours), "{name} {record}");
        }
    }

    #[test]
    fn an_activity_has_one_number() {
        let mut states = states(Operation::Deduct, "a", "a");
        assert_eq!(["1001", "1001", "1002", "1001"].map(|name| states.number(name)), [0, 0, 1, 0]);
        assert_eq!((states.count(), states.name(1), states.are_loaded()), (2, "1002", false));
    }
}
