//! What the tool printed, as far as it can be compared with an answer by the rules.

use serde_json::Value;

use crate::rules::Answer;
use crate::schedule::{Activity, Operation, Order};

/// What a call or a row of a file says.
#[derive(Debug)]
pub struct Said {
    pub status: String,
    pub items: Vec<(String, Option<u64>, Option<u64>)>,
}

impl Said {
    pub fn is(&self, answer: &Answer) -> bool {
        let items = answer.items.iter().map(|(status, stock, bought)| ((*status).to_owned(), *stock, *bought));
        self.status == answer.status && self.items.iter().cloned().eq(items)
    }
}

pub fn answer_of(row: &Value, order: &Order, activities: &[Activity]) -> Said {
    let item = |row: &Value| {
        let status = row["status"].as_str().unwrap_or_default().to_owned();
        (status, row["stock"].as_u64(), row["bought"].as_u64())
    };
    let status = row["status"].as_str().unwrap_or_default().to_owned();
    let items = match row["items"].as_array() {
        // In the order of the input, which need not be ours.
        Some(items) if order.operation == Operation::Multi && items.len() == order.items.len() => {
            let of = |index: usize| items.iter().find(|item| item["activity"] == activities[index].id.as_str());
            order.items.iter().map(|(index, _)| item(of(*index).unwrap_or(&Value::Null))).collect()
        }
        _ => vec![item(row)],
    };
    Said { status, items }
}

pub fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}: {text}"))
}
