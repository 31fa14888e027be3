//! What people read, whole: the help of every command, and the main tables at a fixed width.
//!
//! `SNAPSHOTS=overwrite cargo test --test it snapshots` writes them anew; read the difference before it is committed.

use std::process::{Command, Stdio};

use anstyle_svg::{Term, WIN10_CONSOLE};

use crate::support::transcript::is_text_as_stored;
use crate::support::{TestRedis, root, seckill};

#[track_caller]
pub fn is_as_stored(name: &str, text: &str) {
    is_text_as_stored(&root().join("tests/it/snapshots").join(name), text);
}

/// The commands of the help that begins with a list of them, in groups or not; without `help`.
fn commands(help: &str) -> Vec<String> {
    let lists = ["Activities:", "Orders:", "Audit:", "Other:", "Commands:"];
    let paragraphs = help.split("\n\n").filter(|paragraph| lists.iter().any(|list| paragraph.starts_with(list)));
    let names = paragraphs.flat_map(|paragraph| {
        let lines = paragraph.lines().skip(1).filter(|line| !line.starts_with("   "));
        lines.map(|line| line.split_whitespace().next().unwrap().to_owned())
    });
    names.filter(|name| name != "help").collect()
}

/// Every command, and every command below it.
fn every_command() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for command in commands(&seckill(["--help"]).code(0).stderr("").stdout) {
        all.push(vec![command.clone()]);
        for below in commands(&seckill([&*command, "--help"]).code(0).stderr("").stdout) {
            all.push(vec![command.clone(), below]);
        }
    }
    all
}

#[test]
fn the_help_of_every_command() {
    is_as_stored("help.txt", &seckill(["--help"]).code(0).stdout);
    is_as_stored("help_short.txt", &seckill(["-h"]).code(0).stdout);
    let all = every_command();
    assert!(all.len() > 12, "{all:?}");
    for command in all {
        let help = seckill([]).args(&command).args(["--help"]).code(0).stderr("").stdout;
        is_as_stored(&format!("help_{}.txt", command.join("_")), &help);
        let long = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{command:?}: a line of `--help` is longer than 100");
        let same = seckill(["help"]).args(&command).code(0).stderr("").stdout;
        assert_eq!(help, same, "`seckill help {}` is its `--help`", command.join(" "));
    }
}

/// What a shell runs if the examples are pasted: one line for each command.
fn pasted(examples: &str) -> String {
    let call = r#"source() { :; }; seckill() { printf 'seckill%s\n' "$(printf ' <%s>' "$@")"; } >&2"#;
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{call}\n{examples}")]).current_dir(folder.path()).stdin(Stdio::null());
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{examples}\n{ran:?}");
    String::from_utf8(ran.stderr).unwrap()
}

#[test]
fn examples_can_be_pasted_from_a_terminal_of_80_columns() {
    for command in [vec![]].into_iter().chain(every_command()) {
        let help = |columns| seckill([]).args(&command).args(["--help"]).env("COLUMNS", columns).code(0).stdout;
        let examples = |help: String| help.split_once("\nExamples:\n").map(|(_, rest)| rest.to_owned());
        let shown = examples(help("80")).unwrap_or_else(|| panic!("{command:?} has no examples"));
        let shown = shown.split("\n\n").next().unwrap();
        let long = shown.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{command:?}");
        let ran = pasted(shown);
        assert!(ran.lines().all(|line| line.starts_with("seckill <")), "{command:?}: {ran}");
        let calls = shown.lines().filter(|line| line.starts_with("  seckill ") || line.contains("<(seckill "));
        assert_eq!(ran.lines().count(), calls.count(), "{command:?}: {ran}");
    }
}

/// In `-h`, and for the global options in `--help`, an option has one line of at most 80 columns.
#[test]
fn the_short_help_has_a_line_for_each_option() {
    for command in [vec![]].into_iter().chain(every_command()) {
        let help = seckill([]).env("COLUMNS", "80").args(&command).args(["-h"]).code(0).stdout;
        let (mut lines, mut are_options) = (0, false);
        for line in help.lines() {
            if let Some(heading) = line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
                are_options = !["Arguments", "Commands"].contains(&heading);
                continue;
            }
            assert!(line.chars().count() <= 80, "{command:?}: too long: {line}");
            let is_broken =
                line.strip_prefix("  ").is_some_and(|text| !text.starts_with([' ', '-']) && !text.contains("  "));
            assert!(!is_broken || !command.is_empty(), "a command has one line: {line}");
            if are_options && line.starts_with(' ') {
                lines += 1;
                assert!(
                    !line.starts_with("       "),
                    "{command:?}: `-h` has one line per option; shorten the first line of its doc comment, and put the rest \
                     behind an empty line: {line}"
                );
            }
        }
        assert!(lines >= 9, "{command:?}: the global options are listed\n{help}");
        let long = seckill([]).env("COLUMNS", "80").args(&command).args(["--help"]).code(0).stdout;
        let globals = help.split("Global options:\n").nth(1);
        assert!(globals.is_none_or(|globals| long.contains(globals)), "{command:?}: the same lines in `--help`");
        assert!(long.contains("\nExamples:\n"), "{command:?}");
        assert!(long.split("Global options:\n").nth(1).is_none_or(|end| end.lines().all(|line| line.len() <= 80)));
    }
}

