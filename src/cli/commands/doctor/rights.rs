//! Whether this user may run what each command of `seckill` needs, and its scripts may call it on this server.

use std::collections::BTreeSet;

use crate::cli::commands::doctor::row::{Check, CheckRow, CheckStatus, Finding};
use crate::cli::shared::fix::Fixes;
use crate::model::{ActivityId, Kind, Layout};
use crate::read::health::{Granted, Node, Reading};
use crate::script::keys::Keys;
use crate::script::{self, Script};

/// A command of ours: its scripts, and what it sends besides.
struct Command {
    name: &'static str,
    scripts: &'static [&'static Script],
    rights: &'static [&'static str],
}

const fn command(name: &'static str, scripts: &'static [&'static Script], rights: &'static [&'static str]) -> Command {
    Command { name, scripts, rights }
}

/// What only looks; without these rights nothing works.
const FIRST: &str = "inspect";

static COMMANDS: [Command; 25] = [
    command(FIRST, &[&script::SNAPSHOT], &["sscan", PARTICIPANTS]),
    command("inspect --scan", &[], &["scan"]),
    command("reconcile", &[&script::SNAPSHOT], &["xrange", PARTICIPANTS]),
    command("reconcile --fix", &[&script::REPAIR], &[]),
    command("report", &[&script::SNAPSHOT], &["xrange", PARTICIPANTS]),
    command("ledger", &[], &["xread"]),
    command("ledger --group", &[], &["xgroup|create", "xreadgroup", "xack"]),
    command("ledger trim", &[&script::TRIM], &[]),
    command("preheat", &[&script::PREHEAT], &["sadd"]),
    command("preheat --adopt", &[&script::ADOPT], &["sadd", "zrangebyscore", PARTICIPANTS]),
    command("deduct", &[script::DEDUCT.of(Kind::Hash)], &[]),
    command("deduct --from", &[script::DEDUCT_FILE.of(Kind::Hash)], &["script|load"]),
    command("multi-deduct", &[script::MULTI_DEDUCT.of(Kind::Hash), script::MULTI_DEDUCT_FILE.of(Kind::Hash)], &[]),
    command("refund", &[script::REFUND.of(Kind::Hash)], &[]),
    command("refund --from", &[script::REFUND_FILE.of(Kind::Hash)], &["script|load"]),
    command("hold", &[script::HOLD.of(Kind::Hash)], &[]),
    command("hold --from", &[script::HOLD_FILE.of(Kind::Hash)], &["script|load"]),
    command("confirm, release", &[script::SETTLE.of(Kind::Hash)], &[]),
    command("confirm, release --from", &[script::SETTLE_FILE.of(Kind::Hash)], &["script|load"]),
    command("expire", &[script::SETTLE.of(Kind::Hash)], &[]),
    command(HOLDS, &[], &["zrangebyscore", "hmget"]),
    command("pause, resume", &[&script::PAUSE], &[]),
    command("archive", &[&script::ARCHIVE, &script::SNAPSHOT], &["watch", "multi", "exec", "xrange", PARTICIPANTS]),
    command("preheat --restore", &[&script::RESTORE], &["sadd"]),
    command("--wait-replicas", &[], &["wait"]),
];

/// It lists what only users can have.
const HOLDS: &str = "inspect --holds";

/// Stands for the scan of participants, by what they are.
const PARTICIPANTS: &str = "participants";

impl Command {
    /// Whether the layout has what it is about: a counter records nobody who could hold units.
    fn is_of(&self, layout: Layout) -> bool {
        let is_of_holds = self.name == HOLDS
            || self.scripts.iter().any(|script| matches!(script.name, "hold" | "hold_file" | "settle" | "settle_file"));
        layout.kind().has_users() || !is_of_holds
    }

    /// What its scripts call, as ACL names it.
    fn calls(&self, kind: Kind) -> BTreeSet<String> {
        let name = |need: String| match &*need {
            "xinfo" => "xinfo|groups".to_owned(),
            "xgroup" => "xgroup|create".to_owned(),
            _ => need,
        };
        self.scripts.iter().flat_map(|script| script.needs(kind)).map(name).collect()
    }

    fn needs(&self, layout: Layout, is_cluster: bool) -> BTreeSet<String> {
        let kind = layout.kind();
        let mut needs = self.calls(kind);
        if !self.scripts.is_empty() {
            needs.extend(["eval", "evalsha"].map(str::to_owned));
        }
        needs.extend(self.rights.iter().filter(|right| **right != PARTICIPANTS).map(|right| (*right).to_owned()));
        if self.rights.contains(&PARTICIPANTS) && kind.has_users() {
            needs.insert(if kind == Kind::Hash { "hscan" } else { "sscan" }.to_owned());
        }
        if is_cluster {
            needs.extend(["cluster|slots", "asking"].map(str::to_owned));
        }
        needs
    }

    /// A user who may not even read can do nothing; one who may only read is as it should be.
    fn finding(&self, found: &str, fix: String, node: &Node, is_cluster: bool) -> Finding {
        let found = if is_cluster { format!("{found} at {}", node.name) } else { found.to_owned() };
        if self.name == FIRST { Finding::fail(found, fix) } else { Finding::warn(found, fix) }
    }
}

/// All rights that any command needs.
pub(super) fn all(layout: Layout) -> Vec<String> {
    let all: BTreeSet<String> = COMMANDS
        .iter()
        .filter(|command| command.is_of(layout))
        .flat_map(|command| command.needs(layout, true))
        .collect();
    all.into_iter().collect()
}

/// What fixes of settings and rights need.
pub(super) const OF_ADMINISTRATORS: [&str; 2] = ["config|set", "acl|setuser"];

/// Whether the user may change settings and rights, of all that was asked.
pub(super) fn administers(asked: &[String], granted: &[Granted]) -> bool {
    OF_ADMINISTRATORS.iter().all(|right| answer(right, asked, granted) == Some(&Granted::Yes))
}

/// The answer about one right, of all that was asked.
fn answer<'a>(right: &str, asked: &[String], granted: &'a [Granted]) -> Option<&'a Granted> {
    asked.iter().position(|name| name == right).and_then(|at| granted.get(at))
}

