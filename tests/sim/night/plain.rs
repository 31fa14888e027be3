//! A backend with scripts of its own, as docs/backends.md has them, over a network that never fails: nobody can ask again.
//!
//! Without a ledger it sells by a drop-in. Beside a ledger, where it must not sell, it takes units for a moment and gives them back,
//! whatever audits say meanwhile; before a repair an operator waits for it. Nothing is cut in a night of that: what a cut call took and
//! what came back may be as much, and then no sum tells.

use seckill::internals::DROP_INS;

use super::*;
use crate::keys::Reply;

/// Units that a backend took from the stock, and that nobody bought. It does so once in a night.
pub enum InHand {
    Nothing,
    Units(u64),
    Over,
}

impl InHand {
    /// A reset or a failover decides what became of them.
    pub fn lose(&mut self) {
        if matches!(self, Self::Units(_)) {
            *self = Self::Over;
        }
    }
}

impl Night<'_> {
    pub fn sell_plainly(&mut self) -> Result<(), Broken> {
        if self.is_resetting || self.is_repairing() {
            return Ok(());
        }
        // What a removal that was cut left of an archived sale is in files already.
        let found = Found::read(&self.activities[0], &self.engine.server.borrow().keys)?;
        let Some(found) = found.filter(|found| !found.is_archived) else { return Ok(()) };
        match self.in_hand {
            InHand::Units(_) if self.random.percent(10) => _ = self.give_back(),
            InHand::Nothing if self.has_ledger[0] && !found.held.is_empty() => self.take_in_hand(),
            _ if self.has_ledger[0] => {}
            _ => self.sell_by_drop_in(&found),
        }
        self.look()?;
        self.check()
    }

    /// Runs a drop-in with the first keys of the first activity.
    fn drop_in(&mut self, name: &str, keys: usize, args: &[&[u8]]) -> Option<Reply> {
        let script = DROP_INS.iter().find(|script| script.name == name).expect("there is such a drop-in");
        let names = &self.activities[0].keys;
        let participants = names.participants.iter().map(String::as_bytes);
        let names = std::iter::once(names.stock.as_bytes()).chain(participants).take(keys);
        let mut command: Vec<Bytes> =
            [b"EVAL", script.text.as_bytes(), keys.to_string().as_bytes()].map(<[u8]>::to_vec).into();
        command.extend(names.chain(args.iter().copied()).map(<[u8]>::to_vec));
        self.run_now(&command)
    }

    /// The same, which may end after any write. Not if nobody is recorded: without a mark, units that are missing then look as if
    /// records were lost.
    fn drop_in_or_cut(&mut self, found: &Found, name: &str, keys: usize, args: &[&[u8]]) -> Option<Reply> {
        let is_cut = !found.held.is_empty() && self.random.percent(8);
        let writes = self.random.below(3) as u32;
        self.engine.server.borrow_mut().cut_after = is_cut.then_some(writes);
        let reply = self.drop_in(name, keys, args);
        self.engine.server.borrow_mut().cut_after = None;
        self.was_cut |= is_cut;
        reply
    }

    pub fn run_now(&mut self, command: &[Bytes]) -> Option<Reply> {
        let reply = self.world.run_now(ALONE, command);
        self.tell(|| format!("a backend: {}", crate::server::shown(command, reply.as_ref())));
        reply
    }

    /// Users are recorded, so that nobody takes the sale for one that lost its records.
    fn take_in_hand(&mut self) {
        let units = 1 + self.random.below(3);
        if self.drop_in("product", 1, &[units.to_string().as_bytes()]) == Some(Reply::Int(1)) {
            (self.in_hand, self.was_cut) = (InHand::Units(units), true);
        }
    }

    /// Whether the backend has nothing in hand any more.
    pub fn give_back(&mut self) -> bool {
        let InHand::Units(units) = self.in_hand else { return true };
        let stock = self.activities[0].keys.stock.as_bytes().to_vec();
        let is_back = self.run_now(&[b"INCRBY".into(), stock, units.to_string().into()]).is_some();
        if is_back {
            self.in_hand = InHand::Over;
        }
        is_back
    }

    fn sell_by_drop_in(&mut self, found: &Found) {
        let (units, user) = (self.quantity(), self.random.pick(&self.users).clone());
        // Of a buyer without units beside the member, a refund takes all: it does not sell to one whose refund may still come, nor if
        // a failover may lose it.
        let may_come =
            |refund: &Refund| refund.user == user && matches!(refund.heard, Heard::Nothing | Heard::Rejected);
        // Nor to one whose units a cut call is about to write, or wrote before it recorded the buyer (docs/backends.md).
        let (names, server) = (&self.activities[0].keys, self.engine.server.borrow());
        let has_units = names.units.as_ref().is_some_and(|units| server.keys.field(units, &user).is_some());
        let is_cut = has_units && !found.held.contains_key(&user);
        let is_begun = is_cut || server.keys.field(&names.requests, b"\tbegun").is_some();
        drop(server);
        let is_unsafe = self.layout() == Layout::Sku && (self.has_replica || self.oracle.refunds.iter().any(may_come));
        if is_begun || is_unsafe {
            return;
        }
        let (quantity, limit) = (units.to_string(), found.limit.unwrap_or(1000).to_string());
        let (quantity, limit) = (quantity.as_bytes(), limit.as_bytes());
        let reply = match self.layout() {
            Layout::Sku => self.drop_in_or_cut(found, "sku", 2, &[quantity, &user]),
            Layout::Coupon => self.drop_in_or_cut(found, "coupon", 2, &[&user]),
            _ => self.drop_in_or_cut(found, "seckill", 2, &[&user, quantity, limit]),
        };
        let is_sold = match reply {
            Some(Reply::Int(left)) if self.layout() == Layout::Sku => left >= 0,
            Some(Reply::Int(code)) => code == 1,
            Some(Reply::Array(parts)) => parts.first() == Some(&Reply::Int(1)),
            _ => false,
        };
        if !is_sold {
            return;
        }
        // Who gets no answer never asks again, and has no record of it: units that nobody recorded are missing once a repair takes
        // the buyer away.
        if self.random.percent(10) {
            self.was_cut |= self.layout() == Layout::Sku;
            return;
        }
        let number = self.oracle.orders.len();
        let order = Order::new(number, user, vec![(0, units)]);
        self.oracle.orders.push(Order { is_plain: true, is_nameless: true, heard: Heard::Bought, ..order });
        self.answers += 1;
        self.note_bought(number);
    }
}
