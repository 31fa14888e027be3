//! What else a server knows about an answer: whether another layout has the activity, and whether it is a replica.
//!
//! Reads only, and only for hints: a user who lacks the right, or a connection that breaks, gets no hint.

use redis::Value;

use crate::model::id::ActivityId;
use crate::model::layout::Layout;
use crate::redis::call::Call;
use crate::redis::call::exchange::CallFailure;
use crate::script::keys::Keys;
use crate::store::Store;

impl Store {
    /// The other layouts in which each of these activities exists.
    pub fn layouts_with(&mut self, activities: &[&ActivityId]) -> Vec<Vec<Layout>> {
        let others: Vec<Layout> = Layout::NAMED.into_iter().filter(|layout| *layout != self.layout).collect();
        // On a cluster there are no others.
        if self.servers.is_cluster() {
            return Vec::new();
        }
        let mut calls = Vec::with_capacity(activities.len() * others.len());
        for activity in activities {
            for layout in &others {
                let keys = Keys::of(*layout, activity);
                calls.push(Call::keyless(redis::cmd("EXISTS").arg(keys.stock).arg(keys.meta)));
            }
        }
        let found: Result<Vec<Value>, CallFailure> = self.servers.fan_out(&calls, None).into_iter().collect();
        let Ok(found) = found else { return Vec::new() };
        let exists = |value: &Value| matches!(value, Value::Int(count) if *count > 0);
        let layouts = |found: &[Value]| {
            let known = others.iter().zip(found).filter(|(_, value)| exists(value));
            known.map(|(layout, _)| *layout).collect()
        };
        found.chunks(others.len()).map(layouts).collect()
    }

    /// Whether the server is a replica, which may lag behind its primary.
    pub fn is_replica(&mut self) -> bool {
        // On a cluster only primaries are asked.
        if self.servers.is_cluster() {
            return false;
        }
        let role = self.servers.fan_out(&[Call::keyless(&redis::cmd("ROLE"))], None).pop();
        matches!(role, Some(Ok(Value::Array(role))) if role.first() == Some(&Value::BulkString(b"slave".to_vec())))
    }

    /// The server's address, without a password.
    pub fn server(&self) -> &str {
        &self.servers.target().shown
    }
}
