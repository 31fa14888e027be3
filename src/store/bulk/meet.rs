//! What stands about a job in each activity before its first order is sent: the epoch it is bound to, and how far
//! it came.

use redis::{RedisError, Value};

use super::super::keys::Keys;
use super::super::reply::Reply;
use super::super::{Store, StoreError};
use super::{Bulk, Job, Operation, Step};
use crate::inventory::id::ActivityId;
use crate::inventory::number::whole;
use crate::inventory::rules::PackedRules;

/// Activities asked about at once.
pub(super) const AT_ONCE: usize = 500;

impl Bulk<'_> {
    /// Asks about the activities that are new.
    ///
    /// # Errors
    /// Any of [`StoreError`]; the job was something else among them.
    pub fn meet(&mut self) -> Result<Step, StoreError> {
        let mut next = 0;
        while self.unmet > 0 && next < self.queues.len() {
            if (self.store.stop)() {
                return Ok(Step::On);
            }
            let new = (next..self.queues.len()).filter(|nth| self.queues[*nth].epoch().is_none());
            let some: Vec<usize> = new.take(AT_ONCE).collect();
            next = some.last().map_or(self.queues.len(), |last| last + 1);
            match self.ask(&some) {
                Ok(()) => (),
                Err(error @ StoreError::OtherJob { .. }) => return Err(error),
                Err(error) => return self.refused(error),
            }
        }
        Ok(Step::On)
    }

    fn ask(&mut self, some: &[usize]) -> Result<(), StoreError> {
        let operation = match self.terms.operation {
            Operation::Deduct => "deduct",
            Operation::Refund => "refund",
        };
        let activities: Vec<ActivityId> =
            some.iter().map(|nth| ActivityId::validated(self.names.name(*nth as u32))).collect();
        let standings = ask(self.store, &self.terms.job, operation, &activities)?;
        for ((nth, activity), Standing { epoch, record }) in some.iter().zip(&activities).zip(standings) {
            let queue = &mut self.queues[*nth];
            let mut words = record.as_deref().unwrap_or("0 0 ").splitn(3, ' ');
            let (line, refused, digest) = (words.next(), words.next(), words.next());
            if record.is_some() && digest != Some(&self.terms.job.digest) {
                return Err(self.terms.job.was_other(activity));
            }
            queue.line = line.and_then(whole).unwrap_or_default();
            queue.refused = u32::try_from(refused.and_then(whole).unwrap_or_default()).unwrap_or(u32::MAX);
            queue.set_epoch(self.epochs.number(epoch.as_bytes()));
            self.unmet -= 1;
        }
        Ok(())
    }
}

/// What stands in an activity.
#[derive(Debug)]
pub(super) struct Standing {
    /// Its epoch; empty where nothing was preheated.
    pub(super) epoch: String,
    /// What is kept of the job.
    pub(super) record: Option<String>,
}

/// Asks some activities about a job, in one round trip.
pub(super) fn ask(
    store: &mut Store,
    job: &Job,
    operation: &str,
    activities: &[ActivityId],
) -> Result<Vec<Standing>, StoreError> {
    let field = format!("j:{operation}:{}", job.name);
    let mut pipeline = redis::pipe();
    for activity in activities {
        let keys = Keys::of(store.layout, activity);
        // In this order: a reset in between then shows as another epoch, not as a line of the old sale.
        pipeline.cmd("HGET").arg(&keys.meta).arg("rules").cmd("HGET").arg(&keys.requests).arg(&field);
    }
    let target = store.server.target.clone();
    let packed = pipeline.get_packed_pipeline();
    let asked = store.server.connection()?.req_packed_commands(&packed, activities.len() * 2);
    let values = asked.map_err(|error| {
        store.server.disconnect();
        target.unreachable(&error)
    })?;
    let reply = Reply::of_command("HGET");
    // A key of the wrong type is for the script to tell.
    let text = |value: Option<&Value>| match value {
        Some(Value::ServerError(error)) if error.code() == "WRONGTYPE" => Ok(None),
        Some(Value::ServerError(error)) => {
            let error = RedisError::from(error.clone());
            Err(StoreError::of_reply(&error, &target.shown).unwrap_or_else(|| target.unreachable(&error)))
        }
        value => reply.text(value),
    };
    let standings = values.chunks(2).map(|pair| {
        // Rules that are damaged are for the script to tell as well.
        let rules = text(pair.first())?.and_then(|text| text.parse::<PackedRules>().ok());
        let epoch = rules.map(|rules| rules.epoch.to_string()).unwrap_or_default();
        Ok(Standing { epoch, record: text(pair.get(1))? })
    });
    standings.collect()
}
