//! Orders of several activities in jsonl: `{"user":"7","items":{"1001":2,"1002":1},"request":"…"}`.

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::blocks::Blocks;
use super::jsonl::{Key, text_of};
use super::mapping::Mapping;
use super::row::{Column, OrderRow, Quantities, Shape};
use super::{Dialect, Next, OrderReader, RowError, lines};
use crate::inventory::failure::Failure;
use crate::inventory::id::ActivityId;
use crate::inventory::number::Quantity;
use crate::inventory::order::MultiOrder;

/// One order of several activities.
#[derive(Debug, Default)]
pub struct MultiRow {
    /// The order itself: user, request, reason and line.
    pub order: OrderRow,
    /// Each activity once, with the sum of what was asked of it.
    pub items: Vec<(ActivityId, Quantity)>,
}

/// Orders of several activities, in the order of the input.
pub struct MultiReader(OrderReader);

impl MultiReader {
    /// Begins to read.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn new(blocks: Blocks, mapping: &Mapping, has_users: bool) -> Result<Self, Failure> {
        let shape = Shape {
            required: if has_users { &[Column::User, Column::Items] } else { &[Column::Items] },
            optional: if has_users {
                &[Column::Request, Column::Reason]
            } else {
                &[Column::User, Column::Request, Column::Reason]
            },
            quantities: Quantities::Orders,
        };
        OrderReader::new(blocks, Some(Dialect::Jsonl), mapping, shape).map(Self)
    }

    /// The reader below: what waits, and what knows the line.
    pub fn rows(&mut self) -> &mut OrderReader {
        &mut self.0
    }

    /// The blocks below.
    pub fn into_blocks(self) -> Blocks {
        self.0.into_blocks()
    }

    /// Reads the next order.
    ///
    /// # Errors
    /// As [`OrderReader::next`].
    pub fn next(&mut self, row: &mut MultiRow) -> Result<Next, RowError> {
        let next = self.0.next(&mut row.order)?;
        if next == Next::Row {
            row.items.clear();
            items(row.order.text(Column::Items), &mut row.items).map_err(|message| {
                let column = super::jsonl::place(self.0.raw(), self.0.mapping.name(Column::Items));
                RowError::Bad(lines::problem(row.order.line(), column, format!("items: {message}"), None))
            })?;
        }
        Ok(next)
    }
}

/// Reads `{"activity": quantity, …}`; the same activity twice counts as the sum.
fn items(text: &str, items: &mut Vec<(ActivityId, Quantity)>) -> Result<(), String> {
    struct Items<'a>(&'a mut Vec<(ActivityId, Quantity)>);
    impl<'de> Visitor<'de> for Items<'_> {
        type Value = Result<(), String>;
        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object such as {\"1001\":2}")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut wrong = Ok(());
            while let Some((name, raw)) = map.next_entry::<Key<'de>, &RawValue>()? {
                if wrong.is_ok() {
                    wrong = add(self.0, &name.0, raw.get());
                }
            }
            Ok(wrong)
        }
    }
    serde_json::Deserializer::from_str(text)
        .deserialize_map(Items(items))
        .map_err(|error| error.to_string().split(" at line ").next().unwrap_or_default().to_owned())??;
    match items.len() {
        0 => Err("none are given, expected an object such as {\"1001\":2}".to_owned()),
        count if count > MultiOrder::MOST_ITEMS => {
            Err(format!("{count} activities in one order; the most is {}", MultiOrder::MOST_ITEMS))
        }
        _ => Ok(()),
    }
}

fn add(items: &mut Vec<(ActivityId, Quantity)>, activity: &str, raw: &str) -> Result<(), String> {
    let activity: ActivityId = activity.parse().map_err(|error| format!("{error}"))?;
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
