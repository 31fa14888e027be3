//! Several orders of several activities in one call: one after the other, each all or nothing.

use std::collections::HashMap;

use super::super::call::{Again, Try};
use super::super::keys::Keys;
use super::super::orders::multi_outcome;
use super::super::reply::Reply;
use super::super::scripts::MULTI_DEDUCT;
use super::super::{Store, StoreError};
use crate::inventory::id::{ActivityId, UserId};
use crate::inventory::order::{MultiOrder, MultiOutcome};

impl Store {
    /// Takes the units of several orders, at most 512, that touch at most 512 activities. `keeps_refusals` is for
    /// orders that are a line of a job, and for those that were sent before: what refused them is kept under their
    /// request, so that another try is told the same.
    ///
    /// # Errors
    /// Any of [`StoreError`]; refusals are statuses of the outcomes.
    pub fn multi_deduct_all(
        &mut self,
        orders: &[MultiOrder],
        keeps_refusals: bool,
    ) -> Result<Vec<MultiOutcome>, StoreError> {
        let mut places: HashMap<&ActivityId, usize> = HashMap::new();
        let mut keys: Vec<Keys> = Vec::new();
        for (activity, _) in orders.iter().flat_map(|order| &order.items) {
            places.entry(activity).or_insert_with(|| {
                keys.push(Keys::of(self.layout, activity));
                keys.len()
            });
        }
        let names: Vec<&str> = keys.iter().flat_map(Keys::in_order).collect();
        let (kind, by) = (self.kind(), self.operator.clone());
        let value = self.server.run(&MULTI_DEDUCT, &names, Again::Safe, None, |nth| {
            let mode = if keeps_refusals || nth == Try::Retry { "retry" } else { "first" };
            let mut arguments = vec![kind.clone(), by.clone(), mode.to_owned()];
            for order in orders {
                arguments.extend([
                    order.user.as_ref().map_or("", UserId::as_str).to_owned(),
                    order.request.to_string(),
                    order.reason.clone().unwrap_or_default(),
                    order.items.len().to_string(),
                ]);
                for (activity, quantity) in &order.items {
                    arguments.extend([places[activity].to_string(), quantity.to_string()]);
                }
            }
            arguments
        })?;
        let reply = Reply::of(&MULTI_DEDUCT);
        let values = reply.array(value)?;
        if values.len() != orders.len() {
            return Err(reply.unfit(&values));
        }
        let outcomes = orders.iter().zip(&values).map(|(order, value)| {
            let text = reply.text(Some(value))?.unwrap_or_default();
            multi_outcome(&text, order, &keys).ok_or_else(|| reply.unfit(&text))
        });
        outcomes.collect()
    }
}
