//! What runs before have found, kept beside the coverage: which changes survived, and which tests notice changes.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::changes::Mutant;

/// File, line before and line after.
type Change = (String, String, String);

pub struct Survived {
    file: PathBuf,
    changes: BTreeSet<Change>,
}

impl Survived {
    /// Those of earlier runs that can still be made.
    pub fn read(file: PathBuf, mutants: &[Mutant]) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let stored: BTreeSet<Change> = text
            .lines()
            .filter_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
                [file, before, after] => Some((file.to_owned(), before.to_owned(), after.to_owned())),
                _ => None,
            })
            .collect();
        let changes = mutants.iter().map(change).filter(|change| stored.contains(change)).collect();
        Self { file, changes }
    }

    pub fn contains(&self, mutant: &Mutant) -> bool {
        self.changes.contains(&change(mutant))
    }

    pub fn note(&mut self, mutant: &Mutant, has_survived: bool) {
        let change = change(mutant);
        let is_new = if has_survived { self.changes.insert(change) } else { self.changes.remove(&change) };
        if is_new {
            let lines: String =
                self.changes.iter().map(|(file, before, after)| format!("{file}\t{before}\t{after}\n")).collect();
            fs::write(&self.file, lines).unwrap();
        }
    }
}

fn change(mutant: &Mutant) -> Change {
    let [before, after] = [&mutant.before, &mutant.after].map(|line| line.trim().replace('\t', " "));
    (mutant.file.display().to_string(), before, after)
}

/// By file and test: how often it ran on a change, and how often it failed.
pub type Seen = HashMap<(PathBuf, String), (f64, f64)>;

pub fn read_seen(file: &Path) -> Seen {
    let text = fs::read_to_string(file).unwrap_or_default();
    let parsed = text.lines().filter_map(|line| {
        let [file, test, ran, failed] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        Some(((PathBuf::from(file), test.to_owned()), (ran.parse().ok()?, failed.parse().ok()?)))
    });
    parsed.collect()
}

pub fn write_seen(file: &Path, seen: &Seen) {
    let line = |((file, test), (ran, failed)): (&(PathBuf, String), &(f64, f64))| {
        format!("{}\t{test}\t{ran}\t{failed}\n", file.display())
    };
    fs::write(file, seen.iter().map(line).collect::<String>()).unwrap();
}
