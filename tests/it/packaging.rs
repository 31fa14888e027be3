//! What builds images and releases elsewhere names only what is there: nobody runs it before it is needed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{binary, files_below, read, root};

fn workflow(name: &str) -> Value {
    let text = read(format!(".github/workflows/{name}"));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The commands of all jobs, a line each.
fn commands(workflow: &Value) -> Vec<String> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
    let lines = steps.filter_map(|step| step["run"].as_str()).flat_map(str::lines);
    lines.map(str::to_owned).collect()
}

#[test]
fn workflows_run_scripts_and_targets_that_exist() {
    let makefile = read("Makefile");
    let mut used = BTreeSet::new();
    for name in ["ci.yml", "release.yml"] {
        for line in commands(&workflow(name)) {
            let line = line.trim().replace("../../scripts/", "scripts/");
            if let Some(target) = line.strip_prefix("make ") {
                assert!(makefile.contains(&format!("\n{target}:")), "{name}: {line}");
                used.insert(target.to_owned());
            }
            for word in line.split(|c: char| c.is_whitespace() || "\"$()|".contains(c)) {
                if word.starts_with("scripts/") {
                    assert!(root().join(word).is_file(), "{name}: {line}");
                }
            }
        }
    }
    let expected = ["deps", "dist", "lint", "msrv", "packages", "test", "test-all"];
    assert!(expected.iter().all(|target| used.contains(*target)), "{used:?}");
}

#[test]
fn the_job_of_all_servers_wants_each_of_them() {
    let ci = workflow("ci.yml");
    let steps = ci["jobs"]["test-all"]["steps"].as_array().unwrap();
    let install =
        steps.iter().find_map(|step| step["run"].as_str().filter(|run| run.contains("scripts/servers"))).unwrap();
    let script = read("scripts/servers");
    let all = script.lines().find_map(|line| line.trim().strip_prefix("names=(")?.strip_suffix(")")).unwrap();
    let count = all.split(' ').count();
    assert!(install.ends_with(&format!("= {count}")), "{install}: {all}");
}

#[test]
fn a_release_has_its_sums_and_each_job_writes_only_what_it_publishes() {
    let release = workflow("release.yml");
    assert!(commands(&release).iter().any(|line| line.contains("sha256sum") && line.contains("SHA256SUMS")));
    for name in ["ci.yml", "release.yml"] {
        let all = workflow(name);
        assert_eq!(all["permissions"], serde_json::json!({"contents": "read"}), "{name}");
        for (job, content) in all["jobs"].as_object().unwrap() {
            let may_write = match job.as_str() {
                "release" => "contents id-token attestations",
                "image" | "image-of-both" => "packages",
                _ => "",
            };
            let permissions = content["permissions"].as_object().into_iter().flatten();
            for (permission, _) in permissions.filter(|(_, right)| *right == "write") {
                assert!(may_write.split(' ').any(|it| it == permission), "{name}: {job}: {permission}");
            }
        }
    }
    assert_eq!(release["jobs"]["release"]["needs"], "build");
}

