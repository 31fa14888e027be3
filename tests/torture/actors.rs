//! Who acts in a round: sellers and an operator who follow their plans, an auditor and a feed that run until those end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::faults::TIMEOUT;
use crate::history::{Event, History};
use crate::rng::Rng;
use crate::schedule::{Operation, Order, Schedule, Step, What};
use crate::servers::{Network, Servers};
use crate::support::{Call, wait_until};

/// How long a kill waits for the command that it should follow; the tool may have been done before.
pub const A_WHILE: Duration = Duration::from_millis(300);

/// The consumer group of the feed.
pub const GROUP: &str = "feed";

/// What all actors share.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub schedule: &'a Schedule,
    pub history: &'a History,
    /// Where the files of orders are.
    pub files: &'a Path,
    pub deadline: Instant,
}

/// How an actor reaches the server.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    Direct(&'a Servers),
    Proxied(&'a Network),
}

impl World<'_> {
    /// Follows a plan until its end or the deadline.
    pub fn follow(&self, actor: &str, network: &Network, steps: &[Step]) {
        for step in steps {
            if Instant::now() > self.deadline {
                return;
            }
            self.perform(actor, Way::Proxied(network), step);
        }
        network.deliver_rest();
    }

    /// Audits and looks, while others sell.
    pub fn audit(&self, network: &Network, mut rng: Rng) {
        while self.history.wait_for(self.history.count() + 1 + rng.below(4)) {
            let activity = rng.below(self.schedule.activities.len());
            let fix = self.schedule.drifts && rng.percent(50);
            let what = if rng.percent(70) { What::Reconcile { fix } } else { What::Inspect { activity } };
            let kill_after = (fix && rng.percent(20)).then(|| rng.below(20) + 1);
            self.perform("auditor", Way::Proxied(network), &Step { kill_after, ..Step::of(what) });
        }
    }

    /// Follows a ledger, and is ended again and again.
    pub fn feed(&self, network: &Network, activity: usize, mut rng: Rng) {
        while !self.history.is_over() {
            let what = What::Feed { activity, exec: rng.percent(50) };
            self.record("feed", Way::Proxied(network), &Step::of(what), &mut |call| {
                let running = call.args(["--follow"]).spawn();
                self.history.wait_for(self.history.count() + 2 + rng.below(15));
                running.signal(if rng.percent(60) { libc::SIGKILL } else { libc::SIGTERM });
                running.wait()
            });
        }
    }

    pub fn perform(&self, actor: &str, way: Way<'_>, step: &Step) {
        self.record(actor, way, step, &mut |call| {
            let (Some(commands), Way::Proxied(network)) = (step.kill_after, way) else { return call.run() };
            let seen = network.commands();
            let running = call.spawn();
            network.try_wait_for_commands(seen + commands, A_WHILE);
            running.signal(libc::SIGKILL);
            running.wait()
        });
    }

    fn record(&self, actor: &str, way: Way<'_>, step: &Step, run: &mut dyn FnMut(Call) -> crate::support::Outcome) {
        let what = &step.what;
        let number = self.history.begin();
        let call = match way {
            Way::Direct(servers) => servers.seckill(),
            Way::Proxied(network) => network.seckill(),
        };
        let call = call.env("SECKILL_OPERATOR", &format!("e{number}"));
        let call = call.args(["-l", self.schedule.layout.name, "--timeout", TIMEOUT]).args(self.arguments(what));
        let call = if step.waits { call.args(["--wait-replicas", "1"]) } else { call };
        let begun = self.history.now();
        let outcome = run(call);
        let time = (begun, self.history.now());
        // What was answered stays so, however late the first try arrives; unless data is lost, or a reset forgets it.
        let forgets = self.schedule.loses() || self.schedule.operator.iter().any(|step| step.resets(None));
        let is_answered = matches!(outcome.status.code(), Some(0 | 3 | 7)) && !forgets;
        match way {
            Way::Proxied(network) if !is_answered || number.is_multiple_of(16) => network.deliver_rest(),
            _ => {}
        }
        let stdout = if matches!(what, What::Feed { exec: true, .. }) { self.loaded() } else { outcome.stdout.clone() };
        self.history.add(Event {
            number,
            actor: actor.to_owned(),
            what: what.clone(),
            waits: step.waits,
            call: outcome.call,
            time,
            code: outcome.status.code(),
            stdout,
            stderr: outcome.stderr,
        });
    }

    fn arguments(&self, what: &What) -> Vec<String> {
        let id = |activity: usize| self.schedule.activities[activity].id.clone();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let is_stream = matches!(what, What::File { .. } | What::Feed { .. });
        let mut arguments = words(&["-o", if is_stream { "jsonl" } else { "json" }]);
        arguments.extend(match what {
            What::Order(order) => self.order(order),
            What::File { file, fast } => {
                let file = &self.schedule.files[*file];
                let path = self.files.join(&file.name);
                let mut more =
                    words(&[file.operation.command(), "--retry-for", "20s", "--from", path.to_str().unwrap()]);
                more.extend(file.job.iter().flat_map(|job| ["--job".to_owned(), job.clone()]));
                let is_hold = file.operation == Operation::Hold;
                more.extend(is_hold.then(|| format!("--for={}", hold_for(&file.name))));
                // Slowly enough that a primary fails in the midst of it.
                more.extend((self.schedule.nodes > 0 && !fast).then(|| "--rate=300".to_owned()));
                more.extend(fast.then(|| "--fast".to_owned()));
                more
            }
            What::Pause { activity, on, withdraw } => {
                let mut more = vec![if *on { "pause" } else { "resume" }.to_owned(), id(*activity)];
                more.extend(withdraw.then(|| "--withdraw-stock".to_owned()));
                more
            }
            What::Update { activity, total, limit } => {
                let mut more = words(&["preheat", "--update", "--id", &id(*activity), "--stock", &total.to_string()]);
                more.extend(limit.iter().flat_map(|limit| ["--per-user-limit".to_owned(), limit.to_string()]));
                more
            }
            What::Reset { activity, total } => {
                let limit = self.schedule.activities[*activity].limit;
                let ids = ["preheat", "--reset", "--yes", "--id", &id(*activity), "--stock", &total.to_string()];
                let mut more = words(&ids);
                more.extend(limit.iter().flat_map(|limit| ["--per-user-limit".to_owned(), limit.to_string()]));
                more
            }
            What::Trim { activity } => words(&["ledger", "trim", &id(*activity), "--yes", "--before", &now()]),
            What::Reconcile { fix } => {
                let mut more = words(if *fix { &["reconcile", "--fix", "--yes"] } else { &["reconcile"] });
                more.extend(self.schedule.activities.iter().map(|activity| activity.id.clone()));
                more
            }
            What::Inspect { activity } => words(&["inspect", &id(*activity)]),
            What::Expire { activity } => words(&["expire", &id(*activity)]),
            What::Feed { activity, exec } => {
                let mut more = words(&["ledger", &id(*activity), "--group", GROUP]);
                if *exec {
                    more.extend(words(&["--batch", "7", "--exec", &self.loader()]));
                }
                more
            }
        });
        arguments
    }

    /// Commits each batch as a file of its own, and fails after every fifth commit.
    fn loader(&self) -> String {
        let dir = self.files.join("loaded");
        let dir = dir.display();
        format!(
            "cat > {dir}/$$.part && mv {dir}/$$.part {dir}/$(date +%s%N).jsonl && [ $(($(ls {dir} | wc -l) % 5)) -gt 0 ]"
        )
    }

    /// What the loader committed since this was asked last. It may outlive a tool that was killed.
    fn loaded(&self) -> String {
        let files = || {
            let files = fs::read_dir(self.files.join("loaded")).unwrap().map(|entry| entry.unwrap().path());
            let mut files: Vec<PathBuf> = files.collect();
            files.sort();
            files
        };
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
        wait_until("the loader has ended", || files().iter().all(is_whole));
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            fs::remove_file(path).unwrap();
            // Half a row at the end: what comes next begins on a line of its own.
            if text.is_empty() || text.ends_with('\n') {
                text
            } else {
                text[..text.rfind('\n').map_or(0, |at| at + 1)].to_owned()
            }
        };
        files().into_iter().filter(is_whole).map(read).collect()
    }

    fn order(&self, order: &Order) -> Vec<String> {
        let id = |activity: usize| self.schedule.activities[activity].id.clone();
        let mut arguments = vec![order.operation.command().to_owned()];
        let (first, units) = order.items[0];
        match order.operation {
            Operation::Multi => {
                arguments.extend(order.items.iter().map(|(index, units)| format!("{}={units}", id(*index))));
            }
            Operation::Confirm | Operation::Release => arguments.push(id(first)),
            Operation::Refund if units == 0 => arguments.extend([id(first), "--all".to_owned()]),
            _ => arguments.extend([id(first), "--quantity".to_owned(), units.to_string()]),
        }
        if order.operation == Operation::Hold {
            arguments.extend(["--for".to_owned(), hold_for(&order.request).to_owned()]);
        }
        if !order.user.is_empty() {
            arguments.extend(["--user".to_owned(), order.user.clone()]);
        }
        if !order.request.is_empty() {
            arguments.extend(["--request".to_owned(), order.request.clone()]);
        }
        arguments
    }
}

/// How long units are held: a third of the holds are overdue soon.
pub fn hold_for(request: &str) -> &'static str {
    if request.bytes().map(usize::from).sum::<usize>().is_multiple_of(3) { "40ms" } else { "1h" }
}

/// As flags take it.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    jiff::Timestamp::from_millisecond(since.as_millis().try_into().unwrap()).unwrap().to_string()
}
