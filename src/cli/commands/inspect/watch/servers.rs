//! What the servers count: script calls of all callers, from the difference between two readings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::read::stats::ServerInfo;
use crate::read::stats::info::{CallStats, Info, LatencyStats, Role};

/// What is known of the servers and their counters.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// The last readings, by server.
    last: BTreeMap<String, (Instant, Info)>,
    latency: BTreeMap<String, LatencyStats>,
    own_calls: u64,
    pub figures: Figures,
}

/// Script calls of all callers: backends, other tools, and what this one cannot leave out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    /// Product and version, if all servers have the same.
    pub product: Option<String>,
    pub role: Option<Role>,
    /// Servers that were asked, and those that answered.
    pub asked: usize,
    pub answered: usize,
    /// Whether one of those that did not answer refused to say.
    pub refused: bool,
    /// A second. `None` if a server does not say, or began to count anew since the last reading.
    pub calls: Option<f64>,
    /// Calls that failed or were rejected, a second. A status that refuses an order is no error.
    pub errors: Option<f64>,
    /// The share of calls that neither failed nor were rejected, from 0 to 1; `None` without calls.
    pub success: Option<f64>,
    /// Error replies of all commands a second, by their first word, the most first.
    pub names: Vec<(String, f64)>,
    /// Milliseconds in the server since it began to count, of its slowest node: 50, 99 and 99.9 percent of the calls
    /// took no longer.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
}

impl Servers {
    /// Takes a reading. Returns whether a server was restarted since the last one, so that it may have lost data.
    pub(super) fn take(&mut self, servers: Vec<ServerInfo>, at: Instant, own_calls: u64) -> bool {
        let own = own_calls.saturating_sub(std::mem::replace(&mut self.own_calls, own_calls));
        let mut figures = Figures { asked: servers.len(), ..Figures::default() };
        let mut total = Some(CallStats::default());
        let mut names: BTreeMap<String, u64> = BTreeMap::new();
        let (mut restarted, mut span) = (false, Duration::ZERO);
        for ServerInfo { server, info } in servers {
            let info = match info {
                Ok(info) => info,
                Err(error) => {
                    figures.refused |= matches!(error, StoreError::Permission { .. });
                    total = None;
                    continue;
                }
            };
            figures.answered += 1;
            figures.product = match figures.product.take() {
                Some(product) if Some(&product) != info.product().as_ref() => None,
                _ => info.product(),
            };
            figures.role = info.role();
            if let Some(latency) = info.script_latency() {
                self.latency.insert(server.clone(), latency);
            }
            let added = self.last.get(&server).and_then(|(then, before)| {
                restarted |= info.text("run_id") != before.text("run_id");
                if !info.continues(before) {
                    self.latency.remove(&server);
                    return None;
                }
                span = span.max(at.duration_since(*then));
                let known: BTreeMap<&str, u64> = before.errors().collect();
                for (name, count) in info.errors() {
                    let more = count.saturating_sub(known.get(name).copied().unwrap_or_default());
                    *names.entry(name.to_owned()).or_default() += more;
                }
                info.scripts()?.since(before.scripts()?)
            });
            total = total.zip(added).map(|(total, added)| total.plus(added));
            self.last.insert(server, (at, info));
        }
        let seconds = span.as_secs_f64();
        if let Some(total) = total.filter(|_| seconds > 0.0) {
            figures.count(total, own, seconds);
        }
        if seconds > 0.0 {
            let mut names: Vec<(String, f64)> = names
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| (name, count as f64 / seconds))
                .collect();
            names.sort_by(|one, other| other.1.total_cmp(&one.1));
            figures.names = names;
        }
        // Milliseconds to the microsecond.
        let worst = |percentile: f64| {
            let all = self.latency.values().filter_map(|latency| latency.usec(percentile));
            all.max_by(f64::total_cmp).map(|usec| usec.round() / 1000.0)
        };
        (figures.p50, figures.p99, figures.p99_9) = (worst(50.0), worst(99.0), worst(99.9));
        self.figures = figures;
        restarted
    }
}

