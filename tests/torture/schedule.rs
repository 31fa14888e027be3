//! What happens in a round: all of it drawn from the seed before anything runs.

use crate::chaos::{Chaos, Foreign, How};
use crate::order_file::OrderFile;
use crate::rng::Rng;
use crate::support::{CLUSTER, COUPON, Layout, PRODUCT, SECKILL, SKU};

/// How many percent of the pauses withdraw the stock.
const WITHDRAWN: usize = 50;

/// What a round sells on one server.
const IDS: [&str; 3] = ["1001", "sku-红包", "c:3"];
/// What a round sells on a cluster: the first two are of one slot, the others of other nodes.
const IDS_IN_SLOTS: [&str; 4] = ["1216", "sku-1", "sku-红包", "c:3"];
/// How many percent of the orders on a cluster wait for a replica.
const WAIT: usize = 25;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Deduct,
    Refund,
    Multi,
    Hold,
    Confirm,
    Release,
}

impl Operation {
    pub fn command(self) -> &'static str {
        match self {
            Self::Deduct => "deduct",
            Self::Refund => "refund",
            Self::Multi => "multi-deduct",
            Self::Hold => "hold",
            Self::Confirm => "confirm",
            Self::Release => "release",
        }
    }

    /// Whether it ends a hold, which its request id names.
    pub fn ends(self) -> bool {
        matches!(self, Self::Confirm | Self::Release)
    }
}

/// One order, or one row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub operation: Operation,
    /// Empty if the layout knows no users.
    pub user: String,
    /// Activities and units. A refund of 0 is one of all that the user holds; what ends a hold has none.
    pub items: Vec<(usize, u64)>,
    /// Empty: the tool names it, or the line of the file does.
    pub request: String,
}

/// What a call is for.
#[derive(Debug, Clone)]
pub enum What {
    Order(Order),
    File { file: usize, fast: bool },
    Pause { activity: usize, on: bool, withdraw: bool },
    Update { activity: usize, total: u64, limit: Option<u64> },
    Reset { activity: usize, total: u64 },
    Trim { activity: usize },
    Reconcile { fix: bool },
    Inspect { activity: usize },
    Expire { activity: usize },
    Feed { activity: usize, exec: bool },
}

/// One call to make.
#[derive(Debug, Clone)]
pub struct Step {
    pub what: What,
    /// The tool is killed once so many of its commands have come by.
    pub kill_after: Option<usize>,
    /// It waits until a replica has what it wrote.
    pub waits: bool,
}

impl Step {
    pub fn of(what: What) -> Self {
        Self { what, kill_after: None, waits: false }
    }

    /// Whether it resets an activity, or any.
    pub fn resets(&self, of: Option<usize>) -> bool {
        matches!(self.what, What::Reset { activity, .. } if of.is_none_or(|of| of == activity))
    }
}

#[derive(Debug)]
pub struct Activity {
    pub id: String,
    pub total: u64,
    pub limit: Option<u64>,
    pub ledger: bool,
}

/// The plan of a round.
#[derive(Debug)]
pub struct Schedule {
    pub seed: u64,
    /// How many nodes the cluster has; 0 for one server.
    pub nodes: usize,
    pub layout: Layout,
    pub activities: Vec<Activity>,
    pub files: Vec<OrderFile>,
    pub sellers: Vec<Vec<Step>>,
    pub operator: Vec<Step>,
    /// Each with the number of calls after which it comes.
    pub chaos: Vec<(usize, Chaos)>,
    /// Of what the network does to each actor, and what auditors and feeds do.
    pub rng: Rng,
    /// Chance in percent that a command meets a fault of the network.
    pub faults: usize,
    /// Whether something else writes to the keys, so that there is something to repair.
    pub drifts: bool,
}

