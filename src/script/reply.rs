//! Reads what scripts reply. Anything that no header names is an error that names the script.

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::number::{MAX_UNITS, whole_bytes};
use crate::model::{Bought, Corrupt, Entry, EntryId, Shards, Status, option};
use crate::script::Script;
use crate::script::keys::Keys;

/// A reply being taken apart, with the name of what sent it for errors.
pub(crate) struct Reply<'a> {
    what: &'a str,
}

impl<'a> Reply<'a> {
    /// For the replies of a script.
    pub(crate) fn of(script: &'a Script) -> Self {
        Self { what: script.name }
    }

    /// For the replies of a command.
    pub(crate) fn of_command(what: &'a str) -> Self {
        Self { what }
    }

    /// The error for a reply that does not fit.
    pub(crate) fn invalid(&self, reply: impl std::fmt::Debug) -> StoreError {
        let mut reply = format!("{reply:?}");
        reply.truncate(reply.char_indices().nth(200).map_or(reply.len(), |(at, _)| at));
        StoreError::Reply { what: self.what.to_owned(), reply }
    }

    /// An array.
    pub(crate) fn array(&self, value: Value) -> Result<Vec<Value>> {
        match value {
            Value::Array(values) => Ok(values),
            other => Err(self.invalid(other)),
        }
    }

    /// A count that may be absent; numbers come as integers or as text.
    pub(crate) fn count(&self, value: Option<&Value>) -> Result<Option<u64>> {
        match value {
            None | Some(Value::Nil | Value::Boolean(false)) => Ok(None),
            Some(Value::Int(number)) => u64::try_from(*number).map(Some).map_err(|_| self.invalid(value)),
            Some(Value::BulkString(bytes)) => whole_bytes(bytes).map(Some).ok_or_else(|| self.invalid(value)),
            other => Err(self.invalid(other)),
        }
    }

    /// The value of a field in a flat list of names and values.
    pub(crate) fn field<'v>(fields: &'v [Value], name: &str) -> Option<&'v Value> {
        let is_named = |pair: &&[Value]| matches!(&pair[0], Value::BulkString(known) if known == name.as_bytes());
        fields.chunks(2).find(is_named)?.get(1)
    }

    /// What `TIME` says, in microseconds since 1970.
    pub(crate) fn clock(value: &Value) -> Result<u64> {
        let reply = Self::of_command("TIME");
        let Value::Array(parts) = value else { return Err(reply.invalid(value)) };
        let part = |at: usize| reply.count(parts.get(at)).map(Option::unwrap_or_default);
        Ok(part(0)?.saturating_mul(1_000_000).saturating_add(part(1)?))
    }

    /// What a user holds, `?` if it is unknown; it may be absent.
    pub(crate) fn bought(&self, value: Option<&Value>) -> Result<Option<Bought>> {
        match value {
            Some(Value::BulkString(bytes)) if bytes == b"?" => Ok(Some(Bought::Unknown)),
            _ => match self.count(value)? {
                Some(units) if units > MAX_UNITS => Err(self.invalid(value)),
                units => Ok(units.map(Bought::Units)),
            },
        }
    }

    /// A text that may be absent. Bytes that are no UTF-8 are shown as such.
    pub(crate) fn text(&self, value: Option<&Value>) -> Result<Option<String>> {
        match value {
            None | Some(Value::Nil | Value::Boolean(false)) => Ok(None),
            Some(Value::BulkString(bytes)) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
            Some(Value::SimpleString(text)) => Ok(Some(text.clone())),
            Some(Value::Int(number)) => Ok(Some(number.to_string())),
            other => Err(self.invalid(other)),
        }
    }

    /// The status that a reply begins with.
    pub(crate) fn status(&self, value: Option<&Value>) -> Result<Status> {
        match value {
            Some(Value::Int(code)) => Status::of_code(*code).ok_or_else(|| self.invalid(value)),
            other => Err(self.invalid(other)),
        }
    }

    /// A reply that begins with a status: that, what is corrupt if that is so, and all of it.
    pub(crate) fn with_status(&self, value: Value, keys: &Keys) -> Result<(Status, Option<Corrupt>, Vec<Value>)> {
        let values = self.array(value)?;
        let status = self.status(values.first())?;
        let corrupt = if status == Status::Corrupt { Some(self.corrupt(&values, keys)?) } else { None };
        Ok((status, corrupt, values))
    }

    /// The shards of `{sharded, …, shards}`; `None` for another status.
    pub(crate) fn shards(&self, values: &[Value]) -> Result<Option<Shards>> {
        if values.first() != Some(&Value::Int(Status::Sharded.code())) {
            return Ok(None);
        }
        let shards = self.text(values.get(2))?.and_then(|text| text.parse().ok());
        shards.map(Some).ok_or_else(|| self.invalid(values))
    }

    /// What `{corrupt, …, n, value}` says: which key holds what.
    pub(crate) fn corrupt(&self, values: &[Value], keys: &Keys) -> Result<Corrupt> {
        let number = self.count(values.get(3))?.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        Ok(corrupt(keys, number, self.text(values.get(4))?.as_deref()))
    }
}

