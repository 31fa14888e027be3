//! At home in a shell: completions, manual pages, what `--version` says, and where all of it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{LAYOUTS, TestRedis, binary, seckill};

/// Whether a program of the system is there.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs a program that finds the binary under test by its name.
fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let folder = Path::new(&binary()).parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", path).env("HOME", "/nonexistent");
    command.envs(variables.iter().copied()).output().unwrap()
}

/// What bash offers for a line, whose last word is being typed. It parts words at `:` and `=`.
fn offered(line: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let words = line.replace(':', " : ").replace('=', " = ");
    let script = format!(
        "source <(seckill completions bash)\nCOMP_LINE=\"{line}\"\nCOMP_WORDS=({words})\nCOMP_TYPE=9\n\
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n$(complete -p seckill | sed 's/.*-F \\([^ ]*\\).*/\\1/') seckill \
         \"${{COMP_WORDS[COMP_CWORD]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = run("bash", &["--norc", "-c", &script], variables);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .filter(|word| !word.is_empty() && !word.starts_with('-'))
        .collect()
}

/// A busy machine may need another try: if the server takes too long to answer, a tab offers nothing.
#[track_caller]
fn assert_offered(line: &str, variables: &[(&str, &str)], words: &[&str]) {
    let mut all = offered(line, variables);
    for _ in 0..20 {
        if !all.is_empty() || words.is_empty() {
            break;
        }
        all = offered(line, variables);
    }
    assert_eq!(all, words, "{line}");
}

/// What a shell prints for a line; as [`assert_offered`], with more tries.
fn printed(shell: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let try_once = |_| {
        let output = run(shell, arguments, variables);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    (0..20).map(try_once).find(|text| !text.trim().is_empty()).unwrap_or_default()
}

#[test]
fn a_tab_completes_commands_options_and_what_the_server_has() {
    let redis = TestRedis::start();
    for (id, layout) in [("1001", "seckill"), ("1002", "seckill"), ("sku-7", "sku")] {
        redis.seckill(["preheat", "--id", id, "--stock", "5", "--layout", layout]).code(0);
    }
    let home = tempfile::tempdir().unwrap();
    let (home, url) = (home.path().to_str().unwrap(), redis.url());
    let context = |name: &str, url: &str| {
        seckill(["context", "add", name, "-u", url, "-l", "sku"]).env("XDG_CONFIG_HOME", home).code(0);
    };
    context("sale", &url);
    context("staging", "unix:///nonexistent/s");
    let env = [("SECKILL_URL", url.as_str()), ("XDG_CONFIG_HOME", home)];
    for (line, words) in [
        ("seckill ins", &["inspect"][..]),
        ("seckill ledger tr", &["trim"]),
        ("seckill inspect 10", &["1001", "1002"]),
        ("seckill inspect 1001 1", &["1001", "1002"]),
        ("seckill deduct ''", &["1001", "1002"]),
        ("seckill preheat --activity ''", &["1001", "1002"]),
        ("seckill multi-deduct --user 7 10", &["1001=", "1002="]),
        ("seckill ledger trim ''", &["1001", "1002"]),
        ("seckill -l sku pause ''", &["sku-7"]),
        ("seckill --context sale inspect s", &["sku-7"]),
        ("seckill --context s", &["sale", "staging"]),
        ("seckill context use s", &["sale", "staging"]),
        ("seckill inspect --layout c", &["coupon", "cluster"]),
        ("seckill completions z", &["zsh"]),
        ("seckill inspect --output=js", &["json", "jsonl"]),
        ("seckill pause 1001 --confirm s", &["sale", "staging"]),
        ("seckill preheat --id 10", &["1001", "1002"]),
        ("seckill inspect --state live,pa", &["live,paused"]),
        ("seckill script show mul", &["multi_deduct", "multi_deduct_file"]),
        ("seckill script show --drop-in co", &["coupon"]),
        ("seckill man rec", &["reconcile"]),
        // Files and directories, from where the shell is.
        ("seckill preheat fix", &["fixtures/"]),
        ("seckill preheat fixtures/hol", &["fixtures/holds.yaml"]),
        ("seckill run fixtures/hol", &["fixtures/holds.yaml"]),
        ("seckill deduct --from README", &["README.md", "README.zh-CN.md"]),
        ("seckill reconcile --orders README.z", &["README.zh-CN.md"]),
        ("seckill repair README.z", &["README.zh-CN.md"]),
        ("seckill report 1001 --svg README.z", &["README.zh-CN.md"]),
        ("seckill inspect --password-file README.z", &["README.zh-CN.md"]),
        ("seckill archive 1001 --to fix", &["fixtures/"]),
        ("seckill archive 1001 --to README", &[]),
        ("seckill inspect --layout layouts/st", &["layouts/stock.yaml"]),
        // Nothing, and nothing is said.
        ("seckill inspect -u unix:///nonexistent/s ''", &[]),
        ("seckill inspect -u 'no url' ''", &[]),
        ("seckill inspect --context staging ''", &[]),
        ("seckill inspect --context other ''", &[]),
        ("seckill inspect --embedded ''", &[]),
        ("seckill inspect 1001 --user ''", &[]),
    ] {
        assert_offered(line, &env, words);
    }
    assert_offered("seckill inspect ''", &[("XDG_CONFIG_HOME", home), ("SECKILL_CONTEXT", "sale")], &["sku-7"]);
    assert_offered(&format!("seckill -u {url} pause 10"), &[("XDG_CONFIG_HOME", home)], &["1001", "1002"]);
    // What a shell would act on is quoted.
    for (id, quoted) in [("q$(id)", "q\\$\\(id\\)"), ("r&id", "r\\&id"), ("s'1", "s\\'1")] {
        redis.seckill(["preheat", "--stock", "1", "--id", id]).code(0);
        assert_offered(&format!("seckill inspect {}", &id[..1]), &env, &[quoted]);
    }
    // A server that is stopped does not stop who types, and no password command asks them anything.
    redis.freeze();
    assert!(offered("seckill inspect ''", &env).is_empty());
    redis.thaw();
    let ran = Path::new(home).join("ran");
    let command = format!("touch {}", ran.display());
    let add = seckill(["context", "add", "asks", "-u", &url, "--password-command", &command]);
    add.env("XDG_CONFIG_HOME", home).code(0);
    assert!(offered("seckill inspect --context asks ''", &env).is_empty() && !ran.exists());
}

/// Whether a shell is there; it must be if `SECKILL_TEST_CLIENTS`, a list by `scripts/clients`, has it.
fn has_shell(shell: &str) -> bool {
    let list = std::env::var("SECKILL_TEST_CLIENTS").unwrap_or_default();
    let is_there = has(shell);
    assert!(is_there || !list.lines().any(|line| line == shell), "{shell} does not run");
    is_there
}

#[test]
fn zsh_and_fish_complete_too() {
    let redis = TestRedis::selling("1001", 5);
    let url = redis.url();
    // Where fish makes folders of its own.
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let env = [("SECKILL_URL", url.as_str()), ("HOME", home), ("XDG_CONFIG_HOME", home), ("TERM", "dumb")];
    for shell in ["bash", "zsh", "fish"] {
        let script = seckill(["completions", shell]).code(0).stderr("").stdout;
        assert!(script.contains("SECKILL_COMPLETE") && !script.contains("target/"), "{shell}: {script}");
    }
    if has_shell("fish") {
        let line = "seckill completions fish | source; complete -C 'seckill inspect 10'";
        assert_eq!(printed("fish", &["--no-config", "-c", line], &env).trim(), "1001");
        let line = "seckill completions fish | source; complete -C 'seckill preheat fixtures/hol'";
        assert_eq!(printed("fish", &["--no-config", "-c", line], &env).trim(), "fixtures/holds.yaml");
    }
    if has_shell("zsh") {
        // What the script does with the answer needs a terminal: here, that it is read and asks for the right thing.
        let line = "autoload -U compinit && compinit -D -u -C; source <(seckill completions zsh); \
                    words=(seckill inspect 10); CURRENT=3; _describe() { print -r -- ${(P)@[-1]}; }; \
                    compadd() { print -r -- $@; }; _clap_dynamic_completer_seckill";
        let text = printed("zsh", &["-f", "-c", line], &env);
        assert!(text.contains("1001"), "{text:?}");
        // As it is installed, from the first Tab on.
        let line = line.replace("inspect 10", "preheat fixtures/hol").replace("_clap_dynamic_completer_", "_").replace(
            "source <(seckill completions zsh)",
            "seckill completions zsh >$HOME/_seckill; fpath=($HOME $fpath); autoload -Uz _seckill",
        );
        assert!(printed("zsh", &["-f", "-c", &line], &env).contains("fixtures/holds.yaml"));
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("man1");
    let written = seckill(["man", "--to", to.to_str().unwrap()]).code(0).stdout_is("");
    let pages: Vec<_> = fs::read_dir(&to).unwrap().map(|page| page.unwrap().path()).collect();
    written.stderr_has(&format!("{} pages", pages.len()));
    assert!(pages.len() > 20, "{pages:?}");
    let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
    let root = read("seckill.1");
    for part in [".TH SECKILL 1", ".SH ENVIRONMENT", "SECKILL_URL", ".SH \"EXIT STATUS\"", "\\-\\-url"] {
        assert!(root.contains(part), "{part}: {root}");
    }
    let page = read("seckill-ledger-trim.1");
    for part in [".TH SECKILL-LEDGER-TRIM 1", "\\-\\-before", ".SH EXAMPLES", "seckill ledger trim", ".SH \"SEE ALSO\""]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(seckill(["man"]).code(0).stderr("").stdout, root);
    assert_eq!(seckill(["man", "ledger", "trim"]).code(0).stdout, page);
    seckill(["man", "leger"]).code(2).stderr_has("no command `leger`");
    seckill(["man", "--to", "/dev/null/x"]).code(1).stderr_has("cannot make");
    if has("groff") {
        for page in pages {
            let output = run("groff", &["-K", "utf8", "-man", "-ww", "-z", page.to_str().unwrap()], &[]);
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", page.display());
        }
    }
}

#[test]
fn the_long_version_has_the_commit_and_the_sha1_of_each_script() {
    seckill(["-V"]).code(0).stdout_is(concat!("seckill ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = seckill(["--version"]).code(0).stderr("").stdout;
    let mut lines = long.lines();
    assert_eq!(lines.next(), Some(concat!("seckill ", env!("CARGO_PKG_VERSION"))));
    let commit = lines.next().unwrap().strip_prefix("commit ").unwrap();
    let is_hex = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(commit == "unknown" || is_hex(&commit[..40]), "{commit}");
    // A line for each text that runs: those of one kind have it behind the name.
    let mut texts = BTreeSet::new();
    for layout in LAYOUTS {
        for script in seckill(["script", "list", "-o", "jsonl", "-l", layout.name]).code(0).jsonl() {
            let (name, sha1) = (script["name"].as_str().unwrap(), script["sha1"].as_str().unwrap());
            // A counter's holds are refused by the script of hashes.
            let names = [name.to_owned(), format!("{name}.{}", layout.kind), format!("{name}.hash")];
            let is_said = |name: &String| long.lines().any(|line| line.split_whitespace().eq([name, sha1]));
            assert!(names.iter().any(is_said), "{name}: {long}");
            texts.insert(sha1.to_owned());
        }
    }
    assert_eq!(lines.next(), Some("scripts"));
    assert_eq!(lines.count(), texts.len());
    // The command says the same, also for programs.
    seckill(["version"]).code(0).stdout_is(&long);
    let said = seckill(["version", "-o", "json"]).code(0).json();
    assert_eq!((&said["version"], &said["commit"]), (&env!("CARGO_PKG_VERSION").into(), &commit.into()));
    let scripts: BTreeSet<String> =
        said["scripts"].as_object().unwrap().values().map(|sha1| sha1.as_str().unwrap().to_owned()).collect();
    assert_eq!(scripts, texts);
    seckill(["version", "-o", "csv"]).code(2).stderr_has("no form as csv");
}

#[test]
fn an_installation_has_its_pages_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap().to_owned();
    let binary = binary().into_string().unwrap();
    let data = format!("{root}/data");
    for (variables, share) in [
        (vec![("DESTDIR", root.as_str()), ("PREFIX", "/usr")], format!("{root}/usr/share")),
        (vec![("XDG_DATA_HOME", data.as_str())], data.clone()),
    ] {
        let output = run("scripts/install", &[&binary], &variables);
        assert!(output.status.success(), "{output:?}");
        for file in [
            "man/man1/seckill.1",
            "man/man1/seckill-ledger-trim.1",
            "bash-completion/completions/seckill",
            "zsh/site-functions/_seckill",
            "fish/vendor_completions.d/seckill.fish",
        ] {
            assert!(fs::metadata(format!("{share}/{file}")).is_ok_and(|about| about.len() > 100), "{share}/{file}");
        }
    }
    assert!(Path::new(&format!("{root}/usr/bin/seckill")).exists());
    assert!(!Path::new(&format!("{data}/bin")).exists());
}
