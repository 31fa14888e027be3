//! The sale over time: units sold, units a second, and what an operator did, over an axis of numbers.

use std::fmt::Display;

use crate::cli::commands::report::facts::{self, count, rate, units};
use crate::cli::commands::report::figure::{EDGE, SMALL, WIDTH};
use crate::cli::commands::report::read::Report;
use crate::cli::commands::report::row::MarkRow;
use crate::cli::commands::report::series::{Pace, Period, Series};
use crate::cli::output::format::svg::{Px, Svg, fitted, text_width};
use crate::model::time::DAY;
use crate::model::{Millis, Op};

/// From the heading of the first plot to the last line below the second.
pub(super) const HEIGHT: f64 = 530.0;

const LEFT: f64 = EDGE + 62.0;
const RIGHT: f64 = WIDTH - EDGE;
/// Below the heading there are two lines for the names of marks.
const SOLD_TOP: f64 = 64.0;
const SOLD_HIGH: f64 = 200.0;
const RATE_TOP: f64 = SOLD_TOP + SOLD_HIGH + 56.0;
const RATE_HIGH: f64 = 150.0;
/// Steps of the line, and bars.
const STEPS: usize = 420;
const BARS: usize = 140;

/// Both plots, with their common axis.
struct Plot<'a> {
    report: &'a Report,
    series: &'a Series,
    /// Where it begins in the picture.
    y: f64,
}

pub(super) fn draw(report: &Report, series: &Series, y: f64, svg: &mut Svg) {
    let plot = Plot { report, series, y };
    let bars = series.even_columns(BARS);
    plot.pauses(svg);
    plot.times(svg);
    plot.sold(svg);
    plot.rates(&bars, svg);
    plot.tips(&bars, svg);
    plot.marks(svg);
    let mut note = format!("time in {}", series.from.zone());
    note.extend(facts::later(report).map(|later| format!("; {later}")));
    svg.write(LEFT, y + RATE_TOP + RATE_HIGH + 42.0, "dim", &fitted(&note, RIGHT - LEFT, SMALL));
}

