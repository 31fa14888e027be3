//! What `INFO` says of one server: counters since it started or since `CONFIG RESETSTAT`, of all callers.
//!
//! A field that the server does not send is `None`, never 0: Redis 6.2 has no `latencystats`, and what has not happened
//! yet has no line.

use std::collections::BTreeMap;

use crate::model::names::names;

names! {
    /// A part of INFO. A server that does not know one sends nothing for it.
    pub enum Section {
        /// Product, version, uptime.
        Server = "server",
        /// Role, offsets, replicas.
        Replication = "replication",
        /// Calls and failures of each command.
        CommandStats = "commandstats",
        /// Percentiles of the duration of each command; Redis 7 and Valkey.
        LatencyStats = "latencystats",
        /// Error replies by their first word; Redis 6.2 and later.
        ErrorStats = "errorstats",
    }
}

names! {
    /// What a server is for the one it replicates.
    pub enum Role {
        /// It accepts writes.
        Primary = "primary",
        /// It follows another server.
        Replica = "replica",
    }
}

/// The fields of some sections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Info {
    fields: BTreeMap<String, String>,
}

/// What became of the calls of a command, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallStats {
    /// Calls that ran, with those that failed.
    pub(crate) calls: u64,
    /// Their time in the server, in microseconds.
    pub(crate) usec: u64,
    /// Calls that were refused before they ran: no right, no memory, a wrong number of arguments; of one command also those that
    /// another node serves.
    pub(crate) rejected: u64,
    /// Calls that ran and replied with an error; of one command also those of a script that is not loaded. A status that refuses an
    /// order is no error.
    pub(crate) failed: u64,
}

/// How long a command takes in the server, since it started or since `CONFIG RESETSTAT`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LatencyStats {
    /// Percentiles from 0 to 100, with microseconds. Which, the server's configuration says: 50, 99 and 99.9 by default.
    percentiles: Vec<(f64, f64)>,
}

/// A replica, as its primary sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicaInfo {
    /// Host and port.
    pub(crate) address: String,
    /// `online` once it follows.
    pub(crate) state: String,
    /// How far it has acknowledged the stream, in bytes.
    pub(crate) offset: Option<u64>,
    /// Seconds since it last acknowledged.
    pub(crate) lag: Option<u64>,
}

/// The commands that run a script or a function.
pub(super) const SCRIPT_COMMANDS: [&str; 6] = ["evalsha", "eval", "fcall", "evalsha_ro", "eval_ro", "fcall_ro"];

impl Info {
    /// Reads the text of one or several sections. Lines without a colon are titles.
    pub(crate) fn parse(text: &str) -> Self {
        let mut info = Self::default();
        info.add(text);
        info
    }

