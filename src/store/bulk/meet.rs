//! What stands about a job in each activity before its first order is sent: the epoch it is bound to, and how far
//! it came.

use redis::{ConnectionLike, RedisError, Value};

use super::super::StoreError;
use super::super::keys::Keys;
use super::super::reply::Reply;
use super::{Bulk, Operation, Step};
use crate::inventory::number::whole;

/// Activities asked about at once.
const AT_ONCE: usize = 500;

impl Bulk<'_> {
    /// Names an activity before its first row, so that all can be asked about at once.
    pub fn expect(&mut self, activity: &str) {
        self.queue(activity);
    }

    /// Asks about the activities that are new.
    ///
    /// # Errors
    /// Any of [`StoreError`]; the job was something else among them.
    pub fn meet(&mut self) -> Result<Step, StoreError> {
        let new: Vec<usize> = (0..self.queues.len()).filter(|nth| self.queues[*nth].epoch.is_none()).collect();
        for some in new.chunks(AT_ONCE) {
            match self.ask(some) {
                Ok(()) => (),
                Err(error @ StoreError::OtherJob { .. }) => return Err(error),
                Err(error) => return self.refused(error),
            }
        }
        Ok(Step::On)
    }

    fn ask(&mut self, some: &[usize]) -> Result<(), StoreError> {
        let field = match self.terms.operation {
            Operation::Deduct => format!("j:deduct:{}", self.terms.job.name),
            Operation::Refund => format!("j:refund:{}", self.terms.job.name),
        };
        let mut pipeline = redis::pipe();
        for nth in some {
            let keys = Keys::of(self.store.layout, &self.queues[*nth].activity);
            // In this order: a reset in between then shows as another epoch, not as a line of the old sale.
            pipeline.cmd("HGET").arg(&keys.meta).arg("epoch").cmd("HGET").arg(&keys.requests).arg(&field);
        }
        let target = self.store.server.target.clone();
        let packed = pipeline.get_packed_pipeline();
        let asked = self.store.server.connection()?.req_packed_commands(&packed, 0, some.len() * 2);
        let values = asked.map_err(|error| {
            self.store.server.disconnect();
            target.unreachable(&error)
        })?;
        let reply = Reply::of(self.script);
        for (nth, pair) in some.iter().zip(values.chunks(2)) {
            // A key of the wrong type is for the script to tell.
            let text = |value: Option<&Value>| match value {
                Some(Value::ServerError(error)) if error.code() == "WRONGTYPE" => Ok(None),
                Some(Value::ServerError(error)) => {
                    let error = RedisError::from(error.clone());
                    Err(StoreError::of_reply(&error, &target.shown).unwrap_or_else(|| target.unreachable(&error)))
                }
                value => reply.text(value),
            };
            let (epoch, record) = (text(pair.first())?, text(pair.get(1))?);
            let queue = &mut self.queues[*nth];
            let mut words = record.as_deref().unwrap_or("0 0 ").splitn(3, ' ');
            let (line, refused, digest) = (words.next(), words.next(), words.next());
            if record.is_some() && digest != Some(&self.terms.job.digest) {
                let activity = queue.activity.to_string();
                return Err(StoreError::OtherJob { job: self.terms.job.name.clone(), activity });
            }
            queue.line = line.and_then(whole).unwrap_or_default();
            queue.refused = refused.and_then(whole).unwrap_or_default();
            queue.epoch = Some(epoch.unwrap_or_default());
            self.unmet -= 1;
        }
        Ok(())
    }
}