impl Plot<'_> {
    fn x(&self, at: Millis) -> f64 {
        let (from, to) = (self.series.from.get(), self.series.to.get());
        let since = at.get().clamp(from, to) - from;
        LEFT + (RIGHT - LEFT) * since as f64 / (to - from).max(1) as f64
    }

    fn is_shown(&self, at: Millis) -> bool {
        (self.series.from..self.series.to).contains(&at)
    }

    fn bottom(&self) -> f64 {
        self.y + RATE_TOP + RATE_HIGH
    }

    /// Top and height of each plot.
    fn areas(&self) -> [(f64, f64); 2] {
        [(self.y + SOLD_TOP, SOLD_HIGH), (self.y + RATE_TOP, RATE_HIGH)]
    }

    /// Times at which nobody could buy, as shades.
    fn pauses(&self, svg: &mut Svg) {
        let mut since = None;
        let mut shade = |from: Millis, to: Millis| {
            let (left, right) = (self.x(from), self.x(to));
            if right > left {
                let tip = format!("paused from {} to {}", from.clock(1), to.clock(1));
                for (top, high) in self.areas() {
                    svg.rect("paused", (left, top), (right - left, high), 0.0, Some(&tip));
                }
            }
        };
        // The end of the picture ends a pause as a resume does.
        let end = (Op::Resume, self.series.to);
        for (op, at) in self.report.sales.marks.iter().map(|mark| (mark.op, mark.time)).chain([end]) {
            match op {
                Op::Pause => _ = since.get_or_insert(at),
                Op::Resume => since.take().into_iter().for_each(|from| shade(from, at)),
                _ => {}
            }
        }
    }

    /// Lines at round times through both plots, with the times below.
    fn times(&self, svg: &mut Svg) {
        let ticks = Millis::ticks(self.series.from, self.series.to, 9);
        let mut free = f64::MIN;
        for tick in ticks {
            let x = self.x(tick.at);
            for (top, high) in self.areas() {
                svg.line("grid", (x, top), (x, top + high));
            }
            let half = text_width(&tick.label, SMALL) / 2.0;
            if x - half > free && x + half < WIDTH - 4.0 {
                svg.write(x, self.bottom() + 20.0, "dim mid", &tick.label);
                free = x + half + 6.0;
            }
        }
    }

    /// Lines at round numbers, with the numbers at the left.
    fn numbers(&self, scale: &Scale, top: f64, high: f64, svg: &mut Svg) {
        for tick in scale.ticks() {
            let y = top + high - high * tick / scale.top;
            let class = if tick == 0.0 { "axis" } else { "grid" };
            svg.line(class, (LEFT, y), (RIGHT, y));
            svg.write(LEFT - 8.0, y + 4.0, "dim end", &short(tick));
        }
    }

    fn sold(&self, svg: &mut Svg) {
        let (series, top) = (self.series, self.y + SOLD_TOP);
        let steps = series.columns(STEPS);
        let held = |period: &Period| period.sold.max(0) as f64;
        let total_of = |period: &Period| period.total.map(|total| total as f64);
        let all = || series.periods.iter();
        let largest = all().map(held).chain(all().filter_map(total_of)).fold(1.0, f64::max);
        let scale = Scale::new(largest, 5.0);
        svg.write(EDGE, self.y + 18.0, "head", "Units sold");
        self.numbers(&scale, top, SOLD_HIGH, svg);
        let y = |number: f64| top + SOLD_HIGH - SOLD_HIGH * number / scale.top;
        // A step at the end of each period: until then nobody knows better.
        let path = |first: f64, value: &dyn Fn(&Period) -> Option<f64>| {
            let mut path = format!("M{} {}", Px(LEFT), Px(y(first)));
            let mut last = first;
            for period in &steps {
                let Some(next) = value(period) else { continue };
                if next != last {
                    let x = Px(self.x(period.to));
                    path += &format!("H{}L{x} {}", Px(self.x(period.from)), Px(y(next)));
                    last = next;
                }
            }
            path + &format!("H{}", Px(RIGHT))
        };
        let line = path(series.sold_before.max(0) as f64, &|period| Some(held(period)));
        let area = format!("{line}V{}H{}Z", Px(y(0.0)), Px(LEFT));
        svg.shape("path", &[("class", &"area"), ("d", &area)], None);
        if let Some(before) = series.total_before {
            let total = path(before as f64, &total_of);
            svg.shape("path", &[("class", &"total"), ("d", &total)], None);
            // At the left, where little is sold yet. Marks name what it becomes.
            svg.write(LEFT + 6.0, y(before as f64) + 15.0, "dim", &format!("total {}", count(before.unsigned_abs())));
        }
        svg.shape("path", &[("class", &"sold"), ("d", &line)], None);
    }

    fn rates(&self, bars: &[Period], svg: &mut Svg) {
        let top = self.y + RATE_TOP;
        let pace = Pace::of(bars);
        svg.write(EDGE, top - 18.0, "head", &format!("Units {}", pace.name));
        let largest = bars.iter().map(|bar| pace.bought(bar).max(pace.returned(bar))).fold(f64::MIN_POSITIVE, f64::max);
        let scale = Scale::new(largest, 4.0);
        self.numbers(&scale, top, RATE_HIGH, svg);
        let has_returns = bars.iter().any(|bar| bar.returned > 0);
        let mut swatch = LEFT + 74.0;
        for name in ["bought", "returned"].into_iter().take(1 + usize::from(has_returns)) {
            svg.rect(name, (swatch, top - 28.0), (11.0, 11.0), 0.0, None);
            svg.write(swatch + 17.0, top - 18.0, "dim", name);
            swatch += 34.0 + text_width(name, SMALL);
        }
        for bar in bars {
            let (left, right) = (self.x(bar.from), self.x(bar.to));
            let wide = (right - left - 1.0).max(0.8);
            // Returned units are a narrower bar in front: mostly they are few.
            let (bought, returned) = (pace.bought(bar), pace.returned(bar));
            for (class, rate, at, wide) in
                [("bought", bought, left, wide), ("returned", returned, left + wide * 0.3, wide * 0.7)]
            {
                if rate > 0.0 {
                    let high = (RATE_HIGH * rate / scale.top).max(1.5);
                    svg.rect(class, (at, top + RATE_HIGH - high), (wide, high), 0.0, None);
                }
            }
        }
    }

    /// What is shown of a period that is pointed at.
    fn tips(&self, bars: &[Period], svg: &mut Svg) {
        let (top, bottom) = (self.y + SOLD_TOP, self.bottom());
        let pace = Pace::of(bars);
        for bar in bars {
            let (left, right) = (self.x(bar.from), self.x(bar.to));
            let apart = bar.to.get() - bar.from.get();
            let clock = |at: Millis| if apart < DAY { at.clock(apart.min(1000)) } else { at.to_string() };
            let mut tip = format!(
                "{} to {}: {} bought ({} {})",
                clock(bar.from),
                clock(bar.to),
                units(bar.bought),
                rate(pace.bought(bar)),
                pace.name
            );
            if bar.returned > 0 {
                tip += &format!(", {} returned", count(bar.returned));
            }
            tip += &format!("; {} sold by then", count(u64::try_from(bar.sold).unwrap_or_default()));
            svg.rect("tip", (left, top), (right - left, bottom - top), 0.0, Some(&tip));
        }
    }

    /// Everything but orders, each as a line with its name above it if there is room.
    fn marks(&self, svg: &mut Svg) {
        let mut marks: Vec<(Millis, &str, String, String)> = Vec::new();
        for mark in self.report.sales.marks.iter().map(MarkRow::new).filter(|mark| self.is_shown(mark.time)) {
            if matches!(mark.op, Op::Preheat | Op::Adopt) {
                continue;
            }
            let by = mark.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            let why = mark.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let tip = format!("{} {}{by}{why}", mark.time.clock(1), mark.what());
            marks.push((mark.time, "mark", mark.what(), tip));
        }
        if let Some(at) = self.report.sales.sold_out_at.filter(|at| self.is_shown(*at)) {
            marks.push((at, "soldout", "sold out".to_owned(), format!("{} sold out", at.clock(1))));
        }
        marks.sort_by_key(|(at, class, ..)| (*at, *class));
        // The right edges of the two lines of names.
        let mut free = [f64::MIN; 2];
        for (at, class, name, tip) in marks {
            let x = self.x(at);
            let top = self.y + SOLD_TOP;
            svg.line(class, (x, top - 6.0), (x, top + SOLD_HIGH));
            svg.line(class, (x, self.y + RATE_TOP), (x, self.bottom()));
            let dot: &[(&str, &dyn Display)] =
                &[("class", &"dot"), ("cx", &Px(x)), ("cy", &Px(top - 6.0)), ("r", &Px(4.0))];
            svg.shape("circle", dot, Some(&tip));
            let long = text_width(&name, SMALL);
            let left = (x - long / 2.0).clamp(EDGE, (WIDTH - EDGE - long).max(EDGE));
            if let Some(row) = (0..2).find(|row| free[*row] + 8.0 < left) {
                free[row] = left + long;
                svg.write(left, top - if row == 0 { 16.0 } else { 31.0 }, "small", &name);
            }
        }
    }
}

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
