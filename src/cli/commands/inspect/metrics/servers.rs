//! Metrics of the servers: of all their callers, whoever they are.

use crate::cli::commands::inspect::metrics::families as f;
use crate::cli::error::Result;
use crate::cli::output::prometheus::Exposition;
use crate::error::StoreError;
use crate::read::stats::info::{Info, Section};
use crate::store::Store;

/// Upper bounds of the buckets in microseconds: the powers of two in which servers count.
const BUCKETS: [u64; 18] = [
    16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576,
    4_194_304,
];

pub fn metrics(store: &mut Store, metrics: &mut Exposition) -> Result<()> {
    let mut servers: Vec<(String, Info)> = Vec::new();
    for server in store.info(&[Section::Replication, Section::CommandStats])? {
        match server.info {
            Ok(info) => servers.push((server.server, info)),
            // Without the right to ask, nothing is known.
            Err(StoreError::Permission { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut replicas = metrics.family(f::REPLICAS);
    for (node, info) in &servers {
        replicas.add(&[("node", node)], info.count("connected_slaves"));
    }
    let mut lags = metrics.family(f::REPLICA_LAG);
    for (node, info) in &servers {
        for replica in info.replicas() {
            lags.add(&[("node", node), ("replica", &replica.address)], info.lag_bytes(&replica));
        }
    }
    let mut calls = metrics.family(f::CALLS);
    for (node, info) in &servers {
        calls.add(&[("node", node)], info.scripts().map(|scripts| scripts.calls));
    }
    let mut failures = metrics.family(f::FAILURES);
    for (node, info) in &servers {
        failures.add(&[("node", node)], info.scripts().map(crate::read::stats::info::CallStats::errors));
    }
    let durations = store.script_durations()?;
    let mut samples = metrics.family(f::DURATION);
    for (node, durations) in &durations {
        let Some(durations) = durations else { continue };
        for micros in BUCKETS {
            let bound = seconds(micros);
            samples.add_part("_bucket", &[("node", node), ("le", &bound)], Some(durations.within(micros)));
        }
        samples.add_part("_bucket", &[("node", node), ("le", "+Inf")], Some(durations.calls));
        let of_node = servers.iter().find(|(name, _)| name == node).and_then(|(_, info)| info.scripts());
        samples.add_part("_sum", &[("node", node)], of_node.map(|scripts| seconds(scripts.usec)));
        samples.add_part("_count", &[("node", node)], Some(durations.calls));
    }
    Ok(())
}

/// Microseconds as seconds, without needless zeros.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_seconds() {
        assert_eq!([16, 1024, 1_048_576, 2_000_000, 0].map(seconds), ["0.000016", "0.001024", "1.048576", "2", "0"]);
    }
}
