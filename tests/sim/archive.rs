//! An activity is archived in the middle of its sale, and restored: nobody notices. Each call may be cut, and then all begins again.

use std::rc::Rc;
use std::sync::Arc;

use seckill::internals::Archives;
use seckill::{FieldChange, Layout, PreheatMode, Status};

use super::calls::{Activity, Call, shown, shown_reply, status};
use super::history::History;
use super::keys::{Bytes, Data, Keys, Reply};
use super::oracle::*;
use super::random::Random;
use super::script::Engine;
use super::work::{Done, Ended, Job, Op, SAME_WINDOW, work};
use super::world::{Faults, Strike, Turn, World};

const NOT_PREHEATED: i64 = -4;
/// Of the manifest: the scripts compare it with nothing but itself.
const SHA256: [u8; 64] = [b'a'; 64];

impl History<'_> {
    /// Archives an activity in which nothing is held open, and restores it.
    pub fn archive_and_restore(&mut self) -> Result<(), Broken> {
        let number = usize::from(self.random.percent(50));
        let found = Found::read(&self.activities[number], &self.engine.server.borrow().keys)?;
        if !found.is_some_and(|found| found.is_live) {
            return Ok(());
        }
        // What is cut here is repeated, and leaves nothing.
        let was_cut = self.was_cut;
        self.run_call(&pause(&self.activities[number], "paused", "1"), None)?;
        let plan = self.activities[number].call("archive", ["plan"]);
        if let Some(Reply::Array(planned)) = self.run_call(&plan, None)? {
            let [_, _, epoch, seen, _, holds, ..] = &planned[..] else {
                return broken("an archive is planned", shown_reply(&Reply::Array(planned)));
            };
            if *holds == Reply::text("0") {
                self.move_to_files_and_back(number, text(epoch), text(seen))?;
            }
        }
        self.run_call(&pause(&self.activities[number], "live", ""), None)?;
        self.was_cut = was_cut;
        Ok(())
    }

    fn move_to_files_and_back(&mut self, number: usize, epoch: &[u8], seen: &[u8]) -> Result<(), Broken> {
        let before = self.engine.server.borrow().keys.clone();
        let name = format!("archive-{}", self.step);
        let activity = &self.activities[number];
        let mark = activity.call("archive", [b"mark", name.as_bytes(), epoch]);
        let remove = activity.call("archive", [b"remove", name.as_bytes(), epoch, &SHA256, seen, b"operator"]);
        self.until_done(number, &[mark])?;
        self.until_done(number, &[remove])?;
        self.buy_what_is_archived(number)?;
        let restore = restoring(&self.activities[number], &before, seen);
        self.until_done(number, &restore)?;
        let after = self.engine.server.borrow().keys.clone();
        let [before, after] = [before, after].map(|keys| archived(&self.activities[number], keys));
        if before == after { Ok(()) } else { broken("what is restored is as it was", name) }
    }

    /// Runs calls in their order, and all of them again if one is cut, until they are done.
    fn until_done(&mut self, number: usize, calls: &[Call]) -> Result<(), Broken> {
        'again: loop {
            for call in calls {
                if call.script == "restore" && self.random.percent(10) {
                    self.buy_what_is_archived(number)?;
                }
                let writes = self.random.below(9) as u32;
                let cut = (!self.is_calm && self.random.percent(20)).then_some(writes);
                match self.run_call(call, cut)? {
                    None => continue 'again,
                    Some(reply) if status(&reply) == Some(OK) => {}
                    // An earlier run had done all.
                    Some(reply) if status(&reply) == Some(REPLAYED) => return Ok(()),
                    Some(reply) => {
                        return broken("an archive is restored", format!("{}: {}", shown(call), shown_reply(&reply)));
                    }
                }
            }
            return Ok(());
        }
    }

    /// Nobody buys or gives back what is in files, wholly or in part.
    fn buy_what_is_archived(&mut self, number: usize) -> Result<(), Broken> {
        let rules = self.engine.server.borrow().keys.field(&self.activities[number].keys.meta, b"rules").cloned();
        // What was cut behind its rules is restored.
        if rules.is_none_or(|rules| !rules.starts_with(b"archived ")) {
            return Ok(());
        }
        let script = if self.random.percent(50) { "deduct" } else { "refund" };
        let call = self.activities[number].call(script, ["shop", "ann", "1", "archived"]);
        let reply = self.run_call(&call, None)?.expect("it is not cut");
        let refused = if script == "deduct" { ENDED } else { NOT_PREHEATED };
        if status(&reply) == Some(refused) && self.engine.server.borrow().writes == 0 {
            return Ok(());
        }
        broken("what is archived is not sold", format!("{}: {}", shown(&call), shown_reply(&reply)))
    }
}

