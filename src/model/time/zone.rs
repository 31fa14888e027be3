//! The time zone that people read and write times in.

use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use crate::model::time::Millis;

/// Time zones of the operating system; those of this program if it has none.
const SYSTEM: &str = "/usr/share/zoneinfo";
/// The operating system's own time zone: a link into its time zones, or a copy of one.
const LOCAL: &str = "/etc/localtime";

static PROCESS: OnceLock<Zone> = OnceLock::new();

/// A time zone, and the text that it was given as.
#[derive(Debug, Clone)]
pub(crate) struct Zone(TimeZone, String);

/// A name that no time zone has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no known time zone: {}", .0.escape_debug(), Self::EXPECTED)]
pub(crate) struct UnknownZone(String);

impl UnknownZone {
    /// What a name must be, for hints.
    pub(crate) const EXPECTED: &'static str =
        "expected a name such as Asia/Shanghai or UTC, or an offset such as +08:00";
}

impl Zone {
    /// The operating system's time zone; UTC if it has none.
    pub(crate) fn of_system() -> Self {
        let linked = std::fs::read_link(LOCAL).ok();
        let name = linked.as_ref().and_then(|path| path.to_str()?.split_once("zoneinfo/").map(|(_, name)| name));
        let named = name.and_then(|name| name.parse().ok());
        named.or_else(|| of_file(Path::new(LOCAL), "")).unwrap_or_else(Self::utc)
    }

    /// What `TZ` may have: as other programs read it, `UTC+8` too.
    pub(crate) fn of_environment(text: &str) -> Option<Self> {
        text.parse().ok().or_else(|| Self::of_posix(text))
    }

    /// A rule such as `CST-8`.
    fn of_posix(rule: &str) -> Option<Self> {
        TimeZone::posix(rule).ok().map(|zone| Self(zone, rule.to_owned()))
    }

    fn utc() -> Self {
        Self(TimeZone::UTC, "UTC".to_owned())
    }

    /// As it was given.
    pub(crate) fn text(&self) -> &str {
        &self.1
    }

    /// Makes it the zone of the process: the first one counts.
    pub(crate) fn use_in_process(self) {
        let _ = PROCESS.set(self);
    }

    /// The zone of the process.
    pub(crate) fn of_process() -> &'static Self {
        PROCESS.get_or_init(Self::utc)
    }

    /// Seconds east of Greenwich at an instant.
    pub(crate) fn offset_at(&self, at: Timestamp) -> i32 {
        self.0.to_offset(at).seconds()
    }

    /// The instant at which the zone's clocks show that. A time that is skipped in spring is an hour later, one that
    /// comes twice in autumn is the first.
    pub(crate) fn instant(&self, civil: DateTime) -> Millis {
        let seconds = match self.0.to_ambiguous_timestamp(civil).compatible() {
            Ok(at) => return Millis(at.as_millisecond()),
            // The last hours of the year 9999.
            Err(_) => self.offset_at(Timestamp::MAX),
        };
        Millis::at_offset(civil, seconds)
    }

    /// What the zone's clocks show at an instant.
    pub(crate) fn civil(&self, at: Millis) -> DateTime {
        self.0.to_datetime(at.timestamp())
    }
}

impl FromStr for Zone {
    type Err = UnknownZone;

    /// A name, a POSIX rule such as `CST-8`, a file's path, or an offset; with or without the `:` that `TZ` may have. `UTC+8`
    /// is none: POSIX reads it as 8 hours behind Greenwich, and who types it means 8 hours ahead.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.strip_prefix(':').unwrap_or(text);
        let path = Path::new(name);
        if path.is_absolute() {
            return of_file(path, name).ok_or_else(|| UnknownZone(text.to_owned()));
        }
        let named = |zone| Self(zone, name.to_owned());
        let is_greenwich = |name: &str| name.starts_with("UTC") || name.starts_with("GMT");
        let is_plain = !name.is_empty() && !name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
        // The system's first: it may be newer than what was built in.
        is_plain
            .then(|| of_file(&Path::new(SYSTEM).join(name), name))
            .flatten()
            .or_else(|| TimeZone::get(name).ok().map(named))
            .or_else(|| of_offset(name))
            .or_else(|| if is_greenwich(name) { None } else { Self::of_posix(name) })
            .ok_or_else(|| UnknownZone(text.to_owned()))
    }
}

/// A file in the format of time zones.
fn of_file(path: &Path, name: &str) -> Option<Zone> {
    /// The largest has some kilobytes; a device or a pipe has no size.
    const MOST: u64 = 1 << 20;
    let about = std::fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > MOST {
        return None;
    }
    TimeZone::tzif(name, &std::fs::read(path).ok()?).ok().map(|zone| Zone(zone, name.to_owned()))
}

/// `+08:00`.
fn of_offset(text: &str) -> Option<Zone> {
    let at_midnight: Millis =
        text.starts_with(['+', '-']).then(|| format!("1970-01-01T00:00:00{text}").parse().ok())??;
    let seconds = i32::try_from(-at_midnight.0 / 1000).ok()?;
    Offset::from_seconds(seconds).ok().map(|offset| Zone(TimeZone::fixed(offset), text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_rules_and_offsets() {
        let at = Timestamp::from_second(1_794_326_400).unwrap();
        for (name, seconds) in [
            ("Asia/Shanghai", 28_800),
            (":Asia/Shanghai", 28_800),
            ("asia/shanghai", 28_800),
            ("UTC", 0),
            ("CST-8", 28_800),
            ("EST5EDT,M3.2.0,M11.1.0", -18_000),
            ("<+0545>-5:45", 20_700),
            ("+08:00", 28_800),
            ("-03:30", -12_600),
        ] {
            assert_eq!(name.parse::<Zone>().unwrap().offset_at(at), seconds, "{name}");
        }
        for name in
            ["", "Mars/Base", "../../etc/passwd", "/etc/passwd", "+26:00", "Asia/", "8", ".", "./UTC", "Asia//Tokyo"]
        {
            assert!(name.parse::<Zone>().is_err(), "{name}");
        }
    }

    /// A file of a zone without summer time, eight hours east of Greenwich.
    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        // Once for readers of 32 bits, and again for all others.
        for _ in 0..2 {
            file.extend_from_slice(b"TZif2");
            file.extend_from_slice(&[0; 15]);
            [0u32, 0, 0, 0, 1, 4].iter().for_each(|count| file.extend_from_slice(&count.to_be_bytes()));
            file.extend_from_slice(&28_800i32.to_be_bytes());
            file.extend_from_slice(b"\0\0CST\0");
        }
        file.extend_from_slice(b"\nCST-8\n");
        file
    }

    #[test]
    fn a_zone_can_be_a_file_that_is_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let zone = |path: &Path| path.to_str().unwrap().parse::<Zone>();
        let path = folder.path().join("Shanghai");
        std::fs::write(&path, file()).unwrap();
        let read = zone(&path).unwrap();
        assert_eq!((read.offset_at(Timestamp::UNIX_EPOCH), read.text()), (28_800, path.to_str().unwrap()));
        assert!(zone(folder.path()).is_err());
        // No time zone is that long.
        let mut long = file();
        long.resize((1 << 20) + 1, b'\n');
        std::fs::write(&path, long).unwrap();
        assert!(zone(&path).is_err());
    }
}
