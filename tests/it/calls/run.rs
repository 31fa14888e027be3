//! The calls at work: replies, NOSCRIPT, lost replies and refusals of the server, in each language.

use super::language::{Driver, Language, SHARDED};
use crate::support::{CLUSTER, Fault, LAYOUTS, Layout, Proxy, SECKILL, Scripts, TestRedis, When, wait_until};

fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1", "--stock", "10", "--per-user-limit", "3"]).code(0);
    redis.seckill(["preheat", "--id", "2", "--stock", "5"]).code(0);
    redis
}

/// Asserts what a call replies. The printed calls wait a second: on a busy machine one was sent again, and what it did is `replayed`.
#[track_caller]
fn replies_with(driver: &mut Driver, call: &str, expected: &str) {
    let reply = driver.call(call);
    if reply != expected {
        assert_eq!(reply, expected.replace("ok", "replayed"), "{call}");
    }
}

#[track_caller]
fn replies(driver: &mut Driver, calls: &[(&str, &str)]) {
    for (call, expected) in calls {
        replies_with(driver, call, expected);
    }
}

/// Everything that a call can reply, on a server that does not know the scripts yet.
fn every_status(language: &Language) {
    let redis = sale();
    redis.seckill(["preheat", "--id", "3", "--stock", "5", "--starts-at", "2200-01-01T00:00:00Z"]).code(0);
    redis.seckill(["preheat", "--id", "4", "--stock", "5", "--ends-at", "2001-01-01T00:00:00Z"]).code(0);
    redis.seckill(["preheat", "--id", "5", "--stock", "5"]).code(0);
    redis.seckill(["preheat", "--id", "6", "--stock", "5"]).code(0);
    redis.seckill(["pause", "5"]).code(0);
    redis.cmd(("SET", SECKILL.stock("6"), "abc"));
    let mut driver = language.start(&redis.socket());
    replies(
        &mut driver,
        &[
            ("deduct 1 王小明 2 r1 0", "ok 8 2"),
            ("deduct 1 王小明 2 r1 0", "replayed 8 2"),
            ("deduct 1 王小明 1 r1 0", "requestconflict 8 2"),
            ("deduct 1 王小明 2 r2 0", "limitexceeded 8 2"),
            ("deduct 2 7 6 r3 0", "outofstock 5 0"),
            ("deduct 9 7 1 r3 0", "notpreheated - -"),
            ("deduct 3 7 1 r3 0", "notstarted 5 0"),
            ("deduct 4 7 1 r3 0", "ended 5 0"),
            ("deduct 5 7 1 r3 0", "paused 5 0"),
            ("deduct 6 7 1 r3 0", "corrupt - -"),
            ("refund 1 王小明 1 r4 0", "ok 9 1 1"),
            ("refund 1 王小明 1 r4 0", "replayed 9 1 1"),
            ("refund 1 王小明 all r5 0", "ok 10 0 1"),
            ("refund 1 王小明 all r6 0", "exceedsbought 10 0 -"),
            ("refund 1 王小明 1 r5 0", "requestconflict 10 0 -"),
            ("refund 9 7 1 r7 0", "notpreheated - - -"),
            ("refund 6 7 1 r7 0", "corrupt - - -"),
        ],
    );
    // What another client flushed is there again.
    redis.cmd(("SCRIPT", "FLUSH"));
    replies(
        &mut driver,
        &[
            ("multi 8 1=2,2=1 m1 0", "ok 1:ok:8:2 2:ok:4:1"),
            ("multi 8 1=2,2=1 m1 0", "replayed 1:replayed:8:2 2:replayed:4:1"),
            ("multi 8 1=2,2=1 m2 0", "refused 1:limitexceeded:8:2 2:refused:4:1"),
            ("multi 9 2=9,9=1 m3 0", "refused 2:outofstock:4:0 9:notpreheated:-:-"),
            ("multi 9 5=1,6=1 m4 0", "refused 5:paused:5:0 6:corrupt:-:-"),
            ("deduct 1 7 1 r8 0", "ok 7 1"),
        ],
    );
    let ledger = redis.seckill(["ledger", "1", "-o", "csv"]).code(0).stdout;
    assert_eq!(ledger.matches(",shop-api,").count(), 5, "{}: {ledger}", language.name);
    redis.seckill(["reconcile", "1", "2"]).code(0);
}

