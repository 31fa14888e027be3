//! Keys that expire in the middle of a night: those of the first activity vanish, some first or all at once, and an operator makes
//! the sale anew when nothing of the old one can come any more. Nothing is sold from nothing, nor made, and no audit proves it. Of
//! what is left operators also try an adoption: it puts nothing up for sale that a user has.

use super::*;

/// How long processes use what is gone, and when the sale is made anew, in ms.
const USED_FOR: u64 = 3000;
const ANEW_AFTER: u64 = 12_000;

/// Since when keys are gone, and those that are left.
pub struct Gone {
    at: u64,
    left: Vec<Bytes>,
    /// What there was, if it was one activity: nobody updates it in such a night.
    total: Option<i64>,
    /// Whether an operator tried to adopt what is left: it may be whole for a while.
    is_adopted: bool,
}

impl Night<'_> {
    /// Whether the keys of the first activity had their turn.
    pub fn expire_keys(&mut self) -> bool {
        if !self.expires || self.is_resetting {
            return false;
        }
        match &self.gone {
            Some(gone) if self.now() > gone.at + ANEW_AFTER => self.is_resetting = true,
            Some(gone) if self.now() > gone.at + USED_FOR => {}
            None if self.random.percent(6) => self.lose_keys(25),
            Some(gone) if !gone.left.is_empty() && self.random.percent(6) => self.lose_keys(100),
            _ => return false,
        }
        true
    }

    /// All keys in that percentage of cases, else some.
    fn lose_keys(&mut self, all: u64) {
        let found = Found::read(&self.activities[0], &self.engine.server.borrow().keys);
        let total = found.ok().flatten().filter(|_| self.shards.is_none()).map(|found| found.total);
        let total = self.gone.as_ref().map_or(total, |gone| gone.total);
        let is_whole = self.random.percent(all);
        let (mut left, mut lost) = (Vec::new(), Vec::new());
        let there = self.keys_there();
        // Of a key that is gone already a replica may still have something.
        let names = if is_whole { self.key_names() } else { there.clone() };
        for key in names {
            let expires = is_whole || self.random.percent(50);
            let is_there = there.contains(&key);
            if expires && self.world.expire(ALONE, &key) {
                lost.push(key);
            } else if is_there {
                left.push(key);
            }
        }
        if lost.is_empty() {
            return;
        }
        self.tell(|| format!("keys expire: {}", String::from_utf8_lossy(&lost.join(&b' '))));
        let at = self.gone.as_ref().map_or(self.now(), |gone| gone.at);
        let is_adopted = self.gone.as_ref().is_some_and(|gone| gone.is_adopted);
        self.gone = Some(Gone { at, left, total, is_adopted });
        // Of an order of two activities one half is gone.
        self.was_reset = true;
    }

    /// The server has keys of before: nobody made them now.
    pub fn look_at_left(&mut self) {
        let there = self.keys_there();
        self.gone.iter_mut().for_each(|gone| gone.left.clone_from(&there));
    }

    /// The keys of the first activity that are there.
    fn keys_there(&self) -> Vec<Bytes> {
        let server = self.engine.server.borrow();
        self.key_names().into_iter().filter(|name| server.keys.0.contains_key(name)).collect()
    }

    fn key_names(&self) -> Vec<Bytes> {
        let all = std::iter::once(&self.activities[0]).chain(&self.activities[0].parts);
        all.flat_map(|activity| activity.keys.all()).map(|name| name.as_bytes().to_vec()).collect()
    }

    /// Whether nothing can be sold, because the stock is gone; of shards, because all is.
    pub fn has_nothing(&self) -> bool {
        let (there, stock) = (self.keys_there(), self.activities[0].keys.stock.as_bytes());
        self.gone.is_some() && there.iter().all(|key| self.shards.is_none() && key != stock)
    }

    /// Compares what is left with what was.
    pub fn check_gone(&self, gone: &Gone) -> Result<(), Broken> {
        if !self.is_resetting && gone.left.is_empty() && !self.keys_there().is_empty() {
            let there: Vec<_> = self.keys_there().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
            return broken("nothing is made of nothing", there.join(" "));
        }
        let Some(found) = Found::read(&self.activities[0], &self.engine.server.borrow().keys)? else { return Ok(()) };
        // What was bought before stays sold, even if its users are not recorded any more; an adoption has no total that counts until its end.
        // A refund that is sent again without its id is another one.
        let bought: i64 = self.oracle.bought(0).values().map(|units| (*units).max(0)).sum();
        let is_lost = self.oracle.orders.iter().any(|order| order.is_lost);
        let is_known = !self.is_resetting && self.oracle.refunds.is_empty() && !is_lost;
        if let Some(total) = gone.total.filter(|total| is_known && bought + found.for_sale > *total) {
            let what = format!("{bought} bought and {} for sale of {total}", found.for_sale);
            return broken("nothing is sold twice", what);
        }
        let held: i64 = found.held.values().filter(|units| **units < i64::MAX).sum();
        // A reset that was cut has the new total and the old users, and nothing for sale.
        let may_sell = !self.is_resetting || found.for_sale > 0;
        if may_sell && held + found.for_sale > found.most {
            let what = format!("{held} held and {} for sale of {}", found.for_sale, found.most);
            return broken("never more than there is", what);
        }
        Ok(())
    }

    /// Takes over what is left, with the total that there was or with what it comes to.
    pub fn adopt_rest(&mut self) -> Option<Step> {
        let gone = self.gone.as_mut()?;
        gone.is_adopted = true;
        let total = gone.total.filter(|_| self.random.percent(50)).map(i64::cast_unsigned);
        Some(Step::new(About::Upkeep, Op::Adopt(total)))
    }

    /// What a process says that used what is gone: if there was nothing when it began, and still is not, no caller
    /// succeeded, and no audit says that all is well.
    pub fn hear_gone(&mut self, process: usize, done: &Done, task: &Task) -> Result<(), Broken> {
        let is_good = |status: &Status| matches!(status, Status::Ok | Status::Replayed);
        let (what, is_good) = match done {
            Done::Nothing => return Ok(()),
            Done::Failed(error) => (error.to_string(), false),
            Done::Status(status, _) => (status.to_string(), is_good(status)),
            Done::Lines(lines, error) => {
                (format!("{lines:?} {error:?}"), lines.iter().any(|(_, status, _)| *status == Status::Ok))
            }
            Done::Audited(audit) => (audit::shown(audit), audit.verdict == Verdict::Match),
        };
        self.tell(|| format!("p{process} {:?}: {what}", task.about));
        let is_operator = matches!(task.about, About::Upkeep | About::Repair);
        let is_adopted = self.gone.as_ref().is_some_and(|gone| gone.is_adopted);
        let is_true = is_operator || is_adopted || !(is_good && task.had_nothing && self.has_nothing());
        if is_true { Ok(()) } else { broken("nothing is sold from nothing", format!("{:?}: {what}", task.about)) }
    }

    /// What is gone is made anew at the end, when nothing can come any more.
    pub fn renew(&mut self) {
        if self.gone.is_some() && !self.is_resetting {
            self.wait(Duration::from_millis(ANEW_AFTER));
            self.is_resetting = true;
        }
    }
}
