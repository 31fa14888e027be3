//! Replies to some orders of a job: see the header of `multi_deduct.lua`.

use redis::Value;

use crate::inventory::order::{MultiOrder, MultiOutcome};
use crate::store::StoreError;
use crate::store::multi_orders::Asked;
use crate::store::reply::Reply;
use crate::store::scripts::MULTI_DEDUCT;

/// The reply to one call. Activities are numbered from 0 in the order of the call.
#[derive(Debug)]
pub(super) enum Decoded {
    /// Each order was decided, now or before, except that these activities refused as a whole.
    Decided { outcomes: Vec<MultiOutcome>, refusing: Vec<usize> },
    /// The job has decided up to this line in this activity, and no further.
    Gap { nth: usize, line: u64 },
    /// The activity was reset.
    OtherEpoch { nth: usize, epoch: String },
    /// The job's name was used for another input.
    OtherJob { nth: usize },
}

/// Decodes a reply that is not an error. `orders` are those that `asked` was made of.
pub(super) fn decode(value: Value, asked: &Asked, orders: &[&MultiOrder]) -> Result<Decoded, StoreError> {
    let reply = Reply::of(&MULTI_DEDUCT);
    let values = reply.array(value)?;
    if let Some(Value::Int(code)) = values.first() {
        let nth = reply.count(values.get(1))?.and_then(|nth| usize::try_from(nth).ok()).unwrap_or_default();
        let nth = nth.checked_sub(1).filter(|nth| *nth < asked.activities.len());
        let nth = nth.ok_or_else(|| reply.unfit(&values))?;
        return match code {
            -20 => Ok(Decoded::Gap { nth, line: reply.count(values.get(2))?.unwrap_or_default() }),
            -21 => Ok(Decoded::OtherEpoch { nth, epoch: reply.text(values.get(2))?.unwrap_or_default() }),
            -22 => Ok(Decoded::OtherJob { nth }),
            _ => Err(reply.unfit(values)),
        };
    }
    let Some((refusing, values)) = values.split_last() else { return Err(reply.unfit(values)) };
    let outcomes = asked.outcomes(orders, values)?;
    let refusing = reply.text(Some(refusing))?.unwrap_or_default();
    let numbers = refusing.split(' ').filter_map(|number| number.parse::<usize>().ok()?.checked_sub(1));
    Ok(Decoded::Decided { outcomes, refusing: numbers.collect() })
}
