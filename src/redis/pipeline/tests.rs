//! The pipeline over a server that fails when a test says so.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use redis::Value;

use crate::model::layout::Kind;
use crate::redis::connect::Target;
use crate::redis::pipeline::*;
use crate::redis::system::{Endpoint, RealSystem, Socket};
use crate::script::DEDUCT_FILE;

const LONG: Duration = Duration::from_secs(30);

/// What the server does with a command.
#[derive(Debug, Clone)]
enum Does {
    /// It replies with the number of the call.
    Replies,
    /// It replies with an error.
    Refuses(&'static str),
    /// It runs the call, and the reply is lost.
    LosesReply,
}

/// A server in memory. A call is its number and a line feed; what it ran is kept in order.
#[derive(Debug, Default)]
struct Fake {
    /// For the next calls; then it replies.
    plan: VecDeque<Does>,
    /// For the next attempts to load the script; then it can be loaded.
    loads: VecDeque<Does>,
    ran: Vec<u64>,
    replies: VecDeque<Option<Vec<u8>>>,
    is_unreachable: bool,
    /// How often the script was loaded, and a connection closed.
    loaded: usize,
    disconnected: usize,
}

fn unreachable() -> StoreError {
    StoreError::Unreachable { server: "fake".to_owned(), why: "the connection was closed".to_owned() }
}

fn error(text: &str) -> Value {
    redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap()
}

impl Fake {
    fn take(&mut self, does: Does, reply: &str) {
        self.replies.push_back(match does {
            Does::Replies => Some(format!("{reply}\r\n").into_bytes()),
            Does::Refuses(text) => Some(format!("-{text}\r\n").into_bytes()),
            Does::LosesReply => None,
        });
    }
}

/// The machine itself, but for its sockets: all of them lead to the fake.
#[derive(Debug, Clone, Default)]
struct Machine(Arc<Mutex<Fake>>);

impl Machine {
    fn fake(&self) -> MutexGuard<'_, Fake> {
        self.0.lock().unwrap()
    }

    fn server(&self, url: &str) -> Server {
        Server::new(Target::new(url, "a test", Duration::from_secs(1)).unwrap().on(Arc::new(self.clone())))
    }
}

impl System for Machine {
    fn connect(&self, _: &Endpoint) -> io::Result<Box<dyn Socket>> {
        if self.fake().is_unreachable {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(Box::new(FakeSocket(self.clone())))
    }

    fn now(&self) -> Instant {
        RealSystem.now()
    }

    fn unix_time(&self) -> Duration {
        RealSystem.unix_time()
    }

    fn sleep(&self, duration: Duration) {
        RealSystem.sleep(duration);
    }

    fn random(&self) -> u64 {
        RealSystem.random()
    }

    fn wait_readable(&self, _: &[&dyn Socket], _: Duration) -> Option<usize> {
        None
    }
}

struct FakeSocket(Machine);

impl Socket for FakeSocket {}

impl Read for FakeSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let reply = self.0.fake().replies.pop_front();
        let reply = reply.expect("a reply was waited for that cannot come").unwrap_or_default();
        buffer[..reply.len()].copy_from_slice(&reply);
        Ok(reply.len())
    }
}

