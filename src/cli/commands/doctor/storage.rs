//! What is left after a restart, a power cut or a failover, and what happens when memory is full or readers are slow.

use crate::cli::commands::doctor::row::Finding;
use crate::cli::output::{bytes, counted};
use crate::cli::shared::fix::Fixes;
use crate::names;
use crate::read::health::{Info, Node, Reading, Role};

/// Whether a restart finds the sale again.
pub(super) fn persistence(reading: &Reading, fixes: &Fixes) -> Finding {
    let info = reading.info.as_ref().ok();
    let info_says = |name: &str| info.and_then(|info| info.text(name));
    if info_says("aof_last_write_status").is_some_and(|status| status != "ok") {
        return Finding::fail(
            "the last write to the append-only file failed, so orders are refused: is the disk full?",
            fixes.administer(&["CONFIG", "GET", "dir"]),
        );
    }
    if info_says("rdb_last_bgsave_status").is_some_and(|status| status != "ok") {
        let refuses = match setting(reading, "stop-writes-on-bgsave-error") {
            Some("no") => "",
            _ => ", so orders may be refused",
        };
        return Finding::fail(
            format!("the last snapshot failed{refuses}: see the server's log; once the disk has room, save again"),
            fixes.administer(&["BGSAVE"]),
        );
    }
    let snapshots = setting(reading, "save");
    match (has_file(reading), snapshots) {
        (None, _) => Finding::skip(refused(reading)),
        (Some(true), Some("") | None) => Finding::ok("append-only file"),
        (Some(true), Some(_)) => Finding::ok("append-only file, and snapshots"),
        (Some(false), Some("")) => Finding::fail(
            "neither append-only file nor snapshots: a restart begins empty",
            fixes.set("appendonly", "yes"),
        ),
        (Some(false), Some(save)) => Finding::warn(
            format!("snapshots only (save {save}): a crash loses everything since the last one"),
            fixes.set("appendonly", "yes"),
        ),
        (Some(false), None) => Finding::skip(format!("no append-only file; for snapshots: {}", refused(reading))),
    }
}

/// How soon the append-only file is on disk.
pub(super) fn fsync(reading: &Reading, fixes: &Fixes) -> Finding {
    match has_file(reading) {
        None => return Finding::skip(refused(reading)),
        Some(false) => return Finding::skip("there is no append-only file"),
        Some(true) => {}
    }
    let copies = reading.info.as_ref().map_or(0, copies);
    let always = || fixes.set("appendfsync", "always");
    match PowerCut::of_file(reading) {
        PowerCut::Nothing => Finding::ok("always: what was acknowledged is on disk"),
        PowerCut::Rewrite => Finding::warn(
            "no-appendfsync-on-rewrite yes: while the file is rewritten, a power cut loses up to 30 s of orders",
            fixes.set("no-appendfsync-on-rewrite", "no"),
        ),
        PowerCut::TwoSeconds if copies > 0 => Finding::ok("everysec, and another server has a copy"),
        PowerCut::TwoSeconds => {
            Finding::warn("everysec without a replica: a power cut loses up to 2 s of acknowledged orders", always())
        }
        PowerCut::Kernel => Finding::fail(
            "no: the kernel decides, and a power cut loses 30 s of acknowledged orders or more",
            fixes.set("appendfsync", "everysec"),
        ),
        _ => match setting(reading, "appendfsync") {
            None => Finding::skip(refused(reading)),
            Some(other) => Finding::warn(format!("appendfsync {other}"), always()),
        },
    }
}

/// Servers that hold the same data: replicas that are online, or a replica's primary.
fn copies(info: &Info) -> usize {
    match info.role() {
        Some(Role::Replica) => usize::from(info.text("master_link_status") == Some("up")),
        _ => info.replicas().iter().filter(|replica| replica.state == "online").count(),
    }
}

/// Whether there is an append-only file, as the settings say, or else INFO.
pub(super) fn has_file(reading: &Reading) -> Option<bool> {
    let set = setting(reading, "appendonly").map(|value| value == "yes");
    set.or_else(|| Some(reading.info.as_ref().ok()?.count("aof_enabled")? == 1))
}