/// A lost reply, a timeout and no server at all; then errors of the server.
fn faults(language: &Language) {
    let redis = sale();
    let proxy = Proxy::before(&redis);
    let mut driver = language.start(proxy.socket().as_path());
    replies(&mut driver, &[("deduct 1 7 1 r0 0", "ok 9 1"), ("multi 7 1=1,2=1 m0 0", "ok 1:ok:8:2 2:ok:4:1")]);

    // Applied once, and reported as applied.
    proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
    assert_eq!(driver.call("deduct 1 8 1 r1 0"), "replayed 7 1");
    proxy.inject(When::Next("EVALSHA"), Fault::HangReply);
    assert_eq!(driver.call("multi 8 1=1,2=1 m1 0"), "replayed 1:replayed:6:2 2:replayed:3:1");
    // A first try that nobody saw.
    proxy.inject(When::Next("EVALSHA"), Fault::LoseRequest);
    replies_with(&mut driver, "deduct 1 9 1 r2 0", "ok 5 1");

    // No try is answered: the outcome is unknown until the same request is sent again.
    proxy.inject(When::With("r3".to_owned()), Fault::LoseReply);
    assert_eq!(driver.call("deduct 1 10 1 r3 0"), "unknown");
    proxy.heal();
    assert_eq!(driver.call("deduct 1 10 1 r3 1"), "replayed 4 1");
    // A refusal that was sent before is kept: what arrives late finds it.
    assert_eq!(driver.call("deduct 1 11 9 r4 1"), "limitexceeded 4 0");
    assert_eq!(redis.hget(&SECKILL.requests("1"), "r4").as_deref(), Some("-2\t9\t11"));

    redis.config_set("maxmemory", "1");
    let before = redis.dump_all();
    let refused = driver.call("deduct 1 12 1 r5 0");
    assert!(refused.starts_with("refused: ") && refused.contains("memory"), "{}: {refused}", language.name);
    let usage = driver.call("deduct 1 12 0 r5 0");
    assert!(usage.starts_with("refused: ") && usage.contains("USAGE"), "{}: {usage}", language.name);
    // Of what was sent before, an error says nothing: this one is bought.
    assert_eq!(driver.call("deduct 1 10 0 r3 1"), "unknown");
    redis.assert_unchanged_since(&before);
    redis.config_set("maxmemory", "0");
    replies_with(&mut driver, "deduct 1 12 1 r5 0", "ok 3 1");
    redis.seckill(["reconcile", "1", "2"]).code(0);
}