    /// Adds the fields of another section.
    pub(crate) fn add(&mut self, text: &str) {
        let fields = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            // The name of an error may have a colon itself.
            let named = || line.strip_prefix("errorstat_").and_then(|_| line.rsplit_once(":count="));
            named().map(|(name, count)| (name, count.trim_end())).or_else(|| line.split_once(':'))
        });
        self.fields.extend(fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())));
    }

    /// A field, if the server sent it.
    pub(crate) fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// A field that is a whole number.
    pub(crate) fn count(&self, field: &str) -> Option<u64> {
        self.text(field)?.parse().ok()
    }

    /// Product and version, as in `Valkey 8.1.8` and `Redis 7.0.15`. Valkey also names the Redis it is compatible with.
    pub(crate) fn product(&self) -> Option<String> {
        match (self.text("valkey_version"), self.text("redis_version")) {
            (Some(version), _) => Some(format!("Valkey {version}")),
            (None, Some(version)) => Some(format!("Redis {version}")),
            (None, None) => None,
        }
    }

    /// Keys with fields or members that expire, of all databases. Redis counts them from 7.4 on, Valkey from 9.
    pub(crate) fn keys_with_expiring_fields(&self) -> u64 {
        let fields = self.prefixed("db").flat_map(|(_, fields)| parts(fields));
        let counts = fields.filter(|(name, _)| ["subexpiry", "keys_with_volatile_items"].contains(name));
        counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
    }

    /// Its role.
    pub(crate) fn role(&self) -> Option<Role> {
        match self.text("role")? {
            "master" => Some(Role::Primary),
            "slave" => Some(Role::Replica),
            _ => None,
        }
    }

    /// The replicas that follow it.
    pub(crate) fn replicas(&self) -> Vec<ReplicaInfo> {
        let replica = |number: usize| {
            let fields = self.text(&format!("slave{number}"))?;
            let field = |name: &str| parts(fields).find_map(|(known, value)| (known == name).then_some(value));
            Some(ReplicaInfo {
                address: match (field("ip")?, field("port")?) {
                    (ip, port) if ip.contains(':') => format!("[{ip}]:{port}"),
                    (ip, port) => format!("{ip}:{port}"),
                },
                state: field("state").unwrap_or_default().to_owned(),
                offset: field("offset").and_then(|offset| offset.parse().ok()),
                lag: field("lag").and_then(|lag| lag.parse().ok()),
            })
        };
        (0..).map_while(replica).collect()
    }

    /// Bytes of the stream that a replica has not acknowledged; `None` unless it is online and has ever acknowledged:
    /// before that, its offset of 0 would be a lag of everything that was ever written.
    pub(crate) fn lag_bytes(&self, replica: &ReplicaInfo) -> Option<u64> {
        let offset = replica.offset.filter(|offset| *offset > 0 && replica.state == "online")?;
        Some(self.count("master_repl_offset")?.saturating_sub(offset))
    }

    /// Each command that was called, a subcommand as `xgroup|create`, with its calls.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&str, CallStats)> {
        self.prefixed("cmdstat_").filter_map(|(name, fields)| Some((name, CallStats::parse(fields)?)))
    }

    /// The calls of one command, in lower case; `None` if there were none, or if it is not known.
    pub(crate) fn command(&self, name: &str) -> Option<CallStats> {
        CallStats::parse(self.text(&format!("cmdstat_{name}"))?)
    }

    /// The calls of scripts and functions in total, without what clients send again as a matter of course: to the node that
    /// `MOVED` or `ASK` names, and with the text after `NOSCRIPT`, for which the section `errorstats` is needed. `None` without the
    /// section `commandstats`, in which no server that was ever asked anything has no line.
    pub(crate) fn scripts(&self) -> Option<CallStats> {
        self.prefixed("cmdstat_").next()?;
        let known = SCRIPT_COMMANDS.iter().filter_map(|name| self.command(name));
        let mut scripts = known.fold(CallStats::default(), CallStats::plus);
        // No server says which commands it redirected: as many as it rejected of others count as theirs.
        let others = self.commands().map(|(_, stats)| stats.rejected).sum::<u64>() - scripts.rejected;
        scripts.rejected = scripts.rejected.saturating_sub(self.errors_of(&["MOVED", "ASK"]).saturating_sub(others));
        scripts.failed = scripts.failed.saturating_sub(self.errors_of(&["NOSCRIPT"]));
        Some(scripts)
    }

    fn errors_of(&self, names: &[&str]) -> u64 {
        self.errors().filter(|(name, _)| names.contains(name)).map(|(_, count)| count).sum()
    }

    /// How long a command takes.
    pub(crate) fn latency(&self, name: &str) -> Option<LatencyStats> {
        LatencyStats::parse(self.text(&format!("latency_percentiles_usec_{name}"))?)
    }

    /// How long scripts take: those that are called by the command that calls most of them.
    pub(crate) fn script_latency(&self) -> Option<LatencyStats> {
        let called = SCRIPT_COMMANDS.iter().filter_map(|name| Some((self.latency(name)?, self.command(name)?.calls)));
        // Of equal ones the first.
        called.rev().max_by_key(|(_, calls)| *calls).map(|(latency, _)| latency)
    }

    /// Error replies by their first word, such as `NOSCRIPT`, of all commands.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&str, u64)> {
        self.prefixed("errorstat_")
            .filter_map(|(name, count)| Some((name, count.strip_prefix("count=").unwrap_or(count).parse().ok()?)))
    }

    /// Whether the counters continue those of an earlier reading: no restart, no `CONFIG RESETSTAT` between the two, as
    /// far as can be seen. Otherwise a difference means nothing.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        let is_same = |field| match (self.text(field), earlier.text(field)) {
            (Some(now), Some(then)) => now == then,
            _ => true,
        };
        let grew = |field| match (self.count(field), earlier.count(field)) {
            (Some(now), Some(then)) => now >= then,
            _ => true,
        };
        let is_counted = |(name, then): (&str, CallStats)| {
            self.command(name).is_some_and(|now| now.calls >= then.calls && now.usec >= then.usec)
        };
        is_same("run_id")
            && grew("uptime_in_seconds")
            && grew("total_commands_processed")
            && (self.scripts().is_none() || earlier.commands().all(is_counted))
    }

    fn prefixed<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let from = self.fields.range(prefix.to_owned()..);
        from.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