/// A setting; `None` if it is not known.
pub(super) fn setting<'a>(reading: &'a Reading, name: &str) -> Option<&'a str> {
    reading.settings.as_ref().ok()?.get(name).map(String::as_str)
}

/// Why a setting is not known.
pub(super) fn refused(reading: &Reading) -> String {
    match &reading.settings {
        Err(why) => why.clone(),
        Ok(_) => "the server has no such setting".to_owned(),
    }
}

names! {
    /// What is lost when the machine of a primary stops, the least first.
    #[derive(PartialOrd, Ord)]
    pub enum PowerCut {
        Nothing = "A power cut loses no acknowledged order",
        /// The file is written each second, and a write may take another one.
        TwoSeconds = "A power cut may lose 2 s of orders",
        /// While the file is rewritten, the kernel decides.
        Rewrite = "A power cut may lose 30 s of orders",
        /// The kernel decides.
        Kernel = "A power cut may lose 30 s of orders or more",
        Unknown = "What a power cut loses is not known here",
        SinceSnapshot = "A power cut loses all since the last snapshot",
        Everything = "A power cut loses everything",
    }
}

impl PowerCut {
    fn of(reading: &Reading) -> Self {
        let snapshots = setting(reading, "save");
        match (has_file(reading), snapshots) {
            (Some(true), _) => Self::of_file(reading),
            (Some(false), Some("")) => Self::Everything,
            (Some(false), Some(_)) => Self::SinceSnapshot,
            _ => Self::Unknown,
        }
    }

    /// Where there is an append-only file. While a server rewrites it, `no-appendfsync-on-rewrite` goes before `appendfsync`,
    /// whatever that is (`flushAppendOnlyFile` in its aof.c).
    fn of_file(reading: &Reading) -> Self {
        match setting(reading, "appendfsync") {
            Some("no") => Self::Kernel,
            Some("always" | "everysec") if setting(reading, "no-appendfsync-on-rewrite") == Some("yes") => {
                Self::Rewrite
            }
            Some("always") => Self::Nothing,
            Some("everysec") => Self::TwoSeconds,
            _ => Self::Unknown,
        }
    }
}

/// For how long a primary sells that no replica follows, in seconds; `None`: without bound.
fn unfollowed(reading: &Reading) -> Option<u64> {
    let number = |name| setting(reading, name)?.parse::<u64>().ok();
    let (least, seconds) = (number("min-replicas-to-write")?, number("min-replicas-max-lag")?);
    (least > 0 && seconds > 0).then_some(seconds)
}

/// The line, about the worst of all primaries; `None` if there is none, or none that says what it is.
pub(super) fn loss<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<String> {
    let readings = nodes.filter_map(|node| node.reading.as_ref().ok());
    let primaries: Vec<(&Reading, usize)> = readings
        .filter_map(|reading| Some((reading, reading.info.as_ref().ok()?)))
        .filter(|(_, info)| info.role() == Some(Role::Primary))
        .map(|(reading, info)| (reading, info.replicas().len()))
        .collect();
    let power_cut = primaries.iter().map(|(reading, _)| PowerCut::of(reading)).max()?;
    let followed: Vec<&Reading> =
        primaries.iter().filter(|(_, replicas)| *replicas > 0).map(|(reading, _)| *reading).collect();
    let alone = primaries.len() - followed.len();
    let bounds: Option<Vec<u64>> = followed.iter().map(|reading| unfollowed(reading)).collect();
    let failover = match bounds {
        _ if followed.is_empty() => "no replica could take over".to_owned(),
        None => "a failover may lose what no replica has yet".to_owned(),
        Some(bounds) => {
            let seconds = bounds.into_iter().max().unwrap_or_default();
            format!("a failover may lose {seconds} s that no replica has yet")
        }
    };
    let lacks = match (alone, primaries.len()) {
        (0, _) => String::new(),
        (alone, all) if alone == all => String::new(),
        (1, all) => format!(", and 1 of {all} primaries has no replica"),
        (alone, all) => format!(", and {alone} of {all} primaries have no replica"),
    };
    Some(format!("{power_cut}; {failover}{lacks}."))
}

