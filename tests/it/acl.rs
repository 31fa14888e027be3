//! The users of `docs/acl.md`: each may do what it is for, needs every right it has, and nothing else is done for it.

use std::collections::BTreeSet;
use std::fs;

use crate::support::scripts::{SCRIPTS, commands};
use crate::support::{COUPON, Call, LAYOUTS, Layout, SECKILL, SKU, TestCluster, TestRedis, read, seckill};

/// A user of the page.
struct Role {
    /// The rights of layout `seckill`, as `+get`.
    rights: Vec<String>,
    optional: Vec<String>,
    /// Rights, and the command that is refused without one of them.
    needed: Vec<(Vec<String>, String)>,
}

const ROLES: [&str; 3] = ["reader", "clerk", "operator"];

fn page() -> String {
    read("docs/acl.md")
}

/// The words of a text that are rights.
fn rights(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "`;,.".contains(c));
    words.filter(|word| word.starts_with('+')).map(|word| word.replace('\\', "")).collect()
}

/// The cells of a row of a table; a `\|` is no border.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_matches('|').replace("\\|", "\u{0}");
    inner.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

fn role(name: &'static str) -> Role {
    let page = page();
    let line = page.lines().find(|line| line.starts_with(&format!("ACL SETUSER {name} "))).unwrap();
    let section = page.split("\n## ").find(|section| section.contains(line)).unwrap();
    let optional = section.split("\nOptional: ").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `+")).map(cells);
    let needed = rows.map(|row| (rights(&row[0]), row[1].split('`').nth(1).unwrap().to_owned())).collect();
    Role { rights: rights(line), optional: rights(optional), needed }
}

/// The keys of a layout, and what a role needs there besides.
fn of_layout(layout: Layout, role: &str) -> (Vec<String>, Vec<String>) {
    let page = page();
    let row =
        page.lines().find(|line| line.starts_with("| `") && cells(line)[0].contains(&format!("`{}`", layout.name)));
    let row = cells(row.unwrap());
    let at = ROLES.iter().position(|name| *name == role).unwrap();
    let keys = row[1].split(['`', ' ']).filter(|word| word.starts_with('~')).map(str::to_owned).collect();
    (keys, rights(&row[2 + at]))
}

/// A server with a sale, and the files that the page's commands name.
struct Shop {
    redis: TestRedis,
    folder: tempfile::TempDir,
    layout: Layout,
}

impl Shop {
    fn open(layout: Layout) -> Self {
        let shop = Self { redis: TestRedis::start(), folder: tempfile::tempdir().unwrap(), layout };
        let write = |name: &str, text: &str| fs::write(shop.folder.path().join(name), text).unwrap();
        // More buyers than a page has.
        let many: String = (0..3000).map(|user| format!("2,v{user},1\n")).collect();
        for (name, rows) in [("many.csv", many.as_str()), ("refunds.csv", "1,a,1\n"), ("orders.csv", "1,c,1\n2,d,1\n")]
        {
            write(name, &format!("activity,user,quantity\n{rows}"));
        }
        fs::create_dir(shop.folder.path().join("archives")).unwrap();
        write("multi.jsonl", "{\"user\":\"m\",\"items\":{\"1\":1,\"2\":1}}\n");
        let steps = "steps:\n  - deduct: {activity: 20, user: 5}\n  - rush: {activity: 20, users: 5}\n";
        write("sale.yaml", &format!("layout: {}\nactivities:\n  - {{id: 20, stock: 50}}\n{steps}", layout.name));
        for line in [
            "preheat --id 1 --stock 100",
            "preheat --id 2 --stock 5000",
            "deduct 1 --user 7",
            "deduct 1 --user a",
            "deduct --from many.csv",
            "preheat --id 3 --stock 5",
            "deduct 3 --user 7",
            "pause 3",
        ] {
            shop.call(line).code(0);
        }
        if layout.has_users() {
            for line in [
                "hold 1 --user p --for 1h --request p",
                "hold 1 --user e --for 1h --request e",
                "release 1 --request e",
            ] {
                shop.call(line).code(0);
            }
        }
        // What another system sells.
        shop.redis.cmd(("SET", layout.stock("77"), 98));
        match layout.kind {
            "hash" => drop(shop.redis.cmd(("HSET", layout.participants("77"), "x", 2))),
            "set" | "coupon" => drop(shop.redis.cmd(("SADD", layout.participants("77"), "x", "y"))),
            _ => {}
        }
        shop.redis.cmd(("EXPIRE", layout.stock("77"), 100_000));
        shop
    }