impl Schedule {
    /// A round on one server, or on a cluster of so many nodes.
    pub fn new(seed: u64, nodes: usize) -> Self {
        let mut rng = Rng::new(seed);
        let layout = *rng.pick(&[SECKILL, SECKILL, SECKILL, SKU, SKU, COUPON, PRODUCT, CLUSTER]);
        let (layout, ids) = if nodes > 0 { (CLUSTER, &IDS_IN_SLOTS[..]) } else { (layout, &IDS[..]) };
        let loses_data = rng.percent(if nodes > 0 { 60 } else { 35 });
        let ledgers = loses_data || rng.percent(75);
        let activities = ids.iter().map(|id| Activity {
            id: (*id).to_owned(),
            total: *rng.pick(&[3, 30, 300, 3_000]),
            limit: if layout.kind == "hash" { *rng.pick(&[None, Some(1), Some(2), Some(5)]) } else { None },
            ledger: ledgers || rng.percent(50),
        });
        let activities: Vec<Activity> = activities.collect();
        let (count, is_cluster) = (0, nodes > 0);
        let mut draw = Draw {
            rng: rng.fork(),
            layout,
            count,
            seed,
            orders: Vec::new(),
            holds: Vec::new(),
            activities: ids.len(),
            is_cluster,
        };
        let all_have_ledgers = activities.iter().all(|activity| activity.ledger);
        let mut files: Vec<OrderFile> =
            (0..draw.rng.range(1, 3)).map(|index| draw.file(index, all_have_ledgers)).collect();
        let mut sellers: Vec<Vec<Step>> = (0..3).map(|_| draw.seller()).collect();
        // Only now all holds are known.
        if !draw.holds.is_empty() && draw.rng.percent(60) {
            let payments = draw.payments(files.len(), all_have_ledgers);
            files.push(payments);
        }
        for file in 0..files.len() {
            // The same file from several terminals, some of which are killed.
            for _ in 0..draw.rng.range(1, 3) {
                let seller = draw.rng.below(sellers.len());
                let at = draw.rng.below(sellers[seller].len());
                let what = What::File { file, fast: draw.rng.percent(30) };
                let kill_after = draw.rng.percent(40).then(|| draw.rng.below(6) + 1);
                sellers[seller].insert(at, Step { kill_after, ..Step::of(what) });
            }
        }
        let resets = draw.rng.percent(30);
        let operator = draw.operator(&activities, resets);
        let calls: usize = sellers.iter().map(Vec::len).sum();
        let mut chaos: Vec<(usize, Chaos)> =
            (0..draw.rng.range(0, 4)).map(|_| (draw.rng.below(calls), draw.chaos(loses_data))).collect();
        if is_cluster {
            chaos = draw.of_cluster(nodes / 2, loses_data).into_iter().map(|it| (draw.rng.below(calls), it)).collect();
        }
        let drifts = all_have_ledgers && layout.has_users() && draw.rng.percent(30);
        for _ in 0..if drifts { draw.rng.range(1, 3) } else { 0 } {
            chaos.push((draw.rng.below(calls), draw.foreign()));
        }
        chaos.sort_by_key(|(after, _)| *after);
        let faults = *draw.rng.pick(&[0, 5, 15, 30]);
        Self { seed, nodes, layout, activities, files, sellers, operator, chaos, rng, faults, drifts }
    }
}

impl Schedule {
    /// Whether a server loses what it answered.
    pub fn loses(&self) -> bool {
        self.chaos.iter().any(|(_, chaos)| chaos.may_lose())
    }

    /// The command that plays this round again.
    pub fn again(&self) -> String {
        let nodes = if self.nodes > 0 { format!(" NODES={}", self.nodes) } else { String::new() };
        format!("make torture SECONDS=1{nodes} SEED={}", self.seed)
    }
}

/// Draws orders whose users, quantities and request ids meet.
struct Draw {
    rng: Rng,
    layout: Layout,
    count: u64,
    seed: u64,
    /// All single orders so far, to be sent again.
    orders: Vec<Order>,
    /// All holds so far, to be ended.
    holds: Vec<Order>,
    /// How many activities there are.
    activities: usize,
    is_cluster: bool,
}

impl Draw {
    fn user(&mut self) -> String {
        if !self.layout.has_users() {
            return String::new();
        }
        match self.rng.below(20) {
            0 => "张 伟".to_owned(),
            1 => "o'neil \"x\\".to_owned(),
            2 => "0007".to_owned(),
            index if index < 12 => format!("u{index}"),
            _ => format!("v{}", self.rng.below(60)),
        }
    }

    fn quantity(&mut self) -> u64 {
        if self.layout.kind == "coupon" && self.rng.percent(90) { 1 } else { *self.rng.pick(&[1, 1, 1, 2, 2, 3, 7]) }
    }

    /// Items of a multi-order; of a cluster in one slot: others are a hold an item, and `tests/it/shards/night.rs` has those.
    fn items(&mut self) -> Vec<(usize, u64)> {
        if self.is_cluster {
            let of = [&[0, 1][..], &[0, 1], &[0], &[1], &[2], &[3]];
            return self.rng.pick(&of).iter().map(|activity| (*activity, self.quantity())).collect();
        }
        let mut items = Vec::new();
        for activity in 0..self.activities {
            if self.rng.percent(60) {
                items.push((activity, self.quantity()));
            }
        }
        if items.is_empty() {
            items.push((0, 1));
        }
        items
    }

