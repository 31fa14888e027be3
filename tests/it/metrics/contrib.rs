//! The alert rules and the units of `contrib/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{metrics, promtool, run};
use crate::support::{TestRedis, binary, follow};

fn contrib(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(path)
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [
        contrib("prometheus/seckill.rules.yml"),
        contrib("prometheus/seckill.test.yml"),
        root.join("docs/monitoring.md"),
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
    for line in printed.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = line.split(' ').next().unwrap();
        let page = fs::read_to_string(root.join("docs/monitoring.md")).unwrap();
        assert!(page.contains(&format!("`{name}`")), "docs/monitoring.md has no {name}");
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
