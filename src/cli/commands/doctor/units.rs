//! Amounts as people read them.

use std::time::Duration;

/// Bytes in the largest unit that leaves a digit before the point.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| count >= *size) else { return format!("{count} B") };
    let tenths = count.saturating_mul(10) / size;
    match (tenths / 10, tenths % 10) {
        (whole, tenth) if tenth == 0 || whole >= 100 => format!("{whole} {unit}"),
        (whole, tenth) => format!("{whole}.{tenth} {unit}"),
    }
}

/// A duration in its largest two units, such as `2d 3h`; below a second in ms.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 {
        let micros = duration.as_micros();
        return if micros >= 10_000 {
            format!("{} ms", micros / 1000)
        } else {
            format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
        };
    }
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let mut rest = seconds;
    let mut words = Vec::new();
    for (unit, size) in units {
        if rest >= size {
            words.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    words.truncate(2);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        let shown: Vec<String> = [0, 1023, 1024, 1_300_000, 268_435_456, 64 << 30].into_iter().map(bytes).collect();
        assert_eq!(shown, ["0 B", "1023 B", "1 KB", "1.2 MB", "256 MB", "64 GB"]);
        let of = |millis| duration(Duration::from_millis(millis));
        assert_eq!(
            [of(0), of(7), of(12), of(1000), of(61_000), of(93_784_000)],
            ["0.0 ms", "7.0 ms", "12 ms", "1s", "1m 1s", "1d 2h"]
        );
    }
}