/// Whether the server deletes keys when memory is full.
pub(super) fn eviction(reading: &Reading, fixes: &Fixes) -> Finding {
    let info = reading.info.as_ref().ok();
    // A managed server that hides its settings says it here.
    let policy = setting(reading, "maxmemory-policy").or_else(|| info?.text("maxmemory_policy"));
    let Some(policy) = policy else { return Finding::skip(refused(reading)) };
    let evicted = info.and_then(|info| info.count("evicted_keys")).unwrap_or_default();
    let fix = || fixes.set("maxmemory-policy", "noeviction");
    let so_far = if evicted > 0 { format!("; {evicted} keys are gone already") } else { String::new() };
    match policy {
        "noeviction" if evicted == 0 => Finding::ok(policy),
        "noeviction" => {
            let keys = counted(evicted, "key");
            let found = format!("{policy}, but evicted since the server started: {keys}; audit what is left");
            Finding::warn(found, fixes.seckill_all("reconcile"))
        }
        // Our keys never expire, unless an operator sets an expiry.
        _ if policy.starts_with("volatile-") => {
            Finding::warn(format!("{policy} deletes keys that expire{so_far}"), fix())
        }
        _ => Finding::fail(format!("{policy} deletes any key{so_far}"), fix()),
    }
}

/// Percents of memory from which on a server is in danger, and refuses orders soon.
const HIGH: u64 = 75;
const FULL: u64 = 90;

/// How full memory is.
pub(super) fn memory(reading: &Reading, fixes: &Fixes) -> Finding {
    let Ok(info) = &reading.info else { return Finding::unread(&reading.info) };
    let Some(used) = info.count("used_memory") else { return Finding::skip("INFO does not say how much is used") };
    let limit = info.count("maxmemory").or_else(|| setting(reading, "maxmemory")?.parse().ok());
    let machine = info.count("total_system_memory").filter(|total| *total > 0);
    match (limit, machine) {
        (None, _) => Finding::skip("INFO does not say what maxmemory is"),
        (Some(0), None) => Finding::skip(format!("{} used, without maxmemory", bytes(used))),
        (Some(0), Some(machine)) => {
            let found = format!("{} used, without maxmemory, on a machine of {}", bytes(used), bytes(machine));
            let fix = fixes.set("maxmemory", &megabytes(machine / 4 * 3));
            if percent(used, machine) >= HIGH { Finding::fail(found, fix) } else { Finding::warn(found, fix) }
        }
        (Some(limit), machine) => {
            let share = percent(used, limit);
            let found = format!("{} used, {share}% of maxmemory {}", bytes(used), bytes(limit));
            match share {
                FULL.. => Finding::fail(found, more_memory(used, limit, machine, fixes)),
                HIGH.. => Finding::warn(found, more_memory(used, limit, machine, fixes)),
                _ => Finding::ok(found),
            }
        }
    }
}

/// Raises the limit if the machine has room, else removes what audits do without.
fn more_memory(used: u64, limit: u64, machine: Option<u64>, fixes: &Fixes) -> String {
    let wanted = used.max(limit).saturating_mul(2);
    match machine {
        Some(machine) if wanted > machine / 4 * 3 => fixes.seckill_all("ledger trim ACTIVITY --before 7d"),
        _ => fixes.set("maxmemory", &megabytes(wanted)),
    }
}

fn megabytes(count: u64) -> String {
    format!("{}mb", count.div_ceil(1 << 20))
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100) / whole.max(1)
}

/// What a client of a class may have waiting: bytes at any time, and bytes for a number of seconds. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    hard: u64,
    soft: u64,
}

/// The server's own defaults: less cuts a replica off in a rush.
const REPLICA: Limit = Limit { hard: 256 << 20, soft: 64 << 20 };
/// The longest replies of a ledger, and room.
const NORMAL: u64 = 32 << 20;

