//! `inspect -o prometheus`: the sale and its servers as metrics. Never a user; what is not known is left out.

use crate::cli::commands::inspect::rows::ActivityRow;
use crate::cli::commands::inspect::selection::state_names;
use crate::cli::commands::inspect::{InspectArgs, chosen, detail, snapshots};
use crate::cli::failure::{Exit, Failure, Result, permitted};
use crate::cli::output::Output;
use crate::cli::output::format::prometheus::{Exposition, Family, families};
use crate::model::{ActivityId, Millis, Snapshot};
use crate::read::ledger::ConsumerGroup;
use crate::read::stats::info::{CallStats, Info, Section};
use crate::read::{ledger, stats};
use crate::store::Store;

families! {
    STATE: Gauge "seckill_activity_state", "1 for the state that the activity is in, 0 for the others.";
    TOTAL: Gauge "seckill_preheated_units", "Units that the activity was preheated with, updates included.";
    STOCK: Gauge "seckill_stock_units", "Units left, withdrawn ones included.";
    IN_TRANSIT: Gauge "seckill_in_transit_units", "Units on their way from one shard of the activity to another.";
    SOLD: Gauge "seckill_sold_units", "Units sold; below zero if somebody raised the stock above the total.";
    WITHDRAWN: Gauge "seckill_withdrawn_units", "Units that a pause moved out of the reach of every script.";
    BUYERS: Gauge "seckill_buyers", "Users who hold units.";
    LIMIT: Gauge "seckill_user_limit_units", "The most units that a user may hold; of kind set, the most orders.";
    STARTS: Gauge "seckill_start_timestamp_seconds", "When the sale opens, in Unix time.";
    ENDS: Gauge "seckill_end_timestamp_seconds", "When the sale closes, in Unix time.";
    ENTRIES: Counter "seckill_ledger_entries_total", "Ledger entries since the preheat, trimmed ones included. A call writes one, of an order or of hundreds.";
    GROUP_LAG: Gauge "seckill_group_lag_entries", "Ledger entries that a consumer group was not given yet.";
    GROUP_PENDING: Gauge "seckill_group_pending_entries", "Ledger entries that a consumer group was given and did not acknowledge.";
    GROUP_WAITING: Gauge "seckill_group_waiting_seconds", "Age of the oldest entry that a consumer group did not acknowledge; 0 if there is none.";
    REPLICAS: Gauge "seckill_replicas", "Replicas that are connected.";
    REPLICA_LAG: Gauge "seckill_replica_lag_bytes", "Bytes of changes that a replica did not acknowledge yet.";
    CALLS: Counter "seckill_script_calls_total", "Calls of scripts and functions by all clients, rejected ones included.";
    FAILURES: Counter "seckill_script_failures_total", "Calls of scripts and functions by all clients that ended in an error. A refused order is none, nor are MOVED, ASK and NOSCRIPT.";
    DURATION: Histogram "seckill_script_duration_seconds", "Time of the server in scripts and functions, by all clients.";
}

/// Reads everything once, and prints it.
pub(super) fn run(args: &InspectArgs, store: &mut Store, out: &mut Output) -> Result<Exit> {
    if args.all || !args.user.is_empty() || args.top.is_some() || args.request.is_some() || args.holds {
        return Err(Failure::usage("`-o prometheus` has no users: each would be a series of its own")
            .hint("leave `--user`, `--all`, `--top`, `--request` and `--holds` out; `-o jsonl` has users"));
    }
    if args.watch.watch.is_some() {
        return Err(Failure::usage("`-o prometheus` is one reading, and `--watch` many")
            .hint("leave `--watch` out: a timer runs the command again, see docs/monitoring.md"));
    }
    args.metrics.write("inspect", store, out, |store, out, metrics| {
        let activities = chosen(args, store, out)?;
        let snapshots = snapshots(&activities, store, out)?;
        let mut warnings = out.warnings();
        let mut all = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            all.push((detail::read(store, &mut warnings, &snapshot, 0)?.activity, snapshot));
        }
        let mut is_sound = all.iter().all(|(row, _)| row.is_sound());
        args.selection.apply(&mut all, |(row, _)| row, |_| None);
        is_sound &= !args.selection.mark(all.iter_mut().map(|(row, _)| row), &mut warnings);
        warnings.end();
        sale(&all, metrics);
        let shown: Vec<&Snapshot> = all.iter().map(|(_, snapshot)| snapshot).collect();
        ledgers(&shown, store, metrics)?;
        servers(store, metrics)?;
        Ok(Exit::done_if(is_sound))
    })
}

/// A family with at most one sample an activity.
fn each<V: std::fmt::Display>(
    all: &[(ActivityRow, Snapshot)],
    family: Family,
    metrics: &mut Exposition,
    value: impl Fn(&ActivityRow, &Snapshot) -> Option<V>,
) {
    metrics.each(family, all, |(row, snapshot)| ([("activity", row.name().into())], value(row, snapshot)));
}