#[test]
fn the_image_is_built_from_all_that_cargo_names() {
    let ignore = read(".dockerignore");
    let sent: Vec<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    let manifest = read("Cargo.toml");
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
    for path in
        paths.chain(["Cargo.toml", "Cargo.lock", "build.rs", "lua/deduct.lua", "scripts/build", "scripts/names.rs"])
    {
        let is_sent = sent.iter().any(|sent| path == *sent || path.starts_with(&format!("{sent}/")));
        assert!(is_sent && root().join(path).is_file(), "{path}");
    }
    let dockerfile = read("Dockerfile");
    let last: Vec<&str> = dockerfile.split("\nFROM ").last().unwrap().lines().collect();
    assert_eq!(last[0], "scratch");
    assert!(last.contains(&"USER 65532:65532") && last.contains(&r#"ENTRYPOINT ["/seckill"]"#), "{last:?}");
}

/// Installs the binary below a folder.
#[track_caller]
fn install(folder: &Path, prefix: &str) {
    let mut command = Command::new(root().join("scripts/install"));
    let output = command.arg(binary()).env("DESTDIR", folder).env("PREFIX", prefix).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Paths that a unit names.
fn paths_of(unit: &str) -> Vec<String> {
    let starts = ["ExecStart=", "EnvironmentFile=-", "Documentation=file://"];
    let path = |line: &str| starts.iter().find_map(|start| line.strip_prefix(start)).map(str::to_owned);
    unit.lines().filter_map(path).map(|rest| rest.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn what_units_name_is_installed_with_them() {
    for (prefix, settings) in [("/usr", "/etc"), ("/usr/local", "/etc"), ("/opt/seckill", "/opt/seckill/etc")] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        install(folder.path(), prefix);
        for unit in ["seckill-metrics", "seckill-audit"] {
            let units = format!("{root}{prefix}/lib/systemd/system");
            let text = fs::read_to_string(format!("{units}/{unit}.service")).unwrap();
            let paths = paths_of(&text);
            assert_eq!(paths.len(), 3, "{text}");
            for path in paths {
                assert!(Path::new(&format!("{root}{path}")).is_file(), "{unit}, prefix {prefix}: {path}");
            }
            assert!(Path::new(&format!("{units}/{unit}.timer")).is_file());
        }
        // It may have a password, and what the owner wrote stays.
        let settings = format!("{root}{settings}/seckill/metrics.env");
        assert_eq!(fs::metadata(&settings).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&settings, "SECKILL_URL=redis://mine").unwrap();
        install(folder.path(), prefix);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "SECKILL_URL=redis://mine");
    }
}

/// The lines of a table of Cargo.toml.
fn table(name: &str) -> String {
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once(&format!("\n[{name}]\n")).unwrap();
    rest.split("\n[").next().unwrap().to_owned()
}

#[test]
fn both_packages_have_all_that_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "/usr");
    let relative = |file: PathBuf| file.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
    let installed: BTreeSet<String> = files_below(folder.path()).into_iter().map(relative).collect();
    assert!(installed.contains("usr/bin/seckill") && installed.contains("etc/seckill/metrics.env"), "{installed:?}");
    for name in ["package.metadata.deb", "package.metadata.generate-rpm"] {
        let table = table(name);
        let sources: Vec<&str> =
            table.split("\"target/installed/").skip(1).map(|it| it.split('"').next().unwrap()).collect();
        for file in &installed {
            let is_packed = |source: &&str| match source.split_once('*') {
                Some((folder, _)) => file.starts_with(folder),
                None => file == source,
            };
            assert!(sources.iter().any(is_packed), "{name}: {file}");
        }
        for path in table.split("\"scripts/").skip(1).map(|it| it.split('"').next().unwrap()) {
            assert!(root().join("scripts").join(path).exists(), "{name}: {path}");
        }
    }
}

#[test]
fn the_formula_has_the_tarball_and_the_sum_of_each_platform() {
    let folder = tempfile::tempdir().unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let platforms = ["darwin-aarch64", "darwin-x86_64", "linux-aarch64", "linux-x86_64"];
    let line = |(at, platform)| format!("{at:064}  seckill-{version}-{platform}.tar.gz\n");
    fs::create_dir(folder.path().join("dist")).unwrap();
    fs::write(folder.path().join("dist/SHA256SUMS"), platforms.into_iter().enumerate().map(line).collect::<String>())
        .unwrap();
    let mut command = Command::new(root().join("scripts/dist"));
    let output = command.args(["formula", "https://example.com/shop"]).env("CARGO_TARGET_DIR", folder.path()).output();
    let formula = String::from_utf8(output.unwrap().stdout).unwrap();
    for (at, platform) in platforms.into_iter().enumerate() {
        let file = format!("seckill-{version}-{platform}.tar.gz");
        let pair =
            format!("url \"https://example.com/shop/releases/download/v{version}/{file}\"\n      sha256 \"{at:064}\"");
        assert!(formula.contains(&pair), "{platform}: {formula}");
    }
    assert!(formula.ends_with("\nend\n"), "{formula}");
}

#[test]
fn cargo_binstall_looks_for_the_tarballs_of_make_dist() {
    let dist = read("scripts/dist");
    assert!(dist.contains("\nname=seckill-$version-$platform\n") && dist.contains("$to/$name.tar.gz"));
    let name = "{ name }-{ version }-{ target-family }-{ target-arch }";
    let table = table("package.metadata.binstall");
    assert!(table.contains(&format!("/releases/download/v{{ version }}/{name}.tar.gz\"")), "{table}");
    assert!(table.contains(&format!("bin-dir = \"{name}/{{ bin }}\"")), "{table}");
}
