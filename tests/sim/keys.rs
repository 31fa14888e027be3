//! Keys in memory, and the commands of Redis that scripts and audits use on them.
//!
//! What is simulated behaves as a server does, with its errors; the rest is a panic, never a guess. A scan returns all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

pub type Bytes = Vec<u8>;

/// What a command replies.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(Bytes),
    Status(&'static str),
    Error(String),
    Array(Vec<Reply>),
    /// A score, if the script asked for protocol 3.
    Double(f64),
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

/// A stream: its entries, and the last id that it gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    pub entries: BTreeMap<StreamId, Vec<Bytes>>,
    pub last: StreamId,
    pub groups: BTreeMap<Bytes, Group>,
}

/// Who reads a stream together, as one consumer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// The last entry that it got.
    pub read: StreamId,
    /// What it got and did not acknowledge.
    pub pending: BTreeSet<StreamId>,
}

/// Milliseconds and a number.
pub type StreamId = (u64, u64);

/// What a key holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    Text(Bytes),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(BTreeSet<Bytes>),
    Sorted(BTreeMap<Bytes, f64>),
    Stream(Stream),
    /// What nobody reads.
    List,
}

/// All keys of a server, and when those that expire are gone, in ms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys(pub BTreeMap<Bytes, Data>, pub BTreeMap<Bytes, u64>);

/// The clock in microseconds, and the protocol that the caller asked for.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    pub us: u64,
    pub protocol_3: bool,
}

type Result<T = Reply> = std::result::Result<T, String>;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NO_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
const SYNTAX: &str = "ERR syntax error";
const BUSY_GROUP: &str = "BUSYGROUP Consumer Group name already exists";
const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist.";
const WRONG_COUNT: &str = "ERR Wrong number of args calling Redis command from script";

/// Whether a command changes keys.
pub fn is_write(name: &str) -> bool {
    matches!(
        name,
        "SET"
            | "DECRBY"
            | "INCRBY"
            | "DECR"
            | "HINCRBY"
            | "HSET"
            | "HDEL"
            | "SADD"
            | "SREM"
            | "ZADD"
            | "ZREM"
            | "XADD"
            | "XTRIM"
            | "XGROUP"
            | "XREADGROUP"
            | "XACK"
            | "UNLINK"
            | "DEL"
            | "PERSIST"
            | "PEXPIRE"
    )
}

/// How many arguments a command takes, or, below zero, takes at least.
fn arity(name: &str) -> Option<isize> {
    Some(match name {
        "TIME" => 0,
        "GET" | "TYPE" | "HLEN" | "HGETALL" | "SCARD" | "SMEMBERS" | "XLEN" | "PTTL" | "PERSIST" | "DECR" => 1,
        "HINCRBY" => 3,
        "PEXPIRE" | "XINFO" | "DECRBY" | "INCRBY" | "HGET" | "HEXISTS" | "SISMEMBER" => 2,
        "EXISTS" | "UNLINK" | "DEL" => -1,
        "SET" | "HMGET" | "HDEL" | "SADD" | "SREM" | "SMISMEMBER" | "ZREM" | "ZMSCORE" | "HSCAN" | "SSCAN"
        | "XPENDING" => -2,
        "HSET" | "ZADD" | "ZRANGEBYSCORE" | "XRANGE" | "XREVRANGE" | "XTRIM" | "XACK" => -3,
        "XADD" | "XGROUP" => -4,
        "XREADGROUP" => -8,
        _ => return None,
    })
}

/// Whether a command takes as many arguments.
pub fn takes(name: &str, args: &[Bytes]) -> bool {
    let Some(arity) = arity(name) else { panic!("the command {name} is not simulated") };
    let given = args.len() as isize;
    given == arity || arity < 0 && given >= -arity
}

/// The keys among a command's arguments.
pub fn keys_of<'a>(name: &str, args: &'a [Bytes]) -> &'a [Bytes] {
    match name {
        "TIME" => &[],
        "EXISTS" | "UNLINK" | "DEL" | "WATCH" => args,
        "XREADGROUP" => args.get(6..7).unwrap_or_default(),
        "XINFO" | "XGROUP" => args.get(1..2).unwrap_or_default(),
        _ => args.get(..1).unwrap_or_default(),
    }
}

/// A whole number as Redis reads one: no plus, no space, no leading zero.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_number = digits.iter().all(u8::is_ascii_digit) && (digits.first() != Some(&b'0') || text.len() == 1);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

