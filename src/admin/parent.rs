//! What the parent of a sharded activity says: read, and changed only if it is still as it was read.

use redis::Value;

use crate::error::{Result, StoreError};
use crate::model::number::whole;
use crate::model::status::call_code;
use crate::model::{ActivityId, Corrupt, PackedRules, ShardPlan, Shards, Status};
use crate::redis::call::Call;
use crate::script::PARENT;
use crate::script::keys::Keys;
use crate::script::reply::Reply;
use crate::store::Store;

/// The fields of a parent's meta: rules, title, shards, plan, revision.
type Texts = [Option<Vec<u8>>; 5];

/// What the meta of an activity says that may be a parent, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parent {
    texts: Texts,
    /// Other keys of the activity that are there: a parent has none.
    pub others: u64,
    /// The meta cannot be read.
    pub corrupt: Option<Corrupt>,
}

/// What a parent says, or should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParentRecord {
    pub rules: PackedRules,
    /// Empty for none.
    pub title: String,
    pub shards: Option<Shards>,
    pub plan: Option<ShardPlan>,
}

impl ParentRecord {
    fn texts(&self, revision: u64) -> Texts {
        [
            Some(self.rules.to_string()),
            Some(self.title.clone()).filter(|title| !title.is_empty()),
            self.shards.as_ref().map(Shards::to_string),
            self.plan.as_ref().map(ShardPlan::to_string),
            Some(revision.to_string()),
        ]
        .map(|text| text.map(String::into_bytes))
    }
}

/// The epoch that rules say, even if the rest of them is damaged.
pub(crate) fn epoch_of(rules: &str) -> u64 {
    rules.split(' ').nth(2).and_then(whole).unwrap_or_default()
}

impl Parent {
    fn text(&self, index: usize) -> Option<String> {
        self.texts[index].as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Whether nothing of the activity is there.
    pub(crate) fn is_absent(&self) -> bool {
        self.others == 0 && self.corrupt.is_none() && self.texts.iter().all(Option::is_none)
    }

    /// Whether it is a parent, be it half made; else there is no activity, or one without shards.
    pub(crate) fn is_parent(&self) -> bool {
        self.texts[2].is_some() || self.texts[3].is_some()
    }

    /// The epoch of its rules.
    pub(crate) fn epoch(&self) -> u64 {
        self.text(0).map(|rules| epoch_of(&rules)).unwrap_or_default()
    }

    /// How often it was changed.
    fn revision(&self) -> u64 {
        self.text(4).and_then(|revision| whole(&revision)).unwrap_or_default()
    }

    /// What it says.
    ///
    /// # Errors
    /// Which field of the meta cannot be read.
    pub(crate) fn record(&self, meta: &str) -> Result<ParentRecord, Corrupt> {
        let unreadable = |index: usize, field: &str| {
            let value = self.text(index).unwrap_or_default();
            let what = format!("holds `{}` as `{field}`, which no preheat writes", value.escape_debug());
            Corrupt { key: meta.to_owned(), what }
        };
        let rules = self.text(0).and_then(|text| text.parse().ok()).ok_or_else(|| unreadable(0, "rules"))?;
        let shards = self.text(2).map(|text| text.parse().map_err(|_| unreadable(2, "shards"))).transpose()?;
        let plan = self.text(3).map(|text| ShardPlan::read(&text).ok_or_else(|| unreadable(3, "plan"))).transpose()?;
        Ok(ParentRecord { rules, title: self.text(1).unwrap_or_default(), shards, plan })
    }
}

/// What the meta of an activity says.
pub(crate) fn read_parent(store: &mut Store, activity: &ActivityId) -> Result<Parent> {
    let keys = store.keys(activity);
    let value = store.servers.call(&Call::script(&PARENT, keys.all(), ["read"]))?;
    let reply = Reply::of(&PARENT);
    let (status, corrupt, values) = reply.with_status(value, &keys)?;
    match status {
        Status::Ok => read(&reply, &values),
        Status::Corrupt => Ok(Parent { corrupt, ..Parent::default() }),
        _ => Err(reply.invalid(&values)),
    }
}

/// Makes the meta of an activity say something else, if it is as it was read, and `parent` what it is then. `clears` makes a parent of whatever was there. What it
/// plans a replica has afterwards, if there is one: a failover that lost the plan, and nothing of what was done by it, would have
/// it done again. [`look_for_replicas`](crate::redis::cluster::Servers::look_for_replicas) first. False if another client changed it
/// since it was read.
pub(crate) fn change_parent(
    store: &mut Store,
    activity: &ActivityId,
    parent: &mut Parent,
    after: &ParentRecord,
    clears: bool,
) -> Result<bool> {
    let keys: Keys = store.keys(activity);
    let given = |text: Option<Vec<u8>>| text.map(|text| [b"=", &text[..]].concat()).unwrap_or_default();
    let mode = if clears { "clear" } else { "set" };
    let texts = after.texts(parent.revision() + 1);
    let arguments = std::iter::once(mode.as_bytes().to_vec())
        .chain(parent.texts.clone().map(given))
        .chain(texts.clone().map(given));
    let call = Call::script(&PARENT, keys.all(), arguments).repeatable();
    let value = match after.plan {
        Some(_) => replicated_step(store, &call, activity)?,
        None => store.servers.call(&call)?,
    };
    let reply = Reply::of(&PARENT);
    let values = reply.array(value)?;
    if values.first() == Some(&Value::Int(call_code::STALE)) {
        return Ok(false);
    }
    match reply.status(values.first())? {
        Status::Ok | Status::Replayed => {
            store.changed(activity);
            *parent = Parent { texts, ..Parent::default() };
            Ok(true)
        }
        Status::Exists | Status::Corrupt => Ok(false),
        _ => Err(reply.invalid(&values)),
    }
}

/// Makes a call that may be sent again until a replica has what it wrote, if there is one.
///
/// # Errors
/// Any of [`StoreError`]; no replica said in time that it has it.
pub(crate) fn replicated_step(store: &mut Store, call: &Call, activity: &ActivityId) -> Result<Value> {
    let at_most = store.servers.target().timeout;
    let (value, is_replicated) = store.servers.call_until_replicated(call, at_most)?;
    if is_replicated {
        return Ok(value);
    }
    let within = humantime::format_duration(at_most);
    let why = format!("no replica of `{activity}` confirmed within {within} that it has this step");
    Err(StoreError::Unfinished { activity: activity.to_string(), why })
}

/// What a reply says of a parent.
fn read(reply: &Reply<'_>, values: &[Value]) -> Result<Parent> {
    let text = |index: usize| match values.get(index) {
        None | Some(Value::Nil | Value::Boolean(false)) => Ok(None),
        Some(Value::BulkString(bytes)) => Ok(Some(bytes.clone())),
        other => Err(reply.invalid(other)),
    };
    let others = reply.count(values.get(6))?.unwrap_or_default();
    Ok(Parent { texts: [text(1)?, text(2)?, text(3)?, text(4)?, text(5)?], others, corrupt: None })
}
