//! Text for people, broken into lines between words.

use crate::cli::output::cell::width;

/// Lines of at most so many columns; a word that is longer has a line of its own.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("abcdef gh", 4), ["abcdef", "gh"]);
        assert_eq!(wrapped("双十一 手机", 6), ["双十一", "手机"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
