//! `ledger trim`: what is removed leaves audits exact, wherever it ends.

use serde_json::Value;

use crate::reconcile::live::while_selling;
use crate::support::{Call, Fault, LAYOUTS, Layout, Proxy, SECKILL, TestRedis, When, backend};

const LATER: &str = "2200-01-01T00:00:00Z";

/// The server's clock as a time, once all that was written before is older.
fn now(redis: &TestRedis) -> String {
    let clock = || redis.ask::<(i64, i64)>(("TIME",));
    let millis = |(seconds, micros): (i64, i64)| seconds * 1000 + micros / 1000;
    let written = millis(clock());
    loop {
        let now = millis(clock());
        if now > written {
            return jiff::Timestamp::from_millisecond(now).unwrap().to_string();
        }
    }
}

/// `a` and `b` bought before the time that is given, `c` after.
fn sale(layout: Layout) -> (TestRedis, String) {
    let redis = TestRedis::start();
    let run = |line: &str| drop(redis.seckill(["-l", layout.name]).args(line.split(' ')).code(0));
    run("preheat --id 1001 --stock 50");
    run("deduct 1001 --user a");
    run("deduct 1001 --user b");
    if layout.has_users() {
        run("refund 1001 --user b");
        run("deduct 1001 --user b");
    }
    run("preheat --id 1001 --stock 60 --update");
    let time = now(&redis);
    run("deduct 1001 --user c --request last");
    run("pause 1001");
    (redis, time)
}

fn trim(redis: &TestRedis, before: &str) -> Call {
    redis.seckill(["ledger", "trim", "1001", "--yes", "-o", "jsonl", "--before"]).args([before])
}

/// The ledger as `id op`.
fn entries(redis: &TestRedis, layout: Layout) -> Vec<String> {
    redis.xrange(&layout.ledger("1001")).into_iter().map(|(id, entry)| format!("{id} {}", entry["op"])).collect()
}

#[track_caller]
fn matches(redis: &TestRedis, layout: Layout) -> Value {
    redis.seckill(["reconcile", "1001", "-o", "json", "-l", layout.name]).code(0).stderr("").json()
}

