//! Damage to keys that no call does. A script notices it and changes nothing; then the keys are as they were again.

use super::calls::{Activity, Call, shown, shown_reply, status};
use super::history::History;
use super::keys::{Bytes, Data, Keys, StreamId, integer};
use super::oracle::{Broken, Heard, Order, broken};

const LAST_ID: StreamId = (u64::MAX, u64::MAX);

impl History<'_> {
    /// Damages the first activity for one call, which must refuse and leave everything as it is.
    pub fn damage(&mut self) -> Result<(), Broken> {
        let whole = self.engine.server.borrow().keys.clone();
        let call = if self.random.percent(50) { self.damage_ledger() } else { self.damage_counter() };
        let Some(call) = call else { return Ok(()) };
        let damaged = self.engine.server.borrow().keys.clone();
        let reply = self.engine.run(call.sha1, &call.keys, &call.args).expect("it is not cut");
        let left = std::mem::replace(&mut self.engine.server.borrow_mut().keys, whole);
        self.tell(|| format!("    damaged: {} -> {}", shown(&call), shown_reply(&reply)));
        // What was written is taken back, and an order may be refused before anybody looks.
        if self.without_strays(left) == self.without_strays(damaged) && status(&reply).is_some_and(|status| status < 0)
        {
            return Ok(());
        }
        broken("damage is noticed", format!("{}: {}", shown(&call), shown_reply(&reply)))
    }

    /// Keys without units that a cut call wrote of users who are no members: nobody reads them, and a purchase writes over them.
    fn without_strays(&self, mut keys: Keys) -> Keys {
        let Activity { keys: names, .. } = &self.activities[0];
        let (Some(units), Some(participants)) = (&names.units, &names.participants) else { return keys };
        let members = match keys.0.get(participants.as_bytes()) {
            Some(Data::Set(members)) => members.clone(),
            _ => Default::default(),
        };
        if let Some(Data::Hash(users)) = keys.0.get_mut(units.as_bytes()) {
            users.retain(|user, _| members.contains(user));
            if users.is_empty() {
                keys.0.remove(units.as_bytes());
            }
        }
        keys
    }

    /// A ledger is lost, or at its last id: some call that would write to it.
    fn damage_ledger(&mut self) -> Option<Call> {
        let activity = &self.activities[0];
        let mut server = self.engine.server.borrow_mut();
        let ledger = activity.keys.ledger.as_bytes();
        let Some(Data::Stream(stream)) = server.keys.0.get_mut(ledger) else { return None };
        if self.random.percent(50) {
            stream.last = LAST_ID;
            stream.entries.insert(LAST_ID, vec![b"op".into(), b"pause".into()]);
        } else {
            server.keys.0.remove(ledger);
        }
        let has_users = activity.layout.kind().has_users();
        Some(match self.random.below(if has_users { 6 } else { 4 }) {
            0 => activity.call("deduct", ["shop", "ann", "1", "damaged"]),
            1 => activity.call("refund", ["shop", "ann", "1", "damaged"]),
            2 => activity.call("preheat", ["operator", "", "update", "0", "30", "", "", "", "", ""]),
            3 => activity.plain_call("pause", ["paused", "operator", "", "0", ""]),
            4 => activity.call("hold", ["shop", "ann", "1", "damaged", "first", "", "3000"]),
            _ => activity.call("settle", ["cron", "20", "expire"]),
        })
    }

    /// A user's counter says one unit less than the user holds open: a confirmation of one of the holds.
    fn damage_counter(&mut self) -> Option<Call> {
        let activity = &self.activities[0];
        let keys = &mut self.engine.server.borrow_mut().keys;
        let requests = &activity.keys.requests;
        // It would be finished first.
        if keys.field(requests, b"\tbegun").is_some() {
            return None;
        }
        let is_open = |order: &&Order| {
            let record = keys.field(requests, format!("\th:{}", order.request).as_bytes());
            matches!(order.heard, Heard::Held(_))
                && !order.is_item
                && record.is_some_and(|text| text.starts_with(b"held "))
        };
        let open: Vec<&Order> = self.oracle.orders.iter().filter(is_open).collect();
        let order = (!open.is_empty()).then(|| *self.random.pick(&open))?;
        let units = integer(keys.field(requests, &[b"\to:", &order.user[..]].concat())?)?;
        let participants = activity.keys.participants.as_ref()?.as_bytes();
        let Some(Data::Hash(users)) = keys.0.get_mut(participants) else { return None };
        let left: Bytes = (units - 1).to_string().into();
        users.insert(order.user.clone(), left);
        Some(activity.call("settle", ["shop", &order.request, "confirm"]))
    }
}
