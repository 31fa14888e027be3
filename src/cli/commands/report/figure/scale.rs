//! An axis of numbers.

use crate::cli::commands::report::words::rate;

/// Numbers from zero to a round one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    step: f64,
    /// The last tick.
    pub top: f64,
}

impl Scale {
    /// The fewest steps of 1, 2 or 5 with zeros that reach a number, up to a maximum.
    pub(super) fn new(largest: f64, most: f64) -> Self {
        let largest = largest.max(f64::MIN_POSITIVE);
        let wanted = largest / most;
        let power = 10_f64.powf(wanted.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= wanted * 0.999);
        let step = step.unwrap_or(power * 10.0);
        Self { step, top: (largest / step * 0.999).ceil() * step }
    }

    /// Every tick, from zero on.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let Self { step, top } = *self;
        (0..=20).map(move |tick| f64::from(tick) * step).take_while(move |tick| *tick <= top * 1.001)
    }
}

/// A number of few characters: `12,000`, `1.5M`.
pub(super) fn short(number: f64) -> String {
    const SIZES: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let found = SIZES.into_iter().find(|(size, _)| number >= *size).filter(|_| number >= 100_000.0);
    match found {
        // Ticks have one digit that is not zero, or two.
        Some((size, name)) => format!("{}{name}", (number / size * 100.0 + 1e-6).floor() / 100.0),
        None if number < 10.0 => format!("{}", (number * 1e4).round() / 1e4),
        None => rate(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_axis_are_short() {
        let shown = [0.0, 0.2, 2.5, 50.0, 12_000.0, 150_000.0, 2_000_000.0, 9e15].map(short);
        assert_eq!(shown, ["0", "0.2", "2.5", "50", "12,000", "150k", "2M", "9P"]);
    }

    #[test]
    fn ticks_are_round_and_reach_the_largest_number() {
        for (largest, ticks) in [
            (1000.0, &[0.0, 200.0, 400.0, 600.0, 800.0, 1000.0][..]),
            (22_000.0, &[0.0, 5_000.0, 10_000.0, 15_000.0, 20_000.0, 25_000.0]),
            (1.0, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (686.0, &[0.0, 200.0, 400.0, 600.0, 800.0]),
        ] {
            let scale = Scale::new(largest, 5.0);
            let found: Vec<f64> = scale.ticks().map(|tick| (tick * 10.0).round() / 10.0).collect();
            assert_eq!(found, ticks);
        }
        for largest in [0.0, 1e-9, 3.0, 9e15] {
            let scale = Scale::new(largest, 5.0);
            assert!(scale.top >= largest && (2..=11).contains(&scale.ticks().count()), "{largest}");
        }
    }
}
