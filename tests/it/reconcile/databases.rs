//! Order records of real databases, filled from the sale's own ledger, with gaps made by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::TestRedis;

/// What a shop's query says of its orders: refunds are below zero, and each row names its ledger entry.
const QUERY: &str = "select user_id as buyer, case op when 'refund' then -quantity else quantity end as quantity, \
                     id as entry from orders where op in ('deduct', 'refund')";

#[test]
fn orders_in_sqlite_are_compared_as_they_are_exported() {
    let Some(sqlite) = tool("sqlite3") else { return };
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("shop.db");
    let run = |sql: &str| ok(Command::new(&sqlite).arg(&db).arg(sql));
    let export = format!("{} -csv -header {} \"{QUERY}\"", sqlite.display(), db.display());
    compare(&run, &export, |csv| {
        let import = format!(".import --csv --skip 1 {} orders", csv.display());
        ok(Command::new(&sqlite).arg(&db).arg(CREATE).arg(import));
    });
}

#[test]
fn orders_in_postgresql_are_compared_as_they_are_exported() {
    let (Some(initdb), Some(postgres), Some(psql)) = (tool("initdb"), tool("postgres"), tool("psql")) else { return };
    let Some(shop) = Postgres::start(&initdb, &postgres) else { return };
    let client = format!("{} -h {} -U shop -d postgres -qX -v ON_ERROR_STOP=1", psql.display(), shop.dir().display());
    let run = |sql: &str| ok(Command::new("sh").arg("-c").arg(format!("{client} -c \"$0\"")).arg(sql));
    let export = format!("{client} --csv -c \"{QUERY}\"");
    compare(&run, &export, |csv| {
        run(CREATE);
        let copy = format!("{client} -c \"\\copy orders from '{}' with (format csv, header)\"", csv.display());
        ok(Command::new("sh").arg("-c").arg(copy));
    });
    // A query that fails prints nothing that could be taken for an empty table.
    let broken = export.replace("from orders", "from no_such_table");
    let redis = TestRedis::selling("1001", 50);
    redis.seckill(["reconcile", "1001", "--orders-cmd", &broken]).code(1).stdout_is("").stderr_has("no_such_table");
}

const CREATE: &str = "create table orders (activity text, id text, n integer, time text, op text, user_id text, quantity integer, stock integer, \
                      request text, by_whom text, reason text)";

/// Sells, fills a table from the ledger, and compares before and after gaps are made.
fn compare(run: &dyn Fn(&str), export: &str, fill: impl Fn(&Path)) {
    let redis = TestRedis::selling("1001", 500);
    for (user, quantity) in [("a", "2"), ("b,\"quoted\"", "1"), ("中文", "3"), ("0123", "1"), ("d", "4")] {
        redis.seckill(["deduct", "1001", "--user", user, "--quantity", quantity]).code(0);
    }
    redis.seckill(["refund", "1001", "--user", "a"]).code(0);
    let dir = TempDir::new().unwrap();
    let csv = dir.path().join("ledger.csv");
    fs::write(&csv, redis.seckill(["ledger", "1001", "-o", "csv"]).code(0).stdout).unwrap();
    for path in [dir.path(), &csv] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fill(&csv);
    let audit = |code: i32| {
        let line = "reconcile 1001 --differences -o csv --map user=buyer,ledger=entry --orders-cmd";
        let rows = redis.seckill([]).args(line.split(' ')).args([export]).code(code).stdout;
        rows.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(audit(0), [""; 0]);
    run("delete from orders where user_id = '中文'");
    run("update orders set quantity = 3 where user_id = '0123'");
    run("insert into orders (id, op, user_id, quantity) values ('9999999999999-0', 'deduct', 'ghost', 1)");
    let found = audit(7);
    let last = redis.xrange("seckill:ledger:1001").last().unwrap().0.clone();
    assert_eq!(
        found,
        [
            "1001,中文,missing_order,3,3,0,,",
            "1001,ghost,missing_purchase,0,0,1,,",
            "1001,0123,quantity_mismatch,1,1,3,,",
            &format!("1001,,lost_tail,,{last},9999999999999-0,,"),
        ]
    );
}

/// A program, from PATH or from where Debian keeps those of each version of a server.
fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let places = std::env::split_paths(&path).chain(versions.map(|version| version.path().join("bin")));
    let found = places.map(|dir| dir.join(name)).find(|file| file.is_file());
    if found.is_none() {
        skip(&format!("this machine has no {name}"));
    }
    found
}

/// Says why a test ends here. Where `make test` could install what it needs, it must not.
#[track_caller]
fn skip(why: &str) {
    let required = std::env::var("SECKILL_TEST_DATABASES").is_ok_and(|value| value == "required");
    assert!(!required, "{why}");
    eprintln!("note: skipped, because {why}");
}

#[track_caller]
fn ok(command: &mut Command) {
    let ended = command.stdin(Stdio::null()).output().expect("the tool starts");
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// A database server of its own, gone with this value.
struct Postgres {
    dir: TempDir,
    server: Child,
}

impl Postgres {
    fn start(initdb: &Path, postgres: &Path) -> Option<Self> {
        let dir = tempfile::Builder::new().prefix("sk").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let data = dir.path().join("data");
        // It does not run as root.
        let is_root = fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
        let as_user = |program: &Path| {
            let mut command = Command::new(if is_root { Path::new("setpriv") } else { program });
            if is_root {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
            }
            command.current_dir(dir.path()).stdin(Stdio::null());
            command
        };
        let made = as_user(initdb)
            .arg("-D")
            .arg(&data)
            .args(["-A", "trust", "-U", "shop", "-E", "UTF8", "--no-sync"])
            .output();
        if !made.as_ref().is_ok_and(|made| made.status.success()) {
            skip(&format!("initdb does not work here: {made:?}"));
            return None;
        }
        let mut server = as_user(postgres);
        let log = fs::File::create(dir.path().join("log")).unwrap();
        server.arg("-D").arg(&data).arg("-F").arg("-k").arg(dir.path()).args(["-h", ""]);
        let server = server.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let started = Self { dir, server };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !fs::read_to_string(started.dir().join("log")).unwrap().contains("ready to accept") {
            assert!(Instant::now() < deadline, "the database does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Some(started)
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT: ends at once, and takes its processes along.
        Command::new("kill").args(["-INT", &self.server.id().to_string()]).status().ok();
        self.server.wait().ok();
    }
}
