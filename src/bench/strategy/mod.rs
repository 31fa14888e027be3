//! How orders are taken: one file each.

mod lock;
mod lua;
mod naive;
mod plain;
mod watch;

use crate::bench::StrategyName;
use crate::bench::order::{Next, Order, Outgoing, Strategy};
use crate::bench::sale::{Basket, Sale};
use crate::store::Store;

/// The strategy of that name; `batch`, which has no clients, is none of these.
pub(crate) fn of(name: StrategyName, store: &Store, sale: &Sale) -> Box<dyn Strategy> {
    let (layout, timeout) = (store.layout, store.servers.target().timeout);
    match name {
        StrategyName::Lua | StrategyName::Batch => Box::new(lua::Lua::new(layout, &store.operator, sale)),
        StrategyName::Watch => Box::new(watch::Watch::new(plain::Plain::new(layout, sale))),
        StrategyName::Lock => Box::new(lock::Lock::new(plain::Plain::new(layout, sale), layout, sale, timeout)),
        StrategyName::Naive => Box::new(naive::Naive::new(plain::Plain::new(layout, sale))),
    }
}