    fn request(&mut self) -> String {
        self.count += 1;
        let unusual = if self.rng.percent(10) { " \"\\" } else { "" };
        format!("q{}-{}{unusual}", self.seed, self.count)
    }

    fn order(&mut self) -> Order {
        if !self.orders.is_empty() && self.rng.percent(25) {
            let mut again = self.rng.pick(&self.orders).clone();
            // Of a multi-order that is refused, only a hash shows which one it was.
            if again.operation != Operation::Multi && self.rng.percent(10) {
                again.items[0].1 += 1; // the same id for something else
            }
            return again;
        }
        if self.layout.has_users() && self.rng.percent(40) {
            return self.hold();
        }
        let operation = *self.rng.pick(&[
            Operation::Deduct,
            Operation::Deduct,
            Operation::Deduct,
            Operation::Refund,
            Operation::Multi,
        ]);
        let mut items = match operation {
            Operation::Multi => self.items(),
            _ => vec![(self.rng.below(self.activities), self.quantity())],
        };
        if operation == Operation::Refund && self.layout.has_users() && self.rng.percent(30) {
            items[0].1 = 0;
        }
        let request = if self.rng.percent(85) { self.request() } else { String::new() };
        let order = Order { operation, user: self.user(), items, request };
        if !order.request.is_empty() {
            self.orders.push(order.clone());
        }
        order
    }

    /// A hold, or the end of one, which may come before it.
    fn hold(&mut self) -> Order {
        if !self.holds.is_empty() && self.rng.percent(60) {
            // Often one of the last few.
            let from = if self.rng.percent(60) { self.holds.len().saturating_sub(4) } else { 0 };
            let Order { items, request, .. } = self.rng.pick(&self.holds[from..]).clone();
            let operation = *self.rng.pick(&[Operation::Confirm, Operation::Confirm, Operation::Release]);
            return Order { operation, user: String::new(), items: vec![(items[0].0, 0)], request };
        }
        let items = vec![(self.rng.below(self.activities), self.quantity())];
        let order = Order { operation: Operation::Hold, user: self.user(), items, request: self.request() };
        self.orders.push(order.clone());
        self.holds.push(order.clone());
        order
    }

    fn seller(&mut self) -> Vec<Step> {
        let step = |it: &mut Self| {
            if it.layout.has_users() && it.rng.percent(7) {
                return Step::of(What::Expire { activity: it.rng.below(it.activities) });
            }
            let order = it.order();
            // The name that the tool gives is lost with it: nobody could settle such an order.
            let kill = !order.request.is_empty() && it.rng.percent(7);
            let kill_after = kill.then(|| it.rng.below(2) + 1);
            let waits = it.is_cluster && it.rng.percent(WAIT);
            Step { what: What::Order(order), kill_after, waits }
        };
        (0..self.rng.range(10, 50)).map(|_| step(self)).collect()
    }

    fn operator(&mut self, activities: &[Activity], resets: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.rng.range(0, 10) {
            let activity = self.rng.below(activities.len());
            let total = activities[activity].total;
            let what = match self.rng.below(10) {
                0..2 => What::Pause { activity, on: true, withdraw: self.rng.percent(WITHDRAWN) },
                2..6 => What::Pause { activity, on: false, withdraw: false },
                6 if resets => What::Reset { activity, total: total + self.rng.range(0, 5) },
                6 | 7 => {
                    let less = self.rng.range(0, total / 2);
                    let total = if self.rng.percent(70) { total + self.rng.range(1, 50) } else { total - less };
                    let limit = if self.layout.kind == "hash" { *self.rng.pick(&[None, Some(3)]) } else { None };
                    What::Update { activity, total, limit }
                }
                _ if activities[activity].ledger => What::Trim { activity },
                _ => What::Inspect { activity },
            };
            let kill_after = self.rng.percent(15).then(|| self.rng.below(4) + 1);
            steps.push(Step { kill_after, ..Step::of(what) });
        }
        steps
    }

    fn chaos(&mut self, loses_data: bool) -> Chaos {
        match self.rng.below(6) {
            0 | 1 if loses_data => Chaos::Loss { bytes: self.rng.below(10_000) + 1 },
            0..3 => Chaos::Kill,
            3 => Chaos::Freeze { ms: self.rng.range(50, 900) },
            4 => Chaos::FlushScripts,
            _ => Chaos::KillClients,
        }
    }

