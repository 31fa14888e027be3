//! The checks for people: a short table, then what is wrong, why it matters, and what to paste.

use crate::cli::commands::doctor::row::{Check, CheckRow, CheckStatus};
use crate::cli::output::text::counted;
use crate::cli::output::{Cell, Output, OutputError, Tone, row, wrapped};

row! {
    /// A line of the table: one check, or several of one kind that went well, or found the same.
    struct Line as row {
        check: Check => Cell::text(row.check.name());
        target: String, flexible;
        status: CheckStatus => Cell::text(row.status.name()).tone(row.status.tone());
        found: String => match row.status {
            CheckStatus::Ok | CheckStatus::Skip => Cell::text(&row.found).wraps(),
            // The block below has it whole.
            CheckStatus::Warn | CheckStatus::Fail => Cell::text(&row.found).flexible(),
        };
    }
}

/// Columns of text if nothing bounds them.
const WIDTH: usize = 100;

/// Tables, counts, and what may be lost.
pub(super) fn tables(rows: &[CheckRow], loss: Option<&str>, out: &mut Output) -> Result<(), OutputError> {
    let mut ordered: Vec<&CheckRow> = rows.iter().collect();
    ordered.sort_by_key(|row| (row.check, row.status));
    let lines: Vec<Line> = ordered.chunk_by(|one, other| are_one_line(one, other)).map(line).collect();
    out.table(None, &lines)?;
    let width = out.terminal().width.unwrap_or(WIDTH).min(WIDTH);
    let mut is_set = false;
    for status in [CheckStatus::Fail, CheckStatus::Warn] {
        let of_status: Vec<&CheckRow> = rows.iter().filter(|row| row.status == status).collect();
        for same in of_status.chunk_by(|one, other| one.check == other.check) {
            block(same, width, out)?;
            is_set |= same.iter().any(|row| row.fix.as_ref().is_some_and(|fix| fix.contains(" CONFIG SET ")));
        }
    }
    let count = |status| lines.iter().filter(|line| line.status == status).count();
    let statuses = [CheckStatus::Fail, CheckStatus::Warn, CheckStatus::Skip, CheckStatus::Ok];
    let counts: Vec<String> = statuses.into_iter().map(|status| format!("{} {status}", count(status))).collect();
    out.line("")?;
    out.line(&counts.join(", "))?;
    for line in loss.into_iter().flat_map(|loss| wrapped(loss, width)) {
        out.line(&line)?;
    }
    if is_set {
        out.note(
            "CONFIG SET holds until the server restarts; CONFIG REWRITE keeps it in the server's configuration file",
        );
    }
    Ok(())
}

/// Rows of the same check that say the same of several servers or commands.
fn are_one_line(one: &CheckRow, other: &CheckRow) -> bool {
    // What is fine at one node and at the next needs no line each, though versions and numbers differ.
    let is_calm = matches!(one.status, CheckStatus::Ok | CheckStatus::Skip);
    one.check == other.check && one.status == other.status && (is_calm || one.found == other.found)
}

fn line(rows: &[&CheckRow]) -> Line {
    let first = rows[0];
    let found = match rows.iter().all(|row| row.found == first.found) {
        true => first.found.clone(),
        false => format!("{}; …", first.found),
    };
    let target = match rows.len() {
        1 => first.target.clone(),
        count if first.check == Check::Rights => counted(count, "command"),
        count => counted(count, "server"),
    };
    Line { check: first.check, target, status: first.status, found }
}

/// What is wrong by one check: why once, then targets that it found the same of, with a fix each.
fn block(rows: &[&CheckRow], width: usize, out: &mut Output) -> Result<(), OutputError> {
    let first = rows[0];
    out.line("")?;
    let name = format!("{} {}", first.status, first.check);
    out.toned(&name, first.status.tone())?;
    for line in wrapped(first.why, width.saturating_sub(2)) {
        out.line(&format!("  {line}"))?;
    }
    for same in rows.chunk_by(|one, other| one.found == other.found) {
        let targets: Vec<&str> = same.iter().map(|row| row.target.as_str()).collect();
        let text = format!("{}: {}", targets.join(", "), same[0].found);
        for (index, line) in wrapped(&text, width.saturating_sub(4)).iter().enumerate() {
            out.line(&format!("  {} {line}", if index == 0 { "-" } else { " " }))?;
        }
        // Never wrapped: they are to be pasted.
        for fix in same.iter().filter_map(|row| row.fix.as_ref()) {
            out.toned(&format!("    $ {fix}"), Tone::Info)?;
        }
    }
    Ok(())
}
