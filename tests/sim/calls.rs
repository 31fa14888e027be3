//! Calls of scripts, as backends and the tool send them.

use seckill::internals::{Keys, Script};
use seckill::{ActivityId, Layout};

use super::keys::{Bytes, Reply};

/// One call of a script.
#[derive(Debug, Clone)]
pub struct Call {
    pub script: &'static str,
    /// Of its build for the activity's kind.
    pub sha1: &'static str,
    pub keys: Vec<Bytes>,
    pub args: Vec<Bytes>,
}

/// An activity: what names its keys.
pub struct Activity {
    pub id: ActivityId,
    pub layout: Layout,
    pub keys: Keys,
    /// Its shards, if it is sharded.
    pub parts: Vec<Self>,
    /// The total of one that another system made.
    pub made_elsewhere: Option<i64>,
}

impl Activity {
    pub fn new(id: &str, layout: Layout) -> Self {
        let id: ActivityId = id.parse().expect("it is an id");
        Self { keys: Keys::of(layout, &id), id, layout, parts: Vec::new(), made_elsewhere: None }
    }

    pub fn kind(&self) -> &'static str {
        self.layout.kind().name()
    }

    /// A call with the kind as its first argument.
    pub fn call<A: AsRef<[u8]>>(&self, script: &str, args: impl IntoIterator<Item = A>) -> Call {
        let mut call = self.plain_call(script, args);
        call.args.insert(0, self.kind().into());
        call
    }

    /// A call of a script that knows no kinds.
    pub fn plain_call<A: AsRef<[u8]>>(&self, script: &str, args: impl IntoIterator<Item = A>) -> Call {
        let script = Script::all(self.layout.kind())
            .into_iter()
            .find(|known| known.name == script)
            .expect("there is such a script");
        let keys: Vec<&str> = match script.name {
            "lend" | "borrow" | "peek" => self.keys.in_order().take(4).collect(),
            _ if script.knows_holds() => self.keys.all().collect(),
            _ => self.keys.in_order().collect(),
        };
        let keys = keys.into_iter().map(Into::into).collect();
        Call {
            script: script.name,
            sha1: script.sha1,
            keys,
            args: args.into_iter().map(|arg| arg.as_ref().to_vec()).collect(),
        }
    }
}

/// Texts as a column, with tabs between them. They may be of any bytes but tabs.
pub fn column<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Bytes {
    let texts: Vec<T> = texts.into_iter().collect();
    texts.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>().join(&b'\t')
}

/// The status of a reply: the first number of a list, or of a text.
pub fn status(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Array(parts) => match parts.first() {
            Some(Reply::Int(status)) => Some(*status),
            _ => None,
        },
        Reply::Text(text) => std::str::from_utf8(text).ok()?.split(' ').next()?.parse().ok(),
        _ => None,
    }
}

/// A number in a reply that is a list.
pub fn number(reply: &Reply, at: usize) -> Option<i64> {
    match reply {
        Reply::Array(parts) => match parts.get(at) {
            Some(Reply::Int(number)) => Some(*number),
            _ => None,
        },
        _ => None,
    }
}

/// The call on one line.
pub fn shown(call: &Call) -> String {
    let args: Vec<String> = call.args.iter().map(|arg| shown_text(arg)).collect();
    format!("{} {}", call.script, args.join(" "))
}

pub fn shown_reply(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Text(text) => shown_text(text),
        Reply::Status(text) => (*text).to_owned(),
        Reply::Error(text) => format!("error {text}"),
        Reply::Double(score) => score.to_string(),
        Reply::Array(parts) => parts.iter().map(shown_reply).collect::<Vec<_>>().join(" "),
    }
}

pub fn shown_text(text: &[u8]) -> String {
    if text.is_empty() { "''".to_owned() } else { String::from_utf8_lossy(text).escape_debug().to_string() }
}