const FIXTURE: &str = "
activities:
  - {id: 1001, title: Double-11 phone, stock: 50, per_user_limit: 2}
  - {id: 1002, title: 双11 手机壳 📱 限量版, stock: 8}
  - {id: later, title: Upcoming, stock: 1000000, starts_at: 2200-11-11T00:00:00+08:00}
  - {id: over, stock: 5, ends_at: 2001-01-01T00:00:00Z}
  - {id: paused, stock: 5}
";

/// A sale night whose tables say the same at every run.
fn sale() -> TestRedis {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "-"]).stdin(FIXTURE).code(0);
    for line in [
        "deduct 1001 --user 12345 --quantity 2",
        "deduct 1001 --user 7",
        "deduct 1002 --user 用户甲 --quantity 6",
        "deduct 1002 --user 👑queen --quantity 2",
        "pause paused",
    ] {
        redis.seckill([]).args(line.split(' ')).code(0);
    }
    redis
}

/// The call, what it printed and how it ended, in a terminal of that many columns.
fn session(redis: &TestRedis, columns: &str, lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let outcome = redis.seckill([]).env("COLUMNS", columns).args(line.split(' ')).run();
        text += &format!("$ seckill {line}\n{}{}", outcome.stdout, outcome.stderr);
        text += &format!("exit {}\n\n", outcome.status.code().unwrap());
    }
    text
}

#[test]
fn the_tables_of_a_sale() {
    let redis = sale();
    for columns in ["100", "60"] {
        let text = session(
            &redis,
            columns,
            &["inspect", "inspect 1001", "inspect 1002", "inspect 1001 --user 7 --user 8", "inspect gone"],
        );
        is_as_stored(&format!("inspect_{columns}.txt"), &text);
    }
    let lines = [
        "deduct 1001 --user 7 --request r1",
        "deduct 1001 --user 7 --request r1",
        "deduct 1001 --user 7 --request r2",
        "deduct paused --user 7 --request r3",
        "multi-deduct --user 8 1001=1 1002=1 --request r4",
        "multi-deduct --user 8 1001=1 paused=1 gone=1 --request r5",
        "refund 1001 --user 7 --all --request r6",
        "refund 1001 --user 7 --request r7",
        "preheat --id 1001 --stock 60",
        "preheat --id 1001 --stock 60 --update",
        "pause 1001 gone",
        "resume 1001",
    ];
    is_as_stored("orders.txt", &session(&redis, "100", &lines));
    is_as_stored("reconcile.txt", &session(&redis, "100", &["reconcile", "reconcile 1001 gone"]));
}

#[test]
fn every_format_of_an_order_and_of_a_list() {
    let redis = sale();
    let mut lines = Vec::new();
    for format in ["json", "jsonl", "csv", "tsv", "yaml"] {
        lines.extend([
            format!("deduct 1001 --user 7 --request r-{format} --dry-run -q -o {format}"),
            format!("multi-deduct --user 8 1001=1 over=1 --request m-{format} -q -o {format}"),
            format!("inspect -o {format}"),
            format!("inspect 1001 -o {format}"),
        ]);
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    is_as_stored("formats.txt", &session(&redis, "100", &lines));
}

#[test]
fn a_run_of_a_fixture() {
    let redis = TestRedis::start();
    is_as_stored("run.txt", &session(&redis, "100", &["run fixtures/seckill.yaml"]));
}

/// The picture at the top of the README: a terminal of this very binary, so that it never shows what is not so.
#[test]
fn the_picture_of_the_readme() {
    let redis = TestRedis::start();
    redis.seckill(["preheat", "-"]).stdin(NIGHT).code(0);
    let mut orders = String::from("activity,user,quantity\n");
    for (activity, buyers) in [("phone", 100), ("earbuds", 412), ("case", 211), ("hotpot", 37)] {
        (1..=buyers).for_each(|user| orders += &format!("{activity},u{user:03},1\n"));
    }
    redis.seckill(["deduct", "--from", "-"]).stdin(&orders).code(0);
    redis.seckill(["pause", "case", "--reason", "wrong price"]).code(0);
    // The database lost one order, and has one that Redis never decided.
    let records = orders.replace("phone,u042,1\n", "").replace("hotpot,u037,1\n", "hotpot,u037,1\nhotpot,u900,2\n");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("db.csv"), records).unwrap();
    let mut text = String::new();
    for line in ["inspect", "deduct phone --user u777 --request r-1", "reconcile --orders db.csv"] {
        let call = redis.seckill([]).args(line.split(' ')).env("COLUMNS", "100").in_dir(directory.path());
        let outcome = call.args(["--color", "always"]).run();
        // Every test has another socket.
        let stderr = outcome.stderr.replace(&redis.url(), "redis://10.0.0.5:6379");
        text += &format!("\x1b[1m$ seckill {line}\x1b[0m\n{}{stderr}\n", outcome.stdout);
    }
    let picture = Term::new().palette(WIN10_CONSOLE).render_svg(text.trim_end());
    is_as_stored("../../../docs/sale.svg", &picture);
}

const NIGHT: &str = "
activities:
  - {id: phone, title: Double-11 phone, stock: 100, per_user_limit: 1}
  - {id: earbuds, title: Earbuds, stock: 500, per_user_limit: 2}
  - {id: case, title: 'Phone case, gift', stock: 300, per_user_limit: 1}
  - {id: hotpot, title: New year hotpot, stock: 80}
";
