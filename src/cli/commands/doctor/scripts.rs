//! Scripts: whether they run, which were slow, when one that hangs can be ended, and flaws of the Lua that runs them.

use std::time::Duration;

use crate::cli::commands::doctor::row::Finding;
use crate::cli::commands::doctor::storage::{refused, setting};
use crate::cli::output::{counted, duration, named};
use crate::cli::shared::fix::Fixes;
use crate::read::health::{Clock, Reading, SlowCall};

/// The usual time after which a script that hangs may be killed, and bounds of what is sensible, in ms.
const USUAL: &str = "5000";
const SHORTEST: i64 = 100;
const LONGEST: i64 = 30_000;

/// When a script that hangs can be ended.
pub(super) fn busy_reply(reading: &Reading, fixes: &Fixes) -> Finding {
    // Redis 6.2 has only the older name.
    let names = ["busy-reply-threshold", "lua-time-limit"];
    let Some((name, value)) = names.into_iter().find_map(|name| Some((name, setting(reading, name)?))) else {
        return Finding::skip(refused(reading));
    };
    let Ok(millis) = value.parse::<i64>() else { return Finding::skip(format!("cannot read `{value}`")) };
    let found = match millis {
        ..=0 => format!("{name} {millis}: never"),
        1..SHORTEST => format!("{name} {millis} ms: buyers get BUSY errors while a long call of a file runs"),
        SHORTEST..=LONGEST => return Finding::ok(format!("after {millis} ms")),
        _ => format!("only after {}", duration(Duration::from_millis(millis.unsigned_abs()))),
    };
    Finding::warn(found, fixes.set(name, USUAL))
}

/// From here on a call is felt by every buyer.
const FELT: Duration = Duration::from_millis(100);

/// Calls that kept everybody waiting.
pub(super) fn slow(reading: &Reading, fixes: &Fixes) -> Finding {
    let Ok(calls) = &reading.slow_calls else { return Finding::unread(&reading.slow_calls) };
    let logged = setting(reading, "slowlog-log-slower-than").and_then(|value| value.parse::<i64>().ok());
    if logged.is_some_and(|micros| micros < 0) || setting(reading, "slowlog-max-len") == Some("0") {
        return Finding::skip("the slow log is off");
    }
    let longest = |ours: bool| calls.iter().filter(|call| call.script.is_some() == ours).max_by_key(|call| call.took);
    let said = |call: &SlowCall| {
        let what =
            call.script.map_or_else(|| format!("{} of somebody else", call.command), |script| format!("`{script}`"));
        format!("{what} took {} at {}", duration(call.took), call.at)
    };
    let felt = [longest(true), longest(false)].into_iter().flatten().find(|call| call.took >= FELT);
    if let Some(call) = felt {
        return Finding::warn(said(call), fixes.command(&["SLOWLOG", "GET", "10"]));
    }
    match longest(true) {
        None => Finding::ok(match logged {
            Some(micros) => format!("no call of ours over {}", duration(Duration::from_micros(micros.unsigned_abs()))),
            None => "no call of ours in the slow log".to_owned(),
        }),
        Some(call) => {
            let count = calls.iter().filter(|call| call.script.is_some()).count();
            Finding::ok(format!("{} of ours in the slow log; {}", counted(count, "call"), said(call)))
        }
    }
}

/// Whether the server runs our scripts.
pub(super) fn scripts(reading: &Reading, fixes: &Fixes) -> Finding {
    let Ok(dry_run) = &reading.dry_run else { return Finding::unread(&reading.dry_run) };
    let scripts = &dry_run.scripts;
    let refused: Vec<_> = scripts.iter().filter_map(|(name, why)| Some((*name, why.as_ref()?))).collect();
    let Some((_, why)) = refused.first() else { return Finding::ok(format!("all {} run", scripts.len())) };
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let names = named(&names, usize::MAX);
    Finding::fail(format!("the server refuses {names}: {why}"), fixes.seckill_all("script load"))
}

/// Major, minor and patch.
type Version = (u32, u32, u32);

/// The first release of each branch without CVE-2025-49844 and CVE-2025-46817 to 46819, which newer branches never had.
const CORRECTED_REDIS: [Version; 5] = [(6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)];
const CORRECTED_VALKEY: [Version; 3] = [(7, 2, 11), (8, 0, 6), (8, 1, 4)];

