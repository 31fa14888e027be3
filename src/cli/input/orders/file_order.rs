//! One order of a file; of several activities in jsonl: `{"user":"7","items":{"1001":2,"1002":1},"request":"…"}`.

use serde::Deserializer;

use crate::cli::input::error::json_message;
use crate::cli::input::orders::jsonl::{Fields, text_of, value_start};
use crate::cli::input::orders::row::{Column, OrderRow, Shape};
use crate::cli::input::orders::{Next, OrderReader, RowError};
use crate::model::order::Items;
use crate::model::{ActivityId, MultiOrder, Quantity};

/// One order of a file, of one activity or of several, in buffers that are used again for the next.
#[derive(Debug, Default)]
pub struct FileOrder {
    /// Its columns.
    pub row: OrderRow,
    /// What it asks for, if that is several activities.
    pub items: Items,
    /// The text that was read as these items: most rows have it again.
    text: String,
    buffer: Vec<(ActivityId, Quantity)>,
}

impl FileOrder {
    /// Reads the next order of an input.
    pub fn read(&mut self, reader: &mut OrderReader) -> Result<Next, RowError> {
        let next = reader.next(&mut self.row)?;
        let Some(text) = self.row.get(Column::Items) else { return Ok(next) };
        if next == Next::Row && (text != self.text || self.items.is_empty()) {
            self.text.clear();
            self.buffer.clear();
            items(text, &reader.shape, &mut self.buffer).map_err(|message| {
                let start = value_start(reader.lines.raw(), reader.columns.name(Column::Items));
                RowError::Bad(reader.lines.problem(start, format!("items: {message}"), None))
            })?;
            self.items = self.buffer.drain(..).collect();
            self.text.push_str(text);
        }
        Ok(next)
    }

    /// Visits each activity that it names, with its units.
    pub fn each(&self, mut visit: impl FnMut(&str, u64)) {
        if self.row.get(Column::Items).is_none() {
            visit(self.row.text(Column::Activity), self.row.quantity.unsigned_abs());
            return;
        }
        self.items.iter().for_each(|(activity, quantity)| visit(activity.as_str(), quantity.get()));
    }
}

/// Reads `{"activity": quantity, …}`; the same activity twice counts as the sum.
fn items(text: &str, shape: &Shape, items: &mut Vec<(ActivityId, Quantity)>) -> Result<(), String> {
    let mut added = Ok(());
    let fields = Fields("an object such as {\"1001\":2}", |activity: &str, quantity: &str| {
        if added.is_ok() {
            added = add(items, shape, activity, quantity);
        }
        Ok(())
    });
    let read = serde_json::Deserializer::from_str(text).deserialize_map(fields);
    read.map_err(|error| json_message(&error)).and(added)?;
    match items.len() {
        0 => Err("none are given, expected an object such as {\"1001\":2}".to_owned()),
        count if count > MultiOrder::MAX_ITEMS => {
            Err(format!("{count} activities in one order; the most is {}", MultiOrder::MAX_ITEMS))
        }
        _ => Ok(()),
    }
}

fn add(items: &mut Vec<(ActivityId, Quantity)>, shape: &Shape, activity: &str, raw: &str) -> Result<(), String> {
    let activity: ActivityId = activity.parse().map_err(|error| format!("{error}"))?;
    if let Some(why) = shape.refuses(&activity) {
        return Err(why);
    }
    let text = text_of(raw).ok_or_else(|| format!("`{activity}`: `{raw}` is not {}", Quantity::EXPECTED))?;
    let quantity: Quantity = text.parse().map_err(|error| format!("`{activity}`: {error}"))?;
    match items.iter_mut().find(|(known, _)| *known == activity) {
        Some((_, sum)) => {
            *sum = Quantity::new(sum.get() + quantity.get())
                .ok_or_else(|| format!("the quantities of `{activity}` add up to more than one order may take"))?;
        }
        None => items.push((activity, quantity)),
    }
    Ok(())
}
