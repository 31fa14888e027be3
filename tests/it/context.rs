//! Contexts: servers by name, what beats what, and that a password never reaches another server. What `context` prints is in
//! `sessions/contexts.txt`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Call, TestRedis, seckill};

/// A home of contexts, and servers to name.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("seckill/config.yaml")
    }

    /// A call without any server in its environment.
    fn seckill<const N: usize>(&self, args: [&str; N]) -> Call {
        seckill(args).without_env("SECKILL_URL").env("XDG_CONFIG_HOME", self.0.path().to_str().unwrap())
    }

    /// Writes the file by hand, with that mode.
    fn write(&self, text: &str, mode: u32) {
        fs::create_dir_all(self.file().parent().unwrap()).unwrap();
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn path(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn a_file_that_others_may_change_is_refused_and_one_with_a_password_that_they_may_read() {
    let home = Home::new();
    home.seckill(["context", "add", "a", "-u", "h:1"]).code(0);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home.file()), mode(home.file().parent().unwrap())), (0o600, 0o700));
    let plain = "current: a\ncontexts:\n  a: {url: 'unix:///nonexistent/a'}\n";
    let secret = "current: a\ncontexts:\n  a: {url: 'unix:///nonexistent/a?pass=hush'}\n";
    for (text, mode, code, why) in [
        (plain, 0o622, 2, "others may change"),
        (plain, 0o644, 5, "cannot reach"),
        (secret, 0o644, 2, "others may read"),
        (secret, 0o640, 2, "chmod 600"),
        (secret, 0o600, 5, "cannot reach"),
    ] {
        home.write(text, mode);
        home.seckill(["inspect"]).code(code).stderr_has(why).stderr_lacks("hush");
    }
    home.write("contexts:\n  a: {url: 'h:1', layot: sku}\n", 0o600);
    home.seckill(["inspect"]).code(2).stderr_has("config.yaml:2:19: a context: unknown field `layot`");
    home.seckill(["context", "use", "a"]).code(2).stderr_has("layot");
    // Nobody reads it who names a server.
    home.seckill(["inspect", "-u", "unix:///nonexistent/b"]).code(5);
    home.seckill(["inspect"]).env("SECKILL_URL", "unix:///nonexistent/b").code(5);
    home.seckill(["inspect", "--context", "a", "-u", "unix:///nonexistent/b"]).code(2).stderr_has("layot");
}

/// `--context` is a flag; another context is beaten by the environment.
#[test]
fn a_flag_overrides_the_environment_which_overrides_the_context() {
    let (home, mine, other) = (Home::new(), TestRedis::start(), TestRedis::start());
    for (redis, id) in [(&mine, "mine"), (&other, "other")] {
        redis.seckill(["preheat", "--id", id, "--stock", "5", "--layout", "sku"]).code(0);
        redis.seckill(["preheat", "--id", id, "--stock", "5"]).code(0);
    }
    home.seckill(["context", "add", "mine", "-u", &mine.url(), "--layout", "sku", "--timezone", "Asia/Tokyo"]).code(0);
    let shown = |call: Call| call.args(["inspect", "-v", "-o", "csv"]).code(0);
    let (of_mine, of_other) = (format!("server {}, layout ", mine.url()), format!("server {}, layout ", other.url()));
    // Named by a flag.
    let named = || home.seckill(["--context", "mine"]);
    shown(named().env("SECKILL_URL", &other.url())).stderr_has(&format!("{of_mine}sku"));
    shown(named().env("SECKILL_LAYOUT", "coupon")).stderr_has(&format!("{of_mine}sku"));
    shown(named().args(["--layout", "seckill"])).stderr_has(&format!("{of_mine}seckill"));
    shown(named().args(["-u", &other.url()])).stderr_has(&format!("{of_other}sku"));
    // Named by the environment.
    let named = || home.seckill([]).env("SECKILL_CONTEXT", "mine");
    shown(named()).stderr_has(&format!("{of_mine}sku"));
    shown(named().env("SECKILL_URL", &other.url())).stderr_has(&format!("{of_other}sku"));
    shown(named().env("SECKILL_LAYOUT", "seckill")).stderr_has(&format!("{of_mine}seckill"));
    // The current one.
    home.seckill(["inspect", "--context", "none"]).code(2).stderr_has("there are `mine`");
    home.seckill(["context", "use", "mine"]).code(0);
    shown(home.seckill([])).stderr_has(&format!("{of_mine}sku"));
    shown(home.seckill([]).env("REDIS_URL", &other.url())).stderr_has(&format!("{of_other}seckill"));
    shown(home.seckill(["-u", &other.url()])).stderr_has(&format!("{of_other}seckill"));
    let zone = |call: Call| call.args(["ledger", "mine"]).code(0).stdout;
    assert!(zone(home.seckill([]).without_env("TZ")).contains("+09:00"));
    assert!(!zone(home.seckill([])).contains("+09:00"), "TZ overrides the context");
    assert!(zone(home.seckill(["--context", "mine"])).contains("+09:00"), "--context overrides TZ");
    home.seckill(["inspect", "--embedded", "--context", "mine"]).code(2);
    home.seckill(["inspect", "--embedded"]).env("SECKILL_CONTEXT", "mine").code(0).stderr_has("private server");
}

