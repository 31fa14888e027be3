//! Applies repairs: each where everything still is as the audit found it.

use redis::Value;

use super::call::Again;
use super::keys::Keys;
use super::reply::Reply;
use super::scripts::REPAIR;
use super::{Store, StoreError};
use crate::inventory::id::{ActivityId, StoredUser};
use crate::inventory::repair::{Repair, Repaired};
use crate::inventory::status::Status;

/// Repairs a call; all of them are one entry of the ledger.
const CHUNK: usize = 500;
/// The script's code for an audit that is out of date.
const STALE: i64 = -20;

impl Store {
    /// Applies repairs of one activity and one audit, and says what became of each. With `dry_run` nothing is written.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what cannot be repaired is among the answers.
    pub fn repair(
        &mut self,
        activity: &ActivityId,
        repairs: &[&Repair],
        dry_run: bool,
        reason: Option<&str>,
    ) -> Result<Vec<Repaired>, StoreError> {
        let keys = self.keys(activity);
        let names: Vec<&str> = keys.in_order().collect();
        let mut done = Vec::with_capacity(repairs.len());
        // Each call raises the count of repairs by one, so the next expects one more.
        for (chunk, before) in repairs.chunks(CHUNK).zip(0u64..) {
            let (kind, by) = (self.kind(), self.operator.clone());
            let settle = Some("apply the same repairs again: what was applied is `replayed`".to_owned());
            let value = self.server.run(&REPAIR, &names, Again::Safe, settle, |_| {
                let text = |count: Option<u64>| count.map(|count| count.to_string()).unwrap_or_default();
                let first = chunk.first();
                // A dry run raises nothing.
                let raised = if dry_run { 0 } else { before };
                let mut arguments = [
                    kind.clone(),
                    by.clone(),
                    reason.unwrap_or_default().to_owned(),
                    if dry_run { "1" } else { "0" }.to_owned(),
                    text(first.and_then(|repair| repair.epoch)),
                    text(first.and_then(|repair| repair.repairs).map(|repairs| repairs + raised)),
                ]
                .map(String::into_bytes)
                .to_vec();
                for repair in chunk {
                    let user = repair.user.as_ref().map(StoredUser::as_bytes).unwrap_or_default();
                    let from = repair.from.map_or_else(|| "?".to_owned(), |from| from.to_string());
                    arguments.push(repair.id.clone().into_bytes());
                    arguments.push(user.to_owned());
                    arguments
                        .extend([from, repair.to.to_string(), repair.stock_change.to_string()].map(String::into_bytes));
                }
                arguments
            })?;
            read(value, chunk.len(), &keys, &mut done)?;
        }
        Ok(done)
    }
}

/// Reads the script's reply: an answer for each repair of a call.
fn read(value: Value, count: usize, keys: &Keys, done: &mut Vec<Repaired>) -> Result<(), StoreError> {
    let reply = Reply::of(&REPAIR);
    let values = reply.array(value)?;
    if matches!(values.first(), Some(Value::Int(STALE))) {
        done.extend(std::iter::repeat_n(Repaired::Stale, count));
        return Ok(());
    }
    match reply.status(values.first())? {
        Status::Ok => {
            let letters = reply.text(values.get(2))?.unwrap_or_default();
            for letter in letters.chars() {
                done.push(match letter {
                    'o' => Repaired::Ok,
                    'r' => Repaired::Replayed,
                    'c' => Repaired::Changed,
                    's' => Repaired::OutOfStock,
                    'x' => Repaired::ExceedsTotal,
                    'q' => Repaired::RequestConflict,
                    other => return Err(reply.unfit(other)),
                });
            }
            if letters.len() == count { Ok(()) } else { Err(reply.unfit(letters)) }
        }
        Status::NotPreheated => {
            done.extend(std::iter::repeat_n(Repaired::NotPreheated, count));
            Ok(())
        }
        Status::Corrupt => {
            // The audit names the key; here it matters only that nothing was done.
            reply.corrupt(&values, keys)?;
            done.extend(std::iter::repeat_n(Repaired::Corrupt, count));
            Ok(())
        }
        _ => Err(reply.unfit(&values)),
    }
}
