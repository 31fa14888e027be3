//! A sale whose stock is spread over shards, simulated: how many units need no borrowing, and whom shards without it would refuse.
//!
//! ```sh
//! cargo run --example sharded_sale -- [STOCK [SHARDS]]
//! ```
//!
//! It needs no server. Orders of one unit come from users in random order, more than there are units. Each goes to the user's home
//! (`Shards::home`, as everywhere). A home that is empty borrows as the script `lend` lends: half of what the fullest shard has.
//! A transfer takes a while, in which further orders at that home wait.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::{Context, Result, bail};

use seckill::internals::Shards;

/// Orders that arrive during one round trip: a busy sale, of about 10,000 orders a second.
const ORDERS_A_ROUND_TRIP: usize = 5;
/// A transfer takes so many: the order that is refused, peek, lend with WAIT, borrow with the order.
const ROUND_TRIPS: usize = 4;

fn main() -> Result<()> {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().with_context(|| format!("`{text}` is no number of units or shards")))
        .collect::<Result<_>>()?;
    let mut out = std::io::stdout();
    match numbers[..] {
        [] => {
            report(&Sale { stock: 1_000, shards: 16, favourite: None }, &mut out)?;
            report(&Sale { stock: 10_000, shards: 16, favourite: Some(0) }, &mut out)
        }
        [stock] => report(&Sale { stock, shards: 16, favourite: None }, &mut out),
        [stock, shards] => report(&Sale { stock, shards: u32::try_from(shards)?, favourite: None }, &mut out),
        _ => bail!("expected at most STOCK and SHARDS"),
    }
}

/// A sale before it begins.
pub struct Sale {
    /// Units.
    pub stock: u64,
    /// Shards, each with an equal part of them.
    pub shards: u32,
    /// The home of three quarters of the users, if they are not spread evenly.
    pub favourite: Option<usize>,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Units that were sold.
    pub sold: u64,
    /// Of these, units that were at the user's home when the order came.
    pub at_home: u64,
    /// Orders that were refused although a unit was left somewhere.
    pub refused_wrongly: u64,
    /// Units that were left when that happened first.
    pub left_at_first: Option<u64>,
    /// Transfers.
    pub transfers: u64,
    /// Units that they moved.
    pub moved: u64,
}

#[allow(clippy::cast_precision_loss)]
fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Prints how a sale goes without borrowing, and with it.
pub fn report(sale: &Sale, out: &mut impl Write) -> Result<()> {
    let users = if sale.favourite.is_some() { "three of four users at one home" } else { "users spread evenly" };
    writeln!(out, "{} units over {} shards, {users}", sale.stock, sale.shards)?;
    let without = sale.run(false)?;
    writeln!(
        out,
        "  without borrowing  {} of the orders until the last unit refused wrongly{}",
        percent(without.refused_wrongly, without.refused_wrongly + without.sold),
        without
            .left_at_first
            .map_or(String::new(), |left| format!(", the first with {} left", percent(left, sale.stock)))
    )?;
    let with = sale.run(true)?;
    writeln!(
        out,
        "  with borrowing     {} refused wrongly, {} of the units sold without it, {} transfers of {} units on average",
        percent(with.refused_wrongly, with.refused_wrongly + with.sold),
        percent(with.at_home, with.sold),
        with.transfers,
        with.moved / with.transfers.max(1)
    )?;
    Ok(())
}

/// Units that are on their way to a home, and the orders that wait for them there.
struct Transfer {
    home: usize,
    units: u64,
    arrives: usize,
    waiting: u64,
}

impl Sale {
    /// Sells all units, one an order; time counts in orders.
    pub fn run(&self, borrows: bool) -> Result<Outcome> {
        let shards = Shards::new((0..self.shards).collect()).context("at least one shard is needed")?;
        let count = u64::from(self.shards);
        let stocks = (0..count).map(|index| self.stock / count + u64::from(index < self.stock % count)).collect();
        let mut run = Run { stocks, under_way: VecDeque::new(), borrows, outcome: Outcome::default() };
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        let mut now = 0;
        while run.left() > 0 {
            run.arrive(now);
            run.order(self.next_home(&shards, &mut dice), 1, now);
            now += 1;
        }
        Ok(run.outcome)
    }

    /// The home of whoever orders next.
    fn next_home(&self, shards: &Shards, dice: &mut Dice) -> usize {
        let home = shards.home(format!("user-{}", dice.roll()).as_bytes());
        match self.favourite {
            Some(favourite) if !dice.roll().is_multiple_of(4) => favourite,
            _ => home,
        }
    }
}

/// A sale under way.
struct Run {
    stocks: Vec<u64>,
    under_way: VecDeque<Transfer>,
    borrows: bool,
    outcome: Outcome,
}

impl Run {
    fn left(&self) -> u64 {
        self.stocks.iter().sum::<u64>() + self.under_way.iter().map(|transfer| transfer.units).sum::<u64>()
    }

    /// Some orders of a unit each, at one home.
    fn order(&mut self, home: usize, orders: u64, now: usize) {
        if self.stocks[home] >= orders {
            self.stocks[home] -= orders;
            self.outcome.sold += orders;
            self.outcome.at_home += orders;
            return;
        }
        if !self.borrows {
            let left = self.left();
            if left > 0 {
                self.outcome.refused_wrongly += orders;
                self.outcome.left_at_first.get_or_insert(left);
            }
            return;
        }
        // One borrow a home at a time: the others wait for it.
        if let Some(transfer) = self.under_way.iter_mut().find(|transfer| transfer.home == home) {
            transfer.waiting += orders;
            return;
        }
        let donor = (0..self.stocks.len()).filter(|shard| *shard != home).max_by_key(|shard| self.stocks[*shard]);
        let Some(donor) = donor.filter(|donor| self.stocks[*donor] > 0) else { return };
        // As lua/lend.lua has it: half of the stock, and at least what is needed, if there is so much.
        let units = (self.stocks[donor] / 2).max(orders).min(self.stocks[donor]);
        self.stocks[donor] -= units;
        self.outcome.transfers += 1;
        self.outcome.moved += units;
        let arrives = now + ORDERS_A_ROUND_TRIP * ROUND_TRIPS;
        self.under_way.push_back(Transfer { home, units, arrives, waiting: orders });
    }

    /// Ends the transfers that are over, and serves who waited for them.
    fn arrive(&mut self, now: usize) {
        while self.under_way.front().is_some_and(|transfer| transfer.arrives <= now) {
            let Some(arrived) = self.under_way.pop_front() else { break };
            let served = arrived.units.min(arrived.waiting);
            self.outcome.sold += served;
            self.stocks[arrived.home] += arrived.units - served;
            if arrived.waiting > served {
                self.order(arrived.home, arrived.waiting - served, now);
            }
        }
    }
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}