#[test]
fn the_password_of_a_context_reaches_its_own_server_and_no_other() {
    let home = Home::new();
    let mine = TestRedis::with_tcp(["--requirepass", "hushhush"]);
    let secret = home.path("pw", "hushhush\n");
    let command = format!("cat {secret}");
    let (mine_url, marker) = (mine.url(), home.path("ran", ""));
    let noted = format!("echo >> {marker}; {command}");
    home.seckill(["context", "add", "file", "-u", &mine_url, "--password-file", &secret]).code(0);
    home.seckill(["context", "add", "command", "-u", &mine_url, "--password-command", &noted]).code(0);
    home.seckill(["context", "add", "fails", "-u", &mine_url, "--password-command", "echo hushhush; exit 3"]).code(0);
    home.seckill(["inspect", "--context", "file"]).code(0);
    home.seckill(["inspect", "--context", "command"]).code(0);
    let failed = home.seckill(["inspect", "--context", "fails", "-v"]).code(1);
    failed.stderr_has("`echo` ended with 3").stderr_lacks("hushhush");
    // The server by another name is another server: it gets nothing.
    let ran = || fs::read_to_string(&marker).unwrap().lines().count();
    let before = ran();
    let socket = format!("unix://{}", mine.socket().display());
    for name in ["file", "command"] {
        home.seckill(["inspect", "--context", name, "-u", &socket]).code(4);
        home.seckill(["inspect"]).env("SECKILL_CONTEXT", name).env("SECKILL_URL", &socket).code(4);
        home.seckill(["context", "use", name]).code(0);
        home.seckill(["inspect", "-u", &socket]).code(4);
        home.seckill(["inspect"]).env("REDIS_URL", &socket).code(4);
        home.seckill(["inspect"]).code(0);
        home.seckill(["context", "show"]).code(0).stdout_lacks("hushhush");
    }
    assert_eq!(ran(), before + 1, "the command ran for its own server alone");
    // What beats what.
    home.seckill(["inspect"]).env("SECKILL_PASSWORD", "guess").code(4);
    home.seckill(["inspect", "--context", "file"]).env("SECKILL_PASSWORD", "guess").code(0);
    let wrong = home.path("wrong", "guess");
    home.seckill(["inspect", "--context", "file", "--password-file", &wrong]).code(4);
}

#[test]
fn every_command_that_changes_data_names_its_server() {
    let (home, redis) = (Home::new(), TestRedis::start());
    home.seckill(["context", "add", "sale", "-u", &redis.url()]).code(0);
    home.seckill(["context", "use", "sale"]).code(0);
    let orders = home.path("orders.csv", "activity,user\n1,9\n");
    let fixture = home.path("fixture.yaml", "activities: [{id: 2, stock: 5}]\n");
    let plan = home.path("plan.jsonl", "");
    let (url, on) = (redis.url(), format!("sale ({}, layout seckill)", redis.url()));
    let changes = [
        "preheat --id 1 --stock 50",
        "deduct 1 --user 7 --quantity 3",
        "refund 1 --user 7",
        "multi-deduct --user 7 1=1",
        "pause 1",
        "resume 1",
        "ledger trim 1 --before 1h --yes",
        "reconcile 1 --fix --yes",
        "preheat --id 1 --adopt --yes",
        &format!("deduct --from {orders}"),
        &format!("run {fixture}"),
    ];
    for line in changes {
        for format in ["table", "csv", "jsonl"] {
            let line = || line.split(' ').chain(["-o", format]);
            home.seckill([]).args(line()).args(["--dry-run"]).run().on(&on);
            home.seckill([]).args(line()).run().on(&on);
            redis.seckill([]).args(line()).run().on(&format!("{url} (layout seckill)"));
            let quiet = home.seckill([]).args(line()).args(["-q"]).run();
            assert_eq!(quiet.target, None);
        }
    }
    for line in ["inspect", "reconcile 1", "ledger 1", "script list", "context list"] {
        assert_eq!(home.seckill([]).args(line.split(' ')).run().target, None, "{line}");
    }
    home.seckill(["repair", &plan]).code(0).stderr_has("no repairs");
    let private = seckill(["preheat", "--embedded", "--id", "1", "--stock", "5"]).code(0);
    private.on("a private server (layout seckill)");
    // An error of json is one object: the server is in it.
    let refused = home.seckill(["preheat", "--id", "1", "--stock", "5", "--reset", "-o", "json"]).code(2).error_json();
    assert_eq!(refused["on"], *on);
}