impl Figures {
    /// `own` calls are of this command.
    fn count(&mut self, total: CallStats, own: u64, seconds: f64) {
        let calls = total.calls.saturating_sub(own);
        let tried = total.tried().saturating_sub(own);
        let errors = total.errors().min(tried);
        self.calls = Some(calls as f64 / seconds);
        self.errors = Some(errors as f64 / seconds);
        self.success = (tried > 0).then(|| (tried - errors) as f64 / tried as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's counters: calls, rejected, failed.
    fn server(name: &str, run: &str, [calls, rejected, failed]: [u64; 3]) -> ServerInfo {
        let text = format!(
            "redis_version:7.0.15\nrole:master\nrun_id:{run}\n\
             cmdstat_evalsha:calls={calls},usec={calls},rejected_calls={rejected},failed_calls={failed}\n\
             errorstat_OOM:count={failed}\n\
             latency_percentiles_usec_evalsha:p50=10,p99=200,p99.9={calls}000\n"
        );
        ServerInfo { server: name.to_owned(), info: Ok(Info::parse(&text)) }
    }

    fn after(first: Vec<ServerInfo>, then: Vec<ServerInfo>) -> (Figures, bool) {
        let (mut servers, begin) = (Servers::default(), Instant::now());
        servers.take(first, begin, 10);
        assert_eq!(servers.figures.calls, None, "one reading has no rate");
        let restarted = servers.take(then, begin + Duration::from_secs(2), 14);
        (servers.figures, restarted)
    }

    #[test]
    fn rates_are_differences_without_our_own_calls() {
        let (figures, restarted) = after(vec![server("a", "1", [100, 0, 0])], vec![server("a", "1", [114, 2, 3])]);
        assert_eq!((figures.calls, figures.errors, restarted), (Some(5.0), Some(2.5), false));
        assert_eq!(figures.success, Some(7.0 / 12.0));
        assert_eq!(figures.names, [("OOM".to_owned(), 1.5)]);
        assert_eq!((figures.p50, figures.p99, figures.p99_9), (Some(0.01), Some(0.2), Some(114.0)));
        assert_eq!((figures.product.as_deref(), figures.role), (Some("Redis 7.0.15"), Some(Role::Primary)));
    }

    #[test]
    fn a_restart_or_a_reset_has_no_rate() {
        let (figures, restarted) = after(vec![server("a", "1", [100, 0, 0])], vec![server("a", "2", [400, 0, 0])]);
        assert_eq!((figures.calls, figures.errors, figures.success, restarted), (None, None, None, true));
        let (figures, restarted) = after(vec![server("a", "1", [100, 0, 9])], vec![server("a", "1", [40, 0, 0])]);
        assert_eq!((figures.calls, restarted, figures.names), (None, false, Vec::new()));
    }

    #[test]
    fn a_cluster_is_the_sum_of_its_nodes_and_unknown_if_one_is() {
        let first = || vec![server("a", "1", [10, 0, 0]), server("b", "2", [20, 0, 0])];
        let (figures, _) = after(first(), vec![server("a", "1", [20, 0, 0]), server("b", "2", [34, 0, 0])]);
        assert_eq!((figures.calls, figures.asked, figures.answered), (Some(10.0), 2, 2));
        let lost = ServerInfo {
            server: "b".into(),
            info: Err(StoreError::Permission { why: "no".into(), may_be_cut: false }),
        };
        let (figures, _) = after(first(), vec![server("a", "1", [20, 0, 0]), lost]);
        assert_eq!((figures.calls, figures.answered, figures.refused), (None, 1, true));
    }

    #[test]
    fn without_calls_there_is_no_success() {
        let mut servers = Servers::default();
        let begin = Instant::now();
        servers.take(vec![server("a", "1", [10, 0, 0])], begin, 0);
        servers.take(vec![server("a", "1", [10, 0, 0])], begin + Duration::from_secs(1), 0);
        assert_eq!((servers.figures.calls, servers.figures.success), (Some(0.0), None));
    }
}
