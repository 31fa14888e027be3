//! A sale that another system made: only its stock is there when the night begins. Its backend sells by a drop-in, processes sell
//! with the library, and operators adopt it meanwhile. What a caller heard before stays true.

use super::*;

/// How often it is adopted at the end, at most: with the total that it had, or with what is there.
const TRIES: usize = 4;

impl Night<'_> {
    /// Makes the first activity, as its backend does.
    pub fn open_elsewhere(&mut self) {
        let total = 4 + self.random.below(12);
        let sale = &mut self.activities[0];
        sale.made_elsewhere = Some(total.cast_signed());
        let command: [Bytes; 3] = [b"SET".into(), sale.keys.stock.clone().into(), total.to_string().into()];
        self.run_now(&command);
        self.has_ledger.push(false);
        // Its backend sells, or does not; beside a ledger it never does.
        (self.has_plain, self.in_hand) = (self.random.percent(60), InHand::Over);
    }

    /// Whether it was made elsewhere, and nobody has adopted it, or an adoption is not at its end.
    pub fn is_foreign(&self) -> bool {
        let (sale, server) = (&self.activities[0], self.engine.server.borrow());
        let field = |name| server.keys.field(&sale.keys.meta, name);
        sale.made_elsewhere.is_some() && (field(b"rules").is_none() || field(b"adopt").is_some())
    }

    /// Whether it has a ledger by now.
    pub fn look_for_ledger(&mut self) -> Result<(), Broken> {
        if self.activities[0].made_elsewhere.is_some() {
            let found = Found::read(&self.activities[0], &self.engine.server.borrow().keys)?;
            self.has_ledger[0] = found.is_some_and(|found| found.has_ledger);
        }
        Ok(())
    }

    /// Where units of buyers are not recorded, only a given total says what was sold.
    pub fn adopt(&mut self) -> Step {
        let is_given = self.random.percent(if self.layout() == Layout::Sku { 80 } else { 20 });
        self.adopt_with(is_given)
    }

    fn adopt_with(&self, is_given: bool) -> Step {
        let total = self.activities[0].made_elsewhere.filter(|_| is_given).map(i64::cast_unsigned);
        Step::new(About::Upkeep, Op::Adopt(total))
    }

    /// Adopts what nobody has adopted by the end.
    pub fn adopt_at_last(&mut self) -> Result<(), Broken> {
        for number in 0.. {
            if !self.is_foreign() {
                break;
            }
            if number == TRIES {
                return broken("an adoption comes to its end", "it does not");
            }
            let adopt = self.adopt_with(number % 2 == 0);
            self.steps_alone(vec![adopt])?;
        }
        self.look_for_ledger()
    }

    /// How it ended, as other sales say it: one without rules knows no holds, and no order of it is decided. A hold whose id
    /// another order had while the sale was being adopted stays refused.
    pub fn known(&self, task: &Task, status: Status) -> Status {
        let is_elsewhere = task.activity == 0 && self.activities[0].made_elsewhere.is_some();
        let ends_hold = match task.about {
            About::File(file) => self.files[file].settles(),
            about => matches!(about, About::Confirm(_) | About::Release(_)),
        };
        match status {
            Status::NotPreheated if is_elsewhere && ends_hold => Status::NotHeld,
            Status::NotPreheated if is_elsewhere => match task.about {
                About::Order(order) if self.oracle.orders[order].heard == Heard::Refused(REQUEST_CONFLICT) => {
                    Status::RequestConflict
                }
                _ => Status::Paused,
            },
            status => status,
        }
    }
}
