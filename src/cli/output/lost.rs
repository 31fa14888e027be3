//! Standard output could not be written: what was changed must not be lost with it.

use serde_yaml::Value;

use crate::cli::failure::{Exit, Failure};
use crate::cli::output::sink::Unwritable;

/// The failure of a command whose data nobody got. A command that failed as well keeps its own exit code and hint.
pub(crate) fn output_lost(why: &Unwritable, changes: Vec<Value>, ended: Result<Exit, Failure>) -> Failure {
    let mut failure = match ended {
        Ok(_) => Failure::failed(why.to_string()),
        // A run that stopped because of it has said so.
        Err(failure) if failure.message.contains(&why.to_string()) => failure,
        Err(failure) => Failure { message: format!("{}; and {why}", failure.message), ..failure },
    };
    failure.hint = failure.hint.or_else(|| {
        Some(match changes.is_empty() {
            true => "send the output to where there is room, and run the command again".to_owned(),
            false => "what is listed as changed is done; `seckill inspect` and `seckill ledger` show it".to_owned(),
        })
    });
    Failure { changes: Some(changes), ..failure }
}

/// A change in words: `activity 1001, user 7, …`. What is not known is left out.
pub(crate) fn in_words(change: &Value) -> String {
    let fields = change.as_mapping().into_iter().flatten();
    let known = fields.filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| format!("{} {}", text(name), text(value))).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}