#[test]
fn an_audit_says_the_same_before_and_after_in_every_layout() {
    for layout in LAYOUTS {
        let (redis, time) = sale(layout);
        let (audit, all) = (matches(&redis, layout), entries(&redis, layout));
        let before = redis.dump_all();
        let mut dry = trim(&redis, &time).args(["--dry-run", "-l", layout.name]).code(0).json();
        assert_eq!(dry.as_object_mut().unwrap().remove("dry_run"), Some(true.into()));
        redis.assert_unchanged_since(&before);

        let row = trim(&redis, &time).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!(row, dry, "{layout:?}");
        let left = &all[all.len() - 2..];
        let first = left[0].split(' ').next().unwrap();
        assert_eq!(row["removed"], all.len() - 2, "{layout:?}");
        assert_eq!((&row["status"], &row["from"]), (&"ok".into(), &first.into()), "{layout:?}");
        assert_eq!(row["users"], if layout.has_users() { 2 } else { 1 }, "{layout:?}");
        assert_eq!(entries(&redis, layout), left, "{layout:?}");
        assert_eq!(matches(&redis, layout), audit, "{layout:?}");

        // Again: nothing to do. Then all but the last entry, which is always kept.
        let before = redis.dump_all();
        let again = trim(&redis, &time).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!((&again["removed"], &again["from"]), (&0.into(), &first.into()), "{layout:?}");
        redis.assert_unchanged_since(&before);
        let rest = trim(&redis, LATER).args(["-l", layout.name]).code(0).stderr("").json();
        assert_eq!(rest["removed"], 1, "{layout:?}");
        assert_eq!(entries(&redis, layout), all[all.len() - 1..], "{layout:?}");
        assert_eq!(matches(&redis, layout), audit, "{layout:?}");
        let pages = redis.hgetall(&layout.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
        assert_eq!(pages.count(), 1, "{layout:?}: the pages of the first checkpoint are gone");
        assert!(!redis.hgetall(&layout.meta("1001")).contains_key("draft"), "{layout:?}");

        // What was applied is known by its request id as before, and the sale continues.
        let line = "resume 1001|deduct 1001 --user c --request last|deduct 1001 --user d";
        for line in line.split('|') {
            redis.seckill(["-l", layout.name]).args(line.split(' ')).code(0);
        }
        let bought = |audit: &Value| audit["activities"][0]["bought"].as_i64().unwrap();
        assert_eq!(bought(&matches(&redis, layout)), bought(&audit) + 1, "{layout:?}");
    }
}

#[test]
fn what_was_wrong_before_and_what_goes_wrong_after_is_found_and_repaired() {
    let (redis, time) = sale(SECKILL);
    backend::buy_hash(&redis, "1001", "a", 2, 9);
    trim(&redis, &time).code(0);
    redis.cmd(("HINCRBY", SECKILL.participants("1001"), "c", 4));
    redis.cmd(("HDEL", SECKILL.participants("1001"), "b"));
    let rows = |code: i32| {
        let rows = redis.seckill(["reconcile", "1001", "--differences", "-o", "csv", "-q"]).code(code).stdout;
        rows.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        rows(7),
        [
            "1001,,conservation,55,57,,,",
            "1001,a,counter_drift,3,1,,,",
            "1001,b,counter_drift,0,1,,,",
            "1001,c,counter_drift,5,1,,,"
        ]
    );
    redis.cmd(("HINCRBY", SECKILL.participants("1001"), "c", -4));
    redis.cmd(("HSET", SECKILL.participants("1001"), "b", 1));
    redis.seckill(["reconcile", "1001", "--fix", "--yes"]).code(0);
    assert_eq!(rows(0), [""; 0]);
    trim(&redis, LATER).code(0);
    assert_eq!(rows(0), [""; 0]);
}

#[test]
fn the_history_begins_at_the_checkpoint_and_says_who_removed_the_rest() {
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    let shown = redis.seckill(["ledger", "1001", "-o", "jsonl"]).code(0);
    let ops: Vec<Value> = shown.jsonl().into_iter().map(|mut row| row["op"].take()).collect();
    assert_eq!(ops, ["deduct", "pause"]);
    shown.stderr_has("were trimmed at ").stderr_has("by tester@test");
    redis.seckill(["ledger", "1001", "-q"]).code(0).stderr("");
    redis.seckill(["ledger", "1001", "--group", "db", "-o", "csv"]).code(0).stderr_has("were trimmed");
}

#[test]
fn it_is_for_good_so_it_asks() {
    let (redis, time) = sale(SECKILL);
    let before = redis.dump_all();
    let asked = redis.seckill(["ledger", "trim", "1001", "--before", &time]).code(2).stdout_is("");
    asked.stderr_has("Remove 6 ledger entries of `1001`").stderr_has("--yes");
    redis.seckill(["ledger", "trim", "1001", "--yes"]).code(2).stderr_has("--before");
    redis.assert_unchanged_since(&before);
}

#[test]
fn what_a_consumer_group_still_needs_is_kept() {
    let (redis, time) = sale(SECKILL);
    let ledger = SECKILL.ledger("1001");
    redis.cmd(("XGROUP", "CREATE", &ledger, "db", "0"));
    let before = redis.dump_all();
    let row = trim(&redis, &time).code(3).stderr_has("consumer group `db`").json();
    assert_eq!((&row["status"], &row["removed"]), (&"unread".into(), &0.into()));
    redis.assert_unchanged_since(&before);

    // Read, and all but the fourth acknowledged: what is before that can go.
    let all = entries(&redis, SECKILL);
    redis.cmd(("XREADGROUP", "GROUP", "db", "me", "STREAMS", &ledger, ">"));
    for entry in all.iter().enumerate().filter(|(nth, _)| *nth != 3).map(|(_, entry)| entry) {
        redis.cmd(("XACK", &ledger, "db", entry.split(' ').next()));
    }
    let row = trim(&redis, &time).code(3).json();
    assert_eq!((&row["status"], &row["removed"]), (&"unread".into(), &3.into()));
    assert_eq!(entries(&redis, SECKILL), all[3..]);
    matches(&redis, SECKILL);
    redis.cmd(("XACK", &ledger, "db", all[3].split(' ').next()));
    let row = trim(&redis, &time).code(0).json();
    assert_eq!((&row["status"], &row["removed"]), (&"ok".into(), &3.into()));
    assert_eq!(entries(&redis, SECKILL), all[6..]);
}

#[test]
fn what_cannot_be_written_down_is_not_removed() {
    let redis = TestRedis::start();
    trim(&redis, LATER).code(3).stdout_has("not_preheated");
    redis.cmd(("SET", SECKILL.stock("1001"), 5));
    trim(&redis, LATER).code(3).stdout_has("not_preheated");
    redis.seckill(["preheat", "-"]).stdin("activities: [{id: 7, stock: 5, ledger: false}]").code(0);
    redis.seckill(["ledger", "trim", "7", "--before", LATER, "--yes"]).code(0).stderr_has("`7` has no ledger");

    for number in [2, 3, 4] {
        let (redis, time) = sale(SECKILL);
        let key = SECKILL.key(number, "1001");
        redis.cmd(("SET", &key, "x"));
        let before = redis.dump_all();
        trim(&redis, &time).code(3).stdout_has("corrupt").stderr_has(&key);
        redis.assert_unchanged_since(&before);
    }
    let (redis, time) = sale(SECKILL);
    let id: String = redis.ask(("XADD", SECKILL.ledger("1001"), "*", "op", "deduct", "users", "[1]", "quantity", "1"));
    redis.seckill(["resume", "1001"]).code(0);
    let before = redis.dump_all();
    trim(&redis, LATER).code(1).stdout_is("").stderr_has(&id).stderr_has("cannot be read");
    redis.assert_unchanged_since(&before);
    trim(&redis, &time).code(0);

    let (redis, time) = sale(SECKILL);
    redis.cmd(("XTRIM", SECKILL.ledger("1001"), "MAXLEN", 4));
    let before = redis.dump_all();
    trim(&redis, &time).code(1).stdout_is("").stderr_has("does not begin with its preheat");
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_checkpoint_that_is_damaged_or_does_not_fit_is_unsettled_and_never_a_match() {
    let unsettled = |spoil: &dyn Fn(&TestRedis)| {
        let (redis, time) = sale(SECKILL);
        trim(&redis, &time).code(0);
        spoil(&redis);
        let audit = redis.seckill(["reconcile", "1001", "-o", "json"]).code(7).stderr_has("nor continues a checkpoint");
        assert_eq!(audit.json()["verdict"], "unsettled");
        trim(&redis, LATER).code(1);
    };
    let page = |redis: &TestRedis| {
        redis.hgetall(&SECKILL.requests("1001")).into_keys().find(|field| field.starts_with("\tc:")).unwrap()
    };
    unsettled(&|redis| drop(redis.cmd(("HDEL", SECKILL.requests("1001"), page(redis)))));
    unsettled(&|redis| drop(redis.cmd(("HSET", SECKILL.requests("1001"), page(redis), "[[\"a\",\"3\"]]"))));
    unsettled(&|redis| drop(redis.cmd(("HSET", SECKILL.requests("1001"), page(redis), "x"))));
    unsettled(&|redis| drop(redis.cmd(("XTRIM", SECKILL.ledger("1001"), "MAXLEN", 1))));
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    redis.cmd(("HSET", SECKILL.meta("1001"), "checkpoint", "1 x"));
    redis.seckill(["reconcile", "1001"]).code(7).stdout_has("corrupt").stderr_has("holds `1 x`");
}

#[test]
fn order_records_are_compared_with_the_sums_unless_they_are_older() {
    let (redis, time) = sale(SECKILL);
    let last = redis.xrange(&SECKILL.ledger("1001")).last().unwrap().0.clone();
    trim(&redis, &time).code(0);
    let audit = |orders: &str, as_of: &str, code: i32| {
        let call = redis.seckill(["reconcile", "1001", "-o", "json", "--orders", "-", "--as-of", as_of]);
        let audit = call.stdin(format!("user,quantity,ledger\n{orders}")).code(code);
        let differences = audit.json()["differences"].as_array().unwrap().clone();
        let shown =
            differences.iter().map(|row| format!("{} {}", row["class"], row["user"]).replace('"', "")).collect();
        (audit, shown)
    };
    let classes = |orders: &str, as_of: &str, code: i32| -> Vec<String> { audit(orders, as_of, code).1 };
    assert_eq!(classes("a,1,\nb,1,1700000000000-0\nc,1,\n", LATER, 0), [""; 0]);
    assert_eq!(classes("a,2,\nc,1,\n", LATER, 7), ["missing_order b", "quantity_mismatch a"]);
    assert_eq!(classes("a,1,\nb,1,\nc,1,9999999999999-0\n", LATER, 7), ["lost_tail null"]);
    assert!(last.as_str() < "9999999999999-0");
    // What came behind the checkpoint is still known by its time; what came before it is not.
    assert_eq!(classes("a,1,\nb,1,\n", &time, 0), ["timing c"]);
    let (older, differences) = audit("a,1,\n", "2001-01-01T00:00:00Z", 7);
    let differences: Vec<String> = differences;
    assert_eq!(differences, [""; 0]);
    assert_eq!(older.json()["verdict"], "unsettled");
    older.stderr_has("export them again");
    // They are not taken for repairs either.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("orders.csv");
    std::fs::write(&file, "user,quantity\na,1\n").unwrap();
    let before = redis.dump_all();
    let fix = redis.seckill(["reconcile", "1001", "--as-of", "2001-01-01T00:00:00Z", "--fix", "--yes", "--orders"]);
    fix.args([&file]).code(7);
    redis.assert_unchanged_since(&before);
}

#[test]
fn a_live_sale_is_trimmed_and_audited_at_once() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000", "--per-user-limit", "9"]).code(0);
    let (removed, _) = while_selling(&redis, || {
        let mut removed = 0;
        for _ in 0..3 {
            let trimming = trim(&redis, &now(&redis)).spawn();
            matches(&redis, SECKILL);
            removed += trimming.wait().code(0).json()["removed"].as_u64().unwrap();
        }
        redis.cmd(("HINCRBY", SECKILL.participants("1001"), "nobody-else", 1));
        let rows = redis.seckill(["reconcile", "1001", "--differences", "-o", "jsonl"]).code(7).jsonl();
        let drifted: Vec<&Value> =
            rows.iter().filter(|row| row["class"] == "counter_drift").map(|row| &row["user"]).collect();
        assert_eq!(drifted, ["nobody-else"]);
        redis.cmd(("HDEL", SECKILL.participants("1001"), "nobody-else"));
        removed
    });
    assert!(removed > 300, "{removed}");
    matches(&redis, SECKILL);
    trim(&redis, LATER).code(0);
    matches(&redis, SECKILL);
}

/// A thousand users' purchases, more than one call removes, with a checkpoint of an earlier trim; and a time.
fn long_sale() -> (TestRedis, String) {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "1001", "--stock", "100000"]).code(0);
    let sell = "for i = 1, ARGV[1] do
        local user = 'user-' .. i % 1100
        redis.call('DECR', KEYS[1])
        redis.call('HINCRBY', KEYS[2], user, 1)
        redis.call('XADD', KEYS[3], '*', 'op', 'deduct', 'stock', '1', 'users', '[\"' .. user .. '\"]', 'quantity', '1')
    end";
    let keys = (SECKILL.stock("1001"), SECKILL.participants("1001"), SECKILL.ledger("1001"));
    redis.cmd(("EVAL", sell, 3, &keys, 700));
    trim(&redis, &now(&redis)).code(0);
    redis.cmd(("EVAL", sell, 3, &keys, 2100));
    let time = now(&redis);
    redis.cmd(("EVAL", sell, 3, &keys, 10));
    (redis, time)
}

