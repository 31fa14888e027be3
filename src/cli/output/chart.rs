//! A chart of bars, drawn with block characters.

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lines of a chart of so many lines, from the top: a bar a column, as high as its value is of `full`. What is not zero
/// is seen.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn bars(values: &[f64], full: f64, height: usize) -> Vec<String> {
    let eighths = |value: f64| {
        let share = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
        let drawn = (share * (height * 8) as f64).floor() as usize;
        if value > 0.0 { drawn.max(1) } else { 0 }
    };
    let heights: Vec<usize> = values.iter().map(|value| eighths(*value)).collect();
    let line = |above: usize| heights.iter().map(|height| EIGHTHS[height.saturating_sub(above * 8).min(8)]).collect();
    (0..height).rev().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_share_and_never_vanish() {
        let values = [0.0, 0.001, 0.5, 1.0, 2.0, 3.0, 4.0, 9.0];
        assert_eq!(bars(&values, 4.0, 2), ["     ▄██", " ▁▂▄████"]);
        assert_eq!(bars(&[3.0, 0.0], 0.0, 1), ["▁ "]);
        assert!(bars(&[], 1.0, 2).iter().all(String::is_empty));
    }
}
