//! What is shown of an order of several activities: as a document with its items, or as a row an item.

use serde::Serialize;

use crate::cli::output::Cell;
use crate::cli::output::columns;
use crate::model::id::{RequestId, UserId};
use crate::model::order::{Bought, MultiOrder, MultiOutcome};
use crate::model::status::Status;

#[derive(Debug, Serialize)]
pub struct MultiDocument<'a> {
    user: Option<&'a str>,
    status: Status,
    request: Option<&'a str>,
    items: Vec<ItemDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct ItemDocument<'a> {
    activity: &'a str,
    quantity: u64,
    status: Status,
    stock: Option<u64>,
    bought: Option<Bought>,
}

impl<'a> MultiDocument<'a> {
    /// The document of an order. A dry run has no request.
    pub fn new(order: &'a MultiOrder, request: Option<&'a RequestId>, outcome: &MultiOutcome) -> Self {
        let items = ItemRow::of(order, request, outcome).map(|row| ItemDocument {
            activity: row.activity,
            quantity: row.quantity,
            status: row.status,
            stock: row.stock,
            bought: row.bought,
        });
        Self {
            user: order.user.as_ref().map(UserId::as_str),
            status: outcome.status,
            request: request.map(RequestId::as_str),
            items: items.collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ItemRow<'a> {
    user: Option<&'a str>,
    activity: &'a str,
    quantity: u64,
    status: Status,
    stock: Option<u64>,
    bought: Option<Bought>,
    request: Option<&'a str>,
}

impl<'a> ItemRow<'a> {
    pub fn of(
        order: &'a MultiOrder,
        request: Option<&'a RequestId>,
        outcome: &MultiOutcome,
    ) -> impl Iterator<Item = Self> {
        order.items.iter().zip(&outcome.items).map(move |((activity, quantity), item)| Self {
            user: order.user.as_ref().map(UserId::as_str),
            activity: activity.as_str(),
            quantity: quantity.get(),
            status: item.status,
            stock: item.stock,
            bought: item.bought,
            request: request.map(RequestId::as_str),
        })
    }
}

columns!(row: ItemRow<'_> {
    user => Cell::text(row.user.unwrap_or_default()).flexible();
    activity => Cell::text(row.activity).flexible();
    quantity;
    status;
    stock;
    bought;
    request;
}, changed if row.status == Status::Ok);

/// An order of a file. A table shows the summary of a file instead, so there are no cells.
#[derive(Debug, Serialize)]
pub struct LineDocument<'a> {
    line: u64,
    #[serde(flatten)]
    order: MultiDocument<'a>,
}

impl<'a> LineDocument<'a> {
    /// The order that begins in that line.
    pub fn new(line: u64, order: &'a MultiOrder, outcome: &MultiOutcome) -> Self {
        Self { line, order: MultiDocument::new(order, Some(&order.request), outcome) }
    }
}

#[derive(Debug, Serialize)]
pub struct LineItemRow<'a> {
    line: u64,
    // Not flattened: csv takes the fields of a struct within a struct, but no map, which a flattened one would be.
    item: ItemRow<'a>,
}

impl<'a> LineItemRow<'a> {
    /// The rows of the order that begins in that line.
    pub fn of(line: u64, order: &'a MultiOrder, outcome: &MultiOutcome) -> impl Iterator<Item = Self> {
        ItemRow::of(order, Some(&order.request), outcome).map(move |item| Self { line, item })
    }
}

columns!(_row: LineItemRow<'_> {
    data line;
    data user;
    data activity;
    data quantity;
    data status;
    data stock;
    data bought;
    data request;
});

columns!(_row: LineDocument<'_> {
    data line;
    data user;
    data status;
    data request;
    data items;
});
