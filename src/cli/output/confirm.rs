//! Questions, asked only of somebody who can answer.

use std::io::{self, BufRead, Write};

use crate::cli::failure::Failure;
use crate::cli::output::escape::escape;
use crate::cli::output::terminal::Terminal;
use crate::error::cause;

impl Terminal {
    /// Asks before something is lost; `yes` has answered already. Without a terminal it refuses instead of waiting
    /// for an answer that cannot come.
    pub fn confirm(&self, question: &str, yes: bool) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.asks {
            return Err(Failure::usage(format!("there is no terminal to ask on: {question}"))
                .hint("`--yes` answers for scripts; `--dry-run` shows what would happen"));
        }
        let question = format!("{question} [y/N]");
        let answer = ask(&question).map_err(|error| Failure::failed(format!("cannot ask: {}", cause(&error))))?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::failed("not confirmed, so nothing was changed")),
        }
    }

    /// Asks for the name of a protected context. A yes that was given beforehand is for other questions.
    pub fn confirm_name(&self, name: &str, shown: &str) -> Result<(), Failure> {
        if !self.asks {
            return Err(Failure::usage(format!("`{name}` is protected, and there is no terminal to ask on"))
                .hint(format!("`--confirm {name}` answers for scripts; `--yes` alone does not")));
        }
        let question = format!("{shown} is protected. Type `{name}` to change it:");
        let answer = ask(&question).map_err(|error| Failure::failed(format!("cannot ask: {}", cause(&error))))?;
        match answer.trim() == name {
            true => Ok(()),
            false => Err(Failure::failed("that is not its name, so nothing was changed")),
        }
    }
}

fn ask(question: &str) -> io::Result<String> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{} ", escape(question))?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if !answer.ends_with('\n') {
        writeln!(stderr)?;
    }
    Ok(answer)
}
