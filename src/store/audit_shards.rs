//! Reads all that an audit of a sharded activity needs: each shard as any activity, and the other sides of transfers that came too
//! late for one of them.

use redis::Value;

use super::reply::Reply;
use super::{Store, StoreError};
use crate::inventory::activity::{Meta, Snapshot};
use crate::inventory::id::ActivityId;
use crate::inventory::ledger_state::Compared;
use crate::inventory::number::whole;
use crate::inventory::sharded_audit::ShardedEvidence;
use crate::inventory::shards::Shards;
use crate::inventory::time::Millis;
use crate::inventory::transfers::{Direction, TransferEntry, Transfers};

/// What must not change during an audit.
#[derive(PartialEq)]
struct Sale {
    total: u64,
    epoch: u64,
    shards: Option<Shards>,
    /// A preheat that has not come to its end.
    plan: Option<String>,
}

impl Store {
    /// All evidence about a sharded activity, whose `shards` are known. `total` is what the caller says it has; `compared` gives what
    /// the users of a shard are compared with besides.
    ///
    /// # Errors
    /// Any of [`StoreError`]; what is missing or corrupt is part of the evidence.
    pub fn audit_shards(
        &mut self,
        activity: &ActivityId,
        shards: &Shards,
        total: Option<u64>,
        mut compared: impl FnMut(&ActivityId) -> Option<Compared>,
    ) -> Result<ShardedEvidence, StoreError> {
        let before = self.sale(activity)?;
        let mut evidence = Vec::with_capacity(shards.count());
        for shard in shards.ids(activity) {
            evidence.push(self.audit(&shard, None, compared(&shard))?);
        }
        let mut found = ShardedEvidence {
            activity: activity.clone(),
            shards: shards.clone(),
            total: before.as_ref().map_or(0, |sale| sale.total),
            given: total,
            epoch: before.as_ref().map_or(0, |sale| sale.epoch),
            is_changing: before.as_ref().is_none_or(|sale| sale.plan.is_some() || sale.shards.as_ref() != Some(shards)),
            evidence,
            archived: Vec::new(),
            later: vec![Transfers::default(); shards.count()],
        };
        // Whoever has one side of a transfer was read before the other side is looked for here, so what was lent is found.
        for (at, (lent, borrowed)) in found.missing().into_iter().enumerate() {
            let shard = activity.shard(shards.numbers()[at]);
            self.look_for(&shard, Direction::Lend, &lent, &mut found.later[at])?;
            self.look_for(&shard, Direction::Borrow, &borrowed, &mut found.later[at])?;
        }
        let names = shards.ids(activity).zip(&found.evidence);
        let gone: Vec<ActivityId> = names.filter(|(_, part)| part.end.is_none()).map(|(shard, _)| shard).collect();
        let archived = self.snapshots(&gone)?.into_iter().filter(Snapshot::is_archived);
        found.archived = archived.map(|snapshot| snapshot.activity).collect();
        found.is_changing |= self.sale(activity)? != before;
        Ok(found)
    }

    /// How many transfers a shard began of which it does not know that the units arrived.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn open_transfers(&mut self, shard: &ActivityId) -> Result<usize, StoreError> {
        let key = self.keys(shard).requests;
        let value = self.servers.command(&key, redis::cmd("HGET").arg(&key).arg("\tlent"))?;
        let lent = Reply::of_command("HGET").text(Some(&value))?;
        Ok(lent.map_or(0, |ids| ids.split(' ').filter(|id| !id.is_empty()).count()))
    }

    /// What the parent says of the sale as a whole.
    fn sale(&mut self, activity: &ActivityId) -> Result<Option<Sale>, StoreError> {
        let key = self.meta_key(activity);
        let value = self.servers.command(&key, redis::cmd("HGET").arg(&key).arg("plan"))?;
        let plan = Reply::of_command("HGET").text(Some(&value))?;
        let meta = self.snapshot(activity)?.meta;
        Ok(meta.map(|Meta { total, epoch, shards, .. }| Sale { total, epoch, shards, plan }))
    }

    /// Adds those of some transfers that a shard has a record of: it is written together with the entry of the ledger, and is there
    /// until a reset, whatever is trimmed.
    fn look_for(
        &mut self,
        shard: &ActivityId,
        direction: Direction,
        ids: &[String],
        found: &mut Transfers,
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        let key = self.keys(shard).requests;
        let prefix = match direction {
            Direction::Lend => "\ttt:",
            Direction::Borrow => "\ttb:",
        };
        let mut command = redis::cmd("HMGET");
        command.arg(&key);
        for id in ids {
            command.arg(format!("{prefix}{id}"));
        }
        let reply = Reply::of_command("HMGET");
        let records = reply.array(self.servers.command(&key, &command)?)?;
        for (id, record) in ids.iter().zip(records) {
            if let Value::BulkString(record) = record {
                let transfer = read(&record).ok_or_else(|| reply.invalid(String::from_utf8_lossy(&record)))?;
                found.add(direction, id.clone(), transfer);
            }
        }
        Ok(())
    }
}

/// A record: `units home ms` of a lend, `units donor` of a borrow.
fn read(record: &[u8]) -> Option<TransferEntry> {
    let mut words = std::str::from_utf8(record).ok()?.split(' ').map(whole);
    let (units, shard) = (words.next()??, u32::try_from(words.next()??).ok()?);
    let at = words.next().map_or(Some(0), |ms| ms)?;
    Some(TransferEntry { units, shard, at: Millis::new(at) })
}
