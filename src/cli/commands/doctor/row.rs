//! A check and how it went: rows for machines; for people a short table, then what is wrong, why it matters, and what to paste.

use crate::cli::failure::Result;
use crate::cli::output::{Cell, Output, Tone, counted, row, wrapped};
use crate::cli::shared::fix::SECKILL;
use crate::names;

/// Declares the checks in the order in which they are shown: the name of each, and why it matters.
macro_rules! checks {
    ($($(#[$what:meta])* $check:ident = $name:literal, $why:literal;)*) => {
        names! {
            /// What is checked.
            #[derive(PartialOrd, Ord)]
            pub enum Check { $($(#[$what])* $check = $name,)* }
        }

        impl Check {
            /// Why it matters.
            pub(super) fn why(self) -> &'static str {
                match self {
                    $(Self::$check => $why,)*
                }
            }
        }
    };
}

checks! {
    /// Who takes orders, and who only copies them.
    Role = "role", "only a primary takes orders; what a replica shows may be old";
    /// The slots of a cluster.
    Slots = "slots", "an activity whose slot nobody serves cannot be sold, and a slot left open in a move delays its orders";
    /// What survives a restart.
    Persistence = "persistence", "what is in memory alone is forgotten at a restart: who bought, what is left, every request id";
    /// What survives a power cut.
    Fsync = "fsync", "orders that were acknowledged but not on disk are lost when the machine stops, and their units are sold again";
    /// What happens when memory is full.
    Eviction = "eviction", "a server that deletes keys when memory is full deletes stock, buyers and ledgers: sales end, limits start over";
    /// Who has a copy.
    Replicas = "replicas", "without a copy on another machine, a disk or machine that breaks ends the sale";
    /// Whether a primary that is alone continues to sell.
    MinReplicas = "min_replicas", "a primary that was cut off continues to sell; what it sold is thrown away when it rejoins";
    /// How full memory is.
    Memory = "memory", "at maxmemory every order is refused; without a limit the kernel kills the server when the machine is full";
    /// What a slow reader may cost.
    OutputBuffers = "output_buffers", "a reader that is too slow fills the server's memory, or is cut off: a replica then copies everything anew";
    /// When a script that hangs can be ended.
    BusyReply = "busy_reply", "while a script hangs, nobody is served, and it can be killed only after this time";
    /// Scripts that kept everybody waiting.
    SlowScripts = "slow_scripts", "the server runs one call at a time: while a slow one runs, every buyer waits";
    /// The time by which sales open.
    Clock = "clock", "the server's clock opens and closes sales, and dates the ledger";
    /// Whether scripts run.
    Scripts = "scripts", "a proxy or a cloud may refuse a script as a whole, and the commands that need it with it";
    /// Known flaws of the server's Lua.
    LuaFlaws = "lua_flaws", "through them, a user who may run scripts may run code in the server, or as another user";
    /// What this user may do, and scripts may call.
    Rights = "rights", "a command without one of its rights, or of what its scripts call, is refused; on Redis 6.2 perhaps after its first writes";
    /// Keys that are missing or corrupt.
    Keys = "keys", "an activity lacks a key or holds what no order can read, so orders are refused or limits start over";
    /// Keys and fields that vanish by themselves.
    Expiry = "expiry", "a key or field that expires takes the stock, the buyers or the ledger of a sale along";
    /// Sales that are over.
    Window = "window", "outside its window an activity refuses every purchase: a later end reopens it, `archive` frees its memory";
    /// Changes that no ledger entry explains.
    ForeignWrites = "foreign_writes", "something changes the stock without a ledger entry: a backend's own script, a person, or data that was lost; pauses and audits cannot see it";
    /// Consumer groups that are behind.
    Feeds = "feeds", "a loader that stopped: orders do not reach the database, and `ledger trim` keeps what it has not read";
}

names! {
    /// How a check went.
    #[derive(PartialOrd, Ord)]
    pub enum CheckStatus {
        /// As it should be.
        Ok = "ok",
        /// It works, and will hurt one day.
        Warn = "warn",
        /// The sale is wrong, or will be.
        Fail = "fail",
        /// It could not be checked, or does not apply.
        Skip = "skip",
    }
}

impl CheckStatus {
    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Warn => Tone::Warn,
            Self::Fail => Tone::Bad,
            Self::Skip => Tone::Dim,
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub status: CheckStatus,
    pub found: String,
    /// A command that corrects it, or that shows more.
    pub fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self { status: CheckStatus::Ok, found: found.into(), fix: None }
    }

    pub(super) fn warn(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: CheckStatus::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn fail(found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: CheckStatus::Fail, found: found.into(), fix: Some(fix.into()) }
    }

    pub(super) fn skip(why: impl Into<String>) -> Self {
        Self { status: CheckStatus::Skip, found: why.into(), fix: None }
    }

    /// What could not be read cannot be checked.
    pub(super) fn unread<T>(read: &Result<T, String>) -> Self {
        Self::skip(read.as_ref().err().cloned().unwrap_or_default())
    }

    /// The row of this finding.
    pub(super) fn row(self, check: Check, target: impl Into<String>) -> CheckRow {
        let Self { status, found, fix } = self;
        CheckRow { check, target: target.into(), status, found, why: check.why(), fix }
    }
}

impl CheckRow {
    /// Whether its fix is a command of this tool.
    pub(super) fn is_fixed_by_seckill(&self) -> bool {
        self.fix.as_ref().is_some_and(|fix| fix.split(" && ").any(|line| line.starts_with(SECKILL)))
    }
}

row! {
    /// One check of one server, activity or command. In a table a row may be several of one kind that went well, or found
    /// the same.
    #[derive(Clone)]
    pub(super) struct CheckRow as row {
        pub check: Check => Cell::text(row.check.name());
        pub target: String, flexible;
        pub status: CheckStatus => Cell::text(row.status.name()).tone(row.status.tone());
        pub found: String => match row.status {
            CheckStatus::Ok | CheckStatus::Skip => Cell::text(&row.found).wraps(),
            // The block below has it whole.
            CheckStatus::Warn | CheckStatus::Fail => Cell::text(&row.found).flexible(),
        };
        data pub why: &'static str;
        data pub fix: Option<String>;
    }
}

/// Columns of text if nothing bounds them.
const WIDTH: usize = 100;

/// Tables, counts, and what may be lost.
pub(super) fn tables(rows: &[CheckRow], loss: Option<&str>, out: &mut Output) -> Result<()> {
    let mut ordered: Vec<&CheckRow> = rows.iter().collect();
    ordered.sort_by_key(|row| (row.check, row.status));
    let lines: Vec<CheckRow> = ordered.chunk_by(|one, other| are_one_line(one, other)).map(line).collect();
    out.table(None, &lines)?;
    let width = out.terminal().width.unwrap_or(WIDTH).min(WIDTH);
    let mut is_set = false;
    for status in [CheckStatus::Fail, CheckStatus::Warn] {
        let of_status: Vec<&CheckRow> = rows.iter().filter(|row| row.status == status).collect();
        for same in of_status.chunk_by(|one, other| one.check == other.check) {
            block(same, width, out);
            is_set |= same.iter().any(|row| row.fix.as_ref().is_some_and(|fix| fix.contains(" CONFIG SET ")));
        }
    }
    let count = |status| lines.iter().filter(|line| line.status == status).count();
    let statuses = [CheckStatus::Fail, CheckStatus::Warn, CheckStatus::Skip, CheckStatus::Ok];
    let counts: Vec<String> = statuses.into_iter().map(|status| format!("{} {status}", count(status))).collect();
    out.line("");
    out.line(&counts.join(", "));
    for line in loss.into_iter().flat_map(|loss| wrapped(loss, width)) {
        out.line(&line);
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

fn line(rows: &[&CheckRow]) -> CheckRow {
    let first = rows[0];
    let found = match rows.iter().all(|row| row.found == first.found) {
        true => first.found.clone(),
        false => format!("{}; …", first.found),
    };
    let target = match rows.len() {
        1 => first.target.clone(),
        count => counted(count, noun(first)),
    };
    CheckRow { target, found, ..first.clone() }
}

/// What a row is of.
fn noun(row: &CheckRow) -> &'static str {
    match row.check {
        // A node that does not say what this user may do has a row of its own, with its address.
        Check::Rights if !row.target.contains([':', '/']) => "command",
        Check::Expiry if row.target.contains([':', '/']) => "server",
        Check::Keys | Check::Expiry | Check::Window | Check::ForeignWrites | Check::Feeds => "activity",
        _ => "server",
    }
}

/// What is wrong by one check: why once, then targets that it found the same of, with a fix each.
fn block(rows: &[&CheckRow], width: usize, out: &mut Output) {
    let first = rows[0];
    out.line("");
    let name = format!("{} {}", first.status, first.check);
    out.parts(&[(name, first.status.tone())]);
    for line in wrapped(first.why, width.saturating_sub(2)) {
        out.line(&format!("  {line}"));
    }
    for same in rows.chunk_by(|one, other| one.found == other.found) {
        let targets: Vec<&str> = same.iter().map(|row| row.target.as_str()).collect();
        let text = format!("{}: {}", targets.join(", "), same[0].found);
        for (index, line) in wrapped(&text, width.saturating_sub(4)).iter().enumerate() {
            out.line(&format!("  {} {line}", if index == 0 { "-" } else { " " }));
        }
        // Never wrapped: they are to be pasted.
        let mut fixes: Vec<&String> = same.iter().filter_map(|row| row.fix.as_ref()).collect();
        fixes.dedup();
        for fix in fixes {
            out.parts(&[(format!("    $ {fix}"), Tone::Info)]);
        }
    }
}