/// The same state as another activity.
fn copy(redis: &TestRedis, activity: &str) {
    for number in 1..=SECKILL.key_count() {
        redis.cmd(("COPY", SECKILL.key(number, "1001"), SECKILL.key(number, activity), "REPLACE"));
    }
}

#[test]
fn killed_anywhere_it_leaves_an_exact_audit_and_goes_on_the_next_time() {
    let (redis, time) = long_sale();
    redis.seckill(["script", "load"]).code(0);
    let args = ["ledger", "trim", "7", "--yes", "-o", "jsonl", "--before", &time];
    let expected = {
        copy(&redis, "7");
        let count = Proxy::before(&redis);
        let row = count.seckill(args).code(0).json();
        assert_eq!(row["removed"], 2101, "the last of the former sale too");
        count.commands().len()
    };
    assert!(expected > 8, "plan, clear, three pages, switch, two cuts, clear");
    let after = redis.xrange(&SECKILL.ledger("7"));
    for nth in 1..=expected {
        copy(&redis, "7");
        let network = Proxy::before(&redis);
        network.inject(When::Nth(nth), Fault::HangRequest);
        let killed = network.seckill(args).spawn();
        network.wait_for_commands(nth);
        killed.signal(libc::SIGKILL);
        killed.wait().killed_by(libc::SIGKILL);
        redis.seckill(["reconcile", "7"]).code(0).stderr("").stdout_has("match");
        redis.seckill(args).code(0);
        assert_eq!(redis.xrange(&SECKILL.ledger("7")), after, "{nth}");
        let meta = redis.hgetall(&SECKILL.meta("7"));
        assert!(!meta.contains_key("draft"), "{nth}: {meta:?}");
        let pages = redis.hgetall(&SECKILL.requests("7")).into_keys().filter(|field| field.starts_with("\tc:"));
        assert_eq!(pages.count(), 3, "{nth}");
        // What was on its way arrives after all; at most it begins a draft, which the next one clears.
        network.deliver_late();
        assert_eq!(redis.xrange(&SECKILL.ledger("7")), after, "{nth}");
        redis.seckill(["reconcile", "7"]).code(0).stderr("");
    }
}