fn pause(activity: &Activity, state: &str, withdraws: &str) -> Call {
    activity.plain_call("pause", [state, "operator", "", "0", withdraws])
}

fn text(reply: &Reply) -> &[u8] {
    match reply {
        Reply::Text(text) => text,
        _ => b"",
    }
}

/// What archives do not have: deadlines, which belong to holds, and how often there was one.
fn archived(activity: &Activity, mut keys: Keys) -> Keys {
    activity.keys.deadlines.iter().for_each(|key| _ = keys.0.remove(key.as_bytes()));
    if let Some(Data::Hash(meta)) = keys.0.get_mut(activity.keys.meta.as_bytes()) {
        [&b"archive"[..], b"restored"].iter().for_each(|field| _ = meta.remove(*field));
    }
    keys
}

/// The calls that restore an activity from what its keys held, a few lines at a time. `seen` is what the plan replied of them.
fn restoring(activity: &Activity, keys: &Keys, seen: &[u8]) -> Vec<Call> {
    let names = &activity.keys;
    let call = |step: &str, args: &[Bytes]| {
        let step = [step.into(), SHA256.to_vec()];
        activity.call("restore", step.into_iter().chain(args.iter().cloned()))
    };
    let mut calls = vec![call("begin", &[keys.field(&names.meta, b"rules").cloned().unwrap_or_default()])];
    let parts = [
        ("requests", Some(&names.requests)),
        ("ledger", Some(&names.ledger)),
        ("participants", names.participants.as_ref()),
        ("units", names.units.as_ref()),
    ];
    for (part, key) in parts {
        let lines = key.and_then(|key| keys.0.get(key.as_bytes())).map(lines).unwrap_or_default();
        for page in lines.chunks(4) {
            let args: Vec<Bytes> = std::iter::once(part.into()).chain(page.iter().flatten().cloned()).collect();
            calls.push(call("page", &args));
        }
    }
    let words: Vec<&[u8]> = seen.split(|byte| *byte == b' ').collect();
    let stock = keys.get(&names.stock).cloned().unwrap_or_default();
    let mut args = vec![words[1..6].join(&b' '), b"operator".into(), stock, b"[]".into()];
    if let Some(Data::Hash(meta)) = keys.0.get(names.meta.as_bytes()) {
        let fields = meta.iter().filter(|(field, _)| *field != b"archive");
        args.extend(fields.flat_map(|(field, value)| [field.clone(), value.clone()]));
    }
    calls.push(call("switch", &args));
    calls
}

/// What a key holds, as a page has it, line by line.
fn lines(data: &Data) -> Vec<Vec<Bytes>> {
    match data {
        Data::Hash(hash) => hash.iter().map(|(field, value)| vec![field.clone(), value.clone()]).collect(),
        Data::Set(set) => set.iter().map(|member| vec![member.clone()]).collect(),
        Data::Stream(stream) => {
            let line = |((ms, number), texts): (&(u64, u64), &Vec<Bytes>)| {
                let head = [format!("{ms}-{number}").into_bytes(), texts.len().to_string().into_bytes()];
                head.into_iter().chain(texts.iter().cloned()).collect()
            };
            stream.entries.iter().map(line).collect()
        }
        _ => Vec::new(),
    }
}

/// A sale that an operator archives and restores by the client.
struct Shop {
    world: World<Job, Ended>,
    activity: Activity,
    archives: Arc<Archives>,
}

impl Shop {
    /// With two buyers, paused.
    fn open(engine: &Rc<Engine>, layout: Layout) -> Self {
        engine.reset();
        let (activity, archives) = (Activity::new("1", layout), Arc::default());
        let mut shop = Self { world: World::new(engine, work), activity, archives };
        shop.world.start(0, 0);
        let limit = FieldChange::Keep;
        shop.does(Op::Preheat {
            how: PreheatMode::Create,
            total: 9,
            limit,
            ledger: Some(true),
            shards: None,
            window: SAME_WINDOW,
        });
        for user in ["ann", "bob"] {
            let (user, request) = (user.parse().unwrap(), format!("r-{user}"));
            shop.does(Op::Order { user, units: 1, request, hold_for: None });
        }
        shop.does(Op::Pause(Some(false)));
        shop
    }

