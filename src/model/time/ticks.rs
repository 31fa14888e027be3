//! An axis of time: instants at round times of the zone's clock, and how they are written.

use crate::model::time::{Millis, Zone};

// In milliseconds.
pub(crate) const SECOND: u64 = 1000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

/// What is less far apart has dates without their year.
const HUNDRED_DAYS: u64 = 100 * DAY;

/// Times between two ticks that people count in: units in milliseconds, and how many of each, the shortest first.
const STEPS: [(u64, &[u64]); 5] = [
    (1, &[10, 20, 50, 100, 200, 500]),
    (SECOND, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2, 7, 14, 30, 100, 200, 365, 730, 1825]),
];

fn steps() -> impl Iterator<Item = u64> {
    STEPS.into_iter().flat_map(|(unit, counts)| counts.iter().map(move |count| unit * count))
}

/// A place on an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// When it is.
    pub at: Millis,
    /// What its label says: a time of day, or a date.
    pub label: String,
}

impl Millis {
    /// The time of day in the zone of the process, with as many digits as instants so far apart need.
    pub fn clock(self, apart: u64) -> String {
        self.clock_in(Zone::of_process(), apart)
    }

    /// Ticks from one instant to another, `most` and one of them at most, with the zone of the process.
    pub fn ticks(from: Self, to: Self, most: usize) -> Vec<Tick> {
        ticks(Zone::of_process(), from, to, most)
    }

    /// The date in the zone of the process.
    pub fn date(self) -> String {
        Zone::of_process().civil(self).strftime("%Y-%m-%d").to_string()
    }

    /// The zone of the process and its offset at this instant, such as `Asia/Shanghai (+08:00)`.
    pub fn zone(self) -> String {
        self.zone_in(Zone::of_process())
    }

    fn zone_in(self, zone: &Zone) -> String {
        let text = self.in_zone(zone);
        let offset = &text[text.len().saturating_sub(6)..];
        match zone.text() {
            "" => format!("UTC{offset}"),
            name if name == offset || name == "UTC" => name.to_owned(),
            name => format!("{name} ({offset})"),
        }
    }

    fn clock_in(self, zone: &Zone, apart: u64) -> String {
        let format = match apart {
            0..10 => "%H:%M:%S%.3f",
            10..100 => "%H:%M:%S%.2f",
            100..SECOND => "%H:%M:%S%.1f",
            SECOND..MINUTE => "%H:%M:%S",
            MINUTE..DAY => "%H:%M",
            DAY..HUNDRED_DAYS => "%m-%d",
            _ => "%Y-%m-%d",
        };
        let civil = zone.civil(self);
        let is_midnight = civil.time() == crate::model::time::MIDNIGHT;
        // In a row of hours, a new day is worth more than its hour.
        let format = if (HOUR..DAY).contains(&apart) && is_midnight { "%m-%d" } else { format };
        civil.strftime(format).to_string()
    }
}