impl CallStats {
    /// `calls=9,usec=77,usec_per_call=8.56,rejected_calls=0,failed_calls=1`; `None` without calls.
    fn parse(fields: &str) -> Option<Self> {
        let field =
            |name: &str| parts(fields).find_map(|(known, value)| (known == name).then(|| value.parse().ok())?);
        Some(Self {
            calls: field("calls")?,
            usec: field("usec").unwrap_or_default(),
            rejected: field("rejected_calls").unwrap_or_default(),
            failed: field("failed_calls").unwrap_or_default(),
        })
    }

    /// All calls, those included that did not even run.
    pub(crate) fn tried(self) -> u64 {
        self.calls.saturating_add(self.rejected)
    }

    /// Calls that failed or did not even run.
    pub(crate) fn errors(self) -> u64 {
        self.rejected.saturating_add(self.failed)
    }

    /// Both together.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            usec: self.usec.saturating_add(other.usec),
            rejected: self.rejected.saturating_add(other.rejected),
            failed: self.failed.saturating_add(other.failed),
        }
    }

    /// What was added since an earlier reading; `None` if a counter went down, so that the difference means nothing.
    pub(crate) fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            calls: self.calls.checked_sub(earlier.calls)?,
            usec: self.usec.checked_sub(earlier.usec)?,
            rejected: self.rejected.checked_sub(earlier.rejected)?,
            failed: self.failed.checked_sub(earlier.failed)?,
        })
    }
}

impl LatencyStats {
    /// `p50=9.023,p99=9.023,p99.9=9.023`
    fn parse(fields: &str) -> Option<Self> {
        let percentile = |(name, value): (&str, &str)| {
            let usec = value.parse::<f64>().ok().filter(|usec| usec.is_finite() && *usec >= 0.0)?;
            Some((name.strip_prefix('p')?.parse().ok()?, usec))
        };
        let percentiles: Vec<(f64, f64)> = parts(fields).filter_map(percentile).collect();
        (!percentiles.is_empty()).then_some(Self { percentiles })
    }

    /// Microseconds at a percentile, such as 99.9; `None` if the server is not configured to send it.
    pub(crate) fn usec(&self, percentile: f64) -> Option<f64> {
        let is_it = |(known, _): &&(f64, f64)| (known - percentile).abs() < 1e-9;
        self.percentiles.iter().find(is_it).map(|(_, usec)| *usec)
    }
}

