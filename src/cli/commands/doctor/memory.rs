//! What happens when memory is full, how full it is, and what slow readers may cost.

use crate::cli::commands::doctor::fix::Fixes;
use crate::cli::commands::doctor::persistence::{refused, setting};
use crate::cli::commands::doctor::row::Finding;
use crate::cli::output::{bytes, counted};
use crate::read::health::{Info, Reading};

/// Whether the server deletes keys when memory is full.
pub(super) fn eviction(reading: &Reading, fixes: &Fixes) -> Finding {
    let info = reading.info.as_ref().ok();
    // A managed server that hides its settings says it here.
    let policy = setting(reading, "maxmemory-policy").or_else(|| info?.text("maxmemory_policy"));
    let Some(policy) = policy else { return Finding::skip(refused(reading)) };
    let evicted = info.and_then(|info| info.count("evicted_keys")).unwrap_or_default();
    let fix = || fixes.set("maxmemory-policy", "noeviction");
    if policy == "noeviction" {
        return match evicted {
            0 => Finding::ok("noeviction"),
            _ => Finding::warn(
                format!(
                    "noeviction, but evicted since the server started: {}; audit what is left",
                    counted(evicted, "key")
                ),
                fixes.seckill_all("reconcile"),
            ),
        };
    }
    let so_far = if evicted > 0 { format!("; {evicted} keys are gone already") } else { String::new() };
    if policy.starts_with("volatile-") {
        // Ours never expire, unless somebody lets them.
        return Finding::warn(format!("{policy} deletes keys that expire{so_far}"), fix());
    }
    Finding::fail(format!("{policy} deletes any key{so_far}"), fix())
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
    let limit = |classes: [&str; 2]| classes.into_iter().find_map(|class| limit(text, class));
    let (Some(normal), Some(replica), Some(pubsub)) =
        (limit(["normal", "normal"]), limit(["replica", "slave"]), limit(["pubsub", "pubsub"]))
    else {
        return Finding::skip(format!("cannot read `{text}`"));
    };
    let set = |value: &str| fixes.set("client-output-buffer-limit", value);
    let is_below = |limit: Limit, least: Limit| {
        (limit.hard != 0 && limit.hard < least.hard) || (limit.soft != 0 && limit.soft < least.soft)
    };
    if is_below(replica, REPLICA) {
        let found =
            format!("replica {}: a replica that falls behind in a rush is cut off, again and again", words(replica));
        return Finding::warn(found, set("replica 256mb 64mb 60"));
    }
    if normal.hard != 0 && normal.hard < NORMAL {
        let found = format!("normal {}: a client that reads a ledger may be cut off", words(normal));
        return Finding::warn(found, set("normal 0 0 0"));
    }
    if pubsub.hard == 0 && pubsub.soft == 0 {
        return Finding::warn(
            "pubsub without a limit: one slow subscriber fills the memory",
            set("pubsub 32mb 8mb 60"),
        );
    }
    let cut_off = reading.info.as_ref().ok().and_then(disconnected).unwrap_or_default();
    let found = format!("normal {}, replica {}, pubsub {}", words(normal), words(replica), words(pubsub));
    match cut_off {
        0 => Finding::ok(found),
        _ => Finding::warn(
            format!("{found}; {cut_off} clients were cut off since the server started"),
            fixes.administer(&["CLIENT", "LIST", "TYPE", "replica"]),
        ),
    }
}

fn disconnected(info: &Info) -> Option<u64> {
    info.count("client_output_buffer_limit_disconnections")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::doctor::fix::Operator;
    use crate::cli::commands::doctor::fix::Options;

    #[test]
    fn limits_are_read_by_class() {
        let text = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(limit(text, "slave"), Some(REPLICA));
        assert_eq!(limit(text, "pubsub"), Some(Limit { hard: 32 << 20, soft: 8 << 20 }));
        assert_eq!(limit(text, "replica"), None);
    }

    #[test]
    fn the_limit_is_raised_only_if_the_machine_has_room() {
        let operator = Operator { name: None, is_administrator: true };
        let fixes = Fixes::new(
            "redis",
            &["-s".into(), "s".into()],
            &operator,
            &Options { seckill: " -l sku".to_owned(), ..Options::default() },
        );
        let gb = 1 << 30;
        assert!(more_memory(gb, gb, Some(16 * gb), &fixes).ends_with("CONFIG SET maxmemory 2048mb"));
        assert!(more_memory(gb, gb, Some(2 * gb), &fixes).starts_with("seckill ledger trim"));
    }
}