#[test]
fn a_protected_context_is_changed_only_by_its_name() {
    let (home, redis) = (Home::new(), TestRedis::start());
    home.seckill(["context", "add", "sale", "-u", &redis.url(), "--protected"]).code(0);
    home.seckill(["context", "use", "sale"]).code(0);
    redis.seckill(["preheat", "--id", "1", "--stock", "50"]).code(0);
    let before = redis.dump_all();
    let orders = home.path("orders.csv", "activity,user\n1,9\n");
    let folder = orders.replace("orders.csv", "archive");
    for line in [
        "preheat --id 2 --stock 5",
        "preheat --id 1 --stock 5 --reset",
        "preheat --id 1 --adopt",
        "deduct 1 --user 7",
        "refund 1 --user 7",
        "multi-deduct --user 7 1=1",
        "pause 1",
        "resume 1",
        "ledger trim 1 --before 1h",
        "reconcile 1 --fix",
        "hold 1 --user 7 --for 1m",
        "confirm 1 --request r",
        "release 1 --request r",
        "expire 1",
        &format!("archive 1 --to {folder}"),
        &format!("deduct --from {orders}"),
        &format!("refund --from {orders} --keep-going"),
    ] {
        let call = || home.seckill([]).args(line.split(' ')).args(["--yes"]);
        call().code(2).stdout_is("").stderr_has("`sale` is protected").stderr_has("--confirm sale");
        call().args(["--confirm", "other"]).code(2).stderr_has("the context is `sale`");
        home.seckill([]).args(line.split(' ')).at_terminal("yes\n").code(1).stdout_has("nothing was changed");
        call().at_terminal("sal\n").code(1).stdout_has("Type `sale` to change it");
        home.seckill([]).args(line.split(' ')).args(["--dry-run"]).run().stderr_lacks("protected");
    }
    let bench = || home.seckill(["bench", "--orders", "5", "--clients", "2"]);
    bench().args(["--yes"]).code(2).stderr_has("`sale` is protected").stderr_has("--confirm sale");
    bench().at_terminal("yes\n").code(1).stdout_has("nothing was changed");
    bench().args(["--yes", "--confirm", "sale"]).code(0).stdout_has("1  lua");
    redis.assert_unchanged_since(&before);
    home.seckill(["deduct", "1", "--user", "7"]).at_terminal("sale\n").code(0);
    home.seckill(["deduct", "1", "--user", "7", "--confirm", "sale"]).code(0);
    home.seckill(["preheat", "--id", "1", "--stock", "5", "--reset", "--confirm", "sale"]).code(2).stderr_has("--yes");
    // Another server is not that of the context.
    let other = TestRedis::start();
    home.seckill(["preheat", "--id", "1", "--stock", "5", "-u", &other.url()]).code(0);
    let elsewhere = home.seckill(["deduct", "1", "--user", "7", "-u", &other.url(), "--confirm", "sale"]).code(2);
    elsewhere.stderr_has("no context is in use");
    home.seckill(["inspect", "1"]).code(0);
}

