//! What is done to the arguments of a call, and to the data that it finds.

use proptest::prelude::*;

use super::{calls, hostile};
use crate::support::{Layout, TestRedis};

/// A change of the arguments. Places count from the end of the list on, if there are fewer.
#[derive(Clone, Debug)]
pub enum Edit {
    Replace(usize, Vec<u8>),
    Remove(usize),
    Insert(usize, Vec<u8>),
    Swap(usize, usize),
    /// One text of an argument that is a JSON array of texts, written with escapes of JSON or as it is.
    Element {
        place: usize,
        nth: usize,
        text: Vec<u8>,
        raw: bool,
    },
    /// The array, with white space between its texts.
    Spaces(usize),
    /// One text of an array becomes that before it.
    Repeat(usize, usize),
}

pub fn edit() -> impl Strategy<Value = Edit> {
    let place = || 0..40_usize;
    prop_oneof![
        6 => (place(), hostile()).prop_map(|(place, text)| Edit::Replace(place, text)),
        1 => place().prop_map(Edit::Remove),
        1 => (place(), hostile()).prop_map(|(place, text)| Edit::Insert(place, text)),
        1 => (place(), place()).prop_map(|(one, other)| Edit::Swap(one, other)),
        4 => (place(), 0..8_usize, hostile(), any::<bool>())
            .prop_map(|(place, nth, text, raw)| Edit::Element { place, nth, text, raw }),
        1 => place().prop_map(Edit::Spaces),
        2 => (place(), 0..8_usize).prop_map(|(place, nth)| Edit::Repeat(place, nth)),
    ]
}

/// The texts of a JSON array of texts at or behind a place, and where it is.
fn array(args: &[Vec<u8>], place: usize) -> Option<(usize, Vec<String>)> {
    let is_array = |(at, arg): (usize, &Vec<u8>)| Some((at, serde_json::from_slice(arg).ok()?));
    let found: Vec<(usize, Vec<String>)> = args.iter().enumerate().filter_map(is_array).collect();
    found.into_iter().filter(|(_, texts)| !texts.is_empty()).cycle().nth(place % args.len().max(1))
}

impl Edit {
    pub fn apply(&self, args: &mut Vec<Vec<u8>>) {
        if args.is_empty() {
            return;
        }
        let length = args.len();
        match self {
            Self::Replace(place, text) => args[place % length].clone_from(text),
            Self::Remove(place) => drop(args.remove(place % length)),
            Self::Insert(place, text) => args.insert(place % (length + 1), text.clone()),
            Self::Swap(one, other) => args.swap(one % length, other % length),
            Self::Element { place, nth, text, raw } => {
                let Some((at, mut texts)) = array(args, *place) else { return };
                let nth = nth % texts.len();
                texts[nth] = if *raw { "\u{1}".to_owned() } else { String::from_utf8_lossy(text).into_owned() };
                args[at] = serde_json::to_vec(&texts).unwrap();
                if *raw {
                    // As it is: what JSON would escape, and what is no text at all.
                    let before = args[at].windows(6).position(|window| window == b"\\u0001").unwrap();
                    args[at].splice(before..before + 6, text.iter().copied());
                }
            }
            Self::Spaces(place) => {
                let Some((at, texts)) = array(args, *place) else { return };
                let texts: Vec<String> = texts.iter().map(|text| serde_json::to_string(text).unwrap()).collect();
                args[at] = format!("[ {} ]", texts.join(", ")).into_bytes();
            }
            Self::Repeat(place, nth) => {
                let Some((at, mut texts)) = array(args, *place) else { return };
                let nth = nth % texts.len();
                texts[nth] = texts[nth.saturating_sub(1)].clone();
                args[at] = serde_json::to_vec(&texts).unwrap();
            }
        }
    }
}

/// A change of the data.
#[derive(Clone, Debug)]
pub enum Damage {
    /// A key holds a list.
    WrongType(usize),
    Gone(usize),
    Stock(Vec<u8>),
    /// A word of a field that holds several, or the whole field.
    Meta(usize, Vec<u8>),
    Field {
        key: usize,
        nth: usize,
        text: Vec<u8>,
    },
    NoField {
        key: usize,
        nth: usize,
    },
    /// A ledger that has no entry.
    EmptyLedger,
}

pub fn damage(layout: Layout) -> impl Strategy<Value = Damage> {
    let keys = layout.key_count();
    let hashes: Vec<usize> = (3..=keys).filter(|key| *key != 4 && (*key != 5 || layout.kind == "hash")).collect();
    let hash = proptest::sample::select(hashes);
    prop_oneof![
        1 => (1..=keys).prop_map(Damage::WrongType),
        1 => (1..=keys).prop_map(Damage::Gone),
        2 => hostile().prop_map(Damage::Stock),
        4 => (0..12_usize, hostile()).prop_map(|(word, text)| Damage::Meta(word, text)),
        5 => (hash.clone(), 0..6_usize, hostile()).prop_map(|(key, nth, text)| Damage::Field { key, nth, text }),
        1 => (hash, 0..6_usize).prop_map(|(key, nth)| Damage::NoField { key, nth }),
        1 => Just(Damage::EmptyLedger),
    ]
}

impl Damage {
    pub fn apply(&self, redis: &TestRedis, layout: Layout) {
        let key = |number: usize| layout.key(number, "1");
        let is_hash = |number: usize| ["hash", "none"].contains(&redis.ask::<String>(("TYPE", key(number))).as_str());
        let field = |number: usize, nth: usize| calls::fields(number)[nth % calls::fields(number).len()];
        match self {
            Self::WrongType(number) => {
                redis.cmd(("DEL", key(*number)));
                redis.cmd(("RPUSH", key(*number), "x"));
            }
            Self::Gone(number) => drop(redis.cmd(("DEL", key(*number)))),
            Self::Stock(text) => drop(redis.cmd(("SET", key(1), &text[..]))),
            Self::Meta(word, text) => {
                let meta = redis.hgetall(&key(2));
                let Some((name, value)) = meta.iter().nth(word % meta.len().max(1)) else { return };
                let mut words: Vec<&[u8]> = value.split(' ').map(str::as_bytes).collect();
                let at = word % words.len();
                words[at] = text;
                redis.cmd(("HSET", key(2), name, words.join(&b' ')));
            }
            Self::Field { key: number, nth, text } if is_hash(*number) => {
                redis.cmd(("HSET", key(*number), field(*number, *nth), &text[..]));
            }
            Self::NoField { key: number, nth } if is_hash(*number) => {
                redis.cmd(("HDEL", key(*number), field(*number, *nth)));
            }
            Self::EmptyLedger => drop(redis.cmd(("XTRIM", key(4), "MAXLEN", 0))),
            Self::Field { .. } | Self::NoField { .. } => {}
        }
    }
}