fn wanted_integer(text: &[u8]) -> Result<i64> {
    integer(text).ok_or_else(|| NO_INTEGER.to_owned())
}

fn score(text: &[u8]) -> Option<f64> {
    match std::str::from_utf8(text).ok()? {
        "-inf" => Some(f64::NEG_INFINITY),
        "+inf" | "inf" => Some(f64::INFINITY),
        text => text.parse().ok().filter(|score: &f64| !score.is_nan()),
    }
}

/// One end of a range that may exclude it.
fn bound(text: &[u8]) -> (&[u8], bool) {
    text.strip_prefix(b"(").map_or((text, false), |rest| (rest, true))
}

pub fn stream_id(text: &[u8], missing: u64) -> Result<StreamId> {
    let invalid = || "ERR Invalid stream ID specified as stream command argument".to_owned();
    let number = |text: &str| text.parse().map_err(|_| invalid());
    match std::str::from_utf8(text).map_err(|_| invalid())? {
        "-" => Ok((0, 0)),
        "+" => Ok((u64::MAX, u64::MAX)),
        text => match text.split_once('-') {
            Some((ms, seq)) => Ok((number(ms)?, number(seq)?)),
            None => Ok((number(text)?, missing)),
        },
    }
}

fn shown_id((ms, seq): StreamId) -> Bytes {
    format!("{ms}-{seq}").into_bytes()
}

/// The data of a key of one type, to read and to write.
macro_rules! of_type {
    ($read:ident, $change:ident, $variant:ident, $type:ty) => {
        fn $read(&self, key: &[u8]) -> Result<Option<&$type>> {
            match self.0.get(key) {
                None => Ok(None),
                Some(Data::$variant(data)) => Ok(Some(data)),
                Some(_) => Err(WRONG_TYPE.to_owned()),
            }
        }

        fn $change(&mut self, key: &[u8]) -> Result<&mut $type> {
            if !self.0.contains_key(key) {
                self.0.insert(key.to_vec(), Data::$variant(<$type>::default()));
            }
            match self.0.get_mut(key) {
                Some(Data::$variant(data)) => Ok(data),
                _ => Err(WRONG_TYPE.to_owned()),
            }
        }
    };
}

fn text_or_nil(text: Option<&Bytes>) -> Reply {
    text.map_or(Reply::Nil, |text| Reply::Text(text.clone()))
}

fn count(count: usize) -> Reply {
    Reply::Int(i64::try_from(count).expect("few of anything"))
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a Bytes>) -> Vec<Reply> {
    texts.into_iter().cloned().map(Reply::Text).collect()
}

impl Keys {
    of_type!(hash, hash_mut, Hash, BTreeMap<Bytes, Bytes>);
    of_type!(set, set_mut, Set, BTreeSet<Bytes>);
    of_type!(sorted, sorted_mut, Sorted, BTreeMap<Bytes, f64>);
    of_type!(stream, stream_mut, Stream, Stream);
    of_type!(string, string_mut, Text, Bytes);

