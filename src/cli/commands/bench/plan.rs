//! `--dry-run`: what would be sold.

use serde::Serialize;

use crate::bench::Until;
use crate::cli::commands::bench::BenchArgs;
use crate::cli::commands::bench::scenario::Terms;
use crate::cli::error::Result;
use crate::cli::failure::Exit;
use crate::cli::output::columns;
use crate::cli::output::{Cell, Output};
use crate::model::number::Limit;
use crate::store::Store;

/// What one strategy would sell.
#[derive(Debug, Serialize)]
pub struct BenchPlan {
    strategy: &'static str,
    activities: usize,
    stock: u64,
    per_user_limit: Option<u64>,
    orders: Option<u64>,
    clients: usize,
}

columns!(row: BenchPlan {
    strategy => Cell::text(row.strategy);
    activities;
    stock;
    per_user_limit as "limit";
    orders;
    clients;
});

/// Shows it, after a look at the server: on a cluster each primary gets activities.
pub fn show(args: &BenchArgs, terms: &Terms, store: &mut Store, out: &mut Output) -> Result<Exit> {
    let nodes = store.primary_count()?.unwrap_or(1);
    let orders = match args.until() {
        Until::Orders(orders) => Some(orders),
        Until::Elapsed(_) => None,
    };
    let plans = args.strategies().into_iter().map(|strategy| BenchPlan {
        strategy: strategy.name(),
        activities: terms.items * nodes,
        stock: terms.stock.get(),
        per_user_limit: terms.limit.map(Limit::get),
        orders,
        clients: args.clients,
    });
    let plans: Vec<BenchPlan> = plans.collect();
    out.set_dry_run(true);
    out.array(&plans)?;
    Ok(Exit::Done)
}
