//! Standard output could not be written: what was changed must not be lost with it.

use anyhow::Result;
use serde_yaml::Value;

use super::error::failure;
use super::sink::Unwritable;
use seckill::inventory::failure::{Exit, Failure};

/// Data that nobody got, and the changes among it.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub struct OutputLost {
    /// The error, with its exit code.
    pub(super) failure: Failure,
    /// The rows of what was changed.
    pub(super) changes: Vec<Value>,
}

impl OutputLost {
    /// A command that failed as well keeps its own exit code and hint.
    pub(super) fn new(why: &Unwritable, changes: Vec<Value>, ended: Result<Exit>) -> Self {
        let mut failure = match ended {
            Ok(_) => Failure::failed(why.to_string()),
            Err(error) => {
                let mut failure = failure(&error);
                // A run that stopped because of it has said so.
                if !failure.message.contains(&why.to_string()) {
                    failure.message = format!("{}; and {why}", failure.message);
                }
                failure
            }
        };
        failure.hint = failure.hint.or_else(|| {
            Some(match changes.is_empty() {
                true => "send the output to where there is room, and run the command again".to_owned(),
                false => "what is listed as changed is done; `seckill inspect` and `seckill ledger` show it".to_owned(),
            })
        });
        Self { failure, changes }
    }

    /// The changes in words: `activity 1001, user 7, …`, a line each. What is not known is left out.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.changes.iter().map(|change| {
            let fields = change.as_mapping().into_iter().flatten();
            let known = fields.filter(|(_, value)| !value.is_null());
            known.map(|(name, value)| format!("{} {}", text(name), text(value))).collect::<Vec<_>>().join(", ")
        })
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}
