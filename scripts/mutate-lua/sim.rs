//! Changes of the scripts that the simulator must notice by itself: no server, no other test.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::changes::{Mutant, mutants_of};
use crate::scripts::{all_files, sha1, temporary};

/// Scripts that the simulator does not run, and what only they include.
const NOT_SIMULATED: [&str; 6] = ["adopt", "archive", "restore", "parent", "peek", "drop_in"];

/// The searches of `tests/sim`, each with how many seeds it tries before a change counts as not noticed.
const SEARCHES: [(&str, &str); 3] = [("of_a_sale", "2000"), ("of_the_client", "700"), ("of_shards", "300")];

/// The scripts as the build script of the package builds them, in a tree of their own.
struct Tree {
    build_script: PathBuf,
    root: PathBuf,
}

impl Tree {
    fn new(build_script: &str) -> Self {
        let root = temporary("tree");
        for file in all_files() {
            let copy = root.join(&file);
            fs::create_dir_all(copy.parent().expect("a directory")).unwrap();
            fs::copy(file, copy).unwrap();
        }
        Self { build_script: fs::canonicalize(build_script).expect("the build script"), root }
    }

    /// The text of each script by its name; `None` if it cannot be built.
    fn built(&self) -> Option<HashMap<String, String>> {
        let out = self.root.join("out");
        let mut command = Command::new(&self.build_script);
        command.current_dir(&self.root).env("OUT_DIR", &out).env("CARGO_PKG_VERSION", "0").stdout(Stdio::null());
        command.env("CARGO_MANIFEST_DIR", &self.root).stderr(Stdio::null());
        command.status().expect("the build script").success().then_some(())?;
        let texts = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
        let texts = texts.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
        Some(texts.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect())
    }

    fn with(&self, mutant: &Mutant) -> Option<HashMap<String, String>> {
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

/// Tries each `every`th change, from the one with the number `offset` on.
pub fn mutate(simulator: &str, build_script: &str, every: usize, offset: usize) {
    let simulator = fs::canonicalize(simulator).expect("the simulator");
    let tree = Tree::new(build_script);
    let unchanged = tree.built().expect("the scripts");
    let is_simulated = |file: &PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        !file.starts_with("lua/drop-in") && !NOT_SIMULATED.contains(&&*name)
    };
    let mutants: Vec<Mutant> =
        all_files().iter().filter(|file| is_simulated(file)).flat_map(|file| mutants_of(file)).collect();
    let (mut caught, mut survived) = (0, 0);
    for mutant in mutants.iter().skip(offset).step_by(every) {
        let place = format!("{}:{}", mutant.file.display(), mutant.line + 1);
        let scripts = tree.root.join("changed");
        let _ = fs::remove_dir_all(&scripts);
        fs::create_dir_all(&scripts).unwrap();
        let Some(built) = tree.with(mutant) else { continue };
        for (name, text) in built.iter().filter(|(name, text)| unchanged[*name] != **text) {
            fs::write(scripts.join(sha1(&unchanged[name]) + ".lua"), text).unwrap();
        }
        match noticed(&simulator, &scripts) {
            Some(search) => {
                caught += 1;
                eprintln!("caught {place} {search}");
            }
            None => {
                survived += 1;
                println!("SURVIVED {place}\n  - {}\n  + {}", mutant.before.trim(), mutant.after.trim());
            }
        }
    }
    let _ = fs::remove_dir_all(&tree.root);
    println!("the simulator alone: {caught} of {} changes are caught, {survived} survived", caught + survived);
}