    /// A command as the server's owner runs it.
    fn call(&self, line: &str) -> Call {
        self.redis.seckill(["-l", self.layout.name]).args(line.split(' ')).in_dir(self.folder.path())
    }

    /// Makes a user of these rights.
    fn allow(&self, role: &str, rights: &[String]) {
        let (keys, more) = of_layout(self.layout, role);
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(role).arg(&["reset", "on", ">secret"]).arg(keys).arg(rights).arg(more);
        command.exec(&mut self.redis.connection()).unwrap();
        // No user finds a script that another has loaded.
        self.redis.cmd(("SCRIPT", "FLUSH"));
    }

    /// A command as a user runs it.
    fn call_as(&self, role: &str, line: &str) -> Call {
        self.call(line).env("SECKILL_URL", &format!("{}?user={role}&pass=secret", self.redis.url()))
    }
}

const READS: [&str; 12] = [
    "inspect",
    "inspect --watch=100ms --count 2",
    "inspect 1",
    "inspect --scan",
    "inspect 1 --user 7",
    "inspect 2 --all",
    "reconcile",
    "report 1",
    "ledger 1",
    "ledger --all",
    "ledger 1 --user 7",
    "inspect 1 --holds",
];
const REFUNDS: [&str; 5] =
    ["inspect 1 --user 7", "refund 1 --user 7", "refund --from refunds.csv", "pause 1", "resume 1"];
const OPERATIONS: [&str; 27] = [
    "preheat --id 9 --stock 10",
    "preheat --id 9 --stock 10",
    "preheat --id 9 --stock 12 --update",
    "deduct 9 --user 7",
    "deduct --from orders.csv",
    "multi-deduct --user 8 1=1 9=1",
    "multi-deduct --from multi.jsonl",
    "refund 9 --user 7",
    "refund --from refunds.csv",
    "pause 1",
    "resume 1",
    "pause 1 --withdraw-stock",
    "resume 1",
    "script load",
    "ledger 1 --group loader",
    "ledger trim 1 --before 1ms --yes",
    "reconcile 1 --fix --yes",
    "preheat --id 77 --adopt --total 100 --yes",
    "preheat --id 9 --stock 3 --reset --yes",
    "hold 1 --user o --for 15m --request q",
    "confirm 1 --request q",
    "release 1 --request p",
    "expire",
    "pause 9",
    "archive 9 --to archives --yes",
    "preheat --restore archives",
    "run sale.yaml --yes",
];

/// What a role is for, in a layout.
fn lines(role: &str, layout: Layout) -> Vec<&'static str> {
    let all: Vec<&str> = match role {
        "reader" => READS.to_vec(),
        "clerk" => REFUNDS.to_vec(),
        _ => READS.into_iter().chain(OPERATIONS).collect(),
    };
    // A counter records no users.
    let is_of_users = |line: &str| {
        line.starts_with("inspect ") && line.contains("--")
            || ["hold", "confirm", "release", "expire"].contains(&line.split(' ').next().unwrap_or_default())
    };
    all.into_iter().filter(|line| layout.has_users() || !is_of_users(line)).collect()
}