#[test]
fn a_lost_reply_changes_nothing() {
    let (redis, time) = long_sale();
    let args = ["ledger", "trim", "7", "--yes", "-o", "jsonl", "--before", &time];
    for nth in 1..=9 {
        copy(&redis, "7");
        let network = Proxy::before(&redis);
        network.inject(When::Nth(nth), Fault::LoseReply);
        let row = network.seckill(args).code(0).json();
        assert_eq!((&row["removed"], &row["status"]), (&2101.into(), &"ok".into()), "{nth}");
        redis.seckill(["reconcile", "7"]).code(0).stderr("");
    }
}

#[test]
fn of_two_at_once_one_gives_way() {
    let (redis, time) = long_sale();
    redis.seckill(["script", "load"]).code(0);
    let network = Proxy::before(&redis);
    let args = ["ledger", "trim", "1001", "--yes", "--before", &time];
    // The third page of the first comes again only when the second is through.
    let so_far = {
        let count = Proxy::before(&redis);
        count.seckill(args).args(["--dry-run"]).code(0);
        count.commands().len()
    };
    network.inject(When::Nth(so_far + 1 + 3), Fault::HangRequest);
    let first = network.seckill(args).args(["--timeout", "1s"]).spawn();
    network.wait_for_commands(so_far + 1 + 3);
    first.signal(libc::SIGSTOP);
    redis.seckill(args).code(0);
    first.signal(libc::SIGCONT);
    first.wait().code(1).stderr_has("somebody else");
    matches(&redis, SECKILL);
    let pages = redis.hgetall(&SECKILL.requests("1001")).into_keys().filter(|field| field.starts_with("\tc:"));
    assert_eq!(pages.count(), 3);
}