/// A row for each command; on a cluster, of each node that refuses it.
pub(super) fn rows(nodes: &[(&Node, &Fixes)], asked: &[String], layout: Layout, is_cluster: bool) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for command in COMMANDS.iter().filter(|command| command.is_of(layout)) {
        let needs = command.needs(layout, is_cluster);
        let (mut refused, mut granted) = (Vec::new(), 0);
        for (node, fixes) in nodes {
            let Ok(Reading { rights: Ok(rights), .. }) = &node.reading else { continue };
            let lacks = |rules: Vec<String>| {
                let found = format!("user `{}` lacks {}", user(node), rules.join(" "));
                let finding = command.finding(&found, fixes.grant(user(node), &rules), node, is_cluster);
                // Who may not scan sees each activity and each user by its name.
                let is_scan = |rule: &String| matches!(rule.as_str(), "+hscan" | "+sscan");
                if rules.iter().all(is_scan) { Finding { status: CheckStatus::Warn, ..finding } } else { finding }
            };
            let refusal = missing(&needs, asked, rights, layout)
                .map(lacks)
                .or_else(|| refused_call(command, layout.kind(), node, fixes, is_cluster));
            granted += usize::from(refusal.is_none());
            refused.extend(refusal);
        }
        if refused.is_empty() && granted > 0 {
            rows.push(Finding::ok("allowed").row(Check::Rights, command.name));
        }
        rows.extend(refused.into_iter().map(|finding| finding.row(Check::Rights, command.name)));
    }
    let mut unknown: Vec<CheckRow> = nodes.iter().filter_map(|(node, fixes)| unknown(node, fixes)).collect();
    unknown.sort_by(|one, other| one.target.cmp(&other.target));
    rows.extend(unknown);
    rows
}

/// The row of a node that does not say what this user may do. Without EVAL nobody can ask, and nothing works.
fn unknown(node: &Node, fixes: &Fixes) -> Option<CheckRow> {
    let why = node.reading.as_ref().ok()?.rights.as_ref().err()?;
    let finding = if why.contains("EVAL") { no_scripts(why, node, fixes) } else { Finding::skip(why) };
    Some(finding.row(Check::Rights, &node.name))
}

/// The server runs no script, for whatever reason.
fn no_scripts(why: &str, node: &Node, fixes: &Fixes) -> Finding {
    let nothing = "no command of seckill works";
    if why.contains("may not run") {
        let rules = ["+eval".to_owned(), "+evalsha".to_owned()];
        return Finding::fail(format!("{why}: {nothing}"), fixes.grant(user(node), &rules));
    }
    if why.contains("scripting engine") {
        let found = format!("the server has no engine for Lua, which Valkey has as a module since 9.1: {nothing}");
        return Finding::fail(found, fixes.administer(&["MODULE", "LIST"]));
    }
    let call: &[&str] = if why.contains("EVALSHA") { &["EVALSHA", "x", "0"] } else { &["EVAL", "return 1", "0"] };
    Finding::fail(format!("{why}: {nothing}"), fixes.command(call))
}