/// Holds that are confirmed, released and over, each once although replies are lost.
fn holds(language: &Language) {
    let redis = sale();
    redis.seckill(["preheat", "--id", "3", "--stock", "5"]).code(0);
    redis.cmd(("SET", SECKILL.stock("3"), "abc"));
    let proxy = Proxy::before(&redis);
    let mut driver = language.start(proxy.socket().as_path());
    let held = |driver: &mut Driver, call: &str, status: &str| {
        let id = call.split(' ').nth(5).unwrap();
        let reply = driver.call(call);
        let record = redis.hget(&SECKILL.requests("1"), &format!("	h:{id}")).unwrap();
        let expected = format!("{status} {}", record.split(' ').nth(2).unwrap());
        assert!(reply == expected || reply == expected.replace("ok", "replayed"), "{}: {call}: {reply}", language.name);
    };
    held(&mut driver, "hold 1 王小明 2 60000 h1 0", "ok 8 2");
    held(&mut driver, "hold 1 王小明 2 60000 h1 0", "replayed 8 2");
    proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
    held(&mut driver, "hold 1 8 1 60000 h2 0", "replayed 7 1");
    replies(
        &mut driver,
        &[
            ("hold 1 王小明 2 60000 h4 0", "limitexceeded 7 2 -"),
            ("hold 2 7 6 60000 h4 0", "outofstock 5 0 -"),
            ("hold 3 7 1 60000 h4 0", "corrupt - - -"),
            ("hold 4 7 1 60000 h4 0", "notpreheated - - -"),
            ("confirm 1 h1 0", "ok 7 2 2 王小明"),
            ("confirm 1 h1 0", "replayed 7 2 2 王小明"),
            ("release 1 h1 0", "confirmed 7 2 2 王小明"),
        ],
    );
    proxy.inject(When::Next("EVALSHA"), Fault::LoseReply);
    assert_eq!(driver.call("release 1 h2 0"), "replayed 8 0 1 8");
    held(&mut driver, "hold 1 9 3 1 h3 0", "ok 5 3");
    wait_until("the hold is over", || redis.seckill(["expire", "1", "-o", "json"]).code(0).json()[0]["holds"] == 1);
    redis.seckill(["deduct", "1", "--user", "10", "--quantity", "3"]).code(0);
    redis.seckill(["deduct", "1", "--user", "11", "--quantity", "3"]).code(0);
    replies(
        &mut driver,
        &[
            ("confirm 1 h3 0", "expired 2 0 3 9"),
            ("hold 1 9 3 60000 h3 0", "expired 2 0 -"),
            ("confirm 1 h2 0", "notheld 2 0 1 8"),
            ("release 1 h9 0", "notheld 2 - - -"),
            ("release 3 h1 0", "corrupt - - - -"),
            ("confirm 4 h1 0", "notpreheated - - - -"),
        ],
    );
    // No try is answered: the hold is confirmed or not until it is asked again.
    held(&mut driver, "hold 1 12 1 60000 h5 0", "ok 1 1");
    proxy.inject(When::With("h5".to_owned()), Fault::LoseReply);
    assert_eq!(driver.call("confirm 1 h5 0"), "unknown");
    proxy.heal();
    assert_eq!(driver.call("confirm 1 h5 0"), "replayed 1 1 1 12");
    let usage = driver.call("hold 1 12 1 0 h6 0");
    assert!(usage.starts_with("refused: ") && usage.contains("USAGE"), "{}: {usage}", language.name);
    redis.cmd(("SET", SECKILL.stock("3"), "5"));
    redis.seckill(["reconcile", "1", "2", "3"]).code(0);
}

fn every_layout(language: &str, layout: Layout) {
    let names = super::language::LANGUAGES;
    let name = names.into_iter().find(|name| *name == language).unwrap();
    let Some(language) = Language::get(name, layout.name) else { return };
    let redis = TestRedis::start();
    let layout_flag = ["-l", layout.name];
    redis.seckill(["preheat", "--id", "1", "--stock", "5"]).args(layout_flag).code(0);
    let mut driver = language.start(&redis.socket());
    let held = |units: i64| if layout.has_users() { units.to_string() } else { "-".to_owned() };
    replies_with(&mut driver, "deduct 1 7 1 r1 0", &format!("ok 4 {}", held(1)));
    replies_with(&mut driver, "multi 8 1=1 m1 0", &format!("ok 1:ok:3:{}", held(1)));
    replies_with(&mut driver, "refund 1 7 1 r2 0", &format!("ok 4 {} 1", held(0)));
    if layout.has_users() {
        let held = driver.call("hold 1 9 1 60000 h1 0");
        assert!(held.starts_with("ok 3 1 ") || held.starts_with("replayed 3 1 "), "{held}");
        replies_with(&mut driver, "confirm 1 h1 0", "ok 3 1 1 9");
        assert_eq!(driver.call("release 1 h2 0"), "notheld 3 - - -");
    }
    redis.seckill(["reconcile", "1"]).args(layout_flag).code(0);
}