/// `name=value` pairs.
fn parts(fields: &str) -> impl Iterator<Item = (&str, &str)> {
    fields.split(',').filter_map(|part| part.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALKEY: &str = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.8\r\nrun_id:a9d2\r\nuptime_in_seconds:9\r\n\
        # Replication\r\nrole:master\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=42,lag=1,type=main\r\n\
        # Commandstats\r\ncmdstat_evalsha:calls=90,usec=900,usec_per_call=10.00,rejected_calls=2,failed_calls=1\r\n\
        cmdstat_eval:calls=3,usec=400,usec_per_call=1.00,rejected_calls=0,failed_calls=2\r\n\
        cmdstat_get:calls=1,usec=6,usec_per_call=6.00,rejected_calls=0,failed_calls=0\r\n\
        # Errorstats\r\nerrorstat_NOSCRIPT:count=1\r\nerrorstat_a:b:count=4\r\n\
        # Latencystats\r\nlatency_percentiles_usec_evalsha:p50=9.023,p99=19.071,p99.9=29.055\r\n\
        latency_percentiles_usec_eval:p50=125.439,p99=161.791,p99.9=161.791\r\n";

    #[test]
    fn counters_are_read_with_their_failures() {
        let info = Info::parse(VALKEY);
        assert_eq!(info.product().as_deref(), Some("Valkey 8.1.8"));
        assert_eq!(info.role(), Some(Role::Primary));
        let scripts = info.scripts().unwrap();
        assert_eq!(scripts, CallStats { calls: 93, usec: 1300, rejected: 2, failed: 2 });
        assert_eq!((scripts.tried(), scripts.errors()), (95, 4));
        assert_eq!(info.errors().collect::<Vec<_>>(), [("NOSCRIPT", 1), ("a:b", 4)]);
        let replica = &info.replicas()[0];
        assert_eq!((replica.address.as_str(), replica.offset, replica.lag), ("10.0.0.2:6379", Some(42), Some(1)));
    }

    #[test]
    fn a_redirection_is_no_failure_of_a_script_and_a_missing_right_is() {
        let rejected = |scripts: u64, others: u64, errors: &str| {
            let text = format!(
                "cmdstat_evalsha:calls=9,rejected_calls={scripts},failed_calls=0\n\
                 cmdstat_get:calls=0,rejected_calls={others},failed_calls=0\n{errors}"
            );
            Info::parse(&text).scripts().unwrap().rejected
        };
        assert_eq!(rejected(6, 3, "errorstat_MOVED:count=8\nerrorstat_ASK:count=1\n"), 0);
        assert_eq!(rejected(6, 3, "errorstat_MOVED:count=7\nerrorstat_NOPERM:count=2\n"), 2);
        assert_eq!(rejected(2, 3, "errorstat_MOVED:count=1\nerrorstat_NOPERM:count=4\n"), 2);
        assert_eq!(rejected(2, 0, ""), 2);
    }

    #[test]
    fn a_replica_that_never_acknowledged_has_no_known_lag() {
        let text = "slave0:ip=a,port=1,state=online,offset=90,lag=1\nslave1:ip=b,port=1,state=wait_bgsave,offset=7,lag=0\n\
            slave2:ip=::1,port=1,state=online,offset=0,lag=3\nmaster_repl_offset:100\n";
        let info = Info::parse(text);
        let lags: Vec<_> = info.replicas().iter().map(|replica| info.lag_bytes(replica)).collect();
        assert_eq!(lags, [Some(10), None, None]);
        assert_eq!(Info::parse(&text.replace("master_repl", "x")).lag_bytes(&info.replicas()[0]), None);
    }

    #[test]
    fn latency_is_that_of_the_command_that_calls_most_scripts() {
        let latency = Info::parse(VALKEY).script_latency().unwrap();
        assert_eq!([50.0, 99.0, 99.9].map(|of| latency.usec(of)), [Some(9.023), Some(19.071), Some(29.055)]);
        assert_eq!(latency.usec(95.0), None);
    }

    #[test]
    fn what_is_not_sent_is_not_known() {
        let info = Info::parse("# Latencystats\r\n\r\n");
        assert_eq!((info.product(), info.role(), info.scripts()), (None, None, None));
        assert!(info.script_latency().is_none() && info.replicas().is_empty() && info.errors().next().is_none());
        // Somebody was here, but called no script.
        assert_eq!(Info::parse("cmdstat_info:calls=1,usec=9").scripts(), Some(CallStats::default()));
    }

    #[test]
    fn lines_that_are_damaged_are_no_numbers() {
        let info =
            Info::parse("cmdstat_eval:calls=x,usec=1\nlatency_percentiles_usec_eval:p50=nan,p99=-1\nmaxmemory:-\n:\n");
        assert_eq!((info.command("eval"), info.count("maxmemory")), (None, None));
        assert!(info.latency("eval").is_none());
    }

    #[test]
    fn counters_of_another_start_continue_nothing() {
        let earlier = Info::parse(VALKEY);
        assert!(earlier.continues(&earlier));
        for (from, to) in [
            ("run_id:a9d2", "run_id:b000"),
            ("uptime_in_seconds:9", "uptime_in_seconds:1"),
            ("cmdstat_get:calls=1,", "cmdstat_get:calls=0,"),
            ("cmdstat_get:", "cmdstat_set:"),
        ] {
            assert!(!Info::parse(&VALKEY.replace(from, to)).continues(&earlier), "{to}");
        }
        let scripts = earlier.scripts().unwrap();
        assert_eq!(scripts.since(CallStats { calls: 80, ..scripts }).map(|since| since.calls), Some(13));
        assert_eq!(CallStats::default().since(scripts), None);
    }
}