impl Write for FakeSocket {
    fn write(&mut self, packed: &[u8]) -> io::Result<usize> {
        let mut fake = self.0.fake();
        if fake.is_unreachable {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if packed.starts_with(b"*3\r\n$6\r\nSCRIPT") {
            fake.loaded += 1;
            let does = fake.loads.pop_front().unwrap_or(Does::Replies);
            fake.take(does, "+OK");
            return Ok(packed.len());
        }
        for call in std::str::from_utf8(packed).unwrap().lines() {
            let does = fake.plan.pop_front().unwrap_or(Does::Replies);
            if !matches!(does, Does::Refuses(_)) {
                fake.ran.push(call.parse().unwrap());
            }
            fake.take(does, &format!(":{call}"));
        }
        Ok(packed.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FakeSocket {
    fn drop(&mut self) {
        let mut fake = self.0.fake();
        fake.disconnected += 1;
        fake.replies.clear();
    }
}

const URL: &str = "redis://127.0.0.1:7000";

/// A call of some orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbered {
    number: u64,
    orders: usize,
}

impl PipelinedCall for Numbered {
    fn orders(&self) -> usize {
        self.orders
    }

    fn weight(&self) -> usize {
        self.orders
    }
}

/// An owner of a pipeline that sends its calls in order, as a run does.
struct Owner {
    machine: Machine,
    pipeline: Pipeline<Numbered>,
    waiting: VecDeque<Numbered>,
    decided: Vec<u64>,
    /// What may have run when it was sent again.
    in_doubt: Vec<u64>,
    outages: usize,
}

impl Owner {
    fn new(calls: u64, limits: Limits, retry_for: Duration, plan: &[Does]) -> Self {
        let machine = Machine::default();
        machine.fake().plan = plan.to_vec().into();
        Self {
            pipeline: Pipeline::new(machine.server(URL), DEDUCT_FILE.of(Kind::Hash), limits, retry_for),
            waiting: (1..=calls).map(|number| Numbered { number, orders: 128 }).collect(),
            decided: Vec::new(),
            in_doubt: Vec::new(),
            outages: 0,
            machine,
        }
    }

    fn fake(&self) -> MutexGuard<'_, Fake> {
        self.machine.fake()
    }

    /// One step; false if nothing is left to do.
    fn step(&mut self) -> Result<bool, StoreError> {
        let mut event = self.pipeline.advance(!self.waiting.is_empty())?;
        if matches!(event, Event::Send) {
            while self.pipeline.buffer_has_room() {
                let Some(call) = self.waiting.pop_front() else { break };
                self.pipeline.push(call, false, |out, call| out.extend(format!("{}\n", call.number).bytes()));
            }
            event = self.pipeline.flush();
        }
        match event {
            Event::Idle => return Ok(false),
            Event::Reply(call, value) => {
                assert_eq!(value, Value::Int(i64::try_from(call.number).unwrap()), "the reply is another call's");
                self.decided.push(call.number);
                self.pipeline.succeeded();
            }
            Event::Retry(calls) => {
                let may_have_run = self.pipeline.unsettled().is_some();
                self.in_doubt.extend(calls.iter().filter(|_| may_have_run).map(|call| call.number));
                self.waiting.extend(calls);
                self.waiting.make_contiguous().sort_by_key(|call| call.number);
            }
            Event::Outage(_) => self.outages += 1,
            Event::Redirected { .. } => panic!("no cluster"),
            Event::Waited | Event::Send => {}
        }
        Ok(true)
    }

    fn run(&mut self) -> Result<(), StoreError> {
        while self.step()? {}
        Ok(())
    }
}

#[test]
fn two_calls_are_in_flight_and_with_fast_limits_four_and_they_are_decided_in_order() {
    for (limits, orders, most) in [(Limits::shared(), 128, 2), (Limits::fast(), 256, 4)] {
        let mut owner = Owner::new(20, limits, LONG, &[]);
        owner.waiting.iter_mut().for_each(|call| call.orders = orders);
        let mut seen = 0;
        while owner.step().unwrap() {
            seen = seen.max(owner.pipeline.in_flight.len());
        }
        assert_eq!((seen, owner.pipeline.weight, owner.fake().loaded), (most, 0, 0));
        assert_eq!(owner.decided, (1..=20).collect::<Vec<_>>());
    }
}

#[test]
fn a_lost_reply_gives_back_all_that_was_in_flight_and_may_have_run() {
    let mut owner = Owner::new(6, Limits::fast(), LONG, &[Does::Replies, Does::LosesReply]);
    assert!(!owner.pipeline.was_lost);
    owner.run().unwrap();
    assert!(owner.pipeline.was_lost, "until it is known what that meant");
    assert_eq!(owner.decided, [1, 2, 3, 4, 5, 6]);
    assert_eq!(owner.in_doubt.first(), Some(&2));
    assert_eq!(owner.fake().ran.iter().filter(|call| **call == 2).count(), 2);
    assert!(owner.pipeline.unsettled().is_none(), "each was settled");
    assert!(owner.fake().disconnected == 1 && owner.fake().loaded == 1);
}

#[test]
fn a_script_that_was_lost_is_loaded_once_and_nothing_overtakes_the_call() {
    let lost = Does::Refuses("NOSCRIPT No matching script");
    let plan = [vec![Does::Replies], vec![lost; 5]].concat();
    let mut owner = Owner::new(6, Limits::fast(), LONG, &plan);
    let mut sent_again = false;
    while owner.step().unwrap() {
        // Until the calls behind it have come back too, nothing is sent.
        sent_again |= owner.pipeline.is_draining && !owner.pipeline.has_room();
    }
    owner.decided.sort_unstable();
    assert_eq!(owner.decided, [1, 2, 3, 4, 5, 6]);
    assert!(sent_again && owner.fake().loaded == 1 && owner.fake().disconnected == 0);
    assert!(owner.in_doubt.is_empty(), "nothing of a refused call runs");
}

#[test]
fn what_a_full_server_refuses_is_sent_again_and_misuse_is_an_error() {
    let full = Does::Refuses("OOM command not allowed when used memory > 'maxmemory'");
    let mut owner = Owner::new(3, Limits::shared(), LONG, &[full.clone(), full]);
    owner.run().unwrap();
    owner.decided.sort_unstable();
    assert_eq!((owner.decided.as_slice(), owner.outages), (&[1, 2, 3][..], 0));

    let mut owner = Owner::new(3, Limits::shared(), LONG, &[Does::Refuses("NOPERM no permission")]);
    assert!(matches!(owner.run(), Err(StoreError::Permission { .. })));
    assert!(owner.pipeline.unsettled().is_none());
}

#[test]
fn a_replica_is_left_because_the_address_may_lead_to_the_primary_by_now() {
    let replica = Does::Refuses("READONLY You can't write against a read only replica.");
    let mut owner = Owner::new(2, Limits::shared(), LONG, &[replica.clone(), replica]);
    owner.run().unwrap();
    // Not while replies are still to come on that connection.
    assert_eq!((owner.fake().disconnected, owner.decided.len()), (1, 2));
}

#[test]
fn an_outage_too_long_is_an_error_that_says_if_calls_may_have_run() {
    for (lost, plan) in [(false, vec![Does::Refuses("OOM full")]), (true, vec![Does::LosesReply])] {
        let mut owner = Owner::new(1, Limits::shared(), Duration::from_millis(50), &plan);
        while owner.pipeline.outage.is_none() {
            owner.step().unwrap();
        }
        owner.fake().is_unreachable = true;
        let error = owner.run().unwrap_err();
        assert_eq!(matches!(error, StoreError::Unknown { .. }), lost, "{error}");
        assert_eq!(owner.pipeline.unsettled().is_some(), lost);
    }
}

#[test]
fn a_login_that_is_refused_ends_an_outage_with_its_error() {
    let mut owner = Owner::new(1, Limits::shared(), LONG, &[Does::LosesReply]);
    owner.fake().loads.push_back(Does::Refuses("NOAUTH Authentication required."));
    assert!(matches!(owner.run(), Err(StoreError::Login { .. })));
    assert!(owner.pipeline.unsettled().is_some());
}

#[test]
fn the_backoff_doubles_up_to_a_second_and_an_outage_is_reported_once() {
    let mut outage = None;
    let mut backoffs = Vec::new();
    for _ in 0..8 {
        Outage::record(&mut outage, Instant::now(), unreachable(), false);
        backoffs.extend(outage.as_ref().map(|outage| outage.backoff.as_millis()));
    }
    assert_eq!(backoffs, [20, 40, 80, 160, 320, 640, 1000, 1000]);
    let outage = outage.as_mut().unwrap();
    outage.since -= Duration::from_secs(1);
    assert_eq!(outage.attempt(Instant::now(), LONG), Attempt::Report);
    assert!(
        matches!(outage.attempt(Instant::now(), LONG), Attempt::Wait(pause) if pause <= Duration::from_millis(100))
    );
    assert_eq!(outage.attempt(Instant::now(), Duration::from_secs(1)), Attempt::GiveUp);
}

#[test]
fn a_call_that_found_a_gap_waits_for_all_that_is_in_flight() {
    let mut owner = Owner::new(4, Limits::fast(), LONG, &[]);
    assert!(owner.step().unwrap());
    let Event::Reply(first, _) = owner.pipeline.advance(true).unwrap() else { panic!("no reply") };
    owner.pipeline.retry(Some(unreachable()));
    owner.waiting.push_front(first);
    while !owner.pipeline.is_idle() {
        assert!(!owner.pipeline.has_room());
        owner.step().unwrap();
    }
    owner.run().unwrap();
    assert_eq!(owner.decided.last(), Some(&1));
}

#[test]
fn a_rate_limit_makes_small_calls_and_spends_its_burst_once() {
    let limits = Limits::shared().with_rate(NonZeroU32::new(1000).unwrap());
    assert_eq!(limits.orders, 10);
    assert_eq!(Limits::shared().with_rate(NonZeroU32::new(7).unwrap()).orders, 1);
    let rate = limits.rate_limit(&RealSystem::shared()).unwrap();
    assert!(rate.is_due());
    let before = Instant::now();
    rate.due.set(before.checked_sub(Duration::from_secs(9)).unwrap());
    rate.spend(10);
    assert!(rate.is_due());
    // What was not used for nine seconds is not made up for.
    assert!(rate.due.get() >= before.checked_sub(Duration::from_millis(40)).unwrap());
    rate.spend(1000);
    assert!(!rate.is_due());
}

#[test]
fn lanes_of_a_run_share_one_rate_limit() {
    let limits = Limits::shared().with_rate(NonZeroU32::new(1000).unwrap());
    let mut owner = Owner::new(1, limits, LONG, &[]);
    let sibling: Pipeline<Numbered> = owner.pipeline.sibling(owner.machine.server(URL));
    assert_eq!(sibling.readiness(true), Readiness::Send);
    owner.waiting[0].orders = 1000;
    assert!(owner.step().unwrap());
    assert_eq!(sibling.readiness(false), Readiness::Idle);
    assert!(matches!(sibling.readiness(true), Readiness::At(due) if due > Instant::now()), "the other one spent it");
}

#[test]
fn a_call_waits_for_its_turn_under_a_rate_limit_and_replies_do_not() {
    let limits = Limits::shared().with_rate(NonZeroU32::new(1000).unwrap());
    let mut owner = Owner::new(2, limits, LONG, &[]);
    owner.waiting.iter_mut().for_each(|call| call.orders = 10);
    assert!(owner.step().unwrap());
    assert!(owner.pipeline.has_room());
    let due = |owner: &Owner, at| owner.pipeline.rate.as_ref().unwrap().due.set(at);
    due(&owner, Instant::now() + LONG);
    assert_eq!(owner.pipeline.readiness(true), Readiness::Replies);
    assert!(matches!(owner.pipeline.advance(true).unwrap(), Event::Reply(..)));
    while !owner.pipeline.is_idle() {
        owner.pipeline.receive().unwrap();
    }
    assert!(matches!(owner.pipeline.readiness(true), Readiness::At(due) if due > Instant::now()));
    let before = Instant::now();
    assert!(matches!(owner.pipeline.advance(true).unwrap(), Event::Waited), "it waits until it is due");
    assert!(before.elapsed() >= Duration::from_millis(1), "and not in a busy loop");
    due(&owner, Instant::now());
    assert!(matches!(owner.pipeline.advance(true).unwrap(), Event::Send));
}

#[test]
fn who_backs_off_waits_for_what_is_in_flight_and_then_longer_each_time() {
    let mut owner = Owner::new(2, Limits::shared(), LONG, &[]);
    assert!(owner.step().unwrap());
    owner.pipeline.back_off(unreachable());
    assert!(!owner.pipeline.has_room());
    assert_eq!(owner.pipeline.readiness(true), Readiness::Replies);
    while !owner.pipeline.is_idle() {
        owner.pipeline.receive().unwrap();
    }
    let due = |owner: &Owner| match owner.pipeline.readiness(true) {
        Readiness::Outage(due) => due,
        other => panic!("{other:?}"),
    };
    let first = due(&owner);
    owner.pipeline.back_off(unreachable());
    assert!(due(&owner) > first);
}

#[test]
fn a_check_asks_whoever_serves_now_if_that_may_be_another() {
    for (url, may_move) in [(URL, false), ("redis+sentinel://127.0.0.1:26379/sale", true)] {
        let mut owner = Owner::new(0, Limits::shared(), LONG, &[]);
        owner.pipeline.server = owner.machine.server(url);
        owner.pipeline.was_lost = true;
        assert_eq!((owner.pipeline.may_move(), owner.pipeline.server.is_down), (may_move, false));
        owner.pipeline.begin_check();
        assert_eq!((owner.pipeline.was_lost, owner.pipeline.server.is_down), (false, may_move));
    }
}

#[test]
fn a_redirection_gives_the_call_back_and_what_follows_it_drains_first() {
    let moved = Does::Refuses("MOVED 3999 127.0.0.1:6381");
    let mut owner = Owner::new(2, Limits::shared(), LONG, &[moved, Does::Refuses("TRYAGAIN keys are moving")]);
    assert!(owner.step().unwrap() && owner.step().unwrap());
    let Event::Redirected { call, to } = owner.pipeline.receive().unwrap() else { panic!("no redirection") };
    assert_eq!((call.number, to.slot, to.port, to.is_ask), (1, 3999, 6381, false));
    assert!(!owner.pipeline.has_room() && owner.pipeline.readiness(true) == Readiness::Replies);
    // The one behind it waits for the move to end.
    let Event::Retry(calls) = owner.pipeline.receive().unwrap() else { panic!("no retry") };
    assert!(calls[0].number == 2 && owner.pipeline.unsettled().is_none());
    assert!(matches!(owner.pipeline.readiness(true), Readiness::Outage(_)));
}

#[test]
fn an_outage_goes_along_with_the_activities_until_a_call_succeeds() {
    let mut lost = Owner::new(1, Limits::shared(), LONG, &[Does::LosesReply]);
    while lost.pipeline.outage.is_none() {
        lost.step().unwrap();
    }
    let mut other = Owner::new(1, Limits::shared(), LONG, &[]);
    lost.pipeline.hand_over(std::iter::once(&mut other.pipeline));
    assert!(lost.pipeline.unsettled().is_none() && other.pipeline.unsettled().is_some());
    assert!(other.pipeline.has_room(), "it answers");
    other.run().unwrap();
    assert!(other.pipeline.unsettled().is_none());
}

#[test]
fn a_call_behind_asking_has_the_second_of_two_replies() {
    let mut owner = Owner::new(0, Limits::shared(), LONG, &[]);
    owner.fake().replies.push_back(Some(b"+OK\r\n".to_vec()));
    owner.pipeline.push(Numbered { number: 7, orders: 1 }, true, |out, _| out.extend_from_slice(b"7\n"));
    assert!(owner.pipeline.buffer.starts_with(b"*1\r\n$6\r\nASKING\r\n"));
    owner.pipeline.buffer = b"7\n".to_vec();
    assert!(matches!(owner.pipeline.flush(), Event::Waited));
    assert!(matches!(owner.pipeline.receive().unwrap(), Event::Reply(_, Value::Int(7))));
}

#[test]
fn a_request_is_tried_again_later_if_the_server_is_gone() {
    let mut owner = Owner::new(1, Limits::shared(), LONG, &[]);
    assert_eq!(owner.pipeline.request(b"8\n9\n", 2).unwrap(), Some(vec![Value::Int(8), Value::Int(9)]));
    owner.fake().plan = vec![Does::Replies, Does::LosesReply, Does::Refuses("LOADING wait")].into();
    assert_eq!(owner.pipeline.request(b"8\n9\n", 2).unwrap(), None);
    assert!(owner.fake().disconnected == 1 && !owner.pipeline.has_room());
    assert_eq!(owner.pipeline.request(b"8\n", 1).unwrap(), None);
    owner.fake().plan = vec![Does::Refuses("WRONGTYPE a list"), Does::Refuses("NOPERM no")].into();
    assert_eq!(owner.pipeline.request(b"8\n", 1).unwrap(), Some(vec![error("WRONGTYPE a list")]));
    assert!(matches!(owner.pipeline.request(b"8\n", 1), Err(StoreError::Permission { .. })));
}