/// Users at home in each of three shards.
fn at_home(shard: usize) -> impl Iterator<Item = String> {
    (0..)
        .map(|index| format!("user-{index}"))
        .filter(move |user| crc32fast::hash(user.as_bytes()) as usize % 3 == shard)
}

/// A sharded activity is sold to its last unit, whichever shard has it; then it is sold out.
fn shards(language: &Language) {
    let redis = TestRedis::start();
    let mut scripts = Scripts::of(&redis, CLUSTER);
    for (shard, units) in [("1#3", "2"), ("1#17", "10"), ("1#29", "0")] {
        scripts.preheat(shard, units);
    }
    let rules = redis.hget(&CLUSTER.meta("1#3"), "rules").unwrap().replace(" 2 ", " 12 ");
    redis.cmd(("HSET", CLUSTER.meta("1"), "rules", rules, "shards", "3 17 29"));
    let mut driver = language.start(&redis.socket());
    let mut first = at_home(0);
    let mut order = |user: &str, quantity: u32, request: &str, sent_before: u8| {
        driver.call(&format!("sharded 1 {user} {quantity} {request} {sent_before}"))
    };
    let mut buy = |user: &str, quantity: u32, request: &str| order(user, quantity, request, 0);
    let (one, two, three) = (first.next().unwrap(), first.next().unwrap(), at_home(2).next().unwrap());
    assert_eq!(buy(&one, 2, "r1"), "ok 0 2", "at home");
    assert_eq!(buy(&one, 2, "r1"), "replayed 0 2");
    assert_eq!(buy(&one, 1, "r1"), "requestconflict 0 2");
    assert_eq!(buy(&two, 1, "r2"), "ok 4 1", "half of what the fullest shard has");
    assert_eq!(buy(&three, 1, "r3"), "ok 1 1");
    // An open transfer is finished by the next order that needs units.
    let lent = scripts.call("lend", &CLUSTER.keys("1#3")[..4], &["t", &"a".repeat(40), "1", "17", "4", "4", ""]);
    assert!(lent.starts_with("1 4 "), "{lent}");
    let record = format!("4 17 {}", 1_700_000_000_000u64);
    redis.cmd(("HSET", CLUSTER.key(3, "1#3"), format!("\ttt:{}", "a".repeat(40)), record));
    assert_eq!(buy(&one, 9, "r4"), "outofstock 7 2", "eight are left");
    let left: i64 = ["1#3", "1#17", "1#29"].iter().map(|shard| redis.int(&CLUSTER.stock(shard))).sum();
    assert_eq!(left, 8, "what somebody left on the way arrived");
    assert_eq!(buy(&one, 8, "r5"), "ok 0 10");
    assert_eq!(buy(&three, 1, "r6"), "outofstock 0 1");
    // Only of an order that may have been sent before is a refusal kept.
    assert_eq!(order(&three, 1, "r7", 1), "outofstock 0 1");
    redis.seckill(["refund", "1", "--user", &two, "-l", "cluster"]).code(0);
    assert_eq!(order(&three, 1, "r7", 0), "outofstock 1 1");
    assert_eq!(order(&three, 1, "r6", 0), "ok 0 2");
    redis.seckill(["reconcile", "1", "-l", "cluster"]).code(0).stdout_has("match");
}

fn works(name: &'static str) {
    if let Some(language) = Language::get(name, "seckill") {
        every_status(&language);
        faults(&language);
        holds(&language);
        if SHARDED.contains(&name) {
            shards(&language);
        }
    }
}

#[test]
fn calls_in_python_work() {
    works("python");
}

#[test]
fn calls_in_node_work() {
    works("node");
}

#[test]
fn calls_in_php_work() {
    works("php");
}

#[test]
fn calls_in_go_work() {
    works("go");
}

#[test]
fn calls_in_java_with_jedis_work() {
    works("java-jedis");
}

#[test]
fn calls_in_java_with_spring_work() {
    works("java-spring");
}

#[test]
fn calls_work_in_every_layout() {
    for layout in LAYOUTS {
        every_layout("python", layout);
        every_layout("php", layout);
    }
}
