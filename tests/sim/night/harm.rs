//! Damage in the middle of a night, as another program or an eviction does it: a hold loses its deadline, what a user holds open is
//! counted wrong, or all participants are lost. Until a repair, calls may be `corrupt`, and no audit says that all is well.

use super::*;
use crate::keys::{Data, Keys, integer};

/// When keys of the first activity were damaged, and when an audit found them whole again, after how many events.
pub struct Harm {
    at: u64,
    pub until: Option<u64>,
    /// How many writes there were then.
    pub written: u64,
    /// After how many events an audit could see it, without a break since.
    pub seen: Option<u64>,
    /// Whether it lost its participants.
    has_lost: bool,
}

impl Night<'_> {
    /// Whether keys of the first activity were damaged now. Not if some are already.
    pub fn harm(&mut self) -> bool {
        // A refund of more than a user bought may come behind it, and take what is held open and not counted.
        let is_undue = |refund: &Refund| refund.heard == Heard::Nothing && !refund.is_due;
        let is_off = !self.is_harmed || self.is_resetting || self.is_harmed_now() || self.is_archived(0);
        if is_off || self.oracle.refunds.iter().any(is_undue) || !self.random.percent(8) {
            return false;
        }
        let sale = &self.activities[0];
        let part = if sale.parts.is_empty() { sale } else { self.random.pick(&sale.parts) };
        // Of a call that was cut the ledger may lack units, and nothing else has them then.
        let is_whole = self.has_ledger[0] && !self.was_cut;
        let (names, has_lost) = (part.keys.clone(), is_whole && self.random.percent(50));
        let [participants, deadlines] =
            [names.participants, names.deadlines].map(|name| name.expect("it records users"));
        let server = self.engine.server.borrow();
        let (open, counts) = (open_holds(&server.keys, &names.requests), counts(&server.keys, &names.requests));
        let has_users = server.keys.0.contains_key(participants.as_bytes());
        drop(server);
        let command: Vec<Bytes> = if has_lost {
            vec!["DEL".into(), participants.clone().into()]
        } else if open.is_empty() || counts.is_empty() {
            return false;
        } else if self.random.percent(50) {
            vec!["ZREM".into(), deadlines.into(), self.random.pick(&open).0.to_vec()]
        } else {
            let (user, count) = self.random.pick(&counts.into_iter().collect::<Vec<_>>()).clone();
            let (field, wrong) = ([b"\to:", &user[..]].concat(), self.random.below(count.cast_unsigned() + 2));
            match wrong.to_string() {
                _ if wrong == 0 => vec!["HDEL".into(), names.requests.into(), field],
                text => vec!["HSET".into(), names.requests.into(), field, text.into()],
            }
        };
        if has_lost && !has_users || self.world.run_now(ALONE, &command).is_none() {
            return false;
        }
        self.tell(|| format!("another program: {}", crate::server::shown(&command, None)));
        self.harm = Some(Harm { at: self.turns, until: None, written: 0, seen: None, has_lost });
        self.look_for_harm();
        self.was_cut = true;
        // What is counted as open by mistake, no refund takes; and what is not, it would.
        self.oracle.refunds.iter_mut().for_each(|refund| refund.is_due = false);
        true
    }

    /// Whether no audit has found it whole since.
    pub fn is_harmed_now(&self) -> bool {
        self.harm.as_ref().is_some_and(|harm| harm.until.is_none())
    }

    pub fn has_lost_participants(&self) -> bool {
        self.harm.as_ref().is_some_and(|harm| harm.until.is_none() && harm.has_lost)
    }

    /// Whether what a process did may have met damage, or a shard that a cut left halfway.
    pub fn may_be_corrupt(&self, task: &Task) -> bool {
        let meets = |harm: &Harm| harm.until.is_none_or(|until| task.turns <= until);
        self.has_cut_shard || self.harm.as_ref().is_some_and(meets)
    }

    /// Whether an order in doubt waits for a human: a refund, behind damage, took units of its hold.
    pub fn waits(&self, order: &Order) -> bool {
        let is_of = |it: &Refund| it.heard == Heard::Ended && it.user == order.user && order.is_in(it.activity);
        self.harm.is_some() && order.heard == Heard::Nothing && self.oracle.refunds.iter().any(is_of)
    }

    /// Whether one with an item in this activity does, or order records of a user are below zero, which are for a human, too.
    pub fn needs_human(&self, activity: usize) -> bool {
        let waits = self.oracle.orders.iter().any(|order| order.is_in(activity) && self.waits(order));
        waits || self.oracle.bought(activity).values().any(|units| *units < 0)
    }

    /// An operator repairs what another program damaged, before anything expires.
    pub fn mend(&mut self) -> Result<(), Broken> {
        for _ in 0..3 {
            if !self.is_harmed_now() {
                break;
            }
            self.wait(Duration::from_millis(1500));
            for (requests, user) in self.orphans(false) {
                let command: Vec<Bytes> = vec!["HDEL".into(), requests.into(), [b"\to:", &user[..]].concat()];
                self.tell(|| format!("an operator: {}", crate::server::shown(&command, None)));
                self.world.run_now(ALONE, &command);
            }
            let audit = self.audit(0, true);
            self.steps_alone(vec![audit])?;
            if let Some(planned) = self.planned.take() {
                let repair = self.repair(planned);
                self.steps_alone(vec![repair])?;
            }
        }
        Ok(())
    }

    /// An audit that found nothing to repair: then nothing is damaged any more.
    pub fn hear_match(&mut self, task: &Task) -> Result<(), Broken> {
        let (damage, turns, has_orphans) = (self.damage(), self.turns, !self.orphans(true).is_empty());
        let Some(harm) = self.harm.as_mut().filter(|harm| harm.until.is_none() && harm.at <= task.turns) else {
            return Ok(());
        };
        match damage {
            None if has_orphans => {}
            None => (harm.until, harm.written) = (Some(turns), self.world.written),
            Some(what) if harm.seen.is_some_and(|seen| seen <= task.turns) => return broken("damage is noticed", what),
            // It became visible while the audit read, which may have passed it already.
            Some(_) => {}
        }
        Ok(())
    }

    /// Takes note of whether an audit could see now what was damaged.
    pub fn look_for_harm(&mut self) {
        if self.is_harmed_now() {
            let (is_seen, turns) = (self.damage().is_some(), self.turns);
            let harm = self.harm.as_mut().expect("it is harmed");
            harm.seen = harm.seen.filter(|_| is_seen).or(is_seen.then_some(turns));
        }
    }

    /// Counts of users who hold nothing open, with the key that has each: no audit looks for them, and only an operator removes them,
    /// unless a call has begun there that may write more.
    fn orphans(&self, has_begun: bool) -> Vec<(String, Bytes)> {
        let keys = &self.engine.server.borrow().keys;
        let sale = &self.activities[0];
        let of_part = |part: &Activity| {
            let requests = &part.keys.requests;
            let open = open_holds(keys, requests);
            let is_orphan = |user: &Bytes| open.iter().all(|(_, holder, _)| holder != user);
            let users = counts(keys, requests).into_keys().filter(is_orphan);
            users.map(|user| (requests.clone(), user)).collect::<Vec<_>>()
        };
        let parts = std::iter::once(sale).chain(&sale.parts);
        let is_done = |part: &&Activity| has_begun || keys.field(&part.keys.requests, b"\tbegun").is_none();
        parts.filter(is_done).flat_map(of_part).collect()
    }

    /// What is wrong in the keys of the first activity. What a call is about to write, no audit knows.
    fn damage(&self) -> Option<String> {
        let keys = &self.engine.server.borrow().keys;
        let sale = &self.activities[0];
        let of_part = |part: &Activity| {
            let (requests, deadlines) = (&part.keys.requests, part.keys.deadlines.as_ref()?);
            if keys.field(requests, b"\tbegun").is_some() {
                return None;
            }
            let mut sums: BTreeMap<Bytes, i64> = BTreeMap::new();
            for (id, user, units) in open_holds(keys, requests) {
                *sums.entry(user).or_default() += units;
                let is_dated =
                    matches!(keys.0.get(deadlines.as_bytes()), Some(Data::Sorted(all)) if all.contains_key(&id));
                if !is_dated {
                    return Some(format!("{} has no deadline", String::from_utf8_lossy(&id)));
                }
            }
            // A count of a user who holds nothing open is not looked for.
            let counts = counts(keys, requests);
            let wrong = sums.iter().find(|(user, units)| counts.get(*user) != Some(units))?;
            Some(format!("{wrong:?} are held open, {counts:?} are counted"))
        };
        std::iter::once(sale).chain(&sale.parts).find_map(of_part)
    }
}

fn fields<'k>(keys: &'k Keys, requests: &str, kind: &'static [u8]) -> impl Iterator<Item = (&'k [u8], &'k [u8])> {
    let fields = match keys.0.get(requests.as_bytes()) {
        Some(Data::Hash(fields)) => Some(fields),
        _ => None,
    };
    fields.into_iter().flatten().filter_map(move |(field, text)| Some((field.strip_prefix(kind)?, &text[..])))
}

/// Request ids of open holds, with their users and units.
fn open_holds(keys: &Keys, requests: &str) -> Vec<(Bytes, Bytes, i64)> {
    let read = |(id, text): (&[u8], &[u8])| {
        let words: Vec<&[u8]> = text.splitn(5, |byte| *byte == b' ').collect();
        let [b"held", units, _, _, user] = words[..] else { return None };
        Some((id.to_vec(), user.to_vec(), integer(units)?))
    };
    fields(keys, requests, b"\th:").filter_map(read).collect()
}

/// Units that are counted as held open, by user.
fn counts(keys: &Keys, requests: &str) -> BTreeMap<Bytes, i64> {
    fields(keys, requests, b"\to:").filter_map(|(user, units)| Some((user.to_vec(), integer(units)?))).collect()
}