fn ticks(zone: &Zone, from: Millis, to: Millis, most: usize) -> Vec<Tick> {
    let offset = i64::from(zone.offset_at(from.timestamp())) * 1000;
    let length = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
    let wanted = length / (most.max(1) as u64);
    let step = steps().find(|step| *step >= wanted).unwrap_or(length.max(1));
    let Ok(signed) = i64::try_from(step) else { return Vec::new() };
    let local = from.0.saturating_add(offset);
    let first = local.saturating_add((-local).rem_euclid(signed)).saturating_sub(offset);
    let is_one_year = zone.civil(from).year() == zone.civil(to).year();
    let apart = if step < DAY || is_one_year { step } else { step.max(HUNDRED_DAYS) };
    let instants =
        (0..).map_while(|step: i64| first.checked_add(step.checked_mul(signed)?)).take_while(|at| *at <= to.0);
    instants.take(most + 1).map(|at| Tick { at: Millis(at), label: Millis(at).clock_in(zone, apart) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: &str, to: &str, zone: &str, most: usize) -> Vec<String> {
        let at = |text: &str| text.parse::<Millis>().unwrap();
        ticks(&zone.parse().unwrap(), at(from), at(to), most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_times_of_the_zones_clock() {
        assert_eq!(
            labels("2026-11-11T00:00:00+08:00", "2026-11-11T00:00:03.5+08:00", "Asia/Shanghai", 4),
            ["00:00:00", "00:00:01", "00:00:02", "00:00:03"]
        );
        assert_eq!(
            labels("2026-11-10T16:00:00.1Z", "2026-11-10T16:00:01.05Z", "Asia/Shanghai", 3),
            ["00:00:00.5", "00:00:01.0"]
        );
        // From the first to the last, both on the axis.
        let seconds = labels("2026-11-11T00:00:00Z", "2026-11-11T00:00:04Z", "UTC", 4);
        assert_eq!(seconds, ["00:00:00", "00:00:01", "00:00:02", "00:00:03", "00:00:04"]);
        assert_eq!(labels("2026-11-10T12:10:00Z", "2026-11-10T14:00:00Z", "+05:45", 3), ["18:00", "19:00"]);
        assert_eq!(
            labels("2026-11-10T19:00:00Z", "2026-11-11T07:00:00Z", "UTC", 6),
            ["20:00", "22:00", "11-11", "02:00", "04:00", "06:00"]
        );
        assert_eq!(
            labels("2026-11-10T19:00:00Z", "2026-11-14T07:00:00Z", "UTC", 6),
            ["11-11", "11-12", "11-13", "11-14"]
        );
        assert_eq!(labels("2026-12-30T00:00:00Z", "2027-01-02T00:00:00Z", "UTC", 1), ["2026-12-31"]);
        assert_eq!(labels("2024-01-01T00:00:00Z", "2026-03-11T00:00:00Z", "UTC", 3), ["2024-12-18", "2025-12-18"]);
    }

    #[test]
    fn there_are_never_more_than_have_room() {
        for length in [1, 7, 999, 1000, 61_000, 4_000_000, 90_000_000, 10_000_000_000, 200_000_000_000_000] {
            for most in [1, 2, 5, 12] {
                let (from, to) = (Millis(1_700_000_000_123), Millis(1_700_000_000_123 + length));
                let found = ticks(&"Asia/Shanghai".parse().unwrap(), from, to, most);
                assert!(found.len() <= most + 1, "{length} {most}: {found:?}");
                assert!(found.iter().all(|tick| (from..=to).contains(&tick.at)), "{length} {most}");
            }
        }
    }

    #[test]
    fn a_time_of_day_has_the_digits_that_are_needed() {
        let at: Millis = "2026-11-11T00:00:03.412+08:00".parse().unwrap();
        let zone = "Asia/Shanghai".parse().unwrap();
        let shown: Vec<String> = [1, 20, 200, 1000, 60_000, DAY].map(|apart| at.clock_in(&zone, apart)).into();
        assert_eq!(shown, ["00:00:03.412", "00:00:03.41", "00:00:03.4", "00:00:03", "00:00", "11-11"]);
    }

    #[test]
    fn steps_are_parts_of_a_day_or_whole_days() {
        let steps: Vec<u64> = steps().collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(steps.iter().all(|step| 86_400_000 % step == 0 || step % 86_400_000 == 0));
        assert!(steps.contains(&60_000) && steps.contains(&3_600_000) && steps.contains(&86_400_000));
    }

    #[test]
    fn the_zone_of_the_process_is_utc_unless_one_is_set() {
        let at: Millis = "2026-11-11T00:00:03.412+08:00".parse().unwrap();
        assert_eq!((at.clock(1000), at.date(), at.zone()), ("16:00:03".into(), "2026-11-10".into(), "UTC".into()));
        let ticks = Millis::ticks(at.to_second(), at, 1);
        assert_eq!(ticks, [Tick { at: at.to_second(), label: "16:00:03.0".to_owned() }]);
    }

    #[test]
    fn a_zone_is_named_with_its_offset_unless_its_name_says_it() {
        let at: Millis = "2026-11-11T00:00:00Z".parse().unwrap();
        let named = |zone: &str| at.zone_in(&zone.parse().unwrap());
        assert_eq!(named("Asia/Shanghai"), "Asia/Shanghai (+08:00)");
        assert_eq!(["+08:00", "-03:30", "UTC"].map(named), ["+08:00", "-03:30", "UTC"]);
    }
}