#[test]
fn protection_is_of_the_server_whatever_names_it() {
    let (home, redis) = (Home::new(), TestRedis::with_tcp([]));
    let address = redis.url().replace("redis://", "");
    let port = address.rsplit(':').next().unwrap();
    let write = |url: &str| {
        home.write(
            &format!("current: free\ncontexts:\n  free: {{url: 'h:1'}}\n  sale: {{url: '{url}', protected: true}}\n"),
            0o600,
        );
    };
    let order = |args: &[&str]| home.seckill(["preheat", "--id", "1", "--stock", "5"]).args(args);
    let before = redis.dump_all();
    for (protected, named, is_same) in [
        ("redis://ADDRESS", "redis://ADDRESS", true),
        ("ADDRESS", "redis://ops@localhost:PORT/0", true),
        ("redis://LOCALHOST:PORT", "redis://127.0.0.1:PORT", true),
        ("redis://n1.invalid,ADDRESS", "redis://ADDRESS", true),
        ("redis://ADDRESS", "redis://ADDRESS,n1.invalid", true),
        ("rediss://ADDRESS", "redis://ADDRESS", true),
        ("redis://ADDRESS/1", "redis://ADDRESS", false),
        ("redis://127.0.0.1:1", "redis://ADDRESS", false),
        ("redis+sentinel://s1:1,s2:2/shop", "redis+sentinel://s2:2,s3:3/shop", true),
        ("redis+sentinel://s1:1,s2:2/shop", "redis+sentinel://s2:2/other", false),
    ] {
        let real = |url: &str| url.replace("ADDRESS", &address).replace("PORT", port);
        write(&real(protected));
        let url = real(named);
        for call in [order(&["-u", &url]), order(&[]).env("SECKILL_URL", &url), order(&[]).env("REDIS_URL", &url)] {
            let outcome = call.args(["--yes", "--timeout", "100ms"]).run();
            let is_asked = outcome.stderr.contains("`sale` is protected") && outcome.stderr.contains("--confirm sale");
            assert_eq!(is_asked, is_same, "{protected} and {named}: {outcome:?}");
        }
        if is_same {
            redis.assert_unchanged_since(&before);
        } else {
            redis.cmd("FLUSHALL");
        }
    }
    write(&redis.url());
    order(&["-u", &redis.url(), "--dry-run"]).code(0);
    order(&["-u", &redis.url(), "--confirm", "free"]).code(2).stderr_has("`sale`");
    order(&["-u", &redis.url()]).at_terminal("free\n").code(1).stdout_has("Type `sale` to change it");
    order(&["-u", &redis.url(), "--confirm", "sale"]).code(0);
    // So does another context of the same server, and a socket by any path.
    let link = home.path("link", "");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(redis.socket(), &link).unwrap();
    write(&format!("unix://{}", redis.socket().display()));
    home.seckill(["context", "add", "mine", "-u", &format!("unix://{link}")]).code(0);
    order(&["--context", "mine"]).code(2).stderr_has("`sale` is protected");
    order(&["--context", "mine", "--confirm", "mine"]).code(2).stderr_has("`sale`");
    order(&["--context", "mine", "--confirm", "sale"]).code(0);
    home.seckill(["context", "rm", "mine", "-ojson"]).stdout_full().code(1).stderr_has(r#""changes":[{"name":"mine""#);
    // Who can be protected is not known.
    home.write("contexts: {a: {url: 'h:1', layot: sku}}\n", 0o600);
    order(&["-u", &redis.url()]).code(2).stderr_has("layot");
}

#[test]
fn each_change_says_if_the_environment_overrides_a_context() {
    let (home, redis) = (Home::new(), TestRedis::start());
    home.seckill(["context", "add", "sale", "-u", "unix:///nonexistent/sale"]).code(0);
    let order = || home.seckill(["preheat", "--id", "1", "--stock", "5"]);
    let url = redis.url();
    let (on, overrides) = (format!("{url} (layout seckill)"), "overrides the context `sale`");
    let (by_first, by_second) = (format!("{on}: `SECKILL_URL` {overrides}"), format!("{on}: `REDIS_URL` {overrides}"));
    order().env("SECKILL_URL", &url).code(0).on(&on);
    order().env("SECKILL_URL", &url).env("SECKILL_CONTEXT", "sale").code(0).on(&by_first);
    home.seckill(["context", "use", "sale"]).code(0);
    order().env("SECKILL_URL", &url).code(0).on(&by_first);
    order().env("REDIS_URL", &url).code(0).on(&by_second);
    let refused = order().args(["--reset", "-o", "json"]).env("SECKILL_URL", &url).code(2);
    assert_eq!(refused.error_json()["on"], *by_first);
    // A flag is what was meant.
    order().args(["-u", &url]).env("SECKILL_URL", "h:1").code(0).on(&on);
    order()
        .args(["--context", "sale"])
        .env("SECKILL_URL", &url)
        .code(5)
        .on("sale (unix:///nonexistent/sale, layout seckill)");
    home.seckill(["inspect"]).env("SECKILL_URL", &url).code(0).stderr("");
}
