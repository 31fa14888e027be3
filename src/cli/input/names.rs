//! A user's words in messages: quoted, and held against the names that are known.

/// A user's text in backticks, short enough for one line and safe for a terminal.
pub fn quoted(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown = String::from("`");
    for character in text.chars().take(MOST) {
        match character {
            '\'' | '"' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown.push_str(if text.chars().nth(MOST).is_some() { "…`" } else { "`" });
    shown
}

/// The known name that a mistaken one was probably meant to be, as a hint.
pub fn did_you_mean(given: &str, known: &[&str]) -> Option<String> {
    // `perUserLimit`, `per-user-limit` and `limit` are all meant to be `per_user_limit`.
    let plain = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let given = plain(given);
    let likeness = |name: &&&str| {
        let name = plain(name);
        let part = given.len() > 2 && (name.contains(&given) || given.contains(&name));
        if part { 1.0 } else { strsim::jaro_winkler(&given, &name) }
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) > 0.8).then(|| format!("did you mean `{best}`?"))
}

/// Names in backticks, with commas.
pub fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistaken_name_is_recognised() {
        let known = ["id", "title", "stock", "per_user_limit", "starts_at"];
        for (given, meant) in [
            ("perUserLimit", "per_user_limit"),
            ("limit", "per_user_limit"),
            ("stok", "stock"),
            ("start_at", "starts_at"),
        ] {
            assert_eq!(did_you_mean(given, &known), Some(format!("did you mean `{meant}`?")));
        }
        assert_eq!(did_you_mean("colour", &known), None);
    }

    #[test]
    fn a_quoted_text_is_short_and_safe() {
        assert_eq!(quoted("a\u{1b}[31m\"b\""), "`a\\u{1b}[31m\"b\"`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 63);
    }
}
