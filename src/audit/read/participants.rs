//! An activity at one instant: a page of its participants, or some users, with the stock, the rules and the
//! ledger's end.

use redis::Value;

use crate::audit::evidence::{ActivityView, Rules};
use crate::audit::read::held_by::HeldBy;
use crate::error::StoreError;
use crate::model::activity::rules::PackedRules;
use crate::model::layout::Kind;
use crate::model::ledger::Entry;
use crate::model::ledger::checkpoint::Checkpoint;
use crate::model::order::Corrupt;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::redis::call::Call;
use crate::script::AUDIT;
use crate::script::keys::Keys;
use crate::script::reply::{Reply, corrupt};
use crate::store::Store;

/// Participants a page: less than half a millisecond of the server's time.
pub(crate) const PAGE: usize = 400;

/// What a call asks for.
pub(crate) enum PageRequest<'a> {
    /// A page of participants from a cursor on.
    Page(&'a str),
    /// These users.
    Users(&'a [Vec<u8>]),
}

/// What a call found.
pub(crate) struct ParticipantsPage {
    pub status: Status,
    pub corrupt: Option<Corrupt>,
    pub view: ActivityView,
    /// What the ledger has of late, if that comes along.
    pub entries: Vec<Entry>,
    pub cursor: String,
    pub held: HeldBy,
}

/// What the script says.
pub(crate) fn read_participants(
    store: &mut Store,
    keys: &Keys,
    ask: &PageRequest<'_>,
) -> Result<ParticipantsPage, StoreError> {
    let page = store.servers.call(&participants_call(store, keys, ask, false))?;
    if let Some(page) = read(page, keys)? {
        return Ok(page);
    }
    // A user with a zero byte, which only a backend can have made.
    let page = store.servers.call(&participants_call(store, keys, ask, true))?;
    read(page, keys)?.ok_or_else(|| reply().invalid("no list"))
}

/// The call of the script.
pub(crate) fn participants_call(store: &Store, keys: &Keys, ask: &PageRequest<'_>, as_list: bool) -> Call {
    let mut arguments = vec![store.kind().into_bytes()];
    match ask {
        PageRequest::Page(cursor) => {
            arguments.extend([(*cursor).to_owned().into_bytes(), PAGE.to_string().into_bytes()]);
            arguments.extend(as_list.then(|| b"list".to_vec()));
        }
        PageRequest::Users(users) => {
            arguments.extend([Vec::new(), PAGE.to_string().into_bytes()]);
            arguments.extend_from_slice(users);
        }
    }
    Call::script(AUDIT.of(store.layout.kind()), keys.in_order(), arguments)
}

/// Replies are the same for all kinds.
fn reply() -> Reply<'static> {
    Reply::of(AUDIT.of(Kind::Hash))
}

/// Reads the script's reply; `None` if users and units cannot be separated in it.
pub(crate) fn read(value: Value, keys: &Keys) -> Result<Option<ParticipantsPage>, StoreError> {
    let reply = reply();
    let mut values = reply.array(value)?;
    let status = reply.status(values.first())?;
    let mut page = ParticipantsPage {
        status,
        corrupt: None,
        view: ActivityView { at: Millis::new(0), stock: None, rules: None, last: None, length: None, checkpoint: None },
        entries: Vec::new(),
        cursor: "0".to_owned(),
        held: HeldBy::List(Vec::new()),
    };
    if status == Status::Corrupt {
        page.corrupt = Some(reply.corrupt(&values, keys)?);
        return Ok(Some(page));
    }
    page.held = match values.pop() {
        Some(Value::Array(values)) => HeldBy::List(values),
        Some(Value::BulkString(bytes)) => match HeldBy::joined(bytes) {
            Some(held) => held,
            None => return Ok(None),
        },
        other => return Err(reply.invalid(other)),
    };
    let [_, at, stock, Value::Array(meta), last, length, cursor] = &values[..] else {
        return Err(reply.invalid(&values));
    };
    page.cursor = reply.text(Some(cursor))?.unwrap_or_default();
    let checkpoint = match reply.text(meta.get(2))? {
        None => None,
        Some(text) => match text.parse::<Checkpoint>() {
            Ok(checkpoint) => Some(checkpoint),
            Err(_) => {
                page.status = Status::Corrupt;
                page.corrupt = Some(corrupt(keys, 2, Some(&text)));
                return Ok(Some(page));
            }
        },
    };
    page.view = ActivityView {
        at: Millis::new(reply.count(Some(at))?.unwrap_or_default()),
        stock: reply.count(Some(stock))?,
        rules: match reply.text(meta.first())? {
            None => None,
            Some(text) => {
                let rules: PackedRules = text.parse().map_err(|why| reply.invalid(why))?;
                Some(Rules {
                    total: rules.total,
                    per_user_limit: rules.per_user_limit,
                    epoch: rules.epoch,
                    repairs: reply.count(meta.get(1))?.unwrap_or_default(),
                    ledger: rules.ledger,
                    withdrawn: reply.count(meta.get(3))?,
                    holds: reply.count(meta.get(4))?.unwrap_or_default(),
                })
            }
        },
        last: match reply.text(Some(last))? {
            None => None,
            Some(id) => Some(id.parse().map_err(|why: String| reply.invalid(why))?),
        },
        length: reply.count(Some(length))?,
        checkpoint: None,
    };
    let epoch = page.view.rules.map(|rules| rules.epoch);
    if let Some(checkpoint) = checkpoint.filter(|checkpoint| Some(checkpoint.epoch) == epoch) {
        page.view.length = page.view.length.map(|length| length + checkpoint.removed);
        page.view.checkpoint = Some(checkpoint);
    }
    Ok(Some(page))
}