/// Whether readers are cut off too early, or never.
pub(super) fn output_buffers(reading: &Reading, fixes: &Fixes) -> Finding {
    let Some(text) = setting(reading, "client-output-buffer-limit") else { return Finding::skip(refused(reading)) };
    let limit = |classes: &[&str]| classes.iter().find_map(|class| limit(text, class));
    let (Some(normal), Some(replica), Some(pubsub)) =
        (limit(&["normal"]), limit(&["replica", "slave"]), limit(&["pubsub"]))
    else {
        return Finding::skip(format!("cannot read `{text}`"));
    };
    let set = |value: &str| fixes.set("client-output-buffer-limit", value);
    let is_below = |limit: Limit, least: Limit| {
        (limit.hard != 0 && limit.hard < least.hard) || (limit.soft != 0 && limit.soft < least.soft)
    };
    if is_below(replica, REPLICA) {
        let found =
            format!("replica {}: a replica that falls behind in a rush is cut off, again and again", both(replica));
        return Finding::warn(found, set("replica 256mb 64mb 60"));
    }
    if is_below(normal, Limit { hard: NORMAL, soft: NORMAL }) {
        let found = format!("normal {}: a client that reads a ledger may be cut off", both(normal));
        return Finding::warn(found, set("normal 0 0 0"));
    }
    if pubsub.hard == 0 && pubsub.soft == 0 {
        return Finding::warn(
            "pubsub without a limit: one slow subscriber fills the memory",
            set("pubsub 32mb 8mb 60"),
        );
    }
    let disconnections = |info: &Info| info.count("client_output_buffer_limit_disconnections");
    let cut_off = reading.info.as_ref().ok().and_then(disconnections).unwrap_or_default();
    let found = format!("normal {}, replica {}, pubsub {}", words(normal), words(replica), words(pubsub));
    match cut_off {
        0 => Finding::ok(found),
        _ => Finding::warn(
            format!("{found}; {cut_off} clients were cut off since the server started"),
            fixes.administer(&["CLIENT", "LIST", "TYPE", "replica"]),
        ),
    }
}

/// The limit of a class in `normal 0 0 0 slave 268435456 67108864 60 …`.
fn limit(text: &str, class: &str) -> Option<Limit> {
    let words: Vec<&str> = text.split(' ').collect();
    let at = words.iter().position(|word| *word == class)?;
    let number = |offset: usize| words.get(at + offset)?.parse().ok();
    Some(Limit { hard: number(1)?, soft: number(2)? })
}

fn words(limit: Limit) -> String {
    if limit.hard == 0 { "unlimited".to_owned() } else { bytes(limit.hard) }
}

