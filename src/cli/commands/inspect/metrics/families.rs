//! The metrics of `inspect`, in the order in which they are printed.

use crate::cli::output::prometheus::{Family, Kind};

macro_rules! families {
    ($($name:ident: $kind:ident $text:literal, $help:literal;)*) => {$(
        pub const $name: Family = Family { name: $text, help: $help, kind: Kind::$kind };
    )*};
}

families! {
    STATE: Gauge "seckill_activity_state", "1 for the state that the activity is in, 0 for the others.";
    TOTAL: Gauge "seckill_preheated_units", "Units that the activity was preheated with, updates included.";
    STOCK: Gauge "seckill_stock_units", "Units left, withdrawn ones included.";
    IN_TRANSIT: Gauge "seckill_in_transit_units", "Units on their way from one shard of the activity to another.";
    SOLD: Gauge "seckill_sold_units", "Units sold; below zero if somebody raised the stock above the total.";
    WITHDRAWN: Gauge "seckill_withdrawn_units", "Units that a pause moved out of the reach of every script.";
    BUYERS: Gauge "seckill_buyers", "Users who hold units.";
    LIMIT: Gauge "seckill_user_limit_units", "The most units that a user may hold.";
    STARTS: Gauge "seckill_start_timestamp_seconds", "When the sale opens, in Unix time.";
    ENDS: Gauge "seckill_end_timestamp_seconds", "When the sale closes, in Unix time.";
    ENTRIES: Counter "seckill_ledger_entries_total", "Ledger entries since the preheat, trimmed ones included. A call writes one, of an order or of hundreds.";
    GROUP_LAG: Gauge "seckill_group_lag_entries", "Ledger entries that a consumer group was not given yet.";
    GROUP_PENDING: Gauge "seckill_group_pending_entries", "Ledger entries that a consumer group was given and did not acknowledge.";
    GROUP_WAITING: Gauge "seckill_group_waiting_seconds", "Age of the oldest entry that a consumer group did not acknowledge; 0 if there is none.";
    REPLICAS: Gauge "seckill_replicas", "Replicas that are connected.";
    REPLICA_LAG: Gauge "seckill_replica_lag_bytes", "Bytes of changes that a replica did not acknowledge yet.";
    CALLS: Counter "seckill_script_calls_total", "Calls of scripts and functions by all clients, whoever wrote them.";
    FAILURES: Counter "seckill_script_failures_total", "Calls of scripts and functions by all clients that ended in an error. A refused order is none.";
    DURATION: Histogram "seckill_script_duration_seconds", "Time of the server in scripts and functions, by all clients.";
}