fn sale(all: &[(ActivityRow, Snapshot)], metrics: &mut Exposition) {
    let states = all.iter().flat_map(|(row, _)| state_names().map(move |state| (row, state)));
    metrics.each(STATE, states, |(row, state)| {
        ([("activity", row.name().into()), ("state", state.into())], Some(u8::from(row.state == state)))
    });
    each(all, TOTAL, metrics, |row, _| row.total);
    each(all, STOCK, metrics, |row, _| row.stock);
    each(all, IN_TRANSIT, metrics, |row, _| row.in_transit);
    each(all, SOLD, metrics, |row, _| row.sold);
    each(all, WITHDRAWN, metrics, |_, snapshot| snapshot.meta.as_ref().map(|meta| meta.withdrawn.unwrap_or(0)));
    each(all, BUYERS, metrics, |row, _| row.buyers);
    each(all, LIMIT, metrics, |row, _| row.per_user_limit);
    each(all, STARTS, metrics, |row, _| row.starts_at.map(seconds));
    each(all, ENDS, metrics, |row, _| row.ends_at.map(seconds));
}

/// Unix time in seconds.
fn seconds(at: Millis) -> String {
    match at.get() % 1000 {
        0 => (at.get() / 1000).to_string(),
        millis => format!("{}.{millis:03}", at.get() / 1000),
    }
}

/// Of a sharded activity entries are those of all shards, and each shard has consumer groups of its own.
fn ledgers(snapshots: &[&Snapshot], store: &mut Store, metrics: &mut Exposition) -> Result<()> {
    let activities: Vec<ActivityId> = snapshots.iter().flat_map(|snapshot| snapshot.parts()).collect();
    let mut counts = ledger::ledger_entries(store, &activities)?.into_iter();
    metrics.each(ENTRIES, snapshots, |snapshot| {
        // All are taken, also behind one that is not known.
        let own: Vec<Option<u64>> = counts.by_ref().take(snapshot.parts().len()).collect();
        let count: Option<u64> = own.into_iter().sum();
        ([("activity", snapshot.activity.as_str().into())], count)
    });
    // Without the right or the command, no groups are seen.
    let Some(groups) = permitted(ledger::consumer_groups(store, &activities))? else { return Ok(()) };
    let now = store.now()?.get();
    let waiting = |group: &ConsumerGroup| {
        let millis = group.waiting_since.map_or(0, |since| now.saturating_sub(since.get()));
        format!("{}.{:03}", millis / 1000, millis % 1000)
    };
    let mut family = |family, value: &dyn Fn(&ConsumerGroup) -> Option<String>| {
        metrics.each(family, &groups, |group| {
            let labels = [("activity", group.activity.as_str().into()), ("group", group.stats.name.as_str().into())];
            (labels, value(group))
        });
    };
    family(GROUP_LAG, &|group| group.stats.lag.map(|lag| lag.to_string()));
    family(GROUP_PENDING, &|group| Some(group.stats.pending.to_string()));
    family(GROUP_WAITING, &|group| Some(waiting(group)));
    Ok(())
}

/// Upper bounds of the buckets in microseconds, as servers count: a little above powers of two, and what takes over a second in the
/// last one.
const BUCKETS: [u64; 17] =
    [16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16_908, 33_816, 67_633, 135_266, 270_532, 541_065, 1_073_741];

fn servers(store: &mut Store, metrics: &mut Exposition) -> Result<()> {
    let mut servers: Vec<(String, Info)> = Vec::new();
    for server in stats::info(store, &[Section::Replication, Section::CommandStats, Section::ErrorStats])? {
        // Without the right or the command, nothing is known.
        servers.extend(permitted(server.info)?.map(|info| (server.server, info)));
    }
    let replicas = servers.iter().flat_map(|(node, info)| info.replicas().into_iter().map(move |it| (node, info, it)));
    let of = |node: &'_ String| [("node", node.clone().into())];
    metrics.each(REPLICAS, &servers, |(node, info)| (of(node), info.count("connected_slaves")));
    metrics.each(REPLICA_LAG, replicas, |(node, info, replica)| {
        // By the name that it has when it is a primary.
        let scheme = if node.starts_with("rediss") { "rediss" } else { "redis" };
        let name = format!("{scheme}://{}", replica.address);
        ([("node", node.clone().into()), ("replica", name.into())], info.lag_bytes(&replica))
    });
    metrics.each(CALLS, &servers, |(node, info)| (of(node), info.scripts().map(CallStats::tried)));
    metrics.each(FAILURES, &servers, |(node, info)| (of(node), info.scripts().map(CallStats::errors)));
    let durations = stats::script_durations(store)?;
    let mut samples = metrics.family(DURATION);
    for (node, durations) in &durations {
        let Some(durations) = durations else { continue };
        for micros in BUCKETS {
            let bound = of_micros(micros);
            samples.add_part("_bucket", &[("node", node), ("le", &bound)], Some(durations.within(micros)));
        }
        samples.add_part("_bucket", &[("node", node), ("le", "+Inf")], Some(durations.calls));
        let of_node = servers.iter().find(|(name, _)| name == node).and_then(|(_, info)| info.scripts());
        samples.add_part("_sum", &[("node", node)], of_node.map(|scripts| of_micros(scripts.usec)));
        samples.add_part("_count", &[("node", node)], Some(durations.calls));
    }
    Ok(())
}

/// Microseconds in seconds, without needless zeros.
fn of_micros(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_seconds() {
        assert_eq!([16, 1024, 1_048_576, 2_000_000, 0].map(of_micros), ["0.000016", "0.001024", "1.048576", "2", "0"]);
    }
}