/// What `KEYS[number]` should hold, and what it holds: `None` for a wrong type.
pub(crate) fn corrupt(keys: &Keys, number: usize, value: Option<&str>) -> Corrupt {
    let id = &keys.whole;
    let oversold = format!(
        "0 or more; units were sold past it: `SET` it to 0, then `seckill reconcile {id:#}` shows what differs"
    );
    let units = "for each user a whole number of units, no fewer than are held open";
    let (kind, expected) = match number {
        number if keys.deadlines.as_deref() == Some(keys.numbered(number)) => ("sorted set", "deadlines of holds"),
        1 if value.is_some_and(|value| value.starts_with('-')) => ("string", &*oversold),
        1 => ("string", "a whole number from 0 to 9007199254740991"),
        2 => ("hash", "what a preheat writes"),
        3 => ("hash", "request ids"),
        4 => ("stream", "a ledger"),
        5 => ("hash or set, as `kind` of the layout says", units),
        _ => ("hash", units),
    };
    let restore = || {
        format!(
            "`seckill reconcile {id:#} --fix` restores it from a whole ledger, or from order records (`--orders FILE`)"
        )
    };
    let lost = |what, way_out| format!("holds {}: {what} lost; {way_out}", value.unwrap_or_default());
    let what = match value {
        Some("nothing, beside a ledger") => lost("its meta was", adopt(keys, "takes over what is left")),
        Some("nothing, though units were sold") => lost("it was", restore()),
        Some("nothing, though meta has a ledger") => lost("its entries were", adopt(keys, "begins another")),
        Some(value) if number == 4 && value == EntryId::LAST.to_string() => format!(
            "holds the last id that there is, so that no entry can follow: {}, and `seckill ledger {:#}` exports this one before",
            adopt(keys, "begins another"),
            keys.activity
        ),
        Some("no rules") => format!(
            "holds no field `rules`, as data of version 0.1: `seckill preheat {} --stock N --reset` starts the sale over",
            option("--id", id)
        ),
        Some(value) if number == 2 && is_of_a_later_version(value) => {
            format!("holds `{}`: a later version of seckill wrote it: use that one", value.escape_debug())
        }
        None => format!("is of the wrong type: expected a {kind}"),
        Some(value) if value.starts_with("nothing") || value.starts_with("no ") => {
            format!("holds {value}: expected {expected}")
        }
        Some(value) => format!("holds `{}`: expected {expected}", value.escape_debug()),
    };
    Corrupt { key: keys.numbered(number).to_owned(), what }
}

/// The way out of a lost meta or ledger. Nothing takes over a shard.
fn adopt(keys: &Keys, what: &str) -> String {
    let id = &keys.whole;
    let named = option("--id", id);
    match *id != keys.activity {
        true => format!(
            "`seckill preheat {named} --stock N --shards N --reset --starts-at +1h`, with its limit and title, starts the whole sale over, \
             and `seckill reconcile {id:#} --orders FILE --fix` records its orders before anybody buys"
        ),
        false => format!("`seckill preheat {named} --adopt` {what}"),
    }
}

/// Whether `rules` begin with a version, such as `v2`: those of 0.2 begin with the state.
fn is_of_a_later_version(rules: &str) -> bool {
    let version = rules.split(' ').next().and_then(|word| word.strip_prefix('v'));
    version.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads one entry of XRANGE: its id, and fields and values in turn.
pub(crate) fn entry(reply: &Reply<'_>, value: Value) -> Result<Entry> {
    let parts = reply.array(value)?;
    let Ok([id, Value::Array(fields)]) = <[Value; 2]>::try_from(parts) else { return Err(reply.invalid("no entry")) };
    let id = reply.text(Some(&id))?.unwrap_or_default().parse().map_err(|why: String| reply.invalid(why))?;
    let mut entry = Entry::new(id);
    let mut fields = fields.into_iter();
    while let (Some(Value::BulkString(name)), Some(Value::BulkString(text))) = (fields.next(), fields.next()) {
        entry.set(&name, text);
    }
    Ok(entry)
}
