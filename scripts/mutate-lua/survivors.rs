//! Changes that are known to survive, because they change nothing that matters: `survivors.md` says why.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::changes::Mutant;

/// Reasons by file, line before and line after.
pub struct Known(HashMap<(PathBuf, String, String), String>);

impl Known {
    /// Lines such as ``- `before` → `after`: reason`` behind a heading `## lua/file.lua`.
    pub fn read(list: &Path) -> Self {
        let text = fs::read_to_string(list).expect("the list of known survivors");
        let (mut file, mut found) = (PathBuf::new(), HashMap::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                file = PathBuf::from(name);
                assert!(file.is_file(), "{} has changes of {name}, which is not there", list.display());
            } else if let Some(entry) = line.strip_prefix("- `") {
                let parts =
                    entry.split_once("` → `").and_then(|(before, rest)| Some((before, rest.split_once("`: ")?)));
                let (before, (after, reason)) = parts.unwrap_or_else(|| panic!("{}: {line}", list.display()));
                let is_there = crate::changes::mutants_of(&file)
                    .iter()
                    .any(|it| it.before.trim() == before && it.after.trim() == after);
                assert!(is_there, "{}: {} has no such change any more: {line}", list.display(), file.display());
                found.insert((file.clone(), before.to_owned(), after.to_owned()), reason.to_owned());
            }
        }
        Self(found)
    }

    pub fn reason(&self, mutant: &Mutant) -> Option<&str> {
        let Mutant { file, before, after, .. } = mutant;
        self.0.get(&(file.clone(), before.trim().to_owned(), after.trim().to_owned())).map(String::as_str)
    }
}
