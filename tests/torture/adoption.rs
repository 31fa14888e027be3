//! After a round an activity loses what only our scripts wrote, and `preheat --adopt` takes it over, though it is killed
//! and its calls come late or twice: what was sold stays sold, and nothing is for sale that was not.

use crate::faults::{TIMEOUT, arm};
use crate::keys::Units;
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::servers::Servers;
use crate::support::{Call, Layout, Outcome, Proxy};

/// Tries that may be cut; the one after them is left alone.
const TRIES: usize = 6;

/// What is wrong, if anything, with what each call said.
pub fn adopt(schedule: &Schedule, servers: &Servers) -> Vec<String> {
    let Servers::One(redis) = servers else { return Vec::new() };
    let mut rng = schedule.rng.clone();
    let (layout, id) = (schedule.layout, rng.pick(&schedule.activities).id.as_str());
    let before = Units::read(servers, layout, id);
    let total = before.total;
    let lost = match rng.below(3) {
        0 => vec![layout.meta(id)],
        1 => vec![layout.meta(id), layout.ledger(id)],
        _ => vec![layout.meta(id), layout.ledger(id), layout.requests(id)],
    };
    lost.iter().for_each(|key| drop(redis.cmd(("DEL", key))));
    let proxy = Proxy::before(redis);
    arm(&proxy, rng.fork(), (schedule.faults, false), true);
    let mut said = vec![format!("{id} had {before:?} of {total} and lost {lost:?}")];
    for _ in 0..TRIES {
        let outcome = run(call(proxy.seckill([]), layout, id, total), &proxy, &mut rng);
        said.push(format!("exit {:?}: {}{}", outcome.status.code(), outcome.stdout, outcome.stderr));
        let now = Units::read(servers, layout, id);
        if now.stock > before.stock || now.held != before.held {
            said.push(format!("now it has {now:?}"));
            return said;
        }
    }
    drop(proxy);
    let last = call(redis.seckill([]), layout, id, total).run();
    let after = Units::read(servers, layout, id);
    let audit = redis.seckill(["-l", layout.name, "-o", "json", "reconcile", id]).run();
    let verdict = &audit.json()["activities"][0];
    let is_proven = verdict["verdict"] == "match" && verdict["proof"] == "ledger" && verdict["total"] == total;
    if last.status.success() && after == before && is_proven {
        return Vec::new();
    }
    said.push(format!("at last: {}{}now it has {after:?}: {}", last.stdout, last.stderr, audit.stdout));
    said
}

fn call(call: Call, layout: Layout, id: &str, total: i64) -> Call {
    let call = call.args(["-l", layout.name, "-o", "json", "--timeout", TIMEOUT, "preheat", "--adopt", "--yes"]);
    call.args(["--id", id, "--total", &total.to_string()])
}

/// One try, which may be killed.
fn run(call: Call, proxy: &Proxy, rng: &mut Rng) -> Outcome {
    let seen = proxy.commands().len();
    let running = call.spawn();
    if rng.percent(60) && proxy.try_wait_for_commands(seen + rng.below(12) + 1, crate::actors::A_WHILE) {
        running.signal(libc::SIGKILL);
    }
    let outcome = running.wait();
    proxy.deliver_rest();
    outcome
}
