//! How long scripts take, as servers count it: Redis 7.0 and later, and Valkey.

use std::collections::BTreeMap;

use redis::Value;

use crate::error::StoreError;
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::script::reply::Reply;
use crate::store::Store;

/// The commands that run a script or a function.
const COMMANDS: [&str; 6] = ["evalsha", "eval", "fcall", "evalsha_ro", "eval_ro", "fcall_ro"];

/// How many calls of scripts took at most so long, since the server started or since `CONFIG RESETSTAT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    /// All calls.
    pub calls: u64,
    /// Calls that took more than the bucket before and at most so many microseconds.
    buckets: BTreeMap<u64, u64>,
}

impl Durations {
    /// Calls that took at most so many microseconds. Buckets end at powers of two: another bound counts only those
    /// that surely did.
    pub(crate) fn within(&self, micros: u64) -> u64 {
        self.buckets.range(..=micros).map(|(_, calls)| calls).sum()
    }
}

/// How long the scripts of each primary take, with its name; `None` of a server that does not count it, or does not
/// say.
///
/// # Errors
/// The servers cannot be reached.
pub(crate) fn script_durations(store: &mut Store) -> Result<Vec<(String, Option<Durations>)>, StoreError> {
    store.servers.discover()?;
    let histogram = redis::cmd("LATENCY").arg("HISTOGRAM").arg(&COMMANDS).to_owned();
    let nodes = store.servers.primaries();
    let calls: Vec<Call> = nodes.iter().map(|node| Call::at_node(*node, &histogram)).collect();
    let mut all = Vec::with_capacity(nodes.len());
    for (node, outcome) in nodes.into_iter().zip(store.servers.fan_out(&calls, None)) {
        let durations = match outcome.map_err(CallFailure::into_error) {
            Ok(value) => Some(read(value)?),
            Err(error) if error.is_connection() => return Err(error),
            Err(_) => None,
        };
        all.push((store.servers.node(node).target.node_label(), durations));
    }
    Ok(all)
}

/// Reads `[command, [calls, n, histogram_usec, [bound, calls so far, …]], …]`.
fn read(value: Value) -> Result<Durations, StoreError> {
    let reply = Reply::of_command("LATENCY HISTOGRAM");
    let mut durations = Durations::default();
    for fields in reply.array(value)?.into_iter().skip(1).step_by(2) {
        let fields = reply.array(fields)?;
        let mut before = 0;
        for pair in fields.chunks(2) {
            match (reply.text(pair.first())?.as_deref(), pair.get(1)) {
                (Some("calls"), calls) => durations.calls += reply.count(calls)?.unwrap_or_default(),
                (Some("histogram_usec"), Some(Value::Array(buckets))) => {
                    for bucket in buckets.chunks(2) {
                        let bound = reply.count(bucket.first())?.unwrap_or_default();
                        let so_far = reply.count(bucket.get(1))?.unwrap_or_default();
                        *durations.buckets.entry(bound).or_default() += so_far.saturating_sub(before);
                        before = so_far;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(durations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_several_commands_are_added() {
        let text = |text: &str| Value::BulkString(text.into());
        let ints = |numbers: &[i64]| Value::Array(numbers.iter().map(|number| Value::Int(*number)).collect());
        let of = |calls, buckets| {
            Value::Array(vec![text("calls"), Value::Int(calls), text("histogram_usec"), ints(buckets)])
        };
        let reply = Value::Array(vec![
            text("evalsha"),
            of(10, &[16, 4, 64, 9, 1024, 10]),
            text("eval"),
            of(2, &[64, 1, 2048, 2]),
        ]);
        let durations = read(reply).unwrap();
        assert_eq!(
            (durations.calls, durations.within(15), durations.within(64), durations.within(1024)),
            (12, 0, 10, 11)
        );
        assert_eq!(durations.within(u64::MAX), 12);
        assert_eq!(read(Value::Array(Vec::new())).unwrap(), Durations::default());
    }
}
