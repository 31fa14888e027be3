//! An activity's meta, with the field `rules` taken apart.

use std::collections::BTreeMap;

use super::TestRedis;

/// What the words of `rules` are, in turn.
const RULES: [&str; 7] = ["state", "ledger", "epoch", "per_user_limit", "total", "starts_at", "ends_at"];

impl TestRedis {
    /// All fields, with what `rules` packs by its name; what it says is none is absent.
    #[track_caller]
    pub fn meta(&self, key: &str) -> BTreeMap<String, String> {
        let mut fields = self.hgetall(key);
        let rules = fields.remove("rules").unwrap_or_default();
        let named = RULES.iter().zip(rules.split(' ')).filter(|(_, word)| !["", "-"].contains(word));
        fields.extend(named.map(|(name, word)| ((*name).to_owned(), word.to_owned())));
        fields
    }

    /// One of them.
    #[track_caller]
    pub fn rule(&self, key: &str, name: &str) -> Option<String> {
        self.meta(key).remove(name)
    }

    /// Changes one word of `rules`, which another script would not.
    #[track_caller]
    pub fn set_rule(&self, key: &str, name: &str, word: &str) {
        let rules = self.hget(key, "rules").expect("rules");
        let mut words: Vec<&str> = rules.split(' ').collect();
        words[RULES.iter().position(|known| *known == name).expect("a rule")] = word;
        self.cmd(("HSET", key, "rules", words.join(" ")));
    }
}