/// Both of its bounds: the second is of those that stay above it.
fn both(limit: Limit) -> String {
    match limit.soft {
        0 => words(limit),
        soft => format!("{}, soft {}", words(limit), bytes(soft)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::doctor::row::CheckStatus;
    use crate::cli::shared::fix::Options;
    use crate::read::health::Info;

    const SAVES: (&str, &str) = ("save", "3600 1");
    const FILE: (&str, &str) = ("appendonly", "yes");

    fn node(replicas: u64, settings: &[(&'static str, &str)]) -> Node {
        let replicas: String = (0..replicas)
            .map(|at| format!("slave{at}:ip=10.0.0.{at},port=6379,state=online,offset=1,lag=0\r\n"))
            .collect();
        let settings = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let reading = Reading {
            info: Ok(Info::parse(&format!("role:master\r\naof_enabled:0\r\n{replicas}"))),
            settings: Ok(settings.collect()),
            ..Reading::unread()
        };
        Node { name: "10.0.0.1:6379".to_owned(), redis_cli: Vec::new(), username: None, reading: Ok(reading) }
    }

    fn line(nodes: &[Node]) -> String {
        loss(nodes.iter()).unwrap_or_default()
    }

    #[test]
    fn one_server_says_what_its_settings_come_to() {
        let always = [FILE, ("appendfsync", "always")];
        let second = [FILE, ("appendfsync", "everysec")];
        let rewritten = ("no-appendfsync-on-rewrite", "yes");
        let rewrite = [FILE, ("appendfsync", "everysec"), rewritten];
        for (settings, expected) in [
            (&[("save", "")][..], "A power cut loses everything"),
            (&[SAVES], "A power cut loses all since the last snapshot"),
            (&[], "What a power cut loses is not known here"),
            (&[FILE, ("appendfsync", "no")], "A power cut may lose 30 s of orders or more"),
            (&[FILE, ("appendfsync", "no"), rewritten], "A power cut may lose 30 s of orders or more"),
            (&[FILE, ("appendfsync", "always"), rewritten], "A power cut may lose 30 s of orders"),
            (&rewrite, "A power cut may lose 30 s of orders"),
            (&second, "A power cut may lose 2 s of orders"),
            (&always, "A power cut loses no acknowledged order"),
        ] {
            assert_eq!(line(&[node(0, settings)]), format!("{expected}; no replica could take over."));
            let followed = line(&[node(2, settings)]);
            assert_eq!(followed, format!("{expected}; a failover may lose what no replica has yet."));
        }
    }

    #[test]
    fn a_primary_that_stops_without_replicas_bounds_what_a_failover_loses() {
        let bounded = |least: &'static str, seconds: &'static str| {
            let of_replicas = [("min-replicas-to-write", least), ("min-replicas-max-lag", seconds)];
            line(&[node(1, &[&[FILE, ("appendfsync", "always")][..], &of_replicas].concat())])
        };
        assert!(bounded("1", "10").ends_with("; a failover may lose 10 s that no replica has yet."));
        for line in [bounded("0", "10"), bounded("1", "0")] {
            assert!(line.ends_with("; a failover may lose what no replica has yet."), "{line}");
        }
    }

    #[test]
    fn of_a_cluster_the_worst_primary_is_shown() {
        let sound = [FILE, ("appendfsync", "always"), ("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10")];
        let nodes = [node(1, &sound), node(0, &sound), node(1, &[SAVES])];
        assert_eq!(
            line(&nodes),
            "A power cut loses all since the last snapshot; a failover may lose what no replica has yet, \
             and 1 of 3 primaries has no replica."
        );
        assert_eq!(line(&[]), "");
    }

    fn fixes() -> Fixes {
        let options = Options { seckill: " -l sku".to_owned(), ..Options::default() };
        Fixes::new("redis", &["-s".into(), "s".into()], None, true, &options)
    }

    #[test]
    fn what_a_power_cut_costs_and_what_is_found_agree() {
        for (policy, rewritten, expected) in [
            ("always", "no", CheckStatus::Ok),
            ("always", "yes", CheckStatus::Warn),
            ("everysec", "yes", CheckStatus::Warn),
            ("no", "yes", CheckStatus::Fail),
            ("sometimes", "no", CheckStatus::Warn),
        ] {
            let node = node(0, &[FILE, ("appendfsync", policy), ("no-appendfsync-on-rewrite", rewritten)]);
            assert_eq!(fsync(&node.reading.unwrap(), &fixes()).status, expected, "{policy} {rewritten}");
        }
    }

    #[test]
    fn both_bounds_of_what_a_client_may_have_waiting_are_looked_at() {
        let found = |limits: &str| {
            let node = node(0, &[("client-output-buffer-limit", limits)]);
            output_buffers(&node.reading.unwrap(), &fixes()).found
        };
        let others = "replica 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert!(found(&format!("normal 0 0 0 {others}")).starts_with("normal unlimited, replica 256 MB"));
        assert!(found(&format!("normal 0 1048576 1 {others}")).starts_with("normal unlimited, soft 1 MB: a client"));
        let small = found("normal 0 0 0 slave 268435456 1048576 60 pubsub 33554432 8388608 60");
        assert!(small.starts_with("replica 256 MB, soft 1 MB: a replica"), "{small}");
    }

    #[test]
    fn the_limit_is_raised_only_if_the_machine_has_room() {
        let fixes = fixes();
        let gb = 1 << 30;
        assert!(more_memory(gb, gb, Some(16 * gb), &fixes).ends_with("CONFIG SET maxmemory 2048mb"));
        assert!(more_memory(gb, gb, Some(2 * gb), &fixes).starts_with("seckill ledger trim"));
    }
}
