//! Random histories: few activities, users, quantities and request ids, so that they meet.

use proptest::prelude::*;

use crate::support::Layout;

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Step {
    /// `create`, `update` or `reset`.
    Preheat {
        mode: &'static str,
        activity: usize,
        total: u64,
        /// 0 is `none`.
        limit: Option<u64>,
        ledger: bool,
    },
    Pause {
        activity: usize,
        paused: bool,
        withdraw: bool,
    },
    /// One order or refund; a quantity of 0 is a refund of all.
    One {
        refund: bool,
        retry: bool,
        activity: usize,
        order: Order,
    },
    /// Several of them in one call.
    Orders {
        refund: bool,
        activity: usize,
        orders: Vec<Order>,
    },
    Multi {
        retry: bool,
        user: usize,
        request: usize,
        items: Vec<(usize, u64)>,
    },
    Hold {
        retry: bool,
        activity: usize,
        /// With a request id always.
        order: Order,
    },
    /// Confirms a hold, or releases it.
    Settle {
        confirms: bool,
        activity: usize,
        request: usize,
    },
    Expire {
        activity: usize,
    },
    /// The deadline of a hold passes.
    Lapse {
        activity: usize,
        request: usize,
    },
    /// A purchase by a backend's plain script.
    Plain {
        activity: usize,
        user: usize,
        quantity: u64,
    },
}

/// A user's wish; request 0 is none.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub user: usize,
    pub quantity: u64,
    pub request: usize,
}

impl Step {
    /// The same as it is done when nothing is sent twice: a retry is for the network to make.
    pub fn as_first_try(&self) -> Self {
        let mut step = self.clone();
        if let Self::One { retry, .. } | Self::Multi { retry, .. } | Self::Hold { retry, .. } = &mut step {
            *retry = false;
        }
        step
    }
}

/// How many activities there are.
pub const ACTIVITIES: usize = 2;

pub fn histories(layout: Layout, steps: usize) -> impl Strategy<Value = Vec<Step>> {
    // Begins with something to sell.
    let first = (5..12_u64, proptest::option::of(1..5_u64)).prop_map(move |(total, limit)| Step::Preheat {
        mode: "create",
        activity: 0,
        total,
        limit: limit.filter(|_| layout.kind == "hash"),
        ledger: true,
    });
    (first, proptest::collection::vec(step(layout), steps)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

fn order() -> impl Strategy<Value = Order> {
    (0..4_usize, 1..4_u64, 0..7_usize).prop_map(|(user, quantity, request)| Order { user, quantity, request })
}

fn step(layout: Layout) -> impl Strategy<Value = Step> {
    let has_users = layout.has_users();
    let preheat = (
        prop_oneof![4 => Just("create"), 4 => Just("update"), 1 => Just("reset")],
        0..ACTIVITIES,
        0..15_u64,
        proptest::option::of(0..5_u64),
        prop::bool::weighted(0.8),
    )
        .prop_map(move |(mode, activity, total, limit, ledger)| Step::Preheat {
            mode,
            activity,
            total,
            limit: limit.filter(|_| layout.kind == "hash"),
            ledger,
        });
    let pause = (0..ACTIVITIES, prop::bool::weighted(0.4), any::<bool>())
        .prop_map(|(activity, paused, withdraw)| Step::Pause { activity, paused, withdraw: paused && withdraw });
    let one = (any::<bool>(), prop::bool::weighted(0.2), 0..ACTIVITIES, order(), prop::bool::weighted(0.15)).prop_map(
        move |(refund, retry, activity, mut order, all)| {
            if refund && all && has_users {
                order.quantity = 0;
            }
            Step::One { refund, retry, activity, order }
        },
    );
    let orders = (any::<bool>(), 0..ACTIVITIES, proptest::collection::vec(order(), 2..6))
        .prop_map(|(refund, activity, orders)| Step::Orders { refund, activity, orders });
    let multi = (prop::bool::weighted(0.2), 0..4_usize, 0..7_usize, 1..4_u64, 1..4_u64, 0..3_usize).prop_map(
        |(retry, user, request, a, b, which)| {
            let items = match which {
                0 => vec![(0, a)],
                1 => vec![(0, a), (1, b)],
                _ => vec![(1, b), (0, a)],
            };
            Step::Multi { retry, user, request, items }
        },
    );
    let kind = layout.kind;
    let plain = (0..ACTIVITIES, 0..4_usize, 1..4_u64).prop_map(move |(activity, user, quantity)| {
        let quantity = if kind == "coupon" { 1 } else { quantity };
        Step::Plain { activity, user, quantity }
    });
    // Mostly of one activity and under few ids, so that a hold goes through all its states.
    let of_holds = || prop_oneof![4 => Just(0), 1 => 1..ACTIVITIES];
    let hold = (prop::bool::weighted(0.2), of_holds(), order()).prop_map(|(retry, activity, order)| {
        let order = Order { request: order.request % 3 + 1, ..order };
        Step::Hold { retry, activity, order }
    });
    let end = (0..5_usize, of_holds(), 1..4_usize).prop_map(|(which, activity, request)| match which {
        0..=1 => Step::Settle { confirms: which == 0, activity, request },
        2..=3 => Step::Lapse { activity, request },
        _ => Step::Expire { activity },
    });
    let hold_weight = u32::from(has_users);
    // No backend has the keys of the layout `cluster`.
    let plain_weight = u32::from(layout.name != "cluster");
    prop_oneof![
        4 => preheat, 4 => pause, 12 => one, 5 => orders, 5 => multi, 3 * plain_weight => plain, 6 * hold_weight => hold,
        12 * hold_weight => end
    ]
}
