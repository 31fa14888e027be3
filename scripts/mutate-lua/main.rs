//! Changes the scripts in `lua/` one small thing at a time, and prints the changes that the simulator does not notice by itself: no
//! server, no other test. `scripts/mutants` compiles this with rustc alone and runs it:
//!
//!   mutate-lua SIMULATOR BUILD_SCRIPT [EVERY[+OFFSET] [FILE[:LINE]]]
//!
//! With EVERY = 20 only each twentieth change, 20+7 other ones; FILE such as lua/refund.lua, or lua/refund.lua:90. The build script of
//! the package builds the scripts in a tree of their own; the simulator runs them instead of those that it was built with.

mod changes;
mod survivors;

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use changes::{Mutant, mutants_of};
use survivors::Known;

/// The tests of `tests/sim` that are asked, those first that take the least time, each with how many seeds it tries before a change
/// counts as not noticed.
const SEARCHES: [(&str, &str); 5] = [
    ("one_wrong::transcripts", "0"),
    ("one_wrong::scenarios", "0"),
    ("search::no_history_of_a_sale", "3000"),
    ("search::no_night", "700"),
    ("search::no_history_of_shards", "300"),
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [simulator, build_script, options @ ..] = &arguments[..] else {
        panic!("usage: mutate-lua SIMULATOR BUILD_SCRIPT [EVERY[+OFFSET] [FILE[:LINE]]]");
    };
    let (every, offset) = options.first().map_or(("1", "0"), |every| every.split_once('+').unwrap_or((every, "0")));
    let [every, offset] = [every, offset].map(|number| number.parse().expect("EVERY is a number"));
    let only = options.get(1).map(String::as_str);
    let is_wanted = |mutant: &Mutant| {
        let file = mutant.file.display();
        only.is_none_or(|only| only == format!("{file}") || only == format!("{file}:{}", mutant.line + 1))
    };
    let mutants: Vec<Mutant> = all_files().iter().flat_map(|file| mutants_of(file)).filter(is_wanted).collect();
    let chosen: Vec<&Mutant> = mutants.iter().skip(offset).step_by(every).collect();
    eprintln!("{} of {} changes", chosen.len(), mutants.len());

    let simulator = fs::canonicalize(simulator).expect("the simulator");
    let known = Known::read(Path::new("scripts/mutate-lua/survivors.md"));
    let tree = Tree::new(build_script);
    let unchanged = tree.built().expect("the scripts");
    let (mut caught, mut equivalent, mut survived) = (0, 0, 0);
    for mutant in chosen {
        let place = format!("{}:{}", mutant.file.display(), mutant.line + 1);
        if let Some(reason) = known.reason(mutant) {
            equivalent += 1;
            println!("known {place}: {reason}");
            continue;
        }
        // What cannot be built is no change.
        let Some(built) = tree.with(mutant) else { continue };
        let scripts = tree.root.join("changed");
        let _ = fs::remove_dir_all(&scripts);
        fs::create_dir_all(&scripts).unwrap();
        for (name, text) in built.iter().filter(|(name, text)| unchanged[*name] != **text) {
            fs::write(scripts.join(sha1(&unchanged[name]) + ".lua"), text).unwrap();
        }
        let [before, after] = [&mutant.before, &mutant.after].map(|line| line.trim());
        match noticed(&simulator, &scripts) {
            Some(search) => {
                caught += 1;
                eprintln!("caught {place} {search}: {before} -> {after}");
            }
            None => {
                survived += 1;
                println!("SURVIVED {place}\n  - {before}\n  + {after}");
            }
        }
    }
    let _ = fs::remove_dir_all(&tree.root);
    let share = 100.0 * f64::from(caught) / f64::from((caught + survived).max(1));
    println!("{caught} changes are caught ({share:.1} %), {survived} survived, {equivalent} change nothing that matters");
}

/// The scripts as the build script of the package builds them, in a tree of their own.
struct Tree {
    build_script: PathBuf,
    root: PathBuf,
}

impl Tree {
    fn new(build_script: &str) -> Self {
        let root = env::temp_dir().join(format!("mutants-{}", std::process::id()));
        for file in all_files() {
            let copy = root.join(&file);
            fs::create_dir_all(copy.parent().expect("a directory")).unwrap();
            fs::copy(file, copy).unwrap();
        }
        Self { build_script: fs::canonicalize(build_script).expect("the build script"), root }
    }

    /// The text of each script by its file; `None` if it cannot be built.
    fn built(&self) -> Option<HashMap<PathBuf, String>> {
        let out = self.root.join("out");
        let mut command = Command::new(&self.build_script);
        command.current_dir(&self.root).env("OUT_DIR", &out).env("CARGO_PKG_VERSION", "0").stdout(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.root).stderr(Stdio::null());
        command.status().expect("the build script").success().then_some(())?;
        let files = [out.clone(), out.join("drop-in")].into_iter().flat_map(|directory| lua_files(&directory));
        Some(files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect())
    }

    fn with(&self, mutant: &Mutant) -> Option<HashMap<PathBuf, String>> {
        let source = fs::read_to_string(&mutant.file).unwrap();
        let mut lines: Vec<&str> = source.lines().collect();
        lines[mutant.line] = &mutant.after;
        fs::write(self.root.join(&mutant.file), lines.join("\n") + "\n").unwrap();
        let built = self.built();
        fs::write(self.root.join(&mutant.file), source).unwrap();
        built
    }
}

/// The search that notices the scripts in a directory, if one does. One that takes five minutes hangs, which is noticed too.
fn noticed(simulator: &Path, scripts: &Path) -> Option<&'static str> {
    let breaks = |search: &str, seeds: &str| {
        let mut command = Command::new("timeout");
        command.arg("300").arg(simulator).arg(search).env("SECKILL_SIM_SCRIPTS", scripts);
        command.env("SECKILL_SIM_HISTORIES", seeds).env("RUST_BACKTRACE", "0");
        !command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("timeout").success()
    };
    SEARCHES.into_iter().find(|(search, seeds)| breaks(search, seeds)).map(|(search, _)| search)
}

/// Every file, in order of their names.
fn all_files() -> Vec<PathBuf> {
    ["lua", "lua/lib", "lua/drop-in"].into_iter().flat_map(|directory| lua_files(Path::new(directory))).collect()
}

fn lua_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("run it at the top of the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "lua"));
    files.sort();
    files
}

fn sha1(text: &str) -> String {
    let mut process = Command::new("sha1sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha1sum");
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let printed = process.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&printed[..40]).into_owned()
}