#[test]
fn each_role_can_do_what_it_is_for_in_every_layout() {
    for layout in LAYOUTS {
        for name in ROLES {
            let role = role(name);
            let shop = Shop::open(layout);
            shop.allow(name, &role.rights);
            for line in lines(name, layout) {
                shop.call_as(name, line).code(0).stderr_lacks("permission").stderr_lacks("may not");
            }
        }
    }
}

#[test]
fn each_role_can_do_without_what_is_optional() {
    for name in ROLES {
        let role = role(name);
        let shop = Shop::open(SECKILL);
        let needed: Vec<String> = role.rights.iter().filter(|right| !role.optional.contains(right)).cloned().collect();
        shop.allow(name, &needed);
        for line in lines(name, SECKILL) {
            shop.call_as(name, line).code(0);
        }
        let explained: BTreeSet<&String> = role.needed.iter().flat_map(|(rights, _)| rights).collect();
        assert_eq!(explained, needed.iter().collect(), "{name}: every right is in the table, or optional");
    }
}

#[test]
fn without_any_one_right_the_command_that_the_page_names_is_refused() {
    let shop = Shop::open(SECKILL);
    if !shop.redis.scripts_can_check_permissions() {
        return;
    }
    shop.call("ledger trim 2 --before 1ms --yes").code(0);
    // A consumer has read two entries, and acknowledged the first, which may go.
    shop.redis.cmd(("XGROUP", "CREATE", SECKILL.ledger("1"), "held", "0"));
    let unread = ["XREADGROUP", "GROUP", "held", "me", "COUNT", "2", "STREAMS", &SECKILL.ledger("1"), ">"];
    shop.redis.cmd(&unread);
    shop.redis.cmd(("XACK", SECKILL.ledger("1"), "held", &shop.redis.xrange(&SECKILL.ledger("1"))[0].0));
    for name in ROLES {
        let role = role(name);
        for (rights, line) in &role.needed {
            for right in rights {
                let rest: Vec<String> = role.rights.iter().filter(|other| *other != right).cloned().collect();
                assert!(rest.len() < role.rights.len(), "{name} has no {right}");
                shop.allow(name, &rest);
                // What it was given before was not acknowledged without the right to do so.
                shop.redis.cmd(("XGROUP", "DESTROY", SECKILL.ledger("1"), "loader"));
                let refused = shop.call_as(name, line).run();
                assert_eq!(refused.status.code(), Some(4), "{name} without {right}: {line}\n{}", refused.stderr);
            }
        }
    }
}

