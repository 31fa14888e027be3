//! The index of activities: the set that preheat fills, one for each layout.

use crate::error::StoreError;
use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::script::keys::Keys;
use crate::store::Store;

impl Store {
    /// The index key of this store's layout, for messages.
    pub fn index_key(&self) -> &'static str {
        Keys::index(self.layout)
    }

    /// The other layouts whose index names activities, and how many. One call each, of constant time; an index that
    /// cannot be read counts as empty, because this is only asked for a hint.
    pub fn other_layouts(&mut self) -> Vec<(Layout, i64)> {
        let mut found = Vec::new();
        // On a cluster there are no others.
        if self.servers.is_cluster() {
            return found;
        }
        for layout in Layout::NAMED.into_iter().filter(|layout| *layout != self.layout) {
            let size = self.servers.command(Keys::index(layout), redis::cmd("SCARD").arg(Keys::index(layout)));
            if let Ok(redis::Value::Int(count)) = size
                && count > 0
            {
                found.push((layout, count));
            }
        }
        found
    }

    /// Whether an activity was preheated, whatever the index says: whether it has a `meta`.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub fn has_meta(&mut self, activity: &ActivityId) -> Result<bool, StoreError> {
        let keys = self.keys(activity);
        let value = self.servers.command(&keys.meta, redis::cmd("EXISTS").arg(&keys.meta))?;
        Ok(value == redis::Value::Int(1))
    }
}