    /// What happens to the nodes of a cluster, in no order.
    fn of_cluster(&mut self, pairs: usize, loses_data: bool) -> Vec<Chaos> {
        let mut all = Vec::new();
        for pair in 0..pairs {
            let lagging = How::Lagging(self.rng.below(25) + 1);
            let stopped = How::Stopped(self.rng.range(0, 400));
            let safe = [How::Restart, How::KilledInStep, How::KilledInStep, How::HandedOver];
            let lossy = [How::Killed, How::Killed, lagging, lagging, stopped, stopped, How::TakenOver];
            if self.rng.percent(65) {
                let may_lose = loses_data && self.rng.percent(75);
                let how = *self.rng.pick(if may_lose { &lossy[..] } else { &safe[..] });
                all.push(Chaos::Pair { pair, how });
            }
        }
        for _ in 0..self.rng.range(0, 5) {
            let (activity, to) = (self.rng.below(self.activities), self.rng.below(pairs));
            let is_atomic = self.rng.percent(60);
            all.push(Chaos::Move { activity, to, ms: self.rng.range(0, 400), is_atomic });
        }
        match self.rng.below(4) {
            0 => all.push(Chaos::FlushScripts),
            1 => all.push(Chaos::KillClients),
            _ => {}
        }
        all
    }

    fn foreign(&mut self) -> Chaos {
        let all = [
            Foreign::StockShrinks,
            Foreign::StockGrows,
            Foreign::CounterShrinks,
            Foreign::CounterGrows,
            Foreign::PlainSale,
        ];
        // A set says nothing of how many units a plain script sold.
        let some = if self.layout.kind == "hash" { &all[..] } else { &all[..2] };
        let write = *self.rng.pick(some);
        Chaos::Foreign { activity: self.rng.below(self.activities), write, units: self.rng.range(1, 3) }
    }

    fn file(&mut self, index: u64, may_be_unnamed: bool) -> OrderFile {
        let all = [Operation::Deduct, Operation::Deduct, Operation::Refund, Operation::Multi, Operation::Hold];
        let operation = *self.rng.pick(&all[..if self.layout.has_users() { 5 } else { 4 }]);
        let is_hold = operation == Operation::Hold;
        let has_requests = is_hold || self.rng.percent(40);
        let is_csv = operation != Operation::Multi && self.rng.percent(50);
        let mut rows = Vec::new();
        for row in 0..self.rng.range(5, 400) {
            let items = match operation {
                Operation::Multi => self.items(),
                _ => vec![(self.rng.below(self.activities), self.quantity())],
            };
            let request = if is_hold || has_requests && self.rng.percent(70) { self.request() } else { String::new() };
            let mut order = Order { operation, user: self.user(), items, request };
            if self.layout.has_users() && self.rng.percent(50) {
                order.user = format!("f{index}-{}", self.rng.below(150));
            }
            let before: &[(u64, Order)] = &rows;
            if has_requests && operation != Operation::Multi && !before.is_empty() && self.rng.percent(5) {
                order = self.rng.pick(before).1.clone();
            }
            if is_hold {
                self.holds.push(order.clone());
            }
            rows.push((row + if is_csv { 2 } else { 1 }, order));
        }
        self.named(operation, index, is_csv, may_be_unnamed, rows)
    }

    /// A file that confirms holds, some of them twice or too late, and some that nobody made.
    fn payments(&mut self, index: usize, may_be_unnamed: bool) -> OrderFile {
        let is_csv = self.rng.percent(50);
        let row = |it: &mut Self| {
            let Order { items, request, .. } = it.rng.pick(&it.holds).clone();
            let request = if it.rng.percent(4) { format!("{request}-?") } else { request };
            Order { operation: Operation::Confirm, user: String::new(), items: vec![(items[0].0, 0)], request }
        };
        let first = if is_csv { 2 } else { 1 };
        let rows = (0..self.rng.range(5, 200)).map(|at| (at + first, row(self))).collect();
        self.named(Operation::Confirm, index as u64, is_csv, may_be_unnamed, rows)
    }

    fn named(
        &mut self,
        operation: Operation,
        index: u64,
        is_csv: bool,
        may_be_unnamed: bool,
        rows: Vec<(u64, Order)>,
    ) -> OrderFile {
        let name = format!("{}{index}.{}", operation.command(), if is_csv { "csv" } else { "jsonl" });
        let job = (!may_be_unnamed || self.rng.percent(50)).then(|| format!("job{}-{index}", self.seed));
        OrderFile { operation, name, job, rows, text: String::new() }
    }
}
