//! What is wrong with a file, and where: collected, so that one run reports every mistake.

use std::fmt;

use crate::cli::failure::Failure;

/// How many problems of one file are shown; of the others only the number.
const MAX_SHOWN: usize = 10;

/// A place in a file, as editors count it: from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

#[derive(Debug)]
pub struct Problem {
    at: Location,
    message: String,
    hint: Option<String>,
}

impl Problem {
    /// What is wrong there: the offending text, and what was expected.
    pub fn new(at: Location, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// A problem was reported, and the caller has nothing to add.
#[derive(Debug, Clone, Copy)]
pub struct Reported;

#[derive(Debug)]
pub struct Problems {
    file: String,
    shown: Vec<Problem>,
    hidden: usize,
}

impl Problems {
    /// None yet, of a file that messages call by this name.
    pub fn of(file: impl Into<String>) -> Self {
        Self { file: file.into(), shown: Vec::new(), hidden: 0 }
    }

    /// The error of a file that has one problem.
    pub fn only(file: &str, problem: Problem) -> Failure {
        Failure { hint: problem.hint, ..Failure::usage(format!("{file}:{}: {}", problem.at, problem.message)) }
    }

    /// Whether only the number of further problems matters.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= MAX_SHOWN
    }

    pub fn any(&self) -> bool {
        !self.shown.is_empty()
    }

    pub fn report(&mut self, problem: Problem) -> Reported {
        if self.is_full() {
            self.hidden += 1;
        } else {
            self.shown.push(problem);
        }
        Reported
    }

    /// One error for all of them, in the order of the file.
    ///
    /// # Errors
    /// There is at least one problem.
    pub fn end(mut self) -> Result<(), Failure> {
        self.shown.sort_by_key(|problem| (problem.at.line, problem.at.column));
        let shown = |problem: &Problem| format!("{}:{}: {}", self.file, problem.at, problem.message);
        match self.shown.as_slice() {
            [] => Ok(()),
            [only] => Err(Failure { hint: only.hint.clone(), ..Failure::usage(shown(only)) }),
            several => {
                let mut message = format!("{} problems in `{}`", several.len() + self.hidden, self.file);
                // One hint for all of them is said once.
                let common =
                    several[0].hint.clone().filter(|hint| several.iter().all(|it| it.hint.as_ref() == Some(hint)));
                for problem in several {
                    let hint = problem
                        .hint
                        .as_ref()
                        .filter(|_| common.is_none())
                        .map(|hint| format!(" ({hint})"))
                        .unwrap_or_default();
                    message.push_str(&format!("\n  {}{hint}", shown(problem)));
                }
                if self.hidden > 0 {
                    message.push_str(&format!("\n  … and {} more", self.hidden));
                }
                Err(Failure { hint: common, ..Failure::usage(message) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize) -> Location {
        Location { line, column: 3 }
    }

    #[test]
    fn a_single_problem_reads_as_an_editor_wants_it() {
        let mut problems = Problems::of("sale.yaml");
        problems.report(Problem::new(at(7), "stock: `-5` is wrong").hint("count again".to_owned()));
        let error = problems.end().unwrap_err();
        assert_eq!(error.to_string(), "sale.yaml:7:3: stock: `-5` is wrong");
        assert_eq!(error.hint.as_deref(), Some("count again"));
    }

    #[test]
    fn many_problems_are_shown_in_order_and_those_past_ten_are_counted() {
        let mut problems = Problems::of("sale.yaml");
        for line in (1..=12).rev() {
            problems.report(Problem::new(at(line), "no"));
        }
        let message = problems.end().unwrap_err().to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "12 problems in `sale.yaml`");
        assert_eq!(lines[1], "  sale.yaml:3:3: no");
        assert_eq!(lines[11], "  … and 2 more");
    }
}