#[test]
fn without_any_one_right_of_a_layout_of_sets_the_command_that_the_page_names_is_refused() {
    let page = page();
    let section = page.split("\n## ").find(|section| section.starts_with("Other layouts")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `+")).map(cells);
    let needed: Vec<(String, String)> =
        rows.map(|row| (rights(&row[0]).concat(), row[1].split('`').nth(1).unwrap().to_owned())).collect();
    for layout in [SKU, COUPON] {
        let shop = Shop::open(layout);
        if !shop.redis.scripts_can_check_permissions() {
            return;
        }
        for name in ROLES {
            for right in of_layout(layout, name).1 {
                let mut lines = needed.iter().filter(|(of, _)| *of == right).map(|(_, line)| line);
                shop.allow(name, &role(name).rights);
                shop.redis.cmd(&["ACL", "SETUSER", name, &right.replacen('+', "-", 1)]);
                let is_refused = |line: &String| shop.call_as(name, line).run().status.code() == Some(4);
                assert!(lines.any(is_refused), "{name} in {}: nothing is refused without {right}", layout.name);
            }
        }
    }
}

#[test]
fn what_a_role_is_not_for_is_refused_and_nothing_is_written() {
    let changes = [
        "deduct 1 --user 8",
        "deduct --from orders.csv",
        "multi-deduct --user 8 1=1",
        "multi-deduct --from multi.jsonl",
        "preheat --id 5 --stock 5",
        "preheat --id 1 --stock 200 --update",
        "preheat --id 1 --stock 100 --reset --yes",
        "preheat --id 77 --adopt --total 100 --yes",
        "ledger 1 --group loader",
        "ledger trim 1 --before 1ms --yes",
        "archive 3 --to archives --yes",
    ];
    let shop = Shop::open(SECKILL);
    let before = shop.redis.dump_all();
    for (name, more) in [
        (
            "reader",
            &["refund 1 --user 7", "refund --from refunds.csv", "pause 1", "pause 1 --withdraw-stock", "script load"][..],
        ),
        ("clerk", &["ledger 1", "reconcile 1", "inspect --scan"]),
    ] {
        shop.allow(name, &role(name).rights);
        for line in changes.iter().chain(more) {
            shop.call_as(name, line).code(4).stdout_is("").stderr_has("hint: ").stderr_lacks("secret");
        }
    }
    shop.redis.assert_unchanged_since(&before);
}

#[test]
fn an_operator_may_run_whatever_a_script_runs() {
    let operator: BTreeSet<String> = role("operator").rights.into_iter().collect();
    for kind in ["hash", "set"] {
        let layout = LAYOUTS.into_iter().find(|layout| layout.kind == kind).unwrap();
        let more = of_layout(layout, "operator").1;
        for script in SCRIPTS {
            // `adopt` counts the members of a set, or the fields of a hash.
            for command in commands(script, kind).into_iter().filter(|command| kind == "set" || command != "scard") {
                // XINFO and the like are allowed by their subcommands.
                let is_allowed =
                    |right: &String| *right == format!("+{command}") || right.starts_with(&format!("+{command}|"));
                assert!(operator.iter().chain(&more).any(is_allowed), "{script} in a {kind}: {command}");
            }
        }
    }
}

#[test]
fn a_load_test_needs_the_rights_that_the_page_adds_and_leaves_nothing() {
    let page = page();
    let section = page.split("\n## ").find(|section| section.starts_with("Load tests")).unwrap();
    let more = rights(section.lines().find(|line| line.starts_with("ACL SETUSER operator ")).unwrap());
    for layout in LAYOUTS {
        let shop = Shop::open(layout);
        let before = shop.redis.dump_all();
        let bench = |but: &str, strategies: &str| {
            let rights = role("operator").rights.into_iter().chain(more.iter().filter(|right| *right != but).cloned());
            shop.allow("operator", &rights.collect::<Vec<_>>());
            if of_layout(layout, "operator").1.iter().any(|right| right == but) {
                shop.redis.cmd(&["ACL", "SETUSER", "operator", &but.replace('+', "-")]);
            }
            let line = format!("bench --yes --users 9 --clients 2 --strategy {strategies}");
            let run = shop.call_as("operator", &line).run();
            shop.redis.assert_unchanged_since(&before);
            run
        };
        bench("", "lua,batch,watch,lock,naive").code(0);
        bench("+srem", "lua").code(4).stderr_has("nothing was changed").stderr_lacks("answered");
        bench("+del", "lua,lock").code(4).stderr_has("`lock` also `+del +pexpire`").stderr_lacks("nothing was changed");
        let of_users = if layout.kind == "hash" { "+hincrby" } else { "+sismember" };
        let refused = bench(of_users, "naive");
        let code = if layout.has_users() { 4 } else { 0 };
        refused.code(code).stderr_lacks("nothing was changed");
    }
}

#[test]
fn the_same_users_work_on_every_node_of_a_cluster() {
    let cluster = TestCluster::start(3);
    let page = page();
    let of_cluster = rights(page.split("## Clusters").nth(1).unwrap().split("without the first").next().unwrap());
    assert_eq!(of_cluster, ["+cluster|slots", "+asking", "+cluster|nodes"]);
    for name in ROLES {
        for node in cluster.nodes() {
            let mut command = redis::cmd("ACL");
            command.arg("SETUSER").arg(name).arg(&["reset", "on", ">secret", "~seckill:*"]);
            command.arg(role(name).rights).arg(&of_cluster).exec(&mut node.connection()).unwrap();
        }
    }
    let call = |name: &str, line: &str| {
        let url = cluster.url().replace("redis://", &format!("redis://{name}:secret@"));
        seckill(["-l", "cluster", "-u", &url]).args(line.split(' '))
    };
    for id in ["1", "2", "3"] {
        call("operator", &format!("preheat --id {id} --stock 10")).code(0);
        call("operator", &format!("deduct {id} --user 7")).code(0);
    }
    for line in ["script load", "inspect --scan", "reconcile", "pause 1 2 3", "resume 1 2 3"] {
        call("operator", line).code(0);
    }
    for line in ["inspect", "inspect --scan", "inspect 1 2 3", "reconcile", "ledger --all"] {
        call("reader", line).code(0);
    }
    call("clerk", "refund 2 --user 7").code(0);
    // Units move between shards, and an order is over the slots of all.
    let sale = "layout: cluster\nactivities:\n  - {id: 5, stock: 8, shards: 4}\n";
    call("operator", "preheat -").stdin(sale).code(0);
    call("operator", "multi-deduct --user 6 1=1 2=1 3=1 5=3").code(0);
    for line in
        ["deduct 5 --user 7 --quantity 3", "hold 5 --user 8 --for 1h --request h", "confirm 5 --user 8 --request h"]
    {
        call("operator", line).code(0);
    }
    for line in ["inspect 5", "inspect 5 --shards", "inspect 5 --user 7", "reconcile 5", "ledger 5", "report 5"] {
        call("reader", line).code(0).stderr_lacks("permission").stderr_lacks("may not");
    }
    call("clerk", "refund 5 --user 7").code(0);
    for line in ["pause 5", "resume 5", "expire", "reconcile --fix --yes"] {
        call("operator", line).code(0);
    }
    // While a slot is moving, what is there already is asked for behind ASKING.
    let (slot, from) = (cluster.slot_of("1"), cluster.owner_of("1"));
    let to = (from + 1) % 3;
    // No key is absent.
    call("operator", "deduct 1 --user 9 --request r1").code(0);
    cluster.begin_move(slot, to);
    cluster.move_keys(slot, from, to, usize::MAX);
    let lines = [("reader", "inspect 1"), ("clerk", "refund 1 --user 7"), ("operator", "deduct 1 --user 8")];
    for (name, line) in lines {
        cluster.node(to).cmd(&["ACL", "SETUSER", name, "-asking"]);
        call(name, line).code(4).stdout_is("").stderr_has("asking");
        cluster.node(to).cmd(&["ACL", "SETUSER", name, "+asking"]);
        call(name, line).code(0);
    }
    let orders = "activity,user\n1,5\n";
    cluster.node(to).cmd(&["ACL", "SETUSER", "operator", "-asking"]);
    call("operator", "deduct --from - --job j").stdin(orders).code(4).stderr_has("asking");
    cluster.node(to).cmd(&["ACL", "SETUSER", "operator", "+asking"]);
    call("operator", "deduct --from - --job j").stdin(orders).code(0);
    cluster.end_move(slot, from, to);
    // One node would know a part of what another system sells.
    for node in cluster.nodes() {
        node.cmd(&["ACL", "SETUSER", "reader", "-cluster"]);
    }
    let one = cluster.node(0).url().replace("redis://", "redis://reader:secret@");
    call("reader", "inspect --scan").code(4).stdout_is("").stderr_has("cluster");
    seckill(["-l", "cluster", "-u", &one, "inspect", "--scan"]).code(4).stdout_is("").stderr_has("cluster");
    for line in ["deduct 3 --user 8", "preheat --id 4 --stock 1"] {
        call("clerk", line).code(4);
        call("reader", line).code(4);
    }
}
