//! What a script's header, its contract, says: commands, keys, and the arguments and codes of one order, from which calls for
//! backends are made.

use crate::model::layout::Kind;
use crate::script::Script;

/// A code that a script replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The number.
    pub code: i64,
    /// Its name, that of a status.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

impl Script {
    fn header(&self) -> &'static str {
        self.text.split_once("\n]]\n").map_or("", |(header, _)| header)
    }

    /// The commands that it needs.
    pub fn commands(&self) -> Vec<&'static str> {
        let list = self.header().split_once("Commands it needs").map_or("", |(_, list)| list);
        list.split(|c: char| !c.is_ascii_uppercase()).filter(|word| word.len() > 2).collect()
    }

    /// The commands without which it refuses an activity of this kind, in lower case.
    pub fn needs(&self, kind: Kind) -> Vec<String> {
        let list = self.header().split_once("Commands it needs").map_or("", |(_, list)| list);
        let list = list.split_once("on):").map_or(list, |(_, list)| list);
        // What comes after the list makes it quicker.
        let list = list.split_once('.').map_or(list, |(list, _)| list);
        let (all, of_sets) = list.split_once("; sets also").unwrap_or((list, ""));
        let of_sets = if kind.records_once() { of_sets } else { "" };
        let words = [all, of_sets].into_iter().flat_map(|part| part.split(|c: char| !c.is_ascii_uppercase()));
        // `adopt` counts the members of a set, or the fields of a hash.
        let is_used = |word: &&str| word.len() > 1 && (*word != "SCARD" || kind.records_once());
        words.filter(is_used).map(str::to_lowercase).collect()
    }

    /// The patterns of the keys that a drop-in names, in order.
    pub fn key_patterns(&self) -> Vec<&'static str> {
        let lines = self.header().lines().filter(|line| line.starts_with("  KEYS["));
        lines.filter_map(|line| line.split_whitespace().nth(3)).map(|pattern| pattern.trim_end_matches(':')).collect()
    }

    /// The names of the arguments of one order or hold, `ARGV[1]` first.
    pub fn arguments(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for line in self.header().lines().take_while(|line| !line.starts_with("  An item ")) {
            let prefix = format!("  ARGV[{}]  ", names.len() + 1);
            let Some(rest) = line.strip_prefix(&*prefix) else { continue };
            names.push(rest.split("  ").next().unwrap_or_default());
        }
        names
    }

    /// The codes that it replies to one order or hold.
    pub fn codes(&self) -> Vec<Code> {
        let lines = self.header().lines().skip_while(|line| !line.starts_with("  Returns for one "));
        lines.filter_map(code).collect()
    }
}

/// A line such as `   -3 out_of_stock      fewer are left`.
fn code(line: &'static str) -> Option<Code> {
    let (number, rest) = line.trim_start().split_once(' ')?;
    let (name, meaning) = rest.split_once("  ")?;
    Some(Code { code: number.parse().ok()?, name, meaning: meaning.trim_start() })
}

#[cfg(test)]
mod tests {
    use crate::model::layout::Kind;
    use crate::model::status::Status;
    use crate::script::{DEDUCT, HOLD, MULTI_DEDUCT, REFUND, SETTLE, Script};

    const ORDERS: [&Script; 5] = [
        DEDUCT.of(Kind::Hash),
        REFUND.of(Kind::Hash),
        MULTI_DEDUCT.of(Kind::Hash),
        HOLD.of(Kind::Hash),
        SETTLE.of(Kind::Hash),
    ];

    #[test]
    fn codes_of_headers_are_those_of_statuses_each_once() {
        for script in ORDERS {
            let codes = script.codes();
            assert!(codes.len() >= 6, "{}: {codes:?}", script.name);
            for (at, code) in codes.iter().enumerate() {
                assert_eq!(Status::of_code(code.code).map(Status::name), Some(code.name), "{}", script.name);
                assert!(!code.meaning.is_empty(), "{}: {code:?}", script.name);
                assert!(codes[..at].iter().all(|other| other.code != code.code), "{}: {code:?}", script.name);
            }
        }
    }
}