    /// The text of a string key, if it is one.
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.string(key.as_bytes()).ok()?
    }

    /// The text of a field, if there is one.
    pub fn field(&self, key: &str, field: &[u8]) -> Option<&Bytes> {
        self.hash(key.as_bytes()).ok()??.get(field)
    }

    /// One command.
    pub fn run(&mut self, name: &str, args: &[Bytes], context: Context) -> Reply {
        if !takes(name, args) {
            return Reply::Error(WRONG_COUNT.to_owned());
        }
        let now_ms = context.us / 1000;
        while let Some(key) = self.1.iter().find_map(|(key, at)| (*at <= now_ms).then(|| key.clone())) {
            self.remove(&key);
        }
        let done = match name.as_bytes()[0] {
            b'H' => self.run_on_hash(name, args),
            b'S' if name != "SET" => self.run_on_set(name, args),
            b'Z' => self.run_on_sorted_set(name, args, context),
            b'X' => self.run_on_stream(name, args, context),
            _ => self.run_on_any(name, args, context),
        };
        done.unwrap_or_else(Reply::Error)
    }

    fn run_on_any(&mut self, name: &str, args: &[Bytes], context: Context) -> Result {
        match name {
            "TIME" => {
                let parts = [context.us / 1_000_000, context.us % 1_000_000];
                Ok(Reply::Array(parts.map(|part| Reply::text(&part.to_string())).into()))
            }
            "GET" => Ok(text_or_nil(self.string(&args[0])?)),
            "SET" => {
                self.remove(&args[0]);
                self.0.insert(args[0].clone(), Data::Text(args[1].clone()));
                Ok(Reply::Status("OK"))
            }
            "INCRBY" => self.add(&args[0], wanted_integer(&args[1])?),
            "DECR" => self.add(&args[0], -1),
            "DECRBY" => {
                let by = wanted_integer(&args[1])?;
                self.add(&args[0], by.checked_neg().ok_or("ERR decrement would overflow")?)
            }
            "TYPE" => Ok(Reply::Status(match self.0.get(&args[0]) {
                None => "none",
                Some(Data::Text(_)) => "string",
                Some(Data::Hash(_)) => "hash",
                Some(Data::Set(_)) => "set",
                Some(Data::Sorted(_)) => "zset",
                Some(Data::Stream(_)) => "stream",
                Some(Data::List) => "list",
            })),
            "EXISTS" => Ok(count(args.iter().filter(|key| self.0.contains_key(*key)).count())),
            "UNLINK" | "DEL" => Ok(count(args.iter().filter(|key| self.remove(key)).count())),
            "PTTL" => Ok(match self.1.get(&args[0]) {
                Some(at) => Reply::Int((at - context.us / 1000) as i64),
                None => Reply::Int(if self.0.contains_key(&args[0]) { -1 } else { -2 }),
            }),
            "PERSIST" => Ok(count(self.1.remove(&args[0]).is_some().into())),
            "PEXPIRE" => {
                let after = u64::try_from(wanted_integer(&args[1])?).expect("a key expires later");
                let is_there = self.0.contains_key(&args[0]);
                if is_there {
                    self.1.insert(args[0].clone(), context.us / 1000 + after);
                }
                Ok(count(is_there.into()))
            }
            _ => unreachable!("{name} has an arity"),
        }
    }

    fn add(&mut self, key: &[u8], by: i64) -> Result {
        let old = self.string(key)?.map_or(Ok(0), |text| wanted_integer(text))?;
        let new = old.checked_add(by).ok_or(OVERFLOW)?;
        *self.string_mut(key)? = new.to_string().into_bytes();
        Ok(Reply::Int(new))
    }

    fn run_on_hash(&mut self, name: &str, args: &[Bytes]) -> Result {
        let key = &args[0];
        let fields = &args[1..];
        let hash = self.hash(key)?;
        match name {
            "HGET" => Ok(text_or_nil(hash.and_then(|hash| hash.get(&fields[0])))),
            "HMGET" => {
                let values = fields.iter().map(|field| text_or_nil(hash.and_then(|hash| hash.get(field))));
                Ok(Reply::Array(values.collect()))
            }
            "HLEN" => Ok(count(hash.map_or(0, BTreeMap::len))),
            "HEXISTS" => Ok(count(hash.is_some_and(|hash| hash.contains_key(&fields[0])).into())),
            "HGETALL" | "HSCAN" => {
                let flat = texts(hash.into_iter().flatten().flat_map(|(field, value)| [field, value]));
                Ok(if name == "HSCAN" { whole_scan(flat) } else { Reply::Array(flat) })
            }
            "HSET" => {
                if !fields.len().is_multiple_of(2) {
                    return Err(WRONG_COUNT.to_owned());
                }
                let hash = self.hash_mut(key)?;
                let pairs = fields.chunks(2);
                Ok(count(pairs.filter(|pair| hash.insert(pair[0].clone(), pair[1].clone()).is_none()).count()))
            }
            "HINCRBY" => {
                let old = hash.and_then(|hash| hash.get(&fields[0])).map_or(Ok(0), |text| wanted_integer(text))?;
                let new = old.checked_add(wanted_integer(&fields[1])?).ok_or(OVERFLOW)?;
                self.hash_mut(key)?.insert(fields[0].clone(), new.to_string().into_bytes());
                Ok(Reply::Int(new))
            }
            "HDEL" if hash.is_none() => Ok(count(0)),
            "HDEL" => {
                let hash = self.hash_mut(key)?;
                let removed = fields.iter().filter(|field| hash.remove(*field).is_some()).count();
                let is_empty = hash.is_empty();
                Ok(self.removed(key, removed, is_empty))
            }
            _ => unreachable!("{name} has an arity"),
        }
    }

    fn run_on_set(&mut self, name: &str, args: &[Bytes]) -> Result {
        let key = &args[0];
        let members = &args[1..];
        let set = self.set(key)?;
        let has = |member: &Bytes| count(set.is_some_and(|set| set.contains(member)).into());
        match name {
            "SCARD" => Ok(count(set.map_or(0, BTreeSet::len))),
            "SISMEMBER" => Ok(has(&members[0])),
            "SMISMEMBER" => Ok(Reply::Array(members.iter().map(has).collect())),
            "SMEMBERS" => Ok(Reply::Array(texts(set.into_iter().flatten()))),
            "SSCAN" => Ok(whole_scan(texts(set.into_iter().flatten()))),
            "SADD" => {
                let set = self.set_mut(key)?;
                Ok(count(members.iter().filter(|member| set.insert((*member).clone())).count()))
            }
            "SREM" if set.is_none() => Ok(count(0)),
            "SREM" => {
                let set = self.set_mut(key)?;
                let removed = members.iter().filter(|member| set.remove(*member)).count();
                let is_empty = set.is_empty();
                Ok(self.removed(key, removed, is_empty))
            }
            _ => unreachable!("{name} has an arity"),
        }
    }

    fn run_on_sorted_set(&mut self, name: &str, args: &[Bytes], context: Context) -> Result {
        let key = &args[0];
        let sorted = self.sorted(key)?;
        match name {
            "ZADD" => {
                let is_nx = args[1].eq_ignore_ascii_case(b"NX");
                let pairs = &args[if is_nx { 2 } else { 1 }..];
                if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
                    return Err(SYNTAX.to_owned());
                }
                let scores: Option<Vec<f64>> = pairs.chunks(2).map(|pair| score(&pair[0])).collect();
                let scores = scores.ok_or("ERR value is not a valid float")?;
                let sorted = self.sorted_mut(key)?;
                let mut added = 0;
                for (pair, score) in pairs.chunks(2).zip(scores) {
                    let is_new = !sorted.contains_key(&pair[1]);
                    added += usize::from(is_new);
                    if is_new || !is_nx {
                        sorted.insert(pair[1].clone(), score);
                    }
                }
                Ok(count(added))
            }
            "ZREM" if sorted.is_none() => Ok(count(0)),
            "ZREM" => {
                let sorted = self.sorted_mut(key)?;
                let removed = args[1..].iter().filter(|member| sorted.remove(*member).is_some()).count();
                let is_empty = sorted.is_empty();
                Ok(self.removed(key, removed, is_empty))
            }
            "ZMSCORE" => {
                let of = |member: &Bytes| match sorted.and_then(|sorted| sorted.get(member)) {
                    None => Reply::Nil,
                    Some(score) if context.protocol_3 => Reply::Double(*score),
                    Some(score) => Reply::text(&score.to_string()),
                };
                Ok(Reply::Array(args[1..].iter().map(of).collect()))
            }
            "ZRANGEBYSCORE" => {
                let ((low, after), (high, before)) = (bound(&args[1]), bound(&args[2]));
                let (Some(low), Some(high)) = (score(low), score(high)) else {
                    return Err("ERR min or max is not a float".to_owned());
                };
                let is_in =
                    |score: f64| (score > low || score == low && !after) && (score < high || score == high && !before);
                let (mut options, mut with_scores, mut skip, mut take) = (&args[3..], false, 0, usize::MAX);
                while let [option, rest @ ..] = options {
                    options = rest;
                    if option.eq_ignore_ascii_case(b"WITHSCORES") {
                        with_scores = true;
                    } else if let (true, [first, most, rest @ ..]) = (option.eq_ignore_ascii_case(b"LIMIT"), rest) {
                        skip = usize::try_from(wanted_integer(first)?).expect("LIMIT begins at 0 or later");
                        take = usize::try_from(wanted_integer(most)?).unwrap_or(usize::MAX);
                        options = rest;
                    } else {
                        return Err(SYNTAX.to_owned());
                    }
                }
                let members = sorted.into_iter().flatten().filter(|(_, score)| is_in(**score));
                let mut found: Vec<(&Bytes, f64)> = members.map(|(member, score)| (member, *score)).collect();
                found.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(other.0)));
                let shown = found.into_iter().skip(skip).take(take).flat_map(|(member, score)| {
                    let score = with_scores.then(|| Reply::text(&score.to_string()));
                    std::iter::once(Reply::Text(member.clone())).chain(score)
                });
                Ok(Reply::Array(shown.collect()))
            }
            _ => unreachable!("{name} has an arity"),
        }
    }

    fn run_on_stream(&mut self, name: &str, args: &[Bytes], context: Context) -> Result {
        let key = &args[0];
        match name {
            "XADD" => {
                if !args.len().is_multiple_of(2) {
                    return Err(WRONG_COUNT.to_owned());
                }
                let stream = self.stream_mut(key)?;
                if stream.last == (u64::MAX, u64::MAX) {
                    return Err(
                        "ERR The stream has exhausted the last possible ID, unable to add more items".to_owned()
                    );
                }
                let following = |ms: u64| if ms > stream.last.0 { (ms, 0) } else { (stream.last.0, stream.last.1 + 1) };
                let id = match &args[1][..] {
                    b"*" => following(context.us / 1000),
                    text => match text.strip_suffix(b"-*") {
                        Some(ms) => following(integer(ms).and_then(|ms| u64::try_from(ms).ok()).ok_or(NO_INTEGER)?),
                        None => stream_id(text, 0)?,
                    },
                };
                if id <= stream.last {
                    return Err(
                        "ERR The ID specified in XADD is equal or smaller than the target stream top item".to_owned()
                    );
                }
                stream.last = id;
                stream.entries.insert(id, args[2..].to_vec());
                Ok(Reply::Text(shown_id(id)))
            }
            "XLEN" => Ok(count(self.stream(key)?.map_or(0, |stream| stream.entries.len()))),
            "XRANGE" | "XREVRANGE" => {
                let is_back = name == "XREVRANGE";
                let (first, last) = if is_back { (&args[2], &args[1]) } else { (&args[1], &args[2]) };
                let ((first, after), (last, before)) = (bound(first), bound(last));
                let (first, last) = (stream_id(first, 0)?, stream_id(last, u64::MAX)?);
                let most = match &args[3..] {
                    [] => usize::MAX,
                    [word, most] if word.eq_ignore_ascii_case(b"COUNT") => {
                        usize::try_from(wanted_integer(most)?).unwrap_or(0)
                    }
                    _ => return Err(SYNTAX.to_owned()),
                };
                let Some(stream) = self.stream(key)?.filter(|_| first <= last) else {
                    return Ok(Reply::Array(Vec::new()));
                };
                let is_in = |id: &StreamId| !(after && *id == first || before && *id == last);
                let range = stream.entries.range(first..=last).filter(|(id, _)| is_in(id));
                let row = |(id, fields): (&StreamId, &Vec<Bytes>)| {
                    Reply::Array(vec![Reply::Text(shown_id(*id)), Reply::Array(texts(fields))])
                };
                let rows = if is_back {
                    range.rev().take(most).map(row).collect()
                } else {
                    range.take(most).map(row).collect()
                };
                Ok(Reply::Array(rows))
            }
            "XTRIM" => {
                let Some(stream) = self.stream(key)? else { return Ok(count(0)) };
                let from = match &args[1..] {
                    // Only whole nodes, and it may leave any of them: the ledger of most nights is one.
                    [_, about, _, limit, _] if about == b"~" && limit.eq_ignore_ascii_case(b"LIMIT") => (0, 0),
                    [min, from] if min.eq_ignore_ascii_case(b"MINID") => stream_id(from, 0)?,
                    _ => panic!("XTRIM is simulated with a least id alone"),
                };
                let before = stream.entries.len();
                let entries = &mut self.stream_mut(key)?.entries;
                *entries = entries.split_off(&from);
                Ok(count(before - entries.len()))
            }
            "XINFO" if key.eq_ignore_ascii_case(b"GROUPS") => match self.stream(&args[1])? {
                Some(stream) => {
                    let group = |(name, Group { read, pending }): (&Bytes, &Group)| {
                        let consumers = [Reply::text("consumers"), Reply::Int(0)];
                        let pending = [Reply::text("pending"), count(pending.len())];
                        let read = [Reply::text("last-delivered-id"), Reply::Text(shown_id(*read))];
                        let name = [Reply::text("name"), Reply::Text(name.clone())];
                        Reply::Array([name, consumers, pending, read].into_iter().flatten().collect())
                    };
                    Ok(Reply::Array(stream.groups.iter().map(group).collect()))
                }
                None => Err("ERR no such key".to_owned()),
            },
            "XGROUP" => {
                let (key, group, read) = (&args[1], &args[2], &args[3]);
                let is_new = creates_group(&args[0]);
                let Some(stream) = self.stream(key)? else { return Err(NO_STREAM.to_owned()) };
                let read = if read == b"$" { stream.last } else { stream_id(read, 0)? };
                if is_new == stream.groups.contains_key(group) {
                    return Err(if is_new {
                        BUSY_GROUP.to_owned()
                    } else {
                        "NOGROUP No such consumer group".to_owned()
                    });
                }
                self.stream_mut(key)?.groups.entry(group.clone()).or_default().read = read;
                Ok(Reply::Status("OK"))
            }
            "XREADGROUP" => {
                let [_, group, _, _, most, _, key, after] = args else {
                    panic!("XREADGROUP is simulated of one stream alone")
                };
                let most = usize::try_from(wanted_integer(most)?).unwrap_or(0);
                let is_there = self.stream(key)?.is_some_and(|stream| stream.groups.contains_key(group));
                if !is_there {
                    return Err(format!(
                        "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
                        String::from_utf8_lossy(key),
                        String::from_utf8_lossy(group)
                    ));
                }
                let Stream { entries, groups, .. } = self.stream_mut(key)?;
                let Group { read, pending } = groups.get_mut(group).expect("it is there");
                let behind = |id| (Bound::Excluded(id), Bound::Unbounded);
                let wanted: Vec<StreamId> = match &after[..] {
                    b">" => {
                        let new: Vec<StreamId> = entries.range(behind(*read)).map(|(id, _)| *id).take(most).collect();
                        let Some(last) = new.last() else { return Ok(Reply::Nil) };
                        *read = *last;
                        pending.extend(&new);
                        new
                    }
                    after => pending.range(behind(stream_id(after, 0)?)).copied().take(most).collect(),
                };
                // What is not there any more has no fields.
                let row = |id: &StreamId| {
                    let fields = entries.get(id).map_or(Reply::Nil, |fields| Reply::Array(texts(fields)));
                    Reply::Array(vec![Reply::Text(shown_id(*id)), fields])
                };
                let rows = wanted.iter().map(row).collect();
                Ok(Reply::Array(vec![Reply::Array(vec![Reply::Text(key.clone()), Reply::Array(rows)])]))
            }
            "XACK" => {
                let ids = args[2..].iter().map(|id| stream_id(id, 0)).collect::<Result<Vec<_>>>()?;
                if self.stream(key)?.is_none() {
                    return Ok(count(0));
                }
                let group = self.stream_mut(key)?.groups.get_mut(&args[1]);
                Ok(count(group.map_or(0, |group| ids.iter().filter(|id| group.pending.remove(id)).count())))
            }
            "XPENDING" => {
                let group = self.stream(key)?.and_then(|stream| stream.groups.get(&args[1]));
                let Some(Group { pending, .. }) = group else { return Err("NOGROUP No such key".to_owned()) };
                let id = |id: Option<&StreamId>| id.map_or(Reply::Nil, |id| Reply::Text(shown_id(*id)));
                Ok(Reply::Array(vec![count(pending.len()), id(pending.first()), id(pending.last()), Reply::Nil]))
            }
            _ => panic!("the command {name} is not simulated"),
        }
    }

    /// The reply of a command that removed members; an empty collection is no key.
    fn removed(&mut self, key: &[u8], removed: usize, is_empty: bool) -> Reply {
        if is_empty {
            self.remove(key);
        }
        count(removed)
    }

    /// Whether there was such a key.
    fn remove(&mut self, key: &[u8]) -> bool {
        self.1.remove(key);
        self.0.remove(key).is_some()
    }
}

/// Whether this is the subcommand of `XGROUP` that makes a group; else it is the one that changes what it has read.
fn creates_group(subcommand: &[u8]) -> bool {
    let is_create = subcommand.eq_ignore_ascii_case(b"CREATE");
    assert!(is_create || subcommand.eq_ignore_ascii_case(b"SETID"), "XGROUP is simulated with CREATE and SETID alone");
    is_create
}

fn whole_scan(items: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::text("0"), Reply::Array(items)])
}