    /// What becomes of an operation; `None`: it was killed, or failed.
    fn tries(&mut self, op: Op, killed_after: Option<u64>) -> Option<Status> {
        let process = self.world.start(1, 0);
        let (layout, activity) = (self.activity.layout, self.activity.id.clone());
        let job = Job { layout, activity, shards: None, op, waits: false };
        let mut turn = self.world.give(process, job, Random::of_step(0, 0), Faults::NONE, killed_after);
        loop {
            match turn.unwrap_or_else(|| self.world.turn()) {
                Turn::Idle(_, Ended { done: Done::Status(status, _), .. }) => return Some(status),
                Turn::Idle(..) => return None,
                Turn::Killed(killed) if killed == process => return None,
                Turn::Crashed(text) => panic!("{text}"),
                Turn::Over => panic!("it never ends"),
                Turn::Rested(_) | Turn::Executed(_) | Turn::Killed(_) => turn = None,
            }
        }
    }

    fn does(&mut self, op: Op) {
        let ended = self.tries(op, None);
        assert!(matches!(ended, Some(Status::Ok | Status::Replayed | Status::Ended)), "{ended:?}");
    }

    fn archive(&self) -> Op {
        Op::Archive(Arc::clone(&self.archives))
    }

    fn restore(&self) -> Op {
        Op::Restore(Arc::clone(&self.archives))
    }
}

/// What goes wrong: with a call, or with the process, some calls later.
type Way = (Option<Strike>, Option<u64>);

/// Whatever becomes of one of the calls, and wherever it is killed, what was is in the files or in the keys: the same command again
/// takes up the work, and what comes late changes nothing.
#[test]
fn no_call_of_an_archive_or_of_a_restore_loses_anything() {
    let engine = Rc::new(Engine::new(|_, text| super::search::given(text)));
    // A second is what the client waits, and then it begins again.
    let late = (0..20).map(|step| Strike::Late(1_000_000 + 10_000 * step));
    let strikes = [Strike::Lost, Strike::Unanswered].into_iter().chain((0..6).map(Strike::Cut)).chain(late);
    let ways: Vec<Way> = strikes.map(|strike| (Some(strike), None)).chain([(None, Some(0))]).collect();
    for layout in [Layout::Seckill, Layout::Sku, Layout::Coupon, Layout::Product] {
        for is_restore in [false, true] {
            ways.iter().for_each(|way| tries_everywhere(&engine, layout, is_restore, *way));
        }
    }
    // Its removal comes while the next one works.
    for late in 0..12 {
        let way = |more| (Some(Strike::Late(1_000_000 + 10_000 * late)), Some(more));
        (0..10).for_each(|more| tries_everywhere(&engine, Layout::Seckill, false, way(more)));
    }
}

fn tries_everywhere(engine: &Rc<Engine>, layout: Layout, is_restore: bool, (strike, kill): Way) {
    for number in 1.. {
        let mut shop = Shop::open(engine, layout);
        let before = archived(&shop.activity, engine.server.borrow().keys.clone());
        if is_restore {
            shop.does(shop.archive());
        }
        let last = shop.world.sent + number;
        shop.world.strike = strike.map(|strike| (last, strike));
        let op = if is_restore { shop.restore() } else { shop.archive() };
        let ended = shop.tries(op, kill.map(|more| number + more));
        let was_met = if kill.is_some() { ended.is_none() } else { shop.world.sent >= last };
        shop.world.strike = None;
        if strike.is_some() && kill.is_some() {
            shop.tries(shop.archive(), None);
        }
        while !matches!(shop.world.turn(), Turn::Over) {}
        if !is_restore {
            shop.does(shop.archive());
            let keys = engine.server.borrow().keys.clone();
            let left = shop.activity.keys.all().filter(|key| keys.0.contains_key(key.as_bytes())).count();
            assert_eq!(left, 1, "{layout:?} {strike:?} {kill:?} {number}: the meta is left");
        }
        shop.does(shop.restore());
        let after = archived(&shop.activity, engine.server.borrow().keys.clone());
        assert_eq!(before, after, "{layout:?} {is_restore} {strike:?} {kill:?} {number}");
        if !was_met {
            assert!(number > 5, "{number}");
            break;
        }
    }
}