/// Rules that are missing, as ACL SETUSER takes them.
fn missing(needs: &BTreeSet<String>, asked: &[String], rights: &[Granted], layout: Layout) -> Option<Vec<String>> {
    let of = |right: &String| answer(right, asked, rights);
    let mut rules = BTreeSet::new();
    for right in needs {
        match of(right) {
            Some(Granted::No) => _ = rules.insert(format!("+{right}")),
            Some(Granted::NotOn(keys)) => rules.extend(keys.iter().map(|key| pattern(key, layout))),
            Some(Granted::Yes) | None => {}
        }
    }
    // A user who may touch no key may run no command on one, whatever its other rights are.
    let is_keyless =
        |right: &String| matches!(right.as_str(), "eval" | "evalsha" | "time" | "script|load" | "scan" | "wait");
    let of_keys: Vec<&String> = needs
        .iter()
        .filter(|right| !is_keyless(right) && !right.starts_with("cluster") && *right != "asking")
        .collect();
    let looks = COMMANDS[0].needs(layout, false);
    let sees_none = looks.iter().filter(|right| !is_keyless(right)).all(|right| of(right) == Some(&Granted::No));
    if sees_none && of_keys.len() > 2 && of_keys.iter().all(|right| of(right) == Some(&Granted::No)) {
        rules.retain(|rule| !of_keys.iter().any(|right| *rule == format!("+{right}")));
        rules.extend(of_keys.iter().map(|right| format!("+{right}")));
        rules.extend(example(layout, EXAMPLE).all().map(|key| pattern(key, layout)));
    }
    // Who may not touch a key of the example may not touch the index either, which needs a pattern of its own if the id comes first.
    if rules.iter().any(|rule| rule.starts_with('~')) {
        rules.insert(pattern(Keys::index(layout), layout));
    }
    (!rules.is_empty()).then(|| rules.into_iter().collect())
}

/// The activity whose keys were asked about, and another one.
const EXAMPLE: &[u8] = b"1";
const OTHER_EXAMPLE: &[u8] = b"2";

fn example(layout: Layout, id: &[u8]) -> Keys {
    Keys::of(layout, &ActivityId::validated(id))
}

/// The pattern of keys of the example: `~stock:*` of `stock:1`, what is before the first `:` or `_` if that is before the id; else all
/// but the id, as `~shop-*:left`.
fn pattern(key: &str, layout: Layout) -> String {
    let (of_one, of_other) = (example(layout, EXAMPLE), example(layout, OTHER_EXAMPLE));
    let other = of_one.all().zip(of_other.all()).find_map(|(one, other)| (one == key).then_some(other)).unwrap_or(key);
    let id = key.bytes().zip(other.bytes()).position(|(one, other)| one != other).unwrap_or(key.len());
    match key[..id].find([':', '_']) {
        Some(separator) => format!("~{}*", &key[..=separator]),
        None => format!("~{}*{}", &key[..id], key.get(id + EXAMPLE.len()..).unwrap_or_default()),
    }
}

/// The first call of a command's scripts that the server refused when it was tried.
fn refused_call(command: &Command, kind: Kind, node: &Node, fixes: &Fixes, is_cluster: bool) -> Option<Finding> {
    let tried = node.reading.as_ref().ok()?.dry_run.as_ref().ok()?;
    let calls = command.calls(kind);
    let refused = tried.calls.iter().find(|call| call.why.is_some() && calls.contains(call.name))?;
    let (name, why) = (refused.name.to_uppercase(), refused.why.as_deref().unwrap_or_default());
    let found = format!("scripts may not call {name}: {why}");
    let fix = fixes.command(&["EVAL", refused.text, "1", &tried.key]);
    Some(command.finding(&found, fix, node, is_cluster))
}

fn user(node: &Node) -> &str {
    node.username.as_deref().unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::CustomLayout;

    #[test]
    fn a_pattern_covers_the_keys_of_all_activities() {
        let of =
            |layout: Layout| example(layout, EXAMPLE).all().map(|key| pattern(key, layout)).collect::<BTreeSet<_>>();
        assert_eq!(of(Layout::Seckill), BTreeSet::from(["~seckill:*".to_owned()]));
        assert_eq!(of(Layout::Cluster), BTreeSet::from(["~seckill:*".to_owned()]));
        assert!(of(Layout::Product).contains("~product_*"));
        let users = Some("shop-<id>".parse().unwrap());
        let custom = Layout::Custom(CustomLayout::new(Kind::Hash, "<id>:left".parse().unwrap(), users).unwrap());
        assert!(["~*:left", "~shop-*"].iter().all(|pattern| of(custom).contains(*pattern)), "{:?}", of(custom));
    }
}
