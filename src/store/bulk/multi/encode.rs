//! Calls of `multi_deduct` for some orders of a job: see the header of the script.

use super::call::{Attempt, MultiCall};
use crate::store::bulk::Job;
use crate::store::resp::{argument, command, number};
use crate::store::scripts::MULTI_DEDUCT;

/// Appends a call. `states` gives, for each of its activities in turn, the epoch and the watermark that the run knows.
pub(super) fn encode<'s>(
    out: &mut Vec<u8>,
    [kind, by]: [&str; 2],
    job: &Job,
    call: &MultiCall,
    states: impl Iterator<Item = (&'s [u8], u64)>,
) {
    let mode = match call.attempt {
        Attempt::First => "first",
        Attempt::Retry => "retry",
        Attempt::Decided => "dry",
    };
    let keys = call.asked.names();
    command(out, 3 + keys.len() + 6 + 2 * call.asked.activities.len() + call.asked.orders.len());
    argument(out, b"EVALSHA");
    argument(out, MULTI_DEDUCT.sha1.as_bytes());
    number(out, keys.len() as u64);
    let run = [kind, by, mode, &job.name, job.digest_to_store()];
    keys.into_iter().chain(run).for_each(|text| argument(out, text.as_bytes()));
    number(out, call.last);
    for (epoch, watermark) in states {
        argument(out, epoch);
        number(out, watermark);
    }
    call.asked.orders.iter().for_each(|text| argument(out, text.as_bytes()));
}