/// Known flaws of the Lua of this version.
pub(super) fn flaws(reading: &Reading, fixes: &Fixes) -> Finding {
    let Ok(info) = &reading.info else { return Finding::unread(&reading.info) };
    let Some(product) = info.product() else { return Finding::skip("INFO does not say which version it is") };
    let (name, text) = product.split_once(' ').unwrap_or_default();
    let corrected: &[Version] = if name == "Valkey" { &CORRECTED_VALKEY } else { &CORRECTED_REDIS };
    let Some(version) = version(text) else { return Finding::skip(format!("cannot read `{product}`")) };
    match correction(version, corrected) {
        None => Finding::ok(format!("none known of {product}")),
        Some((major, minor, patch)) => Finding::warn(
            format!(
                "{product} has CVE-2025-49844, 46817, 46818 and 46819, unless its distribution corrected them: upgrade to \
                 {major}.{minor}.{patch} or later, and let nobody else run scripts"
            ),
            fixes.administer(&["ACL", "LIST"]),
        ),
    }
}

/// The release to upgrade to; `None` if this one is corrected.
fn correction(version: Version, corrected: &[Version]) -> Option<Version> {
    let branch = |(major, minor, _): Version| (major, minor);
    let is_corrected = corrected.iter().any(|it| branch(*it) == branch(version) && version >= *it);
    if is_corrected { None } else { corrected.iter().copied().find(|it| *it > version) }
}

fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

/// Differences that a buyer notices, and that spoil a sale.
const NOTICED_US: i64 = 1_000_000;
const WRONG_US: i64 = 10_000_000;
/// Clocks that differ by less are the same.
const SAME_US: i64 = 1000;

/// The server's clock beside this machine's.
pub(super) fn clock(reading: &Reading) -> Finding {
    let Ok(Clock { ahead_us, uncertainty_us }) = reading.clock else { return Finding::unread(&reading.clock) };
    let off = ahead_us.abs().saturating_sub(uncertainty_us);
    if off < SAME_US {
        let within = duration(Duration::from_micros(uncertainty_us.max(SAME_US).unsigned_abs()));
        return Finding::ok(format!("that of this machine, within {within}"));
    }
    let side = if ahead_us > 0 { "ahead of" } else { "behind" };
    let found = format!("{} {side} this machine", duration(Duration::from_micros(ahead_us.unsigned_abs())));
    // On whichever of the two is wrong.
    let fix = "timedatectl set-ntp true";
    match off {
        WRONG_US.. => Finding::fail(found, fix),
        NOTICED_US.. => Finding::warn(found, fix),
        _ => Finding::ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::doctor::row::CheckStatus;

    fn reading(ahead_us: i64, uncertainty_us: i64) -> Reading {
        Reading { clock: Ok(Clock { ahead_us, uncertainty_us }), ..Reading::unread() }
    }

    #[test]
    fn a_version_has_the_flaws_of_lua_until_its_branch_corrects_them() {
        let of = |text: &str, corrected: &[Version]| correction(version(text).unwrap(), corrected);
        for (text, upgrade) in [
            ("5.0.14", Some((6, 2, 20))),
            ("6.2.19", Some((6, 2, 20))),
            ("6.2.20", None),
            ("7.0.15", Some((7, 2, 11))),
            ("7.2.10", Some((7, 2, 11))),
            ("7.2.11", None),
            ("7.4.5", Some((7, 4, 6))),
            ("7.4.10", None),
            ("8.0.3", Some((8, 0, 4))),
            ("8.0.4", None),
            ("8.2.1", Some((8, 2, 2))),
            ("8.2.2", None),
            ("8.4.0", None),
            ("9.0.0", None),
        ] {
            assert_eq!(of(text, &CORRECTED_REDIS), upgrade, "Redis {text}");
        }
        for (text, upgrade) in [
            ("7.2.10", Some((7, 2, 11))),
            ("7.2.11", None),
            ("8.0.5", Some((8, 0, 6))),
            ("8.0.6", None),
            ("8.1.3", Some((8, 1, 4))),
            ("8.1.4", None),
            ("9.0.0", None),
        ] {
            assert_eq!(of(text, &CORRECTED_VALKEY), upgrade, "Valkey {text}");
        }
        assert_eq!(["8", "8.x.1", "unknown"].map(version), [None; 3]);
    }

    #[test]
    fn a_clock_is_wrong_only_by_more_than_the_round_trip_explains() {
        for (ahead, uncertainty, status) in [
            (200, 300, CheckStatus::Ok),
            (900_000, 0, CheckStatus::Ok),
            (-1_000_000, 0, CheckStatus::Warn),
            (1_500_000, 600_000, CheckStatus::Ok),
            (11_000_000, 500, CheckStatus::Fail),
            (-11_000_000, 2_000_000, CheckStatus::Warn),
        ] {
            assert_eq!(clock(&reading(ahead, uncertainty)).status, status, "{ahead} {uncertainty}");
        }
        assert_eq!(clock(&reading(-12_000_000, 0)).found, "12s behind this machine");
        assert_eq!(clock(&reading(20, 40)).found, "that of this machine, within 1.0 ms");
    }
}
