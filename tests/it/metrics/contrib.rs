//! The alert rules and the units of `contrib/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{metrics, promtool, run};
use crate::support::{TestRedis, binary, follow, root, table_rows};

fn contrib(path: &str) -> PathBuf {
    root().join("contrib").join(path)
}

#[test]
fn alert_rules_are_valid_and_fire_as_their_tests_say() {
    let Some(promtool) = promtool() else { return };
    for (command, file) in [("check", "prometheus/seckill.rules.yml"), ("test", "prometheus/seckill.test.yml")] {
        let ended = run(&promtool, &[command, "rules", contrib(file).to_str().unwrap()], "");
        let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(ended.status.success() && out.contains("SUCCESS"), "{file}: {out}{err}");
    }
}

#[test]
fn every_metric_of_rules_and_documents_is_printed() {
    let primary = TestRedis::with_tcp(["--repl-diskless-sync-delay", "0"]);
    let replica = TestRedis::start();
    follow(&replica, &primary);
    let window = ["--starts-at", "2001-01-01", "--ends-at", "2100-01-01", "--per-user-limit", "2"];
    primary.seckill(["preheat", "--id", "1", "--stock", "5"]).args(window).code(0);
    primary.cmd(("XGROUP", "CREATE", "seckill:ledger:1", "db", "0"));
    let sharded = "layout: cluster\nactivities: [{id: 2, stock: 5, shards: 2}]";
    primary.seckill(["preheat", "-"]).stdin(sharded).code(0);
    let mut printed = metrics(&primary, &["inspect", "-l", "cluster"], 0);
    crate::support::wait_until("the replica has acknowledged", || {
        metrics(&primary, &["inspect"], 0).contains("seckill_replica_lag_bytes")
    });
    for command in ["inspect", "reconcile"] {
        printed += &metrics(&primary, &[command], 0);
    }
    for file in [
        contrib("prometheus/seckill.rules.yml"),
        contrib("prometheus/seckill.test.yml"),
        root().join("docs/monitoring.md"),
    ] {
        let text = fs::read_to_string(&file).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("seckill_")) {
            // Redis 6.2 knows neither a group's lag nor durations.
            let needs_7 = name == "seckill_group_lag_entries" || name.starts_with("seckill_script_duration_seconds");
            let is_printed = printed.contains(&format!("\n{name}{{")) || printed.contains(&format!("# TYPE {name} "));
            assert!(is_printed || (needs_7 && primary.version() < (7, 0, 0)), "{}: {name}", file.display());
        }
    }
    let documented: BTreeMap<String, String> = table_rows("docs/monitoring.md", "metric | labels")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    for family in printed.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = family.split(' ').next().unwrap();
        let of_family = |line: &&str| line.starts_with(name) && !line.starts_with('#');
        let labels: BTreeSet<&str> = printed.lines().filter(of_family).flat_map(labels).collect();
        let others = ["server", "layout"];
        let said: BTreeSet<&str> =
            documented[name].split(", ").chain(others).filter(|label| !label.is_empty()).collect();
        assert_eq!(said, labels, "{name}");
    }
}

/// The names of a sample's labels.
fn labels(sample: &str) -> Vec<&str> {
    let Some((_, labels)) = sample.split_once('{') else { return Vec::new() };
    let is_label = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    labels.split("=\"").filter_map(|part| part.rsplit(['"', ',', '{']).next()).filter(is_label).collect()
}

/// The number that an expression compares with, as documents may say it.
fn limits(expression: &str) -> Vec<String> {
    let compared = expression.split(['<', '>']).skip(1).map(|rest| rest.trim().split([' ', ')']).next().unwrap());
    let Some(limit) = compared.filter_map(|number| number.parse::<f64>().ok()).last() else { return Vec::new() };
    let forms = [(1.0, ""), (1.0, " s"), (60.0, " min"), (0.01, " %"), (0.001, " ms"), (1e6, " MB")];
    forms.iter().map(|(unit, name)| format!(" {}{name}", (limit / unit * 1e6).round() / 1e6)).collect()
}

#[test]
fn the_documents_have_each_alert_with_its_severity_limit_and_duration() {
    let rules = fs::read_to_string(contrib("prometheus/seckill.rules.yml")).unwrap();
    let field = |rule: &str, name: &str| {
        let found = rule.lines().find_map(|line| line.trim().strip_prefix(name));
        found.unwrap_or_default().trim().to_owned()
    };
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    let all = rules.iter().map(|rule| {
        let severity = field(rule, "labels: {severity:").replace('}', "");
        [rule.lines().next().unwrap().to_owned(), severity, field(rule, "for:").replace('m', " min")]
    });
    let mut all: Vec<[String; 3]> = all.collect();
    all.sort();
    for (page, columns) in
        [("docs/monitoring.md", "alert | severity | if | for"), ("docs/zh/monitoring.md", "告警 | 级别 | 条件 | 持续")]
    {
        let rows = table_rows(page, columns);
        let mut said: Vec<[String; 3]> = rows.iter().map(|row| [0, 1, 3].map(|cell| row[cell].clone())).collect();
        said.sort();
        assert_eq!(said, all, "{page}");
        for rule in &rules {
            let (name, severity) = (rule.lines().next().unwrap(), field(rule, "labels: {severity:").replace('}', ""));
            let row = rows.iter().find(|row| row[0] == name && row[1] == severity).unwrap();
            let limits = limits(&field(rule, "expr:"));
            let condition = format!(" {}", row[2]);
            assert!(limits.is_empty() || limits.iter().any(|limit| condition.contains(&**limit)), "{page}: {row:?}");
        }
    }
}

#[test]
fn systemd_accepts_the_units_and_runs_commands_that_exist() {
    let redis = TestRedis::start();
    let dir = tempfile::tempdir().unwrap();
    for name in ["seckill-metrics", "seckill-audit"] {
        let service = fs::read_to_string(contrib(&format!("systemd/{name}.service"))).unwrap();
        let line = service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/seckill ")).unwrap();
        // The very command line, to another directory.
        let target = dir.path().join("x.prom").display().to_string();
        let words: Vec<String> = line
            .split(' ')
            .map(|word| if word.starts_with("/var/lib/") { target.clone() } else { word.to_owned() })
            .collect();
        let code = if name == "seckill-audit" { 3 } else { 0 };
        redis.seckill([]).args(&words).code(code);
        assert!(fs::read_to_string(&target).unwrap().contains("seckill_up{"));
        let binary = std::env::current_dir().unwrap().join(binary()).display().to_string();
        let unit = dir.path().join(format!("{name}.service"));
        fs::write(&unit, service.replace("/usr/local/bin/seckill", &binary)).unwrap();
        fs::copy(contrib(&format!("systemd/{name}.timer")), dir.path().join(format!("{name}.timer"))).unwrap();
        let verified = Command::new("systemd-analyze")
            .arg("verify")
            .arg("--man=no")
            .arg(dir.path().join(format!("{name}.timer")))
            .output();
        let Ok(verified) = verified else { continue };
        let said = String::from_utf8_lossy(&verified.stderr);
        // What it says of other units of this machine is not ours.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
        assert!(ours.is_empty(), "{ours:#?}");
    }
}
