//! What becomes of the server of a night, and what callers may still rely on then.
//!
//! A failover loses the last calls. What was answered before them, or after a replica was waited for, stays true. Of the rest, a
//! caller either asks again, or has it in the order records and leaves it to a repair.

use super::*;
use crate::world::Failure;

/// How long whatever happened to the server lasts, at most.
pub const RECOVERED_AFTER: Duration = Duration::from_secs(10);

/// When callers heard what they know now, by the number of writes that there were.
#[derive(Default)]
pub struct HeardAt {
    orders: Vec<(Heard, u64)>,
    refunds: Vec<(Heard, u64)>,
    /// A reset was answered.
    pub reset: u64,
}

impl Night<'_> {
    /// Something becomes of a server, rather of one whose replica gets nothing.
    pub fn fail(&mut self, stalled: Option<usize>) -> Result<(), Broken> {
        let node = stalled.unwrap_or_else(|| self.random.below(self.world.nodes() as u64) as usize);
        let failure = match self.random.below(5) {
            0..2 if stalled.is_none() => {
                let ms = self.random.below(5000);
                self.tell(|| format!("the replica of node {node} gets nothing for {ms} ms"));
                self.world.stall(node, 1000 * ms);
                return Ok(());
            }
            2 => Failure::Restart,
            3 => Failure::Failover,
            _ => Failure::Switch,
        };
        let Some((kept, lost)) = self.world.fail(node, failure, &mut self.random) else { return Ok(()) };
        self.tell(|| format!("{failure:?} of node {node}: {lost} writes are lost"));
        if lost > 0 {
            self.keeps_records = self.random.percent(50);
            self.lose(kept);
        }
        self.look()?;
        self.check()
    }

    /// Callers cannot rely any more on what they heard since then.
    fn lose(&mut self, kept: u64) {
        self.failures += 1;
        // What repaired keys may be lost.
        self.harm.iter_mut().filter(|it| it.written > kept).for_each(|it| (it.until, it.seen) = (None, None));
        self.in_hand.lose();
        self.loader.iter_mut().for_each(Loader::lose);
        self.look_at_left();
        (self.planned, self.export, self.wants_total) = (None, None, false);
        self.is_resetting |= self.heard_at.reset > kept;
        for order in 0..self.heard_at.orders.len() {
            if self.heard_at.orders[order].1 > kept {
                self.doubt_order(order);
            }
        }
        for refund in 0..self.oracle.refunds.len() {
            if self.heard_at.refunds.get(refund).is_some_and(|(_, at)| *at > kept) {
                self.doubt_refund(refund);
            }
            // Its user may not have the units any more.
            self.oracle.refunds[refund].is_due = false;
        }
        for file in &mut self.files {
            file.applied.retain(|_, at| *at <= kept);
            file.decided.clear();
            file.done_at = file.done_at.filter(|at| *at <= kept);
        }
    }

    fn doubt_order(&mut self, number: usize) {
        // Who applies a file again, or still waits for an answer, sends it once more in any case.
        let is_of_file = self.files.iter().any(|file| !file.refunds() && file.about.contains(&number));
        let is_left = self.keeps_records && !is_of_file && !self.is_under_way(number);
        let order = &mut self.oracle.orders[number];
        let is_left = is_left || order.is_plain;
        match order.heard {
            Heard::Nothing | Heard::Rejected => {}
            Heard::Bought if is_left => order.is_lost = true,
            heard => {
                order.is_confirming |= order.is_hold && heard == Heard::Bought;
                order.is_releasing |= heard == Heard::Ended;
                order.heard = Heard::Nothing;
            }
        }
        self.heard_at.orders[number].0 = self.oracle.orders[number].heard;
    }

    fn doubt_refund(&mut self, number: usize) {
        let is_of = |file: usize| self.files[file].refunds() && self.files[file].about.contains(&number);
        let is_sent_again =
            self.tasks.iter().flatten().any(|task| matches!(task.about, About::File(file) if is_of(file)));
        let refund = &mut self.oracle.refunds[number];
        refund.is_due = false;
        if refund.heard != Heard::Rejected || is_sent_again {
            refund.heard = Heard::Nothing;
        }
        self.heard_at.refunds[number].0 = refund.heard;
    }

    /// Whether the server failed while a process was at it.
    pub fn has_failed_since(&self, task: &Task) -> bool {
        self.failures != task.failures
    }

    /// The writes that must not be lost for what callers hear now to stay true.
    pub fn needs(&self, is_replicated: bool) -> u64 {
        if is_replicated { 0 } else { self.world.written }
    }

    /// Takes note of what was answered at once.
    pub fn note_bought(&mut self, number: usize) {
        note(&mut self.heard_at.orders, number, Heard::Bought, self.world.written);
    }

    /// Takes note of when callers heard what they know since a process is done. What it heard may be of a server that is gone.
    pub fn note_heard(&mut self, task: &Task, is_replicated: bool) {
        let (now, has_failed) = (self.needs(is_replicated), self.has_failed_since(task));
        for number in 0..self.oracle.orders.len() {
            let heard = self.oracle.orders[number].heard;
            if note(&mut self.heard_at.orders, number, heard, now) && has_failed && !is_replicated {
                self.doubt_order(number);
            }
        }
        for number in 0..self.oracle.refunds.len() {
            let heard = self.oracle.refunds[number].heard;
            if note(&mut self.heard_at.refunds, number, heard, now) && has_failed && !is_replicated {
                self.doubt_refund(number);
            }
        }
    }

    /// Whether a plan takes units that are sold since.
    pub fn exceeds_stock(&self, planned: &Planned) -> Result<bool, Broken> {
        let server = self.engine.server.borrow();
        let found = Found::read(&self.activities[planned.activity], &server.keys)?;
        let for_sale = found.map_or(0, |found| found.for_sale);
        Ok(planned.plan.repairs.iter().map(|repair| repair.stock_change.min(0)).sum::<i64>() + for_sale < 0)
    }

    /// A human cancels orders that were lost, and that no repair can take from the stock; false if there is none.
    pub fn cancel_lost(&mut self, activity: usize) -> bool {
        let is_lost = |order: &&mut Order| order.is_lost && order.heard == Heard::Bought && order.is_in(activity);
        let cancelled = self.oracle.orders.iter_mut().filter(is_lost).map(|order| order.heard = Heard::Ended).count();
        self.tell(|| format!("{cancelled} lost orders are cancelled"));
        cancelled > 0
    }
}

/// Takes note of what is known of one; true if that is new.
fn note(noted: &mut Vec<(Heard, u64)>, number: usize, heard: Heard, now: u64) -> bool {
    if noted.len() <= number {
        noted.resize(number + 1, (Heard::Nothing, 0));
    }
    let is_new = noted[number].0 != heard;
    if is_new {
        noted[number] = (heard, now);
    }
    is_new
}