#[test]
fn a_reset_takes_the_checkpoint_along() {
    let (redis, time) = sale(SECKILL);
    trim(&redis, &time).code(0);
    redis.cmd(("HSET", SECKILL.meta("1001"), "draft", "left-over 3 1"));
    redis.seckill(["preheat", "--id", "1001", "--stock", "9", "--reset", "--yes"]).code(0);
    let meta = redis.hgetall(&SECKILL.meta("1001"));
    assert!(!meta.contains_key("checkpoint") && !meta.contains_key("draft"), "{meta:?}");
    assert!(!redis.exists(&SECKILL.requests("1001")));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    // A checkpoint that an older tool's reset left means nothing in the new sale.
    redis.cmd(("HSET", SECKILL.meta("1001"), "checkpoint", "8 x 1 1 1700000000000-0 1600000000000-0 8 9 3 1 me"));
    matches(&redis, SECKILL);
    redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stderr("");
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    assert_eq!(trim(&redis, LATER).code(0).json()["removed"], 1);
    matches(&redis, SECKILL);
}

#[test]
fn an_activity_may_be_named_like_the_command() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "--id", "trim", "--stock", "5"]).code(0);
    redis.seckill(["ledger", "--", "trim"]).code(0).stdout_has("preheat");
    let row = &redis.seckill(["ledger", "trim", "trim", "--before", LATER, "--yes", "-o", "json"]).code(0).json()[0];
    assert_eq!(row["status"], "ok");
    redis.seckill(["ledger", "trim"]).code(2).stderr_has("--before");
    redis.seckill(["ledger"]).code(2).stderr_has("<ACTIVITY>");
}

#[test]
fn a_user_who_may_not_trim_is_told_before_anything_is_written() {
    let redis = TestRedis::with_tcp([]);
    redis.seckill(["preheat", "--id", "1001", "--stock", "5"]).code(0);
    redis.seckill(["deduct", "1001", "--user", "a"]).code(0);
    redis.cmd(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "&*", "+@all", "-xtrim"]);
    let url = redis.url().replace("redis://", "redis://op:pw@");
    let before = redis.dump_all();
    trim(&redis, LATER).args(["-u", &url]).code(4).stdout_is("");
    if redis.scripts_can_check_permissions() {
        redis.assert_unchanged_since(&before);
    }
}
